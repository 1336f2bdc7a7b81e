//! The encoding of whole events: [`Encoder`] and [`Decoder`].
//!
//! ```text
//! event  := version tag fields…
//! start  := head:slice                 the head as a slice, so that equal heads are compared as bytes
//! delta  := head:slice text
//! end    := head:slice reason:code
//! ```
//!
//! Every event carries its head: a reader may begin anywhere. A head has some hundred bytes; the cache of [`Encoder`] writes it without
//! walking through it again.

use std::sync::Arc;

use aqueduct_core::block::ToolOutput;
use aqueduct_core::event::{CustomEvent, EndReason, ToolResultEvent};
use aqueduct_core::{BlockEvent, BlockHead, BlockId, Lane, ToolCallId};
use bytes::Bytes;

use super::head::{
    CHANNELS, read_code, read_head, read_lane, read_origin, write_code, write_head, write_lane, write_origin,
};
use super::memory::Memory;
use super::read::Reader;
use super::write::Writer;
use super::{CodecError, FIRST_VERSION, VERSION, ends, value};

/// The tags of version 1, in the order of `BlockEvent`'s variants.
mod tag {
    pub(super) const RUN_STARTED: u8 = 0;
    pub(super) const LANE_OPENED: u8 = 1;
    pub(super) const LANE_CLOSED: u8 = 2;
    pub(super) const BLOCK_STARTED: u8 = 3;
    pub(super) const BLOCK_DELTA: u8 = 4;
    pub(super) const THINKING_ENCRYPTED: u8 = 5;
    pub(super) const BLOCK_ENDED: u8 = 6;
    pub(super) const TOOL_RESULT: u8 = 7;
    pub(super) const CUSTOM: u8 = 8;
    pub(super) const STEP_STARTED: u8 = 9;
    pub(super) const STEP_FINISHED: u8 = 10;
    pub(super) const STATE_SNAPSHOT: u8 = 11;
    pub(super) const STATE_DELTA: u8 = 12;
    pub(super) const USAGE: u8 = 13;
    pub(super) const INTERRUPT_REQUESTED: u8 = 14;
    pub(super) const RUN_FINISHED: u8 = 15;
    pub(super) const RUN_FAILED: u8 = 16;
}

/// The reasons for the end of a block by their code.
const REASONS: [EndReason; 4] =
    [EndReason::Complete, EndReason::Interrupted, EndReason::Closed, EndReason::Replaced];

/// The codes of the outputs of a tool.
const TEXT: u8 = 0;
const JSON: u8 = 1;
const PROGRESS: u8 = 2;

/// Encodes events. Keep one encoder per run: it caches the bytes of the last block head.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{BlockEvent, RunInfo};
/// use aqueduct_runlog::codec::{Decoder, Encoder};
///
/// let event = BlockEvent::RunStarted(RunInfo::new("thread", "run").into());
/// let bytes = Encoder::default().encode(&event)?;
/// assert_eq!(Decoder::default().decode(bytes.into())?, event);
/// # Ok::<(), aqueduct_runlog::codec::CodecError>(())
/// ```
#[derive(Debug, Default)]
pub struct Encoder {
    /// The head that was written last, and its bytes.
    head: Option<(Arc<BlockHead>, Vec<u8>)>,
}

impl Encoder {
    /// Encodes an event.
    ///
    /// # Errors
    ///
    /// Returns a [`CodecError`] if the event has no form in this version, or a value is nested too deep.
    pub fn encode(&mut self, event: &BlockEvent) -> Result<Vec<u8>, CodecError> {
        let mut to = Writer::default();
        to.byte(version_of(event));
        self.write(&mut to, event)?;
        Ok(to.bytes)
    }

    /// Writes tag and fields. Deltas first: nine of ten events.
    fn write(&mut self, to: &mut Writer, event: &BlockEvent) -> Result<(), CodecError> {
        match event {
            BlockEvent::BlockDelta { block, delta } => {
                to.byte(tag::BLOCK_DELTA);
                self.head(to, block)?;
                to.text(delta);
            }
            BlockEvent::BlockStarted(block) => {
                to.byte(tag::BLOCK_STARTED);
                self.head(to, block)?;
            }
            BlockEvent::ThinkingEncrypted { block, value } => {
                to.byte(tag::THINKING_ENCRYPTED);
                self.head(to, block)?;
                to.text(value);
            }
            BlockEvent::BlockEnded { block, reason } => {
                to.byte(tag::BLOCK_ENDED);
                self.head(to, block)?;
                write_code(to, &REASONS, reason, "the end of a block")?;
            }
            BlockEvent::ToolResult(result) => {
                to.byte(tag::TOOL_RESULT);
                write_result(to, result)?;
            }
            BlockEvent::Custom(custom) => {
                to.byte(tag::CUSTOM);
                write_custom(to, custom)?;
            }
            other => write_life(to, other)?,
        }
        Ok(())
    }

    /// Writes the head of a block, from the cache if it is that of the last event.
    fn head(&mut self, to: &mut Writer, block: &Arc<BlockHead>) -> Result<(), CodecError> {
        match &self.head {
            Some((known, bytes)) if Arc::ptr_eq(known, block) => to.slice(bytes),
            _ => {
                let mut own = Writer::default();
                write_head(&mut own, block)?;
                to.slice(&own.bytes);
                self.head = Some((Arc::clone(block), own.bytes));
            }
        }
        Ok(())
    }
}

/// Writes a lane as a slice, so that the decoder compares it with the known ones before it decodes
/// it.
fn lane(to: &mut Writer, lane: &Lane) -> Result<(), CodecError> {
    to.nested(|to| write_lane(to, lane))
}

/// Writes events of the run, its lanes, steps and state.
fn write_life(to: &mut Writer, event: &BlockEvent) -> Result<(), CodecError> {
    let mut open = |tag: u8, of: &Lane| {
        to.byte(tag);
        lane(to, of)
    };
    match event {
        BlockEvent::LaneOpened(of) => open(tag::LANE_OPENED, of)?,
        BlockEvent::LaneClosed { lane: of, outcome } => {
            open(tag::LANE_CLOSED, of)?;
            ends::write_lane_outcome(to, outcome)?;
        }
        BlockEvent::StepStarted { lane: of, name } => {
            open(tag::STEP_STARTED, of)?;
            to.text(name);
        }
        BlockEvent::StepFinished { lane: of, name } => {
            open(tag::STEP_FINISHED, of)?;
            to.text(name);
        }
        BlockEvent::StateSnapshot { lane: of, state } => {
            open(tag::STATE_SNAPSHOT, of)?;
            value::write(to, state)?;
        }
        BlockEvent::StateDelta { lane: of, patch } => {
            open(tag::STATE_DELTA, of)?;
            to.length(patch.len());
            patch.iter().try_for_each(|operation| value::write(to, operation))?;
        }
        BlockEvent::Usage { lane: of, usage } => {
            open(tag::USAGE, of)?;
            ends::write_usage(to, usage);
        }
        BlockEvent::InterruptRequested(pending) => {
            to.byte(tag::INTERRUPT_REQUESTED);
            ends::write_pending(to, pending)?;
        }
        BlockEvent::RunStarted(run) => {
            to.byte(tag::RUN_STARTED);
            ends::write_run(to, run);
        }
        BlockEvent::RunFinished(end) => {
            to.byte(tag::RUN_FINISHED);
            ends::write_finished(to, end)?;
            if version_of(event) == VERSION {
                to.optional_text(end.finish_reason.as_deref());
            }
        }
        BlockEvent::RunFailed(end) => {
            to.byte(tag::RUN_FAILED);
            ends::write_failed(to, end)?;
        }
        _ => return Err(CodecError::NoForm("an event")),
    }
    Ok(())
}

/// Writes a tool result: id, lane, call, tool, output with its code, error flag, origin.
fn write_result(to: &mut Writer, result: &ToolResultEvent) -> Result<(), CodecError> {
    to.text(result.id.as_str());
    lane(to, &result.lane)?;
    to.text(result.call_id.as_str());
    to.text(&result.tool_name);
    match &result.output {
        ToolOutput::Text(text) => {
            to.byte(TEXT);
            to.text(text);
        }
        ToolOutput::Json(json) => {
            to.byte(JSON);
            value::write(to, json)?;
        }
        ToolOutput::Progress(text) => {
            to.byte(PROGRESS);
            to.text(text);
        }
    }
    to.flag(result.is_error);
    write_origin(to, &result.origin)
}

/// Writes a custom event: id, lane, name, value, channel, origin.
fn write_custom(to: &mut Writer, custom: &CustomEvent) -> Result<(), CodecError> {
    to.text(custom.id.as_str());
    lane(to, &custom.lane)?;
    to.text(&custom.name);
    value::write(to, &custom.value)?;
    write_code(to, &CHANNELS, &custom.channel, "a channel")?;
    write_origin(to, &custom.origin)
}

/// Returns the oldest version that can represent the event.
fn version_of(event: &BlockEvent) -> u8 {
    match event {
        BlockEvent::RunFinished(end) if end.finish_reason.is_some() => VERSION,
        _ => FIRST_VERSION,
    }
}

/// Decodes events. Keep one decoder per run, so that events of one block share their head.
#[derive(Debug, Default)]
pub struct Decoder {
    heads: Memory<BlockHead>,
    lanes: Memory<Lane>,
}

impl Decoder {
    /// Decodes an event. Its texts are slices of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns a [`CodecError`] if the bytes have an unknown version, are truncated or are invalid.
    pub fn decode(&mut self, bytes: Bytes) -> Result<BlockEvent, CodecError> {
        let mut from = Reader::new(bytes);
        let version = match from.byte("the version")? {
            version @ FIRST_VERSION..=VERSION => version,
            found => return Err(CodecError::UnknownVersion { found }),
        };
        // The fields of version 2 follow all those of version 1, so both are read by the same code.
        let mut event = self.read(&mut from)?;
        if let (BlockEvent::RunFinished(end), VERSION) = (&mut event, version) {
            end.finish_reason = from.optional_text("a finish reason")?;
        }
        from.end()?;
        Ok(event)
    }

    /// Reads the tag of an event and its fields.
    fn read(&mut self, from: &mut Reader) -> Result<BlockEvent, CodecError> {
        Ok(match from.byte("the kind of an event")? {
            tag::BLOCK_DELTA => {
                let block = self.head(from)?;
                BlockEvent::BlockDelta { block, delta: from.text("a delta")? }
            }
            tag::BLOCK_STARTED => BlockEvent::BlockStarted(self.head(from)?),
            tag::THINKING_ENCRYPTED => {
                let block = self.head(from)?;
                BlockEvent::ThinkingEncrypted { block, value: from.text("a sealed thought")? }
            }
            tag::BLOCK_ENDED => {
                let block = self.head(from)?;
                BlockEvent::BlockEnded { block, reason: read_code(from, &REASONS, "the end of a block")? }
            }
            tag::TOOL_RESULT => BlockEvent::ToolResult(Box::new(self.result(from)?)),
            tag::CUSTOM => BlockEvent::Custom(Box::new(self.custom(from)?)),
            tag => self.life(tag, from)?,
        })
    }

    /// Reads a head, shared with earlier events of the block.
    fn head(&mut self, from: &mut Reader) -> Result<Arc<BlockHead>, CodecError> {
        let Self { heads, lanes } = self;
        heads.get(&from.slice("the head of a block")?, |from| read_head(from, lanes))
    }

    /// Reads a lane, shared with earlier events of the lane.
    fn lane(&mut self, from: &mut Reader) -> Result<Arc<Lane>, CodecError> {
        self.lanes.get(&from.slice("a lane")?, read_lane)
    }

    /// Reads the fields of an event of the run, its lanes, steps or state. An unknown tag is an error,
    /// also in a known version.
    fn life(&mut self, tag: u8, from: &mut Reader) -> Result<BlockEvent, CodecError> {
        Ok(match tag {
            tag::RUN_STARTED => BlockEvent::RunStarted(Arc::new(ends::read_run(from)?)),
            tag::RUN_FINISHED => {
                BlockEvent::RunFinished(Box::new(ends::read_finished(from, |from| self.lane(from))?))
            }
            tag::RUN_FAILED => BlockEvent::RunFailed(Box::new(ends::read_failed(from)?)),
            tag::LANE_OPENED => BlockEvent::LaneOpened(self.lane(from)?),
            tag::LANE_CLOSED => {
                let lane = self.lane(from)?;
                BlockEvent::LaneClosed { lane, outcome: Box::new(ends::read_lane_outcome(from)?) }
            }
            tag::STEP_STARTED => {
                let lane = self.lane(from)?;
                BlockEvent::StepStarted { lane, name: from.text("the name of a step")? }
            }
            tag::STEP_FINISHED => {
                let lane = self.lane(from)?;
                BlockEvent::StepFinished { lane, name: from.text("the name of a step")? }
            }
            tag::STATE_SNAPSHOT => {
                let lane = self.lane(from)?;
                BlockEvent::StateSnapshot { lane, state: value::read(from)? }
            }
            tag::STATE_DELTA => {
                let lane = self.lane(from)?;
                let length = from.length("a patch")?;
                let patch = (0..length).map(|_| value::read(from)).collect::<Result<_, _>>()?;
                BlockEvent::StateDelta { lane, patch }
            }
            tag::USAGE => {
                let lane = self.lane(from)?;
                BlockEvent::Usage { lane, usage: Box::new(ends::read_usage(from)?) }
            }
            tag::INTERRUPT_REQUESTED => {
                BlockEvent::InterruptRequested(Box::new(ends::read_pending(from, &mut |from| {
                    self.lane(from)
                })?))
            }
            found => return Err(CodecError::Invalid { what: "the kind of an event", found: found.into() }),
        })
    }

    fn result(&mut self, from: &mut Reader) -> Result<ToolResultEvent, CodecError> {
        Ok(ToolResultEvent {
            id: BlockId::new(from.text("the id of a block")?),
            lane: self.lane(from)?,
            call_id: ToolCallId::new(from.text("a tool call id")?),
            tool_name: from.text("the name of a tool")?,
            output: match from.byte("the kind of an output")? {
                TEXT => ToolOutput::Text(from.text("an output")?),
                JSON => ToolOutput::Json(value::read(from)?),
                PROGRESS => ToolOutput::Progress(from.text("an output")?),
                found => {
                    return Err(CodecError::Invalid { what: "the kind of an output", found: found.into() });
                }
            },
            is_error: from.flag("whether a tool failed")?,
            origin: read_origin(from)?,
        })
    }

    fn custom(&mut self, from: &mut Reader) -> Result<CustomEvent, CodecError> {
        Ok(CustomEvent {
            id: BlockId::new(from.text("the id of a block")?),
            lane: self.lane(from)?,
            name: from.text("the name of a custom event")?,
            value: value::read(from)?,
            channel: read_code(from, &CHANNELS, "a channel")?,
            origin: read_origin(from)?,
        })
    }
}

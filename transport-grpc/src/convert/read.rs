//! [`EventReader`]: reads the events of [`StreamMessage`](proto::StreamMessage)s.
//!
//! ```text
//! message := run_id? lanes* blocks* events*        declarations come before the events that use them
//! event   := number, kind with handles ──► canonical event with shared heads
//! ```
//!
//! A kind that this version does not know is skipped and counted, so that a newer service can add kinds. An unknown handle is an error: the
//! stream has lost a declaration.

use std::sync::Arc;

use aqueduct_core::event::{CustomEvent, PendingInterrupt, RunFailed, RunFinished, ToolResultEvent};
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, BlockId, Lane, LaneOutcome, ToolCallId};
use bytes::Bytes;
use serde_json::Value;

use super::ConvertError;
use super::declare::Declarations;
use super::kinds::{channel_from_proto, end_reason_from_proto, outcome_from_proto};
use super::run::{
    failure_from_proto, interrupt_from_proto, origin_from_proto, output_from_proto, run_from_proto,
    usage_from_proto, usages_from_proto,
};
use super::values::{JsonDepth, json, optional_json, optional_text, text};
use crate::proto;
use proto::event::Event as Kind;

/// Reads the events of one stream.
#[derive(Debug, Default)]
pub struct EventReader {
    known: Declarations,
    skipped: u64,
}

impl EventReader {
    /// Returns a reader for a new stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of skipped events of unknown kinds: the service is newer.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Passes the events of a message to `take`, in order. After an error the stream must end, because later messages could not
    /// be interpreted.
    ///
    /// # Errors
    ///
    /// Returns an error that names the field that is missing or invalid. The events before it were passed on.
    pub fn read(
        &mut self,
        message: proto::StreamMessage,
        mut take: impl FnMut(NumberedEvent),
    ) -> Result<(), ConvertError> {
        message.lanes.into_iter().try_for_each(|lane| self.known.learn_lane(lane))?;
        message.blocks.into_iter().try_for_each(|block| self.known.learn_block(block))?;
        for event in message.events {
            let Some(kind) = event.event else {
                self.skipped += 1;
                continue;
            };
            take(NumberedEvent { number: event.number, event: self.event(kind)? });
        }
        Ok(())
    }

    /// Converts one event, with the lanes and blocks of its handles.
    fn event(&mut self, kind: Kind) -> Result<BlockEvent, ConvertError> {
        let known = &mut self.known;
        Ok(match kind {
            Kind::BlockDelta(event) => BlockEvent::BlockDelta {
                block: known.block(event.block)?,
                delta: text("block_delta.delta", event.delta)?,
            },
            Kind::BlockStarted(event) => BlockEvent::BlockStarted(known.block(event.block)?),
            Kind::BlockEnded(event) => BlockEvent::BlockEnded {
                block: known.take_block(event.block)?,
                reason: end_reason_from_proto(event.reason)?,
            },
            Kind::ThinkingEncrypted(event) => BlockEvent::ThinkingEncrypted {
                block: known.block(event.block)?,
                value: text("thinking_encrypted.value", event.value)?,
            },
            Kind::ToolResult(event) => tool_result(known.lane(event.lane)?, event)?,
            Kind::Custom(event) => custom(known.lane(event.lane)?, event)?,
            Kind::LaneOpened(event) => BlockEvent::LaneOpened(known.lane(event.lane)?),
            Kind::LaneClosed(event) => lane_closed(known.take_lane(event.lane)?, event)?,
            Kind::StepStarted(event) => BlockEvent::StepStarted {
                lane: known.lane(event.lane)?,
                name: text("step_started.name", event.name)?,
            },
            Kind::StepFinished(event) => BlockEvent::StepFinished {
                lane: known.lane(event.lane)?,
                name: text("step_finished.name", event.name)?,
            },
            Kind::StateSnapshot(event) => BlockEvent::StateSnapshot {
                lane: known.lane(event.lane)?,
                state: json("state_snapshot.state_json", &event.state_json, JsonDepth::MOST)?,
            },
            Kind::StateDelta(event) => {
                BlockEvent::StateDelta { lane: known.lane(event.lane)?, patch: patch(&event.patch_json)? }
            }
            Kind::UsageReported(event) => {
                let usage = event.usage.ok_or(ConvertError::Missing { field: "usage_reported.usage" })?;
                let usage = Box::new(usage_from_proto(usage)?);
                BlockEvent::Usage { lane: known.lane(event.lane)?, usage }
            }
            Kind::InterruptRequested(event) => {
                BlockEvent::InterruptRequested(Box::new(pending(known, event)?))
            }
            Kind::RunStarted(event) => BlockEvent::RunStarted(run_from_proto(event.run)?),
            Kind::RunFinished(event) => run_finished(known, event)?,
            Kind::RunFailed(event) => run_failed(event)?,
        })
    }
}

/// Reads the result of a call. `lane` was resolved from its handle before.
fn tool_result(lane: Arc<Lane>, event: proto::ToolResult) -> Result<BlockEvent, ConvertError> {
    Ok(BlockEvent::ToolResult(Box::new(ToolResultEvent {
        id: BlockId::new(text("tool_result.id", event.id)?),
        lane,
        call_id: ToolCallId::new(text("tool_result.call_id", event.call_id)?),
        tool_name: text("tool_result.tool_name", event.tool_name)?,
        output: output_from_proto(event.output, JsonDepth::MOST)?,
        is_error: event.is_error,
        origin: origin_from_proto(event.origin)?,
    })))
}

/// Reads content without a kind of its own.
fn custom(lane: Arc<Lane>, event: proto::Custom) -> Result<BlockEvent, ConvertError> {
    Ok(BlockEvent::Custom(Box::new(CustomEvent {
        id: BlockId::new(text("custom.id", event.id)?),
        lane,
        name: text("custom.name", event.name)?,
        value: json("custom.value_json", &event.value_json, JsonDepth::MOST)?,
        channel: channel_from_proto("custom.channel", event.channel)?,
        origin: origin_from_proto(event.origin)?,
    })))
}

/// Decodes the end of a lane, whose outcome is required.
fn lane_closed(lane: Arc<Lane>, event: proto::LaneClosed) -> Result<BlockEvent, ConvertError> {
    use proto::lane_closed::Outcome;
    let outcome = match event.outcome {
        None => return Err(ConvertError::Missing { field: "lane_closed.outcome" }),
        Some(Outcome::Success(success)) => {
            let result = success.result_json.as_ref();
            LaneOutcome::Success(optional_json("lane_closed.success.result_json", result, JsonDepth::MOST)?)
        }
        Some(Outcome::Suspended(_)) => LaneOutcome::Suspended,
        Some(Outcome::Cancelled(_)) => LaneOutcome::Cancelled,
        Some(Outcome::Failed(failure)) => LaneOutcome::Failed(failure_from_proto(failure)?),
    };
    Ok(BlockEvent::LaneClosed { lane, outcome: Box::new(outcome) })
}

/// Reads an interrupt that a run waits for. Its lane is declared before, or again if it has ended.
fn pending(known: &Declarations, event: proto::PendingInterrupt) -> Result<PendingInterrupt, ConvertError> {
    Ok(PendingInterrupt { lane: known.lane(event.lane)?, interrupt: interrupt_from_proto(event)? })
}

/// Decodes the end of a run with its pending interrupts and calls; lanes must have been declared.
fn run_finished(known: &Declarations, event: proto::RunFinished) -> Result<BlockEvent, ConvertError> {
    let interrupts = event.interrupts.into_iter().map(|interrupt| pending(known, interrupt));
    let calls = event.pending_calls.into_iter();
    let calls = calls.map(|id| Ok(ToolCallId::new(text("run_finished.pending_calls", id)?)));
    let mut end = RunFinished::new(run_from_proto(event.run)?, outcome_from_proto(event.outcome)?);
    end.result = optional_json("run_finished.result_json", event.result_json.as_ref(), JsonDepth::MOST)?;
    end.interrupts = interrupts.collect::<Result<_, ConvertError>>()?;
    end.pending_calls = calls.collect::<Result<_, ConvertError>>()?;
    end.usage = usages_from_proto(event.usage)?;
    end.finish_reason = optional_text("run_finished.finish_reason", event.finish_reason)?;
    Ok(BlockEvent::RunFinished(Box::new(end)))
}

/// Decodes the failure of a run.
fn run_failed(event: proto::RunFailed) -> Result<BlockEvent, ConvertError> {
    let failure = event.failure.ok_or(ConvertError::Missing { field: "run_failed.failure" })?;
    let mut end = RunFailed::new(run_from_proto(event.run)?, failure_from_proto(failure)?);
    end.usage = usages_from_proto(event.usage)?;
    Ok(BlockEvent::RunFailed(Box::new(end)))
}

/// Decodes a JSON patch, which must be an array.
fn patch(bytes: &Bytes) -> Result<Vec<Value>, ConvertError> {
    let field = "state_delta.patch_json";
    match json(field, bytes, JsonDepth::MOST)? {
        Value::Array(patch) => Ok(patch),
        _ => Err(ConvertError::NotAnArray { field }),
    }
}

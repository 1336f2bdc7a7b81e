//! [`EventWriter`]: collects events into a [`StreamMessage`](proto::StreamMessage).
//!
//! A message holds all events that were ready together. Its size is known while it grows ([`EventWriter::waiting_bytes`]), so that the pump can send it
//! before it exceeds the limit of the peer. The writer keeps no events: a message is taken with all of them.

use aqueduct_core::event::{CustomEvent, PendingInterrupt, RunFailed, RunFinished, ToolResultEvent};
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, Lane, LaneOutcome, RunId};
use bytes::Bytes;
use prost::Message as _;
use serde_json::Value;
use std::sync::Arc;

use super::ConvertError;
use super::declare::Declared;
use super::kinds::{channel_to_proto, end_reason_to_proto, outcome_to_proto};
use super::run::{
    failure_to_proto, interrupt_to_proto, origin_to_proto, output_to_proto, run_to_proto, usage_to_proto,
};
use super::values::{json_to_bytes, optional_bytes, to_bytes};
use crate::proto;
use proto::event::Event as Kind;

/// Writes the events of one stream. Declares lanes and blocks before their first use.
#[derive(Debug)]
pub struct EventWriter {
    declared: Declared,
    message: proto::StreamMessage,
    bytes: usize,
}

impl EventWriter {
    /// Returns a writer for a new stream. The first message contains the run id.
    pub fn new(run: &RunId) -> Self {
        let message = proto::StreamMessage { run_id: Some(to_bytes(run.as_bytes())), ..Default::default() };
        Self { declared: Declared::new(), message, bytes: 0 }
    }

    /// Adds an event to the message.
    ///
    /// # Errors
    ///
    /// Returns an error if the event has no form in this version of the protocol. No event is added.
    pub fn push(&mut self, event: &NumberedEvent) -> Result<(), ConvertError> {
        // Declarations that this event adds count to the size of the message: a head may be larger than its
        // event.
        let (lanes, blocks) = (self.message.lanes.len(), self.message.blocks.len());
        let kind = self.kind(&event.event)?;
        let declared_lanes = self.message.lanes.iter().skip(lanes).map(prost::Message::encoded_len);
        let declared_blocks = self.message.blocks.iter().skip(blocks).map(prost::Message::encoded_len);
        self.bytes += declared_lanes.chain(declared_blocks).sum::<usize>();
        let event = proto::Event { number: event.number, event: Some(kind) };
        self.bytes += event.encoded_len();
        self.message.events.push(event);
        Ok(())
    }

    /// Returns the number of events in the message.
    pub fn waiting(&self) -> usize {
        self.message.events.len()
    }

    /// Returns the approximate size of the message.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the message and starts an empty one.
    /// Declarations of earlier messages stay known: the peer keeps them for the whole stream.
    pub fn take(&mut self) -> proto::StreamMessage {
        self.bytes = 0;
        std::mem::take(&mut self.message)
    }

    /// Returns the handle of a lane; declares the lane in the message on its first use.
    fn lane(&mut self, lane: &Arc<Lane>) -> u64 {
        self.declared.lane(lane, &mut self.message)
    }

    /// Converts one event, and declares its lane and block.
    fn kind(&mut self, event: &BlockEvent) -> Result<Kind, ConvertError> {
        let out = &mut self.message;
        Ok(match event {
            BlockEvent::BlockDelta { block, delta } => Kind::BlockDelta(proto::BlockDelta {
                block: self.declared.block(block, out)?,
                delta: to_bytes(delta),
            }),
            BlockEvent::BlockStarted(block) => {
                Kind::BlockStarted(proto::BlockStarted { block: self.declared.block(block, out)? })
            }
            // The end still refers to the handle; after it, the block would be declared again.
            BlockEvent::BlockEnded { block, reason } => {
                let reason = end_reason_to_proto(*reason)?.into();
                let handle = self.declared.block(block, out)?;
                self.declared.forget_block(block);
                Kind::BlockEnded(proto::BlockEnded { block: handle, reason })
            }
            BlockEvent::ThinkingEncrypted { block, value } => {
                Kind::ThinkingEncrypted(proto::ThinkingEncrypted {
                    block: self.declared.block(block, out)?,
                    value: to_bytes(value),
                })
            }
            BlockEvent::ToolResult(result) => self.tool_result(result),
            BlockEvent::Custom(custom) => self.custom(custom),
            BlockEvent::LaneOpened(lane) => Kind::LaneOpened(proto::LaneOpened { lane: self.lane(lane) }),
            BlockEvent::LaneClosed { lane, outcome } => self.lane_closed(lane, outcome)?,
            BlockEvent::StepStarted { lane, name } => {
                Kind::StepStarted(proto::StepStarted { lane: self.lane(lane), name: to_bytes(name) })
            }
            BlockEvent::StepFinished { lane, name } => {
                Kind::StepFinished(proto::StepFinished { lane: self.lane(lane), name: to_bytes(name) })
            }
            BlockEvent::StateSnapshot { lane, state } => Kind::StateSnapshot(proto::StateSnapshot {
                lane: self.lane(lane),
                state_json: json_to_bytes(state),
            }),
            BlockEvent::StateDelta { lane, patch } => Kind::StateDelta(proto::StateDelta {
                lane: self.lane(lane),
                patch_json: patch_to_bytes(patch),
            }),
            BlockEvent::Usage { lane, usage } => Kind::UsageReported(proto::UsageReported {
                lane: self.lane(lane),
                usage: Some(usage_to_proto(usage)),
            }),
            BlockEvent::InterruptRequested(pending) => Kind::InterruptRequested(self.pending(pending)),
            BlockEvent::RunStarted(run) => {
                Kind::RunStarted(proto::RunStarted { run: Some(run_to_proto(run)) })
            }
            BlockEvent::RunFinished(finished) => self.run_finished(finished)?,
            BlockEvent::RunFailed(failed) => run_failed(failed),
            _ => return Err(ConvertError::NoForm { what: "event" }),
        })
    }

    /// Returns the result of a call. Declares its lane if this stream has not yet.
    fn tool_result(&mut self, result: &ToolResultEvent) -> Kind {
        Kind::ToolResult(proto::ToolResult {
            id: to_bytes(result.id.as_bytes()),
            lane: self.lane(&result.lane),
            call_id: to_bytes(result.call_id.as_bytes()),
            tool_name: to_bytes(&result.tool_name),
            output: Some(output_to_proto(&result.output)),
            is_error: result.is_error,
            origin: origin_to_proto(&result.origin),
        })
    }

    /// Returns content without a kind of its own.
    fn custom(&mut self, custom: &CustomEvent) -> Kind {
        Kind::Custom(proto::Custom {
            id: to_bytes(custom.id.as_bytes()),
            lane: self.lane(&custom.lane),
            name: to_bytes(&custom.name),
            value_json: json_to_bytes(&custom.value),
            channel: channel_to_proto(custom.channel).into(),
            origin: origin_to_proto(&custom.origin),
        })
    }

    /// Returns the end of a lane, and removes its handle.
    ///
    /// # Errors
    ///
    /// Returns [`ConvertError::NoForm`] for an outcome that this version does not know.
    fn lane_closed(&mut self, lane: &Arc<Lane>, outcome: &LaneOutcome) -> Result<Kind, ConvertError> {
        use proto::lane_closed::Outcome;
        let outcome = match outcome {
            LaneOutcome::Success(result) => {
                Outcome::Success(proto::LaneSuccess { result_json: result.as_ref().map(json_to_bytes) })
            }
            LaneOutcome::Suspended => Outcome::Suspended(proto::LaneSuspended {}),
            LaneOutcome::Cancelled => Outcome::Cancelled(proto::LaneCancelled {}),
            LaneOutcome::Failed(failure) => Outcome::Failed(failure_to_proto(failure)),
            _ => return Err(ConvertError::NoForm { what: "lane outcome" }),
        };
        let handle = self.lane(lane);
        self.declared.forget_lane(lane);
        Ok(Kind::LaneClosed(proto::LaneClosed { lane: handle, outcome: Some(outcome) }))
    }

    /// Returns an interrupt that the run waits for. A lane that has ended is declared again.
    fn pending(&mut self, pending: &PendingInterrupt) -> proto::PendingInterrupt {
        interrupt_to_proto(self.lane(&pending.lane), &pending.interrupt)
    }

    /// Returns the end of a run that did not fail.
    fn run_finished(&mut self, finished: &RunFinished) -> Result<Kind, ConvertError> {
        Ok(Kind::RunFinished(proto::RunFinished {
            run: Some(run_to_proto(&finished.run)),
            outcome: outcome_to_proto(finished.outcome)?.into(),
            result_json: finished.result.as_ref().map(json_to_bytes),
            interrupts: finished.interrupts.iter().map(|pending| self.pending(pending)).collect(),
            pending_calls: finished.pending_calls.iter().map(|id| to_bytes(id.as_bytes())).collect(),
            usage: finished.usage.iter().map(usage_to_proto).collect(),
            finish_reason: optional_bytes(finished.finish_reason.as_ref()),
        }))
    }
}

/// Returns the end of a failed run.
fn run_failed(failed: &RunFailed) -> Kind {
    Kind::RunFailed(proto::RunFailed {
        run: Some(run_to_proto(&failed.run)),
        failure: Some(failure_to_proto(&failed.failure)),
        usage: failed.usage.iter().map(usage_to_proto).collect(),
    })
}

/// Returns a JSON Patch (RFC 6902) as JSON text.
fn patch_to_bytes(patch: &[Value]) -> Bytes {
    serde_json::to_vec(patch).map(Bytes::from).unwrap_or_default()
}

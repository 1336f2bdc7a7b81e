//! Outcomes of runs and sub-agents, and interrupts.

use aqueduct_core::{ByteString, Metadata};

use super::declare::{object, union};

union! {
    /// How a run ended.
    pub enum RunFinishedOutcome by "type" {
        /// The run completed.
        Success(SuccessOutcome) = "success",
        /// The run waits for replies. The thread is blocked until all of them are given.
        Interrupt(InterruptOutcome) = "interrupt",
        /// The run was cancelled (from 1.0 on).
        Cancelled(CancelledOutcome) = "cancelled",
    }
}

object! {
    /// The outcome of a completed run.
    pub struct SuccessOutcome {
        /// Tool calls that the client must answer (from 1.0 on).
        pending_tool_call_ids: Option<Vec<ByteString>> = "pendingToolCallIds",
    }

    /// The outcome of a run that waits for replies.
    pub struct InterruptOutcome {
        /// The open interrupts; at least one.
        interrupts: Vec<Interrupt> = "interrupts",
    }

    /// The outcome of a cancelled run.
    pub struct CancelledOutcome {}
}

union! {
    /// How a sub-agent ended.
    pub enum SubagentFinishedOutcome by "type" {
        /// The sub-agent completed.
        Success(SubagentSuccessOutcome) = "success",
        /// The sub-agent waits for replies.
        Suspended(SuspendedOutcome) = "suspended",
    }
}

object! {
    /// The outcome of a completed sub-agent.
    pub struct SubagentSuccessOutcome {}

    /// The outcome of a sub-agent that waits for replies.
    pub struct SuspendedOutcome {
        /// The interrupts that it waits for.
        interrupt_ids: Option<Vec<ByteString>> = "interruptIds",
    }

    /// A question to a human.
    pub struct Interrupt {
        /// Identifies the interrupt in the reply.
        id: ByteString = "id" @ 1,
        /// The reason: `tool_call`, `input_required`, `confirmation`, or `<framework>:<name>`.
        reason: ByteString = "reason" @ 2,
        /// The text of the question.
        message: Option<ByteString> = "message" @ 3,
        /// The tool call that waits.
        tool_call_id: Option<ByteString> = "toolCallId" @ 4,
        /// JSON Schema of the reply.
        response_schema: Option<OpenObject> = "responseSchema" @ 5,
        /// The time at which the interrupt expires (ISO 8601).
        expires_at: Option<ByteString> = "expiresAt" @ 6,
        /// Free-form metadata.
        metadata: Option<OpenObject> = "metadata" @ 7,
        /// The sub-agent that waits; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 8,
    }
}

/// A JSON object that protobuf carries as a `Value`, not as a `Struct`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenObject(pub Metadata);

impl super::object::FromWire for OpenObject {
    const EXPECTED: &'static str = "an object";

    fn from_wire(
        value: serde_json::Value,
        at: &super::object::At<'_>,
    ) -> Result<Self, crate::error::WireError> {
        super::object::members(value, at).map(Self)
    }
}

impl serde::Serialize for OpenObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

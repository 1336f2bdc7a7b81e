//! How runs and sub-agents end, and what they wait for.

use aqueduct_core::{ByteString, Metadata};

use super::declare::{object, union};

union! {
    /// How a run ended.
    pub enum RunFinishedOutcome by "type" {
        /// It did what it was for.
        Success(SuccessOutcome) = "success",
        /// It waits for answers. The thread is blocked until all of them are given.
        Interrupt(InterruptOutcome) = "interrupt",
        /// Somebody stopped it (from 1.0 on).
        Cancelled(CancelledOutcome) = "cancelled",
    }
}

object! {
    /// The run did what it was for.
    pub struct SuccessOutcome {
        /// Calls that the client is to answer (from 1.0 on).
        pending_tool_call_ids: Option<Vec<ByteString>> = "pendingToolCallIds",
    }
}

object! {
    /// The run waits.
    pub struct InterruptOutcome {
        /// What for; at least one.
        interrupts: Vec<Interrupt> = "interrupts",
    }
}

object! {
    /// Somebody stopped the run.
    pub struct CancelledOutcome {}
}

union! {
    /// How a sub-agent ended.
    pub enum SubagentFinishedOutcome by "type" {
        /// It did what it was for.
        Success(SubagentSuccessOutcome) = "success",
        /// It waits for answers.
        Suspended(SuspendedOutcome) = "suspended",
    }
}

object! {
    /// The sub-agent did what it was for.
    pub struct SubagentSuccessOutcome {}
}

object! {
    /// The sub-agent waits.
    pub struct SuspendedOutcome {
        /// For the answers to these.
        interrupt_ids: Option<Vec<ByteString>> = "interruptIds",
    }
}

object! {
    /// A question to a human.
    pub struct Interrupt {
        /// Its id, for the answer.
        id: ByteString = "id" @ 1,
        /// Why: `tool_call`, `input_required`, `confirmation`, or `<framework>:<name>`.
        reason: ByteString = "reason" @ 2,
        /// The question.
        message: Option<ByteString> = "message" @ 3,
        /// The tool call that waits.
        tool_call_id: Option<ByteString> = "toolCallId" @ 4,
        /// JSON Schema of the answer.
        response_schema: Option<OpenObject> = "responseSchema" @ 5,
        /// When the question lapses (ISO 8601).
        expires_at: Option<ByteString> = "expiresAt" @ 6,
        /// Free data.
        metadata: Option<OpenObject> = "metadata" @ 7,
        /// The sub-agent that asks; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 8,
    }
}

/// An object in JSON that protobuf carries as a `Value`, not as a `Struct`.
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

impl super::object::MaybeAbsent for OpenObject {}

impl serde::Serialize for OpenObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

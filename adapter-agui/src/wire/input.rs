//! `RunAgentInput`: the body that a client posts to start a run.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::declare::object;
use super::message::Message;
use super::scalar::words;

words! {
    /// The status of an interrupt.
    pub enum ResumeStatus ("\"resolved\" or \"cancelled\"") {
        /// The human replied.
        #[default]
        Resolved = "resolved",
        /// The human declined.
        Cancelled = "cancelled",
    }
}

/// Any JSON value including null, or absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MaybeValue(pub Option<Value>);

impl super::object::FromWire for MaybeValue {
    const EXPECTED: &'static str = "any JSON value";

    fn from_wire(value: Value, _at: &super::object::At<'_>) -> Result<Self, crate::error::WireError> {
        Ok(Self(Some(value)))
    }

    fn from_absent(_at: &super::object::At<'_>) -> Result<Self, crate::error::WireError> {
        Ok(Self(None))
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl serde::Serialize for MaybeValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

object! {
    /// The input of a run. Clients send the whole history each time, without activity messages.
    pub struct RunAgentInput {
        /// The thread of the run.
        thread_id: ByteString = "threadId" @ 1,
        /// The id of the run.
        run_id: ByteString = "runId" @ 2,
        /// The run this one branches from.
        parent_run_id: Option<ByteString> = "parentRunId" @ 3,
        /// The shared state; absent means `{}`.
        state: MaybeValue = "state" @ 4,
        /// The history.
        messages: Vec<Message> = "messages" @ 5,
        /// Tools of the client; absent means none. Required by 0.0.59.
        tools: Option<Vec<Tool>> = "tools" @ 6,
        /// Context of the client; absent means none. Required by 0.0.59.
        context: Option<Vec<Context>> = "context" @ 7,
        /// Further data of the client. Never null.
        forwarded_props: Option<Value> = "forwardedProps" @ 8,
        /// Replies to the interrupts of the previous run.
        resume: Option<Vec<ResumeEntry>> = "resume" @ 9,
        /// The version that the client declares; absent in 0.0.x.
        protocol_version: Option<ByteString> = "protocolVersion" @ 10,
    }

    /// A tool of the client.
    pub struct Tool {
        /// The name of the tool.
        name: ByteString = "name" @ 1,
        /// A description for the model.
        description: ByteString = "description" @ 2,
        /// JSON Schema of the arguments. Never null.
        parameters: Option<Value> = "parameters" @ 3,
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata" @ 4,
    }

    /// A piece of context of the client.
    pub struct Context {
        /// A description of the value.
        description: ByteString = "description" @ 1,
        /// The value.
        value: ByteString = "value" @ 2,
    }

    /// The reply to an interrupt.
    pub struct ResumeEntry {
        /// The id of the interrupt.
        interrupt_id: ByteString = "interruptId" @ 1,
        /// The status of the interrupt.
        status: ResumeStatus = "status" @ 2,
        /// The content of the reply. Never null.
        payload: Option<Value> = "payload" @ 3,
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata" @ 4,
    }
}

//! `RunAgentInput`: what a client posts to start a run.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::declare::object;
use super::message::Message;
use super::scalar::words;

object! {
    /// What a run starts from. Clients send the whole history each time, without activity messages.
    pub struct RunAgentInput {
        /// The conversation.
        thread_id: ByteString = "threadId" @ 1,
        /// The run.
        run_id: ByteString = "runId" @ 2,
        /// The run this one branches from.
        parent_run_id: Option<ByteString> = "parentRunId" @ 3,
        /// The shared state; absent means `{}`.
        state: MaybeValue = "state" @ 4,
        /// The history.
        messages: Vec<Message> = "messages" @ 5,
        /// Tools of the client; absent means none. Required by 0.0.59.
        tools: Option<Vec<Tool>> = "tools" @ 6,
        /// Facts of the client; absent means none. Required by 0.0.59.
        context: Option<Vec<Context>> = "context" @ 7,
        /// Whatever else the client passes on. Never null.
        forwarded_props: Option<Value> = "forwardedProps" @ 8,
        /// Answers to the interrupts of the run before.
        resume: Option<Vec<ResumeEntry>> = "resume" @ 9,
        /// The version that the client declares; absent in 0.0.x.
        protocol_version: Option<ByteString> = "protocolVersion" @ 10,
    }
}

/// Any JSON, null too, or nothing.
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
}

impl super::object::MaybeAbsent for MaybeValue {
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
    /// A tool that the client offers.
    pub struct Tool {
        /// Its name.
        name: ByteString = "name" @ 1,
        /// What it does.
        description: ByteString = "description" @ 2,
        /// JSON Schema of its arguments. Never null.
        parameters: Option<Value> = "parameters" @ 3,
        /// Free data.
        metadata: Option<Metadata> = "metadata" @ 4,
    }
}

object! {
    /// A fact of the client.
    pub struct Context {
        /// What it is about.
        description: ByteString = "description" @ 1,
        /// The fact.
        value: ByteString = "value" @ 2,
    }
}

words! {
    /// What became of an interrupt.
    pub enum ResumeStatus ("\"resolved\" or \"cancelled\"") {
        /// It was answered.
        #[default]
        Resolved = "resolved",
        /// The human declined to answer.
        Cancelled = "cancelled",
    }
}

object! {
    /// The answer to an interrupt.
    pub struct ResumeEntry {
        /// The interrupt.
        interrupt_id: ByteString = "interruptId" @ 1,
        /// What became of it.
        status: ResumeStatus = "status" @ 2,
        /// The answer. Never null.
        payload: Option<Value> = "payload" @ 3,
        /// Free data.
        metadata: Option<Metadata> = "metadata" @ 4,
    }
}

//! The description of a call for its lane: sufficient to show the call at another replica than the one that forwards
//! it.

use aqueduct_adapter_a2a::relay::{PassingCall, PassingKind};
use aqueduct_adapter_a2a::wire;
use serde::{Deserialize, Serialize};

use crate::config::Questions;
use crate::recording::Dialect;
use crate::service::AgentEntry;

/// The metadata key by which a supervisor can name the tool call that a message belongs to.
const CALL_METADATA: &str = "aqueduct/call";

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallKind {
    /// Starts or continues a task.
    Send,
    /// Streams the rest of a task.
    Subscribe,
    /// Reads or cancels a task: the response is shown if the task has a lane.
    Look,
}

/// A call of a sub-agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaneCall {
    /// The name of the sub-agent.
    pub(super) agent: String,
    pub(super) description: String,
    pub(super) kind: CallKind,
    /// The task that the call names; empty for none.
    pub(super) task_id: String,
    /// The id of the message; empty for none.
    pub(super) message_id: String,
    /// The tool call that the message belongs to, if its metadata name one.
    pub(super) tool_call: Option<String>,
    dialect: Dialect,
    /// Set if the user of the run answers interrupts of the sub-agent. Never set for a lane at another replica, which
    /// cannot hold the call.
    #[serde(skip)]
    pub(super) raises: bool,
    /// The largest frame of the response that is decoded, in bytes.
    pub(super) frame: usize,
}

impl LaneCall {
    /// Describes a call of that agent. Returns `None` if the call concerns no task.
    pub(crate) fn of(agent: &AgentEntry, call: &PassingCall<'_>, dialect: wire::Dialect) -> Option<Self> {
        let kind = match call.kind {
            PassingKind::Send => CallKind::Send,
            PassingKind::Subscribe => CallKind::Subscribe,
            PassingKind::Look | PassingKind::Cancel => CallKind::Look,
            PassingKind::ExtendedCard | PassingKind::Other => return None,
        };
        Some(Self {
            agent: agent.name.clone(),
            description: agent.description.clone(),
            kind,
            task_id: call.task_id.to_string(),
            message_id: call.message_id.to_string(),
            tool_call: call.metadata(CALL_METADATA),
            dialect: Dialect::of_a2a(dialect),
            raises: agent.config.questions == Questions::User && kind == CallKind::Send,
            frame: agent.config.limits.frame,
        })
    }

    /// Returns `true` if the call concerns a task that existed before.
    pub(super) fn goes_on(&self) -> bool {
        !self.task_id.is_empty()
    }

    /// Returns the dialect of the response.
    pub(super) fn dialect(&self) -> wire::Dialect {
        self.dialect.a2a().unwrap_or(wire::Dialect::V1)
    }
}

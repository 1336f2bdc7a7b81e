//! What a lane is told of the call that it shows: enough to show it at another gateway than the one that carries it.

use aqueduct_adapter_a2a::relay::{PassingCall, PassingKind};
use aqueduct_adapter_a2a::wire;
use serde::{Deserialize, Serialize};

use crate::config::Questions;
use crate::recording::Dialect;
use crate::service::AgentEntry;

/// The metadata key by which a supervisor can name the tool call that a message belongs to.
const CALL_METADATA: &str = "aqueduct/call";

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallKind {
    /// A task begins, or goes on.
    Send,
    /// The rest of a task as a stream.
    Subscribe,
    /// A look at a task, or an end to it: what is said of it is shown if its lane is there.
    Look,
}

/// A call of a sub-agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaneCall {
    /// The sub-agent.
    pub(super) agent: String,
    pub(super) description: String,
    pub(super) kind: CallKind,
    /// The task that it names; empty for none.
    pub(super) task_id: String,
    /// The id of its message; empty for none.
    pub(super) message_id: String,
    /// The tool call that it belongs to, if its caller says so.
    pub(super) tool_call: Option<String>,
    dialect: Dialect,
    /// Set if the user of the run answers what the sub-agent asks. Not for a lane at another replica: the call is not held there.
    #[serde(skip)]
    pub(super) raises: bool,
    /// The longest frame that is read of the answer.
    pub(super) frame: usize,
}

impl LaneCall {
    /// A call of that agent; none if it tells nothing of a task.
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

    /// True if it is about a task that was there before.
    pub(super) fn goes_on(&self) -> bool {
        !self.task_id.is_empty()
    }

    /// How the answer is written.
    pub(super) fn dialect(&self) -> wire::Dialect {
        self.dialect.a2a().unwrap_or(wire::Dialect::V1)
    }
}

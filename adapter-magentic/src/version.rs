//! Which generation of the framework a line is from. Lines of one input may be mixed: each line is told by itself.

use crate::wire::Line;

/// The kinds of line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// A `WorkflowEvent` of the current packages (one class with a `type`, core 1.0 and later).
    Workflow,
    /// `as_agent()`: an `AgentResponseUpdate`, or the response at its end.
    Agent,
    /// A class of the older packages (core 1.0.0b251001 to b260106), named by `event_class`.
    Legacy,
    /// A word of the forwarder: an exception that left the run, replies that were given.
    Forwarder,
    /// None of them.
    Unknown,
}

impl Dialect {
    /// The kind of a line.
    pub fn of(line: &Line<'_>) -> Self {
        if line.event_class.is_some() {
            return Self::Legacy;
        }
        if line.update.is_some() || line.final_response.is_some() {
            return Self::Agent;
        }
        match line.kind.as_deref() {
            Some(
                "agent_response_update"
                | "agent_run_response_update"
                | "agent_response"
                | "agent_run_response",
            ) => Self::Agent,
            Some(_) => Self::Workflow,
            None if line.exception.is_some() || line.responses.is_some() || line.recorder.is_some() => {
                Self::Forwarder
            }
            None => Self::Unknown,
        }
    }
}

//! [`Dialect`]: the generation of the framework that a line is from. Lines of one input may be mixed.

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
    /// A line of the forwarder: an exception that left the run, or delivered replies.
    Forwarder,
    /// An unknown line.
    Unknown,
}

impl Dialect {
    /// Returns the kind of a line.
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

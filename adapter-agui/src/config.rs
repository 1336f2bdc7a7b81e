//! Settings of the conversion to AG-UI, and their defaults per dialect.
//!
//! | setting | 1.0 (the peer declared a version) | 0.0.59 (it did not) | why |
//! |---|---|---|---|
//! | [`subagents`](Settings::subagents) | `Attributed` | `Inline` | `SUBAGENT_*` ends the stream on 0.0.58 and older |
//! | [`intermediate`](Settings::intermediate) | `Reasoning` | `Reasoning` | the answer stays apart from the way to it |
//! | [`interrupts`](Settings::interrupts) | `Interrupt` | `Text` | an interrupt blocks the thread of a client that cannot answer it |
//! | [`errors`](Settings::errors) | `Error` | `Error` | a text would stay in the history as the agent's words |
//!
//! The dialect itself decides, whatever the settings, what the peer can read:
//!
//! | | 1.0 | 0.0.59 |
//! |---|---|---|
//! | cancelled run | `RUN_FINISHED` with outcome `cancelled` | `RUN_ERROR` with code `cancelled` |
//! | successful run | outcome `success`, with `pendingToolCallIds` where there are some | no outcome |
//! | structured tool result | content parts as parts, anything else as JSON text | JSON text |
//! | `protocolVersion` | declared | left out |
//! | usage | all counts | without `cacheWriteInputTokens` |

use aqueduct_core::IntermediateView;

use crate::version::dialect_for;

/// The two forms of AG-UI that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// 1.0.
    #[default]
    V1_0,
    /// What 0.0.59 accepts.
    V0_0_59,
}

/// How sub-agents are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Subagents {
    /// With a life of their own: `SUBAGENT_*` events, and a tag on everything they do.
    #[default]
    Attributed,
    /// As part of the run: texts carry the agent's name, a step surrounds its work, the tag stays.
    Inline,
    /// Not at all, but for what concerns the whole run: text on the answer channel (a workflow answers by one of its
    /// agents), changes of the shared state, and interrupts, which the run waits for.
    Hidden,
    /// As tool calls named after the agents: what each was asked, and its answer or failure as the result. For
    /// frontends that show tool calls and nothing of sub-agents. Needs the state of
    /// [`ToolView`](crate::convert::ToolView), which [`WatcherEncoder::for_settings`](crate::encode::WatcherEncoder::for_settings)
    /// applies; converters alone show such lanes as `Attributed` does.
    Tool,
}

/// How a question to a human is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interrupts {
    /// As the outcome of the run. The client must answer all of them before it can go on.
    #[default]
    Interrupt,
    /// As a text message. The run ends as a success, and the next message is the answer.
    Text,
}

/// How the failure of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Errors {
    /// As `RUN_ERROR` alone.
    #[default]
    Error,
    /// As a text message before `RUN_ERROR`, for frontends that show nothing of the latter.
    Text,
}

/// What AG-UI output looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Settings {
    /// What the peer can read.
    pub dialect: Dialect,
    /// How sub-agents are shown.
    pub subagents: Subagents,
    /// How the way to the answer is shown.
    pub intermediate: IntermediateView,
    /// How a question to a human is shown.
    pub interrupts: Interrupts,
    /// How the failure of the run is shown.
    pub errors: Errors,
}

impl Settings {
    /// The defaults for a dialect.
    pub fn new(dialect: Dialect) -> Self {
        let (subagents, interrupts) = match dialect {
            Dialect::V1_0 => (Subagents::Attributed, Interrupts::Interrupt),
            Dialect::V0_0_59 => (Subagents::Inline, Interrupts::Text),
        };
        Self {
            dialect,
            subagents,
            intermediate: IntermediateView::Reasoning,
            interrupts,
            errors: Errors::Error,
        }
    }

    /// The defaults for a peer that declared this version in its input.
    pub fn for_declared(version: Option<&str>) -> Self {
        Self::new(dialect_for(version))
    }

    /// The same, with sub-agents shown that way.
    pub fn with_subagents(mut self, subagents: Subagents) -> Self {
        self.subagents = subagents;
        self
    }

    /// The same, with the way to the answer shown that way.
    pub fn with_intermediate(mut self, intermediate: IntermediateView) -> Self {
        self.intermediate = intermediate;
        self
    }

    /// The same, with questions to humans shown that way.
    pub fn with_interrupts(mut self, interrupts: Interrupts) -> Self {
        self.interrupts = interrupts;
        self
    }

    /// The same, with failures shown that way.
    pub fn with_errors(mut self, errors: Errors) -> Self {
        self.errors = errors;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Dialect::V1_0)
    }
}

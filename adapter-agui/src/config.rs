//! Settings of the conversion to AG-UI, and their defaults per dialect.
//!
//! | setting | 1.0 (the peer declared a version) | 0.0.59 (it did not) | why |
//! |---|---|---|---|
//! | [`subagents`](Settings::subagents) | `Attributed` | `Tool` | `SUBAGENT_*` ends the stream on 0.0.58 and older; frontends of 0.0.59 show tool calls by name, and of sub-agents nothing |
//! | [`intermediate`](Settings::intermediate) | `Reasoning` | `Reasoning` | the answer stays apart from the way to it |
//! | [`interrupts`](Settings::interrupts) | `Interrupt` | `Text` | an interrupt blocks the thread of a client that cannot answer it |
//! | [`errors`](Settings::errors) | `Error` | `Text` | CopilotKit shows nothing of `RUN_ERROR`, and a failed tool as done |
//! | [`labels`](Settings::labels) | no | yes | no frontend shows the name of a message |
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
    /// As tool calls named after the agents: what each was asked, and its answer or failure as the result; its own
    /// calls as `agent › tool`. For frontends that show tool calls and nothing of sub-agents. Needs the state of
    /// [`View`](crate::convert::View); converters alone leave the results empty.
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

/// How failures are shown: of the run, and of tools and sub-agents where the reader is not told of sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Errors {
    /// As `RUN_ERROR`, and marks on tool results, alone.
    #[default]
    Error,
    /// As a text message too, for frontends that show nothing of these.
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
    /// How failures are shown.
    pub errors: Errors,
    /// Whether a text of a sub-agent begins with its name (`**historian:** …`), where it is shown [`Inline`](Subagents::Inline) or
    /// as [`Tool`](Subagents::Tool).
    pub labels: bool,
}

impl Settings {
    /// The defaults for a dialect.
    pub fn new(dialect: Dialect) -> Self {
        let (subagents, interrupts, errors) = match dialect {
            Dialect::V1_0 => (Subagents::Attributed, Interrupts::Interrupt, Errors::Error),
            Dialect::V0_0_59 => (Subagents::Tool, Interrupts::Text, Errors::Text),
        };
        let labels = dialect == Dialect::V0_0_59;
        Self { dialect, subagents, intermediate: IntermediateView::Reasoning, interrupts, errors, labels }
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

    /// The same, with or without the names of sub-agents before their texts.
    pub fn with_labels(mut self, labels: bool) -> Self {
        self.labels = labels;
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

//! Settings of the conversion to AG-UI, and their defaults per dialect.
//!
//! | setting | 1.0 (the peer declared a version) | 0.0.59 (it did not) | why |
//! |---|---|---|---|
//! | [`subagents`](Settings::subagents) | `Attributed` | `Tool` | `SUBAGENT_*` ends the stream on 0.0.58 and older; frontends of 0.0.59 show tool calls by name, and no sub-agents |
//! | [`intermediate`](Settings::intermediate) | `Reasoning` | `Reasoning` | separates the answer from the work on it |
//! | [`interrupts`](Settings::interrupts) | `Interrupt` | `Text` | an interrupt blocks the thread of a client that cannot reply to it |
//! | [`errors`](Settings::errors) | `Error` | `Text` | CopilotKit does not show `RUN_ERROR`, and shows a failed tool as done |
//! | [`labels`](Settings::labels) | no | yes | no frontend shows the name of a message |
//!
//! Independently of the settings, the dialect decides what the peer can read:
//!
//! | | 1.0 | 0.0.59 |
//! |---|---|---|
//! | cancelled run | `RUN_FINISHED` with outcome `cancelled` | `RUN_ERROR` with code `cancelled` |
//! | successful run | outcome `success`, with `pendingToolCallIds` where there are some | no outcome |
//! | structured tool result | content parts as parts, anything else as JSON text | JSON text |
//! | `protocolVersion` | declared | omitted |
//! | usage | all counts | without `cacheWriteInputTokens` |

use aqueduct_core::IntermediateView;

use crate::version::dialect_for;

/// The two forms of AG-UI that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// 1.0.
    #[default]
    V1_0,
    /// The events and members that 0.0.59 accepts.
    V0_0_59,
}

/// The presentation of sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Subagents {
    /// As sub-agents: `SUBAGENT_*` events, and a tag on all their events.
    #[default]
    Attributed,
    /// As part of the run: texts carry the agent's name, a step surrounds the agent's work, the tag is kept.
    Inline,
    /// Not at all, except for events of the whole run: changes of the shared state, interrupts, which the run waits for, and
    /// text on the answer channel if the root has none of its own (a workflow answers by one of its agents). Needs the state
    /// of [`View`](crate::convert::View) for that choice; converters alone show all text on the answer channel.
    Hidden,
    /// As tool calls named after the agents: the input of each as arguments, its answer or failure as the result; its own
    /// calls as `agent › tool`. For frontends that show tool calls and no sub-agents. Needs the state of
    /// [`View`](crate::convert::View); converters alone leave the results empty.
    Tool,
}

/// The presentation of interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interrupts {
    /// As the outcome of the run. The client must reply to all of them before it can continue.
    #[default]
    Interrupt,
    /// As a text message. The run ends as a success, and the next user message is the reply.
    Text,
}

/// The presentation of failures: of the run, and of tools and sub-agents where sub-agents are not attributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Errors {
    /// Only as `RUN_ERROR` and as marks on tool results.
    #[default]
    Error,
    /// Also as a text message, for frontends that do not show the former.
    Text,
}

/// Settings of the AG-UI output for one watcher.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::config::{Dialect, Settings, Subagents};
///
/// let settings = Settings::for_declared(Some("1.0")).with_subagents(Subagents::Inline);
/// assert_eq!((settings.dialect, settings.subagents), (Dialect::V1_0, Subagents::Inline));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Settings {
    /// The dialect of the peer.
    pub dialect: Dialect,
    /// The presentation of sub-agents.
    pub subagents: Subagents,
    /// The presentation of intermediate text.
    pub intermediate: IntermediateView,
    /// The presentation of interrupts.
    pub interrupts: Interrupts,
    /// The presentation of failures.
    pub errors: Errors,
    /// Set if a text of a sub-agent starts with its name (`**historian:** …`), where it is shown
    /// [`Inline`](Subagents::Inline) or as [`Tool`](Subagents::Tool).
    pub labels: bool,
}

aqueduct_core::setters! {
    impl Settings {
        /// Sets the presentation of sub-agents.
        pub fn with_subagents(subagents: Subagents);
        /// Sets the presentation of intermediate text.
        pub fn with_intermediate(intermediate: IntermediateView);
        /// Sets the presentation of interrupts.
        pub fn with_interrupts(interrupts: Interrupts);
        /// Sets whether texts of sub-agents start with their names.
        pub fn with_labels(labels: bool);
        /// Sets the presentation of failures.
        pub fn with_errors(errors: Errors);
    }
}

impl Settings {
    /// Returns the defaults for a dialect.
    pub fn new(dialect: Dialect) -> Self {
        let (subagents, interrupts, errors) = match dialect {
            Dialect::V1_0 => (Subagents::Attributed, Interrupts::Interrupt, Errors::Error),
            Dialect::V0_0_59 => (Subagents::Tool, Interrupts::Text, Errors::Text),
        };
        let labels = dialect == Dialect::V0_0_59;
        Self { dialect, subagents, intermediate: IntermediateView::Reasoning, interrupts, errors, labels }
    }

    /// Returns the defaults for a peer that declared this version in its input.
    pub fn for_declared(version: Option<&str>) -> Self {
        Self::new(dialect_for(version))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Dialect::V1_0)
    }
}

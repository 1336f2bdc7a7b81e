//! A parsed script: rules with steps. The file format is known only to `read` and `keys`.

use std::time::Duration;

use aqueduct_core::{Source, Update};
use serde_json::Value;

use super::keys::Match;

/// A scripted agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The description of the agent.
    pub description: String,
    /// Set if the card omits the members of 0.3.
    pub is_card_v1: bool,
    /// Media types that the agent accepts; empty for all.
    pub input_modes: Vec<String>,
    /// Example prompts.
    pub examples: Vec<String>,
    pub(super) rules: Vec<Rule>,
}

/// Steps to play, and the messages they are for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rule {
    pub(super) matches: Match,
    pub(super) steps: Vec<Step>,
}

impl Match {
    /// Returns `true` if the rule matches every message.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if the message satisfies every condition that is set.
    pub(super) fn fits(&self, text: &str, message_id: &str) -> bool {
        self.text.as_deref().is_none_or(|pattern| contains(text, pattern))
            && self.message_id_prefix.as_deref().is_none_or(|prefix| message_id.starts_with(prefix))
    }
}

/// Returns `true` if the text contains the pieces of the pattern between its stars, in this order.
///
/// Upper and lower case are equal. The pattern may match anywhere: `rain*oslo` matches "Will it rain in Oslo?".
fn contains(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
    let mut rest = text.as_str();
    for piece in pattern.split('*') {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    true
}

/// One step of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The sub-agent of the step; `a/b` is a sub-agent of a sub-agent.
    pub(super) agent: String,
    pub(super) is_intermediate: bool,
    /// The delay between words, chunks and fragments.
    pub(super) pace: Duration,
    /// Consecutive steps with the same number run concurrently.
    pub(super) together: Option<u64>,
    pub(super) artifact: Option<Artifact>,
    pub(super) action: Action,
}

/// The named output of the content; several may be open at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Artifact {
    pub(super) name: String,
    /// `true` to append to the earlier content, `false` to replace it.
    pub(super) append: bool,
    /// Set if this is the last chunk of the artifact.
    pub(super) last: bool,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Text(Words),
    Thinking(Words),
    /// A complete intermediate text.
    Status(String),
    Tool {
        name: String,
        arguments: String,
        result: Option<String>,
        is_error: bool,
    },
    /// A tool call that is reported only in status texts, as many A2A agents do.
    Notice {
        tool: String,
        is_error: bool,
    },
    File(Value),
    Data(Value),
    Custom {
        name: String,
        value: Value,
    },
    State(Value),
    /// Many chunks without a delay.
    Burst {
        count: u64,
        text: String,
    },
    /// An interrupt: the run ends, and the follow-up continues with the next step.
    Ask {
        question: String,
        reason: &'static str,
        schema: Option<Value>,
    },
    /// A response of one message, without a task.
    Message(String),
    /// The end of a sub-agent.
    Close(Close),
    Sleep(Duration),
    End(End),
}

/// The outcome of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    Success,
    Failed,
    Cancelled,
}

/// The end of a run before its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Cancelled,
    /// The agent reports a failure.
    Fail(String),
    /// The agent rejects the request.
    Reject(String),
    /// The agent raises an exception.
    Raise(String),
    /// The connection is cut.
    Cut,
}

/// A text, split into pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Words {
    /// Word by word, as a model would.
    Flow(String),
    /// In exactly these pieces.
    Chunks(Vec<String>),
}

impl Step {
    /// Returns the sub-agent of the step as a path of lanes; the agent itself if none is set.
    pub(super) fn source(&self) -> Source {
        let keys = self.agent.split('/').filter(|key| !key.is_empty());
        keys.fold(Source::root(), |at, key| at.child(key.to_owned()))
    }

    /// Adds the options of the step to an update.
    pub(super) fn place(&self, update: Update) -> Update {
        let update = update.from_source(&self.source());
        if self.is_intermediate { update.intermediate() } else { update }
    }
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn a_pattern_is_found_in_any_case_and_a_star_is_any_text() {
        for (text, pattern, found) in [
            ("Will it RAIN?", "rain", true),
            ("Will it rain in Oslo?", "rain*oslo", true),
            ("Oslo: rain", "rain*oslo", false),
            ("anything", "", true),
            ("anything", "*", true),
            ("", "x", false),
        ] {
            assert_eq!(contains(text, pattern), found, "{text:?} {pattern:?}");
        }
    }
}

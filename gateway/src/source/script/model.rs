//! A script as it is played: rules with steps. What the file looks like is known to `read` and `keys` alone.

use std::time::Duration;

use aqueduct_core::{Source, Update};
use serde_json::Value;

use super::keys::Match;

/// A scripted agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// What the agent is for.
    pub description: String,
    /// True if its card is for readers of 1.0 alone.
    pub is_card_v1: bool,
    /// Media types it reads; all if there are none.
    pub input_modes: Vec<String>,
    /// What one could say to it.
    pub examples: Vec<String>,
    pub(super) rules: Vec<Rule>,
}

/// What to play, and for which messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rule {
    pub(super) matches: Match,
    pub(super) steps: Vec<Step>,
}

impl Match {
    /// True for every message.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn fits(&self, text: &str, message_id: &str) -> bool {
        self.text.as_deref().is_none_or(|pattern| contains(text, pattern))
            && self.message_id_prefix.as_deref().is_none_or(|prefix| message_id.starts_with(prefix))
    }
}

/// True if the pieces of the pattern between its stars are in the text, one after the other.
fn contains(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
    let mut rest = text.as_str();
    for piece in pattern.split('*') {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    true
}

/// One thing that the agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The sub-agent that does it; `a/b` is a sub-agent of a sub-agent.
    pub(super) agent: String,
    pub(super) is_intermediate: bool,
    /// Between words, chunks and fragments.
    pub(super) pace: Duration,
    /// Steps with the same number, one after the other in the file, run side by side.
    pub(super) together: Option<u64>,
    pub(super) artifact: Option<Artifact>,
    pub(super) action: Action,
}

/// A named output that the content goes to; several may be open at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Artifact {
    pub(super) name: String,
    /// True: after what came before. False: instead of it.
    pub(super) append: bool,
    /// True if nothing more follows for it.
    pub(super) last: bool,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Text(Words),
    Thinking(Words),
    /// A whole text on the way to the answer.
    Status(String),
    Tool {
        name: String,
        arguments: String,
        result: Option<String>,
        is_error: bool,
    },
    /// A tool that is only told about, in status texts, as many A2A agents do.
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
    /// Many chunks without a pause.
    Burst {
        count: u64,
        text: String,
    },
    /// A question to a human: the run ends, and the follow-up plays on.
    Ask {
        question: String,
        reason: &'static str,
        schema: Option<Value>,
    },
    /// The answer is one message, without a task around it.
    Message(String),
    /// A sub-agent ends.
    Close(Close),
    Sleep(Duration),
    End(End),
}

/// How a sub-agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    Success,
    Failed,
    Cancelled,
}

/// How a run ends before its steps do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Cancelled,
    /// The agent says that it failed.
    Fail(String),
    /// The agent refuses.
    Reject(String),
    /// The agent breaks off with an exception.
    Raise(String),
    /// The connection breaks.
    Cut,
}

/// What is said, in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Words {
    /// Word by word, as a model would.
    Flow(String),
    /// In exactly these pieces.
    Chunks(Vec<String>),
}

impl Step {
    pub(super) fn source(&self) -> Source {
        let keys = self.agent.split('/').filter(|key| !key.is_empty());
        keys.fold(Source::root(), |at, key| at.child(key.to_owned()))
    }

    /// The update with what holds for the whole step.
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

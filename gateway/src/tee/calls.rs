//! Attributes lanes to the tool calls of their callers.
//!
//! A supervisor reports its tool calls in its own stream and calls its sub-agents over other connections; neither names
//! the other. So a lane is attributed to the one unanswered tool call of its caller that mentions the agent by name and
//! has no lane yet. With two such calls, or none, the lane belongs to no call. A supervisor can name the call in the
//! metadata of its message (`aqueduct/call`), which takes precedence.

use std::collections::{HashMap, VecDeque};

use aqueduct_core::{ByteString, ContentBlock, Source, SourceEvent, ToolCallId};

/// Unanswered calls that are held per agent. Supervisors that report no results would accumulate them; the oldest is
/// dropped.
const CALLS: usize = 64;
/// The bytes of a call's arguments that are searched for a name.
const ARGUMENTS: usize = 4096;

/// An unanswered tool call. `words` is its name and the beginning of its arguments, normalised.
#[derive(Debug)]
struct Call {
    id: ToolCallId,
    words: String,
    /// Set once a lane was attributed: a second lane of the same agent belongs to another call.
    has_lane: bool,
}

/// The unanswered tool calls of a run, by the path of their agent.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(HashMap<String, VecDeque<Call>>);

impl OpenCalls {
    /// Records the tool calls and results in an event of the run. Results remove their call. Calls without an
    /// id cannot be referred to and are ignored.
    pub(crate) fn observe(&mut self, event: &SourceEvent) {
        let SourceEvent::Update(update) = event else { return };
        match &update.block {
            ContentBlock::ToolUse(tool) => {
                if let Some(id) = &tool.id {
                    self.note(&update.source, id, tool.name.as_ref(), &tool.arguments);
                }
            }
            ContentBlock::ToolResult(result) => {
                if let (Some(id), Some(calls)) = (&result.id, self.0.get_mut(update.source.path())) {
                    calls.retain(|call| call.id != *id);
                }
            }
            _ => {}
        }
    }

    /// Adds a call, or a fragment of the arguments of one.
    fn note(&mut self, source: &Source, id: &ToolCallId, name: Option<&ByteString>, arguments: &str) {
        let calls = self.0.entry(source.path().to_owned()).or_default();
        if !calls.iter().any(|call| call.id == *id) {
            if calls.len() >= CALLS {
                calls.pop_front();
            }
            // Detached: an id that is a slice of a received frame would keep the whole frame in memory.
            calls.push_back(Call { id: id.detached(), words: String::new(), has_lane: false });
        }
        if let Some(call) = calls.iter_mut().find(|call| call.id == *id)
            && call.words.len() < ARGUMENTS
        {
            if let Some(name) = name {
                call.words.push_str(&normal(name));
                call.words.push(' ');
            }
            call.words.extend(normal(arguments).chars().take(ARGUMENTS));
        }
    }

    /// Returns the source of a lane with its tool call, if one can be attributed.
    pub(crate) fn attribute(&mut self, lane: Source) -> Source {
        if lane.parent_call().is_some() {
            return lane;
        }
        let Some(calls) = lane.parent().and_then(|parent| self.0.get_mut(parent.path())) else { return lane };
        let name = normal(lane.name());
        let mut fitting = calls.iter_mut().filter(|call| !call.has_lane && has_word(&call.words, &name));
        match (fitting.next(), fitting.next()) {
            (Some(call), None) => {
                call.has_lane = true;
                let id = call.id.clone();
                lane.called_by(id)
            }
            _ => lane,
        }
    }
}

/// Returns a name in lower case with `_` for `-`: tools are called `ask_argo_cd` where the agent is `argo-cd`.
fn normal(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', "_")
}

/// Returns `true` if `words` contains `word` between characters that are neither letters nor digits.
fn has_word(words: &str, word: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    !word.is_empty()
        && words.match_indices(word).any(|(at, found)| {
            let before = words.get(..at).and_then(|before| before.chars().next_back());
            let after = words.get(at + found.len()..).and_then(|after| after.chars().next());
            is_edge(before) && is_edge(after)
        })
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Update;

    use super::*;

    fn calls(told: &[(&'static str, &'static str, &'static str)]) -> OpenCalls {
        let mut calls = OpenCalls::default();
        for (id, name, arguments) in told {
            calls.observe(&Update::new(ContentBlock::tool_use(*id, *name, *arguments)).into());
        }
        calls
    }

    fn lane(calls: &mut OpenCalls, key: &str, name: &str) -> Option<String> {
        let lane = calls.attribute(Source::root().child(key.to_owned()).named(name.to_owned()));
        lane.parent_call().map(|call| call.as_str().to_owned())
    }

    #[test]
    fn a_call_is_known_by_the_name_or_by_the_arguments() {
        let mut open = calls(&[
            ("1", "ask_argo_cd", "{}"),
            ("2", "delegate", "{\"agent\":\"jira\"}"),
            ("3", "delegate", "{\"agent\":\"argonaut\"}"),
        ]);
        assert_eq!(lane(&mut open, "a", "argo-cd").as_deref(), Some("1"));
        assert_eq!(lane(&mut open, "b", "Jira").as_deref(), Some("2"));
        assert_eq!(lane(&mut open, "c", "argo"), None, "a part of a word is another word");
        assert_eq!(lane(&mut open, "d", "jira"), None, "it has its lane");
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        let mut open = calls(&[("1", "ask_a", ""), ("2", "ask_a", "")]);
        assert_eq!(lane(&mut open, "x", "a"), None);
        open.observe(&Update::new(ContentBlock::tool_result("1", "done")).into());
        assert_eq!(lane(&mut open, "x", "a").as_deref(), Some("2"));
    }

    #[test]
    fn arguments_come_in_fragments_and_calls_are_forgotten_in_the_end() {
        let mut open = calls(&[("1", "delegate", "{\"agent\":\"ji")]);
        open.observe(&Update::new(ContentBlock::tool_arguments("1", "ra\"}")).into());
        assert_eq!(lane(&mut open, "x", "jira").as_deref(), Some("1"));
        for n in 0..1000 {
            open.observe(&Update::new(ContentBlock::tool_use(format!("n{n}"), "x", "")).into());
        }
        assert_eq!(open.0.values().map(VecDeque::len).sum::<usize>(), CALLS);
    }
}

//! [`Accumulator`]: the text of an agent's turn, for sources whose completion event does not carry it reliably.
//!
//! Deltas build the text; the completion event only ends the turn. The message of a completion event may repeat the
//! text, hold the printed form of an object, hold an error that appears nowhere else, or be empty.
//!
//! | streamed | message of the completion event | text of the turn |
//! |---|---|---|
//! | text | the same text, none, or a printed object | the streamed text |
//! | text | other plain text | the streamed text; the message becomes a notice |
//! | none | plain text | the message, marked [`TextFrom::Completion`], as an error if the adapter marks it as one |
//! | none | none or a printed object, tools were used | [`TOOL_ONLY_TEXT`] |
//! | none | a printed object, no tools | [`TOOL_ONLY_TEXT`]: the object is a tool call |
//! | none | none, no tools | empty |
//!
//! Plain text takes precedence over the fallback, so an outage is never shown as a completed action.
//!
//! Invariants: each agent has its own buffer, and the buffer is empty after each turn of the agent.
//!
//! The accumulator emits no events: the adapter turns a [`Completion`] into updates.

use std::collections::HashMap;

use bytestring::ByteString;

use crate::error::Error;

/// The text of a turn in which an agent used tools and sent no text.
pub const TOOL_ONLY_TEXT: &str = "Action completed (Tool Call)";

/// Default limit of the text of one turn, in bytes. A turn is held in memory until it ends, so this bounds the memory of
/// a source that never ends its turns.
pub const DEFAULT_BYTES_PER_TURN: usize = 16 * 1024 * 1024;

/// Default limit of turns open at once, one per agent.
pub const DEFAULT_OPEN_TURNS: usize = 1024;

/// The origin of the text of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextFrom {
    /// The deltas of the stream.
    Stream,
    /// The message of the completion event.
    Completion,
    /// [`TOOL_ONLY_TEXT`]: the agent used tools and sent no text.
    Fallback,
    /// None: the turn has neither text nor tool calls.
    Nothing,
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The text of the turn.
    pub text: ByteString,
    /// The origin of `text`.
    pub from: TextFrom,
    /// Set if `text` is an error message.
    pub is_error: bool,
    /// Plain text of the completion event that differs from the streamed text.
    pub notice: Option<ByteString>,
}

/// Collects the text of open turns, by agent.
///
/// # Examples
///
/// ```
/// use aqueduct_core::accumulator::{Accumulator, TextFrom};
///
/// let mut turns = Accumulator::default();
/// turns.handle_delta("writer", "Hello")?;
/// let turn = turns.handle_completion("writer", "<Message object at 0x7f>", false);
/// assert_eq!((&*turn.text, turn.from), ("Hello", TextFrom::Stream));
/// # Ok::<(), aqueduct_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Accumulator {
    turns: HashMap<ByteString, Turn, foldhash::fast::RandomState>,
    bytes_per_turn: usize,
    open_turns: usize,
}

#[derive(Debug, Default)]
struct Turn {
    text: String,
    used_tools: bool,
}

impl Default for Accumulator {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES_PER_TURN, DEFAULT_OPEN_TURNS)
    }
}

impl Accumulator {
    /// Returns an accumulator without turns. `bytes_per_turn` limits the text of each turn, `open_turns` the agents.
    pub fn new(bytes_per_turn: usize, open_turns: usize) -> Self {
        Self { turns: HashMap::default(), bytes_per_turn, open_turns }
    }

    /// Appends `text` to the open turn of `agent`, and opens a turn if the agent has none.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TurnTooLong`] or [`Error::TooManyTurns`] if a limit is exceeded. The text before it is kept.
    pub fn handle_delta(&mut self, agent: &str, text: &str) -> Result<(), Error> {
        let max = self.bytes_per_turn;
        let turn = self.turn(agent)?;
        if turn.text.len() + text.len() > max {
            return Err(Error::TurnTooLong { agent: agent.to_owned(), max });
        }
        turn.text.push_str(text);
        Ok(())
    }

    /// Records that `agent` called a tool or received a tool result.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooManyTurns`] if the agent has no turn and `open_turns` are open.
    pub fn handle_tool(&mut self, agent: &str) -> Result<(), Error> {
        self.turn(agent)?.used_tools = true;
        Ok(())
    }

    /// Ends the turn of `agent` and returns its text. `is_error` states whether the adapter knows `message` to be an error.
    pub fn handle_completion(&mut self, agent: &str, message: &str, is_error: bool) -> Completion {
        let turn = self.turns.remove(agent).unwrap_or_default();
        let plain = Some(message.trim()).filter(|text| !text.is_empty() && !is_representation(text));
        match plain {
            _ if !turn.text.trim().is_empty() => Completion {
                notice: plain.filter(|text| *text != turn.text.trim()).map(ByteString::from),
                text: ByteString::from(turn.text),
                from: TextFrom::Stream,
                is_error: false,
            },
            Some(_) => Completion {
                text: ByteString::from(message),
                from: TextFrom::Completion,
                is_error,
                notice: None,
            },
            None if turn.used_tools || is_representation(message.trim()) => Completion {
                text: ByteString::from_static(TOOL_ONLY_TEXT),
                from: TextFrom::Fallback,
                is_error,
                notice: None,
            },
            None => Completion { text: ByteString::new(), from: TextFrom::Nothing, is_error, notice: None },
        }
    }

    /// Returns `true` if no turn is open.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns the agents with an open turn, in no particular order.
    pub fn open_turns(&self) -> impl Iterator<Item = &str> {
        self.turns.keys().map(|agent| &**agent)
    }

    fn turn(&mut self, agent: &str) -> Result<&mut Turn, Error> {
        if !self.turns.contains_key(agent) && self.turns.len() >= self.open_turns {
            return Err(Error::TooManyTurns { max: self.open_turns });
        }
        Ok(self.turns.entry(ByteString::from(agent)).or_default())
    }
}

/// Returns `true` for the text that Python prints for an object without text form: `<… object at 0x7ff1dcee8890>`.
pub fn is_representation(text: &str) -> bool {
    let hex = |rest: &str| rest.trim_end_matches('>').bytes().all(|b| b.is_ascii_hexdigit());
    text.strip_prefix('<')
        .and_then(|rest| rest.split_once(" object at 0x"))
        .is_some_and(|(_, address)| address.ends_with('>') && hex(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPRESENTATION: &str = "<agent_framework._types.ChatMessage object at 0x7ff1dcee8890>";

    #[test]
    fn standard_text_case_deltas_win_over_a_corrupted_representation_string() {
        let mut turns = Accumulator::default();
        for delta in ["The answer", " is ", "42."] {
            turns.handle_delta("researcher", delta).unwrap();
        }
        let done = turns.handle_completion("researcher", REPRESENTATION, false);
        assert_eq!((&*done.text, done.from, done.notice), ("The answer is 42.", TextFrom::Stream, None));
    }

    #[test]
    fn tool_only_case_gives_the_fallback_text() {
        for message in [REPRESENTATION, "", "  \n"] {
            let mut turns = Accumulator::default();
            turns.handle_tool("coder").unwrap();
            let done = turns.handle_completion("coder", message, false);
            assert_eq!((&*done.text, done.from), (TOOL_ONLY_TEXT, TextFrom::Fallback), "{message:?}");
        }
    }

    #[test]
    fn failed_agent_case_is_never_the_fallback() {
        let outage = "Agent crasher: Error processing request - model overloaded (529)";
        for used_tools in [false, true] {
            let mut turns = Accumulator::default();
            if used_tools {
                turns.handle_tool("crasher").unwrap();
            }
            let done = turns.handle_completion("crasher", outage, true);
            assert_eq!((&*done.text, done.from, done.is_error), (outage, TextFrom::Completion, true));
        }
    }

    #[test]
    fn an_agent_that_fails_half_way_keeps_both_its_words_and_the_error() {
        let mut turns = Accumulator::default();
        turns.handle_delta("crasher", "Half a sen").unwrap();
        let done = turns.handle_completion("crasher", "Agent crasher: Error processing request", true);
        assert_eq!((&*done.text, done.from), ("Half a sen", TextFrom::Stream));
        assert_eq!(done.notice.as_deref(), Some("Agent crasher: Error processing request"));
    }

    #[test]
    fn the_same_message_again_is_no_notice() {
        let mut turns = Accumulator::default();
        turns.handle_delta("a", "Done.\n").unwrap();
        assert_eq!(turns.handle_completion("a", "Done.", false).notice, None);
    }

    #[test]
    fn several_agents_interleaved_do_not_mix() {
        let mut turns = Accumulator::default();
        for (agent, text) in [("a", "one "), ("b", "eins "), ("a", "two"), ("b", "zwei")] {
            turns.handle_delta(agent, text).unwrap();
        }
        assert_eq!(&*turns.handle_completion("b", "", false).text, "eins zwei");
        assert_eq!(&*turns.handle_completion("a", "", false).text, "one two");
    }

    #[test]
    fn the_buffer_is_empty_after_each_turn() {
        let mut turns = Accumulator::default();
        turns.handle_delta("a", "first").unwrap();
        turns.handle_completion("a", "", false);
        assert!(turns.is_empty());
        let second = turns.handle_completion("a", "", false);
        assert_eq!((&*second.text, second.from), ("", TextFrom::Nothing));
    }

    #[test]
    fn limits_name_the_agent() {
        let mut turns = Accumulator::new(4, 1);
        let error = turns.handle_delta("a", "12345").unwrap_err();
        assert!(error.to_string().contains("\"a\" sent more than 4 bytes"), "{error}");
        let error = turns.handle_delta("b", "1").unwrap_err();
        assert_eq!(error, Error::TooManyTurns { max: 1 });
    }

    #[test]
    fn only_representations_are_representations() {
        assert!(is_representation("<a.B object at 0x7f>"));
        assert!(!is_representation("<b>object at 0x7f</b>"));
        assert!(!is_representation("Look at this object at 0x7f"));
        assert!(!is_representation("<x object at 0xyz>"));
    }
}

//! [`Accumulator`]: what an agent said in a turn, where the event that ends the turn cannot be trusted to say it.
//!
//! Streaming is the truth: deltas build the text, and the completion event only ends the turn. Its message may be
//! the text again, a representation string of some object, an error that is told nowhere else, or nothing.
//!
//! | streamed | message of the completion | text of the turn |
//! |---|---|---|
//! | something | the same, nothing or a representation | what was streamed |
//! | something | other plain text | what was streamed; the message is kept beside it as a notice |
//! | nothing | plain text | the message, marked as coming from the completion, as an error where it is one |
//! | nothing | nothing or a representation, tools were used | [`TOOL_ONLY_TEXT`] |
//! | nothing | a representation, no tools | [`TOOL_ONLY_TEXT`]: the object it stands for was a tool call |
//! | nothing | nothing, no tools | no text |
//!
//! Plain text always wins over the fallback, so an outage is never shown as a completed action.
//!
//! Invariants: buffers are per agent, and an agent's buffer is empty after each of its turns.

use std::collections::HashMap;

use bytestring::ByteString;
use thiserror::Error;

/// The text of a turn in which an agent only used tools.
pub const TOOL_ONLY_TEXT: &str = "Action completed (Tool Call)";

/// What one agent may say in one turn. A turn is held in memory until it ends, so this bounds what a source that
/// never ends its turns can cost.
pub const DEFAULT_BYTES_PER_TURN: usize = 16 * 1024 * 1024;

/// Agents with a turn open at once.
pub const DEFAULT_OPEN_TURNS: usize = 1024;

/// Where the text of a turn comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextFrom {
    /// The deltas.
    Stream,
    /// The message of the completion event.
    Completion,
    /// Neither: the agent only used tools.
    Fallback,
    /// Neither, and it did nothing.
    Nothing,
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// What the agent said.
    pub text: ByteString,
    /// Where that comes from.
    pub from: TextFrom,
    /// True if the text is an error message.
    pub is_error: bool,
    /// Plain text of the completion that differs from what was streamed.
    pub notice: Option<ByteString>,
}

/// Why a turn cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccumulatorError {
    /// An agent says more than a turn may hold.
    #[error("agent {agent:?} said more than {max} bytes in one turn: raise the limit or stop the agent")]
    TurnTooLong {
        /// The agent.
        agent: String,
        /// The limit.
        max: usize,
    },
    /// Too many agents have a turn open.
    #[error("more than {max} agents have a turn open: raise the limit or end turns")]
    TooManyTurns {
        /// The limit.
        max: usize,
    },
}

/// Texts of turns in progress, by agent.
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
    /// An accumulator with these limits.
    pub fn new(bytes_per_turn: usize, open_turns: usize) -> Self {
        Self { turns: HashMap::default(), bytes_per_turn, open_turns }
    }

    /// An agent said something.
    ///
    /// # Errors
    ///
    /// An error if a limit is exceeded; what was taken before stays.
    pub fn handle_delta(&mut self, agent: &str, text: &str) -> Result<(), AccumulatorError> {
        let max = self.bytes_per_turn;
        let turn = self.turn(agent)?;
        if turn.text.len() + text.len() > max {
            return Err(AccumulatorError::TurnTooLong { agent: agent.to_owned(), max });
        }
        turn.text.push_str(text);
        Ok(())
    }

    /// An agent used a tool, or got its answer.
    ///
    /// # Errors
    ///
    /// An error if a limit is exceeded; what was taken before stays.
    pub fn handle_tool(&mut self, agent: &str) -> Result<(), AccumulatorError> {
        self.turn(agent)?.used_tools = true;
        Ok(())
    }

    /// An agent's turn ended with that message. `is_error` is what the adapter knows about it.
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

    /// True if no turn is open.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The agents whose turn is open, in no order.
    pub fn open_turns(&self) -> impl Iterator<Item = &str> {
        self.turns.keys().map(|agent| &**agent)
    }

    fn turn(&mut self, agent: &str) -> Result<&mut Turn, AccumulatorError> {
        if !self.turns.contains_key(agent) && self.turns.len() >= self.open_turns {
            return Err(AccumulatorError::TooManyTurns { max: self.open_turns });
        }
        Ok(self.turns.entry(ByteString::from(agent)).or_default())
    }
}

/// True for what a language prints for an object that has no text: `<… object at 0x7ff1dcee8890>`.
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
    fn limits_are_said_with_the_agent() {
        let mut turns = Accumulator::new(4, 1);
        let error = turns.handle_delta("a", "12345").unwrap_err();
        assert!(error.to_string().contains("\"a\" said more than 4 bytes"), "{error}");
        let error = turns.handle_delta("b", "1").unwrap_err();
        assert_eq!(error, AccumulatorError::TooManyTurns { max: 1 });
    }

    #[test]
    fn only_representations_are_representations() {
        assert!(is_representation("<a.B object at 0x7f>"));
        assert!(!is_representation("<b>object at 0x7f</b>"));
        assert!(!is_representation("Look at this object at 0x7f"));
        assert!(!is_representation("<x object at 0xyz>"));
    }
}

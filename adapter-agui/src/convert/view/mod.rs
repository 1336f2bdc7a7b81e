//! [`View`]: the converters for one reader, with the state that [`Subagents::Tool`] and [`Subagents::Hidden`] need in addition.
//!
//! | of a sub-agent | with [`Subagents::Tool`] | with [`Subagents::Hidden`] |
//! |---|---|---|
//! | opened by a tool call of its parent | nothing: that call shows its input and its answer | nothing |
//! | opened otherwise | a call named after the agent (`a › b` for a sub-agent `b` of `a`), with its input | nothing |
//! | text on the answer channel | a text, streamed, after the agent's name | a text, if the root has no answer text of its own; sent at the end of the run |
//! | other text | only in the result | nothing |
//! | thinking | thinking that starts with the agent's name | nothing |
//! | tool calls | calls named `agent › tool` | nothing |
//! | succeeds | the call's result: the agent's value, or all its texts | nothing |
//! | waits for a reply | a note in the call's result | the interrupt |
//! | fails | the call's result, marked as an error, after the texts so far; a text if failures are shown as text | nothing |
//! | state | the same, without tag | the same, without tag |
//! | cards, other content | the same, without tag | nothing |
//!
//! Converters, which keep no state, do all of it except for the texts in results and for the choice between the answers: they
//! stream every text on the answer channel. A reader that starts in the middle of a run must pass the earlier events to
//! [`View::skip`], otherwise its results contain only the rest.
//!
//! Invariants: the output is balanced if the input is; held text is bounded by [`MAX_HELD`], per open sub-agent in results, per
//! run in answers.

mod answers;
mod results;

#[cfg(test)]
mod tests;

use aqueduct_core::{BlockEvent, BlockHead, ConverterSet};

use super::converters;
use crate::config::{Settings, Subagents};
use crate::wire::Event;
use answers::Answers;
use results::Results;

/// The most bytes of text that are held. [`Results`] cut off the rest; [`Answers`] stop holding.
const MAX_HELD: usize = 1 << 20;

/// Converts canonical events for one reader.
#[derive(Debug)]
pub struct View {
    converters: ConverterSet<Event>,
    state: State,
    /// Set for the converters of this crate.
    is_own: bool,
}

/// The state of a view beside its converters.
#[derive(Debug)]
enum State {
    None,
    Tool(Results),
    Hidden(Answers),
}

impl View {
    /// Returns a view with these settings.
    pub fn new(settings: &Settings) -> Self {
        let state = match settings.subagents {
            Subagents::Tool => State::Tool(Results::default()),
            Subagents::Hidden => State::Hidden(Answers::default()),
            Subagents::Attributed | Subagents::Inline => State::None,
        };
        Self { converters: converters(settings), state, is_own: true }
    }

    /// Returns a view with these converters and without state.
    pub fn from_converters(converters: ConverterSet<Event>) -> Self {
        Self { converters, state: State::None, is_own: false }
    }

    /// Appends the AG-UI events for `event`.
    pub fn convert(&mut self, event: &BlockEvent, out: &mut Vec<Event>) {
        let start = out.len();
        if let State::Hidden(answers) = &mut self.state {
            answers.release(event, out);
        }
        let converted = out.len();
        self.converters.convert(event, out);
        match &mut self.state {
            State::None => {}
            State::Tool(results) => match (event, out.get_mut(start + 1)) {
                (BlockEvent::LaneClosed { lane, .. }, Some(Event::ToolCallResult(result))) => {
                    results.write(&lane.id, result);
                }
                _ => results.note(event),
            },
            State::Hidden(answers) => answers.hold(event, converted, out),
        }
    }

    /// Returns `true` if the output for an event depends on earlier events of the run.
    pub fn has_state(&self) -> bool {
        !matches!(self.state, State::None)
    }

    /// Returns `true` if the deltas of a block from its second on become events that differ in their text alone, and have no
    /// other effect. The state is about sub-agents, and of the root it notes the first delta.
    pub(crate) fn converts_deltas_alike(&self, block: &BlockHead) -> bool {
        self.is_own && (!self.has_state() || block.lane.is_root())
    }

    /// Returns `true` if `merged`, the joined text of several deltas, yields at most one event, and if later output does not
    /// depend on where the text was divided.
    pub fn can_merge(&self, merged: &BlockEvent) -> bool {
        match &self.state {
            State::None | State::Tool(_) => true,
            State::Hidden(answers) => !answers.holds(merged),
        }
    }

    /// Updates the state with an event that the reader has already received.
    pub fn skip(&mut self, event: &BlockEvent) {
        match &mut self.state {
            State::None => {}
            State::Tool(results) => results.note(event),
            State::Hidden(_) => self.convert(event, &mut Vec::new()),
        }
    }
}

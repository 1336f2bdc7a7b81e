//! [`Answers`]: the answer texts of hidden sub-agents, held until it is known whether the root has
//! an answer of its own.
//!
//! ```text
//! Holding ── answer text of the root ──> Rooted   (the held texts are dropped, and so are later ones)
//!    │
//!    └── end of the run, or MAX_HELD ──> Open     (the held texts are released; later ones are streamed)
//! ```
//!
//! A supervisor's sub-agents contribute to its answer; a workflow whose root emits no text answers
//! by one of its agents. Only the end of the run distinguishes the two. Text of the root on another
//! channel than the answer channel does not count as an answer.

use aqueduct_core::{BlockEvent, BlockHead, Channel, Role, SpanKind};

use super::MAX_HELD;
use crate::wire::Event;

/// The answer texts of hidden sub-agents.
#[derive(Debug)]
pub(super) enum Answers {
    /// The root has not written an answer: the converted texts of its sub-agents, and their size in bytes.
    Holding(Vec<Event>, usize),
    /// The root writes the answer.
    Rooted,
    /// The sub-agents' texts are the answer.
    Open,
}

impl Default for Answers {
    fn default() -> Self {
        Self::Holding(Vec::new(), 0)
    }
}

impl Answers {
    /// Appends the held texts if `event` ends the run.
    pub(super) fn release(&mut self, event: &BlockEvent, out: &mut Vec<Event>) {
        let is_end = matches!(event, BlockEvent::RunFinished(_) | BlockEvent::RunFailed(_));
        if let Self::Holding(held, _) = self
            && is_end
        {
            out.append(held);
            *self = Self::Open;
        }
    }

    /// Returns `true` if the output for `event` is held.
    pub(super) fn holds(&self, event: &BlockEvent) -> bool {
        let is_hidden = event.block().is_some_and(|block| is_answer(block) && !block.lane.is_root());
        is_hidden && matches!(self, Self::Holding(..))
    }

    /// Takes the output for `event`, which starts at `from`, out of `out` if it is the text of a sub-agent.
    pub(super) fn hold(&mut self, event: &BlockEvent, from: usize, out: &mut Vec<Event>) {
        let Some(block) = event.block().filter(|block| is_answer(block)) else { return };
        if block.lane.is_root() {
            let is_words = block.role == Role::Assistant && matches!(event, BlockEvent::BlockDelta { .. });
            if is_words && matches!(self, Self::Holding(..)) {
                *self = Self::Rooted;
            }
            return;
        }
        match self {
            Self::Open => {}
            Self::Rooted => out.truncate(from),
            Self::Holding(held, size) => {
                if let BlockEvent::BlockDelta { delta, .. } = event {
                    *size += delta.len();
                }
                held.extend(out.drain(from..));
                if *size > MAX_HELD {
                    out.append(held);
                    *self = Self::Open;
                }
            }
        }
    }
}

/// Returns `true` for text on the answer channel.
fn is_answer(block: &BlockHead) -> bool {
    block.kind == SpanKind::Text && block.channel == Channel::Answer
}

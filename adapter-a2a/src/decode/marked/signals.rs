//! Marked statuses: lanes, steps, state, usage, interrupts, and the end of the turn.
//!
//! ```text
//! mark {"kind": "step-started", "lane": [{"key": "search"}]}   part {"type": "step-started", "name": "plan"}
//! mark {"kind": "usage"}                                       part {"type": "usage", "usage": {"input": 12}}
//! mark {"kind": "finished", "outcome": "interrupted", "interrupts": [{"lane", "interrupt"}]}   input-required
//! ```
//!
//! A mark that ends the turn counts only on a state that ends it, and any other mark only on a state that does not.
//! Each status has a message id that is derived from its content, by which a history is deduplicated.

use aqueduct_core::{ByteString, Interrupt, SourceEvent};
use serde_json::Value;

use super::super::sink::Sink;
use super::super::{Decoder, Settled, shared};
use super::data_of;
use crate::config::InterruptView;
use crate::mark::{BLOCK, Mark, failure_of, interrupt_of, kind, outcome_of, usage_of};
use crate::wire::Message;

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum MessageOrigin {
    /// An event of the stream.
    Live,
    /// The status of a complete task.
    Snapshot,
    /// The history of a task: its interrupts and ends are over.
    History,
}

impl Decoder {
    /// Decodes a status message if it has a mark. `ends_turn` is set if its state ends the turn. Returns `false` if
    /// the message has to be decoded like that of any agent: no mark, an unknown kind, or an end that does not fit
    /// the state.
    pub(in super::super) fn marked_message(
        &mut self,
        message: &Message<'_>,
        origin: MessageOrigin,
        ends_turn: bool,
        sink: &mut Sink<'_>,
    ) -> bool {
        let Some(mark) = Mark::read(message.metadata.as_ref()) else { return false };
        let is_ending = matches!(mark.kind(), kind::FINISHED | kind::FAILED);
        // An agent that forwards a status of an Aqueduct server must not end its own turn with it.
        if origin != MessageOrigin::History && is_ending != ends_turn {
            return false;
        }
        if let Some(block) = mark.bytes(BLOCK) {
            self.marked_note(&block, &mark, message, sink);
            return true;
        }
        let is_question = mark.kind() == kind::INTERRUPT;
        let as_text = self.config.interrupts == InterruptView::Text;
        // With interrupts as text, the general path emits the words of the question and ends the turn.
        if is_ending
            && origin != MessageOrigin::History
            && as_text
            && mark.text("outcome") == Some("interrupted")
        {
            return false;
        }
        // A snapshot and a history repeat statuses; live ones are never suppressed, because a step may begin twice
        // with the same name.
        let is_known = self.memory.messages.knows(message, "");
        self.memory.messages.note(message, "", origin == MessageOrigin::Live, &self.config.limits);
        let is_over = origin == MessageOrigin::History && (is_ending || is_question);
        let is_repeated = origin != MessageOrigin::Live && is_known && !is_ending;
        if is_over || is_repeated || is_question && as_text {
            return true;
        }
        if is_ending { self.marked_ending(&mark, sink) } else { self.signal(&mark, message, origin, sink) }
    }

    /// Emits the event of a marked status. Returns `false` if its kind is unknown, or its content is not what the
    /// kind requires.
    fn signal(
        &mut self,
        mark: &Mark,
        message: &Message<'_>,
        origin: MessageOrigin,
        sink: &mut Sink<'_>,
    ) -> bool {
        let source = mark.source(&self.source, |call| self.memory.marked.call(call));
        let content = message.parts.iter().find_map(data_of);
        let Some(Value::Object(mut content)) = content else { return false };
        let name = content.get("name").and_then(Value::as_str).map(ByteString::from).unwrap_or_default();
        let marked = &mut self.memory.marked;
        sink.push(match mark.kind() {
            kind::LANE_OPENED => SourceEvent::LaneOpened(match mark.metadata() {
                Some(own) => source.with_metadata(own.clone()),
                None => source,
            }),
            kind::LANE_CLOSED => {
                let outcome = outcome_of(&Value::Object(content));
                marked.meanwhile.push(SourceEvent::LaneClosed { source, outcome });
                // In a history the artifacts of the lane follow, and have to be decoded before the lane ends.
                if origin != MessageOrigin::History {
                    self.end_meanwhile(sink);
                }
                return true;
            }
            kind::STEP_STARTED => SourceEvent::StepStarted { source, name },
            // The steps of a lane that closes end by themselves, after its blocks.
            kind::STEP_FINISHED if marked.closing.contains(source.path()) => return true,
            kind::STEP_FINISHED => SourceEvent::StepFinished { source, name },
            kind::STATE => {
                SourceEvent::StateSnapshot { source, state: content.remove("state").unwrap_or_default() }
            }
            kind::STATE_PATCH => match content.remove("patch") {
                Some(Value::Array(patch)) => SourceEvent::StateDelta { source, patch },
                _ => return false,
            },
            kind::USAGE => SourceEvent::Usage {
                source,
                usage: Box::new(usage_of(content.get("usage").unwrap_or(&Value::Null))),
            },
            kind::INTERRUPT => match content.get("interrupt").and_then(interrupt_of) {
                Some(interrupt) => {
                    marked.note_asked(interrupt.id.as_bytes(), self.config.limits.artifacts);
                    SourceEvent::InterruptRequested {
                        source,
                        interrupt: Box::new(self.own_question(interrupt)),
                    }
                }
                None => return false,
            },
            _ => return false,
        });
        true
    }

    /// Returns the interrupt as one of this task: the reply goes to the agent that forwarded it. Ids and state in the
    /// metadata are those of this task, and a call has its id in this stream.
    fn own_question(&self, mut interrupt: Interrupt) -> Interrupt {
        let state = if &*interrupt.reason == "auth_required" { "auth-required" } else { "input-required" };
        let mut beside = interrupt.metadata.take().map(|own| (*own).clone()).unwrap_or_default();
        beside.extend(self.task_metadata());
        beside.insert("state".to_owned(), state.into());
        interrupt.metadata = shared(beside);
        interrupt.tool_call_id = interrupt.tool_call_id.map(|id| self.memory.marked.call(id.as_str()).into());
        interrupt
    }

    /// Ends the turn as the mark determines. Always returns `true`; an unknown outcome is a success.
    ///
    /// The end repeats all pending interrupts, for clients that subscribed after they were requested; those of this
    /// turn are not emitted again.
    fn marked_ending(&mut self, mark: &Mark, sink: &mut Sink<'_>) -> bool {
        if mark.kind() == kind::FAILED {
            self.fail(failure_of(mark.get("failure").unwrap_or(&Value::Null)), sink.out);
            return true;
        }
        for asked in mark.get("interrupts").and_then(Value::as_array).into_iter().flatten() {
            let lane = Mark::of_path(asked.get("lane"));
            let source = lane.source(&self.source, |call| self.memory.marked.call(call));
            let question = asked.get("interrupt").and_then(interrupt_of);
            let is_new = |asked: &Interrupt| !self.memory.marked.asked.contains(asked.id.as_bytes());
            if let Some(interrupt) = question.filter(is_new) {
                let interrupt = self.own_question(interrupt);
                sink.push(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) });
            }
        }
        let how = match mark.text("outcome") {
            Some("interrupted") => Settled::Interrupted,
            Some("cancelled") => Settled::Cancelled,
            _ => Settled::Completed,
        };
        self.finish_with(how, mark.get("result").cloned(), sink.out);
        true
    }
}

//! Suppression of thinking that the source repeats, and of calls of the input that it streams again.
//!
//! Some frameworks stream thinking and then emit all of it once more, as one delta under another id, when the answer is
//! complete. Such a repetition adds no content. Only thinking since the last tool call of the agent is compared: a block
//! that stays open over a call is repeated from there, and thinking that repeats after a call is new.
//!
//! An agent that continues after a result may stream the call again, which the frontend already has. Its arguments are held
//! until the call ends, because a comparison needs all of them, and emitted if they have changed.
//!
//! Invariant: no content is lost. The delta of a thought is held until its message ends, and emitted if more of the message
//! follows; the arguments of a call are emitted once more of them arrive than are held.

use aqueduct_core::fingerprint::{Fingerprint, JsonFingerprint, Relation};
use aqueduct_core::{ByteString, ContentBlock, MessageId, Mode, Source, Timestamp, Track, Update};

use super::open::{Call, Key};
use super::seen::{Digest, REMEMBERED, detached, digest_of};
use super::{Decoder, details};
use crate::wire::Base;

/// The most ended blocks of an agent that are compared with a new one; a repetition of an earlier one is emitted.
const COMPARED: usize = 64;

/// The most bytes of arguments that are held of a repeated call of the input. Beyond it the call is emitted as it arrives.
const MAX_REPEATED_ARGUMENTS: usize = 1 << 20;

/// The ended thinking of one agent since its last tool call.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// The number of tool calls that have started.
    step: usize,
    ended: Vec<Digest>,
}

/// The text of a thinking block since the last tool call of its agent.
#[derive(Debug, Default)]
pub(super) struct Thought {
    step: usize,
    print: Fingerprint,
    /// The whole repeated text, until it is known whether more follows.
    repeat: Option<(ByteString, Base)>,
}

impl Thoughts {
    /// Handles the start of a tool call.
    pub(super) fn forget(&mut self) {
        self.step += 1;
        self.ended.clear();
    }

    /// Handles the end of a thinking block.
    pub(super) fn end(&mut self, thought: &Thought) {
        let digest = thought.print.digest();
        if thought.step == self.step && digest.0 > 0 && self.ended.len() < COMPARED {
            self.ended.push(digest);
        }
    }
}

impl Decoder {
    /// Records a delta of thinking. Returns `true` if it is held because it repeats an ended block.
    pub(super) fn is_repeat(&mut self, key: &Key, delta: &ByteString, base: &mut Base) -> bool {
        if delta.is_empty() {
            return false;
        }
        self.release_repeat(key);
        let Some(message) = self.open.get_mut(key) else { return false };
        let thoughts = &self.lanes.get(message.tag.as_ref(), None).thoughts;
        if !message.has_content && thoughts.ended.contains(&digest_of(delta)) {
            message.thought.repeat = Some((delta.clone(), std::mem::take(base)));
            return true;
        }
        if message.thought.step != thoughts.step {
            message.thought = Thought { step: thoughts.step, ..Thought::default() };
        }
        message.thought.print.push(delta);
        false
    }

    /// Emits a held delta because more of its message follows.
    pub(super) fn release_repeat(&mut self, key: &Key) {
        let Some(message) = self.open.get_mut(key) else { return };
        let Some((delta, base)) = message.thought.repeat.take() else { return };
        message.thought.print.push(&delta);
        message.has_content = true;
        self.seen.add_text(key.0, &key.1, &delta, &message.track);
        let mut update = message.update(key.0, delta);
        update.created_at = base.timestamp.map(Timestamp).or(message.created_at);
        update.details = message.details.take().or_else(|| details(base));
        self.emit(update);
    }

    /// Continues a call of the input that the source streams again. Returns `false` if the call is not such a repetition.
    pub(super) fn continue_repeated(&mut self, id: &ByteString, arguments: &str, last: bool) -> bool {
        let Some(call) = self.seen.open_call_mut(id) else { return false };
        let Some((_, repeated)) = &mut call.again else { return false };
        repeated.push_str(arguments);
        let is_too_large = repeated.len() > MAX_REPEATED_ARGUMENTS;
        let Some((name, repeated)) = call.again.take_if(|_| last || is_too_large) else { return true };
        let is_changed = || !repeated.trim().is_empty() && call.print.relation(&repeated) != Relation::Same;
        if last && !is_changed() {
            return true;
        }
        call.print = JsonFingerprint::default();
        call.print.push(&repeated);
        let parent = call.parent.clone().map(MessageId::new);
        let mut update = Update::new(ContentBlock::tool_use(id.clone(), name, repeated));
        update.message_id.clone_from(&parent);
        update.mode = Mode::Replace;
        update.last = last;
        self.emit(update);
        // The rest of the call continues the block.
        if !last && self.calls.len() < REMEMBERED {
            self.calls.insert(detached(id), Call { source: Source::root(), track: Track::MAIN, parent });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::{ContentBlock, SourceEvent};
    use serde_json::{Value, json};

    use super::Decoder;

    fn thought(id: &str, deltas: &[&str]) -> Vec<Value> {
        let of = |kind: &str| json!({"type": format!("REASONING_MESSAGE_{kind}"), "messageId": id, "role": "reasoning"});
        let content =
            |delta: &&str| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta});
        let mut events = vec![of("START")];
        events.extend(deltas.iter().map(content));
        events.push(of("END"));
        events
    }

    /// The words of all thoughts, and their sealed forms in brackets.
    fn thoughts(events: Vec<Value>) -> String {
        let mut decoder = Decoder::new();
        let mut out = String::new();
        for event in events {
            decoder.handle_payload(&event.to_string().into()).unwrap();
            while let Some(event) = decoder.poll_event() {
                let SourceEvent::Update(update) = event else { continue };
                let ContentBlock::Thinking(thinking) = update.block else { continue };
                out.push_str(&thinking.text);
                out.extend(thinking.encrypted.iter().map(|sealed| format!("[{sealed}]")));
                out.push_str(if update.last { "|" } else { "" });
            }
        }
        out
    }

    #[test]
    fn a_repeated_thought_adds_nothing() {
        let again = |deltas: &[&str]| [thought("a", &["Let me ", "see."]), thought("b", deltas)].concat();
        assert_eq!(thoughts(again(&["Let me see."])), "Let me see.|");
        assert_eq!(thoughts(again(&["Let me see.", " Well."])), "Let me see.|Let me see. Well.|");
        assert_eq!(thoughts(again(&["Let me ", "see."])), "Let me see.|Let me see.|");
        assert_eq!(thoughts(again(&["Let me think."])), "Let me see.|Let me think.|");
    }

    #[test]
    fn a_thought_after_a_call_is_a_new_one() {
        let call = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look"});
        let events = [thought("a", &["Hm."]), vec![call], thought("b", &["Hm."])].concat();
        assert_eq!(thoughts(events), "Hm.|Hm.|");
    }

    #[test]
    fn a_sealed_thought_is_no_repetition() {
        let seal = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "b", "encryptedValue": "x"});
        let mut again = thought("b", &["Hm."]);
        again.insert(2, seal);
        assert_eq!(thoughts([thought("a", &["Hm."]), again].concat()), "Hm.|Hm.[x]|");
    }
}

//! Classifies the status texts and messages of an agent: notices, fragments of the answer, the answer so far, or all of
//! it.
//!
//! A2A does not define the purpose of a `working` status text, and one text may arrive as a status, in fragments, in
//! the history, as an artifact and as the final status. The rule: text that was streamed is not shown again; a text
//! that turns out to be the answer is shown as the answer; notices stay separate from each other and from the answer.
//!
//! ```text
//!   status text ──► known by profile or setting, or certainly a fragment ──► answer, streamed from the first token
//!        │                                                     ▲
//!        ├──► certainly a notice ──► intermediate            │ the next text continues it
//!        └──► unclear: held ───────────────────────────────────┤
//!                 │ the artifact or the end has the same text ─┴─► the answer
//!                 └ anything else, or nothing for `ClientConfig::hold` ──► intermediate
//! ```
//!
//! Invariants: at most [`HELD`] texts are held, and none once the task has settled; the output is linear in the length
//! of the text. Not here: tool notices (`recognise`), artifacts (`artifact.rs` calls [`Decoder::echoes`]).

mod boundary;
mod echo;
mod piece;
mod profile;
mod shown_texts;
mod utterance;

use std::borrow::Cow;
use std::sync::Arc;

use aqueduct_core::fingerprint::{Fingerprint, Relation};
use aqueduct_core::{ByteString, Channel, Metadata, Mode, Source, Timestamp, Track};
use echo::Echo;

use super::Decoder;
use super::memory::Novelty;
use super::metadata::owned;
use super::parts::UpdateTarget;
use super::sink::Sink;
use super::status::joined_text;
use crate::config::{StreamShape, Unclear};
use crate::recognise::Sign;
use crate::wire::{Message, Part, Raw, Text, time};

pub(super) use echo::{Echoed, Tail};
pub(super) use profile::Framework;
use profile::{Marks, Restates};
use shown_texts::ShownTexts;
use utterance::{Shape, Utterance};

/// The number of texts that may be tokens or notices and are held until the next one decides. Tokens without any
/// space around them are rare; eight are a word.
const HELD: usize = 8;

/// A status text or bare message that is being decoded, with everything that was sent beside it.
pub(super) struct StatusText<'a> {
    /// The message. Beside text it may have files, data and thinking.
    pub(super) message: Message<'a>,
    /// Metadata of the message. Shared, as those of the event, because frames of one
    /// [`Template`](crate::wire::template::Template) have the same.
    pub(super) own: Option<Arc<Metadata>>,
    /// Metadata of the event.
    pub(super) beside: Option<Arc<Metadata>>,
    /// The framework that the metadata name.
    pub(super) framework: Framework<'a>,
    /// The time of the status as the agent wrote it; empty if it sends none. Parsed on use ([`at`](Self::at)): a
    /// fragment has no time of its own.
    pub(super) time: Text<'a>,
    /// Unset if the message is part of a snapshot.
    pub(super) live: bool,
    /// Set for a message that is not a status.
    pub(super) is_bare: bool,
}

impl<'a> StatusText<'a> {
    /// Returns a live status text.
    pub(super) fn new(message: Message<'a>, beside: Option<Arc<Metadata>>, time: Text<'a>) -> Self {
        let own = message.metadata.as_ref().and_then(Raw::to_object).map(Arc::new);
        let framework = Framework::read(message.metadata.as_ref(), beside.as_deref());
        Self { message, own, beside, framework, time, live: true, is_bare: false }
    }

    /// Returns the time of the status.
    fn at(&self) -> Option<Timestamp> {
        time::parse(&self.time)
    }

    /// Moves message, metadata of the event and time out, to emit them.
    fn take(&mut self) -> (Message<'a>, Metadata, Option<Timestamp>) {
        (std::mem::take(&mut self.message), owned(self.beside.take()), self.at())
    }
}

/// A message that is held until the next one, as it arrived. Owned, because it outlives its frame.
#[derive(Debug, Clone)]
struct Held {
    message: Message<'static>,
    beside: Option<Arc<Metadata>>,
    /// As [`StatusText::time`].
    time: Text<'static>,
    /// As recorded when the message arrived; the message must not be recorded a second time.
    novelty: Novelty,
    /// The agent that sent it, which may be a sub-agent.
    source: Source,
    /// Its text without thinking.
    words: String,
    /// The group that the framework names: `Marks::group`.
    group: Option<String>,
}

/// The text that is being streamed: the next status text may continue it.
#[derive(Debug, Clone)]
struct Current {
    id: ByteString,
    group: Option<String>,
    utterance: Utterance,
    /// Set once it was restated: nothing continues it.
    is_whole: bool,
}

/// The state of this turn's status texts and messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Speech {
    /// The observed shape of the agent's stream.
    shape: Option<Shape>,
    /// The text that the next fragment may continue; `None` after anything else was emitted.
    current: Option<Current>,
    /// Texts whose role is unclear; at most [`HELD`].
    held: Vec<Held>,
    /// Texts of this turn that were shown as the answer.
    shown_texts: ShownTexts,
    /// Thinking of this turn, which final messages repeat.
    thoughts: ShownTexts,
    /// The thinking that is being streamed, and its group.
    thinking: Option<(ByteString, Option<String>)>,
    /// The artifact that is restating a text, if one is.
    echo: Option<Echo>,
}

impl Speech {
    /// Returns `true` while a text is held.
    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns `true` once a status text or message was part of the answer.
    pub(super) fn has_spoken(&self) -> bool {
        !self.shown_texts.is_empty()
    }

    /// Ends the current text: later text belongs to another one.
    pub(super) fn end(&mut self) {
        self.current = None;
        self.thinking = None;
    }

    /// Returns the fingerprint of a text. Of one that is the current text and more, only what it adds is hashed.
    fn print_of(&self, text: &str) -> Fingerprint {
        let grown = self.current.as_ref().and_then(|current| current.utterance.grown_by(text));
        let Some((len, rest)) = grown else { return Fingerprint::of(text) };
        let mut print = self.shown_texts.last_print().filter(|print| print.len() == len).cloned();
        if let Some(print) = &mut print {
            print.push(rest);
            debug_assert_eq!(
                print.digest(),
                Fingerprint::of(text).digest(),
                "the current text is what was shown"
            );
        }
        print.unwrap_or_else(|| Fingerprint::of(text))
    }
}

impl Decoder {
    /// Handles a status text while the task works, or a message on its stream: decides between a repetition,
    /// thinking, a notice, a part of the answer, and a text that is held.
    ///
    /// The order of the checks matters: repetitions by id first; then thinking, notices and tool calls; then
    /// repetitions by content; the remaining texts are fragments or whole messages.
    pub(super) fn stream_text(&mut self, status_text: &mut StatusText<'_>, sink: &mut Sink<'_>) {
        if self.config.recognisers.message(&status_text.message) == Some(Sign::Thinking) {
            status_text.message.parts.iter_mut().for_each(mark_thought);
        }
        let StatusText { message, live, is_bare, .. } = &*status_text;
        let text = joined_text(&message.parts);
        let print = self.speech.print_of(&text);
        let novelty = self.memory.messages.note_print(message, &text, print, *live, &self.config.limits);
        let setting = self.config.stream;
        let task = (&*self.memory.task_id, &*self.memory.context_id);
        let marks = Marks::read(setting, message, &status_text.framework, task, *is_bare);
        // Deltas have one message id and may be equal ("ha", "ha"): there a repeated id is not a repeated message.
        let repeats_itself = *is_bare || marks.reading == profile::PIECES;
        if novelty == Novelty::Repeated && !(*live && repeats_itself) {
            self.counts.repeated += 1;
            return;
        }
        let words = self.words(&message.parts);
        let was_shown = !words.is_empty() && self.was_shown(&words, &marks, *live);
        // Notices, and texts with a tool call beside them, are never fragments of another text.
        let is_apart = setting == StreamShape::Notices
            || words.is_empty()
            || !self.notices(&text, status_text.own.as_deref()).is_empty()
            || (!was_shown && message.parts.iter().any(|part| self.is_call(part)));
        if words.is_empty() && self.think(status_text, &text, &marks, sink) {
            return;
        }
        if is_apart {
            return self.emit_apart(status_text, novelty, sink);
        }
        if was_shown {
            return self.emit_rest(status_text, sink);
        }
        // Only messages of plain text can be joined. Others are shown as a whole, or held alone.
        let is_plain = self.is_plain(&message.parts);
        let is_answer = marks.is_answer || self.config.unclear == Unclear::Show;
        if setting == StreamShape::Answer || (is_answer && !is_plain) {
            self.emit_answer(status_text, novelty, &words, sink);
        } else if is_plain {
            self.piece(status_text, novelty, words, &marks, sink);
        } else {
            self.hold(status_text, novelty, words, marks.group.map(Cow::into_owned), sink);
        }
    }

    /// Emits the next fragment of thinking. Returns `false` if the text is not thinking. `text` is the complete
    /// message.
    ///
    /// Consecutive thoughts are joined if the framework names one group for them, or if the second continues the
    /// first by its characters. Thinking is intermediate and ends the current text of the answer.
    fn think(
        &mut self,
        status_text: &StatusText<'_>,
        text: &str,
        marks: &Marks<'_>,
        sink: &mut Sink<'_>,
    ) -> bool {
        let is_thought = !text.is_empty()
            && status_text.message.parts.iter().all(|part| part.as_text().is_some() && self.is_thought(part));
        if !is_thought || status_text.is_bare {
            return false;
        }
        self.release(sink);
        let goes_on = |(_, group): &(ByteString, Option<String>)| {
            group.as_deref() == marks.group.as_deref()
                && (group.is_some() || boundary::goes_on(self.speech.thoughts.last(), text))
        };
        let id = match self.speech.thinking.take().filter(goes_on) {
            Some((id, _)) => id,
            None => self.message_place(&status_text.message, Novelty::New, sink),
        };
        self.speech.end();
        let mut place = self.shown_target(id.clone());
        (place.channel, place.created_at) = (Channel::Intermediate, status_text.at());
        self.emit_words(ByteString::from(text), true, Mode::Append, false, Metadata::new(), &place, sink);
        self.speech.thinking = Some((id, marks.group.as_deref().map(str::to_owned)));
        true
    }

    /// Handles a message that is not a fragment of any text: held texts are released, the current text ends, and the
    /// message is a block of its own. A message that is not a status is part of the answer even so.
    fn emit_apart(&mut self, status_text: &mut StatusText<'_>, novelty: Novelty, sink: &mut Sink<'_>) {
        self.release(sink);
        self.speech.end();
        let channel = if status_text.is_bare { Channel::Answer } else { Channel::Intermediate };
        let (message, beside, at) = status_text.take();
        self.emit_noted(message, novelty, beside, at, channel, sink);
    }

    /// Handles a message that is a complete part of the answer. Recorded among the shown texts, so that an artifact
    /// that repeats it adds nothing.
    fn emit_answer(
        &mut self,
        status_text: &mut StatusText<'_>,
        novelty: Novelty,
        words: &str,
        sink: &mut Sink<'_>,
    ) {
        self.release(sink);
        self.speech.end();
        let id = self.message_place(&status_text.message, novelty, sink);
        self.speech.shown_texts.begin(id.clone(), words, self.config.limits.compared_text);
        self.speech.shown_texts.set_source(Some(self.source.clone()));
        let (mut message, beside, at) = status_text.take();
        message.message_id = Text::from(id.to_string());
        self.emit_noted(message, Novelty::New, beside, at, Channel::Answer, sink);
    }

    /// Emits the other parts of a message whose text was shown: files, data, and thinking that is new. After a live
    /// restatement nothing continues the current text.
    fn emit_rest(&mut self, status_text: &mut StatusText<'_>, sink: &mut Sink<'_>) {
        self.counts.repeated += 1;
        if let Some(current) = &mut self.speech.current {
            current.is_whole |= status_text.live;
        }
        let (mut message, beside, at) = status_text.take();
        message.parts.retain(|part| !self.was_emitted(part));
        if !message.parts.is_empty() {
            self.emit_noted(message, Novelty::New, beside, at, Channel::Intermediate, sink);
        }
    }

    /// Returns `true` for parts that are text and nothing else: only such messages can be joined.
    fn is_plain(&self, parts: &[Part<'_>]) -> bool {
        parts.iter().all(|part| part.as_text().is_some() && !self.is_thought(part))
    }

    /// Returns `true` for text, which is compared separately, and for thinking that was shown.
    pub(super) fn was_emitted(&self, part: &Part<'_>) -> bool {
        let Some(text) = part.as_text() else { return false };
        !self.is_thought(part) || self.speech.thoughts.holds(text)
    }

    /// Records thinking that was shown.
    pub(super) fn note_thought(&mut self, text: &str) {
        self.speech.thoughts.begin(ByteString::new(), text, self.config.limits.compared_text);
    }

    /// Returns `true` if a text restates what was shown.
    ///
    /// A message of a snapshot is compared with all texts of the turn, shown or held. A live one is compared with the
    /// current text alone, and only in the group and from the length at which the profile expects restatements: an
    /// agent may repeat itself.
    fn was_shown(&self, words: &str, marks: &Marks<'_>, live: bool) -> bool {
        if !live {
            let is_held = self.speech.held.iter().any(|held| held.words.trim() == words.trim());
            return is_held || self.speech.shown_texts.holds(words);
        }
        let Some(current) = &self.speech.current else { return false };
        let is_same = || self.speech.shown_texts.relation_to_last(words) == Relation::Same;
        current.group.as_deref() == marks.group.as_deref()
            && match marks.restates {
                Restates::Never => false,
                // A comparison with fragments is cheap, because most texts are shorter; one with a text that is sent whole
                // would hash it.
                Restates::IfLong => {
                    current.utterance.is_in_pieces() && is_same() && current.utterance.may_be_restated()
                }
                Restates::Always => is_same(),
            }
    }

    /// Returns the place of a status text: the main track of the answer, for the agent that began the text.
    pub(super) fn shown_target(&self, message_id: ByteString) -> UpdateTarget {
        UpdateTarget {
            source: self.speech.shown_texts.source_of(&message_id).unwrap_or_else(|| self.source.clone()),
            message_id,
            track: Track::MAIN,
            channel: Channel::Answer,
            created_at: None,
            metadata: Metadata::new(),
            last: false,
        }
    }

    /// Returns the text of parts that are not thinking, joined. Comparisons use it, because agents restate an answer
    /// without its thinking. The text of a single part stays a slice of the frame.
    pub(super) fn words<'a>(&self, parts: &[Part<'a>]) -> Cow<'a, str> {
        let mut words = parts.iter().filter(|part| !self.is_thought(part)).filter_map(Part::as_text);
        let mut joined = words.next().map(|first| first.0.clone()).unwrap_or_default();
        words.for_each(|more| joined.to_mut().push_str(more));
        joined
    }

    /// Returns `true` for a part that a recogniser knows as something else than content: a tool call or result, a
    /// plan, a form, state or a card. The message is then emitted apart, because its text is a remark on that part.
    fn is_call(&self, part: &Part<'_>) -> bool {
        part.as_text().is_none()
            && matches!(
                self.config.recognisers.part(part),
                Some(
                    Sign::ToolStarted(_)
                        | Sign::ToolEnded(_)
                        | Sign::ToolOutput(_)
                        | Sign::Plan(_)
                        | Sign::InputForm(_)
                        | Sign::State(_)
                        | Sign::Several(_)
                        | Sign::Card { .. }
                )
            )
    }
}

/// Adds the metadata by which a text part is recognised as thinking, for frameworks that mark the message instead of
/// its parts (Agno).
fn mark_thought(part: &mut Part<'_>) {
    let mut own = part.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
    own.insert("thought".to_owned(), true.into());
    part.metadata = Some(Raw::from_value(&own.into()));
}

#[cfg(test)]
mod tests;

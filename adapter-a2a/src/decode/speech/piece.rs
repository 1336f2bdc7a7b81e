//! Joins status texts that are fragments of one text, and holds those whose role is not clear yet.
//!
//! ```text
//!   text ──► continues the current text ──────────────► appended to it, or replaces it once
//!        ──► continues the held texts ────────────────► they begin a text together
//!        ──► certainly of the answer ─────────────────► begins a text
//!        ──► certainly a notice ──────────────────────► emitted apart
//!        └─► unclear ─────────────────────────────────► held
//! ```
//!
//! `utterance` compares a fragment with its text, `boundary` judges two texts by their characters; this module
//! applies the results to the state of the turn (`Speech`) and emits. Fragments are messages of plain text; a message
//! with other parts can be held, but is not joined.

use std::borrow::Cow;

use aqueduct_core::fingerprint::Relation;
use aqueduct_core::{ByteString, Channel, MessageId, Mode, Update};

use super::super::memory::Novelty;
use super::super::sink::Sink;
use super::super::{Decoder, metadata};
use super::boundary::{self, Join};
use super::profile::{self, Marks, Restates};
use super::utterance::{Reading, Step, Utterance};
use super::{Current, HELD, Held, StatusText};
use crate::config::Unclear;
use crate::wire::time;

impl Decoder {
    /// Handles one more text without anything beside it. `words` is the text of `status_text`, `marks` what the
    /// framework's metadata say of it.
    ///
    /// Held texts that this one continues are emitted, and the text is compared again with the result: one recursion
    /// at most, because nothing is held then.
    pub(super) fn piece(
        &mut self,
        status_text: &mut StatusText<'_>,
        novelty: Novelty,
        words: Cow<'_, str>,
        marks: &Marks<'_>,
        sink: &mut Sink<'_>,
    ) {
        // The current text goes on, unless it was restated (`is_whole`) or the framework names another group.
        if let Some(current) = &mut self.speech.current
            && current.group.as_deref() == marks.group.as_deref()
            && !current.is_whole
        {
            // A text of fragments may be followed by the whole with more at its end: then only the rest is new. Short
            // texts are left to `step`, because "1" and "10" may be two fragments.
            let may_restate = current.utterance.is_in_pieces() && marks.restates != Restates::Never;
            let step = match may_restate.then(|| self.speech.shown_texts.relation_to_last(&words)) {
                Some(Relation::Extends(rest)) if current.utterance.may_be_restated() => {
                    Step::Piece(words.len() - rest.len())
                }
                _ => current.utterance.step(&words, marks.reading),
            };
            if step != Step::Other {
                return self.go_on_with(step, &words, sink);
            }
        }
        self.speech.end();
        if self.joins_held(&words, marks, sink) {
            return self.piece(status_text, novelty, words, marks, sink);
        }
        // Of the answer for certain: by profile or setting; by white space at an edge, which only tokens have;
        // because unclear texts are shown at once; or because the stream was seen to consist of tokens and this is
        // one more.
        let is_sure = marks.is_answer
            || boundary::has_edge_space(&words)
            || (self.config.unclear == Unclear::Show && !boundary::is_notice(&words))
            || (self.speech.shape.is_some() && boundary::is_token(&words) && !boundary::is_notice(&words));
        if is_sure {
            self.release(sink);
            self.begin(status_text, novelty, &words, marks, sink);
        } else if boundary::is_notice(&words) {
            self.emit_apart(status_text, novelty, sink);
        } else {
            let group = marks.group.as_deref().map(str::to_owned);
            self.hold(status_text, novelty, words, group, sink);
        }
    }

    /// Returns `true` if the held text is continued by this one; the held texts are then the current text.
    ///
    /// If they are certainly separate texts, or [`HELD`] texts are held, the held ones are emitted as notices and
    /// `false` is returned. If still unclear, they stay held.
    fn joins_held(&mut self, words: &str, marks: &Marks<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(last) = self.speech.held.last() else { return false };
        let grows = words.len() > last.words.len() && words.starts_with(&last.words);
        let same_group = last.group.as_deref() == marks.group.as_deref();
        let join = match marks.reading {
            _ if !same_group => Join::No,
            _ if marks.group.is_some() || grows => Join::Yes,
            _ => boundary::join(&last.words, words),
        };
        let is_plain = self.speech.held.iter().all(|held| self.is_plain(&held.message.parts));
        if join != Join::Yes || !is_plain {
            if join == Join::No || self.speech.held.len() >= HELD {
                self.release(sink);
            }
            return false;
        }
        let mut held = std::mem::take(&mut self.speech.held);
        // The text repeats the last held one and extends it: only that one is its start, the others were notices.
        if grows && let Some(last) = held.pop() {
            for notice in held {
                self.emit_held(notice, Channel::Intermediate, sink);
            }
            held = vec![last];
        }
        self.begin_with(held, marks, sink);
        true
    }

    /// Holds a message until its role is clear: the answer if an artifact or the end repeats it, a fragment if the
    /// next text continues it, otherwise a notice. Before a message with other parts than text the held ones are
    /// released, because such a message continues no text.
    pub(super) fn hold(
        &mut self,
        status_text: &mut StatusText<'_>,
        novelty: Novelty,
        words: Cow<'_, str>,
        group: Option<String>,
        sink: &mut Sink<'_>,
    ) {
        let is_same =
            |held: &Held| group.is_some() && held.group == group && held.words.trim() == words.trim();
        if self.speech.held.last().is_some_and(is_same) {
            // The only fragment of a text, then the complete text.
            self.speech.held.pop();
        }
        if !self.is_plain(&status_text.message.parts) {
            self.release(sink);
        }
        self.speech.end();
        let (message, time) =
            (std::mem::take(&mut status_text.message), std::mem::take(&mut status_text.time));
        self.speech.held.push(Held {
            message: message.into_owned(),
            beside: status_text.beside.take(),
            time: time.into_owned(),
            novelty,
            source: self.source.clone(),
            words: words.into_owned(),
            group,
        });
    }

    /// Emits held messages as notices, in their order. Called whenever other input shows that they were not
    /// fragments, and by
    /// [`release_held`](Decoder::release_held) when the wait is over.
    pub(in super::super) fn release(&mut self, sink: &mut Sink<'_>) {
        for held in std::mem::take(&mut self.speech.held) {
            self.emit_held(held, Channel::Intermediate, sink);
        }
    }

    /// Emits the held texts as the answer. Returns `false` if none is held.
    ///
    /// Called when a task completes without a message: several held texts are then the fragments of one text. A
    /// message with other parts than text, which can only be the first, is emitted by itself.
    pub(in super::super) fn promote_held(&mut self, sink: &mut Sink<'_>) -> bool {
        let mut held = std::mem::take(&mut self.speech.held);
        let Some(first) = held.first() else { return false };
        let is_alone = held.len() == 1 || !self.is_plain(&first.message.parts);
        let fragments = held.split_off(usize::from(is_alone));
        for answer in held {
            self.emit_held(answer, Channel::Answer, sink);
        }
        self.begin_with(fragments, &Marks::unknown(), sink);
        true
    }

    /// Emits a held text on a channel, for the agent that sent it: the speaker may have changed since.
    pub(super) fn emit_held(&mut self, held: Held, channel: Channel, sink: &mut Sink<'_>) {
        let Held { message, beside, time, novelty, source, .. } = held;
        let own = std::mem::replace(&mut self.source, source);
        self.emit_noted(message, novelty, metadata::owned(beside), time::parse(&time), channel, sink);
        self.source = own;
    }

    /// Begins a text with held fragments: the first determines id, metadata and time, the others are appended.
    fn begin_with(&mut self, held: Vec<Held>, marks: &Marks<'_>, sink: &mut Sink<'_>) {
        let mut held = held.into_iter();
        let Some(first) = held.next() else { return };
        let Held { message, beside, time, novelty, words, .. } = first;
        let mut status_text = StatusText::new(message, beside, time);
        self.begin(&mut status_text, novelty, &words, marks, sink);
        for more in held {
            let Some(current) = &mut self.speech.current else { return };
            let step = current.utterance.step(&more.words, profile::PIECES);
            self.go_on_with(step, &more.words, sink);
        }
    }

    /// Begins a text that further status texts may continue, and emits its first fragment.
    ///
    /// The text is streamed as the answer on the main track, under the id of its first message. Later fragments have
    /// ids of their own, which are not emitted.
    fn begin(
        &mut self,
        status_text: &mut StatusText<'_>,
        novelty: Novelty,
        words: &str,
        marks: &Marks<'_>,
        sink: &mut Sink<'_>,
    ) {
        let (message, beside, at) = status_text.take();
        // Without a profile the shape is inferred from the next fragments.
        let shape = match marks.reading {
            Reading::Known(shape) => Some(shape),
            _ => None,
        };
        let mut id = self.message_place(&message, novelty, sink);
        if self.speech.shown_texts.source_of(&id).is_some() {
            // Another text under the id of an earlier one.
            id = ByteString::from(format!("{id}#{}", self.memory.next()));
        }
        self.speech.shown_texts.begin(id.clone(), words, self.config.limits.compared_text);
        self.speech.shown_texts.set_source(Some(self.source.clone()));
        let (utterance, group) = (Utterance::new(words, shape), marks.group.as_deref().map(str::to_owned));
        self.speech.current = Some(Current { id: id.clone(), group, utterance, is_whole: false });
        let mut own = metadata::of_message(&message);
        own.extend(beside);
        if let [part] = &*message.parts {
            metadata::put_part(&mut own, part);
        }
        // A single part is shared with the frame without a copy.
        let text = match &*message.parts {
            [part] => part.as_text().map(|text| sink.share_str(text)).unwrap_or_default(),
            _ => ByteString::from(words),
        };
        let mut place = self.shown_target(id);
        place.created_at = at;
        self.emit_words(text, false, Mode::Append, false, own, &place, sink);
    }

    /// Emits the result of comparing a fragment with the text so far, and records the observed shape for the texts
    /// that follow.
    ///
    /// `Step::Other` has no effect here: [`piece`](Self::piece) handles it, and held fragments are read as `PIECES`,
    /// which never gives it.
    fn go_on_with(&mut self, step: Step, words: &str, sink: &mut Sink<'_>) {
        let limit = self.config.limits.compared_text;
        let Some(current) = &self.speech.current else { return };
        self.speech.shape = current.utterance.shape().or(self.speech.shape);
        let id = current.id.clone();
        let (text, mode) = match step {
            Step::Nothing | Step::Other => {
                self.counts.repeated += 1;
                return;
            }
            Step::Piece(from) => (sink.share_str(words.get(from..).unwrap_or_default()), Mode::Append),
            Step::Rest(rest) => (ByteString::from(rest), Mode::Append),
            Step::Replace(whole) => (ByteString::from(whole), Mode::Replace),
        };
        match mode {
            Mode::Replace => self.speech.shown_texts.replace(&text, limit),
            _ => self.speech.shown_texts.append(&text, limit),
        }
        let source = self.speech.shown_texts.source_of(&id);
        self.note_answer(Channel::Answer, &text);
        // Without `emit_words`, as a chunk of an artifact is emitted: a fragment has no metadata.
        sink.push(Update {
            source: source.unwrap_or_else(|| self.source.clone()),
            message_id: Some(MessageId::new(id)),
            response_id: self.response_id(),
            mode,
            ..Update::text(text)
        });
    }
}

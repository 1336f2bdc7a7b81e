//! Artifacts, histories and final statuses that restate earlier text: only what is new is emitted.
//!
//! Agents that stream in status texts repeat the answer as an artifact (Strands, Google ADK, `LangGraph`), chunk by
//! chunk or at once, and some repeat it again with the final status:
//!
//! ```text
//! status "The ", status "quick ", status "fox", artifact "The quick fox\n"  ──►  "The quick fox", once
//! status "Looking…", artifact "It is 21 degrees."                           ──►  notice, then answer
//! ```
//!
//! The comparison ignores white space at the ends of a text. Not here: repetitions between artifacts (`matching`) and
//! of messages with the same id (`memory`).

use aqueduct_core::fingerprint::Relation;
use aqueduct_core::{ByteString, Channel, Metadata, Mode};

use super::super::Decoder;
use super::super::parts::part_number;
use super::super::sink::Sink;
use super::super::status::joined_text;
use super::Held;
use super::boundary::keep_end;
use super::shown_texts::{Match, is_end};
use crate::wire::Part;

/// A held text that begins the answer and is shorter than this may still be a notice ("Look" before "Looking at it,
/// …"), so it is emitted.
const CONTAINED_BYTES: usize = 8;

/// An artifact whose text has restated earlier text so far. Its chunks are not emitted; they are kept, because a
/// later chunk may show that the artifact is a text of its own after all, which then has to be emitted from its
/// start.
#[derive(Debug, Clone)]
pub(super) struct Echo {
    /// The artifact, by its key in the task memory.
    artifact: ByteString,
    /// The text of the artifact so far; at most `DecodeLimits::compared_text` bytes.
    words: String,
}

/// The result of comparing a text with earlier text.
pub(in super::super) enum Echoed {
    /// The text was shown, or its new part is emitted now.
    Yes,
    /// The text is new. Contains all of it, if a part was held.
    No(Option<String>),
}

/// The end of the artifact that streamed last, to find text that is repeated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    artifact: ByteString,
    text: String,
}

impl Tail {
    /// Appends text of an artifact. Text of another artifact replaces what is kept. Beyond `limit` bytes the last
    /// half of the limit is kept, so that a long text is not moved with every chunk.
    pub(in super::super) fn push(&mut self, artifact: &ByteString, text: &str, limit: usize) {
        if self.artifact != *artifact {
            self.artifact = artifact.clone();
            self.text.clear();
        }
        self.text.push_str(text);
        if self.text.len() > limit {
            keep_end(&mut self.text, limit / 2);
        }
    }

    /// Returns `true` if a text that replaces an artifact is the end of what it has shown. fasta2a appends "Let me
    /// look." and "It is 21 degrees." to one artifact, and then replaces it by the last sentence alone.
    pub(in super::super) fn ends_with(&self, artifact: &ByteString, text: &str) -> bool {
        self.artifact == *artifact && !text.trim().is_empty() && is_end(self.text.trim_end(), text.trim())
    }
}

impl Decoder {
    /// Compares the text of an artifact with what status texts have shown, and emits what it adds.
    ///
    /// `append` is set for a further chunk of an artifact that has restated so far; its text is then compared as a
    /// whole. `is_whole` is set if no more of it follows: only then is a held text released that the artifact may
    /// still turn out to repeat. `parts` are those of the chunk.
    pub(in super::super) fn echoes(
        &mut self,
        artifact: &ByteString,
        parts: &[Part<'_>],
        append: bool,
        is_whole: bool,
        sink: &mut Sink<'_>,
    ) -> Echoed {
        let earlier = self.speech.echo.take().filter(|echo| append && echo.artifact == *artifact);
        let was_echo = earlier.is_some();
        let mut words = earlier.map(|echo| echo.words).unwrap_or_default();
        words.push_str(&self.words(parts));
        if words.trim().is_empty() {
            return Echoed::No(None);
        }
        // The artifact decides about held texts first: one that it repeats is the answer, not a notice.
        self.settle_held(&words, parts, !is_whole, sink);
        self.speech.end();
        let limit = self.config.limits.compared_text;
        match self.speech.shown_texts.relation(&words) {
            Match::Shown | Match::Starts => self.counts.repeated += 1,
            Match::Extends(id, from) => {
                self.emit_again(id.clone(), words.get(from..).unwrap_or_default(), Mode::Append, sink);
                self.speech.shown_texts.set(&id, &words, limit);
            }
            Match::Corrects(id) => {
                self.emit_again(id.clone(), &words, Mode::Replace, sink);
                self.speech.shown_texts.set(&id, &words, limit);
            }
            Match::Other => return Echoed::No(was_echo.then_some(words)),
        }
        // Beyond the limit the next chunk is compared alone.
        if words.len() <= limit {
            self.speech.echo = Some(Echo { artifact: artifact.clone(), words });
        }
        Echoed::Yes
    }

    /// Appends to a text that was shown, or replaces it, under the id and for the agent of that text.
    fn emit_again(&mut self, id: ByteString, text: &str, mode: Mode, sink: &mut Sink<'_>) {
        let place = self.shown_target(id);
        self.emit_words(ByteString::from(text), false, mode, false, Metadata::new(), &place, sink);
    }

    /// Handles text of the answer from another place: a held text that equals it is dropped, any other is a notice.
    ///
    /// `may_go_on` is set if more of the answer follows: a held text that starts with it stays held. `parts` are those of the
    /// answer.
    pub(in super::super) fn settle_held(
        &mut self,
        words: &str,
        parts: &[Part<'_>],
        may_go_on: bool,
        sink: &mut Sink<'_>,
    ) {
        let body = words.trim();
        let all: String = self.speech.held.iter().map(|held| held.words.as_str()).collect();
        let Some(last) = self.speech.held.last().map(|held| held.words.trim().to_owned()) else { return };
        // Three cases: all held texts together are the answer; the last one is the answer or its start, and the
        // others are notices; or none is.
        if all.trim() == body {
            for held in std::mem::take(&mut self.speech.held) {
                self.drop_repeated(held, parts, sink);
            }
        } else if last == body || (last.len() >= CONTAINED_BYTES && body.starts_with(&last)) {
            self.drop_last(parts, sink);
        } else if !(may_go_on && (all.trim_start().starts_with(body) || last.starts_with(body))) {
            self.release(sink);
        }
    }

    /// Releases the held texts except for the last, which the answer repeats.
    fn drop_last(&mut self, parts: &[Part<'_>], sink: &mut Sink<'_>) {
        let last = self.speech.held.pop();
        self.release(sink);
        if let Some(last) = last {
            self.drop_repeated(last, parts, sink);
        }
    }

    /// Drops the text of a held message that the answer repeats, and emits what else the message has: files, data and thinking
    /// that are not among the parts of the answer.
    fn drop_repeated(&mut self, mut held: Held, parts: &[Part<'_>], sink: &mut Sink<'_>) {
        let is_repeated = |part: &Part<'_>| parts.iter().any(|other| part_number(other) == part_number(part));
        held.message.parts.retain(|part| !self.was_emitted(part) && !is_repeated(part));
        if !held.message.parts.is_empty() {
            self.emit_held(held, Channel::Intermediate, sink);
        }
    }

    /// Handles more text of an artifact while a text is held: drops the held text once the artifact has repeated it,
    /// waits while the artifact is the start of it, and emits it as a notice if they differ.
    pub(in super::super) fn settle_streamed(
        &mut self,
        artifact: &ByteString,
        parts: &[Part<'_>],
        sink: &mut Sink<'_>,
    ) {
        let earlier = self.memory.artifacts.get(&**artifact).map(|record| record.text.clone());
        let mut shown = earlier.unwrap_or_default();
        shown.push(&joined_text(parts));
        let Some(last) = self.speech.held.last() else { return };
        match shown.relation_of_whole(&last.words) {
            Relation::Same => self.drop_last(parts, sink),
            Relation::Extends(_) => {}
            Relation::First | Relation::Different => self.release(sink),
        }
    }

    /// Returns `true` if the text of a final status was shown. Emits what it adds. A text that is only the start of a
    /// shown one is a text of its own here: nothing follows it.
    pub(in super::super) fn concludes(&mut self, parts: &[Part<'_>], sink: &mut Sink<'_>) -> bool {
        let words = &*self.words(parts);
        self.settle_held(words, parts, false, sink);
        if words.trim().is_empty() {
            return false;
        }
        match self.speech.shown_texts.relation(words) {
            Match::Shown => self.counts.repeated += 1,
            Match::Extends(id, from) => {
                self.emit_again(id, words.get(from..).unwrap_or_default(), Mode::Append, sink);
            }
            Match::Corrects(id) => self.emit_again(id, words, Mode::Replace, sink),
            Match::Starts | Match::Other => return false,
        }
        true
    }
}

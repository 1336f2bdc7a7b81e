//! The parts of the answer that this turn has shown in status texts and messages, for comparison with restatements:
//! artifacts, the history, the final status.
//!
//! White space around a text is ignored. Texts are kept up to [`DecodeLimits::compared_text`] bytes; of longer ones
//! only a fingerprint remains, which detects the complete text and its extensions, but no parts.
//!
//! [`DecodeLimits::compared_text`]: crate::config::DecodeLimits::compared_text

use std::collections::VecDeque;

use aqueduct_core::fingerprint::{Fingerprint, Relation};
use aqueduct_core::{ByteString, Source};

/// How a text relates to the shown ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The text was shown.
    Shown,
    /// The text so far is the start of a shown one.
    Starts,
    /// The text continues that message, from that byte on.
    Extends(ByteString, usize),
    /// The text is another version of that message.
    Corrects(ByteString),
    /// The text is new.
    Other,
}

/// Texts with this many equal bytes at the start are versions of one text.
const ALIKE_BYTES: usize = 24;

/// One shown text.
#[derive(Debug, Clone)]
struct ShownText {
    id: ByteString,
    source: Option<Source>,
    text: String,
    print: Fingerprint,
    /// Unset once the text was too long to be kept.
    is_kept: bool,
}

/// The texts of a turn, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct ShownTexts {
    list: VecDeque<ShownText>,
    bytes: usize,
}

impl ShownTexts {
    /// Returns `true` if this turn has shown no text.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a text, which becomes the latest. `limit` bounds the bytes of all kept texts together.
    pub(super) fn begin(&mut self, id: ByteString, text: &str, limit: usize) {
        let print = Fingerprint::default();
        self.list.push_back(ShownText { id, source: None, text: String::new(), print, is_kept: true });
        self.append(text, limit);
    }

    /// Sets the source of the latest text.
    pub(super) fn set_source(&mut self, source: Option<Source>) {
        if let Some(shown) = self.list.back_mut() {
            shown.source = source;
        }
    }

    /// Returns the source of the text of that message, or `None` if no text has that id.
    pub(super) fn source_of(&self, id: &str) -> Option<Source> {
        self.list.iter().rev().find(|shown| *shown.id == *id)?.source.clone()
    }

    /// Appends to the latest text.
    pub(super) fn append(&mut self, text: &str, limit: usize) {
        let Some(shown) = self.list.back_mut() else { return };
        shown.print.push(text);
        if shown.is_kept {
            shown.text.push_str(text);
            self.bytes += text.len();
        }
        self.shorten(limit);
    }

    /// Replaces the latest text.
    pub(super) fn replace(&mut self, text: &str, limit: usize) {
        if let Some(shown) = self.list.pop_back() {
            self.bytes -= shown.text.len();
            self.begin(shown.id, text, limit);
            self.set_source(shown.source);
        }
    }

    /// Continues or replaces the text of that message.
    pub(super) fn set(&mut self, id: &ByteString, text: &str, limit: usize) {
        if let Some(shown) = self.list.iter_mut().find(|shown| shown.id == *id) {
            self.bytes = self.bytes.saturating_sub(shown.text.len()) + text.len();
            text.clone_into(&mut shown.text);
            (shown.print, shown.is_kept) = (Fingerprint::of(text), true);
        }
        self.shorten(limit);
    }

    /// Drops the texts that were shown first, until the rest fits `limit` bytes. Their fingerprints stay: a
    /// repetition of the complete text is still detected, a repetition of a part of it is not.
    fn shorten(&mut self, limit: usize) {
        while self.bytes > limit {
            let Some(shown) = self.list.iter_mut().find(|shown| !shown.text.is_empty()) else { return };
            self.bytes -= shown.text.len();
            shown.text = String::new();
            shown.is_kept = false;
        }
    }

    /// Returns `true` if all of a text was shown, as one text, as several, or as the end of one.
    pub(super) fn holds(&self, text: &str) -> bool {
        let body = text.trim();
        !body.is_empty()
            && (self.list.iter().any(|shown| shown.print.relation_of_whole(body) == Relation::Same)
                || self.list.iter().any(|shown| is_end(shown.text.trim_end(), body))
                || self.ends_with(body))
    }

    /// Returns `true` if the concatenation of the latest texts equals that text.
    fn ends_with(&self, body: &str) -> bool {
        let mut rest = body;
        for shown in self.list.iter().rev() {
            let own = shown.text.trim();
            if own.is_empty() {
                return false;
            }
            match rest.strip_suffix(own) {
                Some(before) => rest = before.trim_end(),
                None => return false,
            }
            if rest.is_empty() {
                return true;
            }
        }
        false
    }

    /// Compares a text with all shown ones, the latest first.
    ///
    /// An agent may also correct its last text (a lost first word, another end): such a version replaces the text
    /// instead of following it.
    pub(super) fn relation(&self, text: &str) -> Match {
        if self.holds(text) {
            return Match::Shown;
        }
        let body = text.trim();
        for shown in self.list.iter().rev() {
            if shown.is_kept && shown.text.trim_start().starts_with(text.trim_start()) {
                return Match::Starts;
            }
            if let Relation::Extends(rest) = shown.print.relation_of_whole(body) {
                let from = text.trim_end().len() - rest.len();
                return Match::Extends(shown.id.clone(), from);
            }
        }
        match self.list.back() {
            Some(last) if is_alike(last.text.trim(), body) => Match::Corrects(last.id.clone()),
            _ => Match::Other,
        }
    }

    /// Returns the latest text, as far as it is kept.
    pub(super) fn last(&self) -> &str {
        self.list.back().map_or("", |shown| &shown.text)
    }

    /// Returns the fingerprint of the latest text.
    pub(super) fn last_print(&self) -> Option<&Fingerprint> {
        self.list.back().map(|shown| &shown.print)
    }

    /// Returns how a text relates to the latest one alone.
    pub(super) fn relation_to_last<'t>(&self, text: &'t str) -> Relation<'t> {
        self.list.back().map_or(Relation::Different, |shown| shown.print.relation_of_whole(text))
    }
}

/// Returns `true` if `body` is the end of `text`, from the start of a word on.
pub(in super::super) fn is_end(text: &str, body: &str) -> bool {
    let Some(before) = text.strip_suffix(body) else { return false };
    let joins_word = before.ends_with(char::is_alphanumeric) && body.starts_with(char::is_alphanumeric);
    before.is_empty() || !joins_word
}

/// Returns `true` if two texts are versions of one: most of the shorter one begins or ends both.
fn is_alike(shown: &str, body: &str) -> bool {
    if shown.is_empty() || body.is_empty() {
        return false;
    }
    let same_start = shown.bytes().zip(body.bytes()).take_while(|(a, b)| a == b).count();
    same_start >= ALIKE_BYTES || same_start * 2 > shown.len().max(body.len()) || body.ends_with(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_texts(texts: &[&str]) -> ShownTexts {
        let mut shown_texts = ShownTexts::default();
        for (at, text) in texts.iter().enumerate() {
            shown_texts.begin(at.to_string().into(), text, 1000);
        }
        shown_texts
    }

    #[test]
    fn what_was_shown_is_found_however_it_is_restated() {
        let shown = shown_texts(&["Let me look.", "It is 21 degrees in Paris."]);
        for text in [
            "Let me look.",
            "It is 21 degrees in Paris.\n",
            "Let me look.It is 21 degrees in Paris.",
            "Let me look.\n\nIt is 21 degrees in Paris.",
            "Paris.",
        ] {
            assert_eq!(shown.relation(text), Match::Shown, "{text}");
        }
        assert_eq!(shown.relation("It is"), Match::Starts);
        assert_eq!(shown.relation("It is 21 degrees in Paris. Enjoy!"), Match::Extends("1".into(), 26));
        assert_eq!(shown.relation("Something else."), Match::Other);
        assert_eq!(shown.relation("is."), Match::Other);
        let lost = shown_texts(&["quick brown fox."]);
        assert_eq!(lost.relation("The quick brown fox."), Match::Corrects("0".into()));
    }

    #[test]
    fn a_long_text_is_still_known_as_a_whole() {
        let long = "word ".repeat(1000);
        let mut shown_texts = shown_texts(&[&long]);
        assert!(shown_texts.list.front().unwrap().text.is_empty());
        assert!(shown_texts.holds(&long) && !shown_texts.holds("word"));
        shown_texts.append("end", 1000);
        assert!(shown_texts.holds(&format!("{long}end")));
    }
}

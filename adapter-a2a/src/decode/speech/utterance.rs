//! One text that comes in several status texts or messages.
//!
//! ```text
//!                    ┌── equal: counted, shown once it is known what it was
//!   first piece ──► Single ── extends it ──► Grows ── extends it ──► Grows
//!                    │                         │ does not, and too short to be sure
//!                    └── goes on ──► Pieces ◄──┘      (the shown text is replaced, once)
//! ```
//!
//! "1", "10", " 100" may be a text that grows or three fragments: both readings are kept until one is ruled out. The
//! output is linear in the length of the text: a text is replaced at most once.

use super::super::memory::RESTATED_BYTES;
use super::boundary::{Join, goes_on, join, keep_end};

/// How the fragments of a text relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each fragment follows the one before.
    Pieces,
    /// Each fragment is the complete text so far.
    Grows,
}

/// The effect of one more fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No new text.
    Nothing,
    /// The text continues with the fragment from that byte on.
    Piece(usize),
    /// The text continues with this.
    Rest(String),
    /// The earlier reading was wrong: this is the text.
    Replace(String),
    /// The fragment belongs to another text.
    Other,
}

/// How fragments are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As their texts suggest.
    Inferred,
    /// As [`Reading::Inferred`]; all of them are known to belong together.
    Together,
    /// As that shape.
    Known(Shape),
}

/// A base of fewer bytes may be the start of the next fragment by coincidence ("1", "10"; "ha", "haha").
const SURE_BYTES: usize = 3;

/// Only the end of a text in fragments is needed, to see whether it continues.
const TAIL_BYTES: usize = 256;

/// A text that is being received.
#[derive(Debug, Clone)]
pub(super) struct Utterance {
    shape: Option<Shape>,
    /// The text; only its end, once it is known to arrive in fragments.
    text: String,
    /// The concatenation of all fragments, while that reading is possible.
    joined: Option<String>,
    pieces: u32,
}

impl Utterance {
    /// Returns a text that consists of its first fragment.
    pub(super) fn new(first: &str, shape: Option<Shape>) -> Self {
        let joined = shape.is_none().then(|| first.to_owned());
        Self { shape, text: first.to_owned(), joined, pieces: 1 }
    }

    /// Returns the shape, once a fragment has shown it.
    pub(super) fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// Returns `true` for a text that arrives in fragments: only such a text is restated.
    pub(super) fn is_in_pieces(&self) -> bool {
        self.shape == Some(Shape::Pieces)
    }

    /// Returns `true` if a fragment that equals the complete text is a restatement.
    pub(super) fn may_be_restated(&self) -> bool {
        self.is_in_pieces() && self.pieces > 1 && self.text.trim().len() >= RESTATED_BYTES
    }

    /// Returns the length of a text that is sent whole each time, and what a fragment adds to it. Returns `None` for other
    /// texts, and for a fragment that does not begin with the text.
    pub(super) fn grown_by<'p>(&self, piece: &'p str) -> Option<(usize, &'p str)> {
        if self.shape != Some(Shape::Grows) {
            return None;
        }
        Some((self.text.len(), piece.strip_prefix(self.text.as_str())?))
    }

    /// Handles one more fragment.
    pub(super) fn step(&mut self, piece: &str, reading: Reading) -> Step {
        let shape = match reading {
            Reading::Known(shape) => Some(shape),
            _ => self.shape,
        };
        let step = match shape {
            None if piece == self.text => self.repeat(piece),
            None if piece.starts_with(&self.text) => self.grow(piece, reading),
            Some(Shape::Grows) => self.grow(piece, reading),
            Some(Shape::Pieces) | None => self.follow(piece, reading),
        };
        if step != Step::Other {
            self.pieces = self.pieces.saturating_add(1);
        }
        step
    }

    /// Handles a fragment that equals the text.
    fn repeat(&mut self, piece: &str) -> Step {
        self.note(piece);
        Step::Nothing
    }

    /// Handles a fragment of a text that is sent whole each time.
    fn grow(&mut self, piece: &str, reading: Reading) -> Step {
        let at = self.text.len();
        if piece.starts_with(&self.text) {
            self.shape = Some(Shape::Grows);
            if matches!(reading, Reading::Known(_)) || self.text.trim().len() >= SURE_BYTES {
                self.joined = None;
            }
            self.note(piece);
            self.text.push_str(piece.get(at..).unwrap_or_default());
            return if self.text.len() > at { Step::Piece(at) } else { Step::Nothing };
        }
        if self.joined.is_none() && self.text.starts_with(piece.trim_end()) {
            return Step::Nothing;
        }
        match self.joined.take() {
            Some(joined) => self.reread(joined, piece),
            None => Step::Other,
        }
    }

    /// Switches to the reading of consecutive fragments, because the text did not grow.
    fn reread(&mut self, mut joined: String, piece: &str) -> Step {
        joined.push_str(piece);
        self.shape = Some(Shape::Pieces);
        let earlier = std::mem::replace(&mut self.text, joined);
        match self.text.strip_prefix(&earlier) {
            Some(rest) => Step::Rest(rest.to_owned()),
            None => Step::Replace(self.text.clone()),
        }
    }

    /// Handles a fragment that continues the text.
    fn follow(&mut self, piece: &str, reading: Reading) -> Step {
        let shown_texts = self.joined.as_deref().unwrap_or(&self.text);
        let is_next = match self.shape {
            Some(_) => goes_on(shown_texts, piece),
            None => join(shown_texts, piece) != Join::No,
        };
        if reading == Reading::Inferred && !is_next {
            return Step::Other;
        }
        if let Some(joined) = self.joined.take() {
            return self.reread(joined, piece);
        }
        self.shape = Some(Shape::Pieces);
        self.text.push_str(piece);
        if self.text.len() > TAIL_BYTES * 2 {
            keep_end(&mut self.text, TAIL_BYTES);
        }
        Step::Piece(0)
    }

    /// Adds a fragment to the concatenation, while the reading as consecutive fragments is possible.
    fn note(&mut self, piece: &str) {
        if let Some(joined) = &mut self.joined {
            joined.push_str(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[&str], reading: Reading) -> (String, usize) {
        let (first, rest) = pieces.split_first().unwrap();
        let shape = match reading {
            Reading::Known(shape) => Some(shape),
            _ => None,
        };
        let mut utterance = Utterance::new(first, shape);
        let mut shown = (*first).to_owned();
        let mut bytes = shown.len();
        for piece in rest {
            match utterance.step(piece, reading) {
                Step::Nothing => {}
                Step::Piece(at) => {
                    bytes += piece.len() - at;
                    shown.push_str(piece.get(at..).unwrap());
                }
                Step::Rest(rest) => {
                    bytes += rest.len();
                    shown.push_str(&rest);
                }
                Step::Replace(whole) => {
                    bytes += whole.len();
                    shown = whole;
                }
                Step::Other => shown.push('|'),
            }
        }
        (shown, bytes)
    }

    #[test]
    fn deltas_of_one_message_are_joined_whatever_they_look_like() {
        let deltas = ["ha", "ha", "ha", "! ", "1", "10", " 100"];
        assert_eq!(told(&deltas, Reading::Together).0, "hahaha! 110 100");
        assert_eq!(told(&deltas, Reading::Known(Shape::Pieces)).0, "hahaha! 110 100");
        assert_eq!(told(&["1", "10", " 100"], Reading::Together).0, "110 100");
    }

    #[test]
    fn a_text_that_grows_is_shown_once() {
        let whole = ["The ", "The quick ", "The quick ", "The quick fox"];
        assert_eq!(told(&whole, Reading::Inferred), ("The quick fox".to_owned(), 13));
        assert_eq!(told(&["I", "I see", "I see it"], Reading::Inferred).0, "I see it");
        assert_eq!(told(&["Loo", "Looking", "Found"], Reading::Inferred).0, "Looking|");
    }
}

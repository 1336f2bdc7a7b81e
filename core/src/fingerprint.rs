//! Fingerprints of emitted text: a length and a hash instead of the text. Used by the stream machine, and by adapters that
//! must distinguish repeated from new content.
//!
//! Sources repeat content: a last packet holds the whole message, an aggregate restates a stream. To emit only the new
//! part, the machine must know whether a text *starts with* the emitted text. A length and a hash are enough: hash the
//! same number of bytes of the new text and compare. So memory per block does not grow with its text.
//!
//! White space around a text is not compared: providers trim aggregates, and a lost final newline must not show a message
//! twice. A text shorter than the emitted one counts as different, because a hash says nothing about a prefix of its input.
//!
//! The hash of prose (`TextHash`) takes eight bytes per multiplication, because the whole text so far is hashed with every
//! frame of some sources, and keeps the bytes of an unfinished word, so that cuts do not matter. [`hash_bytes`] is for keys.
//! Neither is collision resistant: a source that forges a collision can only suppress its own text.

/// Odd, so that no power of it vanishes modulo 2^64; the digits are those of the golden ratio.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
const BASE2: u64 = BASE.wrapping_mul(BASE);
const BASE3: u64 = BASE2.wrapping_mul(BASE);
const BASE4: u64 = BASE3.wrapping_mul(BASE);
const BASE5: u64 = BASE4.wrapping_mul(BASE);
const BASE6: u64 = BASE5.wrapping_mul(BASE);
const BASE7: u64 = BASE6.wrapping_mul(BASE);
const BASE8: u64 = BASE7.wrapping_mul(BASE);

/// Continues `hash` over `bytes`.
pub fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in chunks {
        // `+ 1` makes leading zero bytes count.
        let term = |byte: u8, power: u64| (u64::from(byte) + 1).wrapping_mul(power);
        hash = hash
            .wrapping_mul(BASE8)
            .wrapping_add(term(a, BASE7))
            .wrapping_add(term(b, BASE6))
            .wrapping_add(term(c, BASE5))
            .wrapping_add(term(d, BASE4))
            .wrapping_add(term(e, BASE3))
            .wrapping_add(term(f, BASE2))
            .wrapping_add(term(g, BASE))
            .wrapping_add(term(h, 1));
    }
    for &byte in rest {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
    }
    hash
}

/// Returns the hash of a complete text, for use as a key in memory. By words: 70 instructions for an id of 36 bytes, where
/// [`hash_bytes`] needs 170.
pub fn hash_text(text: &str) -> u64 {
    // With the length, so that zero bytes at the end count.
    mix(TextHash::of(text), text.len() as u64)
}

/// A hash of text that arrives in pieces.
#[derive(Debug, Clone, Copy, Default)]
struct TextHash {
    words: u64,
    /// The first `tail_bits` of the next word, the others zero.
    tail: u64,
    tail_bits: u32,
}

impl TextHash {
    /// Returns the hash of a complete text.
    fn of(text: &str) -> u64 {
        let mut hash = Self::default();
        hash.push(text);
        hash.finish()
    }

    /// Appends text.
    fn push(&mut self, text: &str) {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            self.words = mix(self.words, self.tail | (word << self.tail_bits));
            self.tail = above(word, self.tail_bits);
        }
        let bits = u32::try_from(8 * rest.len()).unwrap_or_default();
        let rest = match text.as_bytes().last_chunk() {
            // The last bytes are read as one word, the bytes before them shifted out.
            Some(last) if bits > 0 => u64::from_le_bytes(*last) >> (64 - bits),
            _ => rest.iter().rev().fold(0, |part, &byte| (part << 8) | u64::from(byte)),
        };
        let tail = self.tail | (rest << self.tail_bits);
        if self.tail_bits + bits < 64 {
            self.tail = tail;
            self.tail_bits += bits;
        } else {
            self.words = mix(self.words, tail);
            self.tail = above(rest, self.tail_bits);
            self.tail_bits = self.tail_bits + bits - 64;
        }
    }

    /// Returns the hash of the text so far.
    fn finish(self) -> u64 {
        if self.tail_bits == 0 { self.words } else { mix(self.words, self.tail) }
    }
}

/// As [`str::trim_end`], for texts that mostly end in ASCII, which needs no decoding of characters.
fn trim_end(text: &str) -> &str {
    let text = text.trim_ascii_end();
    match text.as_bytes().last() {
        // The only white space in ASCII that `trim_ascii_end` leaves is the vertical tab.
        Some(0x0B | 0x80..) => text.trim_end(),
        _ => text,
    }
}

/// Returns the bits of `word` that a shift by `bits` moves out: none if `bits` is zero.
fn above(word: u64, bits: u32) -> u64 {
    (word >> 1) >> (63 - bits)
}

/// Continues a hash over a word. One-to-one in each of both, and every bit of the word reaches the low half.
fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(BASE);
    product ^ (product >> 32)
}

/// The relation of a whole text to the emitted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation<'a> {
    /// No text was emitted yet.
    First,
    /// The same text, except for white space at its ends.
    Same,
    /// The text starts with the emitted text; this is the rest.
    Extends(&'a str),
    /// A different text.
    Different,
}

/// A running fingerprint of emitted prose.
///
/// # Examples
///
/// ```
/// use aqueduct_core::fingerprint::{Fingerprint, Relation};
///
/// let mut emitted = Fingerprint::default();
/// emitted.push("Hello");
/// assert_eq!(emitted.relation("Hello world"), Relation::Extends(" world"));
/// assert_eq!(emitted.relation("  Hello"), Relation::Same);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fingerprint {
    /// Bytes from the first to the last character that is not white space.
    body_len: usize,
    body_hash: u64,
    /// White space after the body. It becomes part of the body when more text follows.
    trail_len: usize,
    running_hash: TextHash,
    /// All pushed bytes.
    len: usize,
}

impl Fingerprint {
    /// Returns the fingerprint of a complete text.
    pub fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    /// Appends emitted text.
    pub fn push(&mut self, delta: &str) {
        self.len += delta.len();
        let rest = if self.body_len == 0 { delta.trim_start() } else { delta };
        let body = trim_end(rest);
        if body.is_empty() {
            // White space before the body is skipped, so only white space after it is counted.
            self.trail_len += rest.len();
        } else {
            self.body_len += self.trail_len + body.len();
            self.running_hash.push(body);
            self.body_hash = self.running_hash.finish();
            self.trail_len = rest.len() - body.len();
        }
        if body.len() < rest.len() {
            self.running_hash.push(rest.get(body.len()..).unwrap_or_default());
        }
    }

    /// Returns the length and hash of the text without surrounding white space. Equal for equal texts.
    pub fn digest(&self) -> (usize, u64) {
        (self.body_len, self.body_hash)
    }

    /// Returns the number of bytes, white space included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if no text was pushed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns `true` if the text is empty or white space.
    pub fn is_blank(&self) -> bool {
        self.body_len == 0
    }

    /// Compares a whole text with the emitted text.
    pub fn relation<'a>(&self, whole: &'a str) -> Relation<'a> {
        if self.len == 0 {
            return Relation::First;
        }
        let text = whole.trim_start();
        let Some((body, rest)) = text.split_at_checked(self.body_len) else {
            return Relation::Different;
        };
        if TextHash::of(body) != self.body_hash {
            return Relation::Different;
        }
        if rest.len() <= self.trail_len && rest.trim_start().is_empty() {
            return Relation::Same;
        }
        match rest.split_at_checked(self.trail_len) {
            Some((trail, more)) if trail.trim_start().is_empty() => Relation::Extends(more),
            _ => Relation::Different,
        }
    }

    /// Compares two complete texts: as [`relation`](Self::relation), but more white space at the end is [`Relation::Same`],
    /// and a blank fingerprint is [`Relation::First`].
    pub fn relation_of_whole<'a>(&self, whole: &'a str) -> Relation<'a> {
        if self.is_blank() {
            return Relation::First;
        }
        match self.relation(whole) {
            Relation::Extends(rest) if rest.trim_start().is_empty() => Relation::Same,
            relation => relation,
        }
    }

    /// Compares a complete text with the concatenation of several, with any white space between them.
    pub fn relation_to_all<'a, 'p>(prints: impl Iterator<Item = &'p Self>, whole: &'a str) -> Relation<'a> {
        let mut relation = Relation::First;
        let mut rest = whole;
        for print in prints {
            if relation == Relation::Same {
                // The text ends before this one.
                return Relation::Different;
            }
            relation = print.relation_of_whole(rest);
            match relation {
                Relation::Extends(more) => rest = more,
                Relation::Same => {}
                Relation::First | Relation::Different => return Relation::Different,
            }
        }
        relation
    }
}

/// A running fingerprint of emitted JSON text. White space outside strings is ignored, because a framework that repeats the
/// arguments of a call serializes them again with its own spacing.
#[derive(Debug, Clone, Default)]
pub struct JsonFingerprint {
    len: usize,
    hash: u64,
    in_string: bool,
    escaped: bool,
}

impl JsonFingerprint {
    /// Appends emitted JSON text.
    pub fn push(&mut self, delta: &str) {
        for &byte in delta.as_bytes() {
            self.push_byte(byte);
        }
    }

    /// Compares a whole JSON text with the emitted text.
    pub fn relation<'a>(&self, whole: &'a str) -> Relation<'a> {
        if self.len == 0 {
            return Relation::First;
        }
        let mut other = Self::default();
        for (at, &byte) in whole.as_bytes().iter().enumerate() {
            other.push_byte(byte);
            if other.len == self.len {
                if other.hash != self.hash {
                    return Relation::Different;
                }
                let rest = whole.get(at + 1..).unwrap_or_default();
                return if rest.trim().is_empty() { Relation::Same } else { Relation::Extends(rest) };
            }
        }
        Relation::Different
    }

    fn push_byte(&mut self, byte: u8) {
        if !self.in_string && byte.is_ascii_whitespace() {
            return;
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        self.len += 1;
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(deltas: &[&str]) -> Fingerprint {
        let mut print = Fingerprint::default();
        for delta in deltas {
            print.push(delta);
        }
        print
    }

    #[test]
    fn an_aggregate_is_the_same_even_if_trimmed() {
        let print = of(&["\n", " Hello", " world", " \n"]);
        assert_eq!(print.relation(" Hello world \n"), Relation::Same);
        assert_eq!(print.relation("Hello world"), Relation::Same);
    }

    #[test]
    fn a_longer_text_gives_the_missing_suffix() {
        let print = of(&["Hello ", "wor"]);
        assert_eq!(print.relation("Hello world"), Relation::Extends("ld"));
        assert_eq!(of(&["Hello\n"]).relation("Hello\n\nworld"), Relation::Extends("\nworld"));
        assert_eq!(of(&["\n"]).relation("\nHello"), Relation::Extends("Hello"));
    }

    #[test]
    fn other_text_is_different() {
        assert_eq!(of(&["Hello"]).relation("Help"), Relation::Different);
        assert_eq!(of(&["Hello"]).relation("Hallo!"), Relation::Different);
        assert_eq!(of(&["Hello\n"]).relation("HelloX"), Relation::Different);
        assert_eq!(of(&["é"]).relation("\u{e8}x"), Relation::Different);
    }

    #[test]
    fn white_space_at_the_ends_of_whole_texts_does_not_count() {
        let print = of(&["\n Hello", " world \n"]);
        assert_eq!(print.relation_of_whole("Hello world"), Relation::Same);
        assert_eq!(print.relation_of_whole(" Hello world\n\n\n"), Relation::Same);
        assert_eq!(of(&["Hello"]).relation_of_whole("Hello!"), Relation::Extends("!"));
        assert_eq!(print.relation_of_whole("Hello there"), Relation::Different);
        assert_eq!(print.relation_of_whole("Hello"), Relation::Different);
        assert_eq!(Fingerprint::default().relation_of_whole("x"), Relation::First);
        assert_eq!(of(&[" "]).relation_of_whole("x"), Relation::First);
    }

    #[test]
    fn several_texts_are_found_one_after_the_other() {
        let prints = ["One. ", "Two.", "Three."].map(Fingerprint::of);
        let relation = |whole| Fingerprint::relation_to_all(prints.iter(), whole);
        for whole in ["One. Two.Three.", "One.\n\nTwo.\nThree.\n"] {
            assert_eq!(relation(whole), Relation::Same, "{whole}");
        }
        assert_eq!(relation("One. Two. Three. Four."), Relation::Extends(" Four."));
        for whole in ["One. Two.", "Two. One. Three.", "", "One. Two. Four."] {
            assert_eq!(relation(whole), Relation::Different, "{whole}");
        }
    }

    #[test]
    fn json_is_compared_without_its_spacing() {
        let mut print = JsonFingerprint::default();
        print.push(r#"{"a": "#);
        print.push(r#""x y\" z"}"#);
        assert_eq!(print.relation(r#"{"a":"x y\" z"}"#), Relation::Same);
        assert_eq!(print.relation(r#"{"a":"xy\" z"}"#), Relation::Different);
        let mut start = JsonFingerprint::default();
        start.push("{\"a\":");
        assert_eq!(start.relation(r#"{ "a": 1}"#), Relation::Extends(" 1}"));
    }

    proptest! {
        #[test]
        fn the_hash_does_not_depend_on_the_cuts(text in "\\PC{0,60}", at in 0_usize..60) {
            let whole = hash_bytes(0, text.as_bytes());
            let (head, tail) = text.as_bytes().split_at(at.min(text.len()));
            prop_assert_eq!(hash_bytes(hash_bytes(0, head), tail), whole);
        }

        #[test]
        fn the_hash_of_text_does_not_depend_on_the_cuts(pieces in prop::collection::vec("\\PC{0,20}", 0..6)) {
            let mut hash = TextHash::default();
            for piece in &pieces {
                hash.push(piece);
            }
            prop_assert_eq!(hash.finish(), TextHash::of(&pieces.concat()));
        }

        #[test]
        fn any_split_of_a_text_is_the_same_text(text in "[ a-c\n]{1,40}", at in 0_usize..40) {
            let (head, tail) = text.split_at(at.min(text.len()));
            let print = of(&[head, tail]);
            prop_assert_eq!(print.relation(&text), Relation::Same);
            let longer = format!("{text}d");
            prop_assert_eq!(print.relation(&longer), Relation::Extends("d"));
        }
    }
}

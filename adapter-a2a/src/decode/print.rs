//! What is remembered of a text instead of the text: its length and a hash, white space at its ends apart.
//!
//! Enough to tell whether a later text repeats or continues it. The hash is polynomial modulo 2^64, so it does not
//! depend on how a text was cut into chunks, and prints of several texts can be joined without the texts. It
//! resists accident, not malice: an agent that forges a collision hides its own text.

/// Odd, so that no power of it vanishes modulo 2^64.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// How a whole text relates to one that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The same, up to white space at the ends.
    Same,
    /// It starts with what is remembered; the rest begins at this byte.
    Extends(usize),
    /// Something else.
    Different,
}

/// A running summary of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Print {
    /// From the first to the last character that is not white space.
    body_len: usize,
    body_hash: u64,
    /// White space after that, which becomes body when more follows.
    trail_len: usize,
    running: u64,
}

fn hash(mut hash: u64, text: &str) -> u64 {
    for byte in text.bytes() {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
    }
    hash
}

impl Print {
    pub(crate) fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    /// A number that stands for a text.
    pub(crate) fn number(text: &str) -> u64 {
        hash(0, text)
    }

    pub(crate) fn push(&mut self, delta: &str) {
        let rest = if self.body_len == 0 { delta.trim_start() } else { delta };
        let body = rest.trim_end();
        if body.is_empty() {
            self.trail_len += rest.len();
            self.running = hash(self.running, rest);
            return;
        }
        self.body_hash = hash(self.running, body);
        self.body_len += self.trail_len + body.len();
        let trail = rest.get(body.len()..).unwrap_or_default();
        self.trail_len = trail.len();
        self.running = hash(self.body_hash, trail);
    }

    /// True if there was nothing but white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.body_len == 0
    }

    pub(crate) fn body_len(&self) -> usize {
        self.body_len
    }

    pub(crate) fn relation(&self, whole: &str) -> Relation {
        let text = whole.trim_start();
        let Some((body, rest)) = text.split_at_checked(self.body_len) else { return Relation::Different };
        if self.is_blank() || hash(0, body) != self.body_hash {
            return Relation::Different;
        }
        if rest.trim_start().is_empty() {
            return Relation::Same;
        }
        Relation::Extends(whole.len() - rest.len())
    }

    /// The print of the bodies of several texts with `separator` between them.
    pub(crate) fn joined<'p>(prints: impl Iterator<Item = &'p Print>, separator: &str) -> Self {
        let mut joined = Self::default();
        for print in prints.filter(|print| !print.is_blank()) {
            if !joined.is_blank() {
                joined.body_hash = hash(joined.body_hash, separator);
                joined.body_len += separator.len();
            }
            joined.body_hash =
                joined.body_hash.wrapping_mul(power(print.body_len)).wrapping_add(print.body_hash);
            joined.body_len += print.body_len;
        }
        joined.running = joined.body_hash;
        joined
    }
}

fn power(mut exponent: usize) -> u64 {
    let (mut result, mut factor) = (1_u64, BASE);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(factor);
        }
        factor = factor.wrapping_mul(factor);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn white_space_at_the_ends_does_not_count() {
        let mut print = Print::of("\n Hello");
        print.push(" world \n");
        assert_eq!(print.relation("Hello world"), Relation::Same);
        assert_eq!(print.relation(" Hello world\n\n"), Relation::Same);
        assert_eq!(print.relation("Hello world!"), Relation::Extends(11));
        assert_eq!(print.relation("Hello there"), Relation::Different);
        assert_eq!(print.relation("Hello"), Relation::Different);
        assert_eq!(Print::default().relation("x"), Relation::Different);
    }

    proptest! {
        #[test]
        fn prints_join_like_texts(texts in proptest::collection::vec("[ a-c]{0,9}", 0..4), separator in "[\n]{0,2}") {
            let prints: Vec<_> = texts.iter().map(|text| Print::of(text)).collect();
            let bodies: Vec<_> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
            let joined = Print::joined(prints.iter(), &separator);
            let whole = bodies.join(&separator);
            prop_assert_eq!(joined.is_blank(), whole.is_empty());
            if !whole.is_empty() {
                prop_assert_eq!(joined.relation(&whole), Relation::Same);
            }
        }

        #[test]
        fn cuts_do_not_matter(text in "[ éa-c\n]{1,40}", at in 0_usize..40) {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let (head, tail) = text.split_at(at);
            let mut print = Print::of(head);
            print.push(tail);
            prop_assert_eq!(&print.body_hash, &Print::of(&text).body_hash);
            prop_assert_eq!(print.body_len, Print::of(&text).body_len);
        }
    }
}

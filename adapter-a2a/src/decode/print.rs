//! Fingerprints of texts: the fingerprint of core, and the length.

use aqueduct_core::fingerprint::{self, Fingerprint, hash_bytes};

/// How a complete text relates to a remembered one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation<'a> {
    /// Equal, up to white space at the ends.
    Same,
    /// Starts with the remembered text; contains the rest.
    Extends(&'a str),
    /// Different, or nothing is remembered.
    Different,
}

/// A running fingerprint of a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Print {
    words: Fingerprint,
    len: usize,
    has_words: bool,
}

impl Print {
    pub(crate) fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    /// Returns a hash of a text.
    pub(crate) fn number(text: &str) -> u64 {
        hash_bytes(0, text.as_bytes())
    }

    pub(crate) fn push(&mut self, delta: &str) {
        self.words.push(delta);
        self.len += delta.len();
        self.has_words = self.has_words || !delta.trim_start().is_empty();
    }

    /// Returns `true` if the text is blank.
    pub(crate) fn is_blank(&self) -> bool {
        !self.has_words
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn relation<'a>(&self, whole: &'a str) -> Relation<'a> {
        if self.is_blank() {
            return Relation::Different;
        }
        match self.words.relation(whole) {
            fingerprint::Relation::Same => Relation::Same,
            fingerprint::Relation::Extends(rest) if rest.trim_start().is_empty() => Relation::Same,
            fingerprint::Relation::Extends(rest) => Relation::Extends(rest),
            fingerprint::Relation::First | fingerprint::Relation::Different => Relation::Different,
        }
    }

    /// Returns how a text relates to the concatenation of several remembered ones, with any white space between them.
    pub(crate) fn relation_to_all<'a, 'p>(
        prints: impl Iterator<Item = &'p Print>,
        whole: &'a str,
    ) -> Relation<'a> {
        let mut relation = Relation::Different;
        let mut rest = whole;
        for print in prints {
            if relation == Relation::Same {
                return Relation::Different;
            }
            relation = print.relation(rest);
            match relation {
                Relation::Extends(more) => rest = more,
                Relation::Same => {}
                Relation::Different => return Relation::Different,
            }
        }
        relation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_the_ends_does_not_count() {
        let mut print = Print::of("\n Hello");
        print.push(" world \n");
        assert_eq!(print.relation("Hello world"), Relation::Same);
        assert_eq!(print.relation(" Hello world\n\n\n"), Relation::Same);
        assert_eq!(Print::of("Hello").relation("Hello!"), Relation::Extends("!"));
        assert_eq!(print.relation("Hello there"), Relation::Different);
        assert_eq!(print.relation("Hello"), Relation::Different);
        assert_eq!(Print::default().relation("x"), Relation::Different);
        assert_eq!(Print::of(" ").relation("x"), Relation::Different);
    }

    #[test]
    fn several_texts_are_found_one_after_the_other() {
        let prints = [Print::of("One. "), Print::of("Two."), Print::of("Three.")];
        let relation = |whole| Print::relation_to_all(prints.iter(), whole);
        for whole in ["One. Two.Three.", "One.\n\nTwo.\nThree.\n"] {
            assert_eq!(relation(whole), Relation::Same, "{whole}");
        }
        assert_eq!(relation("One. Two. Three. Four."), Relation::Extends(" Four."));
        for whole in ["One. Two.", "Two. One. Three.", "", "One. Two. Four."] {
            assert_eq!(relation(whole), Relation::Different, "{whole}");
        }
    }
}

//! Writes all mutants of a file into one text, each behind a switch that is read at run time.
//!
//! ```text
//! a < b   ──►   (if crate::is_mutant(7) {a <= b} else if crate::is_mutant(8) {a > b} else {a < b})
//! ```
//!
//! So the code is compiled once, however many mutants there are. Lines stay where they are: a mutant that does not compile is found by
//! the line of the compiler's error.

use std::collections::BTreeSet;
use std::fmt;

use super::find::{Change, Part, Place};

/// A mutant: a number for its switch, and where and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) number: usize,
    pub(super) file: String,
    pub(super) lines: Part,
    pub(super) about: String,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}", self.file, self.lines.start, self.about)
    }
}

/// The switch, which is added to the root of the crate.
pub(super) const SWITCH: &str = "
/// Returns `true` if the variable selects the mutant of that number.
#[doc(hidden)]
#[allow(unused)]
pub fn is_mutant(number: u32) -> bool {
    static SELECTED: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var(\"AQUEDUCT_MUTANT\").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
    });
    *SELECTED == number
}
";

/// Weaves the mutants of one file.
#[derive(Debug)]
pub(super) struct Weaver<'t> {
    text: &'t str,
    file: &'t str,
    /// In the order of the text, an outer place before those inside it.
    places: Vec<Place>,
    next: usize,
    pub(super) mutants: Vec<Mutant>,
    excluded: &'t BTreeSet<usize>,
}

impl<'t> Weaver<'t> {
    /// Returns a weaver that numbers the mutants of a file from `first`, and does not write those in `excluded`.
    pub(super) fn new(
        file: &'t str,
        text: &'t str,
        mut places: Vec<Place>,
        first: usize,
        excluded: &'t BTreeSet<usize>,
    ) -> Self {
        places.sort_by_key(|place| (place.part.start, std::cmp::Reverse(place.part.end)));
        Self { text, file, places, next: first, mutants: Vec::new(), excluded }
    }

    /// Returns the text with all mutants.
    pub(super) fn weave(&mut self) -> String {
        let places = std::mem::take(&mut self.places);
        self.render(0..self.text.len(), &places)
    }

    fn slice(&self, part: &Part) -> &'t str {
        self.text.get(part.clone()).unwrap_or_default()
    }

    /// Returns a part of the text with the places inside it.
    fn render(&mut self, part: Part, places: &[Place]) -> String {
        let (mut out, mut at) = (String::new(), part.start);
        let mut rest = places;
        while let Some((place, after)) = rest.split_first() {
            let inside = after.iter().take_while(|other| is_within(&other.part, &place.part)).count();
            let (inner, next) = after.split_at(inside);
            out += self.slice(&(at..place.part.start));
            out += &self.switched(place, inner);
            at = place.part.end;
            rest = next;
        }
        out + self.slice(&(at..part.end))
    }

    /// Returns a place with its mutants behind switches.
    fn switched(&mut self, place: &Place, inner: &[Place]) -> String {
        match &place.change {
            Change::Operator { left, right, op, others } => {
                self.operator(place, inner, [left, op, right], others)
            }
            Change::Negation => {
                let text = self.render(place.part.clone(), inner);
                match self.number(place, "`!` is deleted") {
                    Some(number) => format!("(crate::is_mutant({number}) ^ ({text}))"),
                    None => text,
                }
            }
            Change::Body(values) => values
                .iter()
                .filter_map(|value| {
                    let about = if value.is_empty() {
                        "does nothing".to_owned()
                    } else {
                        format!("returns `{value}`")
                    };
                    let number = self.number(place, &about)?;
                    Some(format!(" if crate::is_mutant({number}) {{ return {value}; }}"))
                })
                .collect(),
            Change::Arm => {
                let number = self.number(place, "an arm is deleted");
                number.map_or_else(String::new, |number| format!(" if !crate::is_mutant({number})"))
            }
            Change::Guard => {
                let text = self.render(place.part.clone(), inner);
                let (yes, no) =
                    (self.number(place, "the guard is true"), self.number(place, "the guard is false"));
                match (yes, no) {
                    (Some(yes), Some(no)) => {
                        format!("(crate::is_mutant({yes}) || (!crate::is_mutant({no}) && ({text})))")
                    }
                    _ => text,
                }
            }
        }
    }

    /// Returns an operation with the other operators behind switches.
    fn operator(&mut self, place: &Place, inner: &[Place], parts: [&Part; 3], others: &[&str]) -> String {
        let [left, op, right] = parts;
        let about = |other: &str| format!("`{}` becomes `{other}`", self.slice(op));
        let about: Vec<_> = others.iter().map(|other| (*other, about(other))).collect();
        let numbered =
            |(other, about): &(&'_ str, String)| Some((self.number(place, about)?, (*other).to_owned()));
        let switches: Vec<(usize, String)> = about.iter().filter_map(numbered).collect();
        let within = |part: &Part| {
            inner.iter().filter(|place| is_within(&place.part, part)).cloned().collect::<Vec<_>>()
        };
        let [left_text, right_text] = [left, right].map(|part| self.render(part.clone(), &within(part)));
        let (before, after) = (self.slice(&(left.end..op.start)), self.slice(&(op.end..right.start)));
        let original = format!("{left_text}{before}{}{after}{right_text}", self.slice(op));
        if switches.is_empty() {
            return original;
        }
        let mutated = |(number, other): (usize, String)| {
            let text = format!("{left_text} {other} {right_text}").replace('\n', " ");
            format!("if crate::is_mutant({number}) {{{text}}} else ")
        };
        let mutated: String = switches.into_iter().map(mutated).collect();
        format!("({mutated}{{{original}}})")
    }

    /// Returns the number of a new mutant; `None` if it is left out.
    fn number(&mut self, place: &Place, about: &str) -> Option<usize> {
        // Comments and continued strings do not survive on one line.
        let text = self.slice(&place.part);
        let number = self.next;
        self.next += 1;
        if (text.contains('\n') && (text.contains("//") || text.contains("\\\n")))
            || self.excluded.contains(&number)
        {
            return None;
        }
        let line = |at: usize| self.slice(&(0..at)).matches('\n').count() + 1;
        let lines = line(place.part.start)..line(place.part.end) + 1;
        let about = format!("{}: {about}", place.function);
        self.mutants.push(Mutant { number, file: self.file.to_owned(), lines, about });
        Some(number)
    }

    /// Returns the first number that is free.
    pub(super) fn next_number(&self) -> usize {
        self.next
    }
}

fn is_within(inner: &Part, outer: &Part) -> bool {
    inner.start >= outer.start && inner.end <= outer.end
}

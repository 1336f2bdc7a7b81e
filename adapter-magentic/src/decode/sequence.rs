//! The order of lines: `seq` detects repeated and missing lines.
//!
//! ```text
//!                 seq < next: a repetition, dropped
//!   in order ──── seq = next: read, then the held lines that follow
//!                 seq > next: held, until the missing lines arrive
//!      │ more held than the limit, or the end of the input
//!      ▼
//!   loose ─────── the missing lines are reported as lost; from now on gaps are accepted
//! ```
//!
//! A line without `seq` takes the next number (the forwarder's own lines have none). A forwarder that filters events after
//! numbering them leaves gaps on purpose: lines are held once, then no more.

use std::collections::BTreeMap;
use std::ops::Range;

use bytestring::ByteString;

/// The decision about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Read it now.
    Read,
    /// The line is a repetition.
    Repeated,
    /// Hold it until the missing lines arrive.
    Hold,
}

/// The next expected number, and the held lines.
#[derive(Debug)]
pub(super) struct Sequence {
    next: u64,
    loose: bool,
    held: BTreeMap<u64, ByteString>,
    held_bytes: usize,
    max_held: usize,
    max_bytes: usize,
}

impl Sequence {
    /// Returns a sequence that holds at most `max_held` early lines of `max_bytes` together.
    pub(super) fn new(max_held: usize, max_bytes: usize) -> Self {
        Self { next: 0, loose: false, held: BTreeMap::new(), held_bytes: 0, max_held, max_bytes }
    }

    /// Decides about a line. If `restarts` is set, number 0 restarts the count.
    pub(super) fn verdict(&mut self, seq: Option<u64>, restarts: bool) -> Verdict {
        let seq = seq.unwrap_or(self.next);
        if restarts && seq == 0 && self.next > 0 {
            self.next = 0;
            self.held.clear();
            self.held_bytes = 0;
        }
        match seq.cmp(&self.next) {
            std::cmp::Ordering::Less => Verdict::Repeated,
            std::cmp::Ordering::Greater if !self.loose => {
                if self.held.contains_key(&seq) {
                    Verdict::Repeated
                } else {
                    Verdict::Hold
                }
            }
            _ => {
                self.next = seq.saturating_add(1);
                Verdict::Read
            }
        }
    }

    /// Holds a line. Returns the lines that count as lost if the limit is exceeded.
    pub(super) fn hold(&mut self, seq: u64, line: ByteString) -> Option<Range<u64>> {
        self.held_bytes += line.len();
        self.held.insert(seq, line);
        let full = self.held.len() > self.max_held || self.held_bytes > self.max_bytes;
        if full { self.give_up() } else { None }
    }

    /// Stops waiting for the missing lines, and returns their numbers.
    pub(super) fn give_up(&mut self) -> Option<Range<u64>> {
        let (&first, _) = self.held.first_key_value()?;
        let lost = self.next..first;
        self.next = first;
        self.loose = true;
        Some(lost)
    }

    /// Returns the next held line in order.
    pub(super) fn next_held(&mut self) -> Option<ByteString> {
        let entry = self.held.first_entry()?;
        let line = (self.loose || *entry.key() == self.next).then(|| entry.remove())?;
        self.held_bytes -= line.len();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> ByteString {
        ByteString::from(seq.to_string())
    }

    /// Feeds numbers and returns those read, in order, and those lost.
    fn run(max_held: usize, numbers: &[u64]) -> (Vec<u64>, Vec<Range<u64>>) {
        let mut sequence = Sequence::new(max_held, 1000);
        let (mut read, mut lost) = (Vec::new(), Vec::new());
        for &n in numbers {
            match sequence.verdict(Some(n), false) {
                Verdict::Read => read.push(n),
                Verdict::Repeated => {}
                Verdict::Hold => lost.extend(sequence.hold(n, line(n))),
            }
            while let Some(held) = sequence.next_held() {
                let n = held.parse().unwrap();
                assert_eq!(sequence.verdict(Some(n), false), Verdict::Read);
                read.push(n);
            }
        }
        (read, lost)
    }

    #[test]
    fn repeated_lines_are_dropped() {
        assert_eq!(run(8, &[0, 1, 2, 1, 2, 3, 0]), (vec![0, 1, 2, 3], vec![]));
    }

    #[test]
    fn lines_that_came_early_wait_for_their_turn() {
        assert_eq!(run(8, &[0, 3, 4, 3, 1, 2, 5]), (vec![0, 1, 2, 3, 4, 5], vec![]));
        assert_eq!(run(8, &[1, 0]), (vec![0, 1], vec![]));
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range of lost lines is meant")]
    fn lines_that_never_come_are_told_as_lost_once() {
        assert_eq!(run(2, &[0, 3, 4, 5, 9, 20]), (vec![0, 3, 4, 5, 9, 20], vec![1..3]));
    }
}

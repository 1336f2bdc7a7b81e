//! Determines what of each run can be kept: the events from its first number up to the first one
//! that is missing or unreadable.
//!
//! ```text
//! stored 1 2 3 . 5 6     kept 1 2 3     gap 4     behind 2
//! ```
//!
//! Events behind a gap are not kept: a watcher would take 5 for the successor of 3, and the stream
//! would not be balanced.
//!
//! A run that lost its end is opened again, so that the next start continues it from its agent or
//! ends it.
//!
//! The files are read twice: first `rank` finds the newest value of each key, then `weigh` counts
//! these values. `decide` follows, and `keep` filters a third reading, which writes the new
//! database.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aqueduct_core::RunId;
use bytes::Bytes;

use super::super::store::{read_record, write_record};
use super::files::{Files, Found, Rank};
use crate::codec::{Decoder, decode_control, decode_value};
use crate::ledger::Ledger;

/// The place of test writes (`Batch::probe`), which belong to no run.
const NO_RUN: u64 = u64::MAX;

/// The part of a run that can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// The id of the run, or `None` if its record cannot be read.
    pub run_id: Option<RunId>,
    /// The events that can be kept.
    pub events: u64,
    /// The first number that is missing or cannot be read.
    pub gap: Option<u64>,
    /// Readable events behind the gap, which cannot be kept.
    pub behind: u64,
    /// Stored values that cannot be decoded.
    pub undecodable: u64,
    /// Set if the run had ended.
    pub ended: bool,
}

impl RunReport {
    /// Returns `true` if no part of the run is missing.
    pub fn is_whole(&self) -> bool {
        self.run_id.is_some() && self.gap.is_none() && self.undecodable == 0
    }
}

/// The newest value of each key, and the kept part of each run.
#[derive(Debug, Default)]
pub(super) struct Plan {
    best: HashMap<(u64, Bytes), Rank>,
    runs: BTreeMap<u64, Kept>,
    /// Stored values of runs without a record.
    pub(super) orphans: u64,
}

/// The readable part of one run.
#[derive(Debug, Default)]
struct Kept {
    ledger: Option<Ledger>,
    numbers: BTreeSet<u64>,
    undecodable: u64,
    last: u64,
    gap: Option<u64>,
}

/// Splits a key into the place of its run and the number after it. Returns `None` for a key of
/// another length.
fn split(key: &[u8]) -> Option<(u64, u64)> {
    let number = |bytes: Option<&[u8]>| bytes?.try_into().ok().map(u64::from_be_bytes);
    match key.len() {
        8 => Some((number(key.get(..8))?, 0)),
        16 => Some((number(key.get(..8))?, number(key.get(8..))?)),
        _ => None,
    }
}

impl Plan {
    /// Records the newest of several values of a key: an older one may be readable in another file.
    pub(super) fn rank(&mut self, found: &Found) {
        let best = self.best.entry((found.keyspace, found.key.clone())).or_insert(found.rank);
        *best = (*best).max(found.rank);
    }

    /// Returns `true` for the newest value of its key.
    fn counts(&self, found: &Found) -> bool {
        self.best.get(&(found.keyspace, found.key.clone())) == Some(&found.rank)
    }

    /// Counts a value for its run, if it is the newest of its key and was not removed. Values that
    /// cannot be decoded are counted separately.
    pub(super) fn weigh(&mut self, files: &Files, found: &Found) {
        let (Some(name), Some(value)) = (files.names.get(&found.keyspace), &found.value) else { return };
        let Some((place, number)) = split(&found.key).filter(|(place, _)| *place != NO_RUN) else { return };
        if !self.counts(found) || !matches!(name.as_str(), "runs" | "events" | "controls" | "notes") {
            return;
        }
        let kept = self.runs.entry(place).or_default();
        match name.as_str() {
            "runs" => match read_record(value.clone()) {
                Ok(ledger) => kept.ledger = Some(ledger),
                Err(_) => kept.undecodable += 1,
            },
            "events" if Decoder::default().decode(value.clone()).is_ok() => drop(kept.numbers.insert(number)),
            "controls" if decode_control(value.clone()).is_ok() => {}
            "notes" if decode_value(value.clone()).is_ok() => {}
            _ => kept.undecodable += 1,
        }
        if name == "events" {
            kept.last = kept.last.max(number);
        }
    }

    /// Determines the first gap of each run, after all values were weighed. An open run has no record
    /// of its head, so its last event is taken for it.
    pub(super) fn decide(&mut self) {
        for kept in self.runs.values_mut() {
            let Some(ledger) = &kept.ledger else {
                self.orphans += u64::try_from(kept.numbers.len()).unwrap_or(u64::MAX);
                continue;
            };
            let head = if ledger.is_closed() { ledger.state.head } else { kept.last };
            kept.gap = (ledger.state.earliest..=head).find(|number| !kept.numbers.contains(number));
        }
    }

    /// Returns a report per run, also for one whose record cannot be decoded.
    pub(super) fn reports(&self) -> Vec<RunReport> {
        let with_record = self.runs.values().filter(|kept| kept.ledger.is_some() || kept.undecodable > 0);
        with_record.map(Kept::report).collect()
    }

    /// Returns the key and value to write to the new database. Returns `None` for a value that is not
    /// kept.
    pub(super) fn keep(&self, files: &Files, found: Found) -> Option<(Bytes, Bytes)> {
        if !self.counts(&found) {
            return None;
        }
        let value = found.value?;
        let name = files.names.get(&found.keyspace)?;
        let known = matches!(name.as_str(), "runs" | "events" | "controls" | "notes");
        let Some((place, number)) = split(&found.key).filter(|_| known) else {
            return Some((found.key, value));
        };
        let kept = self.runs.get(&place)?;
        let ledger = kept.ledger.as_ref()?;
        let is_kept = match name.as_str() {
            "runs" => return Some((found.key, kept.record(ledger, value))),
            "events" => {
                number >= ledger.state.earliest
                    && kept.gap.is_none_or(|gap| number < gap)
                    && kept.numbers.contains(&number)
            }
            "controls" => decode_control(value.clone()).is_ok(),
            _ => decode_value(value.clone()).is_ok(),
        };
        is_kept.then_some((found.key, value))
    }
}

impl Kept {
    /// Returns the report of the run. A run without a readable record keeps no events.
    fn report(&self) -> RunReport {
        let earliest = self.ledger.as_ref().map_or(1, |ledger| ledger.state.earliest);
        let count = |from, to| u64::try_from(self.numbers.range(from..to).count()).unwrap_or(u64::MAX);
        let end = self.gap.unwrap_or(u64::MAX);
        RunReport {
            run_id: self.ledger.as_ref().map(|ledger| ledger.state.meta.run_id.clone()),
            events: if self.ledger.is_some() { count(earliest, end) } else { 0 },
            gap: self.gap,
            behind: if self.ledger.is_some() { count(end, u64::MAX) } else { count(0, u64::MAX) },
            undecodable: self.undecodable,
            ended: self.ledger.as_ref().is_some_and(Ledger::is_closed),
        }
    }

    /// Returns the record of the run for the new database. A run that lost its end is written as open.
    fn record(&self, ledger: &Ledger, value: Bytes) -> Bytes {
        if self.gap.is_none() {
            return value;
        }
        let mut open = ledger.clone();
        open.state.closed_at = None;
        if self.gap == Some(open.state.earliest) {
            // Nothing is left: numbers begin again.
            open.state.earliest = 1;
        }
        Bytes::from(write_record(&open))
    }
}

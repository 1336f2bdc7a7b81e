//! The last events of a run, decoded and shared by all watchers that keep up, so that each event is fetched and decoded once
//! per process.
//!
//! Bounded in number and in bytes. Older events are read from the engine's storage.

use std::collections::VecDeque;

use aqueduct_core::BlockEvent;
use aqueduct_core::service::NumberedEvent;

use crate::limits::{count, weight_of};

/// Events kept: a few reads of a watcher that keeps up.
const EVENTS: usize = 512;
/// Bytes kept; the last event is always kept.
const BYTES: u64 = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Tail {
    events: VecDeque<(u64, BlockEvent)>,
    bytes: u64,
    /// The number of the last event.
    head: u64,
}

impl Tail {
    /// Returns the tail of a run with `head` events.
    pub(crate) fn after(head: u64) -> Self {
        Self { head, ..Self::default() }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Adds the event with that number. A known event has no effect; a gap clears the tail.
    pub(crate) fn push(&mut self, number: u64, event: BlockEvent) {
        if number <= self.head {
            return;
        }
        if number > self.head + 1 {
            self.events.clear();
            self.bytes = 0;
        }
        self.head = number;
        let weight = weight_of(std::slice::from_ref(&event));
        self.bytes += weight;
        self.events.push_back((weight, event));
        while self.events.len() > EVENTS || (self.bytes > BYTES && self.events.len() > 1) {
            self.bytes -= self.events.pop_front().map_or(0, |(weight, _)| weight);
        }
    }

    /// Returns the events after a number. Returns `None` if some of them are not in the tail.
    pub(crate) fn read(&self, after: u64, max: usize) -> Option<Vec<NumberedEvent>> {
        if after >= self.head {
            return Some(Vec::new());
        }
        let first = self.head + 1 - count(self.events.len());
        let skipped = (after + 1).checked_sub(first)?;
        let skipped = usize::try_from(skipped).ok()?;
        let events = self.events.iter().skip(skipped).take(max).zip(after + 1..);
        Some(events.map(|((_, event), number)| NumberedEvent { number, event: event.clone() }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> BlockEvent {
        crate::testing::events(1).remove(0)
    }

    fn numbers(tail: &Tail, after: u64) -> Option<Vec<u64>> {
        Some(tail.read(after, 1_000)?.iter().map(|event| event.number).collect())
    }

    #[test]
    fn what_fell_out_is_not_here() {
        let mut tail = Tail::default();
        for number in 1..=600 {
            tail.push(number, event());
        }
        assert_eq!(numbers(&tail, 10), None);
        assert_eq!(numbers(&tail, 598), Some(vec![599, 600]));
        assert_eq!(numbers(&tail, 600), Some(vec![]));
    }

    /// Returns the lengths of the texts after a number: the texts here are as long as their number.
    fn lengths(tail: &Tail, after: u64) -> Option<Vec<u64>> {
        Some(tail.read(after, 9)?.iter().map(|event| weight_of(std::slice::from_ref(&event.event))).collect())
    }

    #[test]
    fn each_number_has_its_own_event_after_repetitions_and_gaps() {
        let mut tail = Tail::default();
        for number in [1, 2, 2, 1, 3] {
            tail.push(number, heavy(usize::try_from(number).unwrap()));
        }
        assert_eq!((lengths(&tail, 0), lengths(&tail, 1)), (Some(vec![1, 2, 3]), Some(vec![2, 3])));
        tail.push(5, heavy(5));
        tail.push(6, heavy(6));
        assert_eq!((lengths(&tail, 3), lengths(&tail, 4)), (None, Some(vec![5, 6])));
    }

    #[test]
    fn repetitions_change_nothing_and_a_gap_starts_anew() {
        let mut tail = Tail::after(4);
        assert_eq!(numbers(&tail, 4), Some(vec![]));
        assert_eq!(numbers(&tail, 3), None);
        for number in [5, 5, 6, 5] {
            tail.push(number, event());
        }
        assert_eq!(numbers(&tail, 4), Some(vec![5, 6]));
        tail.push(9, event());
        assert_eq!((numbers(&tail, 4), numbers(&tail, 8)), (None, Some(vec![9])));
    }

    fn heavy(bytes: usize) -> BlockEvent {
        let delta = "x".repeat(bytes).into();
        match crate::testing::events(1)
            .into_iter()
            .find(|event| matches!(event, BlockEvent::BlockDelta { .. }))
        {
            Some(BlockEvent::BlockDelta { block, .. }) => BlockEvent::BlockDelta { block, delta },
            other => panic!("no delta: {other:?}"),
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn the_head_is_the_highest_number() {
        let mut tail = Tail::after(4);
        assert_eq!(tail.head(), 4);
        for (number, head) in [(5, 5), (9, 9), (6, 9)] {
            tail.push(number, event());
            assert_eq!(tail.head(), head);
        }
    }

    #[test]
    fn it_holds_512_events() {
        let mut tail = Tail::default();
        for number in 1..=512 {
            tail.push(number, event());
        }
        assert_eq!(numbers(&tail, 0).map(|numbers| numbers.len()), Some(512));
        tail.push(513, event());
        assert_eq!((numbers(&tail, 0), numbers(&tail, 1).map(|numbers| numbers.len())), (None, Some(512)));
        assert_eq!(tail.read(1, 2).map(|events| events.len()), Some(2));
    }

    #[test]
    fn it_holds_a_mebibyte_or_the_last_event() {
        let mut tail = Tail::default();
        let half = 512 * 1024;
        tail.push(1, heavy(half));
        tail.push(2, heavy(half));
        assert_eq!(numbers(&tail, 0), Some(vec![1, 2]), "exactly as much as it may hold");
        tail.push(3, heavy(1));
        assert_eq!((numbers(&tail, 0), numbers(&tail, 1)), (None, Some(vec![2, 3])));
        tail.push(4, heavy(4 * half));
        assert_eq!((numbers(&tail, 2), numbers(&tail, 3)), (None, Some(vec![4])));
        for number in 5..=7 {
            tail.push(number, heavy(1));
        }
        assert_eq!((numbers(&tail, 3), numbers(&tail, 4)), (None, Some(vec![5, 6, 7])));
    }
}

//! [`Coalescer`]: merges the deltas that wait for a slow reader.
//!
//! A reader that is behind has many deltas of the same block waiting. One event with the joined text carries the same
//! content in fewer payloads, so the reader catches up sooner. The boundary of a delta has no meaning.
//!
//! ```text
//! 5 "a" ─┐                          5 "a", 6 "b", 7 "c" of one block
//! 6 "b" ─┼─► 7 "abc"                numbers without a gap, no other event between them
//! 7 "c" ─┘                          together no longer than the limit
//! ```
//!
//! Invariants: no byte is lost, added or moved; the merged event has the number of its last part, so a reader that resumes
//! after it gets exactly the rest; only deltas of one block are merged; [`Coalescer::take`] returns every event that was
//! added.
//!
//! The coalescer does not decide when a reader is behind. It keeps the parts for transports whose encoder writes several
//! payloads per event: a position between such payloads would belong to no event of the run.

use std::mem;

use bytestring::ByteString;

use crate::event::BlockEvent;
use crate::service::NumberedEvent;

/// Collects consecutive events that can be sent as one.
#[derive(Debug, Default)]
pub struct Coalescer {
    first: Option<NumberedEvent>,
    /// The events after `first`. Empty for a reader that keeps up, which then costs no allocation.
    rest: Vec<NumberedEvent>,
    bytes: usize,
}

impl Coalescer {
    /// Adds an event if none waits, or if it continues the waiting deltas and all together have at most `limit` bytes of text.
    /// Returns the event otherwise: the caller must send the waiting events first.
    pub fn handle_event(&mut self, event: NumberedEvent, limit: usize) -> Option<NumberedEvent> {
        let Some(first) = &self.first else {
            self.bytes = delta(&event).map_or(0, str::len);
            self.first = Some(event);
            return None;
        };
        let last = self.rest.last().unwrap_or(first);
        let bytes = self.bytes + delta(&event).map_or(0, str::len);
        if bytes > limit || !continues(last, &event) {
            return Some(event);
        }
        self.bytes = bytes;
        self.rest.push(event);
        None
    }

    /// Returns the number of bytes of text that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Removes and returns the waiting events. Returns `None` if none wait.
    pub fn take(&mut self) -> Option<Gathered> {
        self.bytes = 0;
        let first = self.first.take()?;
        Some(Gathered { first, rest: mem::take(&mut self.rest) })
    }
}

/// One event, or several deltas that can be sent as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    first: NumberedEvent,
    rest: Vec<NumberedEvent>,
}

impl Gathered {
    /// Returns the deltas as one event with the number of the last. Returns `None` if there is only one event.
    pub fn merged(&self) -> Option<NumberedEvent> {
        let number = self.rest.last()?.number;
        let BlockEvent::BlockDelta { block, .. } = &self.first.event else { return None };
        let text: String = self.parts().filter_map(delta).collect();
        let event = BlockEvent::BlockDelta { block: block.clone(), delta: ByteString::from(text) };
        Some(NumberedEvent { number, event })
    }

    /// Returns the events as they were added.
    pub fn parts(&self) -> impl Iterator<Item = &NumberedEvent> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// Returns `true` if `next` is a delta of the same block with the next number.
fn continues(last: &NumberedEvent, next: &NumberedEvent) -> bool {
    match (&last.event, &next.event) {
        (BlockEvent::BlockDelta { block, .. }, BlockEvent::BlockDelta { block: other, .. }) => {
            block.id == other.id && last.number.checked_add(1) == Some(next.number)
        }
        _ => false,
    }
}

fn delta(event: &NumberedEvent) -> Option<&str> {
    match &event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::block::ContentBlock;
    use crate::run::RunInfo;
    use crate::stream::StreamContext;
    use crate::update::Update;

    /// What a real run says: texts, thoughts and tool calls of two messages, in any order.
    fn runs() -> impl Strategy<Value = Vec<NumberedEvent>> {
        let update = (any::<bool>(), prop_oneof![Just(0), 1..4_usize], "[a-zé ]{1,12}").prop_map(
            |(other, kind, text)| match kind {
                0 => Update::text(text).in_message(if other { "m1" } else { "m2" }),
                1 => Update::new(ContentBlock::thinking(text)),
                2 => Update::new(ContentBlock::tool_use(if other { "c1" } else { "c2" }, "search", text)),
                _ => Update::new(ContentBlock::custom("note", serde_json::json!(text))),
            },
        );
        prop::collection::vec(update, 0..60).prop_map(|updates| {
            let mut context = StreamContext::new(RunInfo::new("thread", "run"));
            for update in updates {
                // What the machine refuses is no part of the run.
                context.handle_update(update).ok();
            }
            let events = std::iter::from_fn(|| context.poll_event());
            (1..).zip(events).map(|(number, event)| NumberedEvent { number, event }).collect()
        })
    }

    /// Everything through a coalescer; `limits` are what the reader's state allows, event by event.
    fn sent(events: &[NumberedEvent], limits: &[usize]) -> Vec<NumberedEvent> {
        let mut coalescer = Coalescer::default();
        let mut sent = Vec::new();
        for (event, limit) in events.iter().zip(limits.iter().cycle()) {
            if let Some(event) = coalescer.handle_event(event.clone(), *limit) {
                sent.extend(coalescer.take().map(|gathered| as_one(&gathered)));
                assert_eq!(coalescer.handle_event(event, *limit), None);
            }
        }
        sent.extend(coalescer.take().map(|gathered| as_one(&gathered)));
        assert!(coalescer.take().is_none() && coalescer.waiting_bytes() == 0);
        sent
    }

    fn as_one(gathered: &Gathered) -> NumberedEvent {
        gathered.merged().unwrap_or_else(|| gathered.first.clone())
    }

    proptest! {
        #[test]
        fn the_content_stays_whatever_is_merged(
            events in runs(),
            limits in prop::collection::vec(prop_oneof![Just(0), 1..40_usize], 1..5),
        ) {
            let sent = sent(&events, &limits);
            prop_assert_eq!(content(&sent), content(&events));
            prop_assert!(sent.windows(2).all(|pair| pair[0].number < pair[1].number));
            prop_assert_eq!(sent.last().map(|event| event.number), events.last().map(|event| event.number));
        }

        #[test]
        fn a_reader_that_comes_back_gets_exactly_the_rest(
            events in runs(),
            limits in prop::collection::vec(0..40_usize, 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let sent = sent(&events, &limits);
            let seen = &sent[..cut.index(sent.len() + 1)];
            let after = seen.last().map_or(0, |event| event.number);
            let rest: Vec<_> = events.iter().filter(|event| event.number > after).cloned().collect();
            prop_assert_eq!([content(seen), content(&rest)].concat(), content(&events));
        }
    }

    /// Every letter with its block, and every other event: what is lost, doubled or moved shows.
    fn content(events: &[NumberedEvent]) -> Vec<String> {
        let letters = |event: &NumberedEvent| match &event.event {
            BlockEvent::BlockDelta { block, delta } => {
                delta.chars().map(|letter| format!("{} {letter}", block.id)).collect()
            }
            other => vec![format!("{other:?}")],
        };
        events.iter().flat_map(letters).collect()
    }

    fn text_run(parts: &[&str]) -> Vec<NumberedEvent> {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        for part in parts {
            context.handle_update(Update::text(*part)).unwrap();
        }
        let events = std::iter::from_fn(|| context.poll_event());
        (1..).zip(events).map(|(number, event)| NumberedEvent { number, event }).collect()
    }

    #[test]
    fn deltas_up_to_the_limit_become_one_with_the_last_number() {
        let events = text_run(&["ab", "cd", "ef"]);
        let numbers = |limit| sent(&events, &[limit]).iter().map(|event| event.number).collect::<Vec<_>>();
        assert_eq!(numbers(0), [1, 2, 3, 4, 5], "run and block start, then each delta");
        assert_eq!(numbers(4), [1, 2, 4, 5]);
        assert_eq!(numbers(6), [1, 2, 5]);
        assert_eq!(delta(&sent(&events, &[6])[2]), Some("abcdef"));
    }

    #[test]
    fn the_parts_are_kept() {
        let events = text_run(&["ab", "cd"]);
        let mut coalescer = Coalescer::default();
        for event in events.iter().skip(2) {
            assert_eq!(coalescer.handle_event(event.clone(), 100), None);
        }
        assert!(coalescer.take().unwrap().parts().eq(events.iter().skip(2)));
    }

    #[test]
    fn the_bytes_that_wait_are_counted_until_they_are_taken() {
        let mut coalescer = Coalescer::default();
        for (event, waiting) in text_run(&["ab", "cde"]).into_iter().skip(2).zip([2, 5]) {
            assert_eq!(coalescer.handle_event(event, 100), None);
            assert_eq!(coalescer.waiting_bytes(), waiting);
        }
        coalescer.take();
        assert_eq!(coalescer.waiting_bytes(), 0);
    }

    #[test]
    fn a_gap_is_never_bridged() {
        let mut events = text_run(&["ab", "cd", "ef"]);
        events.remove(3);
        assert_eq!(sent(&events, &[100]).len(), 4);
    }
}

//! [`Events`]: the events of a run in chunks, so that a long run is never copied to make room and holds no spare capacity.
//!
//! ```text
//! [ e e e e ]  [ e e e e ]  [ e e . . ]       all chunks but the first and the last are full
//!   └ trimmed from here          └ appended here
//! ```
//!
//! A [`BlockEvent`] has the size of its largest variant, which holds a JSON value. Nine of ten events of a run are deltas, so
//! the variants of a block are stored in 48 bytes, and all others in a box.

use std::collections::VecDeque;
use std::sync::Arc;

use aqueduct_core::event::EndReason;
use aqueduct_core::{BlockEvent, BlockHead};
use bytestring::ByteString;

/// Events of a chunk: three kilobytes. The first chunk of a run grows to it by doubling, because most runs are short.
const CHUNK: usize = 64;

/// A stored event.
#[derive(Debug)]
enum Stored {
    Started(Arc<BlockHead>),
    Delta(Arc<BlockHead>, ByteString),
    Ended(Arc<BlockHead>, EndReason),
    Other(Box<BlockEvent>),
}

impl Stored {
    fn event(&self) -> BlockEvent {
        match self {
            Self::Started(block) => BlockEvent::BlockStarted(Arc::clone(block)),
            Self::Delta(block, delta) => {
                BlockEvent::BlockDelta { block: Arc::clone(block), delta: delta.clone() }
            }
            Self::Ended(block, reason) => {
                BlockEvent::BlockEnded { block: Arc::clone(block), reason: *reason }
            }
            Self::Other(event) => BlockEvent::clone(event),
        }
    }
}

impl From<BlockEvent> for Stored {
    fn from(event: BlockEvent) -> Self {
        match event {
            BlockEvent::BlockStarted(block) => Self::Started(block),
            BlockEvent::BlockDelta { block, delta } => Self::Delta(block, delta),
            BlockEvent::BlockEnded { block, reason } => Self::Ended(block, reason),
            other => Self::Other(Box::new(other)),
        }
    }
}

/// The events of a run, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events {
    chunks: VecDeque<Vec<Stored>>,
    len: usize,
}

impl Events {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, event: BlockEvent) {
        self.len += 1;
        let is_first = self.chunks.is_empty();
        if let Some(chunk) = self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK) {
            chunk.push(event.into());
            return;
        }
        let mut chunk = if is_first { Vec::new() } else { Vec::with_capacity(CHUNK) };
        chunk.push(event.into());
        self.chunks.push_back(chunk);
    }

    /// Returns the events from that index on, found without a walk through those before.
    pub(super) fn since(&self, start: usize) -> impl Iterator<Item = BlockEvent> {
        let first = self.chunks.front().map_or(0, Vec::len);
        let (chunk, offset) = match start.checked_sub(first) {
            Some(behind) => (1 + behind / CHUNK, behind % CHUNK),
            None => (0, start),
        };
        let mut chunks = self.chunks.range(chunk.min(self.chunks.len())..);
        let begun = chunks.next().and_then(|chunk| chunk.get(offset..)).unwrap_or_default();
        begun.iter().chain(chunks.flatten()).map(Stored::event)
    }

    /// Removes and returns the oldest events.
    pub(super) fn take_oldest(&mut self, count: usize) -> Vec<BlockEvent> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(first) = self.chunks.front_mut()
        {
            let part = first.len().min(count - taken.len());
            taken.extend(first.drain(..part).map(|stored| stored.event()));
            if first.is_empty() {
                self.chunks.pop_front();
            }
        }
        self.len -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::{RunInfo, StreamContext, Update};
    use proptest::prelude::*;

    use super::*;

    fn distinct_events() -> impl Iterator<Item = BlockEvent> {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        let mut number = 0;
        std::iter::from_fn(move || {
            number += 1;
            context.handle_update(Update::text(number.to_string())).unwrap();
            context.poll_event()
        })
    }

    #[test]
    fn a_stored_event_is_small() {
        assert!(size_of::<Stored>() <= 48, "{}", size_of::<Stored>());
    }

    proptest! {
        #[test]
        fn chunks_hold_what_a_list_holds(
            steps in prop::collection::vec((0..200_usize, 0..150_usize, 0..400_usize), 1..8),
        ) {
            let (mut events, mut list, mut all) = (Events::default(), Vec::new(), distinct_events());
            for (pushed, taken, start) in steps {
                for event in all.by_ref().take(pushed) {
                    events.push(event.clone());
                    list.push(event);
                }
                let taken = taken.min(list.len());
                prop_assert_eq!(events.take_oldest(taken), list.drain(..taken).collect::<Vec<_>>());
                prop_assert_eq!(events.len(), list.len());
                prop_assert!(events.since(start).eq(list.iter().skip(start).cloned()));
                let spare = |chunk: &Vec<Stored>| chunk.capacity() > CHUNK;
                prop_assert!(!events.chunks.iter().any(spare));
            }
        }
    }
}

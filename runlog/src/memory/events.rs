//! [`Events`]: the events of a run in chunks, so that a long run is never copied to make room and holds no spare capacity.
//!
//! ```text
//! [ e e e e ]  [ e e e e ]  [ e e . . ]       all chunks but the first and the last are full
//!   └ trimmed from here          └ appended here
//! ```
//!
//! A [`BlockEvent`] has the size of its largest variant, which holds a JSON value. Nine of ten events of a run are deltas, so
//! the variants of a block are stored in 48 bytes, and all others in a box. Chunks of many blocks are [packed](Packed) once two
//! chunks follow: watchers that keep up never read them.

use std::collections::VecDeque;
use std::sync::Arc;

use aqueduct_core::event::EndReason;
use aqueduct_core::{BlockEvent, BlockHead};
use bytestring::ByteString;

use super::packed::Packed;

/// Events of a chunk: three kilobytes. The first chunk of a run grows to it by doubling, because most runs are short.
const CHUNK: usize = 64;

/// Blocks that start in a chunk that is packed. A chunk of fewer is small as it is, and cheaper to read.
const BLOCKS: usize = 8;

/// Chunks at the end that are not packed.
const RECENT: usize = 2;

/// The most events of an ended run that are packed: the run is locked meanwhile.
const PACKED_AT_END: usize = 4 * CHUNK;

/// A stored event.
#[derive(Debug)]
enum Stored {
    Started(Arc<BlockHead>),
    Delta(Arc<BlockHead>, ByteString),
    Ended(Arc<BlockHead>, EndReason),
    Other(Box<BlockEvent>),
}

impl Stored {
    /// Returns the event. Head and text are shared, not copied.
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

/// Consecutive events.
#[derive(Debug)]
enum Chunk {
    Open(Vec<Stored>),
    Packed(Packed),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Open(events) => events.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    /// Packs the chunk if that saves memory.
    /// Called once per chunk, when two chunks follow it. Packing costs an encoding of 64 events, and
    /// the chunk stays packed until it is trimmed.
    fn pack(&mut self) {
        let Self::Open(events) = self else { return };
        let blocks = events.iter().filter(|event| matches!(event, Stored::Started(_))).count();
        if blocks >= BLOCKS
            && let Some(packed) = Packed::new(events.iter().map(Stored::event))
        {
            *self = Self::Packed(packed);
        }
    }

    /// Returns the events of the chunk as they were before packing.
    fn into_stored(self) -> Vec<Stored> {
        match self {
            Self::Open(events) => events,
            Self::Packed(packed) => packed.unpack().map(Stored::from).collect(),
        }
    }

    /// Passes at most `max` events from the index `start` on to `each`. Returns their number.
    fn visit(&self, start: usize, max: usize, each: &mut impl FnMut(BlockEvent)) -> usize {
        let count = self.len().saturating_sub(start).min(max);
        match self {
            Self::Open(events) => {
                events.iter().skip(start).take(count).for_each(|event| each(event.event()));
            }
            Self::Packed(packed) => packed.unpack().skip(start).take(count).for_each(each),
        }
        count
    }
}

/// The events of a run, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events {
    chunks: VecDeque<Chunk>,
    len: usize,
}

impl Events {
    /// Returns the number of events that are not trimmed.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends an event. A full last chunk is followed by a new one of full capacity.
    pub(super) fn push(&mut self, event: BlockEvent) {
        self.len += 1;
        let is_first = self.chunks.is_empty();
        if let Some(Chunk::Open(chunk)) = self.chunks.back_mut()
            && chunk.len() < CHUNK
        {
            chunk.push(event.into());
            return;
        }
        let mut chunk = if is_first { Vec::new() } else { Vec::with_capacity(CHUNK) };
        chunk.push(event.into());
        self.chunks.push_back(Chunk::Open(chunk));
        if let Some(old) = self.chunks.len().checked_sub(RECENT + 1).and_then(|at| self.chunks.get_mut(at)) {
            old.pack();
        }
    }

    /// Packs the events of a run that has ended, whatever their blocks. Long runs stay as they are.
    pub(super) fn pack_ended(&mut self) {
        if self.len > PACKED_AT_END {
            return;
        }
        for chunk in &mut self.chunks {
            if let Chunk::Open(events) = chunk
                && let Some(packed) = Packed::new(events.iter().map(Stored::event))
            {
                *chunk = Chunk::Packed(packed);
            }
        }
        self.chunks.shrink_to_fit();
    }

    /// Returns `true` if all events are packed.
    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        self.chunks.iter().all(|chunk| matches!(chunk, Chunk::Packed(_)))
    }

    /// Passes at most `max` events from the index `start` on to `each`: an iterator over both kinds of chunks moves every event
    /// several times.
    pub(super) fn visit_since(&self, start: usize, max: usize, mut each: impl FnMut(BlockEvent)) {
        // Only the first chunk can have another length than `CHUNK`, by trimming or because it is the only
        // one, so the chunk of an index is found by division.
        let first = self.chunks.front().map_or(0, Chunk::len);
        let (chunk, mut offset) = match start.checked_sub(first) {
            Some(behind) => (1 + behind / CHUNK, behind % CHUNK),
            None => (0, start),
        };
        let mut left = max;
        for chunk in self.chunks.range(chunk.min(self.chunks.len())..) {
            if left == 0 {
                break;
            }
            left -= chunk.visit(std::mem::take(&mut offset), left, &mut each);
        }
    }

    /// Removes and returns the oldest events.
    /// At most `count`; a chunk that is removed in part is unpacked and becomes an open one.
    pub(super) fn take_oldest(&mut self, count: usize) -> Vec<BlockEvent> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(first) = self.chunks.pop_front()
        {
            let mut events = first.into_stored();
            let part = events.len().min(count - taken.len());
            taken.extend(events.drain(..part).map(|stored| stored.event()));
            if !events.is_empty() {
                self.chunks.push_front(Chunk::Open(events));
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
            // Some are pieces of one block, others are blocks of their own.
            let text = Update::text(number.to_string());
            let is_alone = number % 300 > 100;
            let text = if is_alone { text.in_message(number.to_string()).last() } else { text };
            context.handle_update(text).unwrap();
            context.poll_event()
        })
    }

    #[test]
    fn a_stored_event_is_small() {
        assert!(size_of::<Stored>() <= 48, "{}", size_of::<Stored>());
    }

    #[test]
    fn events_of_blocks_are_stored_without_a_box() {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        context.handle_update(Update::text("words").last()).unwrap();
        let stored: Vec<Stored> = std::iter::from_fn(|| context.poll_event()).map(Stored::from).collect();
        let [Stored::Other(_), Stored::Started(_), Stored::Delta(..), Stored::Ended(..)] = stored.as_slice()
        else {
            panic!("{stored:?}")
        };
    }

    /// Returns a chunk of as many blocks, packed if that is worthwhile.
    fn packed(blocks: usize) -> Chunk {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        for number in 0..blocks {
            let update = Update::text("words").in_message(number.to_string()).last();
            context.handle_update(update).unwrap();
        }
        let mut chunk = Chunk::Open(std::iter::from_fn(|| context.poll_event()).map(Stored::from).collect());
        chunk.pack();
        chunk
    }

    #[test]
    fn a_chunk_of_eight_blocks_is_packed_and_one_of_seven_is_not() {
        assert!(matches!(packed(BLOCKS), Chunk::Packed(_)));
        assert!(matches!(packed(BLOCKS - 1), Chunk::Open(_)));
    }

    #[test]
    fn all_chunks_but_the_last_two_are_packed() {
        let mut events = Events::default();
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        for number in 0..4 * CHUNK {
            context.handle_update(Update::text("words").in_message(number.to_string()).last()).unwrap();
        }
        std::iter::from_fn(|| context.poll_event()).take(4 * CHUNK).for_each(|event| events.push(event));
        let is_packed: Vec<bool> =
            events.chunks.iter().map(|chunk| matches!(chunk, Chunk::Packed(_))).collect();
        assert_eq!(is_packed, [true, true, false, false]);
    }

    #[test]
    fn an_ended_run_is_packed_unless_it_is_long() {
        for (len, is_packed) in
            [(1, true), (CHUNK + 1, true), (PACKED_AT_END, true), (PACKED_AT_END + 1, false)]
        {
            let (mut events, list) = (Events::default(), distinct_events().take(len).collect::<Vec<_>>());
            for event in &list {
                events.push(event.clone());
            }
            events.pack_ended();
            assert_eq!(events.is_packed(), is_packed, "{len} events");
            for start in [0, len / 2, len] {
                let mut read = Vec::new();
                events.visit_since(start, len, |event| read.push(event));
                assert_eq!(read, list[start..]);
            }
        }
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
                let mut read = Vec::new();
                events.visit_since(start, 300, |event| read.push(event));
                prop_assert_eq!(read, list.iter().skip(start).take(300).cloned().collect::<Vec<_>>());
                let spare = |chunk: &Chunk| matches!(chunk, Chunk::Open(events) if events.capacity() > CHUNK);
                prop_assert!(!events.chunks.iter().any(spare));
            }
        }
    }
}

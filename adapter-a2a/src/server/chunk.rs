//! [`Chunk`]: a chunk of an answer on its way to a watcher, as words and a reference to everything around them.
//!
//! The chunks of a block differ in their words alone. So the item that stands around the words is built once per block
//! and shared; a chunk costs two references instead of the five strings of its own [`StreamItem`].
//!
//! Invariant: [`Chunk::into_item`] is the item that the converters return for the same event (test).

use std::sync::Arc;

use aqueduct_core::{BlockEvent, BlockHead, ByteString, Channel, SpanKind};

use crate::encode::{ItemWriter, plain_chunk, with_words};
use crate::wire::{ArtifactUpdate, Part, StreamItem};

/// A chunk with words and nothing beside them.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    /// The chunk without words.
    pub(crate) around: Arc<ArtifactUpdate<'static>>,
    pub(crate) words: ByteString,
}

impl Chunk {
    /// Returns the item of the chunk.
    pub(crate) fn into_item(self) -> StreamItem<'static> {
        let mut update = ArtifactUpdate::clone(&self.around);
        update.artifact.parts = vec![Part::text(self.words.to_string())];
        StreamItem::Artifact(update)
    }
}

/// One item of a task's stream, before a binding encodes it.
#[derive(Debug)]
pub(super) enum TaskItem {
    /// A piece of the answer, in its short form.
    Chunk(Chunk),
    /// Anything else.
    Item(Box<StreamItem<'static>>),
}

impl TaskItem {
    pub(super) fn into_item(self) -> StreamItem<'static> {
        match self {
            Self::Chunk(chunk) => chunk.into_item(),
            Self::Item(item) => *item,
        }
    }
}

/// The block whose chunk was made last, and what stands around its words.
#[derive(Debug, Clone)]
pub(super) struct LastBlock {
    head: Arc<BlockHead>,
    around: Arc<ArtifactUpdate<'static>>,
}

/// Returns the chunk of a piece of the answer. Returns `None` for every other event.
pub(super) fn chunk_of(
    event: &BlockEvent,
    last: &mut Option<LastBlock>,
    writer: &mut ItemWriter,
) -> Option<Chunk> {
    let BlockEvent::BlockDelta { block, delta } = event else { return None };
    if let Some(last) = last.as_ref().filter(|last| Arc::ptr_eq(&last.head, block) && !delta.is_empty()) {
        return Some(Chunk { around: Arc::clone(&last.around), words: delta.clone() });
    }
    if block.kind != SpanKind::Text || block.channel != Channel::Answer || delta.is_empty() {
        return None;
    }
    // The writer keeps no state for pieces of the answer, so converting the event here has no effect on later
    // ones.
    let mut items = Vec::with_capacity(1);
    writer.handle_event(event, &mut items);
    let [item] = items.as_slice() else { return None };
    let (update, words) = plain_chunk(item)?;
    if words != &**delta {
        return None;
    }
    let around = Arc::new(with_words(update, ""));
    *last = Some(LastBlock { head: Arc::clone(block), around: Arc::clone(&around) });
    Some(Chunk { around, words: delta.clone() })
}

#[cfg(test)]
mod tests {
    use aqueduct_core::{RunInfo, StreamContext, Update};

    use super::*;
    use crate::config::{Notes, Settings};
    use crate::convert::converters;

    fn events() -> Vec<BlockEvent> {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        for text in ["one", "", "two \"quoted\"", "three"] {
            context.handle_update(Update::text(text).in_message("m1")).unwrap();
        }
        context.handle_update(Update::thinking("hm")).unwrap();
        context.handle_update(Update::text("another").in_message("m2")).unwrap();
        context.handle_update(Update::text(" block").in_message("m2")).unwrap();
        std::iter::from_fn(|| context.poll_event()).collect()
    }

    #[test]
    fn a_chunk_is_the_item_of_its_event() {
        let writer = || ItemWriter::new(converters(&Settings::new("t", "c")), Notes::Lines);
        let (mut general, mut own, mut last, mut chunks) = (writer(), writer(), None, 0);
        for event in events() {
            let mut items = Vec::new();
            general.handle_event(&event, &mut items);
            match chunk_of(&event, &mut last, &mut own) {
                Some(chunk) => {
                    chunks += 1;
                    assert_eq!(vec![chunk.into_item()], items);
                }
                None => own.handle_event(&event, &mut Vec::new()),
            }
        }
        assert_eq!(chunks, 5, "every piece of the answer is a chunk");
    }
}

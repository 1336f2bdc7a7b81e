//! Shared pages for the texts of a run: one allocation per page instead of one per delta, and none that keeps a read
//! buffer alive.

use aqueduct_core::BlockEvent;
use bytes::{BufMut as _, BytesMut};
use bytestring::ByteString;

/// Size of a page. A long run needs one per about two hundred deltas.
const PAGE: usize = 4 * 1024;

/// Size of the first page; each further one is twice as large as the last, up to [`PAGE`]. Most open runs have little text
/// so far.
const FIRST_PAGE: usize = 256;

/// The page that texts are copied to, and the size of the next one.
#[derive(Debug)]
pub(super) struct Arena {
    page: BytesMut,
    /// Size of the next page.
    next: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Self { page: BytesMut::new(), next: FIRST_PAGE }
    }
}

impl Arena {
    /// Returns the event with its delta copied into a page. All other parts of an event are detached already.
    pub(super) fn keep(&mut self, event: BlockEvent) -> BlockEvent {
        match event {
            BlockEvent::BlockDelta { block, delta } => {
                BlockEvent::BlockDelta { block, delta: self.copy(&delta) }
            }
            other => other,
        }
    }

    /// Copies a text into the page. A text longer than a page gets an allocation of its own.
    fn copy(&mut self, text: &ByteString) -> ByteString {
        if text.len() > PAGE {
            return ByteString::from(&**text);
        }
        if self.page.capacity() < text.len() {
            self.page = BytesMut::with_capacity(self.next.max(text.len()));
            self.next = PAGE.min(2 * self.next);
        }
        self.page.put_slice(text.as_bytes());
        let copy = self.page.split().freeze();
        ByteString::try_from(copy).unwrap_or_else(|_| ByteString::from(&**text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_pages_and_not_the_buffer_they_came_from() {
        let buffer = ByteString::from("Hello, world");
        let mut arena = Arena::default();
        let copies: Vec<ByteString> =
            (0..1000).map(|_| arena.copy(&buffer.slice_ref(buffer.get(0..5).unwrap()))).collect();
        assert!(copies.iter().all(|copy| &**copy == "Hello"));
        let (first, second) = (copies[0].as_ptr() as usize, copies[1].as_ptr() as usize);
        assert_eq!(second - first, 5, "the second lies behind the first in one page");
    }

    #[test]
    fn the_delta_of_an_event_is_copied() {
        let buffer = ByteString::from("a read buffer of many events");
        let delta = buffer.slice_ref(buffer.get(2..6).unwrap());
        let block = crate::testing::events(1).iter().find_map(|event| event.block().cloned()).unwrap();
        let kept = Arena::default().keep(BlockEvent::BlockDelta { block, delta: delta.clone() });
        let BlockEvent::BlockDelta { delta: copy, .. } = kept else { panic!("another event: {kept:?}") };
        assert_eq!(copy, delta);
        assert_ne!(copy.as_ptr(), delta.as_ptr());
    }

    #[test]
    fn a_page_is_filled_to_its_end_and_the_next_is_twice_as_large() {
        let (mut arena, half) = (Arena::default(), ByteString::from("x".repeat(FIRST_PAGE / 2)));
        let [first, second] = [arena.copy(&half), arena.copy(&half)];
        assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, FIRST_PAGE / 2);
        let mut sizes = vec![arena.next];
        for _ in 0..200 {
            arena.copy(&half);
            sizes.push(arena.next);
        }
        sizes.dedup();
        assert_eq!(sizes, [512, 1024, 2048, 4096]);
    }

    #[test]
    fn a_text_larger_than_a_page_is_kept_whole() {
        let text = ByteString::from("x".repeat(3 * PAGE));
        assert_eq!(Arena::default().copy(&text), text);
    }
}

//! [`Shapes`]: recognises chunks by the bytes that they share with the one before.
//!
//! The frames that stream one artifact are equal byte for byte, except for the text. So once one was
//! [scanned](Chunk::scan), the next is only checked for the same bytes at both ends and the inside of one JSON string
//! between them. Then it is the same JSON with another string in that place, and every parser reads it like the one
//! before, with another text. Any other frame is scanned.
//!
//! Invariant: a frame gives the same result here as in the scanner, or is left to it (property test). No frame is kept
//! alive: a shape is a copy of the frame's bytes without the text.

use std::borrow::Cow;
use std::ops::Range;

use aqueduct_core::json::plain_prefix;

use super::chunk::{Chunk, Places};

/// The number of shapes that are kept: several artifacts can be streamed in turns. Each costs a comparison of the bytes
/// that it has in common with a frame of another shape.
const SHAPES: usize = 4;
/// The largest frame without its text, in bytes. Longer ones (an artifact with an id or name of a page) would cost more
/// memory than scanning costs time.
const SHAPE_BYTES: usize = 1024;

/// The shapes of the latest chunks of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    /// The shapes, in the order they were learned.
    known: Vec<Shape>,
}

#[derive(Debug, Clone)]
struct Shape {
    /// The frame without its text.
    frame: String,
    /// The position of the text.
    words_at: usize,
    artifact_id: Range<usize>,
    last: bool,
}

impl Shapes {
    /// Parses a frame if it only appends a text to an artifact. A frame that names another task than `task` is left to
    /// the general path; its shape is not learned.
    pub(crate) fn read<'a>(&mut self, data: &'a str, task: &str) -> Option<Chunk<'a>> {
        if let Some(chunk) = self.known.iter().find_map(|shape| shape.read(data)) {
            return Some(chunk);
        }
        let is_own = |chunk: &Chunk<'_>| chunk.task_id.is_empty() || chunk.task_id == task;
        let (chunk, places) = Chunk::scan(data).filter(|(chunk, _)| chunk.append && is_own(chunk))?;
        self.learn(data, &places, chunk.last);
        Some(chunk)
    }

    fn learn(&mut self, data: &str, places: &Places, last: bool) {
        let Range { start, end } = places.text;
        let (Some(head), Some(tail)) = (data.get(..start), data.get(end..)) else { return };
        if head.len() + tail.len() > SHAPE_BYTES {
            return;
        }
        let behind = if places.artifact_id.start < start { 0 } else { end - start };
        // In a stream of dissimilar frames the oldest shape is dropped, and its buffer is reused.
        let mut frame = self.room();
        frame.reserve_exact(head.len() + tail.len());
        frame.extend([head, tail]);
        let artifact_id = places.artifact_id.start - behind..places.artifact_id.end - behind;
        self.known.push(Shape { frame, words_at: start, artifact_id, last });
    }

    fn room(&mut self) -> String {
        if self.known.len() < SHAPES {
            return String::new();
        }
        let mut frame = self.known.remove(0).frame;
        frame.clear();
        frame
    }
}

impl Shape {
    fn read<'a>(&self, data: &'a str) -> Option<Chunk<'a>> {
        let (head, tail) = self.frame.split_at_checked(self.words_at)?;
        let words = data.strip_prefix(head)?.strip_suffix(tail)?;
        let behind = if self.artifact_id.start < self.words_at { 0 } else { words.len() };
        let artifact_id = data.get(self.artifact_id.start + behind..self.artifact_id.end + behind)?;
        let text = if plain_prefix(words.as_bytes()) == words.len() {
            Cow::Borrowed(words)
        } else {
            // Includes the quotes, which are the bytes around the text. Anything but one string is refused.
            let quoted = data.get(head.len() - 1..head.len() + words.len() + 1)?;
            Cow::Owned(serde_json::from_str(quoted).ok()?)
        };
        Some(Chunk { task_id: "", artifact_id, text, append: true, last: self.last })
    }
}

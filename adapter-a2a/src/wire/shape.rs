//! [`Shapes`]: recognises chunks by the bytes that they share with the one before.
//!
//! The frames that stream one artifact are equal byte for byte, but for the words and, from some agents, the id of the
//! envelope. So once one was [scanned](Chunk::scan), the next are read by its [`Template`]. Anything else is scanned.
//!
//! Invariant: a frame is read here as the scanner reads it, or left to it (property test).

use std::ops::Range;

use super::chunk::{Chunk, Places};
use super::template::{Hole, HoleKind, Template};

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

/// One learned frame.
#[derive(Debug, Clone)]
struct Shape {
    template: Template,
    /// Where the artifact id stands in the template.
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

    /// Remembers the shape of a frame. Frames above [`SHAPE_BYTES`] are not remembered, and are scanned each
    /// time.
    fn learn(&mut self, data: &str, places: &Places, last: bool) {
        let text = Hole { place: places.text.clone(), kind: HoleKind::Text, role: 0 };
        let id = places.id.clone().map(|(place, kind)| Hole { place, kind, role: 1 });
        let holes: Vec<Hole> = id.into_iter().chain([text]).collect();
        let before: usize = holes
            .iter()
            .filter(|hole| hole.place.start < places.artifact_id.start)
            .map(|hole| hole.place.len())
            .sum();
        let artifact_id = places.artifact_id.start - before..places.artifact_id.end - before;
        // Of a stream whose frames are all unlike each other the oldest shape goes, and leaves its buffer.
        let room = self.room();
        if let Some(template) = Template::new(data, holes, SHAPE_BYTES, room) {
            self.known.push(Shape { template, artifact_id, last });
        }
    }

    /// Returns a buffer for another template: that of the oldest shape, if the limit is reached.
    fn room(&mut self) -> String {
        if self.known.len() < SHAPES {
            return String::new();
        }
        self.known.remove(0).template.into_room()
    }
}

impl Shape {
    /// Parses a frame of this shape. Returns `None` if it differs outside of its holes, or an escape is invalid.
    fn read<'a>(&self, data: &'a str) -> Option<Chunk<'a>> {
        let contents = self.template.read::<2>(data)?;
        let artifact_id = data.get(self.template.shifted(&self.artifact_id, &contents))?;
        let [text, id] = contents;
        // The scanner refuses an id with an invalid escape.
        id.text(data)?;
        let text = text.text(data)?;
        Some(Chunk { task_id: "", artifact_id, text, append: true, last: self.last })
    }
}

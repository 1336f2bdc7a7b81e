//! Decodes what Aqueduct's own server sends into the original stream: the [marks](crate::mark) contain what A2A cannot
//! express.
//!
//! The stream machine behind the decoder decides when blocks open and end. It receives the updates that lead it to the
//! same decisions as the original one:
//!
//! ```text
//!   block begins            a message of its own, so that nothing is appended to it
//!   … continues another     the same message: appended
//!   … replaces another      the same message: its first words replace
//!   ends, complete          `last`
//!   ends, interrupted       nothing: the next block on its track ends it
//!   ends, replaced          nothing: the block that replaces it ends it
//!   ends, closed            nothing: its lane or the run ends it
//! ```
//!
//! Not here: pieces without a mark, which are decoded like those of every other agent.

mod blocks;
mod piecewise;
mod signals;

pub(super) use signals::MessageOrigin;

use std::collections::{HashMap, HashSet};

use aqueduct_core::fingerprint::Fingerprint;
use aqueduct_core::recent::RecentMap;
use aqueduct_core::{ByteString, Channel, Metadata, Mode, Role, Source, SourceEvent, Track};
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::Value;

use super::Decoder;
use super::sink::Sink;
use crate::config::Marks;
use crate::wire::{Content, Part};

/// The kind of a marked artifact, from the mark of its first chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Text of the answer or intermediate text.
    Text,
    /// Thinking, in the clear or encrypted.
    Thinking,
    /// A tool call, whose text are its arguments.
    Call,
    /// Emitted part by part: results and custom content.
    Parts,
}

/// The state of a marked artifact.
#[derive(Debug, Clone)]
struct Block {
    what: What,
    source: Source,
    channel: Channel,
    role: Role,
    track: Track,
    /// The message id in this stream; blocks that continue each other share it.
    message: ByteString,
    /// The id of the tool call in this stream.
    call: ByteString,
    /// How its next text relates to the text before.
    mode: Mode,
    /// Set if the stream machine has received the end of its message.
    complete: bool,
    /// Set if it continues a message that was complete; with its first text the machine begins another message.
    after_complete: bool,
    /// Set if the machine does not have all of its text, so that it cannot be replaced.
    broken: bool,
    /// Metadata for its first text.
    origin: Origin,
    /// The text so far. Only its length is used: artifacts of Aqueduct's own server only grow.
    text: Fingerprint,
    /// The number of parts that were emitted, for [`What::Parts`].
    emitted_parts: usize,
}

/// Metadata of the source about a block.
#[derive(Debug, Clone, Default)]
struct Origin {
    response: Option<ByteString>,
    created_at: Option<i64>,
    metadata: Metadata,
}

/// The state of all marked pieces so far. Bounded by `DecodeLimits::artifacts`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marked {
    blocks: IndexMap<ByteString, Block, RandomState>,
    /// Hashes of the messages that have begun, by lane, kind, channel and track.
    begun: RecentMap<u64, ()>,
    /// The open block on each track of a lane.
    open: HashMap<(ByteString, Track), ByteString, RandomState>,
    /// The track on which a block was interrupted, by lane, until the interrupting block begins.
    interrupted: HashMap<ByteString, Track, RandomState>,
    /// Lanes whose blocks end because the lane does: their steps end by themselves too.
    closing: HashSet<ByteString, RandomState>,
    /// Interrupts of this turn. The end of the turn repeats them, for watchers that started late; their lanes have
    /// ended by then, and must not begin again.
    asked: HashSet<ByteString, RandomState>,
    /// Ends of lanes in a history, which are emitted after the rest of their artifacts.
    meanwhile: Vec<SourceEvent>,
}

impl Decoder {
    /// Returns `true` if marks are decoded (`DecodeConfig::marks`). Otherwise they are metadata like any other.
    pub(super) fn reads_marks(&self) -> bool {
        self.config.marks == Marks::Read
    }

    /// Ends the lanes that ended while no stream was open.
    pub(super) fn end_meanwhile(&mut self, sink: &mut Sink<'_>) {
        for event in std::mem::take(&mut self.memory.marked.meanwhile) {
            if let SourceEvent::LaneClosed { source, .. } = &event {
                self.memory.marked.forget_lane(source.path());
            }
            sink.push(event);
        }
    }
}

impl Marked {
    /// Returns `true` if a block is remembered.
    pub(super) fn knows_any(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Remembers a block; beyond the limit the oldest is dropped with all its state.
    fn keep(&mut self, id: ByteString, block: Block, max: usize) {
        if !self.blocks.contains_key(&id)
            && self.blocks.len() >= max.max(1)
            && let Some((_, oldest)) = self.blocks.shift_remove_index(0)
        {
            let path = ByteString::from(oldest.source.path());
            self.interrupted.remove(&path);
            self.closing.remove(&path);
            self.open.remove(&(path, oldest.track));
        }
        self.blocks.insert(id, block);
    }

    /// Records an interrupt; beyond the limit it would be emitted again at the end of the turn.
    fn note_asked(&mut self, id: &ByteString, max: usize) {
        if self.asked.len() < max.max(1) {
            self.asked.insert(id.clone());
        }
    }

    /// Begins another turn: no block of the last one is open.
    pub(crate) fn begin_turn(&mut self) {
        self.open.clear();
        self.interrupted.clear();
        self.closing.clear();
        self.asked.clear();
    }

    /// Returns the id of a call in this stream.
    fn call(&self, id: &str) -> ByteString {
        match self.blocks.get(id) {
            Some(block) if block.what == What::Call => block.call.clone(),
            _ => ByteString::from(id),
        }
    }

    /// Drops the state of open blocks of a lane.
    fn forget_lane(&mut self, path: &str) {
        self.closing.remove(path);
        self.interrupted.remove(path);
        self.open.retain(|(lane, _), _| lane != path);
    }
}

/// Returns the object of a data part.
fn data_of(part: &Part<'_>) -> Option<Value> {
    match &part.content {
        Content::Data(raw) => Some(raw.to_value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::DecodeConfig;
    use crate::wire::Frame;

    #[test]
    fn memory_is_bounded() {
        let mut config = DecodeConfig::root();
        config.limits.artifacts = 4;
        let mut decoder = Decoder::new(config);
        let mut out = Vec::new();
        for n in 0..100 {
            let lane = json!([{"key": format!("agent {n}")}]);
            let mark = json!({"kind": "text", "track": format!("{n}"), "lane": lane});
            let chunk = |mark: Value, append: bool| -> ByteString {
                let metadata = json!({ crate::mark::KEY: mark });
                let artifact =
                    json!({"artifactId": format!("{n}"), "parts": [{"text": "x"}], "metadata": metadata});
                let update =
                    json!({"taskId": "t", "artifact": artifact, "append": append, "lastChunk": append});
                json!({ "artifactUpdate": update }).to_string().into()
            };
            decoder.handle_frame(Frame::data(&chunk(mark, false)), &mut out);
            let end = if n % 2 == 0 { "interrupted" } else { "closed" };
            decoder.handle_frame(Frame::data(&chunk(json!({ "end": end }), true)), &mut out);
        }
        let marked = &decoder.memory.marked;
        let sizes = [marked.blocks.len(), marked.begun.len(), marked.open.len()];
        let others = [marked.interrupted.len(), marked.closing.len()];
        assert!(sizes.into_iter().chain(others).all(|size| size <= 4), "{sizes:?} {others:?}");
        assert_eq!(out.len(), 200);
    }
}

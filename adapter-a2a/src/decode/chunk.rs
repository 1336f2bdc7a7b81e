//! The hot path: one more text of an artifact that is known, read without the model between.
//!
//! It does what [`artifact`](super::artifact) does for such a chunk, and leaves everything else to it.

use aqueduct_core::{ByteString, Metadata, Mode, SourceEvent, Track};

use super::Decoder;
use super::memory::Kind;
use super::parts::Place;
use super::sink::Sink;
use crate::wire::Frame;
use crate::wire::chunk::Chunk;

impl Decoder {
    /// Takes a frame if it is such a chunk.
    pub(crate) fn handle_chunk(&mut self, frame: Frame<'_>, out: &mut Vec<SourceEvent>) -> bool {
        let is_usual =
            !self.is_first && self.settled.is_none() && self.unread.is_none() && self.held.is_none();
        if frame.event.is_some() || !is_usual {
            return false;
        }
        let Some(chunk) = Chunk::scan(frame.data).filter(|chunk| chunk.append) else { return false };
        let mut sink = Sink::new(frame.data, out);
        self.append_marked(&chunk, &mut sink) || self.append_chunk(&chunk, &mut sink)
    }

    fn append_chunk(&mut self, chunk: &Chunk<'_>, sink: &mut Sink<'_>) -> bool {
        if chunk.text.is_empty() {
            return false;
        }
        let Some((_, id, record)) = self.memory.artifacts.get_full_mut(chunk.artifact_id) else {
            return false;
        };
        let Kind::Words(channel) = record.kind else { return false };
        if self.config.drop_restated_chunks && record.is_restated_by(&chunk.text) {
            return false;
        }
        record.push(&chunk.text);
        let source = record.agent.as_ref().unwrap_or(&self.source).clone();
        let place = Place {
            source,
            message_id: id.clone(),
            track: Track::new(id.clone()),
            channel,
            created_at: None,
            metadata: Metadata::new(),
            last: chunk.last,
        };
        self.hold_open(&place, sink);
        let words = sink.share_str(&chunk.text);
        self.emit_words(words, false, Mode::Append, chunk.last, Metadata::new(), &place, sink);
        true
    }

    /// The same for what Aqueduct's own server sends.
    fn append_marked(&mut self, chunk: &Chunk<'_>, sink: &mut Sink<'_>) -> bool {
        if !self.reads_marks() {
            return false;
        }
        let words = |sink: &Sink<'_>| -> ByteString { sink.share_str(&chunk.text) };
        self.marked_words(chunk.artifact_id, words, chunk.last, sink)
    }
}

//! The hot path: one more text of a known artifact, decoded without building the wire model.
//!
//! ```text
//! {"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true,
//!                     "artifact": {"artifactId": "a", "parts": [{"text": "quick "}]}}}
//! ```
//!
//! It has the same effect as `artifact` for such a chunk, and leaves every other frame to it (property test). So each
//! condition of the general path that could change the result is checked here: held texts, a held interrupt, an
//! undecodable frame, a restated chunk, a chunk that may restate a status text.

use std::borrow::Cow;

use aqueduct_core::{ContentBlock, MessageId, Mode, Role, SourceEvent, Update};

use super::memory::Kind;
use super::sink::Sink;
use super::{AtEnd, Decoder};
use crate::wire::chunk::Chunk;
use crate::wire::{Frame, Text};

impl Decoder {
    /// Decodes the frame if it is such a chunk. Returns `false`, without effect, otherwise: the caller then parses
    /// the frame.
    pub(crate) fn handle_chunk(&mut self, frame: Frame<'_>, out: &mut Vec<SourceEvent>) -> bool {
        if frame.event.is_some() || !self.is_under_way() {
            return false;
        }
        let Some(mut chunk) = self.shapes.read(frame.data, &self.memory.task_id) else { return false };
        let mut sink = Sink::new(frame.data, out);
        self.append_marked(&mut chunk, &mut sink) || self.append_chunk(&mut chunk, &mut sink)
    }

    /// Returns `true` if an artifact is known, and a chunk can have no effect but its text: no text or interrupt is
    /// held or pending, no frame waits to be shown, and the task has not settled.
    fn is_under_way(&self) -> bool {
        let knows_artifact = !self.memory.artifacts.is_empty() || self.memory.marked.knows_any();
        let knows_task = !self.memory.task_id.is_empty() && !self.memory.context_id.is_empty();
        let waits = self.settled.is_some()
            || self.unread.is_some()
            || !self.held.is_empty()
            || self.at_end == AtEnd::Waits
            || self.holds_text();
        knows_artifact && knows_task && !waits && !self.is_first
    }

    /// Appends the text of a chunk to a known artifact. Returns `false` if the general decoder must handle it;
    /// nothing was changed then.
    fn append_chunk(&mut self, chunk: &mut Chunk<'_>, sink: &mut Sink<'_>) -> bool {
        let Some((_, id, record)) = self.memory.artifacts.get_full_mut(chunk.artifact_id) else {
            return false;
        };
        let Kind::Words(channel) = record.kind else { return false };
        let is_restated = self.config.drop_restated_chunks && record.is_restated_by(&chunk.text);
        // The first text of an artifact may restate a status text.
        let may_echo = record.text.is_blank() && self.speech.has_spoken();
        if chunk.text.is_empty() || is_restated || may_echo {
            return false;
        }
        record.touched = self.memory.turn;
        record.push(&chunk.text);
        let (id, track, agent) = (id.clone(), record.track.clone(), record.agent.clone());
        self.memory.tail.push(&id, &chunk.text, self.config.limits.compared_text);
        let source = agent.unwrap_or_else(|| self.source.clone());
        self.keep_open(&id, channel, &source, chunk.last, sink);
        self.note_answer(channel, &chunk.text);
        sink.push(Update {
            source,
            track,
            block: ContentBlock::text(sink.share(take_text(chunk))),
            message_id: Some(MessageId::new(id)),
            response_id: self.response_id(),
            created_at: None,
            role: Role::Assistant,
            channel,
            mode: Mode::Append,
            last: chunk.last,
            details: None,
        });
        true
    }

    /// As `append_chunk`, for chunks of Aqueduct's own server, whose artifacts are kept apart.
    fn append_marked(&mut self, chunk: &mut Chunk<'_>, sink: &mut Sink<'_>) -> bool {
        if !self.reads_marks() {
            return false;
        }
        let (id, last) = (chunk.artifact_id, chunk.last);
        self.marked_words(id, |sink| sink.share(take_text(chunk)), last, sink)
    }
}

/// Moves the text out of the chunk.
fn take_text<'a>(chunk: &mut Chunk<'a>) -> Text<'a> {
    Text(std::mem::replace(&mut chunk.text, Cow::Borrowed("")))
}

#[cfg(test)]
mod tests;

//! Text and thinking blocks: the answer as artifacts, chunk by chunk; thinking and intermediate text as `working`
//! statuses, because many clients treat every artifact as the answer.
//!
//! ```text
//! answer        started  artifact "run/2", parts [{"text": ""}], mark of the block
//!               delta    artifact "run/2", parts [{"text": "Hi"}], append
//!               ended    artifact "run/2", parts [{"text": ""}], append, lastChunk; a mark unless complete
//! intermediate  delta    working, message "run/3", parts [{"text": "Looking"}], mark of the block and "block": "run/3"
//!               ended    working, message "run/3", data {"type": "end", "end": "complete"}, the same mark and "end"
//! ```
//!
//! A status cannot be appended to, so each of these messages names its block, and
//! [`ItemWriter`](crate::encode::ItemWriter) joins fragments before they become messages, assigns their ids and moves
//! the end to the last of them.

use aqueduct_core::event::EndReason;
use aqueduct_core::{BlockEvent, BlockEventConverter, BlockHead, Channel, EventKind, SpanKind};
use serde_json::json;

use super::show::{
    Chunk, Piece, artifact, artifact_name, converter, data, head_mark, message, status, tells, thought,
};
use crate::config::Settings;
use crate::mark::{BLOCK, COMPLETE, END, Mark, kind};
use crate::wire::{Part, StreamItem, TaskState};

/// Metadata key: `true` on a complete intermediate text makes it a status without a mark, like that of any agent.
/// Scripted agents report their tools this way.
pub const PLAIN_STATUS: &str = "a2a.plainStatus";

converter! {
    /// Converts text: the answer into artifacts, intermediate text into statuses.
    TextConverter
}

converter! {
    /// Converts thinking into statuses. Text that is shown as thinking stays text for Aqueduct's own client.
    ThinkingConverter
}

impl BlockEventConverter<StreamItem<'static>> for TextConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let is_answer = event.block().is_some_and(|block| block.channel == Channel::Answer);
        out.extend(if is_answer {
            answer(&self.settings, event)
        } else {
            note(&self.settings, event, false)
        });
    }
}

impl BlockEventConverter<StreamItem<'static>> for ThinkingConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        if tells(&self.settings, EventKind::Thinking) {
            out.extend(note(&self.settings, event, true));
        }
    }
}

/// Returns a chunk of the artifact of an answer. Returns `None` for other events than those of a block.
fn answer(settings: &Settings, event: &BlockEvent) -> Option<StreamItem<'static>> {
    let (block, text, mark, chunk) = match event {
        BlockEvent::BlockStarted(block) => (block, "", Some(head_mark(kind::TEXT, block)), Chunk::First),
        BlockEvent::BlockDelta { block, delta } => (block, &**delta, None, Chunk::More),
        BlockEvent::BlockEnded { block, reason } => (block, "", end_mark(*reason), Chunk::Last),
        _ => return None,
    };
    let name = if chunk == Chunk::First { name(block) } else { "" };
    let part = Part::text(text.to_owned());
    Some(artifact(settings, Piece { id: block.id.as_str(), name, part, mark, chunk }))
}

/// Returns a status for a fragment or the end of a block. The start of a block is sent together with its first text,
/// because every message has the whole mark. `as_thought` adds the metadata by which other clients recognise
/// thinking.
fn note(settings: &Settings, event: &BlockEvent, as_thought: bool) -> Option<StreamItem<'static>> {
    if event.block().is_some_and(|block| is_plain(block)) {
        return plain_note(settings, event);
    }
    let shown = |part: Part<'static>| if as_thought { thought(part) } else { part };
    let (block, part, end) = match event {
        BlockEvent::BlockDelta { block, delta } => (block, shown(Part::text(delta.to_string())), None),
        BlockEvent::ThinkingEncrypted { block, value } => {
            (block, data(&json!({"type": "sealed-thinking", "value": &**value})), None)
        }
        BlockEvent::BlockEnded { block, reason } => {
            let end = end_word(*reason).unwrap_or(COMPLETE);
            (block, data(&json!({"type": "end", "end": end})), Some(end))
        }
        _ => return None,
    };
    let kind = if block.kind == SpanKind::Thinking { kind::THINKING } else { kind::TEXT };
    let mut mark = head_mark(kind, block);
    mark.put(BLOCK, block.id.as_str());
    mark.put_set(END, end);
    let message = message(settings, block.id.to_string(), vec![part], mark);
    Some(status(settings, TaskState::Working, Some(message)))
}

/// Returns a status without a mark: its text is the whole content, for Aqueduct's own client as for any other.
fn plain_note(settings: &Settings, event: &BlockEvent) -> Option<StreamItem<'static>> {
    let BlockEvent::BlockDelta { block, delta } = event else { return None };
    let parts = vec![Part::text(delta.to_string())];
    let mut message = message(settings, block.id.to_string(), parts, Mark::default());
    message.metadata = None;
    Some(status(settings, TaskState::Working, Some(message)))
}

/// Returns `true` if the source asked for a status without a mark ([`PLAIN_STATUS`]).
fn is_plain(block: &BlockHead) -> bool {
    let own = block.origin.metadata.as_ref();
    own.and_then(|own| own.get(PLAIN_STATUS)).is_some_and(|value| value == true)
}

/// Returns the display name of an artifact: its name at the source, its agent, or its kind.
fn name(block: &BlockHead) -> &str {
    let agent = Some(block.lane.name()).filter(|name| !name.is_empty());
    artifact_name(&block.origin).or(agent).unwrap_or("answer")
}

/// Returns the mark with the reason why a block ended, unless it is complete.
pub(super) fn end_mark(reason: EndReason) -> Option<Mark> {
    let mut mark = Mark::default();
    mark.put(END, end_word(reason)?);
    Some(mark)
}

/// Returns the word for an end reason in a mark. Returns `None` for a complete block, which `lastChunk` expresses.
fn end_word(reason: EndReason) -> Option<&'static str> {
    match reason {
        EndReason::Interrupted => Some("interrupted"),
        EndReason::Closed => Some("closed"),
        EndReason::Replaced => Some("replaced"),
        _ => None,
    }
}

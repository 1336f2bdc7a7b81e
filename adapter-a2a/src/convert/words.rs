//! Text and thinking blocks as artifacts, chunk by chunk.
//!
//! A status has no append, and a status message per token would fill the task's history; so words on the way and
//! thoughts are artifacts too, told apart by their name, their mark, and `thought: true` on their parts.

use aqueduct_core::event::EndReason;
use aqueduct_core::{BlockEvent, BlockEventConverter, BlockHead, Channel, EventKind, SpanKind};
use serde_json::json;

use super::show::{Chunk, Piece, artifact, converter, data, head_mark, tells, thought};
use crate::config::Settings;
use crate::mark::{Mark, kind};
use crate::wire::{Part, StreamItem};

converter! {
    /// Artifacts of words.
    TextConverter
}

converter! {
    /// Artifacts of thoughts. Text that is shown as thinking stays text for Aqueduct's own client.
    ThinkingConverter
}

impl BlockEventConverter<StreamItem<'static>> for TextConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        convert(&self.settings, event, false, out);
    }
}

impl BlockEventConverter<StreamItem<'static>> for ThinkingConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        if tells(&self.settings, EventKind::Thinking) {
            convert(&self.settings, event, true, out);
        }
    }
}

fn convert(settings: &Settings, event: &BlockEvent, as_thought: bool, out: &mut Vec<StreamItem<'static>>) {
    let words = |text: &str| {
        let part = Part::text(text.to_owned());
        if as_thought { thought(part) } else { part }
    };
    let (block, part, mark, chunk) = match event {
        BlockEvent::BlockStarted(block) => {
            let kind = if block.kind == SpanKind::Thinking { kind::THINKING } else { kind::TEXT };
            (block, words(""), Some(head_mark(kind, block)), Chunk::First)
        }
        BlockEvent::BlockDelta { block, delta } => (block, words(delta), None, Chunk::More),
        BlockEvent::ThinkingEncrypted { block, value } => {
            (block, data(&json!({"type": "sealed-thinking", "value": &**value})), None, Chunk::More)
        }
        BlockEvent::BlockEnded { block, reason } => (block, words(""), end_mark(*reason), Chunk::Last),
        _ => return,
    };
    let name = if chunk == Chunk::First { name(block) } else { "" };
    out.push(artifact(settings, Piece { id: block.id.as_str(), name, part, mark, chunk }));
}

/// What people see an artifact called: its agent, or what it is.
fn name(block: &BlockHead) -> &str {
    match (block.lane.name(), block.kind, block.channel) {
        ("", SpanKind::Thinking, _) => "thinking",
        ("", _, Channel::Intermediate) => "intermediate",
        ("", ..) => "answer",
        (name, ..) => name,
    }
}

/// Why a block ended, unless it is complete.
pub(super) fn end_mark(reason: EndReason) -> Option<Mark> {
    let word = match reason {
        EndReason::Interrupted => "interrupted",
        EndReason::Closed => "closed",
        EndReason::Replaced => "replaced",
        _ => return None,
    };
    let mut mark = Mark::default();
    mark.put("end", word);
    Some(mark)
}

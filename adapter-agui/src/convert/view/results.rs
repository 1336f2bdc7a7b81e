//! [`Results`]: the texts of sub-agents, as the results of the tool calls that stand for them.
//!
//! The text of a sub-agent that is shown as a tool call is collected here, up to `MAX_HELD` bytes
//! per lane, and becomes the result of its call when the lane closes. A lane with
//! a result of its own keeps that result; of a failed one the text precedes the error.

use std::collections::HashMap;

use aqueduct_core::{BlockEvent, BlockId, ByteString, LaneId, SpanKind};

use super::MAX_HELD;
use crate::convert::show::META_IS_ERROR;
use crate::wire::{Content, ToolCallResult};

/// The separator between the texts of a sub-agent.
const GAP: &str = "\n\n";

/// The texts of the open sub-agents, each with the block that is being appended.
#[derive(Debug, Default)]
pub(super) struct Results(HashMap<LaneId, (Option<BlockId>, String)>);

impl Results {
    /// Collects the text of sub-agents.
    pub(super) fn note(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::BlockDelta { block, delta }
                if block.kind == SpanKind::Text && !block.lane.is_root() =>
            {
                let (last, text) = self.0.entry(block.lane.id.clone()).or_default();
                if last.as_ref() != Some(&block.id) {
                    *last = Some(block.id.clone());
                    if !text.is_empty() {
                        text.push_str(GAP);
                    }
                }
                let room = MAX_HELD.saturating_sub(text.len()).min(delta.len());
                let room = (0..=room).rev().find(|at| delta.is_char_boundary(*at)).unwrap_or(0);
                text.push_str(delta.get(..room).unwrap_or_default());
            }
            BlockEvent::LaneClosed { lane, .. } => drop(self.0.remove(&lane.id)),
            _ => {}
        }
    }

    /// Fills the collected text of a lane into its empty result.
    pub(super) fn write(&mut self, lane: &LaneId, result: &mut ToolCallResult) {
        let Some((_, text)) = self.0.remove(lane) else { return };
        let is_error = result.base.metadata().is_some_and(|metadata| metadata.contains_key(META_IS_ERROR));
        if let Content::Text(content) = &mut result.content {
            if content.is_empty() {
                *content = ByteString::from(text);
            } else if is_error {
                *content = ByteString::from(format!("{text}{GAP}{content}"));
            }
        }
    }
}

//! Continues a run that another machine started: restores the state of a [`StreamContext`] from the emitted events.
//!
//! The events do not contain all state. Lost are: arguments of a tool call whose name has not arrived, the source's own name
//! of a step that was emitted under another name, which of several usage reports replaced which, and a finish reason that
//! arrived before the end.

use std::sync::Arc;

use super::{Limits, StreamContext};
use crate::event::{BlockEvent, CustomEvent, SpanKind};
use crate::run::RunInfo;
use crate::update::Mode;
use crate::wellknown;

impl StreamContext {
    /// Returns the context of a run that another machine started. Pass all events of the run to
    /// [`handle_past`](Self::handle_past) before any other input. Afterwards open blocks are open, emitted content is
    /// known, and no id is used again. A run without events starts here.
    pub fn resuming(run: RunInfo, limits: Limits) -> Self {
        Self::with_limits(run, limits)
    }

    /// Restores the state after an event that the run already emitted.
    pub fn handle_past(&mut self, event: &BlockEvent) {
        self.mark_ids_used(event);
        match event {
            BlockEvent::RunStarted(run) => self.run = Arc::clone(run),
            BlockEvent::LaneOpened(lane) => self.lanes.enter(Arc::clone(lane), &mut self.out),
            BlockEvent::LaneClosed { lane, outcome } => {
                self.lanes.close(&lane.source, (**outcome).clone(), &mut self.out);
            }
            BlockEvent::Usage { lane, usage } => {
                let max = self.out.limits.usage_accounts;
                self.usage.book(&lane.source, None, Mode::Append, usage, max);
            }
            BlockEvent::InterruptRequested(pending) => {
                // The interrupt was within the limits when it was emitted.
                self.interrupts.add((**pending).clone(), usize::MAX).ok();
            }
            BlockEvent::RunFinished(_) | BlockEvent::RunFailed(_) => self.ended = true,
            event => self.restore_content(event),
        }
        self.out.discard();
    }

    /// Restores the state of the lane that an event belongs to.
    fn restore_content(&mut self, event: &BlockEvent) {
        let Some((_, state)) = event.lane().and_then(|lane| self.lanes.open_mut(&lane.source)) else {
            return;
        };
        match event {
            BlockEvent::StepStarted { name, .. } => state.steps.restore_start(name),
            BlockEvent::StepFinished { name, .. } => state.steps.restore_finish(name),
            BlockEvent::ToolResult(result) => {
                if let Some(message) = state.tools.message_by_call(&result.call_id) {
                    state.texts.record_answer(message);
                }
                state.tools.restore_result(result, &self.out);
            }
            BlockEvent::Custom(custom) if is_card(custom) => {
                if let Some(message) = &custom.origin.message_id {
                    let max = self.out.limits.remembered_blocks;
                    state.activities.insert(message.clone(), custom.id.clone(), max);
                }
            }
            event => match event.block().map(|block| block.kind) {
                Some(SpanKind::ToolUse) => {
                    if let BlockEvent::BlockStarted(head) = event {
                        state.texts.restore_parent(head, &self.out);
                    }
                    state.tools.restore(event, &mut self.out);
                }
                Some(SpanKind::Text | SpanKind::Thinking) => state.texts.restore(event, &mut self.out),
                None => {}
            },
        }
    }

    /// Marks the ids of an event as used.
    fn mark_ids_used(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::BlockStarted(block) => {
                self.note_id(block.id.as_str());
                block.parent.iter().for_each(|parent| self.note_id(parent.as_str()));
            }
            BlockEvent::LaneOpened(lane) => self.out.skip(lane.id.as_str()),
            BlockEvent::ToolResult(result) => self.note_id(result.id.as_str()),
            BlockEvent::Custom(custom) => self.note_id(custom.id.as_str()),
            BlockEvent::InterruptRequested(pending) => self.out.skip(pending.interrupt.id.as_str()),
            _ => {}
        }
    }

    fn note_id(&mut self, id: &str) {
        self.out.skip(id);
        if !self.out.is_minted(id) {
            self.out.take(id);
        }
    }
}

fn is_card(custom: &CustomEvent) -> bool {
    matches!(&*custom.name, wellknown::ACTIVITY | wellknown::ACTIVITY_DELTA)
}

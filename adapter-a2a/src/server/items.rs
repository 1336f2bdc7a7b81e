//! [`Items`]: converts canonical events into the items of one task's stream, for the recorder or one watcher. A clone
//! continues where the original stood: that is how a watcher starts at a snapshot and sees what the recorder sees.

use std::sync::Arc;

use aqueduct_core::event::RunFailed;
use aqueduct_core::{BlockEvent, BlockHead, Channel, RunFailure, RunId, RunInfo, SpanKind};

use super::chunk::{Chunk, LastBlock, chunk_of};
use super::config::ServerConfig;
use crate::config::Settings;
use crate::convert::converters;
use crate::encode::ItemWriter;
use crate::wire::{StatusUpdate, StreamItem, TaskState, TaskStatus, Text};

/// Converts events into items.
#[derive(Debug, Clone)]
pub(super) struct Items {
    writer: ItemWriter,
    /// The block of the last chunk, whose surroundings are reused.
    last: Option<LastBlock>,
    task_id: Arc<str>,
    context_id: Arc<str>,
    /// Set to drop what sub-agents do beside the answer.
    hides_subagents: bool,
}

impl Items {
    /// Returns a converter for a turn, with the view that the settings of the server choose.
    pub(super) fn new(config: &ServerConfig, task_id: &str, context_id: &str) -> Self {
        let mut settings = Settings::new(task_id.to_owned(), context_id.to_owned());
        settings.intermediate = config.intermediate;
        settings.thinking = config.thinking;
        settings.signals = config.signals;
        settings.notes = config.notes;
        let writer = ItemWriter::new(converters(&settings), settings.notes);
        let hides_subagents = !config.subagents;
        Self { writer, last: None, task_id: task_id.into(), context_id: context_id.into(), hides_subagents }
    }

    /// Returns the chunk of a piece of the answer. Every other event has items ([`Self::convert`]).
    pub(super) fn chunk(&mut self, event: &BlockEvent) -> Option<Chunk> {
        chunk_of(event, &mut self.last, &mut self.writer)
    }

    /// Appends the items of `event`. The task itself was sent before the run started, so the start of a run is a change
    /// of its state.
    pub(super) fn convert(&mut self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        if matches!(event, BlockEvent::RunStarted(_)) {
            out.push(StreamItem::Status(self.status(TaskState::Working)));
        } else if !(self.hides_subagents && is_of_subagent(event)) {
            self.writer.handle_event(event, out);
        }
    }

    /// Returns a status without a message.
    pub(super) fn status(&self, state: TaskState<'static>) -> StatusUpdate<'static> {
        let is_final = !matches!(state, TaskState::Working | TaskState::Submitted);
        StatusUpdate {
            task_id: Text::from(self.task_id.to_string()),
            context_id: Text::from(self.context_id.to_string()),
            status: TaskStatus { state, ..TaskStatus::default() },
            is_final,
            ..StatusUpdate::default()
        }
    }

    /// Returns the end of a run that the service lost.
    pub(super) fn lost(&self, run: &RunId) -> BlockEvent {
        let words = "the run was lost before it ended: what there is of its answer may be incomplete";
        let run = Arc::new(RunInfo::new(self.context_id.to_string(), run.as_bytes().clone()));
        let failure = RunFailure::new(RunFailure::UPSTREAM_ENDED, words);
        BlockEvent::RunFailed(Box::new(RunFailed::new(run, failure)))
    }
}

/// Returns `true` for events of a sub-agent that do not concern the whole task.
fn is_of_subagent(event: &BlockEvent) -> bool {
    let is_answer = |block: &BlockHead| block.kind == SpanKind::Text && block.channel == Channel::Answer;
    let concerns_all = match event {
        BlockEvent::StateSnapshot { .. }
        | BlockEvent::StateDelta { .. }
        | BlockEvent::InterruptRequested(_) => true,
        event => event.block().is_some_and(|block| is_answer(block)),
    };
    !concerns_all && event.lane().is_some_and(|lane| !lane.is_root())
}

//! The context of a run that has just started, and the ids that it may use.

use std::sync::Arc;

use super::lanes::LaneTable;
use super::outlet::Outlet;
use super::pending::PendingInterrupts;
use super::{Limits, StreamContext};
use crate::event::BlockEvent;
use crate::id::{LaneId, RunId, ToolCallId};
use crate::run::RunInfo;
use crate::usage_sum::UsageSum;

impl StreamContext {
    /// Returns the context of a run that has just started, with default limits.
    pub fn new(run: RunInfo) -> Self {
        Self::with_limits(run, Limits::default())
    }

    /// Returns the context of a run that has just started.
    pub fn with_limits(run: RunInfo, limits: Limits) -> Self {
        let mut out = Outlet::new(&run.run_id, limits);
        let run = Arc::new(run);
        out.emit(BlockEvent::RunStarted(Arc::clone(&run)));
        let root_id = LaneId::new(out.mint());
        Self {
            run,
            lanes: LaneTable::new(root_id),
            interrupts: PendingInterrupts::default(),
            usage: UsageSum::default(),
            finish_reason: None,
            out,
            ended: false,
        }
    }

    /// Emits the run under `id`, while ids of blocks and lanes are still derived from the run's own id. For a run that a
    /// client started under the id of an earlier run of the thread.
    pub fn with_shown_id(mut self, id: RunId) -> Self {
        self.run = Arc::new(RunInfo { run_id: id, ..RunInfo::clone(&self.run) });
        self.out.discard();
        self.out.emit(BlockEvent::RunStarted(Arc::clone(&self.run)));
        self
    }

    /// Declares tool calls of earlier runs of the thread: a result for one of them needs no call in this run, and no call of
    /// this run is emitted under such an id.
    pub fn with_known_calls<'a>(mut self, calls: impl IntoIterator<Item = &'a ToolCallId>) -> Self {
        calls.into_iter().for_each(|call| self.out.know_call(call));
        self
    }

    /// Emits the source's message ids as block ids wherever they are unique in the thread; other blocks get minted
    /// ids as before. For sources whose protocol makes message ids unique in a thread and that merge the history by
    /// them (AG-UI): the ids that a frontend sends back are then the source's own.
    ///
    /// `known` are the message ids that the thread already contains: those of the input, and those of the thread's earlier
    /// runs where the input does not carry the whole history.
    pub fn with_kept_ids<'a>(mut self, known: impl IntoIterator<Item = &'a str>) -> Self {
        known.into_iter().for_each(|id| self.out.take(id));
        self.out.keep_messages();
        self
    }
}

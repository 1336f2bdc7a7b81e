//! The end of a run: ends of all open blocks and lanes, then the terminal event, then no further event.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use super::StreamContext;
use crate::event::{BlockEvent, RunFailed, RunFinished};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome};
use crate::source::Source;

impl StreamContext {
    /// Finishes the run. A run with open interrupts is interrupted, even if its source reports success.
    pub(super) fn finish(&mut self, outcome: RunOutcome, result: Option<Value>) {
        if self.ended {
            return;
        }
        let outcome = match outcome {
            RunOutcome::Success if !self.interrupts.is_empty() => RunOutcome::Interrupted,
            other => other,
        };
        if outcome == RunOutcome::Interrupted && self.interrupts.is_empty() {
            self.request_input();
        }
        let (lanes, interrupts) = match outcome {
            RunOutcome::Success => (LaneOutcome::Success(None), Vec::new()),
            RunOutcome::Interrupted => (LaneOutcome::Suspended, self.interrupts.take()),
            RunOutcome::Cancelled => (LaneOutcome::Cancelled, Vec::new()),
        };
        self.lanes.close_all(&lanes, &mut self.out);
        let finished = RunFinished {
            run: Arc::clone(&self.run),
            outcome,
            result,
            interrupts,
            pending_calls: self.lanes.pending_calls(),
            usage: self.usage.totals(),
            finish_reason: self.finish_reason.take(),
        };
        self.out.emit(BlockEvent::RunFinished(Box::new(finished)));
        self.ended = true;
    }

    /// Requests any input: a source that waits without naming an interrupt still needs one that can be replied to.
    fn request_input(&mut self) {
        let interrupt = Interrupt::new(self.out.mint(), ByteString::from_static("input_required"));
        // The root lane is always open and no interrupt is pending, so no limit can be exceeded.
        if let Err(error) = self.request_interrupt(&Source::root(), interrupt) {
            debug_assert!(false, "refused: {error}");
        }
    }

    /// Closes all lanes as failed, then emits the terminal event. Does nothing if the run has ended.
    pub(super) fn fail(&mut self, failure: RunFailure) {
        if self.ended {
            return;
        }
        self.lanes.close_all(&LaneOutcome::Failed(failure.clone()), &mut self.out);
        let usage = self.usage.totals();
        let failed = RunFailed { run: Arc::clone(&self.run), failure, usage };
        self.out.emit(BlockEvent::RunFailed(Box::new(failed)));
        self.ended = true;
    }
}

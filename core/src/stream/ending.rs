//! The end of a run: all ends, then the terminal event, then nothing.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use super::StreamContext;
use crate::event::{BlockEvent, RunFailed, RunFinished};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome};
use crate::source::Source;

impl StreamContext {
    /// A run that waits for a human is interrupted, whatever word its source has for it.
    pub(super) fn finish(&mut self, outcome: RunOutcome, result: Option<Value>) {
        if self.ended {
            return;
        }
        let outcome = match outcome {
            RunOutcome::Success if !self.questions.is_empty() => RunOutcome::Interrupted,
            other => other,
        };
        if outcome == RunOutcome::Interrupted && self.questions.is_empty() {
            self.ask_anything();
        }
        let (lanes, interrupts) = match outcome {
            RunOutcome::Success => (LaneOutcome::Success(None), Vec::new()),
            RunOutcome::Interrupted => (LaneOutcome::Suspended, self.questions.take()),
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

    /// A source that waits without saying for what: there must be something to answer.
    fn ask_anything(&mut self) {
        let interrupt = Interrupt::new(self.out.mint(), ByteString::from_static("input_required"));
        // The root lane is always open and no question is pending, so nothing can be refused.
        if let Err(error) = self.interrupt(&Source::root(), interrupt) {
            debug_assert!(false, "refused: {error}");
        }
    }

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

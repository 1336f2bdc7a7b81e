//! [`OpenInterrupts`]: the interrupts of a thread that wait for a reply.
//!
//! ```text
//!                 RunFinished with interrupts
//!   nothing open ─────────────────────────────► open ──┐ RunFailed without content: still open, once
//!        ▲                                       │ ▲────┘
//!        └── RunFinished without, RunFailed ─────┘
//! ```
//!
//! This module neither reads the thread's events from a log nor decides which of several simultaneous replies counts.

use crate::event::{BlockEvent, PendingInterrupt};
use crate::run::Interrupt;

/// The interrupts of a thread that wait for a reply, folded from its events.
#[derive(Debug, Clone, Default)]
pub struct OpenInterrupts {
    open: Vec<PendingInterrupt>,
    /// Set if the current run has emitted content, which proves that its agent received the replies.
    has_content: bool,
    /// Set if a run has already failed on the open interrupts.
    has_failed: bool,
}

impl OpenInterrupts {
    /// Adds the next event of the thread. Events of all its runs are expected, oldest first.
    pub fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::RunStarted(_) => self.has_content = false,
            BlockEvent::RunFinished(finished) => {
                self.open.clone_from(&finished.interrupts);
                self.has_failed = false;
            }
            // A run that failed before its agent emitted content leaves the interrupts open once; a second failure closes them.
            BlockEvent::RunFailed(_) if self.has_content || std::mem::replace(&mut self.has_failed, true) => {
                self.open.clear();
            }
            BlockEvent::BlockStarted(_) | BlockEvent::ToolResult(_) | BlockEvent::LaneOpened(_) => {
                self.has_content = true;
            }
            _ => {}
        }
    }

    /// Returns the interrupts that wait for a reply.
    pub fn open(&self) -> impl Iterator<Item = &Interrupt> {
        self.open.iter().map(|pending| &pending.interrupt)
    }

    /// Returns `true` if a run has failed on the open interrupts before its agent did anything.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns `true` if no interrupt waits.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunFailure, RunInfo, RunOutcome};
    use crate::source::Source;
    use crate::stream::StreamContext;
    use crate::update::{SourceEvent, Update};

    fn run(open: &mut OpenInterrupts, events: Vec<SourceEvent>) {
        let mut context = StreamContext::new(RunInfo::new("t", "r"));
        for event in events {
            context.handle_event(event).unwrap();
        }
        std::iter::from_fn(|| context.poll_event()).for_each(|event| open.handle_event(&event));
    }

    #[test]
    fn interrupts_stay_open_until_an_agent_has_taken_the_reply() {
        let ask = || {
            let interrupt = Interrupt::new("i", "x");
            let asked =
                SourceEvent::InterruptRequested { source: Source::root(), interrupt: Box::new(interrupt) };
            vec![asked, SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None }]
        };
        let fail = || SourceEvent::Failed(RunFailure::new("unreachable", "no"));
        let mut open = OpenInterrupts::default();
        run(&mut open, ask());
        assert_eq!(open.open().count(), 1);
        run(&mut open, vec![fail()]);
        assert!(!open.is_empty(), "the reply never arrived");
        run(&mut open, vec![fail()]);
        assert!(
            open.is_empty(),
            "a second failure closes the interrupts, so the thread takes messages again"
        );
        run(&mut open, ask());
        run(&mut open, vec![Update::text("Go").into(), fail()]);
        assert!(open.is_empty(), "the agent went on");
        run(&mut open, ask());
        run(&mut open, vec![SourceEvent::Finished { outcome: RunOutcome::Success, result: None }]);
        assert!(open.is_empty());
    }
}

//! The verifier: whether a client would accept a stream, and whether it would lose content without noticing.
//!
//! [`Verifier`] is a pure machine over wire events. [`TextVerifier`] takes bytes and checks what typed events no longer show:
//! `null` for absent members, CR LF framing, frames that are not JSON.
//!
//! ```text
//!                      anything but RUN_STARTED: `first-event`, `after-finish`, `after-error`
//!                ┌──────────────────────────────────────────────────────────────┐
//!                ▼                                                              │
//!   new ──RUN_STARTED──► active ──RUN_FINISHED──► finished ──RUN_STARTED──► active (afresh)
//!    │                    │  ▲                       │
//!    │                    │  └─ events of the run    │ RUN_ERROR
//!    └──────RUN_ERROR─────┴──────────────────────────┴──► errored ──RUN_STARTED──► active (afresh)
//!
//!   text, reasoning, span, call:   (absent) ──START──► open ──CONTENT/ARGS──► open ──END──► closed ──START──► open
//!   step, by agent and name:       (absent) ──STARTED──► open ──FINISHED──► (absent)
//!   sub-agent:                     (absent) ──STARTED──► active ──FINISHED/ERROR──► ended, for this run
//! ```
//!
//! `RUN_FINISHED` requires that everything is closed; `RUN_ERROR` does not. All events may interleave. Each violation has the
//! event, the [`Rule`], the defect and the remedy. After a violation of [`Severity::Rejected`] a client of the dialect
//! rejects the stream; after one of [`Severity::Unnoticed`] it continues, and content is lost or wrong.
//!
//! The verifier continues after a violation. It does not repair anything.

mod order;
mod rule;
pub(crate) mod schema;
mod text;
mod thread;

#[cfg(test)]
mod tests;

pub use rule::{Level, Rule, Severity, Violation};
pub use text::{SseFrame, SseSplitter, TextVerifier, verify_json_lines, verify_sse};

use crate::chunks::ChunkExpander;
use crate::config::Dialect;
use crate::wire::{Event, Message};
use order::Order;
use rule::Report;
use thread::Thread;

/// Verifies a stream of events, run after run.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::config::Dialect;
/// use aqueduct_adapter_agui::verify::{Level, verify_json_lines};
///
/// let violations = verify_json_lines(r#"{"type":"STEP_STARTED","stepName":"plan"}"#, Dialect::V1_0, Level::Client);
/// assert_eq!(violations[0].rule.id(), "first-event");
/// ```
#[derive(Debug)]
pub struct Verifier {
    dialect: Dialect,
    chunks: ChunkExpander,
    order: Order,
    thread: Thread,
    report: Report,
    next: usize,
}

impl Verifier {
    /// Returns a verifier with the rules of a client of that dialect.
    pub fn new(dialect: Dialect, level: Level) -> Self {
        Self {
            dialect,
            chunks: ChunkExpander::new(dialect),
            order: Order::new(dialect),
            thread: Thread::default(),
            report: Report::new(level),
            next: 0,
        }
    }

    /// Declares the thread's history: its ids are in use, and its tool calls may get results.
    pub fn with_history<'a>(mut self, messages: impl IntoIterator<Item = &'a Message>) -> Self {
        messages.into_iter().for_each(|message| self.thread.seed(message));
        self
    }

    /// Verifies the next event.
    pub fn handle_event(&mut self, event: &Event) {
        self.begin(event.kind());
        schema::check(event, self.dialect, &mut self.report);
        self.follow(event);
    }

    /// Handles the end of the stream.
    pub fn handle_end(&mut self) {
        self.begin("");
        self.next -= 1;
        self.thread.end(&self.order, &mut self.report);
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> &[Violation] {
        self.report.violations()
    }

    /// Removes and returns the violations so far.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        self.report.take()
    }

    /// Returns `true` if a client of the dialect would have rejected the stream by now.
    pub fn is_rejected(&self) -> bool {
        self.violations().iter().any(|violation| violation.severity == Severity::Rejected)
    }

    fn begin(&mut self, kind: &str) {
        self.report.index = self.next;
        kind.clone_into(&mut self.report.event);
        self.next += 1;
    }

    fn follow(&mut self, event: &Event) {
        // A client drops unknown events, so they are not verified further.
        if matches!(event, Event::Unknown { kind, .. } if !schema::THINKING.contains(&&**kind)) {
            return;
        }
        if self.chunks.passes(event) {
            self.thread.handle(event, &self.order, &mut self.report);
            self.order.handle(event, &mut self.report);
            return;
        }
        let mut expanded = Vec::new();
        if let Err(error) = self.chunks.handle_event(event.clone(), &mut expanded) {
            self.report.rejected(Rule::Chunk, error.to_string());
        }
        for event in &expanded {
            self.thread.handle(event, &self.order, &mut self.report);
            self.order.handle(event, &mut self.report);
        }
    }
}

/// Verifies a whole stream of events.
pub fn verify(events: &[Event], dialect: Dialect, level: Level) -> Vec<Violation> {
    let mut verifier = Verifier::new(dialect, level);
    for event in events {
        verifier.handle_event(event);
    }
    verifier.handle_end();
    verifier.take_violations()
}

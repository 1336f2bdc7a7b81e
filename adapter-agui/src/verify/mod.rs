//! The verifier: would a client take this stream, and would it lose something without noticing?
//!
//! A pure machine over wire events ([`Verifier`]), and a front end that takes bytes ([`TextVerifier`]), which sees
//! what typed events no longer show: `null` for absent, CR LF framing, frames that are no JSON.
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
//! `RUN_FINISHED` needs everything closed; `RUN_ERROR` does not. Everything may interleave. Each violation names the
//! event, the [`Rule`], what is wrong and what to do. A [`Severity::Rejected`] one makes a client of the dialect
//! reject the stream; after a [`Severity::Unnoticed`] one it goes on, and something is lost or wrong.
//!
//! The verifier goes on after a violation. It does not repair anything.

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
    /// A verifier that stands in for a client of that dialect.
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

    /// Declares the thread's history: its ids are taken, and its tool calls may be answered.
    pub fn with_history<'a>(mut self, messages: impl IntoIterator<Item = &'a Message>) -> Self {
        messages.into_iter().for_each(|message| self.thread.seed(message));
        self
    }

    /// Takes the next event.
    pub fn handle_event(&mut self, event: &Event) {
        self.begin(event.kind());
        schema::check(event, self.dialect, &mut self.report);
        self.follow(event);
    }

    /// The stream is over.
    pub fn handle_end(&mut self) {
        self.begin("");
        self.next -= 1;
        self.thread.end(&self.order, &mut self.report);
    }

    /// What was found so far.
    pub fn violations(&self) -> &[Violation] {
        self.report.violations()
    }

    /// Takes out what was found so far.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        self.report.take()
    }

    /// True if a client of the dialect would have rejected the stream by now.
    pub fn is_rejected(&self) -> bool {
        self.violations().iter().any(|violation| violation.severity == Severity::Rejected)
    }

    fn begin(&mut self, kind: &str) {
        self.report.index = self.next;
        kind.clone_into(&mut self.report.event);
        self.next += 1;
    }

    fn follow(&mut self, event: &Event) {
        // What no rule knows is not looked at further: a client drops it.
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

//! The state of one run: who speaks, what was said, what waits, and how it ends.
//!
//! ```text
//!              any event                        IDLE, no request pending ──► Finished(Success)
//!   (before) ───────────► running ── status ──► IDLE with requests ────────► Finished(Interrupted)
//!                            │                  CANCELLED ─────────────────► Finished(Cancelled)
//!                            └─ FAILED ──► failing ── exception, other line, end of input ──► Failed
//! ```
//!
//! The failure waits for one more line because the framework's events hold only the class of the exception; its
//! text leaves `run()` as an exception, which the forwarder writes as the next line.
//!
//! Invariants: one terminal event per run, and nothing after it; a success without any output says so.

use std::collections::{HashMap, VecDeque};

use aqueduct_core::accumulator::Accumulator;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent,
    ToolCallId, Update, wellknown,
};
use serde_json::{Value, json};

use super::failure::failure;
use super::said::Said;
use super::sources::Sources;
use super::usage::Spending;
use crate::config::Limits;
use crate::reply::Request;
use crate::wire::ErrorDetails;

/// Where a run stands.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// No event has come.
    #[default]
    Before,
    /// It runs.
    Running,
    /// It has failed, and the reason may still come.
    Failing(RunFailure),
    /// It has ended.
    Ended,
}

/// A request to a human: who asks, what was told of it, and how it is answered.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) source: Source,
    pub(super) interrupt: Interrupt,
    pub(super) request: Request,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) phase: Phase,
    pub(super) sources: Sources,
    pub(super) said: Said,
    /// What agents have thought. Thoughts have no channel: an aggregate repeats them on another.
    pub(super) thoughts: Said,
    pub(super) spending: Spending,
    /// The response each agent is in, by path.
    pub(super) responses: HashMap<String, ByteString, foldhash::fast::FixedState>,
    /// True once something was told on the answer channel.
    pub(super) produced: bool,
    /// True once an update of `as_agent()` was read: then its final response adds nothing.
    pub(super) streamed: bool,
    /// Agents of `as_agent()` that have said why they stopped: their lanes end when somebody else speaks.
    pub(super) stopped: Vec<Source>,
    /// Executors whose turn has begun, as steps.
    pub(super) turns: Vec<ByteString>,
    /// Executors that wait for a human.
    pub(super) waiting: Vec<ByteString>,
    /// Requests that this run has made and that nobody has answered.
    pub(super) requests: Vec<Asked>,
    /// Requests of earlier runs that nobody is known to have answered, oldest first.
    pub(super) earlier: VecDeque<Asked>,
    pub(super) failure: Option<RunFailure>,
    pub(super) last_plan: Option<String>,
    /// What agents of the older packages say in a turn.
    pub(super) accumulator: Accumulator,
    /// True once a turn was too long to be held.
    pub(super) overfull: bool,
    /// Who made the calls that wait for a result.
    pub(super) calls: HashMap<String, Source, foldhash::fast::FixedState>,
    max_calls: usize,
    pub(super) max_turns: usize,
    pub(super) max_requests: usize,
    out: VecDeque<SourceEvent>,
}

impl Run {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            phase: Phase::Before,
            sources: Sources::new(limits.sources),
            said: Said::new(limits.remembered_messages),
            thoughts: Said::new(limits.remembered_messages),
            spending: Spending::new(limits.sources),
            responses: HashMap::default(),
            produced: false,
            streamed: false,
            stopped: Vec::new(),
            turns: Vec::new(),
            waiting: Vec::new(),
            requests: Vec::new(),
            earlier: VecDeque::new(),
            failure: None,
            last_plan: None,
            accumulator: Accumulator::new(limits.turn_bytes, limits.sources),
            overfull: false,
            calls: HashMap::default(),
            max_calls: limits.remembered_messages,
            max_turns: limits.sources,
            max_requests: limits.pending_requests,
            out: VecDeque::new(),
        }
    }

    /// The run after this one, with what of this one matters to it: events that nobody has polled, requests that
    /// can still be answered.
    pub(super) fn next(&mut self, limits: &Limits) -> Self {
        let mut next = Self::new(limits);
        next.out = std::mem::take(&mut self.out);
        next.earlier = std::mem::take(&mut self.earlier);
        next.earlier.extend(self.requests.drain(..));
        while next.earlier.len() > limits.pending_requests {
            next.earlier.pop_front();
        }
        next
    }

    /// An executor waits for a human.
    pub(super) fn wait(&mut self, executor: &str) {
        let known = self.waiting.iter().any(|waiting| **waiting == *executor);
        if !known && self.waiting.len() < self.max_turns {
            self.waiting.push(ByteString::from(executor));
        }
    }

    /// A request was answered.
    pub(super) fn forget_request(&mut self, id: &str) {
        self.earlier.retain(|asked| asked.request.id != id);
        self.requests.retain(|asked| asked.request.id != id);
    }

    pub(super) fn emit(&mut self, event: SourceEvent) {
        if matches!(self.phase, Phase::Before) {
            self.phase = Phase::Running;
        }
        self.out.push_back(event);
    }

    pub(super) fn poll(&mut self) -> Option<SourceEvent> {
        self.out.pop_front()
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// A custom block on the way to the answer.
    pub(super) fn custom(&mut self, source: &Source, name: impl Into<ByteString>, value: Value) {
        let block = ContentBlock::custom(name, value);
        self.emit(Update::new(block).from_source(source).intermediate().into());
    }

    /// Words beside the answer.
    pub(super) fn notice(&mut self, source: &Source, level: &str, text: &str) {
        self.custom(source, wellknown::NOTICE, json!({"text": text, "level": level}));
    }

    /// A structured output.
    pub(super) fn data(&mut self, source: &Source, channel: Channel, value: Value) {
        let mut update = Update::new(ContentBlock::custom(wellknown::DATA, value)).from_source(source);
        update.channel = channel;
        self.produced |= channel == Channel::Answer;
        self.emit(update.into());
    }

    /// Input that no rule knows.
    pub(super) fn raw(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        self.custom(&Source::root(), wellknown::RAW, json!({"event": event, "source": "magentic"}));
    }

    pub(super) fn step_started(&mut self, name: ByteString) {
        self.emit(SourceEvent::StepStarted { source: Source::root(), name });
    }

    pub(super) fn step_finished(&mut self, name: ByteString) {
        self.emit(SourceEvent::StepFinished { source: Source::root(), name });
    }

    /// Takes note of who made a call: a request about it names another.
    pub(super) fn called(&mut self, call: Option<&ToolCallId>, source: &Source) {
        if let Some(call) = call {
            self.said.call(source, call.as_str());
        }
        if let Some(call) =
            call.filter(|call| self.calls.len() < self.max_calls && !self.calls.contains_key(call.as_str()))
        {
            self.calls.insert(call.as_str().to_owned(), source.clone());
        }
    }

    /// The turn of an executor is over, however.
    pub(super) fn end_turn(&mut self, executor: &str, failure: Option<RunFailure>) {
        if let Some(at) = self.turns.iter().position(|turn| **turn == *executor) {
            let name = self.turns.remove(at);
            self.step_finished(name);
        }
        self.spending.turn_over(executor);
        let Some((source, inside)) = self.sources.turn_over(executor) else { return };
        for source in inside.iter().chain([&source]) {
            if failure.is_none() {
                self.end_unnamed(source);
            }
            self.said.finish_all(source);
            self.thoughts.finish_all(source);
            self.responses.remove(source.path());
        }
        let waits = self.waiting.iter().any(|waiting| **waiting == *executor);
        let outcome = match failure {
            Some(failure) => LaneOutcome::Failed(failure),
            None if waits => LaneOutcome::Suspended,
            None => LaneOutcome::Success(None),
        };
        self.emit(SourceEvent::LaneClosed { source, outcome });
    }

    /// Ends a message without id: nothing else tells it apart from the agent's next one.
    fn end_unnamed(&mut self, source: &Source) {
        for channel in [Channel::Answer, Channel::Intermediate] {
            if self.said.is_open(source, channel, None) {
                let mut end = Update::text("").from_source(source).last();
                end.channel = channel;
                self.emit(end.into());
            }
        }
    }

    /// Closes the lanes of agents that have stopped, but not that of whoever speaks.
    pub(super) fn close_stopped(&mut self, speaker: Option<&Source>) {
        let stopped = std::mem::take(&mut self.stopped);
        let (speaks, gone): (Vec<_>, Vec<_>) =
            stopped.into_iter().partition(|source| Some(source) == speaker);
        self.stopped = speaks;
        for source in gone {
            self.emit(SourceEvent::LaneClosed { source, outcome: LaneOutcome::Success(None) });
        }
    }

    /// The run ended without failing.
    pub(super) fn finish(&mut self, outcome: RunOutcome) {
        if self.is_ended() {
            return;
        }
        self.flush_turns();
        self.close_stopped(None);
        let outcome = if outcome == RunOutcome::Success && !self.requests.is_empty() {
            RunOutcome::Interrupted
        } else {
            outcome
        };
        if outcome == RunOutcome::Interrupted && self.requests.is_empty() {
            // The workflow waits, and this run has asked nothing: it still waits for what an earlier run asked.
            for Asked { source, interrupt, .. } in self.earlier.clone() {
                self.emit(SourceEvent::InterruptRequested { source, interrupt });
            }
        }
        if outcome == RunOutcome::Success && !self.produced {
            self.notice(&Source::root(), "info", "the workflow finished without an output");
        }
        self.emit(SourceEvent::Finished { outcome, result: None });
        self.phase = Phase::Ended;
    }

    /// The run failed; its reason may follow.
    pub(super) fn start_failing(&mut self) {
        let failure = self.failure.take().unwrap_or_else(|| {
            RunFailure::new(RunFailure::AGENT_FAILED, "the workflow failed and did not say why")
        });
        self.phase = Phase::Failing(failure);
    }

    /// Tells the failure that waits for its reason.
    pub(super) fn fail(&mut self, failure: RunFailure) {
        if self.is_ended() {
            return;
        }
        self.flush_turns();
        self.close_stopped(None);
        self.emit(SourceEvent::Failed(failure));
        self.phase = Phase::Ended;
    }

    /// Takes note of what the framework reveals of an error.
    pub(super) fn note_failure(&mut self, executor: Option<&str>, details: Option<&ErrorDetails<'_>>) {
        let failure = failure(executor, details);
        // The first word is that of the executor that failed; the workflow's own repeats it without the name.
        self.failure.get_or_insert(failure);
    }
}

//! The state of one run: sources, dedup index, pending requests, and its end.
//!
//! ```text
//!              any event                        IDLE, no request pending ──► Finished(Success)
//!   (before) ───────────► running ── status ──► IDLE with requests ────────► Finished(Interrupted)
//!                            │                  CANCELLED ─────────────────► Finished(Cancelled)
//!                            └─ FAILED ──► failing ── exception, other line, end of input ──► Failed
//! ```
//!
//! A failure waits for one more line, because the framework's events contain only the class of the exception. Its text is
//! in the exception that `run()` raises, which the forwarder writes as the next line.
//!
//! Invariants: one terminal event per run, and no event after it; a success without output is reported by a notice.

use std::collections::{HashMap, VecDeque};

use aqueduct_core::accumulator::Accumulator;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent,
    ToolCallId, Update, wellknown,
};
use serde_json::{Value, json};

use super::failure::failure;
use super::history::History;
use super::sources::Sources;
use super::usage::Spending;
use crate::config::Limits;
use crate::reply::Request;
use crate::wire::ErrorDetails;

/// The phase of a run.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// No event has arrived.
    #[default]
    Before,
    /// The run is in progress.
    Running,
    /// The run has failed, and the reason may still arrive.
    Failing(RunFailure),
    /// The run has ended.
    Ended,
}

/// A pending request to a human: its source, its interrupt, and the form of its reply.
#[derive(Debug, Clone)]
pub(super) struct PendingRequest {
    pub(super) source: Source,
    pub(super) interrupt: Interrupt,
    pub(super) request: Request,
}

/// The state of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) phase: Phase,
    pub(super) sources: Sources,
    pub(super) history: History,
    /// The dedup index of thinking. It ignores the channel, because an aggregate repeats thinking on another channel.
    pub(super) thoughts: History,
    /// The usage that was reported so far.
    pub(super) spending: Spending,
    /// The current response id of each agent, by path.
    pub(super) responses: HashMap<String, ByteString, foldhash::fast::FixedState>,
    /// Set once content was emitted on the answer channel.
    pub(super) produced: bool,
    /// Set once an update of `as_agent()` was decoded: its final response then adds nothing.
    pub(super) streamed: bool,
    /// Agents of `as_agent()` with a finish reason: their lanes close at the next update of another agent.
    pub(super) stopped: Vec<Source>,
    /// Executors with an open turn, as steps.
    pub(super) turns: Vec<ByteString>,
    /// Executors that wait for a human.
    pub(super) waiting: Vec<ByteString>,
    /// Requests of this run without reply.
    pub(super) requests: Vec<PendingRequest>,
    /// Requests of earlier runs without known reply, oldest first.
    pub(super) earlier: VecDeque<PendingRequest>,
    /// The first failure that the framework reported, until the run fails.
    pub(super) failure: Option<RunFailure>,
    pub(super) last_plan: Option<String>,
    /// The texts of open turns, for the older Magentic classes.
    pub(super) accumulator: Accumulator,
    /// Set once the text of a turn exceeded the limit of the accumulator.
    pub(super) is_turn_too_long: bool,
    /// The sources of calls that wait for a result.
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
            history: History::new(limits.remembered_messages),
            thoughts: History::new(limits.remembered_messages),
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
            is_turn_too_long: false,
            calls: HashMap::default(),
            max_calls: limits.remembered_messages,
            max_turns: limits.sources,
            max_requests: limits.pending_requests,
            out: VecDeque::new(),
        }
    }

    /// Returns the state of the next run. Takes over the events that were not polled yet and the pending requests.
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

    /// Records that an executor waits for a human.
    pub(super) fn record_waiting(&mut self, executor: &str) {
        let known = self.waiting.iter().any(|waiting| **waiting == *executor);
        if !known && self.waiting.len() < self.max_turns {
            self.waiting.push(ByteString::from(executor));
        }
    }

    /// Removes a pending request, because a reply to it was delivered.
    pub(super) fn remove_request(&mut self, id: &str) {
        self.earlier.retain(|pending| pending.request.id != id);
        self.requests.retain(|pending| pending.request.id != id);
    }

    /// Queues an event. The first event starts the run.
    pub(super) fn emit(&mut self, event: SourceEvent) {
        if matches!(self.phase, Phase::Before) {
            self.phase = Phase::Running;
        }
        self.out.push_back(event);
    }

    /// Returns the next event. Returns `None` until more lines arrive.
    pub(super) fn poll(&mut self) -> Option<SourceEvent> {
        self.out.pop_front()
    }

    /// Returns `true` after the terminal event. Later lines belong to the next run, or are counted as late.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Emits a custom block on the intermediate channel.
    pub(super) fn custom(&mut self, source: &Source, name: impl Into<ByteString>, value: Value) {
        let block = ContentBlock::custom(name, value);
        self.emit(Update::new(block).from_source(source).intermediate().into());
    }

    /// Emits a notice: a text for people that is not part of the answer.
    pub(super) fn notice(&mut self, source: &Source, level: &str, text: &str) {
        self.custom(source, wellknown::NOTICE, json!({"text": text, "level": level}));
    }

    /// Emits a structured output.
    pub(super) fn data(&mut self, source: &Source, channel: Channel, value: Value) {
        let mut update = Update::new(ContentBlock::custom(wellknown::DATA, value)).from_source(source);
        update.channel = channel;
        self.produced |= channel == Channel::Answer;
        self.emit(update.into());
    }

    /// Emits an unknown line unchanged, as a raw block.
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

    /// Records the source of a call, because a later request about the call may name another source.
    pub(super) fn record_call(&mut self, call: Option<&ToolCallId>, source: &Source) {
        if let Some(call) = call {
            self.history.call(source, call.as_str());
        }
        if let Some(call) =
            call.filter(|call| self.calls.len() < self.max_calls && !self.calls.contains_key(call.as_str()))
        {
            self.calls.insert(call.as_str().to_owned(), source.clone());
        }
    }

    /// Ends the turn of an executor: finishes its step and closes its lane, as failed if `failure` is set.
    pub(super) fn end_turn(&mut self, executor: &str, failure: Option<RunFailure>) {
        if let Some(at) = self.turns.iter().position(|turn| **turn == *executor) {
            let name = self.turns.remove(at);
            self.step_finished(name);
        }
        self.spending.end_turn(executor);
        let Some((source, inside)) = self.sources.lanes_of(executor) else { return };
        for source in inside.iter().chain([&source]) {
            if failure.is_none() {
                self.end_message_without_id(source);
            }
            self.history.finish_all(source);
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

    /// Ends an open message without id, because no id separates it from the agent's next message.
    fn end_message_without_id(&mut self, source: &Source) {
        for channel in [Channel::Answer, Channel::Intermediate] {
            if self.history.is_open(source, channel, None) {
                let mut end = Update::text("").from_source(source).last();
                end.channel = channel;
                self.emit(end.into());
            }
        }
    }

    /// Closes the lanes of agents with a finish reason, except for the lane of `active`.
    pub(super) fn close_stopped(&mut self, active: Option<&Source>) {
        let stopped = std::mem::take(&mut self.stopped);
        let (kept, closed): (Vec<_>, Vec<_>) = stopped.into_iter().partition(|source| Some(source) == active);
        self.stopped = kept;
        for source in closed {
            self.emit(SourceEvent::LaneClosed { source, outcome: LaneOutcome::Success(None) });
        }
    }

    /// Ends the run without failure. A run with pending requests ends as interrupted, even if the workflow reports success.
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
            // The workflow waits although this run has made no request, so it waits for replies to requests of earlier
            // runs.
            for PendingRequest { source, interrupt, .. } in self.earlier.clone() {
                self.emit(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) });
            }
        }
        if outcome == RunOutcome::Success && !self.produced {
            self.notice(&Source::root(), "info", "the workflow finished without an output");
        }
        self.emit(SourceEvent::Finished { outcome, result: None });
        self.phase = Phase::Ended;
    }

    /// Enters [`Phase::Failing`]: the failure is emitted once its reason has arrived, or cannot arrive any more.
    pub(super) fn start_failing(&mut self) {
        let failure = self.failure.take().unwrap_or_else(|| {
            RunFailure::new(RunFailure::AGENT_FAILED, "the workflow failed without giving a reason")
        });
        self.phase = Phase::Failing(failure);
    }

    /// Ends the run as failed.
    pub(super) fn fail(&mut self, failure: RunFailure) {
        if self.is_ended() {
            return;
        }
        self.flush_turns();
        self.close_stopped(None);
        self.emit(SourceEvent::Failed(failure));
        self.phase = Phase::Ended;
    }

    /// Records a failure that the framework reported, unless one is recorded.
    pub(super) fn record_failure(&mut self, executor: Option<&str>, details: Option<&ErrorDetails<'_>>) {
        let failure = failure(executor, details);
        // The first failure names the executor; the failure of the workflow repeats it without the name.
        self.failure.get_or_insert(failure);
    }
}

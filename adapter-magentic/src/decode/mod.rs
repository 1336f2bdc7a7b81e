//! [`Decoder`]: decodes lines into [`SourceEvent`]s.
//!
//! The decoder does no I/O: lines enter by [`handle_line`](Decoder::handle_line), events leave by
//! [`poll_event`](Decoder::poll_event). One decoder serves one conversation: after a terminal event (`Finished`, `Failed`)
//! the next event belongs to the next run.
//!
//! | what | where |
//! |---|---|
//! | order and repetition of lines | `sequence.rs` |
//! | the three generations of events | `workflow.rs`, `agent.rs`, `legacy.rs` |
//! | sources: executors and authors | `sources.rs` |
//! | the dedup index | `history.rs` |
//! | contents, messages, responses | `content.rs`, `update.rs`, `message.rs` |
//! | plans, ledgers, turns, hand-offs | `plan.rs`, `orchestration.rs` |
//! | requests to a human | `request.rs` |
//! | the end of a run, and its failure | `run.rs`, `failure.rs` |

mod agent;
mod content;
mod failure;
mod history;
mod legacy;
mod message;
mod orchestration;
mod plan;
mod request;
mod run;
mod sequence;
mod sources;
mod update;
mod usage;
mod workflow;

use std::collections::VecDeque;
use std::ops::Range;

use aqueduct_core::{ByteString, InterruptReply, Metadata, RunOutcome, Source, SourceEvent, ToolCallId};
use serde_json::Value;

use crate::config::{Config, EndOfInput, Numbering};
use crate::error::Error;
use crate::reply::Reply;
use crate::version::Dialect;
use crate::wire::{Json, Line};
use run::{Phase, Run};
use sequence::{Sequence, Verdict};

/// Counts of lines, and of lines with a problem, for logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Lines that were passed to the decoder.
    pub lines: u64,
    /// Repeated lines, which were dropped.
    pub repeated: u64,
    /// Lines after the end of a run that start no new run, which were dropped.
    pub late: u64,
    /// Lines that are not JSON objects.
    pub unreadable: u64,
    /// Unknown lines, which were emitted as raw custom blocks.
    pub unknown: u64,
    /// Lines that never arrived.
    pub lost: u64,
}

/// Decodes the lines of one conversation.
#[derive(Debug)]
pub struct Decoder {
    config: Config,
    sequence: Sequence,
    run: Run,
    /// Calls of earlier runs that wait for a result.
    calls: VecDeque<ToolCallId>,
    counts: Counts,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Decoder {
    /// Returns a decoder for one conversation.
    pub fn new(config: Config) -> Self {
        Self {
            sequence: Sequence::new(config.limits.held_lines, config.limits.held_bytes),
            run: Run::new(&config.limits),
            config,
            calls: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Decodes the next line, without its line end.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not a JSON object. [`Error::can_continue`] returns `true` if the next line can be decoded.
    pub fn handle_line(&mut self, text: &ByteString) -> Result<(), Error> {
        let number = self.counts.lines;
        self.counts.lines += 1;
        let line = self.parse(text, number)?;
        let restarts = self.run.is_ended() && self.config.numbering == Numbering::Run;
        match self.sequence.verdict(line.seq, restarts) {
            Verdict::Read => self.read(text, &line),
            Verdict::Repeated => self.counts.repeated += 1,
            Verdict::Hold => {
                let lost = line.seq.and_then(|seq| self.sequence.hold(seq, text.clone()));
                self.emit_lost(lost);
            }
        }
        self.read_held()
    }

    /// Handles the end of the input. Decodes held lines, and fails a run whose failure waits for its reason. A run in
    /// progress finishes with [`EndOfInput::Finished`]; otherwise no end is emitted, and the stream machine fails the run.
    ///
    /// # Errors
    ///
    /// Returns an error if a held line cannot be decoded.
    pub fn handle_eof(&mut self) -> Result<(), Error> {
        let lost = self.sequence.give_up();
        self.emit_lost(lost);
        self.read_held()?;
        if let Phase::Failing(failure) = &self.run.phase {
            let failure = failure.clone();
            self.run.fail(failure);
        }
        if self.config.end_of_input == EndOfInput::Finished && matches!(self.run.phase, Phase::Running) {
            self.run.finish(RunOutcome::Success);
        }
        Ok(())
    }

    /// Returns the next event. Returns `None` until more lines are decoded.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.run.poll()
    }

    /// Converts the reply to an interrupt into the framework's form, and removes the pending request.
    ///
    /// # Errors
    ///
    /// Returns an error of [`Fault::Caller`](crate::Fault::Caller) if no request of that id is pending, or the reply has
    /// the wrong form.
    pub fn handle_reply(&mut self, reply: &InterruptReply) -> Result<Reply, Error> {
        let id = reply.id.as_str();
        let unknown = || Error::UnknownRequest { id: id.to_owned() };
        let mut waiting = self.run.earlier.iter().chain(&self.run.requests);
        let pending = waiting.find(|pending| pending.request.id == id).ok_or_else(unknown)?;
        let answer = Reply::new(&pending.request, reply)?;
        self.run.remove_request(id);
        Ok(answer)
    }

    /// Returns the tool calls of earlier runs without result, for example calls that wait for an approval. In a later run
    /// their results are emitted without a call.
    pub fn waiting_calls(&self) -> impl Iterator<Item = &ToolCallId> {
        self.calls.iter()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Parses a line. An object whose fields have unexpected types becomes a line without fields, which is
    /// emitted as a raw block.
    ///
    /// # Errors
    ///
    /// Returns an error with the number of the line if it is not a JSON object.
    fn parse<'de>(&mut self, text: &'de ByteString, number: u64) -> Result<Line<'de>, Error> {
        serde_json::from_str(text).or_else(|error| {
            // A field has an unexpected type. The line is still an object: only its number is read.
            if let Ok(fields) = serde_json::from_str::<Metadata>(text) {
                return Ok(Line { seq: fields.get("seq").and_then(Value::as_u64), ..Line::default() });
            }
            self.counts.unreadable += 1;
            Err(Error::NotAnObject { number, reason: error.to_string() })
        })
    }

    /// Handles lines that arrived early and are next in the sequence now.
    fn read_held(&mut self) -> Result<(), Error> {
        while let Some(text) = self.sequence.next_held() {
            // It was parsed when it arrived, so no error can name its number.
            let line = self.parse(&text, self.counts.lines)?;
            if self.sequence.verdict(line.seq, false) == Verdict::Read {
                self.read(&text, &line);
            }
        }
        Ok(())
    }

    /// Decodes one line in order: starts the next run if needed, then dispatches by dialect.
    fn read(&mut self, text: &ByteString, line: &Line<'_>) {
        let dialect = Dialect::of(line);
        if let Phase::Failing(failure) = &self.run.phase
            && dialect != Dialect::Forwarder
        {
            let failure = failure.clone();
            self.run.fail(failure);
        }
        if self.run.is_ended() && !self.start_next(dialect, line) {
            return;
        }
        let known = match dialect {
            Dialect::Workflow => self.run.handle_workflow(text, line),
            Dialect::Agent => self.run.handle_agent(text, line),
            Dialect::Legacy => self.run.handle_legacy(text, line),
            Dialect::Forwarder => {
                self.handle_forwarder(line);
                true
            }
            Dialect::Unknown => false,
        };
        if !known {
            self.counts.unknown += 1;
            self.run.raw(text);
        }
    }

    /// Starts the next run if a line after the end of a run belongs to it. Returns `false` if the line is dropped.
    fn start_next(&mut self, dialect: Dialect, line: &Line<'_>) -> bool {
        let starts = match dialect {
            Dialect::Workflow => {
                matches!(line.kind.as_deref(), Some("started" | "status" | "superstep_started"))
            }
            Dialect::Legacy => {
                matches!(line.event_class.as_deref(), Some("WorkflowStartedEvent" | "WorkflowStatusEvent"))
            }
            Dialect::Agent => true,
            Dialect::Forwarder | Dialect::Unknown => false,
        };
        let ends = line.state.as_deref().is_some_and(|state| !state.contains("PROGRESS"));
        if dialect == Dialect::Forwarder {
            self.remove_answered(line);
            return false;
        }
        if !starts || ends {
            self.counts.late += 1;
            return false;
        }
        self.calls.extend(std::mem::take(&mut self.run.calls).into_keys().map(ToolCallId::from));
        self.run = self.run.next(&self.config.limits);
        while self.calls.len() > self.config.limits.pending_requests {
            self.calls.pop_front();
        }
        true
    }

    /// Handles a line of the forwarder: an exception that ended the workflow, or the replies that it delivered.
    fn handle_forwarder(&mut self, line: &Line<'_>) {
        self.remove_answered(line);
        let Some(class) = line.exception.as_deref() else { return };
        let text = line.message.and_then(Json::text);
        let failure = match std::mem::take(&mut self.run.phase) {
            Phase::Failing(failure) => failure,
            phase => {
                self.run.phase = phase;
                self.run.failure.take().unwrap_or_else(|| failure::failure(None, None))
            }
        };
        let failure = failure::with_exception(failure, class, text.as_deref().unwrap_or_default());
        self.run.fail(failure);
    }

    /// Removes the pending requests whose replies the forwarder delivered.
    fn remove_answered(&mut self, line: &Line<'_>) {
        let Some(Value::Object(responses)) = line.responses.map(Json::value) else { return };
        for id in responses.keys() {
            self.run.remove_request(id);
        }
    }

    /// Counts lines that never arrived, and reports them by one notice.
    fn emit_lost(&mut self, lost: Option<Range<u64>>) {
        let Some(lost) = lost.filter(|lost| !lost.is_empty()) else { return };
        self.counts.lost += lost.end - lost.start;
        if !self.run.is_ended() {
            let text = format!(
                "lines {} to {} of the workflow's events never arrived: the output may be incomplete",
                lost.start,
                lost.end - 1
            );
            self.run.notice(&Source::root(), "error", &text);
        }
    }
}

//! The runs of one input: a stream machine for the open run, and ids for all runs.
//!
//! ```text
//!   (none) ── begin, or any event ──► open ── terminal event ──► (none)
//!                                      └───── begin, finish ───► (none), ended as cut
//! ```
//!
//! Invariants: at most one run is open; every run that began has exactly one terminal event in the output; run
//! ids are unique in the output.

use std::collections::HashSet;
use std::io::Write;

use aqueduct_core::{ByteString, Error, RunFailure, RunInfo, SourceEvent, StreamContext, ToolCallId};

use super::ConvertError;
use super::writer::Writer;
use crate::progress::count;

/// The ids that a source declares for a run that begins, and tool calls that earlier runs of the thread opened.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    /// `--thread` takes precedence.
    pub(super) thread: Option<ByteString>,
    /// `--run` takes precedence; a repeated id gets a number.
    pub(super) run: Option<ByteString>,
    pub(super) parent: Option<ByteString>,
    /// A result for one of them needs no call in this run.
    pub(super) known_calls: Vec<ToolCallId>,
}

/// All runs of one input, and the writer of the output.
#[derive(Debug)]
pub(super) struct Runs {
    thread: Option<String>,
    run: Option<String>,
    /// Run ids of the output so far.
    used: HashSet<String>,
    begun: usize,
    open: Option<StreamContext>,
    writer: Writer,
    /// Payloads after the end of their run.
    late: usize,
}

impl Runs {
    /// Returns the state before the first run, with the ids of the command line.
    pub(super) fn new(thread: Option<String>, run: Option<String>, writer: Writer) -> Self {
        Self { thread, run, used: HashSet::new(), begun: 0, open: None, writer, late: 0 }
    }

    /// Returns `true` if a run is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns `true` if at least one run has begun.
    pub(super) fn any(&self) -> bool {
        self.begun > 0
    }

    /// Begins a run. An open run ends as cut.
    pub(super) fn begin(&mut self, beginning: Beginning) {
        self.cut();
        self.begun += 1;
        let thread = self.thread.clone().map(ByteString::from).or(beginning.thread);
        let run = self.run_id(beginning.run);
        let mut info = RunInfo::new(thread.unwrap_or_else(|| ByteString::from_static("thread")), run);
        info.parent_run_id = beginning.parent.map(Into::into);
        self.open = Some(StreamContext::new(info).with_known_calls(&beginning.known_calls));
        self.drain();
    }

    /// Returns the id of the next run, unique in the output even if the input repeats ids. The second run `r`
    /// becomes `r-2`.
    fn run_id(&mut self, given: Option<ByteString>) -> ByteString {
        let given = self.run.clone().or_else(|| given.map(|run| run.to_string()));
        let base = given.unwrap_or_else(|| format!("run-{}", self.begun));
        let mut id = base.clone();
        let mut number = 2;
        while !self.used.insert(id.clone()) {
            id = format!("{base}-{number}");
            number += 1;
        }
        ByteString::from(id)
    }

    /// Handles an event of the open run; begins a run if none is open.
    pub(super) fn handle_event(&mut self, event: SourceEvent) {
        if self.open.is_none() {
            self.begin(Beginning::default());
        }
        let Some(context) = &mut self.open else { return };
        match context.handle_event(event) {
            Ok(()) => {}
            Err(Error::Ended) => self.late += 1,
            Err(error) => context.handle_failure((&error).into()),
        }
        self.drain();
    }

    /// Counts input that arrived after the end of a run and belongs to no other run.
    pub(super) fn note_late(&mut self) {
        self.late += 1;
    }

    /// Ends the open run as failed. Without one, begins and ends a failed run.
    pub(super) fn fail(&mut self, failure: &RunFailure) {
        if self.open.is_none() {
            self.begin(Beginning::default());
        }
        if let Some(context) = &mut self.open {
            context.handle_failure(failure.clone());
        }
        self.drain();
    }

    /// Ends the input. An input without any event is reported as a stream cut before its first event.
    pub(super) fn finish(&mut self) {
        if !self.any() {
            self.begin(Beginning::default());
        }
        self.cut();
    }

    /// Returns the warnings to print beside the output.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.writer.notes();
        if self.late > 0 {
            let late = count(self.late as u64, "payload");
            let (was, run) = if self.late == 1 { ("was", "its run") } else { ("were", "their run") };
            notes.push(format!("{late} after the end of {run} {was} left out"));
        }
        notes
    }

    /// Writes the events that are ready.
    pub(super) fn write_to(&mut self, out: &mut dyn Write) -> Result<(), ConvertError> {
        let buffer = self.writer.buffer();
        if buffer.is_empty() {
            return Ok(());
        }
        out.write_all(buffer).and_then(|()| out.flush()).map_err(ConvertError::Output)?;
        buffer.clear();
        Ok(())
    }

    /// Ends the open run as cut.
    fn cut(&mut self) {
        if let Some(context) = &mut self.open {
            context.handle_eof();
        }
        self.drain();
    }

    /// Writes the events that the stream machine has ready, and closes the run after its terminal event.
    fn drain(&mut self) {
        let Some(context) = &mut self.open else { return };
        while let Some(event) = context.poll_event() {
            self.writer.write(&event);
        }
        if context.is_ended() {
            self.open = None;
        }
    }
}

//! `aqueduct convert`: a filter from any input dialect to any output dialect.
//!
//! ```text
//! bytes ──► PayloadReader ──► SourceReader (an adapter's decoder) ──► Runs (stream machines) ──► Writer ──► bytes
//! ```
//!
//! Invariants: the output is balanced and has one terminal event per run, whatever the input; input after the end of a
//! run starts the next run, or is counted and reported as late; input that cannot be read ends its run as failed and is
//! reported with its place. Everything streams: no more than one payload is held in memory.

mod detect;
mod runs;
mod source;
mod writer;

#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read, Write};

use aqueduct_core::{BlockEvent, RunFailure};
use clap::ValueEnum as _;
use thiserror::Error;

use crate::cli::{ConvertArgs, FromDialect, ToDialect};
use crate::input::{InputError, Payload, PayloadReader};
use crate::{exit, recording};
pub(crate) use detect::detect;
use runs::Runs;
use source::SourceReader;
use writer::Writer;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Why a conversion stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The input cannot be read. The output contains everything read before, ended as failed.
    #[error("the input cannot be read: line {line}, column {column}: {what}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong at that place.
        what: String,
    },
    /// The input is in another dialect than `--from` names. The output is empty.
    #[error("line {line}: the input is {}, not {}: use `--from {}`, or leave `--from` out", word(*found), word(*wanted), word(*found))]
    WrongDialect {
        /// The line of the payload that identifies the dialect, from 1.
        line: usize,
        /// The dialect that `--from` names.
        wanted: FromDialect,
        /// The dialect of the input.
        found: FromDialect,
    },
    /// No payload of the input identifies a dialect. The output is empty.
    #[error(
        "the input is in no known dialect: give AG-UI or A2A as server-sent events or JSON, Microsoft Agent Framework as JSON \
         lines, or a file of `aqueduct record`"
    )]
    Unknown,
    /// Reading failed.
    #[error("the input cannot be read: {0}")]
    Input(std::io::Error),
    /// Writing failed.
    #[error("the output cannot be written: {0}")]
    Output(std::io::Error),
}

/// Returns the word for a dialect on the command line.
fn word(dialect: FromDialect) -> String {
    dialect.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl From<InputError> for ConvertError {
    fn from(error: InputError) -> Self {
        Self::Unreadable { line: error.line, column: error.column, what: error.what }
    }
}

/// Runs `aqueduct convert`.
///
/// Returns `exit::USAGE` if the file cannot be opened, `exit::FAILED` if it cannot be converted, and `exit::OK`
/// otherwise, whatever the outcome of the runs in it.
pub fn command(
    args: &ConvertArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let converted = match file.map(std::fs::File::open) {
        None => convert(args, input, out, notes),
        Some(Ok(mut file)) => convert(args, &mut file, out, notes),
        Some(Err(error)) => {
            let file = args.file.clone().unwrap_or_default();
            let why = format!("{} cannot be opened: {error}", file.display());
            return exit::USAGE.report(notes, "convert", &why);
        }
    };
    match converted {
        Ok(()) => exit::OK,
        // The reader of the output has closed it (`| head`).
        Err(ConvertError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => exit::OK,
        Err(error) => exit::FAILED.report(notes, "convert", &error),
    }
}

/// Converts the whole input. Also used by `aqueduct diff`, with the merged response as output.
///
/// # Errors
///
/// Returns an error if the input cannot be read or is in another dialect, or if the output cannot be written.
/// Input that becomes unreadable in the middle has output: everything before, ended as failed.
///
/// # Examples
///
/// ```
/// use aqueduct_gateway::cli::{ConvertArgs, FromDialect, TextView, ToDialect};
/// use aqueduct_gateway::convert::convert;
///
/// let args = ConvertArgs {
///     file: None,
///     from: FromDialect::Agui,
///     to: ToDialect::Response,
///     sse: false,
///     subagents: None,
///     intermediate: TextView::Reasoning,
///     interrupts: None,
///     thread: None,
///     run: None,
/// };
/// let input = r#"
/// {"type":"RUN_STARTED","threadId":"t","runId":"r"}
/// {"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Hello"}
/// {"type":"RUN_FINISHED","threadId":"t","runId":"r"}
/// "#;
/// let (mut out, mut notes) = (Vec::new(), Vec::new());
/// convert(&args, &mut input.as_bytes(), &mut out, &mut notes)?;
/// let run: serde_json::Value = serde_json::from_slice(&out)?;
/// assert_eq!(run["text"], "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert(
    args: &ConvertArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<(), ConvertError> {
    let mut source = Source::new(args.from);
    let mut runs = Runs::new(args.thread.clone(), args.run.clone(), Writer::new(args));
    let result = pump(input, &mut source, &mut runs, out);
    match &result {
        Ok(()) => source.handle_eof(&mut runs)?,
        // No output is written for an input in another dialect.
        Err(ConvertError::WrongDialect { .. } | ConvertError::Unknown) => return result,
        Err(error) => {
            runs.fail(&RunFailure::new(RunFailure::UPSTREAM_INVALID, error.to_string()));
        }
    }
    runs.finish();
    runs.write_to(out)?;
    for note in runs.notes() {
        writeln!(notes, "aqueduct convert: {note}").ok();
    }
    result
}

/// The input, whose dialect may not be known yet.
///
/// ```text
/// `--from auto`:  detecting ── a payload identifies a dialect ──► reading
/// `--from X`:     reading; a payload that identifies Y is an error
/// ```
struct Source {
    wanted: FromDialect,
    /// `None` while detecting.
    reader: Option<SourceReader>,
    /// Payloads that arrived before the one that identifies the dialect.
    held: Vec<Payload>,
    /// Set once a payload has identified a dialect; later payloads are not examined.
    is_known: bool,
    /// Set until a complete payload arrives.
    is_empty: bool,
}

impl Source {
    fn new(wanted: FromDialect) -> Self {
        let reader = (wanted != FromDialect::Auto).then(|| SourceReader::new(wanted));
        Self { wanted, reader, held: Vec::new(), is_known: false, is_empty: true }
    }

    /// Handles one payload. `recorded` is the dialect of the recording, if the input is one.
    ///
    /// # Errors
    ///
    /// `WrongDialect`, `Unknown` after `LOOKED_AT` payloads without a dialect, or `Unreadable` at the place of
    /// the payload.
    fn handle_payload(
        &mut self,
        payload: Payload,
        recorded: Option<recording::Dialect>,
        runs: &mut Runs,
    ) -> Result<(), ConvertError> {
        self.is_empty &= payload.is_cut;
        let found = if self.is_known {
            None
        } else {
            recorded.map(of_recording).or_else(|| detect::of_text(&payload.text))
        };
        if let Some(found) = found {
            self.is_known = true;
            if !reads(self.wanted, found, &payload.text) {
                return Err(ConvertError::WrongDialect {
                    line: payload.place.line,
                    wanted: self.wanted,
                    found,
                });
            }
            self.reader.get_or_insert_with(|| SourceReader::new(found));
        }
        let Some(reader) = &mut self.reader else {
            self.held.push(payload);
            return if self.held.len() < detect::LOOKED_AT { Ok(()) } else { Err(ConvertError::Unknown) };
        };
        for payload in self.held.drain(..).chain([payload]) {
            read_payload(&payload, reader, runs)?;
        }
        Ok(())
    }

    /// Handles the end of the input. Returns `Unknown` if the input has complete payloads and none of them
    /// identified a dialect.
    fn handle_eof(&mut self, runs: &mut Runs) -> Result<(), ConvertError> {
        if let Some(reader) = &mut self.reader {
            reader.handle_eof(runs);
        }
        // A cut input has no complete payload that identifies a dialect; an input with complete payloads that identify
        // none is something else. Decoders pass unknown payloads on, so output proves nothing; AG-UI has no event
        // without its type.
        let is_nothing =
            !self.is_known && !self.is_empty && (self.wanted != FromDialect::Agui || !runs.any());
        if is_nothing { Err(ConvertError::Unknown) } else { Ok(()) }
    }
}

fn of_recording(dialect: recording::Dialect) -> FromDialect {
    match dialect {
        recording::Dialect::Agui => FromDialect::Agui,
        recording::Dialect::A2a => FromDialect::A2a,
        recording::Dialect::A2a03 | recording::Dialect::A2a03Rest => FromDialect::A2a03,
    }
}

/// Returns `true` if the decoder of the wanted dialect reads what was found. A2A items without an envelope, and errors,
/// may be of either version.
fn reads(wanted: FromDialect, found: FromDialect, payload: &str) -> bool {
    let is_either = !payload.contains("\"jsonrpc\"") || payload.contains("\"error\"");
    let is_older = found == FromDialect::A2a && wanted == FromDialect::A2a03 && is_either;
    wanted == FromDialect::Auto || wanted == found || is_older
}

/// Converts one event of a run into the events of a protocol with default settings. Converters keep no state, so the
/// start of the run and the event suffice.
pub(crate) fn form_of(to: ToDialect, start: &BlockEvent, event: &BlockEvent) -> Vec<serde_json::Value> {
    let mut writer = Writer::new(&ConvertArgs::plain(FromDialect::Agui, to));
    writer.write(start);
    if !matches!(event, BlockEvent::RunStarted(_)) {
        writer.buffer().clear();
        writer.write(event);
    }
    let lines = writer.buffer().split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Reads the input to its end and writes events as they become ready.
fn pump(
    input: &mut dyn Read,
    source: &mut Source,
    runs: &mut Runs,
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    let mut reader = PayloadReader::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match input.read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ConvertError::Input(error)),
        };
        let bytes = chunk.get(..length).unwrap_or_default();
        let read = if bytes.is_empty() { reader.handle_eof() } else { reader.handle_bytes(bytes) };
        while let Some(payload) = reader.poll_payload() {
            source.handle_payload(payload, reader.recorded(), runs)?;
        }
        // Written before the error is returned: payloads before the unreadable place are valid.
        runs.write_to(out)?;
        read?;
        if bytes.is_empty() {
            return Ok(());
        }
    }
}

/// Decodes a payload, and adds the line and column to its error.
///
/// A payload that is not JSON is reported at the column of the syntax error; one that is JSON and not of the
/// dialect, at its beginning.
fn read_payload(payload: &Payload, source: &mut SourceReader, runs: &mut Runs) -> Result<(), ConvertError> {
    let Err(what) = source.handle_payload(payload, runs) else { return Ok(()) };
    let (line, column, what) = match serde_json::from_str::<serde_json::Value>(&payload.text) {
        // The input was cut here: the output contains everything read before, ended.
        Err(error) if payload.is_cut && error.is_eof() => return Ok(()),
        Err(error) => (error.line(), error.column(), format!("not JSON: {error}")),
        Ok(_) => (1, 1, what),
    };
    Err(payload.place.error(line, column, what).into())
}

//! `aqueduct convert`: a filter from any input dialect to any output dialect.
//!
//! ```text
//! bytes ──► PayloadReader ──► SourceReader (an adapter's decoder) ──► Runs (stream machines) ──► Writer ──► bytes
//! ```
//!
//! Invariants: whatever comes in, what goes out is balanced and ends with a terminal event, once per run; input after
//! the end of a run starts the next run, or is counted and told as late; input that cannot be read ends its run as
//! failed, and the place is told. Everything streams: no more than one payload is held.

mod detect;
mod runs;
mod source;
mod writer;

#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read, Write};

use aqueduct_core::RunFailure;
use thiserror::Error;

use crate::cli::ConvertArgs;
use crate::exit;
use crate::input::{InputError, Payload, PayloadReader};
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
    /// The input cannot be read. What was read before came out, ended as failed.
    #[error("the input cannot be read: line {line}, column {column}: {what}")]
    Unreadable {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// Reading failed.
    #[error("the input cannot be read: {0}")]
    Input(std::io::Error),
    /// Writing failed.
    #[error("the output cannot be written: {0}")]
    Output(std::io::Error),
}

impl From<InputError> for ConvertError {
    fn from(error: InputError) -> Self {
        Self::Unreadable { line: error.line, column: error.column, what: error.what }
    }
}

/// Runs the command.
pub fn command(
    args: &ConvertArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    match convert(args, input, out, notes) {
        Ok(()) => exit::OK,
        // The reader has all it wanted (`| head`).
        Err(ConvertError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => exit::OK,
        Err(error) => {
            writeln!(notes, "aqueduct convert: {error}").ok();
            exit::FAILED
        }
    }
}

/// Converts everything that can be read.
pub fn convert(
    args: &ConvertArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<(), ConvertError> {
    let mut source = SourceReader::new(args.from);
    let mut runs = Runs::new(args.thread.clone(), args.run.clone(), Writer::new(args));
    let result = pump(input, &mut source, &mut runs, out);
    match &result {
        Ok(()) => source.handle_eof(&mut runs),
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

fn pump(
    input: &mut dyn Read,
    source: &mut SourceReader,
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
            read_payload(&payload, source, runs)?;
        }
        runs.write_to(out)?;
        read?;
        if bytes.is_empty() {
            return Ok(());
        }
    }
}

fn read_payload(payload: &Payload, source: &mut SourceReader, runs: &mut Runs) -> Result<(), ConvertError> {
    let Err(what) = source.handle_payload(payload, runs) else { return Ok(()) };
    let (line, column, what) = match serde_json::from_str::<serde_json::Value>(&payload.text) {
        // The trace of a cut: what was read before comes out, ended.
        Err(error) if payload.is_cut && error.is_eof() => return Ok(()),
        Err(error) => (error.line(), error.column(), format!("not JSON: {error}")),
        Ok(_) => (1, 1, what),
    };
    Err(payload.place.error(line, column, what).into())
}

//! The encoding of outcomes as a word with lists, and of patches with a number for the operation.
//!
//! Protobuf has no form for the tagged objects of JSON: an outcome is a text field with its type
//! and, where its type has one, a list in a field of the event:
//!
//! ```text
//! "outcome": {"type":"interrupt","interrupts":[a, b]}
//!   -> field 5 = "interrupt", field 6 = a, field 6 = b
//! ```
//!
//! So the reader creates the outcome at field 5 and fills it from the fields after it. That relies
//! on the order of the fields, which all writers of this schema keep; a list before its outcome, or
//! beside an outcome of another type, is rejected as a defect of the peer. An unknown type is kept
//! with its name alone, so that the decoder can report it. Undeclared members of an outcome have no
//! form and are lost.
//!
//! These events implement `ProtoEvent` by hand; all others do so by the macro `event!`.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::event::ProtoEvent;
use super::field::{ProtoField, ProtoMessage, merge};
use super::reader::Field;
use super::writer::{VARINT, write_key, write_nested, write_varint};
use crate::error::Error;
use crate::wire::{
    CancelledOutcome, InterruptOutcome, OPERATIONS, PatchOperation, RunFinished, RunFinishedOutcome,
    SubagentFinished, SubagentFinishedOutcome, SubagentSuccessOutcome, SuccessOutcome, SuspendedOutcome,
};

impl ProtoEvent for RunFinished {
    fn write_own(&self, out: &mut Vec<u8>) {
        self.thread_id.write(2, out);
        self.run_id.write(3, out);
        self.result.write(4, out);
        if let Some(outcome) = &self.outcome {
            ByteString::from(outcome.kind()).write(5, out);
        }
        if let Some(RunFinishedOutcome::Interrupt(outcome)) = &self.outcome {
            outcome.interrupts.write(6, out);
        }
        self.usage.write(7, out);
        if let Some(RunFinishedOutcome::Success(outcome)) = &self.outcome {
            outcome.pending_tool_call_ids.write(8, out);
        }
    }

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), Error> {
        match (number, &mut self.outcome) {
            (2, _) => self.thread_id.read(field),
            (3, _) => self.run_id.read(field),
            (4, _) => self.result.read(field),
            (5, outcome) => {
                *outcome = run_outcome(&field.text()?);
                Ok(())
            }
            (6, Some(RunFinishedOutcome::Interrupt(outcome))) => outcome.interrupts.read(field),
            (7, _) => self.usage.read(field),
            (8, Some(RunFinishedOutcome::Success(outcome))) => outcome.pending_tool_call_ids.read(field),
            (6 | 8, _) => Err(Error::Proto("an outcome has what belongs to another outcome")),
            _ => Ok(()),
        }
    }
}

/// Returns an outcome of that type, still empty: the fields with its lists follow. Returns `None`
/// for an empty text, which protobuf does not distinguish from an absent one.
fn run_outcome(kind: &str) -> Option<RunFinishedOutcome> {
    match kind {
        "" => None,
        "success" => Some(RunFinishedOutcome::Success(SuccessOutcome::default())),
        "interrupt" => Some(RunFinishedOutcome::Interrupt(InterruptOutcome::default())),
        "cancelled" => Some(RunFinishedOutcome::Cancelled(CancelledOutcome::default())),
        other => Some(RunFinishedOutcome::Unknown(only_type(other))),
    }
}

/// Returns the members of an outcome of an unknown type: its `type`, as the JSON form would have
/// it.
fn only_type(kind: &str) -> Metadata {
    Metadata::from_iter([("type".to_owned(), Value::from(kind))])
}

impl ProtoEvent for SubagentFinished {
    fn write_own(&self, out: &mut Vec<u8>) {
        self.subagent_run_id.write(2, out);
        self.result.write(3, out);
        if let Some(outcome) = &self.outcome {
            ByteString::from(outcome.kind()).write(4, out);
        }
        if let Some(SubagentFinishedOutcome::Suspended(outcome)) = &self.outcome {
            outcome.interrupt_ids.write(5, out);
        }
    }

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), Error> {
        match (number, &mut self.outcome) {
            (2, _) => self.subagent_run_id.read(field),
            (3, _) => self.result.read(field),
            (4, outcome) => {
                *outcome = match &*field.text()? {
                    "" => None,
                    "success" => Some(SubagentFinishedOutcome::Success(SubagentSuccessOutcome::default())),
                    "suspended" => Some(SubagentFinishedOutcome::Suspended(SuspendedOutcome::default())),
                    other => Some(SubagentFinishedOutcome::Unknown(only_type(other))),
                };
                Ok(())
            }
            (5, Some(SubagentFinishedOutcome::Suspended(outcome))) => outcome.interrupt_ids.read(field),
            (5, _) => Err(Error::Proto("an outcome has what belongs to another outcome")),
            _ => Ok(()),
        }
    }
}

/// One operation of a JSON Patch: `op` as a number (the index in `OPERATIONS`), `path`, `from`,
/// `value`.
///
/// ```text
/// {"op":"replace","path":"/a","value":1}  ->  1: 2 (varint), 2: "/a", 4: Value(1)
/// ```
///
/// Further members have no field and are lost.
impl ProtoMessage for PatchOperation {
    fn write_fields(&self, out: &mut Vec<u8>) {
        // Number 0 is the default of protobuf and is not written. Unknown operations were refused (`encode_event`).
        let number = OPERATIONS.iter().position(|op| *op == self.op()).unwrap_or_default();
        if number != 0 {
            write_key(1, VARINT, out);
            write_varint(number as u64, out);
        }
        ByteString::from(self.path()).write(2, out);
        // `from` and `value` are optional in the schema: an empty text is written where it is present.
        if let Some(from) = self.0.get("from").and_then(Value::as_str) {
            ByteString::from(from).write_present(3, out);
        }
        if let Some(value) = self.0.get("value") {
            value.write(4, out);
        }
    }

    fn read_field(&mut self, number: u32, field: &Field) -> Result<(), Error> {
        let (name, value) = match number {
            1 => {
                let op = usize::try_from(field.varint()?).ok().and_then(|number| OPERATIONS.get(number));
                let op = op.ok_or(Error::Proto("a patch operation has an unknown number"))?;
                ("op", Value::from(*op))
            }
            2 => ("path", Value::from(&*field.text()?)),
            3 => ("from", Value::from(&*field.text()?)),
            4 => ("value", super::json::read_value(field.message()?)?),
            _ => return Ok(()),
        };
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

impl ProtoField for PatchOperation {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| self.write_fields(out));
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        // `add` is number 0 and `""` the default path: neither is on the wire.
        self.0.insert("op".to_owned(), Value::from(OPERATIONS[0]));
        self.0.insert("path".to_owned(), Value::from(""));
        merge(self, field.message()?)
    }
}

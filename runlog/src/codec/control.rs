//! The encoding of control messages and of the values of notes.
//!
//! Control messages go to the owner of a run (cancel, replies to interrupts, messages of other replicas). Notes are metadata of a run
//! beside its events. Both have the version byte of events, so that a replica of an older program refuses what it cannot read.

use aqueduct_core::{InterruptId, InterruptReply};
use bytes::Bytes;
use serde_json::Value;

use super::read::Reader;
use super::write::Writer;
use super::{CodecError, FIRST_VERSION, value};
use crate::log::Control;

/// The codes of control messages.
const CANCEL: u8 = 0;
const REPLY: u8 = 1;
const MESSAGE: u8 = 2;

/// Encodes a message.
///
/// # Errors
///
/// Returns [`CodecError::TooDeep`] if a value is nested too deep.
pub fn encode_control(message: &Control) -> Result<Vec<u8>, CodecError> {
    let mut to = Writer::default();
    to.byte(FIRST_VERSION);
    match message {
        Control::Cancel => to.byte(CANCEL),
        Control::Reply(reply) => {
            to.byte(REPLY);
            to.text(reply.id.as_str());
            to.flag(reply.resolved);
            to.try_optional(reply.payload.as_ref(), value::write)?;
        }
        Control::Message(message) => {
            to.byte(MESSAGE);
            value::write(&mut to, message)?;
        }
    }
    Ok(to.bytes)
}

/// Decodes a message.
///
/// # Errors
///
/// Returns a [`CodecError`] if the bytes have an unknown version, are truncated or are invalid.
pub fn decode_control(bytes: Bytes) -> Result<Control, CodecError> {
    let mut from = Reader::new(bytes);
    match from.byte("the version")? {
        FIRST_VERSION => {}
        found => return Err(CodecError::UnknownVersion { found }),
    }
    let message = match from.byte("the kind of a message")? {
        CANCEL => Control::Cancel,
        REPLY => Control::Reply(InterruptReply {
            id: InterruptId::new(from.text("the id of an interrupt")?),
            resolved: from.flag("whether it is resolved")?,
            payload: from.optional("an answer", value::read)?,
        }),
        MESSAGE => Control::Message(value::read(&mut from)?),
        found => return Err(CodecError::Invalid { what: "the kind of a message", found: found.into() }),
    };
    from.end()?;
    Ok(message)
}

/// Encodes the value of a note.
pub(crate) fn encode_value(value: &Value) -> Result<Vec<u8>, CodecError> {
    let mut to = Writer::default();
    to.byte(FIRST_VERSION);
    value::write(&mut to, value)?;
    Ok(to.bytes)
}

/// Decodes the value of a note.
pub(crate) fn decode_value(bytes: Bytes) -> Result<Value, CodecError> {
    let mut from = Reader::new(bytes);
    match from.byte("the version")? {
        FIRST_VERSION => {}
        found => return Err(CodecError::UnknownVersion { found }),
    }
    let value = value::read(&mut from)?;
    from.end()?;
    Ok(value)
}

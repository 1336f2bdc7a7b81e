//! The envelope: the event of a frame, and the members that all events share.

use bytes::Bytes;

use super::field::ProtoField as _;
use super::reader::{Field, Reader};
use super::writer::{VARINT, write_key, write_nested, write_varint};
use crate::error::Error;
use crate::wire::{Base, Event, EventType, PatchOperation};

/// An event's access to the members that all events have.
pub(crate) trait HasBase {
    /// Returns the members that all events have.
    fn base(&self) -> &Base;
    /// Returns the members that all events have, for reading.
    fn base_mut(&mut self) -> &mut Base;
}

/// The fields of an event; number 1 is [`Base`] in all of them.
pub(crate) trait ProtoEvent: HasBase + Default {
    /// Appends the fields of the event; number 1, the base, is written before.
    fn write_own(&self, out: &mut Vec<u8>);
    /// Reads one field. Unknown numbers are ignored, as protobuf requires it.
    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), Error>;
}

/// Appends the bytes of an event, without a length. Returns `false` if the encoding has no form for it.
/// The bytes are those of one envelope: a field whose number identifies the kind of event.
/// `encode::proto_frame` adds the length.
pub fn encode_event(event: &Event, out: &mut Vec<u8>) -> bool {
    has_known_operations(event) && event.write_envelope(out)
}

/// Returns `false` for a JSON Patch with an unknown operation: operations are numbers, and a missing number means `add`.
fn has_known_operations(event: &Event) -> bool {
    let patch = match event {
        Event::StateDelta(state) => &state.delta,
        Event::ActivityDelta(activity) => &activity.patch,
        _ => return true,
    };
    patch.iter().all(PatchOperation::is_known)
}

/// Decodes one event.
///
/// # Errors
///
/// Returns an error if the bytes are malformed, or contain an unknown event.
pub fn decode_event(bytes: Bytes) -> Result<Event, Error> {
    let mut reader = Reader::new(bytes);
    let mut event = None;
    let mut unknown = None;
    while let Some((arm, field)) = reader.next()? {
        match Event::read_arm(arm, field.message()?)? {
            Some(_) if event.is_some() => {
                return Err(Error::Proto("an envelope holds more than one event"));
            }
            Some(read) => event = Some(read),
            // An unknown field beside a known event is ignored, as protobuf requires it; alone, it is an
            // event of a later version.
            None => unknown = Some(arm),
        }
    }
    match (event, unknown) {
        (Some(event), _) => Ok(event),
        (None, Some(arm)) => Err(Error::UnknownArm(arm)),
        (None, None) => Err(Error::Proto("an envelope holds no event")),
    }
}

/// Writes one arm of the envelope: the base and the event's own fields.
pub(crate) fn write_event<E: ProtoEvent>(kind: EventType, arm: u32, event: &E, out: &mut Vec<u8>) {
    write_nested(arm, out, |out| {
        write_nested(1, out, |out| write_base(kind, event.base(), out));
        event.write_own(out);
    });
}

/// Reads the fields of an event, and checks that its type is that of its envelope.
pub(crate) fn read_event<E: ProtoEvent>(kind: EventType, mut reader: Reader) -> Result<E, Error> {
    let mut event = E::default();
    let mut based = false;
    while let Some((number, field)) = reader.next()? {
        if number == 1 {
            read_base(kind, event.base_mut(), field.message()?)?;
            based = true;
        } else {
            event.read_own(number, &field)?;
        }
    }
    if !based {
        return Err(Error::Proto("an event has no base"));
    }
    Ok(event)
}

/// Writes type, timestamp, raw event and metadata. Number 0 is the default of protobuf and is not written.
fn write_base(kind: EventType, base: &Base, out: &mut Vec<u8>) {
    if kind.number() != 0 {
        write_key(1, VARINT, out);
        write_varint(u64::from(kind.number().unsigned_abs()), out);
    }
    base.timestamp.write(2, out);
    if let Some(rare) = &base.rare {
        rare.raw_event.write(3, out);
    }
    if let Some(metadata) = base.metadata() {
        metadata.write(4, out);
    }
}

/// Reads the members that all events share. The type in them repeats the number of the envelope's
/// field, and must equal it.
fn read_base(kind: EventType, base: &mut Base, mut reader: Reader) -> Result<(), Error> {
    let mut number_seen = 0;
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => number_seen = field.int64()?,
            2 => base.timestamp.read(&field)?,
            3 => base.rare_mut().raw_event.read(&field)?,
            4 => base.metadata_mut().read(&field)?,
            _ => {}
        }
    }
    if number_seen == i64::from(kind.number()) {
        Ok(())
    } else {
        Err(Error::Proto("an event's type is not that of its envelope"))
    }
}

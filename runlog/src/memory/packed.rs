//! [`Packed`]: events of a run that few watchers read any more, as bytes; and [`PackedValue`], the value of a note.
//!
//! A text that stands for itself is three events and a block of its own, whose head alone takes half a kilobyte. Encoded,
//! consecutive events agree in most of their bytes, so each is stored as its difference from the one before:
//!
//! ```text
//! event := length  (equal literal byte*)…       lengths: LEB128; `equal` bytes as before, then `literal` other ones
//! ```
//!
//! Invariant: unpacking returns events equal to those that were packed (property test).

use std::sync::Arc;

use aqueduct_core::BlockEvent;
use bytes::Bytes;
use serde_json::Value;

use crate::codec::{Decoder, Encoder, decode_value, encode_value, read_number, write_number};
use crate::limits::count;

/// Equal bytes that end a run of literals: fewer are cheaper as literals.
const WORTHWHILE: usize = 3;

/// Packed events.
#[derive(Debug)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    len: usize,
}

impl Packed {
    /// Packs events. Returns `None` if one of them cannot be encoded.
    pub(super) fn new(events: impl Iterator<Item = BlockEvent>) -> Option<Self> {
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        let (mut before, mut len) = (Vec::new(), 0);
        for event in events {
            let record = encoder.encode(&event).ok()?;
            write_difference(&before, &record, &mut bytes);
            (before, len) = (record, len + 1);
        }
        Some(Self { bytes: bytes.into(), len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the events.
    pub(super) fn unpack(&self) -> impl Iterator<Item = BlockEvent> {
        let (mut decoder, mut rest, mut before) = (Decoder::default(), &*self.bytes, Vec::new());
        std::iter::from_fn(move || {
            let record = read_difference(&before, &mut rest)?;
            before.clone_from(&record);
            decoder.decode(Bytes::from(record)).ok()
        })
    }
}

/// The value of a note. Encoded: a tree takes an allocation per member, and is read only when a client or a replica asks for it.
#[derive(Debug)]
pub(super) enum PackedValue {
    Encoded(Box<[u8]>),
    /// A value that cannot be encoded, because it is nested too deep.
    Whole(Arc<Value>),
}

impl PackedValue {
    pub(super) fn new(value: Arc<Value>) -> Self {
        encode_value(&value).map_or_else(|_| Self::Whole(value), |bytes| Self::Encoded(bytes.into()))
    }

    /// Returns the value. It was encoded by this process, so it can be decoded.
    pub(super) fn value(&self) -> Option<Arc<Value>> {
        match self {
            Self::Encoded(bytes) => decode_value(Bytes::copy_from_slice(bytes)).ok().map(Arc::new),
            Self::Whole(value) => Some(Arc::clone(value)),
        }
    }
}

/// Writes a record as its difference from the one before.
///
/// ```text
/// before  "block-17 abc"      record  "block-18 abd"
///         equal 7, literal 1 "8", equal 3, literal 1 "d"
/// ```
///
/// Positions are compared, not shifted: consecutive records have equal fields at equal offsets as
/// long as their ids have the same length.
fn write_difference(before: &[u8], record: &[u8], to: &mut Vec<u8>) {
    write_number(count(record.len()), to);
    let mut at = 0;
    while at < record.len() {
        let equal = equal_from(before, record, at);
        let start = at + equal;
        let mut end = start;
        while end < record.len() {
            let run = equal_from(before, record, end);
            if run >= WORTHWHILE {
                break;
            }
            end = (end + run.max(1)).min(record.len());
        }
        write_number(count(equal), to);
        write_number(count(end - start), to);
        to.extend_from_slice(record.get(start..end).unwrap_or_default());
        at = end;
    }
}

/// Returns how many bytes of two records are equal from that position on.
fn equal_from(before: &[u8], record: &[u8], at: usize) -> usize {
    let (before, record) = (before.get(at..).unwrap_or_default(), record.get(at..).unwrap_or_default());
    before.iter().zip(record).take_while(|(one, other)| one == other).count()
}

/// Reads the next record. Returns `None` at the end.
fn read_difference(before: &[u8], from: &mut &[u8]) -> Option<Vec<u8>> {
    let len = read_length(from)?;
    let mut record = Vec::with_capacity(len);
    while record.len() < len {
        let (equal, literal) = (read_length(from)?, read_length(from)?);
        record.extend_from_slice(before.get(record.len()..record.len() + equal)?);
        let (own, rest) = from.split_at_checked(literal)?;
        record.extend_from_slice(own);
        *from = rest;
    }
    Some(record)
}

/// Reads a length. Returns `None` if the bytes end, or it does not fit.
fn read_length(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(read_number(from, "a length").ok()?).ok()
}

#[cfg(test)]
mod tests {
    use aqueduct_core::{RunInfo, StreamContext, Update};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_their_own_take_little_more_than_their_ids() {
        let mut context = StreamContext::new(RunInfo::new("thread", "5f2c9d1e-8a53-4d0b-9c3f-0123456789ab"));
        for number in 0..1_000 {
            let id = format!("5f2c9d1e-8a53-4d0b-9c3f-{:012x}", number * 7_919);
            context.handle_update(Update::text("words").in_message(id).last()).unwrap();
        }
        let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
        let packed = Packed::new(events.iter().cloned()).unwrap();
        assert!(packed.bytes.len() < 1_000 * 64, "{} bytes per text", packed.bytes.len() / 1_000);
        assert_eq!(packed.len(), events.len());
        assert!(packed.unpack().eq(events));
    }

    #[test]
    fn three_equal_bytes_are_not_written_again_and_two_are() {
        let difference = |before: &[u8], record: &[u8]| {
            let mut bytes = Vec::new();
            write_difference(before, record, &mut bytes);
            bytes
        };
        assert_eq!(difference(&[1, 2, 3, 4, 5], &[9, 2, 3, 4, 8]), [5, 0, 1, 9, 3, 1, 8]);
        assert_eq!(difference(&[1, 2, 3, 4], &[9, 2, 3, 8]), [4, 0, 4, 9, 2, 3, 8]);
    }

    #[test]
    fn values_are_returned_as_they_were() {
        let input =
            json!({"messages": [{"id": "m", "content": "go"}], "state": {}, "n": [1, -2, 0.1, null, true]});
        let packed = PackedValue::new(Arc::new(input.clone()));
        assert!(matches!(packed, PackedValue::Encoded(_)));
        assert_eq!(packed.value().as_deref(), Some(&input));
        let deep = (0..1_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let packed = PackedValue::new(Arc::new(deep));
        assert!(matches!(packed, PackedValue::Whole(_)) && packed.value().is_some());
    }

    proptest! {
        #[test]
        fn differences_are_undone(records in prop::collection::vec(prop::collection::vec(0..4_u8, 0..300), 0..12)) {
            let (mut bytes, mut before) = (Vec::new(), Vec::new());
            for record in &records {
                write_difference(&before, record, &mut bytes);
                before.clone_from(record);
            }
            let (mut rest, mut before) = (bytes.as_slice(), Vec::new());
            for record in records {
                before = read_difference(&before, &mut rest).unwrap();
                prop_assert_eq!(&before, &record);
            }
            prop_assert!(rest.is_empty());
        }
    }
}

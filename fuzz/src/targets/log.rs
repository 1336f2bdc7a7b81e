//! Decoding of run log records.

use aqueduct_runlog::codec::{Decoder, Encoder, decode_control, encode_control};
use bytes::Bytes;

use crate::ops;

/// Decodes any bytes as the records of one run, each after its length in two bytes. The decoder caches heads of blocks; what it
/// returns must not depend on the records before.
pub(super) fn codec(mut data: &[u8]) {
    let mut decoder = Decoder::default();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (record, rest) = rest.split_at(length);
        data = rest;
        let event = decoder.decode(Bytes::copy_from_slice(record)).ok();
        assert_eq!(event, Decoder::default().decode(Bytes::copy_from_slice(record)).ok(), "decoded alone");
        if let Some(event) = event {
            let again = Encoder::default().encode(&event).expect("what was read is written");
            assert_eq!(Decoder::default().decode(Bytes::from(again)).expect("and read"), event);
        }
        if let Ok(message) = decode_control(Bytes::copy_from_slice(record)) {
            let again = encode_control(&message).expect("what was read is written");
            assert_eq!(decode_control(Bytes::from(again)).expect("and read"), message);
        }
    }
}

/// Encodes and decodes the events of a run.
pub(super) fn records(data: &[u8]) {
    let events = ops::run(data);
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    for event in events {
        let record = encoder.encode(&event).expect("an event is written");
        assert_eq!(decoder.decode(Bytes::from(record)).expect("and read"), event);
    }
}

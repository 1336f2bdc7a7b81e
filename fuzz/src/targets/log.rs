//! Decoding of run log records.

use aqueduct_runlog::codec::{Decoder, Encoder, decode_control, encode_control};
use bytes::Bytes;

use crate::ops;

/// Decodes any bytes as records.
pub(super) fn codec(data: &[u8]) {
    if let Ok(event) = Decoder::default().decode(Bytes::copy_from_slice(data)) {
        let again = Encoder::default().encode(&event).expect("what was read is written");
        assert_eq!(Decoder::default().decode(Bytes::from(again)).expect("and read"), event);
    }
    if let Ok(message) = decode_control(Bytes::copy_from_slice(data)) {
        let again = encode_control(&message).expect("what was read is written");
        assert_eq!(decode_control(Bytes::from(again)).expect("and read"), message);
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

//! The encoding: identity, old bytes, foreign bytes.

use std::path::PathBuf;
use std::sync::Arc;

use aqueduct_core::event::RunFinished;
use aqueduct_core::testing::{arb_ending, arb_source_events, run_to_end, scenarios};
use aqueduct_core::{BlockEvent, InterruptReply, RunInfo, RunOutcome};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::log::Control;
use crate::testing::agents;

fn encode(events: &[BlockEvent]) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::default();
    events.iter().map(|event| encoder.encode(event).unwrap()).collect()
}

fn decode(records: &[Vec<u8>]) -> Vec<BlockEvent> {
    let mut decoder = Decoder::default();
    records.iter().map(|record| decoder.decode(Bytes::from(record.clone())).unwrap()).collect()
}

#[track_caller]
fn comes_back(events: &[BlockEvent]) {
    let records = encode(events);
    let read = decode(&records);
    assert_eq!(read, events);
    assert_eq!(read.iter().map(agents).collect::<Vec<_>>(), events.iter().map(agents).collect::<Vec<_>>());
    // Any event can be read alone.
    for (record, event) in records.iter().zip(events) {
        assert_eq!(&Decoder::default().decode(Bytes::from(record.clone())).unwrap(), event);
    }
}

fn arb_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read(source in arb_source_events(40), ending in arb_ending()) {
        comes_back(&run_to_end(source.into_iter().chain(ending)));
    }

    #[test]
    fn values_are_exact_and_in_order(value in arb_value()) {
        let reply = InterruptReply { id: "i".into(), resolved: false, payload: Some(value) };
        let message = Control::Reply(reply);
        let read = decode_control(encode_control(&message).unwrap().into()).unwrap();
        prop_assert_eq!(format!("{:?}", read), format!("{:?}", message));
        let Control::Reply(InterruptReply { payload: Some(value), .. }) = message else { unreachable!() };
        let message = Control::Message(value);
        let read = decode_control(encode_control(&message).unwrap().into()).unwrap();
        prop_assert_eq!(format!("{:?}", read), format!("{:?}", message));
    }

    #[test]
    fn foreign_bytes_are_an_error_or_an_event(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        Decoder::default().decode(bytes.clone().into()).ok();
        decode_control(bytes.clone().into()).ok();
        let with_version = [&[VERSION], &*bytes].concat();
        Decoder::default().decode(with_version.into()).ok();
    }

    #[test]
    fn a_changed_byte_never_panics(
        source in arb_source_events(10),
        ending in arb_ending(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut decoder = Decoder::default();
        for mut record in encode(&run_to_end(source.into_iter().chain(ending))) {
            let at = at.index(record.len());
            record[at] = byte;
            decoder.decode(Bytes::from(record.clone())).ok();
            record.truncate(at);
            prop_assert!(decoder.decode(Bytes::from(record)).is_err());
        }
    }
}

#[test]
fn every_scenario_comes_back() {
    for (_, source) in scenarios() {
        comes_back(&run_to_end(source));
    }
}

#[test]
fn deltas_of_one_block_share_its_head_again() {
    let events = crate::testing::events(3);
    let heads: Vec<_> = decode(&encode(&events))
        .into_iter()
        .filter_map(|event| match event {
            BlockEvent::BlockDelta { block, .. } => Some(block),
            _ => None,
        })
        .collect();
    assert!(heads.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1])));
}

#[test]
fn an_unknown_version_is_named() {
    let error = Decoder::default().decode(Bytes::from_static(&[9, 0])).unwrap_err();
    assert_eq!(error, CodecError::UnknownVersion { found: 9 });
    assert!(error.to_string().contains("version 9"), "{error}");
    assert_eq!(
        decode_control(Bytes::from_static(&[0])).unwrap_err(),
        CodecError::UnknownVersion { found: 0 }
    );
}

#[test]
fn what_nests_too_deep_is_refused_on_both_ways() {
    let deep = (0..=MAX_DEPTH).fold(Value::Null, |value, _| Value::Array(vec![value]));
    let reply = InterruptReply { id: "i".into(), resolved: true, payload: Some(deep) };
    assert_eq!(encode_control(&Control::Reply(reply)).unwrap_err(), CodecError::TooDeep);
    // version, reply, id `i`, resolved, a payload of arrays of one element
    let mut bytes = vec![FIRST_VERSION, 1, 1, b'i', 1, 1];
    bytes.extend([7, 1].repeat(10 * MAX_DEPTH));
    assert_eq!(decode_control(bytes.into()).unwrap_err(), CodecError::TooDeep);
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// What a reader must find in the records, in words.
fn told(records: &[Vec<u8>]) -> String {
    let tell = |event: &BlockEvent| format!("{event:?} {:?}\n", agents(event));
    decode(records).iter().map(tell).collect()
}

/// Records as lines of hex.
fn read_records(name: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Bytes that version 1 wrote are read for ever. `UPDATE_EXPECT=1` writes the fixture, which must not be done once a
/// version is released: a change of the encoding is a new version with a fixture of its own.
#[test]
fn version_1_stays_readable() {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let records: Vec<_> =
            scenarios().into_iter().flat_map(|(_, source)| encode(&run_to_end(source))).collect();
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap();
        let hex = |byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
        let lines = records.iter().flat_map(|record| record.iter().flat_map(hex).chain(['\n']));
        std::fs::write(fixture("events-v1.hex"), lines.collect::<String>()).unwrap();
        std::fs::write(fixture("events-v1.txt"), told(&records)).unwrap();
    }
    let records = read_records("events-v1.hex");
    assert!(records.len() > 100 && records.iter().all(|record| record[0] == 1));
    assert_eq!(told(&records), std::fs::read_to_string(fixture("events-v1.txt")).unwrap());
}

/// A finish reason is what version 2 adds; everything else is written as before.
#[test]
fn version_2_stays_readable() {
    let mut finished = RunFinished::new(Arc::new(RunInfo::new("t", "r")), RunOutcome::Success);
    let plain = encode(&[BlockEvent::RunFinished(Box::new(finished.clone()))]);
    assert_eq!(plain[0][0], 1);
    finished.finish_reason = Some("stop".into());
    let event = BlockEvent::RunFinished(Box::new(finished));
    let records = read_records("events-v2.hex");
    assert_eq!(encode(std::slice::from_ref(&event)), records);
    assert_eq!(decode(&records), [event]);
    let cut = records[0][..records[0].len() - 1].to_vec();
    assert!(Decoder::default().decode(cut.into()).is_err());
}

//! Decoding and encoding of AG-UI.

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::decode::{Decoder, ProtoFrames};
use aqueduct_adapter_agui::fold::{Fold, patch as patches};
use aqueduct_adapter_agui::input::{read_input, run_agent_input, run_input};
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_adapter_agui::wire::{Event, PatchOperation, Strictness};
use aqueduct_core::SourceEvent;
use aqueduct_core::testing::{InvariantChecker, run_to_end};
use bytes::Bytes;
use serde_json::Value;

use super::lines;

const DIALECTS: [Dialect; 2] = [Dialect::V1_0, Dialect::V0_0_59];

/// Checks that the events of a decoder are balanced, and that clients accept their encoding.
fn check(decoder: &mut Decoder) {
    let events: Vec<SourceEvent> = std::iter::from_fn(|| decoder.poll_event()).collect();
    let events = run_to_end(events);
    InvariantChecker::check_all(&events).expect("balanced");
    for dialect in DIALECTS {
        let set = converters(&Settings::new(dialect));
        let mut out = Vec::new();
        for event in &events {
            set.convert(event, &mut out);
        }
        let found = verify(&out, dialect, Level::Client);
        assert!(found.is_empty(), "{dialect:?}: {found:?}");
    }
}

/// Decodes events as JSON lines.
pub(super) fn json(data: &[u8]) {
    let mut decoder = Decoder::new();
    for line in data.split(|byte| *byte == b'\n') {
        drop(decoder.handle_bytes(Bytes::copy_from_slice(line)));
    }
    check(&mut decoder);
}

/// Decodes protobuf frames.
pub(super) fn proto(data: &[u8]) {
    let (mut decoder, mut frames) = (Decoder::new(), ProtoFrames::default());
    frames.handle_bytes(data);
    while let Ok(Some(frame)) = frames.poll_frame() {
        drop(decoder.handle_frame(frame));
    }
    check(&mut decoder);
}

/// Parses the input of a run, and converts it for the agent.
pub(super) fn input(data: &[u8]) {
    let Ok(input) = read_input(data) else { return };
    let input = run_input(input);
    for dialect in DIALECTS {
        let upstream = serde_json::to_vec(&run_agent_input(&input, dialect)).expect("written");
        read_input(&upstream).expect("what goes upstream can be read");
    }
}

/// Applies the operations of the second line to the value of the first.
pub(super) fn patch(data: &[u8]) {
    let mut lines = lines(data);
    let mut next = || serde_json::from_str::<Value>(lines.next()?).ok();
    let (Some(mut target), Some(Value::Array(operations))) = (next(), next()) else { return };
    let object = |value: Value| match value {
        Value::Object(members) => Some(PatchOperation(members)),
        _ => None,
    };
    let operations: Vec<PatchOperation> = operations.into_iter().filter_map(object).collect();
    let before = target.clone();
    if patches::apply(&mut target, &operations).is_err() {
        assert_eq!(target, before, "a patch that is refused changes nothing");
    }
}

/// Folds events into messages and state.
pub(super) fn fold(data: &[u8]) {
    let mut fold = Fold::new();
    for line in lines(data) {
        if let Ok(event) = Event::from_json(line, Strictness::Forgiving) {
            fold.handle_event(&event);
        }
    }
    for dialect in DIALECTS {
        drop(fold.messages(dialect));
    }
    fold.shorten(64);
    drop(fold.messages(Dialect::V1_0));
}

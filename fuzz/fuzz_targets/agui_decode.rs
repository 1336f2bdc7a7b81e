//! AG-UI of any shape, as lines of JSON and as protobuf frames: decoding never panics, and what comes of it is balanced.
#![no_main]

use aqueduct_adapter_agui::decode::{Decoder, ProtoFrames};
use aqueduct_core::SourceEvent;
use aqueduct_core::testing::{InvariantChecker, run_to_end};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fn check(decoder: &mut Decoder) {
    let events: Vec<SourceEvent> = std::iter::from_fn(|| decoder.poll_event()).collect();
    InvariantChecker::check_all(&run_to_end(events)).expect("balanced");
}

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        drop(decoder.handle_bytes(Bytes::copy_from_slice(line)));
    }
    check(&mut decoder);

    let (mut decoder, mut frames) = (Decoder::new(), ProtoFrames::default());
    frames.handle_bytes(bytes);
    while let Ok(Some(frame)) = frames.poll_frame() {
        drop(decoder.handle_frame(frame));
    }
    check(&mut decoder);
});

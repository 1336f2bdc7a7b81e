//! Every recorded stream has the expected trace, however its bytes are cut into reads.

use aqueduct_adapter_a2a::DecodeConfig;

use crate::support::{Splitter, assert_golden, decode, split, streams, traced};

#[test]
fn every_recorded_stream_has_its_trace() {
    for (name, bytes) in streams() {
        let trace = traced(decode(&split(&bytes), DecodeConfig::root()));
        assert_golden(&name, &trace);
    }
}

#[test]
fn reads_may_end_at_any_byte() {
    for (name, bytes) in streams() {
        let whole = split(&bytes);
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            let mut events = Vec::new();
            let mut splitter = Splitter::default();
            splitter.feed(head, &mut events);
            splitter.feed(tail, &mut events);
            splitter.end(&mut events);
            // Equal payloads give equal traces: the decoder has no other input.
            assert!(events == whole, "{name} at {at}");
        }
    }
}

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

/// 0.3 servers print REST events over many `data:` lines.
#[test]
fn an_event_may_span_many_lines() {
    let one_line =
        split(b"data: {\"message\": {\"messageId\": \"m\", \"content\": [{\"text\": \"hi\"}]}}\n\n");
    let many = split(b"data: {\r\ndata:  \"message\": {\"messageId\": \"m\",\r\ndata:   \"content\": [{\"text\": \"hi\"}]}\r\ndata: }\r\n\r\n");
    let trace = |events: &[crate::support::Event]| traced(decode(events, DecodeConfig::root()));
    assert_eq!(trace(&many), trace(&one_line));
    assert!(trace(&many).contains("\"hi\""));
}

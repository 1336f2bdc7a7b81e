//! Recorded streams, decoded and encoded again: the client sees the same, in both dialects and encodings, and what was
//! illegal comes out repaired.

use crate::support::fold::{Client, fold};
use crate::support::{self, Recorded, recorded};
use aqueduct_adapter_agui::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::{View, converters};
use aqueduct_adapter_agui::decode::{Decoder, ProtoFrames, read_payload};
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::testing::{InvariantChecker, run_context};
use aqueduct_core::{BlockEvent, RunInfo, SourceEvent, StreamContext, ToolCallId};

fn decoded(stream: &Recorded) -> Vec<SourceEvent> {
    let mut decoder = Decoder::new();
    if let Some(input) = &stream.input {
        decoder = decoder.with_input(input);
    }
    let mut out = Vec::new();
    for payload in &stream.payloads {
        // What follows the end of a run is refused, and nothing else is.
        if let Err(error) = decoder.handle_payload(&payload.as_str().into()) {
            assert!(decoder.is_ended(), "{}: {error}", stream.name);
        }
        out.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    out
}

fn balanced(stream: &Recorded) -> Vec<BlockEvent> {
    let calls = earlier_calls(stream);
    let context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls(&calls);
    let events = run_context(context, decoded(stream));
    let mut checker = InvariantChecker::new().with_known_calls(calls);
    for event in &events {
        checker.check(event).unwrap_or_else(|violation| panic!("{}: {violation:?}", stream.name));
    }
    events
}

/// A second run answers calls of the first.
fn earlier_calls(stream: &Recorded) -> Vec<ToolCallId> {
    if stream.name.ends_with(".resume") {
        stream.events().iter().filter_map(result_of).collect()
    } else {
        Vec::new()
    }
}

fn result_of(event: &Event) -> Option<ToolCallId> {
    match event {
        Event::ToolCallResult(result) => Some(ToolCallId::new(result.tool_call_id.clone())),
        _ => None,
    }
}

fn converted(stream: &Recorded, settings: Settings) -> Vec<Event> {
    let mut set = View::new(&settings);
    let mut out = Vec::new();
    for event in balanced(stream) {
        set.convert(&event, &mut out);
    }
    out
}

fn same(name: &str, before: &Client, after: &Client) {
    for role in ["assistant", "reasoning", "tool"] {
        assert_eq!(after.said(role), before.said(role), "{name}: {role}");
    }
    assert_eq!(after.called(), before.called(), "{name}");
    assert_eq!(after.cards(), before.cards(), "{name}");
    assert_eq!(after.state, before.state, "{name}");
    assert_eq!(after.error, before.error, "{name}");
    assert_eq!(after.interrupts, before.interrupts, "{name}");
    assert_eq!(after.finished, before.finished, "{name}");
}

/// A stream up to its terminal event: what a client would have seen if nothing followed.
fn legal(stream: &Recorded) -> Vec<Event> {
    let mut events = stream.events();
    let end = events.iter().position(|e| matches!(e, Event::RunFinished(_) | Event::RunError(_))).unwrap();
    events.truncate(end + 1);
    events
}

#[test]
fn every_stream_shows_the_same_messages() {
    for stream in recorded() {
        let before = fold(&legal(&stream));
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let settings = Settings::new(dialect)
                .with_subagents(Subagents::Attributed)
                .with_errors(Errors::Error)
                .with_interrupts(Interrupts::Interrupt);
            let out = converted(&stream, settings);
            same(&stream.name, &before, &fold(&out));
        }
    }
}

#[test]
fn every_stream_comes_out_without_a_violation() {
    for stream in recorded() {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            for subagents in [Subagents::Attributed, Subagents::Inline, Subagents::Hidden] {
                let out = converted(&stream, Settings::new(dialect).with_subagents(subagents));
                let mut found = verify(&out, dialect, Level::Strict);
                // A second run answers calls that the verifier was not told of.
                found.retain(|violation| violation.rule.id() != "result-without-call");
                assert!(found.is_empty(), "{}: {found:#?}", stream.name);
            }
        }
    }
}

#[test]
fn both_encodings_carry_the_same() {
    for stream in recorded() {
        let out = converted(&stream, Settings::new(Dialect::V1_0));
        let (mut json, mut proto) = (Vec::new(), Vec::new());
        for event in &out {
            let mut payload = Vec::new();
            encode::json(event, &mut payload).unwrap();
            json.push(read_payload(&String::from_utf8(payload).unwrap().into()).unwrap());
            encode::proto_frame(event, &mut proto).unwrap();
        }
        assert_eq!(json, out, "{}", stream.name);
        let mut frames = ProtoFrames::default();
        let mut read = Vec::new();
        for part in proto.chunks(7) {
            frames.handle_bytes(part);
            while let Some(frame) = frames.poll_frame().unwrap() {
                read.push(aqueduct_adapter_agui::proto::decode_event(frame).unwrap());
            }
        }
        frames.handle_end().unwrap();
        same(&stream.name, &fold(&out), &fold(&read));
    }
}

#[test]
fn our_own_output_is_read_back() {
    for stream in recorded() {
        let out = converted(&stream, Settings::new(Dialect::V1_0));
        let mut decoder = Decoder::new();
        let mut again = Vec::new();
        for event in out.clone() {
            decoder.handle_event(event).unwrap();
            again.extend(std::iter::from_fn(|| decoder.poll_event()));
        }
        let set = converters(&Settings::new(Dialect::V1_0));
        let mut second = Vec::new();
        let context = StreamContext::new(RunInfo::new("thread", "again"));
        let calls: Vec<_> = out.iter().filter_map(result_of).collect();
        let context =
            if stream.name.ends_with(".resume") { context.with_known_calls(&calls) } else { context };
        for event in run_context(context, again) {
            set.convert(&event, &mut second);
        }
        same(&stream.name, &fold(&out), &fold(&second));
    }
}

/// However the bytes of a response are cut, the verifier and the framing see the same.
#[test]
fn cuts_do_not_matter() {
    use aqueduct_adapter_agui::verify::{SseSplitter, TextVerifier, Verifier};
    for stream in recorded() {
        let path = support::fixtures().join(format!("{}.sse", stream.name));
        let bytes = std::fs::read(path).unwrap();
        let whole = aqueduct_adapter_agui::verify::verify_sse(&bytes, Dialect::V1_0, Level::Strict);
        let mut cut = TextVerifier::new(Verifier::new(Dialect::V1_0, Level::Strict));
        for byte in &bytes {
            cut.handle_bytes(&[*byte]);
        }
        assert_eq!(cut.handle_end(), whole, "{}", stream.name);
        // Each place of the first frames, on its own.
        for at in 0..bytes.len().min(600) {
            let mut frames = Vec::new();
            let mut splitter = SseSplitter::default();
            splitter.handle_bytes(&bytes[..at], &mut frames);
            splitter.handle_bytes(&bytes[at..], &mut frames);
            splitter.handle_end(&mut frames);
            let data: Vec<_> = frames.into_iter().map(|frame| frame.data.unwrap()).collect();
            assert_eq!(data, stream.payloads, "{} cut at {at}", stream.name);
        }
    }
}

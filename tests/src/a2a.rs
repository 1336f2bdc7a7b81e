//! Canonical events as A2A streams and back, and recorded A2A streams carried through the stream machine.

use aqueduct_adapter_a2a::ItemWriter;
use aqueduct_adapter_a2a::config::{DecodeConfig, Settings};
use aqueduct_adapter_a2a::convert::converters;
use aqueduct_adapter_a2a::decode::Decoder;
use aqueduct_adapter_a2a::wire::{Dialect, Frame, StreamItem};
use aqueduct_core::{BlockEvent, ByteString, RunInfo, StreamContext, ToolCallId};
use aqueduct_transport_http::sse;

/// The dialect that a recorded stream is in, by its name.
pub fn dialect_of(fixture: &str) -> Dialect {
    match fixture {
        name if name.starts_with("v03compat-rest") || name.starts_with("v03-rest") => Dialect::V03Rest,
        name if name.starts_with("v03") => Dialect::V03JsonRpc,
        _ => Dialect::V1,
    }
}

/// The A2A stream of a run.
pub fn convert(events: &[BlockEvent], run: &RunInfo) -> Vec<StreamItem<'static>> {
    let settings = Settings::of_run(run);
    let mut writer = ItemWriter::new(converters(&settings), settings.notes);
    let mut out = Vec::new();
    for event in events {
        writer.handle_event(event, &mut out);
    }
    out
}

/// The items, one JSON object of A2A 1.0 per line.
pub fn json_lines(items: &[StreamItem<'_>]) -> String {
    let mut lines = String::new();
    for item in items {
        lines.push_str(&item.to_json(Dialect::V1).to_string());
        lines.push('\n');
    }
    lines
}

/// What an A2A client of ours makes of such lines.
pub fn decode_lines(lines: &str) -> Vec<BlockEvent> {
    decode_lines_after(lines, &[])
}

/// What an A2A client of ours makes of such lines in a thread that has made these calls before.
pub fn decode_lines_after(lines: &str, known: &[ToolCallId]) -> Vec<BlockEvent> {
    let payloads = lines.lines().map(ByteString::from).collect::<Vec<_>>();
    run(Dialect::V1, payloads.iter().map(Frame::data), known)
}

/// A recorded SSE body, carried through the stream machine.
pub fn decode_sse(body: &[u8], dialect: Dialect) -> Vec<BlockEvent> {
    let mut decoder = sse::Decoder::default();
    let mut frames = Vec::new();
    decoder.handle_chunk(bytes::Bytes::copy_from_slice(body));
    decoder.handle_eof();
    while let Some(event) = decoder.poll_event() {
        let event = event.unwrap();
        frames.push((event.event.clone(), event.data.clone()));
    }
    run(dialect, frames.iter().map(|(event, data)| Frame { event: event.as_deref(), data }), &[])
}

fn run<'a>(
    dialect: Dialect,
    frames: impl Iterator<Item = Frame<'a>>,
    known: &[ToolCallId],
) -> Vec<BlockEvent> {
    let mut decoder = Decoder::new(DecodeConfig { dialect, ..DecodeConfig::root() });
    let mut said = Vec::new();
    for frame in frames {
        decoder.handle_frame(frame, &mut said);
    }
    decoder.handle_end(&mut said);
    let mut context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls(known);
    for event in said {
        if !context.is_ended() {
            context.handle_event(event).unwrap();
        }
    }
    context.handle_eof();
    std::iter::from_fn(|| context.poll_event()).collect()
}

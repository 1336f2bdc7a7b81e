//! Canonical events as AG-UI bodies, in every dialect, setting and encoding.

use std::fmt::Write as _;

use aqueduct_adapter_agui::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::View;
use aqueduct_adapter_agui::decode::Decoder;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::verify::SseSplitter;
use aqueduct_adapter_agui::wire::{Event, Message, RunAgentInput};
use aqueduct_core::{BlockEvent, ByteString, IntermediateView, RunInfo, StreamContext, ToolCallId};
use serde_json::Value;

/// The settings of a dialect that add no words of our own: what a client holds is what the source sent.
pub fn plain(dialect: Dialect) -> Settings {
    Settings::new(dialect).with_errors(Errors::Error).with_labels(false)
}

/// The defaults of both dialects, and every combination of settings that add no words.
pub fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        all.push(Settings::new(dialect));
        for subagents in [Subagents::Attributed, Subagents::Inline, Subagents::Tool, Subagents::Hidden] {
            for intermediate in
                [IntermediateView::Reasoning, IntermediateView::Text, IntermediateView::Hidden]
            {
                for interrupts in [Interrupts::Interrupt, Interrupts::Text] {
                    let settings = plain(dialect).with_subagents(subagents);
                    all.push(settings.with_intermediate(intermediate).with_interrupts(interrupts));
                }
            }
        }
    }
    all
}

/// The AG-UI events of a stream.
pub fn convert(events: &[BlockEvent], settings: &Settings) -> Vec<Event> {
    let (mut view, mut out) = (View::new(settings), Vec::new());
    for event in events {
        view.convert(event, &mut out);
    }
    out
}

/// The events, one JSON object per line.
pub fn json_lines(events: &[Event]) -> String {
    let mut lines = Vec::new();
    for event in events {
        encode::json(event, &mut lines).unwrap();
        lines.push(b'\n');
    }
    String::from_utf8(lines).unwrap()
}

/// Any JSON values as the body of an SSE response, legal or not.
pub fn sse_frames(events: &[Value]) -> String {
    let mut body = String::new();
    for event in events {
        writeln!(body, "data: {event}\n").unwrap();
    }
    body
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// The body of an SSE response.
pub fn sse_body(events: &[Event]) -> String {
    let mut body = Vec::new();
    for event in events {
        encode::sse(event, None, &mut body).unwrap();
    }
    String::from_utf8(body).unwrap()
}

/// The body of a protobuf response.
pub fn proto_body(events: &[Event]) -> Vec<u8> {
    let mut body = Vec::new();
    for event in events {
        encode::proto_frame(event, &mut body).unwrap();
    }
    body
}

/// Returns the content of an AG-UI stream after the stream machine, in a thread that has made these calls before.
pub fn decode_sse(body: &[u8], input: Option<&RunAgentInput>, known: &[ToolCallId]) -> Vec<BlockEvent> {
    let mut decoder = input.map_or_else(Decoder::new, |input| Decoder::new().with_input(input));
    let (mut splitter, mut frames) = (SseSplitter::default(), Vec::new());
    splitter.handle_bytes(body, &mut frames);
    splitter.handle_end(&mut frames);
    let (thread, run) = input.map_or(("thread", "run"), |input| (&*input.thread_id, &*input.run_id));
    let mut context =
        StreamContext::new(RunInfo::new(thread.to_owned(), run.to_owned())).with_known_calls(known);
    if let Some(input) = input {
        context = context.with_kept_ids(input.messages.iter().map(Message::id));
    }
    for frame in frames {
        // Input of a broken source after its end is reported as an error, and is not part of the run.
        if decoder.is_ended() {
            break;
        }
        decoder.handle_payload(&ByteString::from(frame.data.unwrap())).unwrap();
        while let Some(event) = decoder.poll_event() {
            if !context.is_ended() {
                context.handle_event(event).unwrap();
            }
        }
    }
    context.handle_eof();
    std::iter::from_fn(|| context.poll_event()).collect()
}

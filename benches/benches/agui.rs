//! AG-UI: encoding, and the whole path in memory, as ratios to the real `@ag-ui/encoder` in the same run.
//!
//! The work is the same for all: 200,000 events, nine of ten of them text deltas of about 20 bytes, as SSE frames.
//! `cargo xtask bench agui` installs the peer; without it only our own figures are printed.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_benches::{Figure, measure, print_figure, print_head};
use aqueduct_core::{BlockEvent, ByteString, ContentBlock, RunInfo, StreamContext, Update};

const EVENTS: usize = 200_000;
/// The size at which the buffer is flushed and reused, as in a transport.
const CHUNK: usize = 16 * 1024;

fn main() {
    let events: Vec<Event> = agui_events(&blocks(updates(EVENTS, true)));
    let deltas: Vec<Event> = agui_events(&blocks(updates(EVENTS, false)));
    let count = events.len();
    let peer = peer_nanoseconds(&events);
    print_head("AG-UI, SSE frames into a reused buffer");
    let report = |case: &str, figure: &Figure| {
        print_figure(case, figure);
        if let Some(peer) = peer {
            println!("{:<44} {:>10} {:>9.1}x @ag-ui/encoder", "", "", peer / figure.nanoseconds());
        }
    };
    report("encode, text deltas only", &measure(deltas.len(), || (), |()| encode_all(&deltas)));
    report("encode, 90 % text deltas", &measure(count, || (), |()| encode_all(&events)));
    let events = blocks(updates(EVENTS, false));
    report("convert and encode, text deltas only", &measure(events.len(), || (), |()| carry(&events)));
    let whole = measure(EVENTS, || updates(EVENTS, false), whole_path);
    report("update to bytes, text deltas only", &whole);
    let whole = measure(EVENTS, || updates(EVENTS, true), whole_path);
    report("update to bytes, 90 % text deltas", &whole);
    match peer {
        Some(peer) => println!("\n@ag-ui/encoder: {peer:.0} ns/event over the same {count} events"),
        None => println!("\n@ag-ui/encoder was not measured: run `cargo xtask bench agui`"),
    }
}

fn updates(count: usize, with_tools: bool) -> Vec<Update> {
    let text = ByteString::from("some twenty bytes, ok");
    let message = ByteString::from("message-1");
    let update = |n: usize| {
        let call = format!("call-{}", n / 20);
        match n % 20 {
            18 if with_tools => Update::new(ContentBlock::tool_use(call, "search", r#"{"query":"rust"}"#)),
            19 if with_tools => Update::new(ContentBlock::tool_result(call, "found")),
            _ => Update::text(text.clone()).in_message(message.clone()),
        }
    };
    (0..count).map(update).collect()
}

fn blocks(updates: Vec<Update>) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for update in updates {
        if let Err(error) = context.handle_update(update) {
            context.handle_failure((&error).into());
        }
    }
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn agui_events(blocks: &[BlockEvent]) -> Vec<Event> {
    let set = converters(&Settings::new(Dialect::V1_0));
    let mut events = Vec::new();
    for block in blocks {
        set.convert(block, &mut events);
    }
    events
}

fn encode_all(events: &[Event]) -> usize {
    let mut written = 0;
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    for event in events {
        write(event, &mut buffer, &mut written);
    }
    written + buffer.len()
}

/// Encodes canonical events.
fn carry(blocks: &[BlockEvent]) -> usize {
    let set = converters(&Settings::new(Dialect::V1_0));
    let mut written = 0;
    let mut events = Vec::new();
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    for block in blocks {
        set.convert(block, &mut events);
        for event in events.drain(..) {
            write(&event, &mut buffer, &mut written);
        }
    }
    written + buffer.len()
}

/// Carries updates through the stream machine, the converters and the encoder.
fn whole_path(updates: Vec<Update>) -> usize {
    let set = converters(&Settings::new(Dialect::V1_0));
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    let mut written = 0;
    let mut events = Vec::new();
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    for update in updates {
        if let Err(error) = context.handle_update(update) {
            context.handle_failure((&error).into());
        }
        while let Some(block) = context.poll_event() {
            set.convert(&block, &mut events);
            for event in events.drain(..) {
                write(&event, &mut buffer, &mut written);
            }
        }
    }
    written + buffer.len()
}

fn write(event: &Event, buffer: &mut Vec<u8>, written: &mut usize) {
    if let Err(error) = encode::sse(event, None, buffer) {
        println!("not encoded: {error}");
    }
    if buffer.len() > CHUNK {
        *written += buffer.len();
        buffer.clear();
    }
}

/// Measures the same work in the real encoder.
fn peer_nanoseconds(events: &[Event]) -> Option<f64> {
    let project = env::var_os("AQUEDUCT_INTEROP_AGUI_1_0")?;
    let scripts = PathBuf::from(env::var_os("AQUEDUCT_INTEROP_DIR")?).join("agui");
    let file = PathBuf::from(env::var_os("AQUEDUCT_INTEROP_CASES")?).join("bench-events.jsonl");
    let mut lines = Vec::new();
    for event in events {
        encode::json(event, &mut lines).ok()?;
        lines.push(b'\n');
    }
    fs::write(&file, lines).ok()?;
    let output = Command::new("node")
        .arg(scripts.join("bench.mjs"))
        .arg("--project")
        .arg(project)
        .arg(file)
        .output()
        .ok()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    report.get("nsPerEvent")?.as_f64()
}

//! A2A: decoding, and the whole path in memory, as ratios to the real `@a2a-js/sdk` and `@ag-ui/a2a` in the same run.
//!
//! The work is the same for all: an SSE body of 200,000 artifact chunks of about 20 bytes, in memory. Peers also frame and
//! parse. Our decoder recognises a chunk by the bytes it shares with the previous one; frames that differ in more than their
//! text have a row of their own. `cargo xtask bench a2a` installs the peers; without them only our own figures are printed.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aqueduct_adapter_a2a::wire::{Dialect, Frame};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder};
use aqueduct_adapter_agui::config::{Dialect as AguiDialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event as AguiEvent;
use aqueduct_benches::{Figure, measure, print_figure, print_head};
use aqueduct_core::{ConverterSet, RunInfo, SourceEvent, StreamContext};
use aqueduct_transport_http::sse;
use bytes::Bytes;
use serde_json::{Value, json};

const FRAMES: usize = 200_000;
/// The size of a read, as from a socket.
const CHUNK: usize = 64 * 1024;

fn main() {
    let bodies = [
        ("1.0", Dialect::V1, body(Dialect::V1, FRAMES, Frames::Alike)),
        ("0.3", Dialect::V03JsonRpc, body(Dialect::V03JsonRpc, FRAMES, Frames::Alike)),
    ];
    let sdk = peer_nanoseconds("decode", &bodies[0].2);
    let bridge = peer_nanoseconds("bridge", &bodies[1].2);
    print_head("A2A, SSE bytes from memory");
    let report = |case: &str, figure: &Figure, peer: Option<f64>, name: &str| {
        print_figure(case, figure);
        if let Some(peer) = peer {
            println!("{:<44} {:>10} {:>9.1}x {name}", "", "", peer / figure.nanoseconds());
        }
    };
    for (version, dialect, body) in &bodies {
        let figure = measure(FRAMES, || body.clone(), |body| decode(&body, *dialect));
        report(&format!("decode {version} to source events"), &figure, sdk, "@a2a-js/sdk");
    }
    for (name, frames) in
        [("escapes in half of the words", Frames::Escaped), ("no two envelopes alike", Frames::Unlike)]
    {
        let body = body(Dialect::V1, FRAMES, frames);
        let figure = measure(FRAMES, || body.clone(), |body| decode(&body, Dialect::V1));
        report(&format!("decode 1.0, {name}"), &figure, None, "");
    }
    let mut writer = Writer {
        set: converters(&Settings::new(AguiDialect::V1_0)),
        shown: Vec::new(),
        out: Vec::with_capacity(2 * CHUNK),
    };
    for (version, dialect, body) in &bodies {
        let figure = measure(FRAMES, || body.clone(), |body| carry(&body, *dialect, &mut writer));
        report(&format!("{version} frame to AG-UI bytes"), &figure, bridge, "@ag-ui/a2a + @ag-ui/encoder");
    }
    for frames in [10, 1_000, 100_000] {
        let short = body(Dialect::V1, frames, Frames::Alike);
        let rounds = FRAMES / frames;
        let work = |body: Bytes| (0..rounds).map(|_| decode(&body, Dialect::V1)).sum::<usize>();
        let figure = measure(frames * rounds, || short.clone(), work);
        print_figure(&format!("decode 1.0, tasks of {frames} chunks"), &figure);
        let work = |body: Bytes| (0..rounds).map(|_| carry(&body, Dialect::V1, &mut writer)).sum::<usize>();
        let figure = measure(frames * rounds, || short.clone(), work);
        print_figure(&format!("1.0 frame to AG-UI bytes, tasks of {frames}"), &figure);
    }
    for (name, peer) in [("@a2a-js/sdk, decode 1.0", sdk), ("@ag-ui/a2a + @ag-ui/encoder, 0.3", bridge)] {
        match peer {
            Some(peer) => println!("{name}: {peer:.0} ns/event over the same bytes"),
            None => println!("{name}: not measured, run `cargo xtask bench a2a`"),
        }
    }
}

/// The difference between the chunks of a body.
#[derive(Clone, Copy, PartialEq)]
enum Frames {
    /// None but the text.
    Alike,
    /// Every other one has a line break in its text.
    Escaped,
    /// Each has an id of its own.
    Unlike,
}

/// Returns the body of a task that answers in chunks.
fn body(dialect: Dialect, chunks: usize, frames: Frames) -> Bytes {
    let mut body = String::new();
    let mut count = 0;
    let mut push = |item: Value| {
        count += usize::from(count == 0 || frames == Frames::Unlike);
        let frame = json!({"jsonrpc": "2.0", "id": count, "result": item});
        body.extend(["data: ", &frame.to_string(), "\n\n"]);
    };
    let is_v1 = dialect == Dialect::V1;
    let ids = json!({"taskId": "task-1", "contextId": "context-1"});
    let item = |kind: &str, name: &str, mut content: Value| {
        if let (Some(content), Some(ids)) = (content.as_object_mut(), ids.as_object()) {
            if kind != "task" {
                content.extend(ids.clone());
            }
            if !is_v1 {
                content.insert("kind".to_owned(), kind.into());
            }
        }
        if is_v1 { json!({ name: content }) } else { content }
    };
    let working = if is_v1 { "TASK_STATE_WORKING" } else { "working" };
    let task = json!({"id": "task-1", "contextId": "context-1", "status": {"state": working}});
    push(item("task", "task", task));
    for chunk in 0..chunks {
        let is_escaped = frames == Frames::Escaped && chunk % 2 > 0;
        let text = if is_escaped { "some twenty bytes, o\n" } else { "some twenty bytes, ok" };
        let part = if is_v1 { json!({ "text": text }) } else { json!({"kind": "text", "text": text}) };
        let artifact = json!({"artifactId": "artifact-1", "parts": [part]});
        push(item("artifact-update", "artifactUpdate", json!({"artifact": artifact, "append": chunk > 0})));
    }
    let done = if is_v1 { "TASK_STATE_COMPLETED" } else { "completed" };
    push(item("status-update", "statusUpdate", json!({"status": {"state": done}})));
    body.into()
}

/// Decodes SSE bytes into source events.
fn decode(body: &Bytes, dialect: Dialect) -> usize {
    let mut seen = 0;
    read(body, dialect, |events| seen += events.drain(..).count());
    seen
}

/// The state of a server that its tasks share.
struct Writer {
    set: ConverterSet<AguiEvent>,
    shown: Vec<AguiEvent>,
    out: Vec<u8>,
}

/// Converts SSE bytes of A2A to SSE bytes of AG-UI.
fn carry(body: &Bytes, dialect: Dialect, writer: &mut Writer) -> usize {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    let Writer { set, shown, out } = writer;
    let mut written = 0;
    read(body, dialect, |events| {
        for event in events.drain(..) {
            if let Err(error) = context.handle_event(event) {
                context.handle_failure((&error).into());
            }
            while let Some(block) = context.poll_event() {
                set.convert(&block, shown);
                for event in shown.drain(..) {
                    if let Err(error) = encode::sse(&event, None, out) {
                        println!("not encoded: {error}");
                    }
                }
            }
        }
        if out.len() > CHUNK {
            written += out.len();
            out.clear();
        }
    });
    written += out.len();
    out.clear();
    written
}

fn read(body: &Bytes, dialect: Dialect, mut take: impl FnMut(&mut Vec<SourceEvent>)) {
    let mut framing = sse::Decoder::default();
    let mut decoder = Decoder::new(DecodeConfig { dialect, ..DecodeConfig::root() });
    let mut events = Vec::new();
    for at in (0..body.len()).step_by(CHUNK) {
        framing.handle_chunk(body.slice(at..body.len().min(at + CHUNK)));
        while let Some(Ok(event)) = framing.poll_event() {
            decoder.handle_frame(Frame { event: event.event.as_deref(), data: &event.data }, &mut events);
            take(&mut events);
        }
    }
    decoder.handle_end(&mut events);
    take(&mut events);
}

/// Measures the same work in a real package.
fn peer_nanoseconds(what: &str, body: &Bytes) -> Option<f64> {
    let project = env::var_os("AQUEDUCT_BENCH_A2A")?;
    let scripts = PathBuf::from(env::var_os("AQUEDUCT_INTEROP_DIR")?).join("a2a");
    let file = env::temp_dir().join(format!("aqueduct-bench-{}-{what}.sse", std::process::id()));
    fs::write(&file, body).ok()?;
    let node = Command::new("node")
        .arg(scripts.join("bench.mjs"))
        .arg("--project")
        .arg(project)
        .arg(what)
        .arg(&file)
        .output();
    fs::remove_file(&file).ok()?;
    let output = node.ok()?;
    if !output.status.success() {
        println!("{what}: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice::<Value>(&output.stdout).ok()?.get("nsPerEvent")?.as_f64()
}

//! A small SSE splitter and ways to run a stream to its end.

use std::io::BufRead as _;
use std::path::PathBuf;

use aqueduct_adapter_a2a::wire::Frame;
use aqueduct_adapter_a2a::{DecodeConfig, Decoder};
use aqueduct_core::testing::{InvariantChecker, run_to_end, trace};
use aqueduct_core::{BlockEvent, ByteString, SourceEvent};

/// One SSE event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: ByteString,
}

/// Splits a byte stream, in whatever pieces it comes, into SSE events.
#[derive(Default, Clone)]
pub(crate) struct Splitter {
    buffer: Vec<u8>,
    name: Option<String>,
    data: Vec<String>,
}

impl Splitter {
    pub(crate) fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) {
        while !bytes.is_empty() {
            bytes.read_until(b'\n', &mut self.buffer).unwrap();
            if self.buffer.ends_with(b"\n") {
                let line = std::mem::take(&mut self.buffer);
                self.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']), events);
            }
        }
    }

    /// The end of the stream: an event that was not terminated counts.
    pub(crate) fn end(mut self, events: &mut Vec<Event>) {
        let rest = std::mem::take(&mut self.buffer);
        if !rest.is_empty() {
            self.line(String::from_utf8_lossy(&rest).trim_end_matches('\r'), events);
        }
        self.line("", events);
    }

    fn line(&mut self, line: &str, events: &mut Vec<Event>) {
        if line.is_empty() {
            if !self.data.is_empty() {
                events.push(Event {
                    name: self.name.take(),
                    data: std::mem::take(&mut self.data).join("\n").into(),
                });
            }
            self.name = None;
        } else if let Some(data) = line.strip_prefix("data:") {
            self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned());
        } else if let Some(name) = line.strip_prefix("event:") {
            self.name = Some(name.trim().to_owned());
        }
    }
}

/// All events of a whole body.
pub(crate) fn split(bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut splitter = Splitter::default();
    splitter.feed(bytes, &mut events);
    splitter.end(&mut events);
    events
}

/// Decodes events to the end of the stream.
pub(crate) fn decode(events: &[Event], config: DecodeConfig) -> Vec<SourceEvent> {
    let mut decoder = Decoder::new(config);
    let mut out = Vec::new();
    for event in events {
        decoder.handle_frame(Frame { event: event.name.as_deref(), data: &event.data }, &mut out);
    }
    decoder.handle_end(&mut out);
    out
}

/// Decodes JSON payloads to the end of the stream.
pub(crate) fn decode_json(payloads: &[serde_json::Value], config: DecodeConfig) -> Vec<SourceEvent> {
    let events: Vec<_> =
        payloads.iter().map(|json| Event { name: None, data: json.to_string().into() }).collect();
    decode(&events, config)
}

/// The balanced events, checked.
pub(crate) fn balanced(events: Vec<SourceEvent>) -> Vec<BlockEvent> {
    let events = run_to_end(events);
    InvariantChecker::check_all(&events).unwrap();
    events
}

/// The balanced events as text.
pub(crate) fn traced(events: Vec<SourceEvent>) -> String {
    trace(&balanced(events))
}

pub(crate) fn fixture_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/a2a")
}

/// The recorded streams, by name.
pub(crate) fn streams() -> Vec<(String, Vec<u8>)> {
    let mut streams: Vec<_> = std::fs::read_dir(fixture_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    streams.sort();
    assert!(streams.len() > 40, "the fixtures are there");
    streams
}

/// Compares with a golden file; `UPDATE_EXPECT=1` writes it.
#[track_caller]
pub(crate) fn assert_golden(name: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(format!("{name}.trace"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{name}: run with UPDATE_EXPECT=1 and look at what changed");
}

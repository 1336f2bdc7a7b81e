//! Drives a decoder and a stream machine over lines, one machine per run of the conversation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use aqueduct_adapter_magentic::{Config, Decoder};
use aqueduct_core::testing::InvariantChecker;
use aqueduct_core::{
    BlockEvent, BlockId, ByteString, Channel, CompletedRun, RunInfo, RunMerger, SourceEvent, SpanKind,
    StreamContext,
};
use serde_json::{Value, json};

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/magentic")
}

/// The lines of a fixture. A file that holds a JSON list has an item per line.
pub(crate) fn fixture(name: &str) -> Vec<ByteString> {
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    if let Ok(Value::Array(items)) = serde_json::from_str(&text) {
        return items.iter().map(|item| ByteString::from(item.to_string())).collect();
    }
    text.lines().map(ByteString::from).collect()
}

/// The names of all fixtures, sorted.
pub(crate) fn fixture_names() -> Vec<String> {
    let entries = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries
        .map(|name| name.into_string().unwrap())
        .filter(|n| n.contains(".json") && n != "expected.jsonl")
        .collect();
    names.sort();
    names
}

/// One run: what the decoder said, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) said: Vec<SourceEvent>,
    pub(crate) events: Vec<BlockEvent>,
}

/// Decodes lines; every run is checked to be well-formed.
pub(crate) fn runs(lines: &[ByteString]) -> Vec<Run> {
    runs_with(Config::default(), lines)
}

pub(crate) fn runs_with(config: Config, lines: &[ByteString]) -> Vec<Run> {
    let mut driver = Driver::new(config);
    for line in lines {
        driver.decoder.handle_line(line).unwrap();
        driver.pump();
    }
    driver.finish()
}

pub(crate) struct Driver {
    pub(crate) decoder: Decoder,
    context: Option<StreamContext>,
    runs: Vec<Run>,
}

impl Driver {
    pub(crate) fn new(config: Config) -> Self {
        Self { decoder: Decoder::new(config), context: None, runs: Vec::new() }
    }

    pub(crate) fn pump(&mut self) {
        while let Some(event) = self.decoder.poll_event() {
            if self.context.as_ref().is_none_or(StreamContext::is_ended) {
                self.runs.push(Run::default());
                let info = RunInfo::new("thread", format!("run-{}", self.runs.len()));
                self.context = Some(StreamContext::new(info).with_known_calls(self.decoder.waiting_calls()));
            }
            let (Some(context), Some(run)) = (&mut self.context, self.runs.last_mut()) else { continue };
            run.said.push(event.clone());
            context.handle_event(event).unwrap();
            run.events.extend(std::iter::from_fn(|| context.poll_event()));
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Run> {
        self.decoder.handle_eof().unwrap();
        self.pump();
        if let (Some(context), Some(run)) = (&mut self.context, self.runs.last_mut()) {
            context.handle_eof();
            run.events.extend(std::iter::from_fn(|| context.poll_event()));
        }
        let known: Vec<_> = self.decoder.waiting_calls().cloned().collect();
        for run in &self.runs {
            let mut checker = InvariantChecker::new().with_known_calls(known.clone());
            for event in &run.events {
                checker.check(event).unwrap_or_else(|violation| panic!("{violation:?}\n{:#?}", run.events));
            }
            checker.finish().unwrap();
        }
        self.runs
    }
}

/// What was said on a channel: agent and text, block by block in the order of starting; a block that continues
/// another, or takes its place, counts as that one.
pub(crate) fn texts(events: &[BlockEvent], channel: Channel) -> Vec<(String, String)> {
    let mut said: Vec<(BlockId, String, String)> = Vec::new();
    let mut place: HashMap<BlockId, usize> = HashMap::new();
    for event in events {
        match event {
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::Text && block.channel == channel => {
                let at = match (&block.continues, &block.replaces) {
                    (Some(earlier), _) => place[earlier],
                    (None, Some(earlier)) => {
                        said[place[earlier]].2.clear();
                        place[earlier]
                    }
                    (None, None) => {
                        said.push((block.id.clone(), block.lane.name().to_owned(), String::new()));
                        said.len() - 1
                    }
                };
                place.insert(block.id.clone(), at);
            }
            BlockEvent::BlockDelta { block, delta } if place.contains_key(&block.id) => {
                said[place[&block.id]].2.push_str(delta);
            }
            _ => {}
        }
    }
    said.into_iter().map(|(_, agent, text)| (agent, text)).collect()
}

/// How a run ended, in a word.
pub(crate) fn outcome(run: &Run) -> String {
    match run.events.last() {
        Some(BlockEvent::RunFinished(end)) => format!("{:?}", end.outcome),
        Some(BlockEvent::RunFailed(failed)) => format!("Failed: {}", failed.failure.message),
        other => panic!("no terminal event: {other:?}"),
    }
}

/// The text of the custom blocks of a name.
pub(crate) fn customs<'a>(run: &'a Run, name: &str) -> Vec<&'a Value> {
    run.events
        .iter()
        .filter_map(|event| match event {
            BlockEvent::Custom(custom) if *custom.name == *name => Some(&custom.value),
            _ => None,
        })
        .collect()
}

/// A run as one value.
pub(crate) fn merged(run: &Run) -> CompletedRun {
    let mut merger = RunMerger::default();
    for event in &run.events {
        merger.handle_event(event).unwrap();
    }
    merger.finish()
}

/// Lines from values, numbered.
pub(crate) fn lines(events: &[Value]) -> Vec<ByteString> {
    events
        .iter()
        .enumerate()
        .map(|(seq, event)| {
            let mut event = event.clone();
            event["seq"] = seq.into();
            ByteString::from(event.to_string())
        })
        .collect()
}

/// Decodes the lines of one run.
pub(crate) fn run_of(events: &[Value]) -> Run {
    let mut runs = runs(&lines(events));
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

pub(crate) fn status(state: &str) -> Value {
    json!({"type": "status", "state": state})
}

pub(crate) fn invoked(executor: &str) -> Value {
    json!({"type": "executor_invoked", "executor_id": executor, "data": null})
}

pub(crate) fn completed(executor: &str) -> Value {
    json!({"type": "executor_completed", "executor_id": executor, "data": null})
}

/// An `output` or `intermediate` event with an update.
pub(crate) fn update(kind: &str, executor: &str, update: &Value) -> Value {
    let mut data = json!({"type": "agent_response_update", "role": "assistant", "author_name": executor});
    for (key, value) in update.as_object().unwrap() {
        data[key] = value.clone();
    }
    json!({"type": kind, "executor_id": executor, "data": data})
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

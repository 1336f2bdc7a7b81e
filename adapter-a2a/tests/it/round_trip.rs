//! A canonical stream, sent as an A2A task in every dialect and read by our own client, is the same stream.
//!
//! Ids may be others; they are compared by what they name. What does not come back is listed here by name:
//!
//! * `AfterComplete`: a block that continues one which was complete (a late aggregate that is longer than what was
//!   streamed) comes back as a block of its own, and one that replaces it stands beside it. The words are all there.
//! * `LateName` (property test only): a call whose first fragments had no name belongs to the text that was open
//!   when they came, and is unanswered since then; on the wire it begins with its name.
//! * `ReusedCall` (property test only): a source that uses the id of an unanswered call again gives that call up;
//!   on the wire both have ids of their own, and both wait.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use aqueduct_adapter_a2a::config::{Marks, StreamShape};
use aqueduct_adapter_a2a::wire::{Dialect, Frame, StreamItem};
use aqueduct_adapter_a2a::{
    DecodeConfig, Decoder, Envelope, ItemWriter, Notes, Settings, StreamEncoder, converters,
};
use aqueduct_core::event::EndReason;
use aqueduct_core::service::{EventEncoder as _, PayloadSink};
use aqueduct_core::testing::{
    InvariantChecker, arb_ending, arb_source_events, run_context, run_to_end, scenarios,
};
use aqueduct_core::{
    BlockEvent, BlockHead, BlockId, ByteString, Channel, IntermediateView, Lane, RunInfo, SourceEvent,
    SpanKind, StreamContext, wellknown,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const DIALECTS: [Dialect; 3] = [Dialect::V1, Dialect::V03JsonRpc, Dialect::V03Rest];

struct Payloads(Vec<ByteString>);

impl PayloadSink for Payloads {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        write(&mut payload);
        self.0.push(String::from_utf8(payload).unwrap().into());
    }
}

fn payloads(events: &[BlockEvent], dialect: Dialect, settings: &Settings) -> Vec<ByteString> {
    let envelope = if dialect == Dialect::V03Rest { Envelope::Bare } else { Envelope::JsonRpc(json!("r-1")) };
    let writer = ItemWriter::new(converters(settings), settings.notes);
    let mut encoder = StreamEncoder::new(writer, dialect, envelope);
    let mut sink = Payloads(Vec::new());
    for event in events {
        encoder.encode(event, &mut sink);
    }
    sink.0
}

fn decoded(payloads: &[ByteString], config: DecodeConfig) -> Vec<SourceEvent> {
    let mut decoder = Decoder::new(config);
    let mut out = Vec::new();
    for payload in payloads {
        decoder.handle_frame(Frame::data(payload), &mut out);
    }
    decoder.handle_end(&mut out);
    assert_eq!(decoder.counts().unreadable, 0);
    out
}

fn replayed(payloads: &[ByteString], dialect: Dialect) -> Vec<BlockEvent> {
    let source_events = decoded(payloads, DecodeConfig { dialect, ..DecodeConfig::root() });
    let events = run_context(StreamContext::new(RunInfo::new("again", "again")), source_events);
    InvariantChecker::check_all(&events).unwrap();
    events
}

/// Writes events so that two streams compare equal if only their ids differ.
#[derive(Default)]
struct Normal {
    ids: HashMap<String, usize>,
    complete: HashSet<BlockId>,
    /// `AfterComplete`, and what continues it.
    broken: HashSet<BlockId>,
    is_strict: bool,
}

impl Normal {
    fn id(&mut self, id: &str) -> usize {
        let next = self.ids.len();
        *self.ids.entry(id.to_owned()).or_insert(next)
    }

    fn lane(&mut self, lane: &Lane) -> String {
        if lane.is_root() { String::new() } else { format!(" @{}", self.id(lane.id.as_str())) }
    }

    fn start(&mut self, block: &BlockHead) -> String {
        let lane = self.lane(&block.lane);
        let id = self.id(block.id.as_str());
        let (kind, channel, role, tool) = (block.kind, block.channel, block.role, &*block.tool_name);
        let mut head = format!("+{id}{lane} {kind:?} {channel:?} {role:?} {tool:?}");
        if let Some(earlier) = &block.continues {
            if self.complete.contains(earlier) || self.broken.contains(earlier) {
                self.broken.insert(block.id.clone());
            }
            if !self.complete.contains(earlier) {
                write!(head, " continues {}", self.id(earlier.as_str())).unwrap();
            }
        }
        if let Some(earlier) = block.replaces.as_ref().filter(|earlier| !self.broken.contains(*earlier)) {
            write!(head, " replaces {}", self.id(earlier.as_str())).unwrap();
        }
        if let Some(parent) = block.parent.as_ref().filter(|_| self.is_strict) {
            write!(head, " in {}", self.id(parent.as_str())).unwrap();
        }
        head
    }

    fn end(&mut self, block: &BlockHead, reason: EndReason) -> String {
        if reason == EndReason::Complete {
            self.complete.insert(block.id.clone());
        }
        let is_lost = reason == EndReason::Replaced && self.broken.contains(&block.id);
        let reason = if is_lost { EndReason::Interrupted } else { reason };
        format!("-{} {reason:?}", self.id(block.id.as_str()))
    }

    fn line(&mut self, event: &BlockEvent) -> String {
        match event {
            BlockEvent::RunStarted(_) => "started".to_owned(),
            BlockEvent::LaneOpened(lane) => {
                let parent = lane.parent.as_ref().map(|parent| self.lane(parent));
                let call = lane.parent_call.as_ref().map(|call| self.id(call.as_str()));
                let source = &lane.source;
                let told = (source.path(), source.name(), source.description(), source.metadata());
                format!("lane {} in {parent:?} for {call:?} {told:?}", self.id(lane.id.as_str()))
            }
            BlockEvent::LaneClosed { lane, outcome } => format!("lane{} ends {outcome:?}", self.lane(lane)),
            BlockEvent::BlockStarted(block) => self.start(block),
            BlockEvent::BlockDelta { block, delta } => format!("{} {delta:?}", self.id(block.id.as_str())),
            BlockEvent::ThinkingEncrypted { block, value } => {
                format!("{} sealed {value:?}", self.id(block.id.as_str()))
            }
            BlockEvent::BlockEnded { block, reason } => self.end(block, *reason),
            BlockEvent::ToolResult(result) => {
                let (lane, call) = (self.lane(&result.lane), self.id(result.call_id.as_str()));
                format!(
                    "result{lane} of {call} {:?} {:?} {}",
                    result.tool_name, result.output, result.is_error
                )
            }
            BlockEvent::Custom(custom) => {
                let (lane, id) = (self.lane(&custom.lane), self.id(custom.id.as_str()));
                let mut value = custom.value.clone();
                if &*custom.name == wellknown::TOOL_PROGRESS {
                    value["toolCallId"] = self.id(value["toolCallId"].as_str().unwrap()).into();
                }
                format!("custom{lane} {id} {:?} {:?} {value}", custom.channel, custom.name)
            }
            BlockEvent::StepStarted { lane, name } => format!("step{} + {name}", self.lane(lane)),
            BlockEvent::StepFinished { lane, name } => format!("step{} - {name}", self.lane(lane)),
            BlockEvent::StateSnapshot { lane, state } => format!("state{} {state}", self.lane(lane)),
            BlockEvent::StateDelta { lane, patch } => format!("state{} {patch:?}", self.lane(lane)),
            BlockEvent::Usage { lane, usage } => format!("usage{} {usage:?}", self.lane(lane)),
            BlockEvent::InterruptRequested(pending) => {
                let lane = self.lane(&pending.lane);
                let ask = &pending.interrupt;
                let call = ask.tool_call_id.as_ref().map(|call| self.id(call.as_str()));
                let told = (&ask.reason, &ask.message, &ask.response_schema, &ask.expires_at);
                format!("asks{lane} {} {call:?} {told:?}", self.id(ask.id.as_str()))
            }
            BlockEvent::RunFinished(end) => {
                let asked: Vec<_> =
                    end.interrupts.iter().map(|pending| self.id(pending.interrupt.id.as_str())).collect();
                let calls = end.pending_calls.iter().filter(|_| self.is_strict);
                let calls: Vec<_> = calls.map(|call| call.as_str().to_owned()).collect();
                let calls: Vec<_> = calls.iter().map(|call| self.id(call)).collect();
                format!("{:?} {:?} {asked:?} {calls:?} {:?}", end.outcome, end.result, end.usage)
            }
            BlockEvent::RunFailed(failed) => format!("{:?} {:?}", failed.failure, failed.usage),
            other => panic!("an event that no rule here knows: {other:?}"),
        }
    }
}

pub(crate) fn normal(events: &[BlockEvent], is_strict: bool) -> Vec<String> {
    let mut normal = Normal { is_strict, ..Normal::default() };
    events.iter().map(|event| normal.line(event)).collect()
}

#[track_caller]
fn assert_round_trip(name: &str, source: Vec<SourceEvent>, dialect: Dialect, is_strict: bool) {
    let events = run_to_end(source);
    let settings = Settings { notes: Notes::Fragments, ..Settings::new("task-1", "context-1") };
    let payloads = payloads(&events, dialect, &settings);
    let (sent, read) = (normal(&events, is_strict), normal(&replayed(&payloads, dialect), is_strict));
    assert_eq!(read, sent, "{name} in {dialect:?}\n{}", payloads.join("\n"));
}

#[test]
fn every_scenario_comes_back_as_it_was() {
    for (name, source) in scenarios() {
        for dialect in DIALECTS {
            assert_round_trip(name, source.clone(), dialect, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_comes_back_as_it_was(
        mut events in arb_source_events(60),
        ending in arb_ending(),
        dialect in prop::sample::select(DIALECTS.to_vec()),
    ) {
        events.extend(ending);
        assert_round_trip("any", events, dialect, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Line by line, fragments are put together and parallel blocks may change places; every word stays where it was.
    #[test]
    fn line_by_line_no_word_is_lost(
        mut events in arb_source_events(60),
        ending in arb_ending(),
        dialect in prop::sample::select(DIALECTS.to_vec()),
    ) {
        events.extend(ending);
        let events = run_to_end(events);
        let payloads = payloads(&events, dialect, &Settings::new("task-1", "context-1"));
        let read = replayed(&payloads, dialect);
        prop_assert_eq!(words_by_block(&read), words_by_block(&events), "{}", payloads.join("\n"));
    }
}

/// What each block says, and whose it is.
fn words_by_block(events: &[BlockEvent]) -> Vec<String> {
    let mut words: HashMap<BlockId, (String, String)> = HashMap::new();
    for event in events {
        if let BlockEvent::BlockDelta { block, delta } = event {
            let head = format!(
                "{} {:?} {:?} {}",
                block.lane.source.path(),
                block.kind,
                block.channel,
                block.tool_name
            );
            words.entry(block.id.clone()).or_insert_with(|| (head, String::new())).1.push_str(delta);
        }
    }
    let mut words: Vec<String> =
        words.into_values().map(|(head, words)| format!("{head}: {words:?}")).collect();
    words.sort();
    words
}

/// The same over the messages of both gRPC packages.
#[test]
fn every_scenario_survives_grpc() {
    // A `Struct` does not keep the order of its members, so lines compare without the order of their letters.
    let loose = |events: &[BlockEvent]| -> Vec<String> {
        let sorted = |line: String| {
            let mut letters: Vec<char> = line.chars().collect();
            letters.sort_unstable();
            letters.into_iter().collect()
        };
        normal(events, true).into_iter().map(sorted).collect()
    };
    for (name, source) in scenarios() {
        let events = run_to_end(source);
        let set = converters(&Settings::new("task-1", "context-1"));
        let mut items = Vec::new();
        for event in &events {
            set.convert(event, &mut items);
        }
        for version in ["1.0", "0.3"] {
            let mut decoder = Decoder::new(DecodeConfig::root());
            let mut out = Vec::new();
            for item in &items {
                let item = match version {
                    "1.0" => StreamItem::from_v1(item.to_v1()),
                    _ => StreamItem::from_v03(item.to_v03()),
                };
                decoder.handle_item(item.unwrap(), &ByteString::new(), &mut out);
            }
            decoder.handle_end(&mut out);
            let read = run_context(StreamContext::new(RunInfo::new("again", "again")), out);
            assert_eq!(loose(&read), loose(&events), "{name} in {version}");
        }
    }
}

/// What is left out takes nothing of the answer with it.
#[test]
fn a_quiet_server_still_tells_the_answer() {
    let answer = |events: &[BlockEvent]| -> Vec<(String, String)> {
        let of_answer = |event: &BlockEvent| match event {
            BlockEvent::BlockDelta { block, delta }
                if block.kind == SpanKind::Text && block.channel == Channel::Answer =>
            {
                Some((block.lane.name().to_owned(), delta.to_string()))
            }
            _ => None,
        };
        events.iter().filter_map(of_answer).collect()
    };
    for (name, source) in scenarios() {
        let events = run_to_end(source);
        let mut quiet = Settings::new("task-1", "context-1");
        (quiet.thinking, quiet.signals, quiet.intermediate) = (false, false, IntermediateView::Hidden);
        let read = replayed(&payloads(&events, Dialect::V1, &quiet), Dialect::V1);
        assert_eq!(answer(&read), answer(&events), "{name}");
    }
}

/// Returns the task that a server would store: artifacts by id, chunks as parts, and messages.
fn snapshot(payloads: &[ByteString]) -> ByteString {
    let mut task = json!({"id": "task-1", "contextId": "context-1", "artifacts": [], "history": []});
    for payload in payloads {
        let payload: Value = serde_json::from_str(payload).unwrap();
        let item = &payload["result"];
        if let Some(update) = item.get("artifactUpdate") {
            let artifacts = task["artifacts"].as_array_mut().unwrap();
            let known = artifacts.iter_mut().find(|a| a["artifactId"] == update["artifact"]["artifactId"]);
            match known {
                Some(known) if update["append"] == true => {
                    let more = update["artifact"]["parts"].as_array().unwrap();
                    known["parts"].as_array_mut().unwrap().extend(more.iter().cloned());
                }
                Some(known) => *known = update["artifact"].clone(),
                None => artifacts.push(update["artifact"].clone()),
            }
        } else {
            let status = item["statusUpdate"].get("status").unwrap_or_else(|| &item["task"]["status"]);
            if let Some(said) = task["status"].get("message").cloned() {
                task["history"].as_array_mut().unwrap().push(said);
            }
            task["status"] = status.clone();
        }
    }
    json!({"jsonrpc": "2.0", "id": "r-1", "result": {"task": task}}).to_string().into()
}

/// Returns all text, of every agent and block, and the outcome.
pub(crate) fn content(events: &[BlockEvent]) -> Vec<String> {
    let mut words: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    let mut others = Vec::new();
    for event in events {
        match event {
            BlockEvent::BlockDelta { block, delta } => {
                // Parallel outputs come one after the other in a snapshot.
                let track = if block.tool_name.is_empty() { block.origin.track.as_str() } else { "" };
                // The last intermediate text is emitted after the answer, wherever it stood.
                let what = format!("{:?} {:?} {}", block.kind, block.channel, block.tool_name);
                let key = format!("{} {what} {track}", block.lane.source.path());
                words.entry(key).or_default().push_str(delta);
            }
            BlockEvent::ToolResult(result) => {
                others.push(format!("{:?} {:?}", result.tool_name, result.output));
            }
            BlockEvent::Custom(custom) => others.push(format!("{} {}", custom.name, custom.value)),
            BlockEvent::StepStarted { name, .. } => others.push(format!("step {name}")),
            BlockEvent::StateSnapshot { state, .. } => others.push(format!("state {state}")),
            BlockEvent::Usage { usage, .. } => others.push(format!("{usage:?}")),
            _ => {}
        }
    }
    others.sort();
    others.extend(words.into_iter().map(|(key, words)| format!("{key}: {words:?}")));
    others.push(match events.last().unwrap() {
        BlockEvent::RunFinished(end) => format!("{:?} {:?}", end.outcome, end.result),
        other => format!("{other:?}").split("usage").next().unwrap().to_owned(),
    });
    others
}

/// The stream is cut anywhere, some of it is missed, and the complete task is sent before it continues.
#[test]
fn a_snapshot_after_a_cut_loses_and_doubles_nothing() {
    for (name, source) in scenarios() {
        let events = run_to_end(source);
        let all = payloads(&events, Dialect::V1, &Settings::new("task-1", "context-1"));
        for cut in 1..all.len() {
            for missed in [0, 1, 2, all.len()] {
                let on = (cut + missed).min(all.len());
                let mut read = all[..cut].to_vec();
                read.push(snapshot(&all[..on]));
                read.extend_from_slice(&all[on..]);
                let mut again = content(&replayed(&read, Dialect::V1));
                let mut sent = content(&events);
                // The run's own ids are part of a failure's debug text, and differ.
                for ends in [again.last_mut(), sent.last_mut()] {
                    let end = ends.unwrap();
                    *end = end.split("failure").last().unwrap().to_owned();
                }
                assert_eq!(again, sent, "{name}: cut {cut}, {missed} missed\n{}", read.join("\n"));
            }
        }
    }
}

/// Every item at the start of a task tells the ids, and the first is the task.
#[test]
fn every_item_belongs_to_the_task() {
    for (name, source) in scenarios() {
        let events = run_to_end(source);
        for payload in payloads(&events, Dialect::V1, &Settings::of_run(&RunInfo::new("thread", "run"))) {
            let payload: Value = serde_json::from_str(&payload).unwrap();
            let (kind, item) = payload["result"].as_object().unwrap().iter().next().unwrap();
            let id = if kind == "task" { &item["id"] } else { &item["taskId"] };
            assert_eq!((id, &item["contextId"]), (&json!("run"), &json!("thread")), "{name}: {payload}");
        }
    }
}

/// A client that does not know our marks sees the words of the answer, and the right end.
#[test]
fn without_marks_the_answer_and_the_end_are_still_there() {
    for (name, source) in scenarios() {
        let events = run_to_end(source);
        let payloads = payloads(&events, Dialect::V1, &Settings::new("task-1", "context-1"));
        let mut config = DecodeConfig { marks: Marks::Ignore, ..DecodeConfig::root() };
        (config.drop_restated_chunks, config.promote_last_status) = (false, false);
        config.stream = StreamShape::Notices;
        let read = run_to_end(decoded(&payloads, config));
        InvariantChecker::check_all(&read).unwrap();
        let words = |events: &[BlockEvent]| -> String {
            let of_text = |event: &BlockEvent| match event {
                BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Text => {
                    Some(delta.to_string())
                }
                _ => None,
            };
            events.iter().filter_map(of_text).collect()
        };
        assert_eq!(words(&read), words(&events), "{name}");
        let outcome = |events: &[BlockEvent]| match events.last().unwrap() {
            BlockEvent::RunFinished(end) => format!("{:?}", end.outcome),
            _ => "failed".to_owned(),
        };
        assert_eq!(outcome(&read), outcome(&events), "{name}");
    }
}

/// As a sub-agent behind another one, its lanes lie below its own, and its end ends its lane.
#[test]
fn a_sub_agent_keeps_its_own_sub_agents() {
    let (_, source) = scenarios().into_iter().find(|(name, _)| *name == "lanes-nested-and-parallel").unwrap();
    let payloads = payloads(&run_to_end(source), Dialect::V1, &Settings::new("task-1", "context-1"));
    let mut events = decoded(&payloads, DecodeConfig::lane(aqueduct_core::Source::root().child("team")));
    events.push(SourceEvent::Finished { outcome: aqueduct_core::RunOutcome::Success, result: None });
    let read = run_to_end(events);
    InvariantChecker::check_all(&read).unwrap();
    let opened = read.iter().filter_map(|event| match event {
        BlockEvent::LaneOpened(lane) => {
            Some((lane.source.path().replace('\u{1f}', "/"), lane.name().to_owned()))
        }
        _ => None,
    });
    let expected = [
        ("team", "team"),
        ("team/research", "Researcher"),
        ("team/write", "Writer"),
        ("team/research/deep", "deep"),
    ];
    let expected: Vec<_> = expected.map(|(path, name)| (path.to_owned(), name.to_owned())).to_vec();
    assert_eq!(opened.collect::<Vec<_>>(), expected);
}

/// Marks that make no sense are read as far as they do; nothing is lost, and nothing ends that did not.
#[test]
fn odd_marks_end_nothing_and_lose_nothing() {
    let odd = [
        json!({"kind": "finished", "outcome": "success"}),
        json!({"kind": "failed"}),
        json!({"kind": "of a later version"}),
        json!({"kind": 7, "lane": "nobody"}),
        json!({"kind": "state-patch"}),
        json!({"kind": "interrupt"}),
        json!("no object"),
    ];
    for mark in odd {
        let metadata = json!({"aqueduct/v1": mark});
        let ids = json!({"taskId": "t", "contextId": "c"});
        let with = |name: &str, mut update: Value| -> ByteString {
            update.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
            json!({ name: update }).to_string().into()
        };
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "heard"}], "metadata": metadata});
        let artifact = json!({"artifactId": "a", "parts": [{"text": "read"}], "metadata": metadata});
        let payloads = [
            with("statusUpdate", json!({"status": {"state": "TASK_STATE_WORKING", "message": message}})),
            with("artifactUpdate", json!({"artifact": artifact})),
            with("statusUpdate", json!({"status": {"state": "TASK_STATE_COMPLETED"}})),
        ];
        let told = aqueduct_core::testing::trace(&replayed(&payloads, Dialect::V1));
        assert!(told.contains("heard") && told.contains("read"), "{mark}\n{told}");
        assert!(told.contains("run finished success"), "{mark}\n{told}");
    }
}

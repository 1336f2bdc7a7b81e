//! What goes out comes back: every event, every input, at every cut; and what does not hold is refused.

use std::sync::Arc;

use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::event::{
    BlockEvent, BlockHead, CustomEvent, EndReason, Lane, Origin, PendingInterrupt, RunFailed, RunFinished,
    SpanKind, ToolResultEvent,
};
use aqueduct_core::message::ToolSpec;
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::testing::{arb_ending, arb_source_events, run_to_end};
use aqueduct_core::{
    BlockId, Channel, ContentBlock, Interrupt, InterruptId, InterruptReply, LaneId, LaneOutcome, Message,
    MessageId, ResponseId, Role, RunFailure, RunId, RunInfo, RunInput, RunMerger, RunOutcome, Source,
    Timestamp, ToolCallId, Track, Usage,
};
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::*;
use crate::proto;

fn numbered(events: impl IntoIterator<Item = BlockEvent>) -> Vec<NumberedEvent> {
    (1..).zip(events).map(|(number, event)| NumberedEvent { number, event }).collect()
}

/// Writes events in messages of `batch`, through bytes, and reads them again.
fn there_and_back(events: &[NumberedEvent], batch: usize) -> Vec<NumberedEvent> {
    let mut writer = EventWriter::new(&RunId::from("run"));
    let mut reader = EventReader::new();
    let mut read = Vec::new();
    for events in events.chunks(batch.max(1)) {
        for event in events {
            writer.push(event).unwrap();
        }
        let bytes = Bytes::from(writer.take().encode_to_vec());
        let message = proto::StreamMessage::decode(bytes).unwrap();
        reader.read(message, |event| read.push(event)).unwrap();
    }
    assert_eq!(reader.skipped(), 0);
    read
}

/// Two sources are equal if their paths are; here everything must be.
#[track_caller]
fn assert_same_source(a: &Source, b: &Source) {
    let facts = |source: &Source| {
        let call = source.parent_call().cloned();
        let metadata = source.metadata().map(|metadata| (**metadata).clone());
        (source.path().to_owned(), source.name().to_owned(), source.description().cloned(), call, metadata)
    };
    assert_eq!(facts(a), facts(b));
    if let (Some(a), Some(b)) = (a.parent(), b.parent()) {
        assert_same_source(a, b);
    }
}

#[track_caller]
fn assert_same(events: &[NumberedEvent], read: &[NumberedEvent]) {
    assert_eq!(events, read);
    for (a, b) in events.iter().zip(read) {
        if let (Some(a), Some(b)) = (a.event.lane(), b.event.lane()) {
            assert_same_source(&a.source, &b.source);
        }
    }
}

/// JSON with the numbers that other formats break.
fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn arb_metadata() -> impl Strategy<Value = Option<Arc<Map<String, Value>>>> {
    prop::option::of(prop::collection::vec((any::<String>(), arb_json()), 0..3))
        .prop_map(|entries| entries.map(|entries| Arc::new(entries.into_iter().collect())))
}

/// Every variant, with every field that it can have filled from the arguments.
#[expect(clippy::too_many_lines, reason = "one of each")]
fn every_event(text: &str, value: &Value, metadata: Option<Arc<Map<String, Value>>>) -> Vec<BlockEvent> {
    let run = Arc::new(RunInfo {
        parent_run_id: Some(RunId::from("before")),
        agent: Some(text.into()),
        ..RunInfo::new(text, "run")
    });
    let root =
        Arc::new(Lane { id: LaneId::from("run/0"), source: Source::root(), parent: None, parent_call: None });
    let mut source = Source::root().child("research").named("Research").child(text.to_owned());
    source = source.described(text).called_by(ToolCallId::from("source-call"));
    if let Some(metadata) = &metadata {
        source = source.with_metadata((**metadata).clone());
    }
    let lane = Arc::new(Lane {
        id: LaneId::from("run/1"),
        source,
        parent: Some(Arc::clone(&root)),
        parent_call: Some(ToolCallId::from(text)),
    });
    let origin = Origin {
        message_id: Some(MessageId::from(text)),
        response_id: Some(ResponseId::from("response")),
        tool_call_id: Some(ToolCallId::from("call")),
        track: Track::new(text),
        created_at: Some(Timestamp(-5)),
        metadata: metadata.clone(),
    };
    let head = |id: &str, kind, lane: &Arc<Lane>, origin: &Origin| {
        Arc::new(BlockHead {
            id: BlockId::from(id),
            kind,
            lane: Arc::clone(lane),
            channel: if kind == SpanKind::Text { Channel::Answer } else { Channel::Intermediate },
            role: Role::Developer,
            tool_name: text.into(),
            parent: Some(BlockId::from("p")),
            continues: Some(BlockId::from(text)),
            replaces: Some(BlockId::from("r")),
            origin: origin.clone(),
        })
    };
    let texts = head("run/2", SpanKind::Text, &root, &Origin::default());
    let thinking = head("run/3", SpanKind::Thinking, &lane, &origin);
    let call = head("run/4", SpanKind::ToolUse, &lane, &origin);
    let usage = Usage {
        provider: Some(text.into()),
        model: None,
        input: Some(0),
        output: Some(u64::MAX),
        total: None,
        reasoning: Some(1),
        cached_input: None,
        cache_write_input: Some(2),
    };
    let failure = RunFailure { code: text.into(), message: "broke".into(), details: Some(value.clone()) };
    let interrupt = Interrupt {
        message: Some(text.into()),
        tool_call_id: Some(ToolCallId::from("run/4")),
        response_schema: Some(value.clone()),
        expires_at: Some("2030-01-01T00:00:00Z".into()),
        metadata,
        ..Interrupt::new("i1", text)
    };
    let pending = PendingInterrupt { lane: Arc::clone(&lane), interrupt };
    let result = |output| {
        BlockEvent::ToolResult(Box::new(ToolResultEvent {
            id: BlockId::from("run/5"),
            lane: Arc::clone(&lane),
            call_id: ToolCallId::from("run/4"),
            tool_name: text.into(),
            output,
            is_error: true,
            origin: origin.clone(),
        }))
    };
    let closed = |outcome| BlockEvent::LaneClosed { lane: Arc::clone(&lane), outcome: Box::new(outcome) };
    let ended = |block: &Arc<BlockHead>, reason| BlockEvent::BlockEnded { block: Arc::clone(block), reason };
    let finished = |outcome, result, interrupts| {
        let mut end = RunFinished::new(Arc::clone(&run), outcome);
        end.result = result;
        end.interrupts = interrupts;
        end.pending_calls = vec![ToolCallId::from(text), ToolCallId::from("other")];
        end.usage = vec![usage.clone(), Usage::default()];
        end.finish_reason = Some(text.into());
        BlockEvent::RunFinished(Box::new(end))
    };
    let mut failed = RunFailed::new(Arc::clone(&run), failure.clone());
    failed.usage = vec![usage.clone()];
    vec![
        BlockEvent::RunStarted(Arc::clone(&run)),
        BlockEvent::LaneOpened(Arc::clone(&lane)),
        BlockEvent::BlockStarted(Arc::clone(&texts)),
        BlockEvent::BlockDelta { block: Arc::clone(&texts), delta: text.into() },
        BlockEvent::BlockStarted(Arc::clone(&thinking)),
        BlockEvent::BlockDelta { block: Arc::clone(&thinking), delta: "hm".into() },
        BlockEvent::ThinkingEncrypted { block: Arc::clone(&thinking), value: text.into() },
        ended(&thinking, EndReason::Interrupted),
        ended(&texts, EndReason::Replaced),
        BlockEvent::BlockStarted(Arc::clone(&call)),
        BlockEvent::BlockDelta { block: Arc::clone(&call), delta: "{}".into() },
        ended(&call, EndReason::Complete),
        result(ToolOutput::Text(text.into())),
        result(ToolOutput::Json(value.clone())),
        result(ToolOutput::Progress(text.into())),
        BlockEvent::Custom(Box::new(CustomEvent {
            id: BlockId::from("run/6"),
            lane: Arc::clone(&lane),
            name: text.into(),
            value: value.clone(),
            channel: Channel::Intermediate,
            origin: origin.clone(),
        })),
        BlockEvent::StepStarted { lane: Arc::clone(&lane), name: text.into() },
        BlockEvent::StepFinished { lane: Arc::clone(&lane), name: text.into() },
        BlockEvent::StateSnapshot { lane: Arc::clone(&root), state: value.clone() },
        BlockEvent::StateDelta { lane: Arc::clone(&root), patch: vec![value.clone(), Value::Null] },
        BlockEvent::Usage { lane: Arc::clone(&lane), usage: Box::new(usage.clone()) },
        BlockEvent::InterruptRequested(Box::new(pending.clone())),
        closed(LaneOutcome::Success(None)),
        closed(LaneOutcome::Success(Some(value.clone()))),
        closed(LaneOutcome::Suspended),
        closed(LaneOutcome::Cancelled),
        closed(LaneOutcome::Failed(failure.clone())),
        finished(RunOutcome::Success, Some(Value::Null), Vec::new()),
        finished(RunOutcome::Cancelled, None, Vec::new()),
        finished(RunOutcome::Interrupted, Some(value.clone()), vec![pending]),
        BlockEvent::RunFailed(Box::new(failed)),
    ]
}

fn every_input(text: &str, value: &Value, metadata: Option<Arc<Map<String, Value>>>) -> RunInput {
    let mut input = RunInput::prompt("thread", "run", text);
    let mut message = Message::new(Role::Assistant);
    message.id = Some(MessageId::from(text));
    message.source = Source::root().child("a").child(text.to_owned()).named("x");
    message.channel = Channel::Intermediate;
    message.created_at = Some(Timestamp(i64::MAX));
    message.metadata.clone_from(&metadata);
    let output =
        |output| ToolResult { output, is_error: true, name: Some(text.into()), ..Default::default() };
    message.contents = vec![
        ContentBlock::text(text),
        ContentBlock::thinking(text),
        ContentBlock::Thinking(aqueduct_core::block::Thinking {
            text: "".into(),
            encrypted: Some(Box::new(text.into())),
        }),
        ContentBlock::tool_use("c1", text, "{broken"),
        ContentBlock::from(aqueduct_core::block::ToolUse::default()),
        ContentBlock::tool_result("c1", text),
        ContentBlock::from(output(ToolOutput::Json(value.clone()))),
        ContentBlock::from(output(ToolOutput::Progress(text.into()))),
        ContentBlock::custom(text, value.clone()),
    ];
    input.messages.push(message);
    for role in [Role::System, Role::Developer, Role::Tool] {
        input.messages.push(Message::new(role));
    }
    input.parent_run_id = Some(RunId::from(text));
    input.tools = vec![
        ToolSpec { name: text.into(), description: "d".into(), parameters: Some(value.clone()), metadata },
        ToolSpec { name: "n".into(), description: "".into(), parameters: None, metadata: None },
    ];
    input.context = vec![(text.into(), "v".into()), ("".into(), text.into())];
    input.state = value.clone();
    input.forwarded = json!({ "x": value });
    input.resume = vec![
        InterruptReply { id: InterruptId::from(text), resolved: true, payload: Some(value.clone()) },
        InterruptReply { id: InterruptId::from("i"), resolved: false, payload: None },
    ];
    input
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_kind_of_event_comes_back_as_it_was(
        text in any::<String>(), value in arb_json(), metadata in arb_metadata(), batch in 1_usize..40,
    ) {
        let events = numbered(every_event(&text, &value, metadata));
        assert_same(&events, &there_and_back(&events, batch));
    }

    #[test]
    fn streams_come_back_from_every_start(
        sources in arb_source_events(40), ending in arb_ending(), start in any::<prop::sample::Index>(),
        batch in 1_usize..20,
    ) {
        let events = numbered(run_to_end(sources.into_iter().chain(ending)));
        assert_same(&events, &there_and_back(&events, batch));
        let rest = &events[start.index(events.len())..];
        assert_same(rest, &there_and_back(rest, batch));
    }

    #[test]
    fn whole_runs_come_back_as_they_were(sources in arb_source_events(40), ending in arb_ending()) {
        let mut merger = RunMerger::default();
        for event in run_to_end(sources.into_iter().chain(ending)) {
            merger.handle_event(&event).unwrap();
        }
        let run = merger.finish();
        let written = completed_to_proto(&run).unwrap();
        let answer = run.text();
        prop_assert_eq!(&*written.text, answer.as_bytes());
        let bytes = Bytes::from(written.encode_to_vec());
        let read = completed_from_proto(proto::CompletedRun::decode(bytes).unwrap()).unwrap();
        prop_assert_eq!(read, run);
    }

    #[test]
    fn inputs_come_back_as_they_were(text in any::<String>(), value in arb_json(), metadata in arb_metadata()) {
        let input = every_input(&text, &value, metadata);
        let bytes = Bytes::from(input_to_proto(&input).unwrap().encode_to_vec());
        let read = input_from_proto(proto::RunInput::decode(bytes).unwrap(), JsonDepth(64)).unwrap();
        prop_assert_eq!(&read, &input);
        assert_same_source(&read.messages[1].source, &input.messages[1].source);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        if let Ok(message) = proto::StreamMessage::decode(bytes.clone()) {
            drop(EventReader::new().read(message, drop));
        }
        if let Ok(input) = proto::RunInput::decode(bytes) {
            drop(input_from_proto(input, JsonDepth(64)));
        }
    }
}

#[test]
fn equal_heads_in_different_memory_are_declared_once() {
    // A log that is read back makes a new head for every event.
    let events: Vec<_> =
        (0..3).flat_map(|_| every_event("x", &json!(1), None).into_iter().skip(3).take(1)).collect();
    let mut writer = EventWriter::new(&RunId::from("run"));
    for event in numbered(events) {
        writer.push(&event).unwrap();
    }
    let message = writer.take();
    assert_eq!((message.lanes.len(), message.blocks.len(), message.events.len()), (1, 1, 3));
}

#[test]
fn a_text_delta_costs_a_few_bytes_more_than_its_text() {
    let events = every_event("x", &json!(1), None);
    let BlockEvent::BlockDelta { block, .. } = &events[3] else { panic!("{:?}", events[3]) };
    let mut writer = EventWriter::new(&RunId::from("run"));
    let delta = |number| NumberedEvent {
        number,
        event: BlockEvent::BlockDelta { block: Arc::clone(block), delta: "twenty bytes of text".into() },
    };
    writer.push(&delta(1)).unwrap();
    writer.take();
    writer.push(&delta(100_000)).unwrap();
    let bytes = writer.take().encoded_len();
    assert!(bytes <= 20 + 14, "{bytes} bytes");
}

#[test]
fn a_delta_shares_its_text_with_the_message() {
    let events = every_event("shared", &json!(1), None);
    let BlockEvent::BlockDelta { delta, .. } = &events[3] else { panic!("{:?}", events[3]) };
    let mut writer = EventWriter::new(&RunId::from("run"));
    writer.push(&NumberedEvent { number: 1, event: events[3].clone() }).unwrap();
    let Some(proto::event::Event::BlockDelta(sent)) = &writer.take().events[0].event.clone() else {
        panic!()
    };
    assert_eq!(sent.delta.as_ptr(), delta.as_bytes().as_ptr());
}

#[track_caller]
fn refused_input(change: impl FnOnce(&mut proto::RunInput)) -> String {
    let mut input = input_to_proto(&every_input("x", &json!([1]), None)).unwrap();
    change(&mut input);
    input_from_proto(input, JsonDepth(64)).unwrap_err().to_string()
}

#[test]
fn inputs_that_do_not_hold_are_refused_by_field() {
    let missing = refused_input(|input| input.run_id = Bytes::new());
    assert_eq!(missing, "`input.run_id` is missing: set it");
    let missing = refused_input(|input| input.thread_id = Bytes::new());
    assert_eq!(missing, "`input.thread_id` is missing: set it");
    let role = refused_input(|input| input.messages[0].role = 0);
    assert_eq!(role, "`message.role` is missing: set it");
    let role = refused_input(|input| input.messages[0].role = 77);
    assert_eq!(role, "`message.role` has the unknown value 77: set it, or upgrade this side");
    let text = refused_input(|input| input.run_id = Bytes::from_static(b"\xff"));
    assert_eq!(text, "`input.run_id` is not valid UTF-8: encode it as UTF-8");
    let json = refused_input(|input| input.state_json = Some(Bytes::from_static(b"{")));
    assert!(json.starts_with("`input.state_json` is not valid JSON: EOF"), "{json}");
    let object = refused_input(|input| input.messages[0].metadata_json = Some(Bytes::from_static(b"[]")));
    assert_eq!(object, "`message.metadata_json` is not a JSON object: send one");
    let empty = refused_input(|input| input.messages[0].contents[0].content = None);
    assert_eq!(empty, "`message.contents.content` is missing: set it");
    let deep = Bytes::from("[".repeat(65) + &"]".repeat(65));
    let deep = refused_input(|input| input.forwarded_json = Some(deep));
    assert_eq!(deep, "`input.forwarded_json` is nested deeper than 64 levels: flatten it");
}

#[test]
fn brackets_in_strings_are_no_levels() {
    let text = format!("{}\\\" [", "[".repeat(100));
    let mut input = RunInput::prompt("t", "r", "x");
    input.state = json!([text]);
    let proto = input_to_proto(&input).unwrap();
    assert_eq!(input_from_proto(proto, JsonDepth(1)).unwrap(), input);
}

#[test]
fn streams_that_do_not_hold_are_refused() {
    let read = |message| EventReader::new().read(message, drop).unwrap_err().to_string();
    let event = |event| proto::StreamMessage {
        events: vec![proto::Event { number: 1, event: Some(event) }],
        ..Default::default()
    };
    let delta = proto::BlockDelta { block: 7, delta: Bytes::new() };
    assert_eq!(
        read(event(proto::event::Event::BlockDelta(delta))),
        "block 7 was not declared in this stream: declare it before its first use"
    );
    let opened = proto::LaneOpened { lane: 3 };
    assert_eq!(
        read(event(proto::event::Event::LaneOpened(opened))),
        "lane 3 was not declared in this stream: declare it before its first use"
    );
    let lane = proto::Lane { handle: 1, parent: 2, ..Default::default() };
    let orphan = proto::StreamMessage { lanes: vec![lane], ..Default::default() };
    assert_eq!(read(orphan), "lane 2 was not declared in this stream: declare it before its first use");
}

#[test]
fn events_of_a_newer_service_are_counted_not_guessed() {
    let unknown = proto::Event { number: 1, event: None };
    let message = proto::StreamMessage { events: vec![unknown], ..Default::default() };
    let mut reader = EventReader::new();
    reader.read(message, |event| panic!("{event:?}")).unwrap();
    assert_eq!(reader.skipped(), 1);
}

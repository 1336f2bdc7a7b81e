//! A source that merges the history by id holds after some turns through us what it holds without us.

use aqueduct_core::{
    BlockEvent, ByteString, ContentBlock, Interrupt, RunInfo, RunInput, SourceEvent, StreamContext, Update,
};
use serde_json::{Value, json};

use super::IdMap;
use crate::config::{Dialect, Settings};
use crate::convert::{View, converters};
use crate::decode::Decoder;
use crate::fold::Fold;
use crate::input::{read_input, run_agent_input, run_input};
use crate::wire::{Event, Message, RunAgentInput, Strictness};

/// A source with a memory: the history that comes back is merged by message id, as `add_messages` of `LangGraph` does.
#[derive(Default)]
struct Graph {
    store: Vec<Value>,
}

impl Graph {
    fn merge(&mut self, message: Value) {
        match self.store.iter_mut().find(|held| held["id"] == message["id"]) {
            Some(held) => *held = message,
            None => self.store.push(message),
        }
    }

    /// One turn: words and a tool of its own, two calls at once, the answer, and the whole restated.
    fn turn(&mut self, input: &RunAgentInput, turn: usize, snapshot: bool) -> Vec<Value> {
        for message in &input.messages {
            self.merge(serde_json::to_value(message).unwrap());
        }
        let id = |name: &str| format!("lc_{name}--{turn}");
        let (plan, pair, answer) = (id("plan"), id("pair"), id("answer"));
        let mut events =
            vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": input.run_id.to_string()})];
        let call = |parent: &str, name: &str| {
            let id = format!("call_{name}_{turn}");
            let arguments = json!({"city": name}).to_string();
            let (head, tail) = arguments.split_at(4);
            [
                json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": parent}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": head}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": tail}),
                json!({"type": "TOOL_CALL_END", "toolCallId": id}),
            ]
        };
        let result = |name: &str| {
            json!({"type": "TOOL_CALL_RESULT", "toolCallId": format!("call_{name}_{turn}"),
                "messageId": format!("tool_{name}--{turn}"), "content": "21", "role": "tool"})
        };
        let text = |id: &str, words: &[&str]| {
            let mut events =
                vec![json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})];
            events.extend(
                words
                    .iter()
                    .map(|word| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": word})),
            );
            events.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
            events
        };
        events.extend(text(&plan, &["Let me ", "look."]));
        events.extend(call(&plan, "paris"));
        events.push(result("paris"));
        events.extend(call(&pair, "rome"));
        events.extend(call(&pair, "oslo"));
        events.extend([result("rome"), result("oslo")]);
        events.extend(text(&answer, &["It is ", "21 degrees."]));
        let called = |name: &str| {
            json!({"id": format!("call_{name}_{turn}"), "type": "function",
                "function": {"name": name, "arguments": json!({"city": name}).to_string()}})
        };
        let tool = |name: &str| {
            json!({"id": format!("tool_{name}--{turn}"), "role": "tool", "content": "21",
                "toolCallId": format!("call_{name}_{turn}")})
        };
        self.merge(json!({"id": plan, "role": "assistant", "content": "Let me look.", "toolCalls": [called("paris")]}));
        self.merge(tool("paris"));
        self.merge(json!({"id": pair, "role": "assistant", "toolCalls": [called("rome"), called("oslo")]}));
        self.merge(tool("rome"));
        self.merge(tool("oslo"));
        self.merge(json!({"id": answer, "role": "assistant", "content": "It is 21 degrees."}));
        if snapshot {
            events.push(json!({"type": "MESSAGES_SNAPSHOT", "messages": self.store}));
        }
        events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": input.run_id.to_string()}));
        events
    }
}

/// How a client is connected to the source.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Direct,
    Kept,
    Minted,
}

fn asked(client: &Fold, turn: usize) -> RunAgentInput {
    let mut messages = serde_json::to_value(client.messages(Dialect::V1_0)).unwrap();
    let question =
        json!({"id": format!("user-{turn}"), "role": "user", "content": format!("Question {turn}?")});
    messages.as_array_mut().unwrap().push(question);
    let body = json!({"threadId": "t", "runId": format!("run-{turn}"), "messages": messages});
    read_input(body.to_string().as_bytes()).unwrap()
}

/// The events of one run as they are logged.
fn carried(events: &[Value], input: &RunAgentInput, map: &IdMap, way: Way) -> Vec<BlockEvent> {
    let mut decoder = Decoder::new().with_input(input);
    let mut context = StreamContext::new(RunInfo::new("t", input.run_id.clone()));
    if way == Way::Kept {
        let of_input = input.messages.iter().map(Message::id);
        context = context.with_kept_ids(map.message_ids().chain(of_input));
    }
    for event in events {
        decoder.handle_payload(&ByteString::from(event.to_string())).unwrap();
        while let Some(event) = decoder.poll_event() {
            context.handle_event(event).unwrap();
        }
    }
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn talk(way: Way, snapshot: bool) -> Vec<Value> {
    let (mut graph, mut client, mut log) = (Graph::default(), Fold::new(), Vec::new());
    let set = converters(&Settings::new(Dialect::V1_0));
    for turn in 1..=3 {
        let posted = asked(&client, turn);
        for message in &posted.messages {
            client.handle_message(message.clone());
        }
        // Another replica: all it knows is the log.
        let mut map = IdMap::default();
        for event in &log {
            map.handle_event(event);
        }
        let mut input = run_input(posted.clone());
        map.apply(&mut input);
        let upstream = run_agent_input(&input, Dialect::V1_0);
        let events = graph.turn(if way == Way::Direct { &posted } else { &upstream }, turn, snapshot);
        let mut shown: Vec<Event> = Vec::new();
        if way == Way::Direct {
            shown.extend(
                events.iter().map(|event| Event::from_value(event.clone(), Strictness::Strict).unwrap()),
            );
        } else {
            let events = carried(&events, &upstream, &map, way);
            for event in &events {
                set.convert(event, &mut shown);
            }
            log.extend(events);
        }
        for event in &shown {
            client.handle_event(event);
        }
    }
    graph.store
}

#[test]
fn a_source_that_merges_by_id_holds_what_it_holds_without_us() {
    for snapshot in [false, true] {
        let direct = talk(Way::Direct, snapshot);
        assert_eq!(direct.len(), 3 * 7);
        for way in [Way::Kept, Way::Minted] {
            let through = talk(way, snapshot);
            assert_eq!(through, direct, "{way:?}, snapshot {snapshot}");
        }
    }
}

fn map_of(events: Vec<SourceEvent>, known: &[&str]) -> (IdMap, Vec<BlockEvent>) {
    let mut context = StreamContext::new(RunInfo::new("t", "run")).with_kept_ids(known.iter().copied());
    for event in events {
        context.handle_event(event).unwrap();
    }
    context.handle_eof();
    let events: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    let mut map = IdMap::default();
    for event in &events {
        map.handle_event(event);
    }
    (map, events)
}

/// What goes upstream when a client sends back what it built from these events.
fn back(map: &IdMap, events: &[BlockEvent], more: Vec<Value>) -> Value {
    let settings = Settings::new(Dialect::V1_0).with_interrupts(crate::Interrupts::Text);
    let mut messages = held(settings, events);
    messages.as_array_mut().unwrap().extend(more);
    upstream(map, &messages)
}

/// The messages that a client holds which is shown the events in this way.
fn held(settings: Settings, events: &[BlockEvent]) -> Value {
    let (mut client, mut shown, mut view) = (Fold::new(), Vec::new(), View::new(&settings));
    for event in events {
        view.convert(event, &mut shown);
    }
    for event in &shown {
        client.handle_event(event);
    }
    serde_json::to_value(client.messages(settings.dialect)).unwrap()
}

fn upstream(map: &IdMap, messages: &Value) -> Value {
    let body = json!({"threadId": "t", "runId": "next", "messages": messages});
    let mut input: RunInput = run_input(read_input(body.to_string().as_bytes()).unwrap());
    map.apply(&mut input);
    serde_json::to_value(run_agent_input(&input, Dialect::V1_0).messages).unwrap()
}

#[test]
fn an_interrupted_text_is_one_message_again() {
    let text = |words: &str| SourceEvent::from(Update::text(words).in_message("m"));
    let call = Update::new(ContentBlock::tool_use("c", "look", "{}")).in_message("m");
    let (map, events) = map_of(vec![text("One "), call.into(), text("two.")], &[]);
    assert_eq!(map.emitted_messages("m").count(), 1);
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]);
    assert_eq!(
        back(&map, &events, Vec::new()),
        json!([{"id": "m", "role": "assistant", "content": "One two.", "toolCalls": calls}])
    );
}

#[test]
fn a_corrected_text_takes_the_place_of_the_first() {
    let text = |words: &str| Update::text(words).in_message("m");
    let mut corrected = text("Better.");
    corrected.mode = aqueduct_core::Mode::Replace;
    let (map, events) = map_of(vec![text("Worse.").into(), corrected.into()], &[]);
    assert_eq!(
        back(&map, &events, Vec::new()),
        json!([{"id": "m", "role": "assistant", "content": "Better."}])
    );
}

#[test]
fn results_of_a_call_under_another_id_go_home() {
    let call = Update::new(ContentBlock::tool_use("c", "look", "{}")).last();
    let (map, events) = map_of(vec![call.into()], &["c"]);
    assert_eq!((map.source_call("run/2"), map.source_message("run/2")), ("c", "c"));
    let answer = json!({"id": "mine", "role": "tool", "toolCallId": "run/2", "content": "21"});
    let upstream = back(&map, &events, vec![answer]);
    assert_eq!(upstream[0]["toolCalls"][0]["id"], "c");
    assert_eq!(upstream[1], json!({"id": "mine", "role": "tool", "toolCallId": "c", "content": "21"}));
}

#[test]
fn a_question_shown_as_text_and_its_answer_stay_here() {
    let ask = SourceEvent::InterruptRequested {
        source: aqueduct_core::Source::root(),
        interrupt: Box::new(Interrupt::new("i1", "confirmation")),
    };
    let end = SourceEvent::Finished { outcome: aqueduct_core::RunOutcome::Interrupted, result: None };
    let (map, events) = map_of(vec![ask, end], &[]);
    let user = |id: &str, words: &str| json!({"id": id, "role": "user", "content": words});
    let upstream = back(&map, &events, vec![user("u1", "yes"), user("u2", "And then?")]);
    assert_eq!(upstream, json!([user("u2", "And then?")]));
    // A snapshot has taken the answer out of the client's history: what is asked now is no answer.
    let upstream = back(&map, &events, vec![user("u2", "And then?")]);
    assert_eq!(upstream, json!([user("u2", "And then?")]));
}

#[test]
fn a_failure_shown_as_text_stays_here() {
    let (map, events) = map_of(vec![Update::text("Half").in_message("m").into()], &[]);
    let set = converters(&Settings::new(Dialect::V1_0).with_errors(crate::Errors::Text));
    let (mut client, mut shown) = (Fold::new(), Vec::new());
    for event in &events {
        set.convert(event, &mut shown);
    }
    assert!(matches!(shown.last(), Some(Event::RunError(_))));
    for event in &shown {
        client.handle_event(event);
    }
    let messages = client.messages(Dialect::V1_0);
    assert_eq!(messages.len(), 2, "the answer so far, and why it ends: {messages:?}");
    let body = json!({"threadId": "t", "runId": "next", "messages": messages});
    let mut input = run_input(read_input(body.to_string().as_bytes()).unwrap());
    map.apply(&mut input);
    assert_eq!(input.messages.len(), 1);
}

#[test]
fn calls_that_show_sub_agents_stay_here_and_names_are_taken_off() {
    let agent = aqueduct_core::Source::root().child("a").named("scout");
    let of = |block| SourceEvent::from(Update::new(block).from_source(&agent).last());
    let failed = aqueduct_core::LaneOutcome::Failed(aqueduct_core::RunFailure::new("e", "no way"));
    let (map, events) = map_of(
        vec![
            of(ContentBlock::thinking("hm")),
            of(ContentBlock::tool_use("c", "look", "{}")),
            of(ContentBlock::tool_result("c", "21")),
            SourceEvent::LaneClosed { source: agent.clone(), outcome: failed },
            Update::text("Done.").in_message("m").last().into(),
        ],
        &[],
    );
    let messages = held(Settings::new(Dialect::V0_0_59), &events);
    let names = |messages: &Value| messages.to_string().matches("scout").count();
    assert_eq!(names(&messages), 4, "{messages:#}");
    let upstream = upstream(&map, &messages);
    assert_eq!(names(&upstream), 0, "{upstream:#}");
    let roles: Vec<_> = upstream.as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["reasoning", "assistant", "tool", "assistant"], "{upstream:#}");
    assert_eq!(upstream[1]["toolCalls"][0]["function"]["name"], "look");
}

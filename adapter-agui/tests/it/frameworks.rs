//! Streams of real frameworks, carried through: the client ends up with what it has directly, nothing twice.

use crate::support::fold::{Client, Shown, fold};
use crate::support::{self, Recorded};
use aqueduct_adapter_agui::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::{View, converters};
use aqueduct_adapter_agui::decode::Decoder;
use aqueduct_adapter_agui::fold::Fold;
use aqueduct_adapter_agui::ids::IdMap;
use aqueduct_adapter_agui::input::{read_input, run_agent_input, run_input};
use aqueduct_adapter_agui::verify::{Level, SseSplitter, verify};
use aqueduct_adapter_agui::wire::{Event, Message, MessagesSnapshot, RunAgentInput};
use aqueduct_core::testing::{InvariantChecker, run_context};
use aqueduct_core::{BlockEvent, RunFailure, RunInfo, SpanKind, StreamContext, wellknown};
use serde_json::{Value, json};

/// The recorded streams of a framework.
fn recorded(framework: &str) -> Vec<Recorded> {
    let folder = support::fixtures().join(framework);
    let mut all: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
        .map(|path| {
            let mut frames = Vec::new();
            let mut splitter = SseSplitter::default();
            splitter.handle_bytes(&std::fs::read(&path).unwrap(), &mut frames);
            splitter.handle_end(&mut frames);
            let input = std::fs::read(path.with_extension("request.json")).unwrap();
            Recorded {
                name: format!("{framework}/{}", path.file_stem().unwrap().to_string_lossy()),
                payloads: frames.into_iter().map(|frame| frame.data.unwrap()).collect(),
                input: Some(read_input(&input).unwrap()),
            }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 5, "{framework}: {}", all.len());
    all
}

const FRAMEWORKS: [&str; 8] =
    ["adk", "agent-framework", "agno", "crewai", "langgraph", "llama-index", "pydantic-ai", "strands"];

fn everything() -> Vec<Recorded> {
    FRAMEWORKS.iter().flat_map(|framework| recorded(framework)).collect()
}

fn input_of(stream: &Recorded) -> &RunAgentInput {
    stream.input.as_ref().unwrap()
}

/// The run as it is logged.
fn logged(stream: &Recorded) -> Vec<BlockEvent> {
    logged_in(stream, &IdMap::default())
}

/// The run as it is logged in a thread with earlier runs.
fn logged_in(stream: &Recorded, thread: &IdMap) -> Vec<BlockEvent> {
    let input = input_of(stream);
    let canonical = run_input(input.clone());
    let mut decoder = Decoder::new().with_input(input);
    let mut out = Vec::new();
    for payload in &stream.payloads {
        decoder.handle_payload(&payload.as_str().into()).unwrap();
        out.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    let context = StreamContext::new(RunInfo::new(input.thread_id.clone(), input.run_id.clone()))
        .with_known_calls(canonical.known_calls())
        .with_kept_ids(input.messages.iter().map(Message::id).chain(thread.message_ids()));
    let events = run_context(context, out);
    let mut checker = InvariantChecker::new().with_known_calls(canonical.known_calls().cloned());
    for event in &events {
        checker.check(event).unwrap_or_else(|violation| panic!("{}: {violation:?}", stream.name));
    }
    events
}

fn converted(stream: &Recorded, settings: Settings) -> Vec<Event> {
    let mut set = View::new(&settings);
    let mut out = Vec::new();
    for event in &logged(stream) {
        set.convert(event, &mut out);
    }
    out
}

/// What a client ends up with that had sent this input.
fn client(stream: &Recorded, events: Vec<Event>) -> Client {
    let messages = input_of(stream).messages.clone();
    let mut all = vec![Event::MessagesSnapshot(MessagesSnapshot { messages, ..Default::default() })];
    all.extend(events);
    fold(&all)
}

/// Streams of which a client has something else directly, for a reason that is named.
fn differs(name: &str) -> bool {
    [
        // The reasoning is restated under a second id while the answer streams: directly it is shown twice.
        "adk/thinking",
        "adk/thinking-tool",
        "adk/thoughtful-turns-1",
        // The call that waited is told again under another parent: directly its arguments are doubled.
        "agno/question-answer",
        "agno/two-questions-answer",
        // The snapshot restates the user's image in an older form: through us the user's own message stays.
        "agent-framework/image",
        // A question that only frontends made for the framework see.
        "langgraph/legacy-question",
    ]
    .contains(&name)
}

#[test]
fn a_client_ends_up_with_the_same_messages() {
    for stream in everything() {
        if differs(&stream.name) {
            continue;
        }
        let before = client(&stream, stream.events());
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let settings = Settings::new(dialect)
                .with_subagents(Subagents::Attributed)
                .with_errors(Errors::Error)
                .with_interrupts(Interrupts::Interrupt);
            let after = client(&stream, converted(&stream, settings));
            for role in ["user", "assistant", "reasoning", "tool"] {
                assert_eq!(after.said(role), before.said(role), "{}: {role}", stream.name);
            }
            assert_eq!(called(&after), called(&before), "{}", stream.name);
            assert_eq!(after.failed(), before.failed(), "{}: failed tools", stream.name);
            assert_eq!(after.interrupts.len(), before.interrupts.len(), "{}", stream.name);
            assert_eq!(after.error, before.error.clone().map(with_code), "{}", stream.name);
        }
    }
}

/// A failure without a code has the canonical one: frontends can rely on a code, whichever agent failed.
fn with_code((code, message): (Option<String>, String)) -> (Option<String>, String) {
    (code.or_else(|| Some(RunFailure::AGENT_FAILED.to_owned())), message)
}

/// Names and arguments of all calls: strands restates arguments with other spacing.
fn called(client: &Client) -> Vec<(String, Value)> {
    let read = |arguments: &str| serde_json::from_str(arguments).unwrap_or_default();
    client.called().into_iter().map(|(name, arguments)| (name, read(&arguments))).collect()
}

/// A message that was only opened and closed: directly it stays in the history, and no reader sees it.
fn is_empty(shown: &Shown) -> bool {
    shown.content.is_empty() && shown.calls.is_empty()
}

/// Order and grouping of calls as well; ids, where the source does not restate everything under other ids
/// (llama-index: only a snapshot that groups otherwise is passed on).
#[test]
fn a_client_ends_up_with_the_same_ids_and_groups() {
    for framework in ["agno", "llama-index", "pydantic-ai"] {
        for stream in recorded(framework).into_iter().filter(|stream| !differs(&stream.name)) {
            let settings = Settings::new(Dialect::V1_0).with_interrupts(Interrupts::Interrupt);
            let line = |client: Client| {
                let seen = client.messages.into_iter().filter(|shown| !is_empty(shown));
                seen.map(|shown| (shown.role, shown.content, shown.calls)).collect::<Vec<_>>()
            };
            let ids = |client: &Client| {
                let of_agent =
                    client.messages.iter().filter(|shown| shown.role == "assistant" && !is_empty(shown));
                of_agent.map(|shown| shown.id.clone()).collect::<Vec<_>>()
            };
            let (before, after) =
                (client(&stream, stream.events()), client(&stream, converted(&stream, settings)));
            if framework != "llama-index" {
                assert_eq!(ids(&after), ids(&before), "{}", stream.name);
            }
            assert_eq!(line(after), line(before), "{}", stream.name);
        }
    }
}

/// Streams with something that only their snapshots have: the grouping of calls, the error of a tool.
fn is_passed_on(name: &str) -> bool {
    name.starts_with("llama-index/") || name == "langgraph/tool-error"
}

#[test]
fn no_text_or_call_is_emitted_twice() {
    for stream in everything() {
        let (mut texts, mut calls) = (Vec::new(), Vec::new());
        for event in logged(&stream) {
            match event {
                BlockEvent::BlockStarted(head) if head.kind == SpanKind::ToolUse => {
                    calls.push(head.origin.tool_call_id.clone());
                }
                BlockEvent::BlockStarted(head) => texts.push((head.kind, head.id.clone(), String::new())),
                BlockEvent::BlockDelta { block, delta } => {
                    if let Some((_, _, text)) = texts.iter_mut().find(|(_, id, _)| *id == block.id) {
                        text.push_str(&delta);
                    }
                }
                BlockEvent::Custom(custom) if !is_passed_on(&stream.name) => {
                    assert_ne!(&*custom.name, wellknown::MESSAGES, "{}: nothing is corrected", stream.name);
                }
                _ => {}
            }
        }
        let unique = |mut lines: Vec<String>| {
            let before = lines.len();
            lines.sort_unstable();
            lines.dedup();
            lines.len() == before
        };
        let said = texts.iter().map(|(kind, _, text)| format!("{kind:?} {text}")).collect();
        assert!(unique(said), "{}: {texts:?}", stream.name);
        assert!(unique(calls.iter().map(|call| format!("{call:?}")).collect()), "{}: {calls:?}", stream.name);
    }
}

/// adk repeats the reasoning of a step as one delta under a second id while the answer streams.
#[test]
fn repeated_reasoning_is_shown_once() {
    for (name, said) in [
        ("adk/thinking", vec!["Foxes are quick, dogs are lazy."]),
        ("adk/thinking-tool", vec!["I need the weather.", "Now I know it."]),
        ("adk/thoughtful-turns-1", vec!["I need the weather.", "Now I know it."]),
    ] {
        let stream = recorded("adk").into_iter().find(|stream| stream.name == name).unwrap();
        let shown = client(&stream, converted(&stream, Settings::new(Dialect::V1_0)));
        assert_eq!(shown.said("reasoning").concat(), said.concat(), "{name}");
        assert_eq!(shown.said("assistant"), client(&stream, stream.events()).said("assistant"), "{name}");
    }
}

#[test]
fn every_stream_comes_out_without_a_violation() {
    for stream in everything() {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let mut found = verify(&converted(&stream, Settings::new(dialect)), dialect, Level::Strict);
            // An answer belongs to a call of an earlier run, which the verifier does not know.
            found.retain(|violation| violation.rule.id() != "result-without-call");
            assert!(found.is_empty(), "{}: {found:#?}", stream.name);
        }
    }
}

/// What a client sends next: what it holds, and the user's next question.
fn next_input(client: &Fold, next: &RunAgentInput) -> RunAgentInput {
    let mut messages = client.messages(Dialect::V1_0);
    messages.extend(next.messages.last().cloned());
    let mut input = next.clone();
    input.messages = messages;
    input
}

/// Roles, ids, words and calls: what a source merges by. Directly, a client has new messages of a snapshot at its end, so
/// the order counts for nothing.
fn essence(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| {
        let value = serde_json::to_value(message).unwrap();
        let calls = value["toolCalls"].as_array().into_iter().flatten();
        let calls: Vec<_> = calls.map(|call| json!([call["id"], call["function"]["name"]])).collect();
        let content = value["content"].as_str().unwrap_or_default();
        json!([value["role"], value["id"], content, calls, value["toolCallId"]]).to_string()
    };
    let is_shown = |message: &&Message| {
        let value = serde_json::to_value(message).unwrap();
        message.kind() != "reasoning"
            && (!value["content"].as_str().unwrap_or_default().is_empty() || value["toolCalls"].is_array())
    };
    let mut all: Vec<_> = messages.iter().filter(is_shown).map(line).collect();
    all.sort_unstable();
    all
}

/// Three turns that the protocol's own client had with each framework directly: through us, the agent is sent the same
/// history in each turn, under its own ids.
#[test]
fn the_history_goes_upstream_as_the_agent_knows_it() {
    for framework in FRAMEWORKS {
        let all = recorded(framework);
        let turn =
            |nth: usize| all.iter().find(|stream| stream.name.ends_with(&format!("/turns-{nth}"))).unwrap();
        let (mut client, mut map) = (Fold::new(), IdMap::default());
        for nth in 1..=3 {
            let stream = turn(nth);
            let posted = next_input(&client, input_of(stream));
            for message in &posted.messages {
                client.handle_message(message.clone());
            }
            let mut input = run_input(posted);
            map.apply(&mut input);
            let upstream = run_agent_input(&input, Dialect::V1_0);
            assert_eq!(essence(&upstream.messages), essence(&input_of(stream).messages), "{}", stream.name);
            let events = logged_in(stream, &map);
            let set = converters(&Settings::new(Dialect::V1_0));
            let mut shown = Vec::new();
            for event in &events {
                map.handle_event(event);
                set.convert(event, &mut shown);
            }
            for event in &shown {
                client.handle_event(event);
            }
        }
    }
}

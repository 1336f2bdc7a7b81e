//! Clients that did not activate the extension: words, files and data, and nothing else, however they read chunks.

use std::collections::BTreeMap;

use aqueduct_adapter_a2a::mark::{EXTENSION, KEY, MEDIA_TYPE};
use aqueduct_adapter_a2a::server::ServerConfig;
use aqueduct_core::testing::{arb_source_events, scenarios};
use aqueduct_core::{
    BlockEvent, Channel, ContentBlock, IntermediateView, Interrupt, Role, RunOutcome, Source, SourceEvent,
    SpanKind, Update, wellknown,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Ask, Served, events_of, message, message_to, serve, serve_with};

/// A client without extensions.
fn plain(ask: Ask) -> Ask {
    ask.header("a2a-extensions", "")
}

fn finished() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

/// A supervisor with a tool, a thought, a sub-agent and an answer.
fn team() -> Vec<SourceEvent> {
    let historian = Source::root().child("historian");
    vec![
        Update::new(ContentBlock::thinking("Hm, whom do I ask?")).last().into(),
        SourceEvent::StepStarted { source: Source::root(), name: "plan".into() },
        Update::new(ContentBlock::tool_use("c", "ask_historian", "{\"year\":1789}")).last().into(),
        SourceEvent::LaneOpened(historian.clone()),
        Update::text("I look into the archive.").from_source(&historian).intermediate().last().into(),
        SourceEvent::LaneClosed { source: historian, outcome: aqueduct_core::LaneOutcome::Success(None) },
        Update::text("A revolution, in Paris.").from_source(&Source::root().child("writer")).last().into(),
        Update::new(ContentBlock::tool_result("c", "a revolution")).into(),
        SourceEvent::StateSnapshot { source: Source::root(), state: json!({"year": 1789}) },
        Update::text("It was ").into(),
        Update::text("a revolution.").last().into(),
        finished(),
    ]
}

async fn items(served: &Served, ask: Ask) -> Vec<Value> {
    served.ask(&ask).await.payloads.iter().map(|payload| payload.json()["result"].clone()).collect()
}

fn texts(parts: &Value) -> String {
    parts
        .as_array()
        .into_iter()
        .flatten()
        .map(|part| part["text"].as_str().unwrap_or("<data>").to_owned())
        .collect()
}

/// What a reader ends with that honours `append` (the SDKs, agent-framework).
fn folded(items: &[Value]) -> Vec<String> {
    let mut artifacts: Vec<(String, String)> = Vec::new();
    for update in items.iter().filter_map(|item| item.get("artifactUpdate")) {
        let id = update["artifact"]["artifactId"].as_str().unwrap().to_owned();
        let words = texts(&update["artifact"]["parts"]);
        match artifacts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, text)) if update["append"] == true => text.push_str(&words),
            Some((_, text)) => *text = words,
            None => artifacts.push((id, words)),
        }
    }
    artifacts.into_iter().map(|(_, text)| text).collect()
}

/// What a reader ends with that takes the chunk with `lastChunk` for the artifact (google-adk).
fn last_chunks(items: &[Value]) -> Vec<String> {
    let mut last: BTreeMap<usize, String> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for update in items.iter().filter_map(|item| item.get("artifactUpdate")) {
        let id = update["artifact"]["artifactId"].as_str().unwrap().to_owned();
        let at = order.iter().position(|known| *known == id).unwrap_or_else(|| {
            order.push(id);
            order.len() - 1
        });
        if update["lastChunk"] == true {
            last.insert(at, texts(&update["artifact"]["parts"]));
        }
    }
    last.into_values().collect()
}

fn statuses(items: &[Value]) -> Vec<String> {
    let words = |item: &Value| {
        let message = item.get("statusUpdate")?["status"].get("message")?.clone();
        Some(texts(&message["parts"]))
    };
    items.iter().filter_map(words).collect()
}

#[tokio::test]
async fn a_plain_client_gets_the_words_of_the_answer() {
    let served = serve(|_| team());
    for method in ["SendStreamingMessage", "SendMessage"] {
        let ask = plain(Ask::rpc(method, &json!({"message": message("What happened?")})));
        if method == "SendMessage" {
            let task = served.ask(&ask).await.body["result"]["task"].clone();
            assert_eq!(task["artifacts"].as_array().unwrap().len(), 1, "{task}");
            assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "It was a revolution."}]));
            let said: Vec<String> =
                task["history"].as_array().unwrap().iter().map(|said| texts(&said["parts"])).collect();
            assert_eq!(said, ["What happened?", "historian: I look into the archive."]);
            assert!(!task.to_string().contains(KEY), "{task}");
            continue;
        }
        let items = items(&served, ask).await;
        assert_eq!(folded(&items), ["It was a revolution."]);
        assert_eq!(last_chunks(&items), ["It was a revolution."]);
        assert_eq!(
            statuses(&items),
            ["historian: I look into the archive.", "writer: A revolution, in Paris."]
        );
        let first = items.iter().find_map(|item| item.get("artifactUpdate")).unwrap();
        assert_eq!((texts(&first["artifact"]["parts"]).as_str(), first.get("append")), ("It was ", None));
    }
}

#[tokio::test]
async fn the_extension_brings_the_whole_stream_back() {
    let served = serve(|_| team());
    let ask = Ask::rpc("SendStreamingMessage", &json!({"message": message("go")}));
    for header in ["a2a-extensions", "x-a2a-extensions"] {
        let asked = plain(ask.clone()).header(header, EXTENSION);
        let answered = served.ask(&asked).await;
        assert_eq!(answered.header("a2a-extensions"), Some(EXTENSION));
        let all: String = answered.payloads.iter().map(|payload| payload.text.clone()).collect();
        for piece in [KEY, "tool-call", "lane-opened", "Hm, whom", "\"state\""] {
            assert!(all.contains(piece), "{piece}");
        }
    }
}

#[tokio::test]
async fn questions_are_words_and_their_answers_go_on() {
    let served = serve(|input| {
        if input.resume.is_empty() {
            let mut asked = Interrupt::new("q", "input_required");
            asked.message = Some("Which city?".into());
            asked.response_schema = Some(json!({"type": "string"}));
            let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            return vec![SourceEvent::interrupt(asked), waits];
        }
        vec![Update::text("Paris it is.").last().into(), finished()]
    });
    let task = served.ask(&plain(Ask::rpc("SendMessage", &json!({"message": message("go")})))).await.body;
    let task = task["result"]["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(task["status"]["message"]["parts"], json!([{"text": "Which city?"}]));
    let mut reply = message_to(&task, "Paris");
    reply["messageId"] = "m-2".into();
    let items = items(&served, plain(Ask::rpc("SendStreamingMessage", &json!({"message": reply})))).await;
    assert_eq!(last_chunks(&items), ["Paris it is."]);
}

#[tokio::test]
async fn files_and_data_of_the_agent_stay_and_other_content_does_not() {
    let served = serve(|_| {
        let custom = |name: &'static str, value: Value| {
            SourceEvent::from(Update::new(ContentBlock::custom(name, value)))
        };
        vec![
            custom(wellknown::FILE, json!({"url": "https://x/y", "name": "y"})),
            custom(wellknown::DATA, json!({"degrees": 21})),
            custom(wellknown::PLAN, json!({"steps": []})),
            custom(wellknown::NOTICE, json!({"text": "This may take a while."})),
            custom("my-card", json!({"a": 1})),
            finished(),
        ]
    });
    let items =
        items(&served, plain(Ask::rpc("SendStreamingMessage", &json!({"message": message("go")})))).await;
    let parts: Vec<Value> = items
        .iter()
        .filter_map(|item| Some(item.get("artifactUpdate")?["artifact"]["parts"][0].clone()))
        .collect();
    assert_eq!(parts, [json!({"url": "https://x/y", "filename": "y"}), json!({"data": {"degrees": 21}})]);
    assert_eq!(statuses(&items), ["This may take a while."]);
}

#[tokio::test]
async fn hidden_sub_agents_are_hidden_from_everybody() {
    for view in [IntermediateView::Text, IntermediateView::Hidden] {
        let config = ServerConfig { subagents: false, intermediate: view, ..ServerConfig::default() };
        let served = serve_with(config, |_| team());
        let ask = Ask::rpc("SendStreamingMessage", &json!({"message": message("go")}));
        for ask in [ask.clone(), plain(ask)] {
            let items = items(&served, ask).await;
            let all = Value::from(items.clone()).to_string();
            assert!(!all.contains("lane-opened") && !all.contains("archive"), "{all}");
            assert!(folded(&items).contains(&"It was a revolution.".to_owned()), "{all}");
        }
    }
}

/// The texts on the answer channel that no other text replaces: those of the agent itself, or else of its sub-agents.
fn answers(events: &[BlockEvent]) -> Vec<String> {
    let mut texts: Vec<(String, bool, String)> = Vec::new();
    for event in events {
        match event {
            BlockEvent::BlockStarted(block)
                if block.kind == SpanKind::Text
                    && block.channel == Channel::Answer
                    && block.role == Role::Assistant =>
            {
                let replaces = block.replaces.as_ref().map(ToString::to_string);
                let at = replaces.as_ref().and_then(|old| texts.iter().position(|(id, ..)| id == old));
                let started = (block.id.to_string(), block.lane.is_root(), String::new());
                match at {
                    Some(at) => texts[at] = started,
                    None => texts.push(started),
                }
            }
            BlockEvent::BlockDelta { block, delta } => {
                if let Some((.., text)) = texts.iter_mut().find(|(id, ..)| *id == *block.id.as_str()) {
                    text.push_str(delta);
                }
            }
            _ => {}
        }
    }
    texts.retain(|(.., text)| !text.is_empty());
    let is_own = texts.iter().any(|(_, is_root, _)| *is_root);
    texts.into_iter().filter(|(_, is_root, _)| *is_root == is_own).map(|(.., text)| text).collect()
}

fn check(source: &[SourceEvent]) {
    let played = source.to_vec();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let served = serve(move |_| played.clone());
        let items =
            items(&served, plain(Ask::rpc("SendStreamingMessage", &json!({"message": message("go")})))).await;
        if items[0].get("task").is_none() {
            return;
        }
        let sent = events_of(&served.runs.last().input, source.to_vec());
        let words = |all: Vec<String>| all.into_iter().filter(|text| text != "<data>").collect::<Vec<_>>();
        let mut streamed = words(folded(&items));
        streamed.sort();
        let all = Value::from(items.clone()).to_string();
        assert!(!all.contains(KEY) && !all.contains(MEDIA_TYPE), "{all}");
        let asked = json!({"id": items[0]["task"]["id"]});
        let task = served.ask(&plain(Ask::rpc("GetTask", &asked))).await.body["result"].clone();
        let kept: Vec<String> = task["artifacts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|artifact| texts(&artifact["parts"]))
            .collect();
        let mut kept = words(kept);
        let mut shown = answers(&sent);
        kept.sort();
        shown.sort();
        assert_eq!(kept, shown);
        assert_eq!(streamed, shown);
    });
}

#[test]
fn every_scenario_reads_plainly() {
    for (name, source) in scenarios() {
        let result = std::panic::catch_unwind(|| check(&source));
        assert!(result.is_ok(), "scenario {name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_runs_read_plainly(source in arb_source_events(30)) {
        check(&source);
    }
}

/// The agent answers the first turn itself, and leaves the second one to a sub-agent.
#[tokio::test(start_paused = true)]
async fn every_turn_falls_back_to_its_own_sub_agents() {
    let writer = |text: &'static str| -> SourceEvent {
        Update::text(text).from_source(&Source::root().child("writer")).last().into()
    };
    let served = serve(move |input| {
        if input.resume.is_empty() {
            let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            let asked = SourceEvent::interrupt(Interrupt::new("q", "input_required"));
            return vec![writer("First draft."), Update::text("See the draft.").last().into(), asked, waits];
        }
        vec![writer("Second draft."), finished()]
    });
    let task = served.ask(&plain(Ask::rpc("SendMessage", &json!({"message": message("go")})))).await.body;
    let task = task["result"]["task"].clone();
    // A watcher that stays over both turns.
    let watching = served.open(&plain(Ask::rpc("SubscribeToTask", &json!({"id": task["id"]})))).await;
    let mut reply = message_to(&task, "Once more");
    reply["messageId"] = "m-2".into();
    let sent = items(&served, plain(Ask::rpc("SendStreamingMessage", &json!({"message": reply})))).await;
    let watched = super::support::read(watching).await.items();
    assert_eq!(folded(&watched), ["Second draft."], "{watched:#?}");
    assert_eq!(folded(&sent), ["Second draft."], "{sent:#?}");
}

/// A client that has only the stream of a reply gets the texts that were the answer of the turns before, too.
#[tokio::test]
async fn a_reply_begins_with_the_answers_of_earlier_turns() {
    let writer = |text: &'static str| -> SourceEvent {
        Update::text(text).from_source(&Source::root().child("writer")).last().into()
    };
    let served = serve(move |input| {
        if input.resume.is_empty() {
            let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            let asked = SourceEvent::interrupt(Interrupt::new("q", "input_required"));
            return vec![writer("First draft."), asked, waits];
        }
        vec![writer("Second draft."), finished()]
    });
    let task = served.ask(&plain(Ask::rpc("SendMessage", &json!({"message": message("go")})))).await.body;
    let mut reply = message_to(&task["result"]["task"], "Once more");
    reply["messageId"] = "m-2".into();
    let sent = items(&served, plain(Ask::rpc("SendStreamingMessage", &json!({"message": reply})))).await;
    assert_eq!(sent[0]["task"]["artifacts"][0]["parts"][0]["text"], "First draft.", "{sent:#?}");
    assert_eq!(sent[0]["task"]["artifacts"].as_array().map(Vec::len), Some(1), "{sent:#?}");
    assert_eq!(folded(&sent[1..]), ["Second draft."], "{sent:#?}");
}

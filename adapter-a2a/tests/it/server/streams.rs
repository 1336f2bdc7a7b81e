//! What watchers see: everything, in order, from wherever they begin; and what our own client makes of it.

use aqueduct_adapter_a2a::server::ServerConfig;
use aqueduct_adapter_a2a::wire::{Dialect, Frame};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder, Notes};
use aqueduct_core::testing::{InvariantChecker, arb_ending, arb_source_events, run_context, scenarios};
use aqueduct_core::{BlockEvent, ByteString, RunInfo, SourceEvent, StreamContext};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Ask, Payload, Served, events_of, message, read, serve, serve_with, settle};
use crate::round_trip::{content, normal};

const DIALECTS: [Dialect; 3] = [Dialect::V1, Dialect::V03JsonRpc, Dialect::V03Rest];

/// A streaming message in a dialect.
fn streaming(dialect: Dialect, text: &str) -> Ask {
    match dialect {
        Dialect::V1 => Ask::rpc("SendStreamingMessage", &json!({"message": message(text)})),
        Dialect::V03JsonRpc => {
            let message = json!({"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": text}]});
            Ask::rpc("message/stream", &json!({"message": message}))
        }
        Dialect::V03Rest => {
            let message = json!({"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": text}]});
            Ask::post("/v1/message:stream", &json!({"message": message})).header("a2a-version", "")
        }
    }
}

fn decoded(payloads: &[Payload], dialect: Dialect) -> Vec<BlockEvent> {
    let mut decoder = Decoder::new(DecodeConfig { dialect, ..DecodeConfig::root() });
    let mut out = Vec::new();
    for payload in payloads {
        let data = ByteString::from(payload.text.as_str());
        decoder.handle_frame(Frame { event: payload.name.as_deref(), data: &data }, &mut out);
    }
    decoder.handle_end(&mut out);
    assert_eq!(decoder.counts().unreadable, 0);
    let events = run_context(StreamContext::new(RunInfo::new("again", "again")), out);
    InvariantChecker::check_all(&events).unwrap();
    events
}

/// The content of a run, without the ids in the debug text of a failure.
fn said(events: &[BlockEvent]) -> Vec<String> {
    let mut said = content(events);
    let end = said.last_mut().unwrap();
    *end = end.split("failure").last().unwrap().to_owned();
    said
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[track_caller]
fn assert_round_trip(name: &str, source: &[SourceEvent], dialect: Dialect, is_strict: bool) {
    let played = source.to_vec();
    let (read, sent) = runtime().block_on(async {
        // Fragment by fragment: line by line puts fragments together.
        let config = ServerConfig { notes: Notes::Fragments, ..ServerConfig::default() };
        let served = serve_with(config, move |_| played.clone());
        let answered = served.ask(&streaming(dialect, "go")).await;
        let input = served.runs.last();
        (decoded(&answered.payloads, dialect), events_of(&input.input, source.to_vec()))
    });
    assert_eq!(normal(&read, is_strict), normal(&sent, is_strict), "{name} in {dialect:?}");
}

/// Canonical events through our server and our client are the same events.
#[test]
fn every_scenario_comes_back_through_the_server() {
    for (name, source) in scenarios() {
        for dialect in DIALECTS {
            assert_round_trip(name, &source, dialect, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_comes_back_through_the_server(
        mut events in arb_source_events(60),
        ending in arb_ending(),
        dialect in prop::sample::select(DIALECTS.to_vec()),
    ) {
        events.extend(ending);
        assert_round_trip("any", &events, dialect, false);
    }

    /// A watcher that subscribes at any point receives everything; and so does a read of the task afterwards.
    #[test]
    fn a_snapshot_and_what_follows_are_the_whole(
        mut events in arb_source_events(40),
        ending in arb_ending(),
        at in 0_usize..60,
    ) {
        events.extend(ending);
        runtime().block_on(assert_whole(events, at));
    }
}

/// A task as a client folds it that knows the protocol and nothing else.
struct Fold(Value);

impl Fold {
    fn apply(&mut self, item: &Value) {
        let task = &mut self.0;
        if item["task"].is_object() {
            *task = item["task"].clone();
        } else if item["artifactUpdate"].is_object() {
            let (update, artifact) = (&item["artifactUpdate"], &item["artifactUpdate"]["artifact"]);
            if task["artifacts"].is_null() {
                task["artifacts"] = json!([]);
            }
            let artifacts = task["artifacts"].as_array_mut().unwrap();
            match artifacts.iter_mut().find(|known| known["artifactId"] == artifact["artifactId"]) {
                Some(known) if update["append"] == true => {
                    let more = artifact["parts"].as_array().unwrap().clone();
                    known["parts"].as_array_mut().unwrap().extend(more);
                }
                Some(known) => *known = artifact.clone(),
                None => artifacts.push(artifact.clone()),
            }
        } else {
            let status = item["statusUpdate"]["status"].clone();
            let said = task["status"].get("message").cloned();
            task["history"].as_array_mut().unwrap().extend(said);
            task["status"] = status;
        }
    }

    /// Chunks of text as one, empty ones left out; times of statuses on the way are the server's.
    fn normal(mut self) -> Value {
        for artifact in self.0["artifacts"].as_array_mut().into_iter().flatten() {
            let mut parts: Vec<Value> = Vec::new();
            for part in artifact["parts"].as_array().unwrap() {
                let text = part["text"].as_str();
                match parts.last_mut() {
                    _ if text == Some("") => {}
                    Some(last) if last["text"].is_string() && text.is_some() => {
                        last["text"] = format!("{}{}", last["text"].as_str().unwrap(), text.unwrap()).into();
                    }
                    _ => parts.push(part.clone()),
                }
            }
            artifact["parts"] = parts.into();
        }
        self.0
    }
}

async fn assert_whole(source: Vec<SourceEvent>, at: usize) {
    let served = serve(|_| Vec::new());
    let streamed = served.open(&streaming(Dialect::V1, "OPEN")).await;
    let run = served.runs.last();
    let events = events_of(&run.input, source);
    let at = at.min(events.len() - 1);
    events[..at].iter().for_each(|event| run.push(event.clone()));
    settle().await;
    let ask = Ask::rpc("SubscribeToTask", &json!({"id": "id-0"}));
    let subscribed = read(served.open(&ask).await);
    let rest = async {
        settle().await;
        events[at..].iter().for_each(|event| run.push(event.clone()));
    };
    let (subscribed, ()) = tokio::join!(subscribed, rest);
    let streamed = read(streamed).await;
    let whole = served.rpc("GetTask", json!({"id": "id-0"})).await["result"].clone();
    for answered in [streamed, subscribed] {
        // A task that is not known yet cannot be subscribed to.
        let mut fold = Fold(Value::Null);
        answered.items().iter().for_each(|item| fold.apply(item));
        if !fold.0.is_null() {
            assert_eq!(fold.normal(), Fold(whole.clone()).normal(), "from {at}");
        }
    }
}

fn assert_snapshots(name: &str, source: &[SourceEvent], points: &[usize]) {
    for at in points {
        runtime().block_on(async {
            let served = serve(|_| Vec::new());
            let params = json!({"message": message("OPEN"), "configuration": {"returnImmediately": true}});
            let task = served.rpc("SendMessage", params).await["result"]["task"].clone();
            let run = served.runs.last();
            let events = events_of(&run.input, source.to_vec());
            let at = (*at).min(events.len() - 1);
            for event in &events[..at] {
                run.push(event.clone());
            }
            settle().await;
            let subscribed = served.open(&Ask::rpc("SubscribeToTask", &json!({"id": task["id"]}))).await;
            for event in &events[at..] {
                run.push(event.clone());
            }
            let answered = read(subscribed).await;
            assert_eq!(said(&decoded(&answered.payloads, Dialect::V1)), said(&events), "{name} from {at}");

            let whole = served.rpc("GetTask", json!({"id": task["id"]})).await["result"].clone();
            let payload = Payload { name: None, text: json!({ "task": whole }).to_string() };
            assert_eq!(said(&decoded(&[payload], Dialect::V1)), said(&events), "{name}: the task, whole");
        });
    }
}

#[test]
fn every_scenario_is_whole_from_every_point() {
    for (name, source) in scenarios() {
        let length = events_of(&aqueduct_core::RunInput::prompt("t", "r", ""), source.clone()).len();
        assert_snapshots(name, &source, &(0..length).collect::<Vec<_>>());
    }
}

fn long_answer(chunks: usize) -> Vec<SourceEvent> {
    use aqueduct_core::{ContentBlock, MessageId, RunOutcome, Update};
    let mut events: Vec<SourceEvent> = (0..chunks)
        .map(|n| {
            let mut update = Update::new(ContentBlock::text(format!("{n} ")));
            update.message_id = Some(MessageId::from("a"));
            SourceEvent::from(update)
        })
        .collect();
    events.push(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
    events
}

fn words(items: &[Value]) -> String {
    let text =
        |item: &Value| item["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().map(str::to_owned);
    items.iter().filter_map(text).collect()
}

/// A slow reader loses nothing, and delays no other reader.
#[tokio::test(start_paused = true)]
async fn a_slow_watcher_misses_nothing_and_holds_up_nobody() {
    let served = serve(|_| long_answer(5_000));
    let slow = served.open(&streaming(Dialect::V1, "go")).await;
    settle().await;
    let id = json!("id-0");
    let task = served.rpc("GetTask", json!({"id": id})).await;
    assert_eq!(task["result"]["status"]["state"], "TASK_STATE_COMPLETED", "the task is done: {task}");
    let expected: String = (0..5_000).map(|n| format!("{n} ")).collect::<Vec<_>>().concat();
    assert_eq!(words(&read(slow).await.items()), expected);
    assert_eq!(
        task["result"]["artifacts"][0]["parts"],
        json!([{"text": expected}]),
        "chunks are put together"
    );
}

#[tokio::test(start_paused = true)]
async fn all_watchers_see_the_same() {
    let served = serve(|_| Vec::new());
    let first = served.open(&streaming(Dialect::V1, "OPEN")).await;
    let run = served.runs.last();
    let events = events_of(&run.input, long_answer(20));
    let mut others = Vec::new();
    for (n, event) in events.into_iter().enumerate() {
        if n % 5 == 4 {
            settle().await;
            let ask = Ask::rpc("SubscribeToTask", &json!({"id": "id-0"}));
            others.push(served.open(&ask).await);
        }
        run.push(event);
    }
    let whole = read(first).await.items();
    let last = whole.last().unwrap();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    for other in others {
        let items = read(other).await.items();
        assert!(items[0]["task"].is_object());
        assert!(whole.ends_with(&items[1..]), "the same items in the same order");
    }
}

/// A reader who leaves stops nothing.
#[tokio::test(start_paused = true)]
async fn leaving_does_not_cancel() {
    let served = serve(|_| Vec::new());
    drop(served.open(&streaming(Dialect::V1, "OPEN")).await);
    let run = served.runs.last();
    for event in events_of(&run.input, long_answer(3)) {
        run.push(event);
    }
    settle().await;
    let Served { .. } = &served;
    let task = served.rpc("GetTask", json!({"id": "id-0"})).await;
    assert_eq!(task["result"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// The task that a method gives to a client that comes back, while the recorder is behind what that client was sent.
async fn found_after_cut(method: &str) -> (usize, Value) {
    let served = serve(|_| Vec::new());
    let streamed = served.open(&streaming(Dialect::V1, "OPEN")).await;
    let run = served.runs.last();
    let events = events_of(&run.input, long_answer(4));
    let (before, rest) = events.split_at(4);
    for event in before {
        run.push(event.clone());
    }
    settle().await;
    run.is_recorded.send_replace(false);
    run.push(rest[0].clone());
    // As far as it goes: then the client is cut.
    let seen = read(streamed).await.items();
    let length = |artifact: &Value| {
        let parts = artifact["parts"].as_array().into_iter().flatten();
        parts.map(|part| part["text"].as_str().map_or(0, str::len)).sum::<usize>()
    };
    let was_sent = seen.iter().map(|item| length(&item["artifactUpdate"]["artifact"])).sum();
    let ask = Ask::rpc(method, &json!({"id": "id-0"}));
    let again = async { read(served.open(&ask).await).await };
    let goes_on = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        run.is_recorded.send_replace(true);
    };
    let (again, ()) = tokio::join!(again, goes_on);
    let task =
        again.items().first().map_or_else(|| again.body["result"].clone(), |item| item["task"].clone());
    (was_sent, length(&task["artifacts"][0]).into())
}

/// A client would take for new what follows a snapshot that is shorter than what it saw.
#[tokio::test(start_paused = true)]
async fn a_snapshot_holds_what_any_watcher_was_sent() {
    for method in ["SubscribeToTask", "GetTask"] {
        let (was_sent, found) = found_after_cut(method).await;
        assert!(was_sent > 2, "{method}: the client saw {was_sent} bytes");
        assert_eq!(found, was_sent, "{method}");
    }
}

/// As often as the events are cut, they go on where they were.
#[tokio::test(start_paused = true)]
async fn a_stream_whose_events_are_cut_again_and_again_is_whole() {
    let served = serve(|_| Vec::new());
    let streamed = served.open(&streaming(Dialect::V1, "OPEN")).await;
    let run = served.runs.last();
    run.piece.store(2, std::sync::atomic::Ordering::SeqCst);
    for event in events_of(&run.input, long_answer(20)) {
        run.push(event);
    }
    let items = read(streamed).await.items();
    let expected = (0..20).map(|n| format!("{n} ")).collect::<Vec<_>>().concat();
    assert_eq!(words(&items), expected);
    assert_eq!(items.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// Nothing came since the last cut: the client can subscribe again, and does not wait for the end of the turn.
#[tokio::test(start_paused = true)]
async fn a_stream_without_events_between_two_cuts_ends_at_once_and_resumable() {
    let served = serve(|_| Vec::new());
    let streamed = served.open(&streaming(Dialect::V1, "OPEN")).await;
    let run = served.runs.last();
    let events = events_of(&run.input, long_answer(4));
    for event in &events[..3] {
        run.push(event.clone());
    }
    settle().await;
    run.piece.store(0, std::sync::atomic::Ordering::SeqCst);
    let last = read(streamed).await.payloads.last().unwrap().json();
    assert!(last["error"]["message"].as_str().unwrap().contains("subscribe to it again"), "{last}");
    assert_eq!(last["error"]["data"][0]["reason"], "UNAVAILABLE", "{last}");
}

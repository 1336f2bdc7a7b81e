//! A replica takes over a run of an A2A agent whose owner dies: watchers see what they would have seen without the
//! takeover.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_adapter_a2a::wire::Frame;
use aqueduct_adapter_a2a::{DecodeConfig, Decoder};
use aqueduct_core::service::{Caller, EventStream, RunService as _};
use aqueduct_core::testing::{InvariantChecker, trace};
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunInput, StreamContext, wellknown};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{MemoryLog, RunLog, RunState};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::support::{Say, Upstream, sse};
use super::task_server::{TaskServer, artifact, status};

/// Words on the way, a tool, two answers at once, a thought, a file, data, a status without words, an end with words.
fn story() -> Vec<Value> {
    vec![
        status("WORKING", "", ""),
        status("WORKING", "s1", "Let me see."),
        status("WORKING", "s2", "🔧 Calling tool: **search**"),
        artifact("a", false, false, &json!([{ "text": "Hello" }])),
        artifact("b", false, false, &json!([{ "text": "First " }, { "text": "of two, " }])),
        artifact("a", true, false, &json!([{ "text": ", wor" }])),
        status("WORKING", "s3", "✅ Tool **search** completed"),
        artifact("b", true, false, &json!([{ "text": "second of two." }])),
        artifact(
            "file",
            false,
            true,
            &json!([{ "url": "https://example.org/x.png", "mediaType": "image/png" }]),
        ),
        status("WORKING", "s4", "Almost there."),
        artifact("a", true, true, &json!([{ "text": "ld." }])),
        artifact("data", false, true, &json!([{ "data": { "n": 1 } }])),
        status("COMPLETED", "s5", "Done."),
    ]
}

fn service(server: &TaskServer, log: &Arc<MemoryLog>) -> Arc<Gateway> {
    let toml = format!(
        "[runs]\nlease = \"20ms\"\n[agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
        server.url
    );
    let config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
    Gateway::with_log(config, Arc::clone(log) as _).unwrap()
}

/// Returns the number of events in the log after these items of the task were sent.
fn logged(said: &[Value]) -> u64 {
    let mut decoder = Decoder::new(DecodeConfig::root());
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    for result in said {
        let mut events = Vec::new();
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string().into();
        decoder.handle_frame(Frame::data(&frame), &mut events);
        for event in events {
            context.handle_event(event).unwrap();
        }
    }
    let events = std::iter::from_fn(|| context.poll_event()).count();
    u64::try_from(events).unwrap()
}

/// Waits until the log has so much of the run, and where its task is.
async fn has(log: &MemoryLog, said: &[Value]) {
    log.changed(&run(), logged(said) - 1).await.unwrap();
    let names_task = |state: RunState| state.checkpoint.is_some_and(|at| at.get("taskId").is_some());
    while !names_task(log.state(&run()).await.unwrap()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A gateway that can be killed: with all that it does, in the middle of anything.
struct Owner(Option<tokio::runtime::Runtime>);

impl Owner {
    async fn begin(service: Arc<Gateway>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let begun = runtime.spawn(async move {
            let input = RunInput::prompt("t", "r", "hello");
            let started = service.runs().start(&Caller::default(), "a", input).await.unwrap();
            // The run has a watcher for as long as the owner lives.
            tokio::spawn(started.events.for_each(|_| std::future::ready(())));
        });
        begun.await.unwrap();
        Self(Some(runtime))
    }

    fn kill(mut self) {
        self.0.take().unwrap().shutdown_background();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn run() -> RunId {
    RunId::from("r")
}

async fn watch(service: &Arc<Gateway>) -> EventStream {
    service.runs().watch(&Caller::default(), &run(), 0).await.unwrap()
}

/// Looks for runs that were left until there are none.
async fn take_up(service: &Arc<Gateway>, log: &MemoryLog) {
    let epoch = log.state(&run()).await.unwrap().epoch;
    while log.state(&run()).await.unwrap().epoch == epoch {
        service.runs().sweep_once().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn collect(events: EventStream) -> Vec<BlockEvent> {
    let events: Vec<BlockEvent> = events.map(|event| event.event).collect().await;
    if let Err(violation) = InvariantChecker::check_all(&events) {
        panic!("{violation:?}\n{}", trace(&events));
    }
    events
}

/// Neighbouring deltas of one block are one.
fn joined(events: Vec<BlockEvent>) -> String {
    let mut joined: Vec<BlockEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (
                Some(BlockEvent::BlockDelta { block, delta }),
                BlockEvent::BlockDelta { block: same, delta: more },
            ) if block.id == same.id => {
                *delta = format!("{delta}{more}").into();
            }
            (_, event) => joined.push(event),
        }
    }
    trace(&joined)
}

async fn uncut() -> Vec<BlockEvent> {
    let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
    server.release(story().len());
    let service = service(&server, &log);
    let input = RunInput::prompt("t", "r", "hello");
    collect(service.runs().start(&Caller::default(), "a", input).await.unwrap().events).await
}

/// Returns the events of a run whose owner died after `at` items of the task; `meanwhile` items were sent before the
/// takeover.
async fn cut(at: usize, meanwhile: usize) -> (Vec<BlockEvent>, TaskServer) {
    let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
    let (owner, other) = (Owner::begin(service(&server, &log)).await, service(&server, &log));
    server.release(at);
    has(&log, &story()[..at]).await;
    let watcher = watch(&other).await;
    owner.kill();
    server.release(meanwhile);
    take_up(&other, &log).await;
    if meanwhile < story().len() {
        server.taken_up().await;
    }
    server.release(story().len());
    (collect(watcher).await, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_at_another_gateway_wherever_its_own_one_died() {
    let whole = joined(uncut().await);
    assert!(!whole.contains(wellknown::UPSTREAM), "{whole}");
    for at in 1..story().len() {
        let (seen, server) = cut(at, at).await;
        assert_eq!(joined(seen), whole, "its gateway died after event {at}");
        assert_eq!(
            server.asked(),
            ["SendStreamingMessage", "GetTask", "SubscribeToTask"],
            "nothing was asked twice"
        );
    }
}

/// The agent had the message, and had not named its task when the gateway died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_task_was_not_named_is_found_by_its_message() {
    let whole = folded(&uncut().await);
    for meanwhile in [0, 1, 5, story().len()] {
        let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
        let (owner, other) = (Owner::begin(service(&server, &log)).await, service(&server, &log));
        while server.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let announced = log.state(&run()).await.unwrap().checkpoint.unwrap();
        assert_eq!(announced["sent"], "r-input", "it is announced before it is sent");
        let watcher = watch(&other).await;
        owner.kill();
        server.release(meanwhile);
        take_up(&other, &log).await;
        if meanwhile < story().len() {
            server.taken_up().await;
        }
        server.release(story().len());
        let seen = collect(watcher).await;
        assert_eq!(folded(&seen), whole, "taken up after {meanwhile}\n{}", trace(&seen));
        let asked = server.asked();
        assert_eq!(asked[..3], ["SendStreamingMessage", "ListTasks", "GetTask"], "{asked:?}");
        let kept = log.state(&run()).await.unwrap().checkpoint.unwrap();
        assert_eq!(kept["taskId"], "task", "the next replica need not look for it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_before_it_names_the_task_is_found_by_its_message() {
    let whole = folded(&uncut().await);
    // What cuts the answer may cut lists, too; and the agent may have received the message, but not have started the task.
    for (cut, late) in [(0, 0), (2, 0), (0, 2), (1, 1)] {
        let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
        server.cut_answers(1 + cut);
        server.list_late(late);
        let service = service(&server, &log);
        let input = RunInput::prompt("t", "r", "hello");
        let watcher = service.runs().start(&Caller::default(), "a", input).await.unwrap().events;
        server.taken_up().await;
        server.release(story().len());
        let seen = collect(watcher).await;
        assert_eq!(folded(&seen), whole, "{}", trace(&seen));
        let lists = vec!["ListTasks"; cut + late + 1];
        let expected = [vec!["SendStreamingMessage"], lists, vec!["GetTask"]].concat();
        assert_eq!(server.asked()[..expected.len()], expected);
    }
}

/// An agent that does not know the message: it is not sent again, and the run ends with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_the_agent_does_not_know_ends_its_run() {
    let (server, log) = (TaskServer::forgetful(story()).await, Arc::new(MemoryLog::default()));
    let (owner, other) = (Owner::begin(service(&server, &log)).await, service(&server, &log));
    while server.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let watcher = watch(&other).await;
    owner.kill();
    take_up(&other, &log).await;
    let seen = collect(watcher).await;
    let Some(BlockEvent::RunFailed(end)) = seen.last() else { panic!("{}", trace(&seen)) };
    assert_eq!(&*end.failure.code, "gateway_lost");
    let sent = server.asked().iter().filter(|method| *method == "SendStreamingMessage").count();
    assert_eq!(sent, 1, "a message is sent once");
}

/// What each message, call, result and piece of content comes to.
fn folded(events: &[BlockEvent]) -> Vec<String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut others = Vec::new();
    for event in events {
        match event {
            BlockEvent::BlockDelta { block, delta } => {
                let key = format!("{:?} {:?} {:?}", block.kind, block.channel, block.origin.message_id);
                match texts.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, text)) => text.push_str(delta),
                    None => texts.push((key, delta.to_string())),
                }
            }
            BlockEvent::BlockStarted(block) if !block.tool_name.is_empty() => {
                others.push(format!("call {}", block.tool_name));
            }
            BlockEvent::ToolResult(result) => others.push(format!("{} {:?}", result.call_id, result.output)),
            BlockEvent::Custom(custom) => others.push(format!("{} {}", custom.name, custom.value)),
            BlockEvent::RunFinished(end) => others.push(format!("{:?}", end.outcome)),
            BlockEvent::RunFailed(end) => others.push(format!("{:?}", end.failure)),
            _ => {}
        }
    }
    others.extend(texts.into_iter().map(|(key, text)| format!("{key}: {text}")));
    others.sort();
    others
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_while_nobody_listened_is_shown_once() {
    let whole = folded(&uncut().await);
    for at in 1..story().len() {
        for meanwhile in [(at + 1).min(story().len()), (at + 4).min(story().len()), story().len()] {
            let (seen, _) = cut(at, meanwhile).await;
            assert_eq!(folded(&seen), whole, "died after {at}, taken up after {meanwhile}\n{}", trace(&seen));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_gone_ends_the_run_and_says_so() {
    let (server, log) = (TaskServer::forgetful(story()).await, Arc::new(MemoryLog::default()));
    let (owner, other) = (Owner::begin(service(&server, &log)).await, service(&server, &log));
    server.release(5);
    has(&log, &story()[..5]).await;
    let watcher = watch(&other).await;
    owner.kill();
    take_up(&other, &log).await;
    let seen = collect(watcher).await;
    let Some(BlockEvent::RunFailed(end)) = seen.last() else { panic!("{}", trace(&seen)) };
    assert_eq!(&*end.failure.code, "gateway_lost");
    assert!(end.failure.message.contains("no such task"), "{}", end.failure.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_taken_up_can_be_cancelled() {
    let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
    let (owner, other) = (Owner::begin(service(&server, &log)).await, service(&server, &log));
    server.release(5);
    has(&log, &story()[..5]).await;
    let watcher = watch(&other).await;
    // The cancel arrives while the owner is dying: the replica that takes over receives it.
    owner.kill();
    assert!(other.runs().cancel(&Caller::default(), &run()).await.unwrap());
    take_up(&other, &log).await;
    let seen = collect(watcher).await;
    let Some(BlockEvent::RunFinished(end)) = seen.last() else { panic!("{}", trace(&seen)) };
    assert_eq!(end.outcome, aqueduct_core::RunOutcome::Cancelled);
    assert!(server.asked().contains(&"CancelTask".to_owned()), "{:?}", server.asked());
}

/// The old gateway was only asleep: it must not stop the task that another one listens to now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_wakes_up_late_leaves_the_task_alone() {
    let whole = joined(uncut().await);
    let (server, log) = (TaskServer::start(story()).await, Arc::new(MemoryLog::default()));
    let (old, other) = (service(&server, &log), service(&server, &log));
    let input = RunInput::prompt("t", "r", "hello");
    let watcher = old.runs().start(&Caller::default(), "a", input).await.unwrap().events;
    server.release(5);
    has(&log, &story()[..5]).await;
    take_up(&other, &log).await;
    server.taken_up().await;
    while old.runs().active_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.release(story().len());
    assert_eq!(joined(collect(watcher).await), whole);
    assert!(!server.asked().contains(&"CancelTask".to_owned()), "{:?}", server.asked());
}

/// A question of an agent is asked at one gateway, and answered at others; each goes on with the same task.
#[tokio::test]
async fn a_question_is_answered_at_whichever_gateway() {
    let mut upstream = Upstream::start(|asked| {
        let message = &asked.body["params"]["message"];
        let said = match message["parts"][0]["text"].as_str().unwrap() {
            "hello" => vec![status("WORKING", "s1", "Hm."), status("INPUT_REQUIRED", "q1", "Which?")],
            "the first" => vec![status("WORKING", "s2", "Hm, hm."), status("INPUT_REQUIRED", "q2", "Sure?")],
            _ => {
                vec![artifact("a", false, true, &json!([{ "text": "Booked." }])), status("COMPLETED", "", "")]
            }
        };
        Say::Close(sse(&said.iter().map(super::task_server::frame).collect::<String>()))
    })
    .await;
    let log = Arc::new(MemoryLog::default());
    let gateway = || {
        let toml = format!(
            "[runs]\nlog = \"redis\"\nredis = \"env:R\"\n[agents.a]\n\
             a2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
            upstream.url
        );
        // That the log is one in memory is nothing that gateways can tell.
        let environment = [("R".to_owned(), "redis://127.0.0.1:1".to_owned())];
        let config = load(Path::new("aqueduct.toml"), &toml, environment).unwrap();
        Gateway::with_log(config, Arc::clone(&log) as _).unwrap()
    };
    let (first, second) = (gateway(), gateway());
    for (at, (service, words)) in
        [(&first, "hello"), (&second, "the first"), (&first, "yes"), (&second, "hello")]
            .into_iter()
            .enumerate()
    {
        let input = RunInput::prompt("t", format!("r{at}"), words);
        let seen = collect(service.runs().start(&Caller::default(), "a", input).await.unwrap().events).await;
        assert!(matches!(seen.last(), Some(BlockEvent::RunFinished(_))), "{}", trace(&seen));
        assert_eq!(trace(&seen).contains("Booked."), words == "yes", "{}", trace(&seen));
    }
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let message = upstream.asked.recv().await.unwrap().body["params"]["message"].clone();
        tasks.push((message["taskId"].clone(), message["contextId"].clone()));
    }
    let (task, context) = (json!("task"), json!("context"));
    assert_eq!(tasks[0], (Value::Null, Value::Null));
    assert_eq!(tasks[1..3], [(task.clone(), context.clone()), (task, context.clone())], "the same task");
    assert_eq!(tasks[3], (Value::Null, context), "it is done, the conversation goes on");
}

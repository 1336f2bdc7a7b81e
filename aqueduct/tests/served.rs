//! Tasks that a replica serves over A2A, at another replica on the same log and after a restart. A replica has a runtime of
//! its own: without it, it is as dead as a process that was killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test says no"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aqueduct::a2a::{CardConfig, Cards, PushPolicy, ServerConfig, Servers};
use aqueduct::core::service::{Caller, RefusalKind, ServiceError};
use aqueduct::core::{Identity, Interrupt, Principal, RunInput, RunOutcome, Source, SourceEvent, Update};
use aqueduct::runlog::{DiskLog, LogLimits, MemoryLog, RunLog};
use aqueduct::runs::{AccessPolicy, Runs, Settings};
use axum::body::{Body, to_bytes};
use futures_util::{StreamExt as _, stream};
use http::Request;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The token is the principal.
#[derive(Debug)]
struct ByToken;

impl AccessPolicy for ByToken {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let principal = Principal::new("tenant", caller.token.clone().unwrap_or_default());
        let refused = || ServiceError::new(RefusalKind::Unauthenticated, "send a token");
        principal.map(|principal| Arc::new(Identity::new(principal))).ok_or_else(refused)
    }
}

/// The agents, which may call back anywhere.
struct TestCards(Runs);

impl Cards for TestCards {
    fn names(&self) -> Vec<String> {
        self.0.agent_names()
    }

    fn card(&self, agent: &str) -> Option<CardConfig> {
        Some(CardConfig { name: agent.to_owned(), ..CardConfig::default() })
    }

    fn base(&self, _agent: &str, _host: Option<&str>) -> String {
        "http://agents.test".to_owned()
    }

    fn server_config(&self, _agent: &str) -> ServerConfig {
        let push = PushPolicy { any_address: true, base: Duration::from_millis(20), ..PushPolicy::default() };
        ServerConfig { push, ..ServerConfig::default() }
    }

    fn authenticate(&self, caller: &Caller, agent: &str) -> Result<String, ServiceError> {
        Ok(self.0.authenticate(caller, agent)?.to_string())
    }

    fn is_card_public(&self, _agent: &str) -> bool {
        true
    }

    fn has_push(&self) -> bool {
        true
    }
}

/// Reads the events of run `r` after an id.
async fn watch(router: &axum::Router, last: Option<&str>) -> String {
    let mut request = Request::get("/runs/r/events").header("authorization", "Bearer ann");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200, "after {last:?}");
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// The view of a sub-agent as a tool call has state: the result is the text of the lane. The log stores the run of a
/// principal under another key than its id.
#[tokio::test]
async fn a_watcher_of_a_principal_that_comes_back_gets_the_same_events() {
    let agent = |_: RunInput| {
        let helper = Source::root().child("helper");
        let text = |text: &'static str| {
            SourceEvent::from(Update::text(text).from_source(&helper).intermediate().in_message("h"))
        };
        stream::iter([text("one "), text("two"), Update::text("all").into(), SourceEvent::finished()])
    };
    let runs = Runs::builder().agent("a", agent).access(Arc::new(ByToken)).build();
    let ann = Caller { token: Some("ann".to_owned()), ..Caller::default() };
    runs.complete(&ann, "a", RunInput::prompt("t", "r", "go")).await.unwrap();
    let router = aqueduct::agui::router(&runs);
    let whole = watch(&router, None).await;
    assert!(whole.contains("one two"), "{whole}");
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    for (index, frame) in frames.iter().enumerate().skip(1) {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        assert_eq!(watch(&router, Some(id)).await, frames[index + 1..].concat(), "after {id}");
    }
}

/// Asks once, and says what was answered.
fn asking(input: &RunInput) -> stream::Iter<std::vec::IntoIter<SourceEvent>> {
    let said = input.resume.first().and_then(|reply| reply.payload.clone());
    let events = match said {
        Some(said) => vec![Update::text(format!("done: {said}")).into(), SourceEvent::finished()],
        None => vec![
            Update::text("Hm.").into(),
            SourceEvent::interrupt(Interrupt::new("q", "input_required")),
            SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
        ],
    };
    stream::iter(events)
}

/// One process.
struct Replica {
    runtime: Option<Runtime>,
    runs: Runs,
    servers: Servers,
}

impl Drop for Replica {
    /// Dies.
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Replica {
    fn start(log: &Arc<dyn RunLog>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = Settings::default().with_lease(Duration::from_millis(600));
        let runs =
            aqueduct::builder().access(Arc::new(ByToken)).shared_log(Arc::clone(log)).settings(settings);
        let runs = runs.build();
        let runs =
            runs.agent("hello", |_: RunInput| stream::iter([Update::text("Found"), Update::text(" it.")]));
        let runs = runs.agent("asking", |input: RunInput| asking(&input));
        let runs = runs
            .agent("waiting", |_: RunInput| stream::iter([Update::text("On it.")]).chain(stream::pending()));
        let servers = Servers::of_runs(&runs, Arc::new(TestCards(runs.clone())));
        runtime.spawn(runs.clone().run_housekeeping());
        Self { runtime: Some(runtime), runs, servers }
    }

    fn request(who: &str, method: &str, params: &Value) -> Request<Body> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let request = Request::post("/a2a/x").header("content-type", "application/json");
        let request = request.header("a2a-version", "1.0").header("authorization", format!("Bearer {who}"));
        request.body(Body::from(body)).unwrap()
    }

    /// Begins a call; its answer comes when it is whole.
    fn begin(&self, who: &str, agent: &str, method: &str, params: &Value) -> tokio::task::JoinHandle<String> {
        let (servers, agent) = (self.servers.clone(), agent.to_owned());
        let request = Self::request(who, method, params);
        self.runtime.as_ref().unwrap().spawn(async move {
            let answer = servers.answer(&agent, request).await;
            let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            String::from_utf8(bytes.to_vec()).unwrap()
        })
    }

    /// Watches a task. Returns when the task itself has come; the rest comes when it is whole.
    fn watch(&self, agent: &str, task: &Value) -> tokio::task::JoinHandle<String> {
        let (servers, agent) = (self.servers.clone(), agent.to_owned());
        let request = Self::request("ann", "SubscribeToTask", &json!({"id": task["id"]}));
        let (began, begins) = tokio::sync::oneshot::channel();
        let runtime = self.runtime.as_ref().unwrap();
        let watching = runtime.spawn(async move {
            let mut chunks = servers.answer(&agent, request).await.into_body().into_data_stream();
            let mut text = String::from_utf8(chunks.next().await.unwrap().unwrap().to_vec()).unwrap();
            began.send(()).unwrap();
            while let Some(chunk) = chunks.next().await {
                text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
            }
            text
        });
        runtime.block_on(async { tokio::time::timeout(PATIENCE, begins).await.unwrap().unwrap() });
        watching
    }

    fn text(&self, who: &str, agent: &str, method: &str, params: &Value) -> String {
        let call = self.begin(who, agent, method, params);
        let bounded = async { tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap() };
        self.runtime.as_ref().unwrap().block_on(bounded)
    }

    fn rpc(&self, agent: &str, method: &str, params: &Value) -> Value {
        serde_json::from_str(&self.text("ann", agent, method, params)).unwrap()
    }

    fn send(&self, agent: &str, configuration: &Value) -> Value {
        let params = json!({"message": message("hi"), "configuration": configuration});
        let answer = self.rpc(agent, "SendMessage", &params);
        assert!(answer["result"]["task"]["id"].is_string(), "{answer}");
        answer["result"]["task"].clone()
    }

    fn get(&self, agent: &str, task: &Value) -> Value {
        self.rpc(agent, "GetTask", &json!({"id": task["id"]}))["result"].clone()
    }

    /// Waits until the task is in that state.
    fn wait_for(&self, agent: &str, task: &Value, state: &str) -> Value {
        wait(|| Some(self.get(agent, task)).filter(|task| task["status"]["state"] == state))
    }
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text, "metadata": {"kept": true}}]})
}

fn reply_to(task: &Value, text: &str) -> Value {
    let mut reply = message(text);
    reply["taskId"] = task["id"].clone();
    json!({"message": reply})
}

fn memory() -> Arc<dyn RunLog> {
    Arc::new(MemoryLog::default())
}

fn payloads(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].clone()).collect()
}

/// Each call of `log` is another life of the log.
fn tasks_are_found_again(log: impl Fn() -> Arc<dyn RunLog>) {
    let first = Replica::start(&log());
    let (done, asked) = (first.send("hello", &json!({})), first.send("asking", &json!({})));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(done["history"][0]["parts"][0]["metadata"]["kept"], true, "{done}");
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let with_artifacts = json!({"includeArtifacts": true});
    let listed = first.rpc("hello", "ListTasks", &with_artifacts);
    drop(first);

    let second = Replica::start(&log());
    let again = second.rpc("hello", "ListTasks", &with_artifacts);
    assert_eq!(again, listed);
    assert_eq!((&again["result"]["totalSize"], &again["result"]["tasks"][0]), (&json!(1), &done));
    assert_eq!(second.get("hello", &done), done);
    assert_eq!(second.get("asking", &asked), asked);
    let elsewhere = second.rpc("asking", "GetTask", &json!({"id": done["id"]}));
    assert_eq!(elsewhere["error"]["code"], -32001, "the task of another agent: {elsewhere}");
    let ended = second.rpc("hello", "SubscribeToTask", &json!({"id": done["id"]}));
    assert_eq!(ended["error"]["code"], -32004, "{ended}");

    let answered = second.rpc("asking", "SendMessage", &reply_to(&asked, "prod"));
    let answered = &answered["result"]["task"];
    assert_eq!(
        (&answered["id"], &answered["status"]["state"]),
        (&asked["id"], &json!("TASK_STATE_COMPLETED"))
    );
    assert!(answered["artifacts"].to_string().contains("done: \\\"prod\\\""), "{answered}");
    drop(second);
    let third = Replica::start(&log());
    assert_eq!(third.get("asking", &asked), *answered, "both turns");
}

#[test]
fn tasks_are_found_at_another_replica() {
    let log = memory();
    tasks_are_found_again(|| Arc::clone(&log));
}

#[test]
fn tasks_are_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    tasks_are_found_again(|| {
        // The file is free once the last task of the replica before is gone.
        wait(|| {
            DiskLog::open(folder.path(), LogLimits::default())
                .ok()
                .map(|log| Arc::new(log) as Arc<dyn RunLog>)
        })
    });
}

#[test]
fn what_happens_at_one_replica_is_known_at_the_other() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let asked = one.send("asking", &json!({}));
    let answered = other.rpc("asking", "SendMessage", &reply_to(&asked, "prod"))["result"]["task"].clone();
    assert_eq!(one.get("asking", &asked), answered, "it held the task, and another one went on with it");
    let listed = one.rpc("asking", "ListTasks", &json!({"includeArtifacts": true}));
    assert_eq!(listed["result"]["tasks"], json!([answered]));
    for (state, count) in [("TASK_STATE_COMPLETED", 1), ("TASK_STATE_CANCELED", 0)] {
        let of_state = other.rpc("asking", "ListTasks", &json!({"status": state}));
        assert_eq!(of_state["result"]["totalSize"], count, "{of_state}");
    }
    let late = one.rpc("asking", "SendMessage", &reply_to(&asked, "again"));
    assert_eq!(late["error"]["code"], -32004, "{late}");
}

#[test]
fn of_two_answers_one_is_taken() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let asked = one.send("asking", &json!({}));
    other.get("asking", &asked);
    let calls = [(&one, "prod"), (&other, "test")].map(|(replica, text)| {
        (replica, replica.begin("ann", "asking", "SendMessage", &reply_to(&asked, text)))
    });
    let answers = calls.map(|(replica, call)| replica.runtime.as_ref().unwrap().block_on(call).unwrap());
    let (taken, refused): (Vec<&String>, Vec<&String>) =
        answers.iter().partition(|answer| answer.contains("\"result\""));
    assert_eq!((taken.len(), refused.len()), (1, 1), "{answers:?}");
    assert!(refused[0].contains("-32004"), "{refused:?}");
    assert_eq!(one.get("asking", &asked), other.get("asking", &asked));
}

/// A client that sends its answer once more, elsewhere, has given one answer.
#[test]
fn the_same_answer_at_two_replicas_is_one() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let asked = one.send("asking", &json!({}));
    other.get("asking", &asked);
    let calls = [&one, &other]
        .map(|replica| (replica, replica.begin("ann", "asking", "SendMessage", &reply_to(&asked, "prod"))));
    let answers = calls.map(|(replica, call)| replica.runtime.as_ref().unwrap().block_on(call).unwrap());
    let whole = one.get("asking", &asked);
    assert_eq!(other.get("asking", &asked), whole);
    for answer in answers.iter().filter(|answer| !answer.contains("-32004")) {
        assert_eq!(serde_json::from_str::<Value>(answer).unwrap()["result"]["task"], whole);
    }
    assert_eq!(whole["artifacts"].to_string().matches("done: ").count(), 1, "{whole}");
}

#[test]
fn a_task_at_work_is_watched_and_cancelled_at_another_replica() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let task = one.send("waiting", &json!({"returnImmediately": true}));
    let at_work = other.get("waiting", &task);
    assert_eq!(at_work["status"]["state"], "TASK_STATE_WORKING", "{at_work}");
    let watching = other.watch("waiting", &task);
    let cancelled = other.rpc("waiting", "CancelTask", &json!({"id": task["id"]}));
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    let watched = other.runtime.as_ref().unwrap().block_on(watching).unwrap();
    let items = payloads(&watched);
    assert_eq!(items[0]["task"]["id"], task["id"], "{watched}");
    assert_eq!(items.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED", "{watched}");
    assert_eq!(one.get("waiting", &task), cancelled["result"]);
    assert_eq!(one.runs.active_runs(), 0);
}

#[test]
fn a_task_that_waits_is_cancelled_for_all() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let asked = one.send("asking", &json!({}));
    let cancelled = other.rpc("asking", "CancelTask", &json!({"id": asked["id"]}));
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    assert_eq!(one.get("asking", &asked), cancelled["result"]);
    for replica in [&one, &other] {
        let late = replica.rpc("asking", "SendMessage", &reply_to(&asked, "prod"));
        assert_eq!(late["error"]["code"], -32004, "{late}");
        let again = replica.rpc("asking", "CancelTask", &json!({"id": asked["id"]}));
        assert_eq!(again["error"]["code"], -32002, "{again}");
    }
}

#[test]
fn the_task_of_a_replica_that_died_ends_for_all() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let task = one.send("waiting", &json!({"returnImmediately": true}));
    assert_eq!(other.get("waiting", &task)["status"]["state"], "TASK_STATE_WORKING");
    drop(one);
    let ended = other.wait_for("waiting", &task, "TASK_STATE_FAILED");
    assert!(ended["artifacts"].to_string().contains("On it."), "{ended}");
}

#[test]
fn tasks_of_another_principal_do_not_exist_anywhere() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let task = one.send("asking", &json!({}));
    let id = task["id"].as_str().unwrap();
    let hook = json!({"taskId": id, "id": "mine", "url": "http://127.0.0.1:9/"});
    one.rpc("asking", "CreateTaskPushNotificationConfig", &hook);
    let unknown = "0".repeat(id.len());
    let calls = [
        ("GetTask", "id"),
        ("CancelTask", "id"),
        ("SubscribeToTask", "id"),
        ("ListTaskPushNotificationConfigs", "taskId"),
    ];
    for (method, key) in calls {
        for replica in [&one, &other] {
            let theirs = replica.text("bob", "asking", method, &json!({key: id})).replace(id, &unknown);
            let nobodys = replica.text("bob", "asking", method, &json!({key: unknown}));
            assert_eq!(theirs, nobodys, "{method}");
            assert!(theirs.contains("-32001"), "{theirs}");
        }
    }
    let refused = other.text("bob", "asking", "SendMessage", &reply_to(&task, "prod"));
    assert!(refused.contains("-32001"), "{refused}");
    let listed = other.text("bob", "asking", "ListTasks", &json!({}));
    assert!(listed.contains("\"totalSize\":0"), "{listed}");
}

/// A receiver of push notifications.
struct Receiver {
    url: String,
    /// What it answers with.
    status: Arc<AtomicU16>,
    /// Ids and bodies, as they were taken.
    taken: Arc<Mutex<Vec<(String, Value)>>>,
    /// The same of those that were refused.
    refused: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver =
            Self { url, status: Arc::new(status.into()), taken: Arc::default(), refused: Arc::default() };
        let (status, taken, refused) =
            (Arc::clone(&receiver.status), Arc::clone(&receiver.taken), Arc::clone(&receiver.refused));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(got) = read_request(&mut stream) else { continue };
                let status = status.load(Ordering::SeqCst);
                let to = if status == 200 { &taken } else { &refused };
                to.lock().unwrap().push(got);
                let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).ok();
            }
        });
        receiver
    }

    /// The states that were taken. A notification that is delivered again has the same id and counts once.
    fn states(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        let state = |body: &Value| body["statusUpdate"]["status"]["state"].as_str().map(str::to_owned);
        let mut known = std::collections::HashSet::new();
        taken.iter().filter(|(id, _)| known.insert(id)).filter_map(|(_, body)| state(body)).collect()
    }

    /// Waits until a status of that state was taken.
    fn wait_for(&self, state: &str) {
        wait(|| self.states().iter().any(|told| told == state).then_some(()));
    }
}

fn read_request(stream: &mut std::net::TcpStream) -> Option<(String, Value)> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines
                    .into_iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.to_owned())
            };
            if body.len() >= header("content-length")?.parse().ok()? {
                return Some((header("x-a2a-notification-id")?, serde_json::from_str(body).ok()?));
            }
        }
        match stream.read(&mut chunk).ok()? {
            0 => return None,
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

#[test]
fn push_configurations_are_known_at_every_replica() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let task = one.send("asking", &json!({}));
    let config = |id: &str| json!({"taskId": task["id"], "id": id, "url": "http://127.0.0.1:9/"});
    let created = one.rpc("asking", "CreateTaskPushNotificationConfig", &config("a"));
    other.rpc("asking", "CreateTaskPushNotificationConfig", &config("b"));
    for replica in [&one, &other] {
        let found =
            replica.rpc("asking", "GetTaskPushNotificationConfig", &json!({"taskId": task["id"], "id": "a"}));
        assert_eq!(found["result"], created["result"]);
        let listed = replica.rpc("asking", "ListTaskPushNotificationConfigs", &json!({"taskId": task["id"]}));
        assert_eq!(listed["result"]["configs"].as_array().unwrap().len(), 2, "{listed}");
    }
    other.rpc("asking", "DeleteTaskPushNotificationConfig", &json!({"taskId": task["id"], "id": "a"}));
    for replica in [&one, &other] {
        let gone =
            replica.rpc("asking", "GetTaskPushNotificationConfig", &json!({"taskId": task["id"], "id": "a"}));
        assert_eq!(gone["error"]["code"], -32001, "{gone}");
    }
    let created =
        (0..20).map(|nth| one.rpc("asking", "CreateTaskPushNotificationConfig", &config(&format!("c{nth}"))));
    assert_eq!(created.take_while(|answer| answer.get("error").is_none()).count(), 9, "ten, one is there");
}

#[test]
fn a_receiver_is_told_every_turn_wherever_it_happens() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let receiver = Receiver::start(200);
    let push = json!({"taskPushNotificationConfig": {"url": receiver.url}});
    let asked = one.send("asking", &push);
    receiver.wait_for("TASK_STATE_INPUT_REQUIRED");
    other.rpc("asking", "SendMessage", &reply_to(&asked, "prod"));
    receiver.wait_for("TASK_STATE_COMPLETED");
    let states = receiver.states();
    let expected =
        ["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"].map(|state| format!("TASK_STATE_{state}"));
    assert_eq!(states, expected);
    let taken = receiver.taken.lock().unwrap();
    let mut ids: Vec<&String> = taken.iter().map(|(id, _)| id).collect();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "each once: {ids:?}");
}

#[test]
fn what_a_receiver_was_not_told_is_told_after_its_replica_died() {
    let log = memory();
    let (one, other) = (Replica::start(&log), Replica::start(&log));
    let receiver = Receiver::start(503);
    let push = json!({"returnImmediately": true, "taskPushNotificationConfig": {"url": receiver.url}});
    let task = one.send("waiting", &push);
    wait(|| (receiver.refused.lock().unwrap().len() > 1).then_some(()));
    drop(one);
    receiver.status.store(200, Ordering::SeqCst);
    receiver.wait_for("TASK_STATE_FAILED");
    let (taken, refused) = (receiver.taken.lock().unwrap().clone(), receiver.refused.lock().unwrap().clone());
    assert_eq!(taken[0].0, refused[0].0, "the first one again, under its id");
    assert!(
        refused.iter().all(|(id, _)| *id == refused[0].0),
        "nothing before the first was taken: {refused:?}"
    );
    assert_eq!(taken[0].1["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING", "{taken:?}");
    let words: String = taken
        .iter()
        .filter(|(_, body)| body["artifactUpdate"]["append"] != true)
        .filter_map(|(_, body)| body["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .collect();
    assert!(words.contains("On it."), "{taken:?}");
    assert_eq!(receiver.states().last().unwrap(), "TASK_STATE_FAILED");
    let number = |id: &str| id.rsplit_once(':').unwrap().1.split_once('.').unwrap().0.parse::<u64>().unwrap();
    assert!(taken.is_sorted_by_key(|(id, _)| number(id)), "in order: {taken:?}");
    assert_eq!(other.get("waiting", &task)["status"]["state"], "TASK_STATE_FAILED");
}

#[test]
fn a_wish_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn RunLog> {
        wait(|| {
            DiskLog::open(folder.path(), LogLimits::default())
                .ok()
                .map(|log| Arc::new(log) as Arc<dyn RunLog>)
        })
    };
    let receiver = Receiver::start(200);
    let first = Replica::start(&open());
    let asked = first.send("asking", &json!({"taskPushNotificationConfig": {"url": receiver.url}}));
    receiver.wait_for("TASK_STATE_INPUT_REQUIRED");
    drop(first);
    let second = Replica::start(&open());
    let listed = second.rpc("asking", "ListTaskPushNotificationConfigs", &json!({"taskId": asked["id"]}));
    assert_eq!(listed["result"]["configs"][0]["url"], receiver.url.as_str(), "{listed}");
    second.rpc("asking", "SendMessage", &reply_to(&asked, "prod"));
    receiver.wait_for("TASK_STATE_COMPLETED");
    assert_eq!(receiver.states().iter().filter(|state| *state == "TASK_STATE_INPUT_REQUIRED").count(), 1);
}

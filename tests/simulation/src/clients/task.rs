//! A2A clients: they send a message, lose the stream, subscribe to the task at any replica, and read it after its end.
//!
//! A2A has no numbers. What a client has is the fold of a snapshot and of the updates after it, so its text is compared with
//! the text of the run in the log, after every item.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::Part;
use aqueduct_core::RunId;
use aqueduct_transport_http::sse;
use axum::body::{Body, to_bytes};
use futures_util::StreamExt as _;
use http::{Request, Response};
use serde_json::Value;
use tower::ServiceExt as _;

use super::{PRINCIPALS, answer};
use crate::random::Random;
use crate::record::{Expected, Seen, TaskView};
use crate::trace::locked;
use crate::world::{MORTAL, RESUMABLE, Replica, World};

/// How long a client waits without an item before it subscribes elsewhere.
const SILENCE: Duration = Duration::from_secs(10);

/// How often a task may be unknown before its client believes it.
const UNKNOWN: usize = 4;

/// Connections of one client. A world does not last as long as they do.
const CONNECTIONS: usize = 400;

/// A client of one task.
struct Client {
    world: Arc<World>,
    name: String,
    token: &'static str,
    agent: &'static str,
    binding: Binding,
    random: Random,
    task: Option<RunId>,
    content: Content,
    texts: Vec<String>,
}

/// What came of one call.
enum Came {
    /// The task has ended.
    End,
    /// The task does not exist there.
    Unknown,
    /// The task is not running, so it has no stream.
    NoStream,
    /// The stream was cut, or there was no answer.
    Cut,
}

/// Runs one A2A client to the end of its task.
pub(super) async fn run(world: Arc<World>, n: u64) {
    let name = format!("task {n}");
    let mut random = Random::new(world.plan.seed, &name);
    let (token, agent) = (random.pick(PRINCIPALS), random.pick([RESUMABLE, RESUMABLE, MORTAL]));
    let binding = if random.below(2) == 0 { Binding::JsonRpc } else { Binding::HttpJson };
    tokio::time::sleep(random.millis(0, 12_000)).await;
    let (content, texts) = (Content::default(), Vec::new());
    let client = Client { world, name, token, agent, binding, random, task: None, content, texts };
    client.follow().await;
}

impl Client {
    async fn follow(mut self) {
        let message = user_message(format!("m-{}", self.name), None, vec![Part::text("go")]);
        let mut call = Call::SendStreamingMessage(Box::new(SendMessage::new(message)));
        let (mut unknown, mut seen) = (0, Seen::NoEnd);
        for _ in 0..CONNECTIONS {
            let came = self.call(&call).await;
            // Without a task there is nothing to come back to: A2A has no key for that.
            let Some(task) = self.task.clone() else { return };
            let id = task.to_string();
            call = Call::SubscribeToTask { id: id.clone() };
            match came {
                Came::End => seen = Seen::End,
                Came::NoStream => call = Call::GetTask { id, history_length: None },
                Came::Unknown => unknown += 1,
                Came::Cut => {}
            }
            if unknown >= UNKNOWN {
                seen = Seen::Gone;
            }
            if seen != Seen::NoEnd {
                break;
            }
            let pause = self.random.millis(50, 1_500);
            tokio::time::sleep(pause).await;
        }
        let Some(run) = self.task else { return };
        let view = TaskView { client: self.name, run, texts: self.texts, state: self.content.state, seen };
        locked(&self.world.record).tasks.push(view);
    }

    /// Makes one call at some replica, and reads what comes.
    async fn call(&mut self, call: &Call) -> Came {
        let replica = self.world.any_replica(&mut self.random);
        let Some(request) = self.request(call) else { return Came::Cut };
        let answered = answer(&replica.node, replica.router.clone().oneshot(request)).await;
        let Some(Ok(response)) = answered else { return Came::Cut };
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(sse::is_event_stream) {
            return self.read(&replica, response).await;
        }
        let Some(Ok(body)) = answer(&replica.node, to_bytes(response.into_body(), usize::MAX)).await else {
            return Came::Cut;
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.take_whole(body)
    }

    fn request(&self, call: &Call) -> Option<Request<Body>> {
        let base = format!("http://localhost/a2a/{}", self.agent);
        let asked = Endpoint::new(base, self.binding, Version::V1).http_request(call, 1).ok()?;
        let mut request = Request::builder().method(asked.method).uri(&asked.url);
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in &asked.headers {
            request = request.header(*name, value.as_str());
        }
        request.body(Body::from(asked.body)).ok()
    }

    /// Takes an answer that is not a stream: a task, or an error.
    fn take_whole(&mut self, mut body: Value) -> Came {
        let error = body.get("error").filter(|error| !error.is_null());
        if let Some(error) = error {
            let text = error.to_string();
            self.world.trace.note("a2a", || format!("{} is refused: {text}", self.name));
            return if text.contains("-32001") || text.contains("TASK_NOT_FOUND") {
                Came::Unknown
            } else if text.contains("-32004") || text.contains("UNSUPPORTED_OPERATION") {
                Came::NoStream
            } else {
                Came::Cut
            };
        }
        let task = if self.binding == Binding::JsonRpc {
            body.get_mut("result").map(Value::take).unwrap_or_default()
        } else {
            body
        };
        if self.take(&serde_json::json!({ "task": task })) { Came::End } else { Came::Cut }
    }

    /// Reads a stream until the end of the task, a cut, or silence.
    async fn read(&mut self, replica: &Replica, response: Response<Body>) -> Came {
        let most = if self.random.below(3) == 0 { u64::MAX } else { 1 + self.random.below(12) };
        let mut chunks = response.into_body().into_data_stream();
        let mut frames = sse::Decoder::new(sse::DecodeLimits::default());
        let mut items = 0;
        loop {
            while let Some(Ok(event)) = frames.poll_event() {
                let item: Value = serde_json::from_str(&event.data).unwrap_or_default();
                let item = item.get("result").cloned().unwrap_or(item);
                if self.take(&item) {
                    return Came::End;
                }
                items += 1;
                if items >= most {
                    return Came::Cut;
                }
            }
            let next = tokio::select! {
                biased;
                () = replica.node.crashed() => return Came::Cut,
                next = tokio::time::timeout(SILENCE, chunks.next()) => next,
            };
            let Ok(Some(Ok(chunk))) = next else { return Came::Cut };
            frames.handle_chunk(chunk);
        }
    }

    /// Takes an item of a stream. Returns `true` if the task has ended.
    fn take(&mut self, item: &Value) -> bool {
        let id = |kind: &str, member: &str| item.get(kind)?.get(member)?.as_str();
        let named = id("task", "id")
            .or_else(|| id("statusUpdate", "taskId"))
            .or_else(|| id("artifactUpdate", "taskId"));
        if let (None, Some(task)) = (&self.task, named) {
            let task = RunId::from(task);
            locked(&self.world.record).expected.insert(task.clone(), Expected::Script);
            self.task = Some(task);
        }
        self.content.apply(item);
        let text = self.content.text();
        self.world
            .trace
            .note("a2a", || format!("{} {:?} sees {text:?} {}", self.name, self.task, self.content.state));
        self.texts.push(text);
        self.content.is_over()
    }
}

/// What a client has of a task, as the protocol defines it: artifacts by id, and the state.
#[derive(Debug, Default)]
pub struct Content {
    artifacts: Vec<(String, String)>,
    state: String,
}

impl Content {
    /// Folds an item of a stream.
    pub fn apply(&mut self, item: &Value) {
        if let Some(task) = item.get("task") {
            let artifacts = task.get("artifacts").and_then(Value::as_array);
            self.artifacts =
                artifacts.into_iter().flatten().map(|one| (name_of(one), text_of(one))).collect();
            self.set_state(task);
        }
        if let Some(update) = item.get("statusUpdate") {
            self.set_state(update);
        }
        if let Some(update) = item.get("artifactUpdate")
            && let Some(artifact) = update.get("artifact")
        {
            let (name, text) = (name_of(artifact), text_of(artifact));
            let is_appended = update.get("append").and_then(Value::as_bool).unwrap_or_default();
            match self.artifacts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if is_appended => known.push_str(&text),
                Some((_, known)) => *known = text,
                None => self.artifacts.push((name, text)),
            }
        }
    }

    fn set_state(&mut self, of: &Value) {
        let state = of.get("status").and_then(|status| status.get("state")?.as_str());
        state.unwrap_or_default().clone_into(&mut self.state);
    }

    /// Returns the text of all artifacts.
    pub fn text(&self) -> String {
        self.artifacts.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns `true` if the agent was done.
    pub fn is_completed(&self) -> bool {
        self.state == "TASK_STATE_COMPLETED"
    }

    fn is_over(&self) -> bool {
        matches!(
            self.state.as_str(),
            "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED"
        )
    }
}

fn name_of(artifact: &Value) -> String {
    artifact.get("artifactId").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn text_of(artifact: &Value) -> String {
    let parts = artifact.get("parts").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text")?.as_str()).collect()
}

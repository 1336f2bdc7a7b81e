//! The modes of `modes.json`, played by an executor of the SDK.
//!
//! The first word of a message names the mode; a message to a task that waits plays the mode's `reply`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use a2a::{A2AError, Artifact, Message, Part, Role, StreamResponse, Task, TaskArtifactUpdateEvent};
use a2a::{TaskState, TaskStatus, TaskStatusUpdateEvent};
use a2a_server::{AgentExecutor, ExecutorContext};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

type Event = Result<StreamResponse, A2AError>;

fn modes() -> &'static Value {
    static MODES: OnceLock<Value> = OnceLock::new();
    MODES.get_or_init(|| serde_json::from_str(include_str!("../../modes.json")).unwrap())
}

/// The mode that a text asks for.
fn mode_of(text: &str) -> &'static Value {
    let named = text.split_whitespace().next().and_then(|name| modes().get(name));
    named.unwrap_or_else(|| &modes()["tools"])
}

/// What the turns of all tasks share.
#[derive(Default)]
struct Shared {
    of_task: Mutex<HashMap<String, &'static Value>>,
    stops: Mutex<HashMap<String, Arc<Notify>>>,
    released: Notify,
}

/// Plays modes, and remembers which mode a task is in.
#[derive(Default)]
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

impl AgentExecutor for Executor {
    fn execute(&self, context: ExecutorContext) -> BoxStream<'static, Event> {
        let (events, receiver) = mpsc::channel(1);
        let stop = Arc::new(Notify::new());
        self.shared.stops.lock().unwrap().insert(context.task_id.clone(), stop.clone());
        let turn = Turn { shared: self.shared.clone(), context, events };
        tokio::spawn(async move {
            tokio::select! {
                () = turn.play() => {}
                () = stop.notified() => {}
            }
        });
        Box::pin(ReceiverStream::new(receiver))
    }

    fn cancel(&self, context: ExecutorContext) -> BoxStream<'static, Event> {
        eprintln!("cancelled");
        if let Some(stop) = self.shared.stops.lock().unwrap().remove(&context.task_id) {
            stop.notify_one();
        }
        let event = status(&context, TaskState::Canceled, "");
        Box::pin(stream::once(async move { Ok(event) }))
    }
}

fn said(text: &str) -> Message {
    Message::new(Role::Agent, vec![Part::text(text)])
}

fn status(context: &ExecutorContext, state: TaskState, text: &str) -> StreamResponse {
    let (task_id, context_id) = context.task_info();
    let message = (!text.is_empty()).then(|| said(text));
    let status = TaskStatus { state, message, timestamp: None };
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent { task_id, context_id, status, metadata: None })
}

/// One turn of one task.
struct Turn {
    shared: Arc<Shared>,
    context: ExecutorContext,
    events: mpsc::Sender<Event>,
}

impl Turn {
    async fn play(self) {
        let said = self.context.message.as_ref().and_then(Message::text).unwrap_or_default().to_owned();
        let steps = self.steps(&said);
        for step in steps.as_array().unwrap() {
            for (kind, what) in step.as_object().unwrap() {
                self.step(kind, what, &said).await;
            }
        }
    }

    /// What is to be played; a new task is announced.
    fn steps(&self, said: &str) -> &'static Value {
        let mut of_task = self.shared.of_task.lock().unwrap();
        if self.context.stored_task.is_some() {
            let mode = of_task.get(&self.context.task_id).copied().unwrap_or_else(|| mode_of("tools"));
            return mode.get("reply").unwrap_or(&mode["steps"]);
        }
        let mode = mode_of(said);
        of_task.insert(self.context.task_id.clone(), mode);
        let steps = &mode["steps"];
        if steps.as_array().unwrap().iter().all(|step| step.get("message").is_none()) {
            // The channel is empty: there is room.
            let _ = self.events.try_send(Ok(StreamResponse::Task(self.task())));
        }
        steps
    }

    fn task(&self) -> Task {
        let (id, context_id) = self.context.task_info();
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: None };
        let history = self.context.message.clone().map(|message| vec![message]);
        Task { id, context_id, status, artifacts: None, history, metadata: None }
    }

    async fn send(&self, event: Event) {
        // The receiver is gone: the turn was stopped.
        let _ = self.events.send(event).await;
    }

    async fn status(&self, state: TaskState, text: &Value) {
        self.send(Ok(status(&self.context, state, text.as_str().unwrap_or_default()))).await;
    }

    async fn artifact(&self, what: &Value, part: Part, append: bool, last: bool) {
        let (task_id, context_id) = self.context.task_info();
        let id = what["artifact"].as_str().unwrap().to_owned();
        let artifact = Artifact {
            name: Some(id.clone()),
            artifact_id: id,
            description: None,
            parts: vec![part],
            metadata: None,
            extensions: None,
        };
        let (append, last_chunk) = (Some(append), Some(last));
        let update =
            TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata: None };
        self.send(Ok(StreamResponse::ArtifactUpdate(update))).await;
    }

    async fn step(&self, kind: &str, what: &Value, said: &str) {
        let is = |key: &str| what[key].as_bool().unwrap_or_default();
        match kind {
            "status" => self.status(TaskState::Working, what).await,
            "ask" => self.status(TaskState::InputRequired, what).await,
            "auth" => self.status(TaskState::AuthRequired, what).await,
            "fail" => self.status(TaskState::Failed, what).await,
            "complete" => self.status(TaskState::Completed, what).await,
            "message" => self.send(Ok(StreamResponse::Message(self::said(what.as_str().unwrap())))).await,
            "raise" => self.send(Err(A2AError::internal(what.as_str().unwrap()))).await,
            "chunk" => {
                let text = what["text"].as_str().unwrap().replace("{text}", said);
                self.artifact(what, Part::text(text), is("append"), is("last")).await;
            }
            "many" => self.count(what, said).await,
            "bytes" => {
                let data = STANDARD.decode(what["base64"].as_str().unwrap()).unwrap();
                self.artifact(what, file(Part::raw(data), what), false, true).await;
            }
            "url" => {
                self.artifact(what, file(Part::url(what["url"].as_str().unwrap()), what), false, true).await;
            }
            "data" => self.artifact(what, Part::data(what["data"].clone()), false, true).await,
            "sleep" => tokio::time::sleep(Duration::from_millis(what.as_u64().unwrap())).await,
            "wait" => std::future::pending().await,
            "hold" => self.shared.released.notified().await,
            "release" => self.shared.released.notify_one(),
            other => panic!("no such step: {other}"),
        }
    }

    /// `many 100` counts to another number.
    async fn count(&self, what: &Value, said: &str) {
        let wanted = said.split_whitespace().nth(1).and_then(|count| count.parse().ok());
        let count = wanted.unwrap_or_else(|| what["count"].as_u64().unwrap());
        for number in 0..count {
            self.artifact(what, Part::text(format!("{number} ")), number > 0, number + 1 == count).await;
        }
    }
}

fn file(part: Part, what: &Value) -> Part {
    part.with_media_type(what["mediaType"].as_str().unwrap())
        .with_filename(what["filename"].as_str().unwrap())
}

//! An A2A agent with one task, whose items the test releases one by one: it serves `SendStreamingMessage`, `ListTasks`,
//! `GetTask`, `SubscribeToTask` and `CancelTask` like a server that keeps every item.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::support::{Asked, read_request};

/// The agent.
#[derive(Clone)]
pub(crate) struct TaskServer {
    pub(crate) url: String,
    said: Arc<Vec<Value>>,
    released: watch::Sender<usize>,
    asked: Arc<Mutex<Vec<String>>>,
    subscribed: watch::Sender<usize>,
    is_forgetful: bool,
    cuts: Arc<AtomicUsize>,
    /// Lists without the task, before one that has it.
    late: Arc<AtomicUsize>,
}

/// A status of the task; without words if there is no id.
pub(crate) fn status(state: &str, id: &str, text: &str) -> Value {
    let mut status = json!({ "state": format!("TASK_STATE_{state}") });
    if !id.is_empty() {
        status["message"] = json!({ "messageId": id, "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    }
    json!({ "statusUpdate": { "taskId": "task", "contextId": "context", "status": status } })
}

/// A piece of an artifact.
pub(crate) fn artifact(id: &str, append: bool, last: bool, parts: &Value) -> Value {
    let artifact = json!({ "artifactId": id, "name": id, "parts": parts });
    json!({ "artifactUpdate": {
        "taskId": "task", "contextId": "context", "artifact": artifact, "append": append, "lastChunk": last,
    } })
}

impl TaskServer {
    /// Starts an agent that sends these items, each after it was released.
    pub(crate) async fn start(said: Vec<Value>) -> Self {
        Self::listen(said, false).await
    }

    /// The same, but it forgets its task with the connection that began it.
    pub(crate) async fn forgetful(said: Vec<Value>) -> Self {
        Self::listen(said, true).await
    }

    async fn listen(said: Vec<Value>, is_forgetful: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            said: Arc::new(said),
            released: watch::Sender::new(0),
            asked: Arc::default(),
            subscribed: watch::Sender::new(0),
            is_forgetful,
            cuts: Arc::default(),
            late: Arc::default(),
        };
        let own = server.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let server = own.clone();
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    server.answer(&request, stream).await;
                });
            }
        });
        server
    }

    /// Cuts the responses to so many calls: that of the message before its first item, others as a whole. The task is started.
    pub(crate) fn cut_answers(&self, count: usize) {
        self.cuts.store(count, Ordering::SeqCst);
    }

    /// Lists the task only after so many lists without it, like an agent that is slow to start one.
    pub(crate) fn list_late(&self, count: usize) {
        self.late.store(count, Ordering::SeqCst);
    }

    /// Lets it say so much in all.
    pub(crate) fn release(&self, count: usize) {
        self.released.send_modify(|released| *released = (*released).max(count));
    }

    /// Waits until a client has subscribed to the task.
    pub(crate) async fn taken_up(&self) {
        self.subscribed.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }

    /// The methods that were called.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn answer(&self, request: &Asked, mut out: TcpStream) {
        let method = request.body["method"].as_str().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(method.clone());
        let known = *self.released.borrow();
        let task = self.task(known);
        let is_over = known == self.said.len();
        let is_left = |count: &AtomicUsize| {
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
        };
        let is_cut = is_left(&self.cuts);
        match method.as_str() {
            "SendStreamingMessage" if is_cut => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                out.write_all(head.as_bytes()).await.ok();
            }
            _ if is_cut => {}
            "SendStreamingMessage" => self.stream(&mut out, 0, None).await,
            _ if self.is_forgetful => whole(&mut out, &error(-32001, "no such task")).await,
            "ListTasks" if is_left(&self.late) => {
                whole(&mut out, &json!({ "result": { "tasks": [], "nextPageToken": "" } })).await;
            }
            "ListTasks" => {
                whole(&mut out, &json!({ "result": { "tasks": [task], "nextPageToken": "" } })).await;
            }
            "GetTask" => whole(&mut out, &json!({ "result": task })).await,
            "SubscribeToTask" if is_over => whole(&mut out, &error(-32004, "it is over")).await,
            "SubscribeToTask" => {
                self.subscribed.send_modify(|count| *count += 1);
                self.stream(&mut out, known, Some(json!({ "task": task }))).await;
            }
            "CancelTask" => {
                let mut task = task;
                task["status"] = json!({ "state": "TASK_STATE_CANCELED" });
                whole(&mut out, &json!({ "result": task })).await;
            }
            _ => whole(&mut out, &error(-32601, "no such method")).await,
        }
        out.shutdown().await.ok();
    }

    async fn stream(&self, out: &mut TcpStream, from: usize, snapshot: Option<Value>) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let mut text = head.to_owned();
        text.extend(snapshot.iter().map(frame));
        let mut released = self.released.subscribe();
        let mut at = from;
        loop {
            let now = *released.borrow_and_update();
            text.extend(self.said[at..now.max(at)].iter().map(frame));
            at = now.max(at);
            if out.write_all(std::mem::take(&mut text).as_bytes()).await.is_err() || at == self.said.len() {
                return;
            }
            released.changed().await.unwrap();
        }
    }

    /// The task after so many events, as a server keeps it.
    fn task(&self, count: usize) -> Value {
        let mut task = json!({ "id": "task", "contextId": "context", "status": { "state": "TASK_STATE_SUBMITTED" },
            "history": [{ "messageId": "r-input", "role": "ROLE_USER", "parts": [{ "text": "hello" }] }],
            "artifacts": [] });
        for event in &self.said[..count] {
            if let Some(update) = event.get("statusUpdate") {
                if let Some(message) = task["status"].get("message").cloned() {
                    task["history"].as_array_mut().unwrap().push(message);
                }
                task["status"] = update["status"].clone();
            }
            if let Some(update) = event.get("artifactUpdate") {
                let artifacts = task["artifacts"].as_array_mut().unwrap();
                let new = &update["artifact"];
                match artifacts.iter_mut().find(|known| known["artifactId"] == new["artifactId"]) {
                    Some(known) if update["append"] == true => {
                        let parts = new["parts"].as_array().unwrap().clone();
                        known["parts"].as_array_mut().unwrap().extend(parts);
                    }
                    Some(known) => *known = new.clone(),
                    None => artifacts.push(new.clone()),
                }
            }
        }
        task
    }
}

fn error(code: i32, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

/// An event of a stream.
pub(crate) fn frame(result: &Value) -> String {
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

async fn whole(out: &mut TcpStream, answer: &Value) {
    let mut body = json!({ "jsonrpc": "2.0", "id": 1 });
    body.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    out.write_all(format!("{head}{body}").as_bytes()).await.ok();
}

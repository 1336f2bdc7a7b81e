//! Agents on sockets that say things one by one, and call others in between.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::super::support::{Asked, read_request};

/// An agent.
pub(super) struct Peer {
    pub(super) url: String,
    pub(super) asked: mpsc::Receiver<Asked>,
}

impl Peer {
    pub(super) async fn start(
        answer: impl Fn(Asked, Out) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel(64);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (sender, answer) = (sender.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    sender.try_send(request.clone()).ok();
                    answer(request, Out(stream)).await;
                });
            }
        });
        Self { url, asked }
    }

    /// Starts an agent that responds to every request with these frames, and then closes the connection.
    pub(super) async fn saying(frames: Vec<String>) -> Self {
        Self::start(move |asked, out| {
            let frames = frames.clone();
            Box::pin(async move { out.answer(&asked, &frames.concat()).await })
        })
        .await
    }

    /// The next request of a method.
    pub(super) async fn next(&mut self, method: &str) -> Asked {
        loop {
            let asked = self.asked.recv().await.unwrap();
            if asked.body["method"] == method {
                return asked;
            }
        }
    }
}

/// Where an agent's answer goes.
pub(super) struct Out(TcpStream);

impl Out {
    pub(super) async fn begin(&mut self) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        self.say(head).await;
    }

    pub(super) async fn say(&mut self, bytes: &str) {
        self.0.write_all(bytes.as_bytes()).await.ok();
    }

    /// The whole stream; a task that is to be cancelled is.
    pub(super) async fn answer(mut self, asked: &Asked, frames: &str) {
        if asked.body["method"] == "CancelTask" {
            return self.whole(&task(asked.body["params"]["id"].as_str().unwrap(), "CANCELED")).await;
        }
        self.begin().await;
        self.say(frames).await;
        self.0.shutdown().await.ok();
    }

    pub(super) async fn whole(mut self, result: &Value) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        self.say(&format!("{head}{body}")).await;
        self.0.shutdown().await.ok();
    }

    /// Waits until the other side has gone.
    pub(super) async fn closed(&mut self) {
        while self.0.read(&mut [0; 64]).await.unwrap_or(0) > 0 {}
    }
}

pub(super) fn frame(result: &Value) -> String {
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

pub(super) fn task(id: &str, state: &str) -> Value {
    json!({ "id": id, "contextId": format!("{id}-context"), "status": { "state": format!("TASK_STATE_{state}") } })
}

pub(super) fn begun(id: &str) -> String {
    frame(&json!({ "task": task(id, "WORKING") }))
}

pub(super) fn status(id: &str, state: &str, text: &str) -> String {
    let message =
        json!({ "messageId": format!("{id}-{text}"), "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    let status = json!({ "state": format!("TASK_STATE_{state}"), "message": message });
    frame(
        &json!({ "statusUpdate": { "taskId": id, "contextId": format!("{id}-context"), "status": status } }),
    )
}

pub(super) fn done(id: &str) -> String {
    let status = json!({ "state": "TASK_STATE_COMPLETED" });
    frame(
        &json!({ "statusUpdate": { "taskId": id, "contextId": format!("{id}-context"), "status": status } }),
    )
}

pub(super) fn chunk(id: &str, text: &str, append: bool) -> String {
    let artifact = json!({ "artifactId": "A", "parts": [{ "text": text }] });
    let update = json!({
        "taskId": id, "contextId": format!("{id}-context"), "artifact": artifact, "append": append,
    });
    frame(&json!({ "artifactUpdate": update }))
}

/// A call that an agent makes through the gateway.
#[derive(Debug, Clone, Default)]
pub(super) struct Called {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) metadata: Value,
    pub(super) context: &'static str,
}

impl Called {
    /// With the token that the agent was given, in the header.
    pub(super) fn by(asked: &Asked) -> Self {
        Self { headers: vec![("x-aqueduct-run", header(asked, "x-aqueduct-run"))], ..Self::default() }
    }
}

pub(super) fn header(asked: &Asked, name: &str) -> String {
    let line =
        asked.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default();
    line.to_owned()
}

/// The way to the gateway, which is there after the agents.
#[derive(Clone, Default)]
pub(super) struct Door(Arc<OnceLock<SocketAddr>>);

impl Door {
    pub(super) fn is_at(&self, address: SocketAddr) {
        self.0.set(address).unwrap();
    }

    pub(super) fn address(&self) -> SocketAddr {
        *self.0.get().unwrap()
    }

    pub(super) fn request(&self, agent: &str, method: &str, how: &Called) -> Request<Bytes> {
        let mut message = json!({
            "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "do it" }], "metadata": how.metadata,
        });
        if !how.context.is_empty() {
            message["contextId"] = json!(how.context);
        }
        let params = json!({ "message": message });
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let mut request = Request::post(format!("http://{}/a2a/{agent}", self.0.get().unwrap()))
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        for (name, value) in &how.headers {
            request = request.header(*name, value);
        }
        request.body(Bytes::from(body.to_string())).unwrap()
    }

    /// Calls an agent and gives the bytes of its answer.
    pub(super) async fn call(&self, agent: &str, how: &Called) -> String {
        let client = Client::new(ClientConfig::default()).unwrap();
        let request = self.request(agent, "SendStreamingMessage", how);
        match client.open_bytes(request, |kind| kind == "text/event-stream").await {
            Ok((_, mut stream)) => {
                let mut bytes = Vec::new();
                while let Some(Ok(chunk)) = stream.next().await {
                    bytes.extend_from_slice(&chunk);
                }
                String::from_utf8(bytes).unwrap()
            }
            Err(aqueduct_transport_http::Error::NotAStream(response)) => {
                String::from_utf8_lossy(response.body()).into_owned()
            }
            Err(error) => format!("failed: {error}"),
        }
    }
}

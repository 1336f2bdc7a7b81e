//! A gateway on a port of its own, upstreams that say what a test wants, and a client that reads whole answers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_sse};
use aqueduct_core::CancelToken;
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A gateway that serves until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) client: Client,
    shutdown: CancelToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Serves a configuration on a free port.
pub(crate) async fn serve(toml: &str, environment: &[(&str, &str)]) -> Served {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = load(Path::new("aqueduct.toml"), toml, environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    serve_gateway(Gateway::new(config).unwrap()).await
}

pub(crate) async fn serve_gateway(gateway: Arc<Gateway>) -> Served {
    let listening = Listening::bind(Arc::clone(&gateway)).await.unwrap();
    let address = listening.addresses().unwrap()[0];
    let shutdown = listening.shutdown();
    tokio::spawn(listening.serve());
    let client = Client::new(ClientConfig::default()).unwrap();
    Served { address, gateway, client, shutdown }
}

/// The body of a run.
pub(crate) fn input(run: &str, version: Option<&str>) -> Value {
    let mut input = json!({
        "threadId": "t", "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "m1", "role": "user", "content": "hello" }],
    });
    if let Some(version) = version {
        input["protocolVersion"] = json!(version);
    }
    input
}

impl Served {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Request<Bytes> {
        Request::post(self.url(path))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(Bytes::from(body.to_string()))
            .unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.client.request(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Bytes> {
        self.send(Request::get(self.url(path)).body(Bytes::new()).unwrap()).await
    }

    /// Runs an agent to its end: a stream that the verifier wants, as events.
    pub(crate) async fn run(&self, agent: &str, run: &str) -> Vec<Value> {
        let response = self.send(self.post(&format!("/agents/{agent}"), &input(run, Some("1.0")))).await;
        events(&response)
    }

    /// Waits until no run is under way.
    pub(crate) async fn idle(&self) {
        while self.gateway.runs().active_runs() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// The events of a whole answer, judged.
pub(crate) fn events(response: &Response<Bytes>) -> Vec<Value> {
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert_eq!(response.status(), 200, "{text}");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let found = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
    assert!(found.is_empty(), "{found:#?}\n{text}");
    payloads(&text)
}

pub(crate) fn payloads(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|payload| serde_json::from_str(payload).unwrap())
        .collect()
}

/// The text of all text messages.
pub(crate) fn answer(events: &[Value]) -> String {
    let contents = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    contents.map(|event| event["delta"].as_str().unwrap()).collect()
}

/// What an upstream was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// An upstream whose response to each request is computed by a function.
pub(crate) struct Upstream {
    pub(crate) url: String,
    pub(crate) asked: mpsc::Receiver<Asked>,
}

/// What to answer to a request.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// These bytes, then the connection is closed.
    Close(Vec<u8>),
    /// These bytes, then nothing more; the connection stays until the gateway closes it.
    Hang(Vec<u8>),
    /// These bytes, then more of the same kind until the gateway closes the connection.
    Endless(Vec<u8>),
}

impl Say {
    /// Writes the response. A gateway that closes the connection early causes no failure here.
    pub(crate) async fn to(self, mut stream: TcpStream) {
        let (Self::Close(bytes) | Self::Hang(bytes) | Self::Endless(bytes)) = &self;
        stream.write_all(bytes).await.ok();
        match self {
            Self::Close(_) => {}
            Self::Hang(_) => while stream.read(&mut [0]).await.is_ok_and(|read| read > 0) {},
            Self::Endless(_) => while stream.write_all(&[b'x'; 4096]).await.is_ok() {},
        }
        stream.shutdown().await.ok();
    }
}

impl Upstream {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Say + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel(64);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = read_request(&mut stream).await else { continue };
                let say = answer(&request);
                // A test that does not look at the requests must not hold the upstream.
                sender.try_send(request).ok();
                tokio::spawn(say.to(stream));
            }
        });
        Self { url, asked }
    }

    /// Starts an upstream with a constant response.
    pub(crate) async fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::start(move |_| Say::Close(bytes.clone())).await
    }
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[head_end..]).unwrap_or_default();
    Some(Asked { head, body })
}

/// A response whose body ends with the connection.
pub(crate) fn http(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// An event stream.
pub(crate) fn sse(body: &str) -> Vec<u8> {
    http("200 OK", "text/event-stream", body)
}

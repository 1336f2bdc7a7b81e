//! Events, encoders, services and servers for the tests.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_core::event::{BlockHead, Lane, Origin, RunFinished};
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventEncoder, EventStream, Ingest, NumberedEvent, PayloadSink,
    PublishRequest, RefusalKind, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{
    BlockEvent, BlockId, ByteString, Channel, LaneId, Message, Role, RunId, RunInfo, RunInput, RunOutcome,
    Source, SpanKind,
};
use aqueduct_transport_http::{
    Counters, Drained, Gauge, Refusal, RunRequest, Server, ServerConfig, StreamOptions, run_endpoint,
};
use axum::Router;
use bytes::Bytes;
use futures_util::Stream;
use http::request::Parts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Nothing in these tests takes longer, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that must happen.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let output = tokio::time::timeout(PATIENCE, future).await;
    output.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Waits until a condition holds that nobody announces.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    soon(what, async {
        while !condition() {
            ticks.tick().await;
        }
    })
    .await;
}

/// A text delta.
pub(crate) fn delta(text: impl Into<ByteString>) -> BlockEvent {
    let lane = Lane { id: LaneId::from("root"), source: Source::root(), parent: None, parent_call: None };
    let head = BlockHead {
        id: BlockId::from("run/1"),
        kind: SpanKind::Text,
        lane: Arc::new(lane),
        channel: Channel::Answer,
        role: Role::Assistant,
        tool_name: ByteString::new(),
        parent: None,
        continues: None,
        replaces: None,
        origin: Origin::default(),
    };
    BlockEvent::BlockDelta { block: Arc::new(head), delta: text.into() }
}

/// A terminal event.
pub(crate) fn finished() -> BlockEvent {
    let run = Arc::new(RunInfo::new("thread", "run"));
    BlockEvent::RunFinished(Box::new(RunFinished::new(run, RunOutcome::Success)))
}

/// Events with their numbers.
pub(crate) fn numbered(events: impl IntoIterator<Item = BlockEvent>) -> Vec<NumberedEvent> {
    (1..).zip(events).map(|(number, event)| NumberedEvent { number, event }).collect()
}

/// Texts, then the end.
pub(crate) fn script(texts: &[&str]) -> Vec<NumberedEvent> {
    numbered(texts.iter().map(|text| delta(*text)).chain([finished()]))
}

/// A stream of what is there already.
pub(crate) fn ready(events: Vec<NumberedEvent>) -> EventStream {
    Box::pin(futures_util::stream::iter(events))
}

/// Writes a delta as its text (one payload per part between `|`), the end as `end`, all else as nothing.
#[derive(Debug)]
pub(crate) struct TextEncoder;

impl EventEncoder for TextEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        match event {
            BlockEvent::BlockDelta { delta, .. } => {
                for part in delta.split('|') {
                    sink.push(&mut |out| out.extend_from_slice(part.as_bytes()));
                }
            }
            event if event.is_terminal() => sink.push(&mut |out| out.extend_from_slice(b"end")),
            _ => {}
        }
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }
}

/// Holds texts until they exceed the limit, then writes each as one payload, and later ones as they come.
#[derive(Debug)]
pub(crate) struct HoldingEncoder {
    pub(crate) limit: usize,
    pub(crate) held: Vec<String>,
    pub(crate) is_open: bool,
}

impl EventEncoder for HoldingEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        match event {
            BlockEvent::BlockDelta { delta, .. } => self.held.push(delta.to_string()),
            event if event.is_terminal() => self.held.push("end".to_owned()),
            _ => return,
        }
        self.is_open |= event.is_terminal() || self.held.concat().len() > self.limit;
        if self.is_open {
            for text in self.held.drain(..) {
                sink.push(&mut |out| out.extend_from_slice(text.as_bytes()));
            }
        }
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }

    fn has_state(&self) -> bool {
        true
    }
}

/// The same as length-prefixed frames.
#[derive(Debug)]
pub(crate) struct BinaryEncoder;

impl EventEncoder for BinaryEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        let payload =
            if let BlockEvent::BlockDelta { delta, .. } = event { delta } else { "\n\0end" }.as_bytes();
        sink.push(&mut |out| {
            out.push(u8::try_from(payload.len()).unwrap());
            out.extend_from_slice(payload);
        });
    }

    fn media_type(&self) -> &'static str {
        "application/x.frames+proto"
    }

    fn is_binary(&self) -> bool {
        true
    }
}

/// Makes the events of a run from the text of its input.
pub(crate) type Script = dyn Fn(&str) -> EventStream + Send + Sync;

/// Makes a service whose runs say what comes through the sender they are given; it ends them by `end`.
pub(crate) fn fed_service() -> (Arc<ScriptedService>, tokio::sync::mpsc::Receiver<Feed>) {
    let (runs, started) = tokio::sync::mpsc::channel(16);
    let service = ScriptedService::new(move |_| {
        let (feed, mut receiver) = tokio::sync::mpsc::channel::<BlockEvent>(1024);
        runs.try_send(Feed(feed)).unwrap();
        let mut number = 0;
        Box::pin(futures_util::stream::poll_fn(move |cx| {
            receiver.poll_recv(cx).map(|event| {
                number += 1;
                event.map(|event| NumberedEvent { number, event })
            })
        }))
    });
    (service, started)
}

/// Says what a run says.
pub(crate) struct Feed(tokio::sync::mpsc::Sender<BlockEvent>);

impl Feed {
    pub(crate) fn say(&self, text: impl Into<ByteString>) {
        self.0.try_send(delta(text)).unwrap();
    }

    pub(crate) fn end(&self) {
        self.0.try_send(finished()).unwrap();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// A service with one agent, `agent`, and one token, `secret` (or none).
pub(crate) struct ScriptedService {
    script: Box<Script>,
    /// Streams that are open.
    pub(crate) open: Arc<AtomicU64>,
}

impl ScriptedService {
    pub(crate) fn new(script: impl Fn(&str) -> EventStream + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { script: Box::new(script), open: Arc::default() })
    }

    fn events(&self, text: &str) -> EventStream {
        self.open.fetch_add(1, Ordering::SeqCst);
        Box::pin(Counted { events: (self.script)(text), open: Arc::clone(&self.open) })
    }
}

/// Counts a stream as open until it is dropped.
struct Counted {
    events: EventStream,
    open: Arc<AtomicU64>,
}

impl Stream for Counted {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        self.events.as_mut().poll_next(cx)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refused<T: Send + 'static>(
    kind: RefusalKind,
    message: &str,
) -> BoxFuture<'static, Result<T, ServiceError>> {
    Box::pin(std::future::ready(Err(ServiceError::new(kind, message))))
}

impl RunService for ScriptedService {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        refused(RefusalKind::Unsupported, "no list")
    }

    fn admit(&self, caller: &Caller, agent: Option<&str>) -> Result<(), ServiceError> {
        if agent != Some("agent") {
            return Err(ServiceError::new(RefusalKind::NotFound, "no such agent"));
        }
        if caller.token.as_deref().is_some_and(|token| token != "secret") {
            return Err(ServiceError::new(RefusalKind::Unauthenticated, "wrong token"));
        }
        Ok(())
    }

    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        if let Err(refusal) = self.admit(caller, Some(agent)) {
            return Box::pin(std::future::ready(Err(refusal)));
        }
        let text = input.latest_user_message().map(Message::text).unwrap_or_default();
        let run = StartedRun::new(input.run_id, self.events(&text));
        Box::pin(std::future::ready(Ok(run)))
    }

    fn watch(&self, _: &Caller, run: &RunId, after: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        if after > 100 {
            return refused(RefusalKind::Gone { earliest: 7 }, "trimmed");
        }
        let events = self.events(run.as_str());
        let rest =
            futures_util::StreamExt::filter(events, move |event| std::future::ready(event.number > after));
        Box::pin(std::future::ready(Ok(Box::pin(rest) as EventStream)))
    }

    fn cancel(&self, _: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        refused(RefusalKind::Unsupported, "no cancel")
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        refused(RefusalKind::Unsupported, "no publish")
    }
}

/// Takes any JSON string as the prompt.
pub(crate) fn parse(parts: &Parts, body: &Bytes) -> Result<RunRequest, Refusal> {
    let text: String = serde_json::from_slice(body).map_err(|error| Refusal::invalid(error.to_string()))?;
    let wants_binary =
        parts.headers.get("accept").is_some_and(|accept| accept == "application/x.frames+proto");
    let encoder: Box<dyn EventEncoder> =
        if wants_binary { Box::new(BinaryEncoder) } else { Box::new(TextEncoder) };
    Ok(RunRequest { input: RunInput::prompt("thread", "run", &text), encoder })
}

/// A router with the agent at `/`.
pub(crate) fn routes(service: &Arc<ScriptedService>) -> Router {
    let service: Arc<dyn RunService> = service.clone();
    Router::new().route("/", run_endpoint(service, "agent", parse, StreamOptions::default()))
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) counters: Counters,
    pub(crate) shutdown: CancelToken,
    pub(crate) ended: JoinHandle<Drained>,
}

impl Running {
    pub(crate) async fn start(router: Router, config: ServerConfig) -> Self {
        Self::serve(router, Server::bind("127.0.0.1:0", config).await.unwrap())
    }

    pub(crate) fn serve(router: Router, server: Server) -> Self {
        let (addr, counters, shutdown) =
            (server.local_addr().unwrap(), server.counters(), CancelToken::new());
        let ended = tokio::spawn(server.serve(router, shutdown.clone()));
        Self { addr, counters, shutdown, ended }
    }

    pub(crate) fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Everything was given back.
    pub(crate) async fn is_empty(&self) {
        let counters = &self.counters;
        eventually("no open connection or request", || {
            counters.gauge(Gauge::Connections) == 0 && counters.gauge(Gauge::Requests) == 0
        })
        .await;
    }

    /// Sends `bytes` and reads until the server closes.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        // The server may close before it took everything.
        socket.write_all(bytes).await.ok();
        read_to_close(&mut socket).await
    }
}

/// All that comes until the other side closes or resets.
pub(crate) async fn read_to_close(socket: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    soon("the server closes", async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..count]);
        }
    })
    .await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until `text` has come.
pub(crate) async fn read_until(socket: &mut TcpStream, text: &str) -> String {
    let mut answer = Vec::new();
    soon(text, async {
        let mut buffer = [0; 1024];
        while !String::from_utf8_lossy(&answer).contains(text) {
            let count = socket.read(&mut buffer).await.unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..count]);
        }
    })
    .await;
    String::from_utf8(answer).unwrap()
}

/// A request for a run, for raw sockets.
pub(crate) fn raw_post(prompt: &str) -> String {
    let body = serde_json::Value::from(prompt).to_string();
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A request for a run, for the client.
pub(crate) fn post(uri: &str, prompt: &str) -> http::Request<Bytes> {
    let body = Bytes::from(serde_json::Value::from(prompt).to_string());
    http::Request::post(uri).header("content-type", "application/json").body(body).unwrap()
}

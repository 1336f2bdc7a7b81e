//! A server over runs that a test plays, and a client that reads whole answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::server::{
    AgentServer, CardConfig, Host, HttpAnswer, HttpBody, HttpCall, PushRequest, PushSender, ServerConfig,
};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_core::event::RunFinished;
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, NumberedEvent, PayloadSink, PublishRequest,
    RefusalKind, RunService, ServiceError, StartedRun,
};
use aqueduct_core::testing::run_context;
use aqueduct_core::{
    BlockEvent, RunId, RunInfo, RunInput, RunOutcome, SourceEvent, StreamContext, Timestamp,
};
use serde_json::{Value, json};
use tokio::sync::watch;

/// A run: events so far, and a sign for more.
pub(crate) struct Run {
    pub(crate) input: RunInput,
    info: Arc<RunInfo>,
    events: Mutex<Vec<BlockEvent>>,
    count: watch::Sender<usize>,
    /// `false` while who began the run reads nothing: watchers do.
    pub(crate) is_recorded: watch::Sender<bool>,
    /// The events after which each stream of a watcher is cut.
    pub(crate) piece: AtomicUsize,
}

impl Run {
    pub(crate) fn push(&self, event: BlockEvent) {
        self.events.lock().unwrap().push(event);
        self.count.send_modify(|count| *count += 1);
    }

    fn is_over(&self) -> bool {
        self.events.lock().unwrap().last().is_some_and(BlockEvent::is_terminal)
    }
}

struct Follow {
    run: Arc<Run>,
    is_recorder: bool,
    next: usize,
    more: Option<BoxFuture<'static, ()>>,
    given: usize,
    is_cut: bool,
}

impl Follow {
    fn new(run: Arc<Run>, is_recorder: bool, next: usize) -> Self {
        Self { run, is_recorder, next, more: None, given: 0, is_cut: false }
    }
}

impl futures_core::Stream for Follow {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        if !self.is_recorder && self.given >= self.run.piece.load(Ordering::SeqCst) {
            if !std::mem::replace(&mut self.is_cut, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(None);
        }
        loop {
            if self.is_recorder && !*self.run.is_recorded.borrow() {
                let mut goes_on = self.run.is_recorded.subscribe();
                let more = self.more.get_or_insert_with(|| {
                    Box::pin(async move {
                        goes_on.wait_for(|goes_on| *goes_on).await.unwrap();
                    })
                });
                if more.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.more = None;
                continue;
            }
            let event = self.run.events.lock().unwrap().get(self.next).cloned();
            if let Some(event) = event {
                self.next += 1;
                self.given += 1;
                return Poll::Ready(Some(NumberedEvent { number: self.next as u64, event }));
            }
            if self.run.is_over() {
                return Poll::Ready(None);
            }
            let (next, mut count) = (self.next, self.run.count.subscribe());
            let more = self.more.get_or_insert_with(|| {
                Box::pin(async move {
                    count.wait_for(|count| *count > next).await.unwrap();
                })
            });
            if more.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.more = None;
        }
    }
}

type Play = Box<dyn Fn(&RunInput) -> Vec<SourceEvent> + Send + Sync>;

/// Runs that say at once what a function says; one that does not end waits for [`Run::push`].
pub(crate) struct Runs {
    play: Play,
    by_id: Mutex<HashMap<RunId, Arc<Run>>>,
    order: Mutex<Vec<RunId>>,
}

impl Runs {
    pub(crate) fn last(&self) -> Arc<Run> {
        let id = self.order.lock().unwrap().last().unwrap().clone();
        Arc::clone(&self.by_id.lock().unwrap()[&id])
    }

    pub(crate) fn count(&self) -> usize {
        self.order.lock().unwrap().len()
    }
}

/// Balanced events of a run that says this.
pub(crate) fn events_of(input: &RunInput, source: Vec<SourceEvent>) -> Vec<BlockEvent> {
    run_context(
        StreamContext::new(RunInfo::new(input.thread_id.as_bytes().clone(), input.run_id.as_bytes().clone())),
        source,
    )
}

impl RunService for Runs {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn start(&self, _: &Caller, _: &str, input: RunInput) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let is_open = input.latest_user_message().is_some_and(|message| message.text().contains("OPEN"));
        let is_slow = input.latest_user_message().is_some_and(|message| message.text().contains("SLOW"));
        let is_refused = input.latest_user_message().is_some_and(|message| message.text().contains("BUSY"));
        let run_id = input.run_id.clone();
        let events = if is_open { Vec::new() } else { events_of(&input, (self.play)(&input)) };
        let info = RunInfo::new(input.thread_id.as_bytes().clone(), run_id.as_bytes().clone());
        let run = Arc::new(Run {
            input,
            info: Arc::new(info),
            count: watch::Sender::new(events.len()),
            events: Mutex::new(events),
            is_recorded: watch::Sender::new(true),
            piece: AtomicUsize::new(usize::MAX),
        });
        if !is_refused {
            self.by_id.lock().unwrap().insert(run_id.clone(), Arc::clone(&run));
            self.order.lock().unwrap().push(run_id.clone());
        }
        Box::pin(async move {
            if is_slow {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if is_refused {
                return Err(ServiceError::new(RefusalKind::Busy, "too many runs"));
            }
            Ok(StartedRun::new(run_id, Box::pin(Follow::new(run, true, 0))))
        })
    }

    fn watch(&self, _: &Caller, run: &RunId, after: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let run = self.by_id.lock().unwrap().get(run).cloned();
        Box::pin(async move {
            let run = run.ok_or_else(|| ServiceError::new(RefusalKind::NotFound, "no such run"))?;
            let next = usize::try_from(after).unwrap();
            Ok(Box::pin(Follow::new(run, false, next)) as EventStream)
        })
    }

    fn cancel(&self, _: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        let run = Arc::clone(&self.by_id.lock().unwrap()[run]);
        Box::pin(async move {
            let is_over = run.is_over();
            if !is_over {
                let end = RunFinished::new(Arc::clone(&run.info), RunOutcome::Cancelled);
                run.push(BlockEvent::RunFinished(Box::new(end)));
            }
            Ok(!is_over)
        })
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(async { Err(ServiceError::new(RefusalKind::Unsupported, "no")) })
    }
}

/// A world with a virtual clock. The token is the identity; `wrong` is a stranger's.
#[derive(Default)]
pub(crate) struct World {
    ids: AtomicU64,
    started: Mutex<Option<tokio::time::Instant>>,
    receiver: Option<Arc<Receiver>>,
}

/// The receiver of push notifications: the addresses of its names, and its responses in order; the last one repeats.
pub(crate) struct Receiver {
    pub(crate) addresses: Mutex<Vec<Vec<IpAddr>>>,
    pub(crate) statuses: Mutex<Vec<u16>>,
    pub(crate) got: Mutex<Vec<PushRequest>>,
    /// The time of a request, the number of open ones, and the most that were open at once.
    pub(crate) takes: Mutex<Duration>,
    pub(crate) open: Arc<Mutex<(usize, usize)>>,
}

impl Receiver {
    pub(crate) fn new(addresses: &[&str], statuses: &[u16]) -> Arc<Self> {
        let addresses = addresses.iter().map(|address| vec![address.parse().unwrap()]).collect();
        Arc::new(Self {
            addresses: Mutex::new(addresses),
            statuses: Mutex::new(statuses.to_vec()),
            got: Mutex::default(),
            takes: Mutex::default(),
            open: Arc::default(),
        })
    }

    pub(crate) fn bodies(&self) -> Vec<Value> {
        let got = self.got.lock().unwrap();
        got.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }
}

fn next<T: Clone>(list: &Mutex<Vec<T>>) -> T {
    let mut list = list.lock().unwrap();
    if list.len() > 1 { list.remove(0) } else { list[0].clone() }
}

impl PushSender for Receiver {
    fn resolve(&self, host: &str, _: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let found = if host.starts_with("nowhere") {
            Err("no such host".to_owned())
        } else {
            Ok(next(&self.addresses))
        };
        Box::pin(async move { found })
    }

    fn deliver(&self, request: PushRequest) -> BoxFuture<'static, Result<u16, String>> {
        self.got.lock().unwrap().push(request);
        let status = next(&self.statuses);
        let (takes, open) = (*self.takes.lock().unwrap(), Arc::clone(&self.open));
        Box::pin(async move {
            let (now, most) = *open.lock().unwrap();
            *open.lock().unwrap() = (now + 1, most.max(now + 1));
            tokio::time::sleep(takes).await;
            open.lock().unwrap().0 -= 1;
            if status == 0 { Err("no connection".to_owned()) } else { Ok(status) }
        })
    }
}

impl Host for World {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn now(&self) -> Timestamp {
        let start = *self.started.lock().unwrap().get_or_insert_with(tokio::time::Instant::now);
        Timestamp(1_800_000_000_000 + i64::try_from(start.elapsed().as_millis()).unwrap())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn new_id(&self) -> String {
        format!("id-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn identify(&self, caller: &Caller) -> Result<String, ServiceError> {
        match caller.token.as_deref() {
            Some("wrong") => Err(ServiceError::new(RefusalKind::Unauthenticated, "who are you?")),
            token => Ok(token.unwrap_or_default().to_owned()),
        }
    }

    fn push_sender(&self) -> Option<Arc<dyn PushSender>> {
        self.receiver.clone().map(|receiver| receiver as _)
    }
}

/// A server and its runs.
pub(crate) struct Served {
    pub(crate) server: AgentServer,
    pub(crate) runs: Arc<Runs>,
    pub(crate) card: CardConfig,
}

pub(crate) fn serve(play: impl Fn(&RunInput) -> Vec<SourceEvent> + Send + Sync + 'static) -> Served {
    serve_with(ServerConfig::default(), play)
}

pub(crate) fn serve_with(
    config: ServerConfig,
    play: impl Fn(&RunInput) -> Vec<SourceEvent> + Send + Sync + 'static,
) -> Served {
    serve_world(World::default(), config, play)
}

/// A server that calls back.
pub(crate) fn serve_calling(
    receiver: &Arc<Receiver>,
    config: ServerConfig,
    play: impl Fn(&RunInput) -> Vec<SourceEvent> + Send + Sync + 'static,
) -> Served {
    let world = World { receiver: Some(Arc::clone(receiver)), ..World::default() };
    serve_world(world, config, play)
}

fn serve_world(
    world: World,
    config: ServerConfig,
    play: impl Fn(&RunInput) -> Vec<SourceEvent> + Send + Sync + 'static,
) -> Served {
    let runs = Arc::new(Runs { play: Box::new(play), by_id: Mutex::default(), order: Mutex::default() });
    let server = AgentServer::new("agent", Arc::clone(&runs) as _, Arc::new(world), config);
    let url = "http://agents.test/a2a/agent".to_owned();
    let card = CardConfig {
        name: "agent".to_owned(),
        interfaces: vec![(Binding::JsonRpc, url.clone()), (Binding::HttpJson, url)],
        ..CardConfig::default()
    };
    Served { server, runs, card }
}

/// One payload of a stream, with the name of its frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Payload {
    pub(crate) name: Option<String>,
    pub(crate) text: String,
}

impl Payload {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

struct Sink<'s>(&'s mut Vec<Payload>);

impl PayloadSink for Sink<'_> {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.0.push(Payload { name: None, text: String::from_utf8(bytes).unwrap() });
    }

    fn push_named(&mut self, name: &str, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.push(write);
        self.0.last_mut().unwrap().name = Some(name.to_owned());
    }
}

/// A response, read.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
    pub(crate) payloads: Vec<Payload>,
}

impl Answered {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    /// The items of a JSON-RPC stream of 1.0.
    pub(crate) fn items(&self) -> Vec<Value> {
        self.payloads.iter().map(|payload| payload.json()["result"].clone()).collect()
    }
}

/// A request under construction.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) token: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn post(path: &str, body: &Value) -> Self {
        // Like our own client: the whole stream. Module `plain` is about all others.
        let headers =
            [("content-type", "application/json"), ("a2a-version", "1.0"), ("a2a-extensions", EXTENSION)];
        Self {
            method: "POST",
            path: path.to_owned(),
            query: None,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            token: None,
            body: body.to_string().into_bytes(),
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        Self {
            method: "GET",
            body: Vec::new(),
            query: query.map(str::to_owned),
            ..Self::post(path, &Value::Null)
        }
    }

    pub(crate) fn rpc(method: &str, params: &Value) -> Self {
        let ask = Self::post("/", &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        if method.contains('/') { ask.header("a2a-version", "") } else { ask }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn by(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }
}

impl Served {
    /// The answer, its stream not read.
    pub(crate) async fn open(&self, ask: &Ask) -> HttpAnswer {
        let caller = Caller { token: ask.token.clone(), headers: ask.headers.clone(), ..Caller::default() };
        let call = HttpCall {
            method: ask.method,
            path: &ask.path,
            query: ask.query.as_deref(),
            caller: &caller,
            body: &ask.body,
        };
        self.server.handle_http(call, &self.card).await
    }

    /// The whole answer.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answered {
        read(self.open(ask).await).await
    }

    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Value {
        self.ask(&Ask::rpc(method, &params)).await.body
    }
}

/// Reads an answer to its end, or until nothing more has come for a minute: the streams of tasks that wait stay open.
pub(crate) async fn read(answer: HttpAnswer) -> Answered {
    let HttpAnswer { status, headers, body, .. } = answer;
    let mut payloads = Vec::new();
    let body = match body {
        HttpBody::Whole(bytes) if bytes.is_empty() => Value::Null,
        HttpBody::Whole(bytes) => serde_json::from_slice(&bytes).unwrap(),
        HttpBody::Stream(mut stream) => {
            let silence = Duration::from_secs(60);
            let mut next =
                async || std::future::poll_fn(|cx| stream.poll_payload(cx, &mut Sink(&mut payloads))).await;
            while tokio::time::timeout(silence, next()).await.unwrap_or(false) {}
            Value::Null
        }
    };
    Answered { status, headers, body, payloads }
}

/// A message of the user.
pub(crate) fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]})
}

pub(crate) fn message_to(task: &Value, text: &str) -> Value {
    let mut message = message(text);
    message["taskId"] = task["id"].clone();
    message
}

/// Lets everything run that can.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

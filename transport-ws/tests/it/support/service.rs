//! A service whose runs are written by tests.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use aqueduct_core::event::{BlockHead, Lane, Origin, RunFinished};
use aqueduct_core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventEncoder, EventStream, Ingest, NumberedEvent, PayloadSink,
    PublishRequest, RefusalKind, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{
    BlockEvent, BlockId, Channel, LaneId, Role, RunId, RunInfo, RunInput, RunOutcome, Source, SpanKind,
};
use bytes::Bytes;
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

/// Runs by id; agents: `manual` (the test writes), `count:N:SIZE` (N deltas at once), `echo` (the input comes back).
pub(crate) struct ScriptedService {
    runs: Mutex<HashMap<String, Arc<Run>>>,
    pub(crate) ingests: Mutex<HashMap<String, Arc<Ingested>>>,
    watchers: Arc<AtomicUsize>,
    /// Events that streams gave away.
    pub(crate) taken: Arc<AtomicUsize>,
    pub(crate) callers: Mutex<Vec<Caller>>,
    /// Callers without a token are not admitted.
    pub(crate) wants_tokens: AtomicBool,
    /// The agent of a run cannot be looked up.
    pub(crate) agents_are_unreadable: AtomicBool,
    /// Runs that were asked to stop.
    pub(crate) cancelled: Mutex<Vec<String>>,
    /// Payloads that may be taken; a test that wants back-pressure takes the permits away.
    pub(crate) gate: Arc<Semaphore>,
}

struct Run {
    events: Mutex<Vec<BlockEvent>>,
    /// How many there are, and whether more can come.
    state: watch::Sender<(usize, bool)>,
    earliest: Mutex<u64>,
}

/// What a fed run has got.
pub(crate) struct Ingested {
    pub(crate) payloads: Mutex<Vec<Bytes>>,
    pub(crate) finished: Mutex<bool>,
    pub(crate) open: AtomicUsize,
    pub(crate) request: PublishRequest,
    replies: mpsc::Sender<InterruptReply>,
    inbox: Arc<tokio::sync::Mutex<mpsc::Receiver<InterruptReply>>>,
}

impl Ingested {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.payloads.lock().unwrap().iter().map(|p| String::from_utf8(p.to_vec()).unwrap()).collect()
    }

    pub(crate) async fn answer(&self, reply: InterruptReply) {
        self.replies.send(reply).await.unwrap();
    }
}

impl ScriptedService {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            runs: Mutex::default(),
            ingests: Mutex::default(),
            watchers: Arc::default(),
            taken: Arc::default(),
            callers: Mutex::default(),
            wants_tokens: AtomicBool::new(false),
            agents_are_unreadable: AtomicBool::new(false),
            cancelled: Mutex::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        })
    }

    /// Event streams that are alive.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::SeqCst)
    }

    /// Calls that reached the service.
    pub(crate) fn calls(&self) -> usize {
        self.callers.lock().unwrap().len()
    }

    pub(crate) fn open_run(&self, run: &str) {
        let state = watch::Sender::new((0, true));
        let new = Run { events: Mutex::default(), state, earliest: Mutex::new(1) };
        self.runs.lock().unwrap().insert(run.to_owned(), Arc::new(new));
    }

    fn run(&self, run: &str) -> Option<Arc<Run>> {
        self.runs.lock().unwrap().get(run).cloned()
    }

    /// Appends an event to a run.
    pub(crate) fn push(&self, run: &str, event: BlockEvent) {
        let run = self.run(run).expect("no such run");
        let mut events = run.events.lock().unwrap();
        events.push(event);
        run.state.send_replace((events.len(), true));
    }

    /// Ends a run with its terminal event.
    pub(crate) fn finish(&self, run: &str) {
        let info = Arc::new(RunInfo::new("t", run.to_owned()));
        let finished = RunFinished::new(info, RunOutcome::Success);
        self.push(run, BlockEvent::RunFinished(Box::new(finished)));
        self.lose(run);
    }

    /// Ends a run's streams without a terminal event.
    pub(crate) fn lose(&self, run: &str) {
        self.run(run).unwrap().state.send_modify(|(_, open)| *open = false);
    }

    /// Forgets the events before a number.
    pub(crate) fn trim(&self, run: &str, earliest: u64) {
        *self.run(run).unwrap().earliest.lock().unwrap() = earliest;
    }

    pub(crate) fn ingested(&self, run: &str) -> Arc<Ingested> {
        Arc::clone(self.ingests.lock().unwrap().get(run).expect("nothing was fed"))
    }

    fn stream(&self, run: Arc<Run>, after: u64) -> EventStream {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let guard = Watching(Arc::clone(&self.watchers));
        let state = run.state.subscribe();
        let next = usize::try_from(after).unwrap();
        let events = futures_util::stream::unfold((run, state, next), |(run, mut state, next)| async move {
            loop {
                let (len, open) = *state.borrow_and_update();
                if next < len {
                    let event = run.events.lock().unwrap()[next].clone();
                    return Some((NumberedEvent { number: next as u64 + 1, event }, (run, state, next + 1)));
                }
                if !open || state.changed().await.is_err() {
                    return None;
                }
            }
        });
        Box::pin(Guarded { events: Box::pin(events), taken: Arc::clone(&self.taken), _guard: guard })
    }
}

struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Guarded {
    events: EventStream,
    taken: Arc<AtomicUsize>,
    _guard: Watching,
}

impl Stream for Guarded {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        let next = std::task::ready!(self.events.as_mut().poll_next(cx));
        self.taken.fetch_add(usize::from(next.is_some()), Ordering::SeqCst);
        Poll::Ready(next)
    }
}

fn refuse<T>(kind: RefusalKind, message: &str) -> Result<T, ServiceError> {
    Err(ServiceError::new(kind, message))
}

impl RunService for ScriptedService {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        let agent = |name: &str| AgentInfo { name: name.into(), description: format!("The {name}") };
        Box::pin(async move { Ok(vec![agent("manual"), agent("echo")]) })
    }

    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        let agent = agent.to_owned();
        Box::pin(async move {
            let id = input.run_id.as_str().to_owned();
            if self.run(&id).is_some() {
                return refuse(RefusalKind::Conflict, "that run id is taken");
            }
            let parts: Vec<&str> = agent.split(':').collect();
            match parts.as_slice() {
                ["manual"] => self.open_run(&id),
                ["never"] => std::future::pending().await,
                ["echo"] => {
                    self.open_run(&id);
                    self.push(&id, started(&id));
                    self.push(&id, delta(input.forwarded.as_str().unwrap_or_default()));
                    self.finish(&id);
                }
                ["count", events, size] => {
                    self.open_run(&id);
                    let text = "x".repeat(size.parse().unwrap());
                    for _ in 0..events.parse().unwrap() {
                        self.push(&id, delta(&text));
                    }
                    self.finish(&id);
                }
                _ => return refuse(RefusalKind::NotFound, "no such agent"),
            }
            let run = self.run(&id).unwrap();
            Ok(StartedRun::new(RunId::from(id), self.stream(run, 0)))
        })
    }

    fn watch(
        &self,
        caller: &Caller,
        run: &RunId,
        after: u64,
    ) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        let run = self.run(run.as_str());
        Box::pin(async move {
            let Some(run) = run else { return refuse(RefusalKind::NotFound, "no such run") };
            let earliest = *run.earliest.lock().unwrap();
            if after + 1 < earliest {
                return refuse(RefusalKind::Gone { earliest }, "trimmed");
            }
            Ok(self.stream(run, after))
        })
    }

    fn cancel(&self, caller: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        let id = run.as_str().to_owned();
        Box::pin(async move {
            let Some(run) = self.run(&id) else { return refuse(RefusalKind::NotFound, "no such run") };
            let running = run.state.borrow().1;
            self.cancelled.lock().unwrap().push(id.clone());
            if running {
                self.finish(&id);
            }
            Ok(running)
        })
    }

    fn admit(&self, caller: &Caller, _agent: Option<&str>) -> Result<(), ServiceError> {
        if self.wants_tokens.load(Ordering::SeqCst) && caller.token.is_none() {
            return Err(ServiceError::new(RefusalKind::Unauthenticated, "bring a token"));
        }
        Ok(())
    }

    fn agent_of<'a>(
        &'a self,
        _caller: &'a Caller,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Option<String>, ServiceError>> {
        if self.agents_are_unreadable.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(refuse(RefusalKind::Unavailable, "the log is away")));
        }
        Box::pin(std::future::ready(Ok(self.run(run.as_str()).map(|_| "the agent".to_owned()))))
    }

    fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        Box::pin(async move {
            if request.format != "lines" {
                return refuse(RefusalKind::Unsupported, "only `lines` is known");
            }
            let run_id = request.run_id.clone().unwrap_or_else(|| RunId::from("chosen"));
            let fed = {
                let mut ingests = self.ingests.lock().unwrap();
                let (replies, inbox) = mpsc::channel(8);
                let fresh = Ingested {
                    payloads: Mutex::default(),
                    finished: Mutex::default(),
                    open: AtomicUsize::new(0),
                    request,
                    replies,
                    inbox: Arc::new(tokio::sync::Mutex::new(inbox)),
                };
                Arc::clone(ingests.entry(run_id.as_str().to_owned()).or_insert_with(|| Arc::new(fresh)))
            };
            fed.open.fetch_add(1, Ordering::SeqCst);
            let ingest = ScriptedIngest { run_id, fed, gate: Arc::clone(&self.gate) };
            Ok(Box::new(ingest) as Box<dyn Ingest>)
        })
    }
}

struct ScriptedIngest {
    run_id: RunId,
    fed: Arc<Ingested>,
    gate: Arc<Semaphore>,
}

impl Drop for ScriptedIngest {
    fn drop(&mut self) {
        self.fed.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ingest for ScriptedIngest {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }

    fn acknowledged(&self) -> u64 {
        self.fed.payloads.lock().unwrap().len() as u64
    }

    fn accept(&mut self, number: u64, payload: Bytes) -> BoxFuture<'_, Result<u64, ServiceError>> {
        Box::pin(async move {
            self.gate.acquire().await.unwrap().forget();
            let mut payloads = self.fed.payloads.lock().unwrap();
            match number.cmp(&(payloads.len() as u64 + 1)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => payloads.push(payload),
                std::cmp::Ordering::Greater => return refuse(RefusalKind::Conflict, "a number was left out"),
            }
            Ok(payloads.len() as u64)
        })
    }

    fn reply(&mut self) -> BoxFuture<'_, InterruptReply> {
        let inbox = Arc::clone(&self.fed.inbox);
        Box::pin(async move {
            match inbox.lock().await.recv().await {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), ServiceError>> {
        Box::pin(async move {
            *self.fed.finished.lock().unwrap() = true;
            Ok(())
        })
    }
}

/// The first event of a run.
pub(crate) fn started(run: &str) -> BlockEvent {
    BlockEvent::RunStarted(Arc::new(RunInfo::new("t", run.to_owned())))
}

/// A text delta.
pub(crate) fn delta(text: &str) -> BlockEvent {
    let lane =
        Arc::new(Lane { id: LaneId::from("l"), source: Source::root(), parent: None, parent_call: None });
    let block = Arc::new(BlockHead {
        id: BlockId::from("b"),
        kind: SpanKind::Text,
        lane,
        channel: Channel::Answer,
        role: Role::Assistant,
        tool_name: "".into(),
        parent: None,
        continues: None,
        replaces: None,
        origin: Origin::default(),
    });
    BlockEvent::BlockDelta { block, delta: text.into() }
}

/// Inputs: `{"run": …, "say": …}`. Events: a delta is a JSON string; `RunStarted` becomes two payloads, `Custom` none.
pub(crate) struct TestProtocol;

impl Protocol for TestProtocol {
    fn read_input(&self, _agent: &str, input: &[u8], encoding: Encoding) -> Result<ReadInput, ServiceError> {
        let invalid = || ServiceError::new(RefusalKind::Invalid, "an input is an object with `run`");
        let value: Value = serde_json::from_slice(input).map_err(|_| invalid())?;
        let run = value.get("run").and_then(Value::as_str).ok_or_else(invalid)?;
        let mut read = RunInput::prompt("t", run.to_owned(), "hello");
        read.forwarded = value.get("say").cloned().unwrap_or_default();
        let encoder = TestEncoder { binary: encoding == Encoding::Binary, shown: None };
        Ok(ReadInput::new(read, Box::new(encoder)))
    }

    fn encoder(&self, agent: &str, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
        let shown = declared.map(|version| format!("{agent} in {version}"));
        Box::new(TestEncoder { binary: encoding == Encoding::Binary, shown })
    }
}

struct TestEncoder {
    binary: bool,
    /// What a watcher that declared a version gets for `RunStarted`.
    shown: Option<String>,
}

impl EventEncoder for TestEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        let mut push = |value: Value| sink.push(&mut |out| serde_json::to_writer(out, &value).unwrap());
        match event {
            BlockEvent::RunStarted(run) => {
                push(json!({"started": run.run_id.as_str()}));
                push(json!(self.shown.as_deref().unwrap_or("first")));
            }
            BlockEvent::BlockDelta { delta, .. } => push(json!(&**delta)),
            BlockEvent::RunFinished(_) => push(json!("finished")),
            _ => {}
        }
    }

    fn media_type(&self) -> &'static str {
        "application/json"
    }

    fn is_binary(&self) -> bool {
        self.binary
    }
}

//! A [`RunService`] in memory: agents are functions that feed a [`Run`], and every run can be watched again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, NumberedEvent, PublishRequest, RefusalKind,
    RunService, ServiceError, StartedRun,
};
use aqueduct_core::{
    ByteString, ContentBlock, Interrupt, InterruptReply, RunId, RunInfo, RunInput, RunOutcome, Source,
    SourceEvent, StreamContext, Update,
};
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::{Semaphore, mpsc, watch};

/// An agent: a function that is called once per run.
pub(crate) type Agent = Box<dyn Fn(&RunInput, &Arc<Run>) -> Result<(), ServiceError> + Send + Sync>;

/// Agents and their runs.
#[derive(Default)]
pub(crate) struct MemoryService {
    agents: Vec<(String, Agent)>,
    runs: Mutex<HashMap<RunId, Arc<Run>>>,
    questions: Arc<Mutex<HashMap<String, mpsc::Sender<InterruptReply>>>>,
    /// If set, each payload needs a permit of it.
    pub(crate) gate: Option<Arc<Semaphore>>,
}

/// One run and its events.
pub(crate) struct Run {
    id: RunId,
    log: Mutex<Log>,
    length: watch::Sender<usize>,
    accepted: AtomicU64,
    watchers: AtomicUsize,
}

struct Log {
    context: StreamContext,
    events: Vec<NumberedEvent>,
}

impl MemoryService {
    /// Returns a service with the agents of the example.
    pub(crate) fn with_examples() -> Self {
        Self::default().with_agent("echo", echo).with_agent("wait", wait).with_agent("ask", ask)
    }

    /// Adds an agent.
    pub(crate) fn with_agent<F>(mut self, name: &str, agent: F) -> Self
    where
        F: Fn(&RunInput, &Arc<Run>) -> Result<(), ServiceError> + Send + Sync + 'static,
    {
        self.agents.push((name.to_owned(), Box::new(agent)));
        self
    }

    /// Returns a run by its id.
    pub(crate) fn run(&self, id: &RunId) -> Option<Arc<Run>> {
        locked(&self.runs).get(id).cloned()
    }

    fn begin(&self, agent: &str, input: &RunInput) -> Result<StartedRun, ServiceError> {
        let found = self.agents.iter().find(|(name, _)| name == agent);
        let (_, agent) = found.ok_or_else(|| not_found(&format!("no agent is called {agent}")))?;
        for reply in &input.resume {
            if let Some(asker) = locked(&self.questions).remove(reply.id.as_str()) {
                // A publisher that has disconnected, or has replies waiting, requests the reply again.
                drop(asker.try_send(reply.clone()));
            }
        }
        let run = Arc::new(Run::new(input.thread_id.as_str(), &input.run_id));
        if locked(&self.runs).insert(input.run_id.clone(), Arc::clone(&run)).is_some() {
            return Err(ServiceError::new(RefusalKind::Conflict, "this run id was used before"));
        }
        agent(input, &run)?;
        Ok(StartedRun::new(run.id.clone(), run.events_after(0)))
    }
}

impl RunService for MemoryService {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        let info = |(name, _): &(String, Agent)| AgentInfo { name: name.clone(), description: String::new() };
        let agents = self.agents.iter().map(info).collect();
        Box::pin(async { Ok(agents) })
    }

    fn start(
        &self,
        _: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let started = self.begin(agent, &input);
        Box::pin(async { started })
    }

    fn watch(&self, _: &Caller, run: &RunId, after: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let events = self.run(run).map(|run| run.events_after(after));
        Box::pin(async { events.ok_or_else(|| not_found("no such run")) })
    }

    fn cancel(&self, _: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        let stopped = self.run(run).map(|run| run.cancel());
        Box::pin(async move { stopped.ok_or_else(|| not_found("no such run")) })
    }

    fn publish(
        &self,
        _: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(async move {
            if request.format != "text" {
                return Err(ServiceError::new(RefusalKind::Unsupported, "only the format `text` is taken"));
            }
            let mut runs = locked(&self.runs);
            let id = request.run_id.unwrap_or_else(|| RunId::from(format!("published-{}", runs.len() + 1)));
            let thread = request.thread_id.unwrap_or_else(|| ByteString::from_static("published"));
            let run = runs.entry(id.clone()).or_insert_with(|| Arc::new(Run::new(&thread, &id)));
            let (asker, replies) = mpsc::channel(16);
            let (questions, gate) = (Arc::clone(&self.questions), self.gate.clone());
            Ok(Box::new(MemoryIngest { run: Arc::clone(run), asker, replies, questions, gate })
                as Box<dyn Ingest>)
        })
    }
}

impl Run {
    fn new(thread: &str, id: &RunId) -> Self {
        let context = StreamContext::new(RunInfo::new(thread.to_owned(), id.as_bytes().clone()));
        let log = Log { context, events: Vec::new() };
        Self {
            id: id.clone(),
            log: Mutex::new(log),
            length: watch::Sender::new(0),
            accepted: AtomicU64::new(0),
            watchers: AtomicUsize::new(0),
        }
    }

    /// Adds a source event to the run. An error of the stream machine fails the run.
    pub(crate) fn say(&self, event: impl Into<SourceEvent>) {
        self.change(|context| {
            if let Err(error) = context.handle_event(event.into()) {
                context.handle_failure((&error).into());
            }
        });
    }

    /// Ends the run successfully.
    pub(crate) fn succeed(&self) {
        self.say(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
    }

    /// Cancels the run. Returns `true` if it was running.
    pub(crate) fn cancel(&self) -> bool {
        let was_running = !locked(&self.log).context.is_ended();
        self.change(StreamContext::handle_cancel);
        was_running
    }

    /// Returns the number of watchers.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Returns the events so far.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    pub(crate) fn events(&self) -> Vec<NumberedEvent> {
        locked(&self.log).events.clone()
    }

    fn change(&self, change: impl FnOnce(&mut StreamContext)) {
        let mut log = locked(&self.log);
        let Log { context, events } = &mut *log;
        change(context);
        while let Some(event) = context.poll_event() {
            events.push(NumberedEvent { number: events.len() as u64 + 1, event });
        }
        self.length.send_replace(events.len());
    }

    /// Returns the events with numbers above `after`, then the live ones.
    pub(crate) fn events_after(self: &Arc<Self>, after: u64) -> EventStream {
        let cursor = usize::try_from(after).unwrap_or(usize::MAX);
        let watcher = Watcher::new(self);
        let state = (watcher, cursor, self.length.subscribe());
        Box::pin(unfold(state, |(watcher, cursor, mut length)| async move {
            let event = loop {
                let (event, is_over) = watcher.look(cursor);
                if event.is_some() || is_over {
                    break event?;
                }
                length.changed().await.ok()?;
            };
            Some((event, (watcher, cursor + 1, length)))
        }))
    }
}

/// Counts a watcher until it is dropped.
struct Watcher(Arc<Run>);

impl Watcher {
    fn new(run: &Arc<Run>) -> Self {
        run.watchers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(run))
    }

    fn look(&self, cursor: usize) -> (Option<NumberedEvent>, bool) {
        let log = locked(&self.0.log);
        (log.events.get(cursor).cloned(), log.context.is_ended())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct MemoryIngest {
    run: Arc<Run>,
    asker: mpsc::Sender<InterruptReply>,
    replies: mpsc::Receiver<InterruptReply>,
    questions: Arc<Mutex<HashMap<String, mpsc::Sender<InterruptReply>>>>,
    gate: Option<Arc<Semaphore>>,
}

impl Ingest for MemoryIngest {
    fn run_id(&self) -> &RunId {
        &self.run.id
    }

    fn acknowledged(&self) -> u64 {
        self.run.accepted.load(Ordering::Relaxed)
    }

    fn accept(&mut self, number: u64, payload: Bytes) -> BoxFuture<'_, Result<u64, ServiceError>> {
        Box::pin(async move {
            if let Some(gate) = &self.gate
                && let Ok(permit) = gate.acquire().await
            {
                permit.forget();
            }
            let safe = self.acknowledged();
            if number <= safe {
                return Ok(safe);
            }
            if number != safe + 1 {
                let message = format!("payload {number} came, but {} is next", safe + 1);
                return Err(ServiceError::new(RefusalKind::Conflict, message));
            }
            let text = String::from_utf8_lossy(&payload).into_owned();
            match text.strip_prefix("ask:") {
                Some(id) => {
                    locked(&self.questions).insert(id.to_owned(), self.asker.clone());
                    self.run.say(question(id));
                }
                None => self.run.say(Update::text(text)),
            }
            self.run.accepted.store(number, Ordering::Relaxed);
            Ok(number)
        })
    }

    fn reply(&mut self) -> BoxFuture<'_, InterruptReply> {
        Box::pin(async {
            match self.replies.recv().await {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), ServiceError>> {
        self.run.succeed();
        Box::pin(async { Ok(()) })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "agents may refuse")]
fn echo(input: &RunInput, run: &Arc<Run>) -> Result<(), ServiceError> {
    let text = input.latest_user_message().map(aqueduct_core::Message::text).unwrap_or_default();
    run.say(Update::new(ContentBlock::thinking("The user wants an echo.")));
    run.say(Update::new(ContentBlock::tool_use("call_1", "split", r#"{"by":" "}"#)));
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    run.say(Update::new(ContentBlock::from(ToolResult {
        id: Some("call_1".into()),
        output: ToolOutput::Json(serde_json::json!(words)),
        ..ToolResult::default()
    })));
    for word in words {
        run.say(Update::text(word.to_owned()));
    }
    run.succeed();
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "agents may refuse")]
fn wait(_: &RunInput, run: &Arc<Run>) -> Result<(), ServiceError> {
    run.say(Update::text("waiting"));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "agents may refuse")]
fn ask(input: &RunInput, run: &Arc<Run>) -> Result<(), ServiceError> {
    match input.resume.first() {
        None => {
            run.say(question(&format!("{}-name", input.thread_id)));
            run.say(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None });
        }
        Some(reply) => {
            let name = reply.payload.as_ref().and_then(serde_json::Value::as_str).unwrap_or("nobody");
            run.say(Update::text(format!("hello {name}")));
            run.succeed();
        }
    }
    Ok(())
}

fn question(id: &str) -> SourceEvent {
    let mut interrupt = Interrupt::new(id.to_owned(), "input_required");
    interrupt.message = Some("What is your name?".into());
    SourceEvent::InterruptRequested { source: Source::root(), interrupt: Box::new(interrupt) }
}

fn not_found(message: &str) -> ServiceError {
    ServiceError::new(RefusalKind::NotFound, message)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

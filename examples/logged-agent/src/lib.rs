//! Agents of one's own as a [`RunService`], with a run log behind them: what a transport needs to offer them with resume,
//! cancel and ingest.
//!
//! ```text
//! start ──► agent (a stream of source events) ──► StreamContext ──► MemoryLog ──► Follow ──► watcher
//! publish ──► payloads ──────────────────────────────▲                    └─────► Follow ──► watcher
//! ```
//!
//! Policy: a run goes on when its watchers have gone, and is stopped by `cancel` alone. A publisher that is cut may come
//! back and continue after the last number that was acknowledged.
//!
//! What is *not* here: protocols and sockets (the transports'), who may do what (everybody may do everything), and
//! questions to a human.

mod ingest;
mod script;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, PublishRequest, RefusalKind, RunService, ServiceError,
    StartedRun,
};
use aqueduct_core::{RunId, RunInfo, RunInput, SourceEvent, StreamContext, Timestamp};
use aqueduct_runlog::{Follow, Lease, LogError, MemoryLog, RunLog, RunMeta};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::oneshot;

pub use script::{echo, slow};

use ingest::Feed;

/// A log in memory has one writer, which ends with it: its leases need no end.
const FOREVER: Timestamp = Timestamp(i64::MAX);

/// An agent: what it says in a run.
pub type Agent = fn(&RunInput) -> BoxStream<'static, SourceEvent>;

/// Agents and their runs.
pub struct LoggedAgents {
    agents: Vec<(AgentInfo, Agent)>,
    log: Arc<MemoryLog>,
    /// How to stop the runs that are going on.
    running: Arc<Mutex<HashMap<RunId, oneshot::Sender<()>>>>,
    /// Runs that somebody else feeds.
    fed: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<Feed>>>>,
}

impl std::fmt::Debug for LoggedAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedAgents").field("log", &self.log).finish_non_exhaustive()
    }
}

impl LoggedAgents {
    /// These agents: name, what it is for, and itself.
    pub fn new<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str, Agent)>) -> Self {
        let entry = |(name, description, agent): (&str, &str, Agent)| {
            (AgentInfo { name: name.to_owned(), description: description.to_owned() }, agent)
        };
        Self {
            agents: agents.into_iter().map(entry).collect(),
            log: Arc::default(),
            running: Arc::default(),
            fed: Mutex::default(),
        }
    }

    /// The agents of the examples.
    pub fn scripted() -> Self {
        Self::new([
            ("echo", "thinks, calls a tool, and says what you said", echo as Agent),
            ("slow", "counts for a minute, until it is stopped", slow),
        ])
    }

    async fn begin(&self, agent: &str, input: RunInput) -> Result<StartedRun, ServiceError> {
        let known = self.agents.iter().find(|(info, _)| info.name == agent);
        let (info, agent) = known.ok_or_else(|| not_found("there is no such agent"))?;
        let lease = self.open(&info.name, &input.thread_id, &input.run_id).await?;
        let (stop, stopped) = oneshot::channel();
        locked(&self.running).insert(input.run_id.clone(), stop);
        let context = StreamContext::new(RunInfo::new(input.thread_id.as_str(), input.run_id.as_str()));
        let run = Run { log: Arc::clone(&self.log), lease, context };
        let (events, running, id) = (agent(&input), Arc::clone(&self.running), input.run_id.clone());
        tokio::spawn(async move {
            run.drive(events, stopped).await;
            locked(&running).remove(&id);
        });
        Ok(StartedRun { events: self.follow(&input.run_id, 0), run_id: input.run_id })
    }

    async fn open(
        &self,
        agent: &str,
        thread: &aqueduct_core::ThreadId,
        run: &RunId,
    ) -> Result<Lease, ServiceError> {
        let meta = RunMeta {
            run_id: run.clone(),
            thread_id: thread.clone(),
            agent: agent.to_owned(),
            owner: String::new(),
            opened_at: now(),
        };
        self.log.open(meta, FOREVER).await.map_err(|error| refused(&error))
    }

    fn follow(&self, run: &RunId, after: u64) -> EventStream {
        let log: Arc<dyn RunLog> = Arc::clone(&self.log) as _;
        // An error means that the run is no longer kept: the stream ends, and the transport says that it was lost.
        Box::pin(Follow::new(log, run.clone(), after).filter_map(async |event| event.ok()))
    }
}

impl RunService for LoggedAgents {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        let agents = self.agents.iter().map(|(info, _)| info.clone()).collect();
        Box::pin(async { Ok(agents) })
    }

    fn start(
        &self,
        _: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let agent = agent.to_owned();
        Box::pin(async move { self.begin(&agent, input).await })
    }

    fn watch(&self, _: &Caller, run: &RunId, after: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let run = run.clone();
        Box::pin(async move {
            self.log.state(&run).await.map_err(|error| refused(&error))?;
            Ok(self.follow(&run, after))
        })
    }

    fn cancel(&self, _: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        let run = run.clone();
        Box::pin(async move {
            self.log.state(&run).await.map_err(|error| refused(&error))?;
            let stop = locked(&self.running).remove(&run);
            Ok(stop.is_some_and(|stop| stop.send(()).is_ok()))
        })
    }

    fn publish(
        &self,
        _: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(async move { ingest::open(self, request).await })
    }
}

/// A run that is being written.
#[derive(Debug)]
struct Run {
    log: Arc<MemoryLog>,
    lease: Lease,
    context: StreamContext,
}

impl Run {
    /// Writes what the agent says, to its end or to the end of the patience with it.
    async fn drive(
        mut self,
        mut events: BoxStream<'static, SourceEvent>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        while self.write().await.is_ok() && !self.context.is_ended() {
            tokio::select! {
                biased;
                Ok(()) = &mut stopped => self.context.handle_cancel(),
                event = events.next() => match event {
                    Some(event) => self.handle_event(event),
                    None => self.context.handle_eof(),
                },
            }
        }
    }

    fn handle_event(&mut self, event: impl Into<SourceEvent>) {
        if let Err(error) = self.context.handle_event(event.into()) {
            self.context.handle_failure((&error).into());
        }
    }

    /// Appends what the stream machine has made. The log comes before every watcher.
    async fn write(&mut self) -> Result<(), LogError> {
        let events: Vec<_> = std::iter::from_fn(|| self.context.poll_event()).collect();
        if !events.is_empty() {
            self.log.append(&self.lease, events, now()).await.map_err(LogError::from)?;
        }
        Ok(())
    }
}

fn refused(error: &LogError) -> ServiceError {
    let kind = match error {
        LogError::NotFound(_) => RefusalKind::NotFound,
        LogError::Exists(_) | LogError::Closed(_) | LogError::Fenced { .. } => RefusalKind::Conflict,
        LogError::Full { .. } => RefusalKind::Busy,
        _ => RefusalKind::Internal,
    };
    ServiceError::new(kind, error.to_string())
}

fn not_found(message: &str) -> ServiceError {
    ServiceError::new(RefusalKind::NotFound, message)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! One run from its first event to its last.
//!
//! ```text
//!            source says            log takes
//!   running ─────────────► events ────────────► running
//!      │ stop (owner, nobody watches, shutdown)
//!      ├────────────► stopping ── source ends, or `CANCEL_WAIT` ──► ended: cancelled
//!      │ `timeouts.run`
//!      ├────────────────────────────────────────────────────────► ended: failed
//!      ├ source ends ───────────────────────────────────────────► ended as it said, or cut
//!      └ the lease is lost ─────────────────────────────────────► left: whoever took it over goes on with it, or ends it
//! ```
//!
//! The log always gets a terminal event, from here or from whoever takes the run over ([`left`](super::left)). The source
//! outlives the run by at most [`GOODBYE`], to tell its agent; but the agent of a run that was left is told nothing: it
//! works for another gateway.

mod lanes;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::stream::Limits;
use aqueduct_core::{BlockEvent, RunFailure, RunInfo, SourceEvent, StreamContext, StreamError, Timestamp};
use aqueduct_runlog::{Control, Lease, LogError, Refused};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::feed::{Begin, Feed};
use super::watch::ActiveRun;
use super::{AgentEntry, Gateway, now};
use crate::config::OnDisconnect;
use crate::source::{Ask, BATCHES_IN_FLIGHT, Events, GOODBYE};
use crate::tee::calls::OpenCalls;
use crate::tee::far;
use lanes::hear_lanes;

/// How long a stopped run waits for its agent to say so itself. The frontend sees the end within a second.
const CANCEL_WAIT: Duration = Duration::from_millis(800);

/// The pause before a log that cannot be used is tried again. The engine has tried for long itself.
pub(super) const LOG_PAUSE: Duration = Duration::from_millis(500);

/// The outcome of a run that another gateway took over.
const TAKEN_OVER: &str = "taken_over";

/// The run took longer than it may.
const RUN_TIMEOUT: &str = "run_timeout";

/// A run to be driven.
pub(super) struct Drive {
    pub(super) gateway: Arc<Gateway>,
    pub(super) agent: Arc<AgentEntry>,
    pub(super) lease: Lease,
    pub(super) active: Arc<ActiveRun>,
    pub(super) ask: Ask,
    pub(super) feed: Feed,
}

impl Drive {
    /// Drives it to its end.
    pub(super) async fn run(mut self) {
        let run_id = self.lease.run_id.clone();
        let feed = std::mem::replace(&mut self.feed, Feed::Source(None));
        let _counted = self.gateway.metrics.run_begins();
        let begun = Instant::now();
        tracing::info!(
            run = run_id.as_str(),
            thread = self.ask.input.thread_id.as_str(),
            agent = self.agent.name,
            "run started"
        );
        let held = self.gateway.hold(&self.lease);
        let (events, source, how) = feed.connect(&self.agent, &self.ask);
        // In a box: a future holds what is moved into another one once more.
        let machine = Box::new(Machine::new(&self, how, held.lost.clone()));
        let outcome = machine.run(events).await;
        drop(held);
        if outcome == TAKEN_OVER {
            source.abort();
        }
        self.ask.stop.cancel();
        self.active.tasks.clear();
        self.gateway.active().remove(&run_id);
        self.gateway.metrics.run_ended(&outcome, begun.elapsed());
        tracing::info!(
            run = run_id.as_str(),
            agent = self.agent.name,
            outcome = outcome.as_str(),
            ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "run ended"
        );
        let abort = source.abort_handle();
        if tokio::time::timeout(GOODBYE, source).await.is_err() {
            tracing::warn!(run = run_id.as_str(), "the agent did not take leave in time");
            abort.abort();
        }
    }
}

impl Drive {
    fn info(&self) -> RunInfo {
        let input = &self.ask.input;
        RunInfo {
            thread_id: input.thread_id.detached(),
            run_id: input.run_id.detached(),
            parent_run_id: input.parent_run_id.as_ref().map(aqueduct_core::RunId::detached),
            agent: Some(self.agent.name.as_str().into()),
        }
    }
}

/// The stream machine of a run, its log, and the clocks around it.
struct Machine<'d> {
    drive: &'d Drive,
    context: StreamContext,
    outcome: String,
    stopping: bool,
    /// When the run has lasted too long, or has waited long enough for its agent to stop.
    deadline: Instant,
    /// When a run that nobody watches is stopped.
    lonely: Option<Instant>,
    /// Tool calls to which lanes of sub-agents may belong.
    calls: OpenCalls,
    /// Turned when the lease is lost.
    lost: CancelToken,
    /// Messages of other gateways that were heard.
    heard: usize,
    /// True if another gateway began the run: who watched there needs time to come here.
    is_taken_up: bool,
}

impl<'d> Machine<'d> {
    fn new(drive: &'d Drive, begin: Begin, lost: CancelToken) -> Self {
        let limit = drive.agent.config.timeouts.run;
        let mut machine = Self {
            drive,
            context: StreamContext::with_limits(drive.info(), limits(&drive.agent))
                .with_known_calls(drive.ask.input.known_calls()),
            outcome: String::new(),
            stopping: false,
            deadline: Instant::now() + limit,
            lonely: None,
            calls: OpenCalls::default(),
            lost,
            heard: 0,
            is_taken_up: false,
        };
        match begin {
            Begin::New(asked) => asked.into_iter().for_each(|asked| machine.handle_event(*asked)),
            Begin::Left { context, opened_at } => {
                machine.context = *context;
                machine.is_taken_up = true;
                machine.deadline = Instant::now() + limit.saturating_sub(since(opened_at));
            }
        }
        machine
    }

    /// Runs to the terminal event; gives the outcome in a word.
    async fn run(mut self: Box<Self>, mut events: Events) -> String {
        if self.was_left() {
            self.handle_watchers();
        }
        let mut batches = Vec::new();
        let mut lanes = self.drive.active.take_lanes();
        let mut said_in_lanes = Vec::new();
        let mut messages = self.messages();
        // Waits that outlast many events are made once: making one anew takes a lock, and a place in the clock's wheel.
        let lost = self.lost.clone();
        let mut lost = pin!(lost.cancelled().fuse());
        let mut stop = pin!(self.drive.active.stop.cancelled().fuse());
        let mut clock = pin!(tokio::time::sleep_until(self.deadline));
        self.append().await;
        while !self.context.is_ended() {
            if clock.deadline() != self.deadline {
                clock.as_mut().reset(self.deadline);
            }
            tokio::select! {
                biased;
                () = &mut lost => self.leave(),
                () = &mut stop, if !self.stopping => self.stop(),
                heard = &mut messages => {
                    self.handle_messages(heard).await;
                    messages = self.messages();
                }
                () = &mut clock => self.handle_deadline(),
                () = lonely(self.lonely), if !self.stopping => self.handle_lonely().await,
                () = self.drive.active.watchers_changed() => self.handle_watchers(),
                // Before what the agent itself says: its end may follow from what its sub-agents said.
                true = hear_lanes(&mut lanes, &mut said_in_lanes) => {
                    said_in_lanes.drain(..).for_each(|event| self.handle_lane(*event));
                    // The channel was emptied, so nothing that was said before is left in it: the agent has its turn,
                    // however much its sub-agents say.
                    let said = std::iter::from_fn(|| events.try_recv().ok());
                    batches.extend(said.take(BATCHES_IN_FLIGHT));
                    self.catch_up(&mut lanes).await;
                    batches.drain(..).flatten().for_each(|event| self.handle_event(event));
                }
                count = events.recv_many(&mut batches, BATCHES_IN_FLIGHT) => {
                    self.catch_up(&mut lanes).await;
                    match count {
                        0 => self.context.handle_eof(),
                        _ => batches.drain(..).flatten().for_each(|event| self.handle_event(event)),
                    }
                }
            }
            self.append().await;
        }
        self.outcome
    }

    fn handle_event(&mut self, event: SourceEvent) {
        self.calls.observe(&event);
        match self.context.handle_event(event) {
            // What a source says after the end of its run is nobody's.
            Ok(()) | Err(StreamError::Ended) => {}
            Err(error) => self.context.handle_failure((&error).into()),
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.deadline = Instant::now() + CANCEL_WAIT;
        // Whyever the run is stopped, its sub-agents are too.
        self.drive.active.stop.cancel();
        self.drive.ask.stop.cancel();
    }

    /// What other gateways want of this run.
    fn messages(&self) -> BoxFuture<'d, Result<Vec<Control>, LogError>> {
        self.drive.gateway.log.controls(&self.drive.lease, self.heard)
    }

    async fn handle_messages(&mut self, messages: Result<Vec<Control>, LogError>) {
        let run = self.drive.lease.run_id.as_str();
        match messages {
            Ok(messages) => {
                self.heard += messages.len();
                for message in &messages {
                    if let Control::Message(message) = message {
                        far::take_message(&self.drive.gateway, &self.drive.active, message.clone());
                    }
                }
                if messages.contains(&Control::Cancel) && !self.stopping {
                    tracing::info!(run, "cancelled by its owner at another gateway");
                    self.stop();
                }
            }
            Err(error) if error.is_temporary() => tokio::time::sleep(LOG_PAUSE).await,
            Err(error) => {
                tracing::warn!(run, %error, "the run is no longer ours");
                self.leave();
            }
        }
    }

    /// The run is another's: nothing more is written, and the agent is let go.
    fn leave(&mut self) {
        TAKEN_OVER.clone_into(&mut self.outcome);
        self.lost.cancel();
        self.context.handle_failure(RunFailure::new(TAKEN_OVER, "another gateway has taken the run over"));
    }

    /// Nobody watches here; somebody may at another gateway.
    async fn handle_lonely(&mut self) {
        let run = &self.drive.lease.run_id;
        let state = self.drive.gateway.log.state(run).await;
        let far = state.map_or(0, |state| state.watched_until.0.saturating_sub(now().0));
        match u64::try_from(far) {
            Ok(far) if far > 0 => self.lonely = Some(Instant::now() + Duration::from_millis(far)),
            _ => {
                tracing::info!(run = run.as_str(), "nobody watches the run any more");
                self.stop();
            }
        }
    }

    fn handle_deadline(&mut self) {
        if self.stopping {
            return self.context.handle_cancel();
        }
        self.drive.active.stop.cancel();
        let limit = self.drive.agent.config.timeouts.run;
        let message = format!("the run took longer than {limit:?} (`timeouts.run`)");
        self.context.handle_failure(RunFailure::new(RUN_TIMEOUT, message));
    }

    /// True if whoever started the run has gone already. A run that is published begins without anybody.
    fn was_left(&self) -> bool {
        self.drive.agent.source.is_some() && self.drive.active.is_alone()
    }

    fn handle_watchers(&mut self) {
        let config = &self.drive.agent.config;
        let is_alone = self.drive.active.is_alone();
        self.lonely = is_alone.then(|| match config.on_disconnect {
            OnDisconnect::Cancel if self.is_taken_up => {
                Instant::now() + self.drive.gateway.config().runs.lease
            }
            OnDisconnect::Cancel => Instant::now(),
            OnDisconnect::Continue => Instant::now() + config.grace,
        });
        self.is_taken_up &= is_alone;
    }

    /// Puts what is ready into the log. A log that takes no more ends the run; one that is lost ends the driver.
    async fn append(&mut self) {
        let ready: Vec<BlockEvent> = std::iter::from_fn(|| self.context.poll_event()).collect();
        if ready.is_empty() || self.lost.is_cancelled() {
            return;
        }
        self.note_end(&ready);
        self.drive.gateway.metrics.events(ready.len());
        let mut result = self.log(ready).await;
        if let Err(Refused { error, events }) = &mut result
            && matches!(**error, LogError::RunTooLong { .. })
        {
            // A batch that ends the run is always taken: what was refused goes with it, or ends would lack their starts.
            self.context.handle_failure(RunFailure::new(RunFailure::LIMIT_EXCEEDED, error.to_string()));
            let mut ready = std::mem::take(events);
            ready.extend(std::iter::from_fn(|| self.context.poll_event()));
            self.note_end(&ready);
            result = self.log(ready).await;
        }
        if let Err(error) = result {
            tracing::error!(run = self.drive.lease.run_id.as_str(), %error, "the run log failed");
            self.leave();
        }
    }

    /// Appends; a log that cannot be used is tried again, with the same batch, while the lease may be ours.
    async fn log(&self, mut events: Vec<BlockEvent>) -> Result<u64, Refused> {
        let (gateway, lease) = (&self.drive.gateway, &self.drive.lease);
        loop {
            let refused = match gateway.log.append(lease, events, now()).await {
                Ok(head) => return Ok(head),
                Err(refused) => refused,
            };
            if !refused.error.is_temporary() || self.lost.is_cancelled() || Instant::now() > self.deadline {
                return Err(refused);
            }
            tracing::warn!(run = lease.run_id.as_str(), error = %refused.error, "the run log is tried again");
            tokio::time::sleep(LOG_PAUSE).await;
            events = refused.events;
        }
    }

    fn note_end(&mut self, events: &[BlockEvent]) {
        match events.last() {
            Some(BlockEvent::RunFinished(end)) => self.outcome = format!("{:?}", end.outcome).to_lowercase(),
            Some(BlockEvent::RunFailed(end)) => {
                self.outcome = end.failure.code.to_string();
                let (code, reason) = (&*end.failure.code, &*end.failure.message);
                tracing::warn!(run = self.drive.lease.run_id.as_str(), code, reason, "run failed");
            }
            _ => {}
        }
    }
}

/// What the runs of an agent may hold open.
pub(super) fn limits(agent: &AgentEntry) -> Limits {
    let own = &agent.config.limits;
    Limits { open_lanes: own.lanes, open_blocks: own.blocks, ..Limits::default() }
}

/// How long ago that was.
fn since(then: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now().0.saturating_sub(then.0)).unwrap_or_default())
}

async fn lonely(since: Option<Instant>) {
    match since {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

//! The driver of one run, from its first event to its last.
//!
//! ```text
//!           agent's stream         log appends
//!   running ─────────────► events ────────────► running
//!      │ cancelled (by its principal, without watchers, at shutdown)
//!      ├────────────► stopping ── the stream ends, or `CANCEL_WAIT` ──► ended: cancelled
//!      │ `run_timeout`
//!      ├─────────────────────────────────────────────────────────► ended: failed
//!      ├ the stream ends ────────────────────────────────────────► ended as reported, or cut
//!      ├ a lane raises an interrupt ─────────────────────────────► ended: interrupted, and the stream is held ([`suspend`](crate::suspend))
//!      ├ the lease is lost ──────────────────────────────────────► left to the replica that took the run over
//!      ├ the log has lost the run ───────────────────────────────► ended: `log_lost`, and the agent by policy
//!      └ the engine leaves ([`leaving`](crate::leaving)) ─────────► handed over, or ended: `gateway_lost`
//! ```
//!
//! One task: the driver polls the stream of the agent ([`input`]) and appends the ready events together. The log always
//! receives a terminal event, from this driver or from the replica that takes the run over. After the terminal event the
//! stream is polled for at most [`GOODBYE`], so that the agent can notify its remote side. If the run was taken over, the
//! agent works for the other replica, and the stream is dropped instead.

mod append;
mod controls;
mod input;
mod lanes;
mod turn;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{
    BlockEvent, CancelToken, Checkpoint, MessageId, RunFailure, RunId, RunInfo, SourceEvent, StreamContext,
    Timestamp,
};
use aqueduct_runlog::{Control, Lease, LogError, LogScope, RunMeta};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::agents::AgentEntry;
use crate::builder::EventGuard;
use crate::extension::RunExtension;
use crate::feed::{Begin, Feed};
use crate::handle::RunHandle;
use crate::leaving::Stage;
use crate::quota::RunPlace;
use crate::runs::Runs;
use crate::settings::{OnDisconnect, OnLogLoss};
use crate::suspend::Suspension;
use crate::takeover::GATEWAY_LOST;
pub(crate) use append::left_by_extension;
use controls::{Controls, Interruption, Waits};
pub(crate) use input::{Batch, Input};
use turn::RunTurn;

/// The time that a cancelled run waits for its agent to report the end. The frontend sees the end within a second.
const CANCEL_WAIT: Duration = Duration::from_millis(800);

/// The time for which the stream of an agent is polled after the end of its run, so that the agent
/// can send its remote side a last request, for example a cancel.
const GOODBYE: Duration = Duration::from_secs(10);

/// The pause before an unavailable log is retried. The engine of the log has already retried for long.
pub(crate) const LOG_PAUSE: Duration = Duration::from_millis(500);

/// The outcome of a run that another replica took over.
const TAKEN_OVER: &str = "taken_over";

/// The outcome of a run that was handed over to other replicas.
const HANDED_OVER: &str = "handed_over";

/// The outcome of a run that ended with interrupts.
const INTERRUPTED: &str = "interrupted";

/// The outcome of a run that its log has lost.
const LOG_LOST: &str = "log_lost";

/// The code of a run that exceeded its time limit.
const RUN_TIMEOUT: &str = "run_timeout";

/// A run to drive.
pub(crate) struct Drive {
    pub(crate) runs: Runs,
    pub(crate) agent: Arc<AgentEntry>,
    pub(crate) lease: Lease,
    pub(crate) handle: Arc<RunHandle>,
    pub(crate) extension: Option<Arc<dyn RunExtension>>,
    pub(crate) request: AgentRequest,
    /// The message ids of the thread's earlier runs, for an agent whose ids are kept.
    pub(crate) kept_ids: Option<Vec<String>>,
    /// The id of the run in its events, if it differs from the id in the log.
    pub(crate) shown: Option<RunId>,
    /// The extension of the first run whose stream this run continues: the lanes of that extension belong to this run.
    pub(crate) lanes_of: Option<Arc<dyn RunExtension>>,
    /// The run's place in the quota of its principal.
    pub(crate) place: Option<RunPlace>,
}

impl Drive {
    /// Keeps the ids of the source if the agent merges the history of its threads by them.
    fn keeping_ids(&self, context: StreamContext) -> StreamContext {
        let Some(earlier) = &self.kept_ids else { return context };
        let of_input = self.request.input.messages.iter().filter_map(|message| message.id.as_ref());
        context.with_kept_ids(of_input.map(MessageId::as_str).chain(earlier.iter().map(String::as_str)))
    }

    /// Drives the run in a task of its own.
    pub(crate) fn spawn(self, feed: Feed) {
        self.runs.active().insert(self.lease.run_id.clone(), Arc::clone(&self.handle));
        tokio::spawn(self.run(feed).in_current_span());
    }

    /// Drives the run to its end, and waits for the agent to finish.
    async fn run(mut self, feed: Feed) {
        let run_id = self.lease.run_id.clone();
        let started_at = Instant::now();
        tracing::info!(
            run = self.request.input.run_id.as_str(),
            thread = self.request.input.thread_id.as_str(),
            agent = self.agent.name(),
            "run started"
        );
        let held = self.runs.hold(&self.lease);
        let (source, begin) = feed.connect(self.agent.agent(), &self.request);
        let mut input = Input::new(source);
        let metrics = Arc::clone(self.runs.metrics());
        let counted = metrics.run_begins();
        // Boxed: a future stores each moved value a second time.
        let machine = Box::new(Machine::new(&self, begin, held.lost.clone()));
        let (outcome, suspension) = machine.run(&mut input).await;
        drop((held, counted));
        if outcome == HANDED_OVER {
            self.release().await;
        }
        let suspension = self.kept(suspension, &outcome).await;
        if suspension.is_none() {
            self.end();
        }
        self.runs.active().remove(&run_id);
        drop(self.place.take());
        metrics.run_ended(self.agent.name(), &outcome, started_at.elapsed());
        tracing::info!(
            run = self.request.input.run_id.as_str(),
            agent = self.agent.name(),
            outcome = outcome.as_str(),
            ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            "run ended"
        );
        if let Some(suspension) = suspension {
            suspension.hold(&self, &mut input).await;
            self.end();
        }
        if self.tells_agent(&outcome) {
            self.say_goodbye(input).await;
        }
    }

    /// Ends the handle and the extension: no event follows, in this run or in another one.
    fn end(&mut self) {
        self.handle.end();
        if let Some(extension) = self.extension.take() {
            extension.handle_end();
        }
    }

    /// Returns the suspension if the log holds its interrupts; withdraws it otherwise.
    async fn kept(&self, suspension: Option<Suspension>, outcome: &str) -> Option<Suspension> {
        let suspension = suspension?;
        if outcome != INTERRUPTED {
            suspension.withdraw(&self.runs).await;
            return None;
        }
        if let Some(extension) = &self.extension {
            extension.handle_suspended();
        }
        Some(suspension)
    }

    /// Returns `true` if the agent is cancelled after the run: no other replica continues its work.
    fn tells_agent(&self, outcome: &str) -> bool {
        match outcome {
            TAKEN_OVER | HANDED_OVER => false,
            LOG_LOST => self.runs.setup().settings.on_log_loss == OnLogLoss::Cancel,
            _ => true,
        }
    }

    /// Releases the lease, so that another replica, or this one after a restart, takes the run over.
    async fn release(&self) {
        if let Err(error) = self.runs.run_log().release(vec![self.lease.clone()]).await {
            tracing::warn!(run = self.lease.run_id.as_str(), %error, "the lease was not released: it lapses");
        }
        self.handle.leave();
    }

    /// Cancels the agent after the end of its run, and polls its stream to the end within [`GOODBYE`].
    async fn say_goodbye(&self, input: Input) {
        self.request.cancel.cancel();
        if tokio::time::timeout(GOODBYE, input.finish()).await.is_err() {
            tracing::warn!(run = self.lease.run_id.as_str(), "the agent did not finish in time");
        }
    }

    /// Returns the identity of the run for its first event.
    fn info(&self) -> RunInfo {
        let input = &self.request.input;
        RunInfo {
            thread_id: input.thread_id.detached(),
            run_id: RunMeta::id_in(&self.lease.run_id),
            parent_run_id: input.parent_run_id.as_ref().map(RunId::detached),
            agent: Some(self.agent.name().to_owned().into()),
        }
    }
}

/// Where the run can continue after this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoesOn {
    /// The agent's work is known to this process alone.
    HereAlone,
    /// The log holds a request that was announced to the agent. It is handed over only when this replica ends.
    IfLost,
    /// The log holds a checkpoint of the agent's work.
    Anywhere,
}

/// The stream machine of a run, its log, and its timers.
struct Machine<'d> {
    drive: &'d Drive,
    context: StreamContext,
    turn: RunTurn,
    outcome: String,
    is_stopping: bool,
    /// The time at which the run exceeds its limit, or at which a cancelled run stops waiting for its agent.
    deadline: Instant,
    /// The time at which a run without watchers is cancelled.
    unwatched: Option<Instant>,
    /// Cancelled when the lease is lost.
    lost: CancelToken,
    /// The number of handled control messages from other replicas.
    messages_seen: usize,
    /// Set if another replica started the run: its watchers need time to reconnect here.
    is_takeover: bool,
    /// The position of the agent's work, until the log holds it.
    checkpoint: Option<Checkpoint>,
    /// Where the run can continue, according to the log.
    goes_on: GoesOn,
    /// Set if the agent had more events ready than are handled together.
    is_flooded: bool,
    /// Interrupts that lanes raised.
    raised: Vec<SourceEvent>,
    /// Set if the run ends with these interrupts, and its source is held for the run that replies.
    suspension: Option<Suspension>,
    /// Events that were taken out of the context before they are appended.
    polled: Vec<BlockEvent>,
    /// The positions of the source among them.
    positions: u64,
    guard: Option<EventGuard>,
}

impl<'d> Machine<'d> {
    /// Creates the machine of a new run, or restores that of a run which was taken over. The time limit of a run counts
    /// from its start, at whatever replica.
    fn new(drive: &'d Drive, begin: Begin, lost: CancelToken) -> Self {
        let options = drive.agent.options();
        let limit = options.run_timeout;
        let (context, response_id, is_takeover, goes_on, spent) = match begin {
            Begin::New => {
                let context = StreamContext::with_limits(drive.info(), options.limits.clone());
                let context = context.with_known_calls(drive.request.input.known_calls());
                let context = match &drive.shown {
                    Some(shown) => context.with_shown_id(shown.clone()),
                    None => context,
                };
                (drive.keeping_ids(context), None, false, GoesOn::HereAlone, Duration::ZERO)
            }
            Begin::Takeover { context, response_id, opened_at, can_hand_over } => {
                // A request that was only announced is looked for here to its end: handed over, the search would start over.
                let goes_on = if can_hand_over { GoesOn::Anywhere } else { GoesOn::IfLost };
                (*context, response_id, true, goes_on, elapsed(opened_at, drive.runs.now()))
            }
        };
        Self {
            drive,
            context,
            turn: RunTurn::new(&drive.request.input.run_id, response_id),
            outcome: String::new(),
            is_stopping: false,
            deadline: Instant::now() + limit.saturating_sub(spent),
            unwatched: None,
            lost,
            messages_seen: 0,
            is_takeover,
            checkpoint: None,
            goes_on,
            is_flooded: false,
            raised: Vec::new(),
            suspension: None,
            polled: Vec::new(),
            positions: 0,
            guard: drive.runs.0.host.guard.map(|make| make(&drive.request.input)),
        }
    }

    /// Runs to the terminal event. Returns the outcome as a word, and the suspension if the run waits for a reply.
    async fn run(mut self: Box<Self>, input: &mut Input) -> (String, Option<Suspension>) {
        if self.was_left() {
            self.handle_watchers();
        }
        let mut controls = Controls::new(&self.drive.handle, &self.lost, self.messages(), self.deadline);
        self.append().await;
        while !self.context.is_ended() {
            let waits = self.waits();
            let next = std::future::poll_fn(|cx| match controls.poll(cx, waits) {
                Poll::Ready(interruption) => Poll::Ready(Err(interruption)),
                Poll::Pending => input.poll_batch(cx).map(Ok),
            });
            match next.await {
                Ok(batch) => self.handle_batch(batch, input).await,
                Err(interruption) => self.handle_interruption(interruption, &mut controls, input).await,
            }
            self.handle_raised().await;
            self.append().await;
            self.handle_stage().await;
            if std::mem::take(&mut self.is_flooded) {
                // An agent that is always ready must not starve the watchers of its run.
                tokio::task::yield_now().await;
            }
        }
        (self.outcome, self.suspension)
    }

    /// Returns what decides how long the driver waits.
    fn waits(&self) -> Waits {
        Waits { is_stopping: self.is_stopping, deadline: self.deadline, unwatched: self.unwatched }
    }

    /// Handles what came before the next input.
    async fn handle_interruption(
        &mut self,
        interruption: Interruption,
        controls: &mut Controls<'d>,
        input: &mut Input,
    ) {
        match interruption {
            Interruption::Lost => self.leave(),
            Interruption::Cancelled => self.stop(),
            Interruption::Messages(heard) => {
                self.handle_messages(heard).await;
                controls.set_messages(self.messages());
            }
            Interruption::Deadline => self.handle_deadline(),
            Interruption::Unwatched => self.handle_unwatched().await,
            Interruption::Changed => {
                input.listen(self.drive.handle.take_lanes());
                self.handle_watchers();
            }
        }
    }

    /// Handles a batch: lane events first, because events of the agent may follow from those of its sub-agents.
    async fn handle_batch(&mut self, batch: Batch, input: &mut Input) {
        self.handle_lanes(batch.lanes);
        if batch.events.is_empty() && !batch.is_end {
            return;
        }
        if self.drive.extension.is_some() {
            // Lanes may have been opened after the last check and before the agent's event was ready.
            input.listen(self.drive.handle.take_lanes());
            self.handle_lanes(input.ready_lanes());
            self.catch_up(input).await;
        }
        batch.events.into_iter().for_each(|event| self.handle_event(event));
        if batch.is_end {
            self.context.handle_eof();
        }
        self.is_flooded = batch.is_full;
    }

    /// Handles an event of the agent: shows it to the extension, keeps a checkpoint, and places content in the turn.
    fn handle_event(&mut self, event: SourceEvent) {
        if let Some(extension) = &self.drive.extension {
            extension.observe(&event);
        }
        if let Some(Err(failure)) = self.guard.as_mut().map(|check| check(&event)) {
            return self.context.handle_failure(*failure);
        }
        if let SourceEvent::Checkpoint(checkpoint) = event {
            self.checkpoint = Some(checkpoint);
            return;
        }
        if let SourceEvent::Position(position) = event {
            return self.keep_position(position);
        }
        let (usage, event) = self.turn.place(event);
        if let Some(usage) = usage {
            self.handle_placed(usage.into());
        }
        self.handle_placed(event);
    }

    /// Passes an event to the stream machine. Exceeding a limit fails the run.
    fn handle_placed(&mut self, event: SourceEvent) {
        match self.context.handle_event(event) {
            // Events after the end of the run belong to no run.
            Ok(()) | Err(aqueduct_core::Error::Ended) => {}
            Err(error) => self.context.handle_failure((&error).into()),
        }
    }

    /// Cancels the agent and its sub-agents, and waits for the end of the stream at most [`CANCEL_WAIT`].
    fn stop(&mut self) {
        self.is_stopping = true;
        self.deadline = Instant::now() + CANCEL_WAIT;
        // The sub-agents of the run are cancelled for every reason.
        self.drive.handle.cancel_token().cancel();
        self.drive.request.cancel.cancel();
    }

    /// Waits for control messages from other replicas.
    fn messages(&self) -> BoxFuture<'d, Result<Vec<Control>, LogError>> {
        self.drive.runs.run_log().controls(&self.drive.lease, self.messages_seen)
    }

    /// Handles control messages: a cancel, or a message for the extension. An error means that the lease is lost.
    async fn handle_messages(&mut self, messages: Result<Vec<Control>, LogError>) {
        let run = self.drive.lease.run_id.as_str();
        match messages {
            Ok(messages) => {
                self.messages_seen += messages.len();
                let is_cancelled = messages.contains(&Control::Cancel);
                for message in messages {
                    if let (Control::Message(message), Some(extension)) = (message, &self.drive.extension) {
                        Arc::clone(extension).handle_message(message);
                    }
                }
                if is_cancelled && !self.is_stopping {
                    tracing::info!(run, "cancelled by its owner at another replica");
                    self.stop();
                }
            }
            Err(error) if error.is_temporary() => tokio::time::sleep(LOG_PAUSE).await,
            Err(error) => {
                tracing::warn!(run, %error, "the lease of the run is lost");
                self.handle_log_error(&error);
            }
        }
    }

    /// Stops driving a run that another replica owns: writes nothing more and releases the agent.
    fn leave(&mut self) {
        self.stop_writing(TAKEN_OVER);
    }

    /// Ends the driver but not the run: writes nothing more.
    fn stop_writing(&mut self, outcome: &str) {
        outcome.clone_into(&mut self.outcome);
        self.lost.cancel();
        self.context.handle_failure(RunFailure::new(TAKEN_OVER, "the run is not driven here any more"));
    }

    /// Handles an error after which the log accepts no more events of the run.
    fn handle_log_error(&mut self, error: &LogError) {
        match error {
            LogError::Fenced { .. } | LogError::Closed(_) => self.leave(),
            _ => self.stop_writing(LOG_LOST),
        }
    }

    /// Hands the run over or ends it, according to the shutdown stage of the engine.
    async fn handle_stage(&mut self) {
        let stage = self.drive.runs.0.leaving.stage();
        if stage == Stage::Serving || self.is_stopping || self.context.is_ended() {
            return;
        }
        let is_last = stage == Stage::LastCall;
        let can_go = match self.goes_on {
            GoesOn::HereAlone => false,
            GoesOn::IfLost => is_last,
            GoesOn::Anywhere => is_last || !self.drive.handle.is_fed(),
        };
        if can_go && self.drive.runs.scope() > LogScope::Process {
            self.stop_writing(HANDED_OVER);
        } else if is_last {
            self.drive.handle.cancel_token().cancel();
            let message = "the gateway was stopped before the run ended, and the run cannot go on elsewhere: run it again";
            self.context.handle_failure(RunFailure::new(GATEWAY_LOST, message));
            self.append().await;
        }
    }

    /// Handles a run without watchers here. It may have watchers at another replica.
    async fn handle_unwatched(&mut self) {
        let run = &self.drive.lease.run_id;
        let state = self.drive.runs.run_log().state(run).await;
        let remote = state.map_or(0, |state| state.watched_until.0.saturating_sub(self.drive.runs.now().0));
        match u64::try_from(remote) {
            Ok(remote) if remote > 0 => {
                self.unwatched = Some(Instant::now() + Duration::from_millis(remote));
            }
            _ => {
                tracing::info!(run = run.as_str(), "the run has no watchers any more");
                self.stop();
            }
        }
    }

    /// Handles the deadline: fails a run that exceeded its time limit, and ends a cancelled one.
    fn handle_deadline(&mut self) {
        if self.is_stopping {
            return self.context.handle_cancel();
        }
        self.drive.handle.cancel_token().cancel();
        let limit = self.drive.agent.options().run_timeout;
        let message =
            format!("the run took longer than {limit:?} (`timeouts.run`): raise the limit, or ask for less");
        self.context.handle_failure(RunFailure::new(RUN_TIMEOUT, message));
    }

    /// Returns `true` if the caller that started the run has already disconnected. A published run starts without watchers.
    fn was_left(&self) -> bool {
        !self.drive.agent.is_published() && self.is_unwatched()
    }

    /// Returns `true` if the run has no watchers. A run with a record always counts as watched: its surface finds it
    /// again by the record.
    fn is_unwatched(&self) -> bool {
        self.drive.request.input.record.is_none() && self.drive.handle.is_unwatched()
    }

    /// Starts or stops the countdown after which a run without watchers is cancelled.
    fn handle_watchers(&mut self) {
        let options = self.drive.agent.options();
        let is_unwatched = self.is_unwatched();
        self.unwatched = is_unwatched.then(|| match options.on_disconnect {
            OnDisconnect::Cancel if self.is_takeover => {
                Instant::now() + self.drive.runs.setup().settings.lease
            }
            OnDisconnect::Cancel => Instant::now(),
            OnDisconnect::Continue => Instant::now() + options.grace,
        });
        self.is_takeover &= is_unwatched;
    }
}

/// Returns the time from `then` to `now`; zero if `now` is earlier.
fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.0.saturating_sub(then.0)).unwrap_or_default())
}

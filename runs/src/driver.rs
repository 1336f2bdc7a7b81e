//! The driver of one run, from its first event to its last.
//!
//! ```text
//!           agent's stream         log appends
//!   running ─────────────► events ────────────► running
//!      │ cancelled (by its principal, without watchers, at shutdown)
//!      ├────────────► stopping ── the agent reports an end, its stream ends, or `CANCEL_WAIT` ──► ended as reported, or cancelled
//!      ├ `run_timeout` ──────────────────► ended: failed
//!      ├ the agent reports an end ───────► ended as reported
//!      ├ the stream ends without an end ─► ended: failed
//!      ├ a lane raises an interrupt ─────► ended: interrupted; the stream is held (`suspend.rs`)
//!      ├ the lease is lost ──────────────► not driven here: another replica has taken the run over
//!      ├ the log has lost the run ───────► `log_lost`: no event can be appended; `on_log_loss` decides about the agent
//!      └ the engine shuts down ──────────► handed over, or ended: `gateway_lost` (`leaving.rs`)
//! ```
//!
//! One task drives a run: it polls the stream of the agent ([`input`]) and appends the ready events together. The log
//! always receives a terminal event, from this driver or from the replica that takes the run over. After the terminal event
//! the stream is polled for some seconds ([`drive`]), so that the agent can send its remote side a last request, such as a
//! cancel. If another replica took the run over, it needs the work of the remote side, and the stream is dropped instead.

mod append;
mod controls;
mod drive;
mod input;
mod lanes;
mod stops;
mod turn;

use std::task::Poll;
use std::time::Duration;

use aqueduct_core::{BlockEvent, CancelToken, Checkpoint, SourceEvent, StreamContext, Timestamp};
use tokio::time::Instant;

use crate::builder::EventGuard;
use crate::feed::Begin;
use crate::suspend::Suspension;
pub(crate) use append::extension_value;
use controls::{Controls, Interruption, Waits};
pub(crate) use drive::Drive;
pub(crate) use input::{Batch, Input};
use turn::RunTurn;

/// The pause before an unavailable log is retried. It is long because the log's engine has already retried by itself.
pub(crate) const LOG_PAUSE: Duration = Duration::from_millis(500);

/// The outcome of a run that another replica took over.
const TAKEN_OVER: &str = "taken_over";

/// The outcome of a run that was handed over to other replicas.
const HANDED_OVER: &str = "handed_over";

/// The outcome of a run that ended with interrupts.
const INTERRUPTED: &str = "interrupted";

/// The outcome of a run that its log has lost.
const LOG_LOST: &str = "log_lost";

/// Whether another replica can resume the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resumable {
    /// The log holds no checkpoint at which the agent can resume.
    No,
    /// The log holds a checkpoint that was stored before the remote side confirmed the request. The run is handed over only
    /// when this replica ends ([`Agent::can_hand_over`](aqueduct_core::Agent::can_hand_over)).
    IfOwnerEnds,
    /// The log holds a checkpoint of work that the remote side has confirmed.
    Yes,
}

/// The stream machine of a run, its log, and its timers.
struct Machine<'d> {
    drive: &'d Drive,
    context: StreamContext,
    turn: RunTurn,
    /// The outcome for metrics and logs, once the run has ended or is not driven here any more.
    outcome: String,
    /// Set once the agent is cancelled.
    is_stopping: bool,
    /// The time at which the run exceeds its limit, or at which a cancelled run stops waiting for its agent.
    deadline: Instant,
    /// The time at which a run without watchers is cancelled.
    unwatched: Option<Instant>,
    /// Cancelled when the lease is lost.
    lost: CancelToken,
    /// The number of handled control messages from other replicas.
    messages_seen: usize,
    /// Set if another replica started the run, until the first watcher is here: watchers need time to reconnect.
    is_takeover: bool,
    /// The last checkpoint of the agent, until the log holds it.
    checkpoint: Option<Checkpoint>,
    /// Whether another replica can resume the run from what the log holds.
    resumable: Resumable,
    /// Set if the agent had more events ready than are handled together.
    is_flooded: bool,
    /// Interrupts that lanes raised.
    raised: Vec<SourceEvent>,
    /// Set if the run ends with the interrupts of lanes, and its source is held for the run that replies.
    suspension: Option<Suspension>,
    /// Events that were polled from the context and wait for the next append.
    polled: Vec<BlockEvent>,
    /// The number of positions of the source in `polled`.
    positions: u64,
    /// The host's check of source events, which can fail the run.
    guard: Option<EventGuard>,
}

impl<'d> Machine<'d> {
    /// Creates the machine of a new run, or restores the machine of a run that was taken over. The time limit of a run
    /// counts from the time at which its first owner opened it.
    fn new(drive: &'d Drive, begin: Begin, lost: CancelToken) -> Self {
        let options = drive.agent.options();
        let limit = options.run_timeout;
        let (context, response_id, is_takeover, resumable, spent) = match begin {
            Begin::New => {
                let context = StreamContext::with_limits(drive.info(), options.limits.clone());
                let context = context.with_known_calls(drive.request.input.known_calls());
                let context = match &drive.shown {
                    Some(shown) => context.with_shown_id(shown.clone()),
                    None => context,
                };
                (drive.keeping_ids(context), None, false, Resumable::No, Duration::ZERO)
            }
            Begin::Takeover { context, response_id, opened_at, can_hand_over } => {
                // An unconfirmed request is searched at the remote side. A handover would start the search over at the next
                // replica, so this replica finishes it.
                let resumable = if can_hand_over { Resumable::Yes } else { Resumable::IfOwnerEnds };
                (*context, response_id, true, resumable, elapsed(opened_at, drive.runs.now()))
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
            resumable,
            is_flooded: false,
            raised: Vec::new(),
            suspension: None,
            polled: Vec::new(),
            positions: 0,
            guard: drive.runs.0.host.guard.map(|make| make(&drive.request.input)),
        }
    }

    /// Drives the run to its terminal event, or until it is not driven here any more. Returns the outcome for metrics, and
    /// the suspension if the run waits for a reply.
    async fn run(mut self: Box<Self>, input: &mut Input) -> (String, Option<Suspension>) {
        if self.is_caller_gone() {
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
                // Boxed, here and below: a future has room for the largest of its steps, and these are rare.
                Err(interruption) => {
                    Box::pin(self.handle_interruption(interruption, &mut controls, input)).await;
                }
            }
            if self.ends_with_raised() {
                Box::pin(self.end_with_raised()).await;
            }
            self.append().await;
            if let Some(stage) = self.shutdown_stage() {
                Box::pin(self.handle_stage(stage)).await;
            }
            if std::mem::take(&mut self.is_flooded) {
                // An agent that is always ready must not starve the watchers of its run.
                tokio::task::yield_now().await;
            }
        }
        (self.outcome, self.suspension)
    }

    /// Returns the state that decides how long the driver waits.
    fn waits(&self) -> Waits {
        Waits { is_stopping: self.is_stopping, deadline: self.deadline, unwatched: self.unwatched }
    }

    /// Handles a control event that arrived before the next input.
    async fn handle_interruption(
        &mut self,
        interruption: Interruption,
        controls: &mut Controls<'d>,
        input: &mut Input,
    ) {
        match interruption {
            Interruption::Lost => self.stop_driving(),
            Interruption::Cancelled => self.stop(),
            Interruption::Messages(messages) => {
                self.handle_messages(messages).await;
                controls.set_messages(self.messages());
            }
            Interruption::Deadline => self.handle_deadline(),
            Interruption::Unwatched => self.handle_unwatched().await,
            Interruption::Changed => {
                input.set_lanes(self.drive.handle.take_lanes());
                self.handle_watchers();
            }
        }
    }

    /// Handles a batch: lane events first, because the agent's events may be reactions to events of its sub-agents.
    async fn handle_batch(&mut self, batch: Batch, input: &mut Input) {
        self.handle_lanes(batch.lanes);
        if batch.events.is_empty() && !batch.is_end {
            return;
        }
        if self.drive.extension.is_some() {
            // A lane may have been opened after the lanes were polled and before the agent's event was ready.
            input.set_lanes(self.drive.handle.take_lanes());
            self.handle_lanes(input.ready_lanes());
            self.catch_up(input).await;
        }
        batch.events.into_iter().for_each(|event| self.handle_event(event));
        if batch.is_end && self.is_stopping {
            // An agent may end its stream as its reaction to the cancel.
            self.context.handle_cancel();
        } else if batch.is_end {
            self.context.handle_eof();
        }
        self.is_flooded = batch.is_full;
    }

    /// Handles an event of the agent: passes it to the extension, keeps a checkpoint or position for the next append, and
    /// passes all other events to the stream machine, under the response id of the turn.
    fn handle_event(&mut self, mut event: SourceEvent) {
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
        if let Some(usage) = self.turn.place(&mut event) {
            self.handle_placed(usage.into());
        }
        self.handle_placed(event);
    }

    /// Passes an event to the stream machine. Exceeding a limit fails the run.
    fn handle_placed(&mut self, event: SourceEvent) {
        match self.context.handle_event(event) {
            // Events after the end of the run are dropped.
            Ok(()) | Err(aqueduct_core::Error::Ended) => {}
            Err(error) => self.context.handle_failure((&error).into()),
        }
    }
}

/// Returns the time from `then` to `now`; zero if `now` is earlier.
fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.0.saturating_sub(then.0)).unwrap_or_default())
}

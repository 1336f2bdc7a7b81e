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
//! stream is polled for some seconds ([`drive`]), so that the agent can notify its remote side. If the run was taken over, the
//! agent works for the other replica, and the stream is dropped instead.

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
pub(crate) use append::left_by_extension;
use controls::{Controls, Interruption, Waits};
pub(crate) use drive::Drive;
pub(crate) use input::{Batch, Input};
use turn::RunTurn;

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
            // Events after the end of the run belong to no run.
            Ok(()) | Err(aqueduct_core::Error::Ended) => {}
            Err(error) => self.context.handle_failure((&error).into()),
        }
    }
}

/// Returns the time from `then` to `now`; zero if `now` is earlier.
fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.0.saturating_sub(then.0)).unwrap_or_default())
}

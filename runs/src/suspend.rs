//! Runs that are held because a lane raised an interrupt while the agent of the run still works.
//!
//! A sub-agent that is called through the host raises an interrupt. The agent of the run waits for the sub-agent and does
//! not know of the interrupt. The run ends as interrupted, like every run with interrupts; the stream of its agent is held,
//! and continues in the run that replies.
//!
//! ```text
//! run 1: agent's stream ──► events ── a lane raises an interrupt ──► ended: interrupted
//!              │
//!            held ──┬ run 2 of the thread replies ──► the extension gets the reply; the rest of the stream feeds run 2
//!                   └ no reply within `reply_timeout` ──► the agent is cancelled, the extension gets the end
//! ```
//!
//! Run 2 is driven like a run that a publisher feeds. So the reply is matched to its run, claimed, and received from other
//! replicas like a reply to a publisher ([`publish`](crate::publish)). If a lane of run 2 raises an interrupt, run 2 is
//! held in the same way.
//!
//! Invariants: the source of a held run is polled, so that its connection stays alive, up to [`HELD`] batches; none of
//! its events is dropped while it is held. An interrupt to which run 2 does not reply is raised again in run 2. A held run
//! is lost with its process: a later reply is refused with a message that names the thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aqueduct_core::service::{RefusalKind, ServiceError, StartedRun};
use aqueduct_core::{
    ByteString, InterruptId, InterruptReply, Principal, RunId, RunInput, SourceEvent, ThreadId, ToolCallId,
};
use tokio::sync::{Mutex, watch};

use crate::agents::AgentEntry;
use crate::driver::{Batch, Drive, Input};
use crate::feed::{Feed, FeedSender};
use crate::handle::{LaneSender, RunHandle};
use crate::publish::{LineDecoder, Published, State};
use crate::reply::ReplyRun;
use crate::runs::Runs;

/// Batches of a held source that are kept. Beyond this limit the source is not polled until there is a reply.
const HELD: usize = 1024;

/// The surface of runs that continue the source of a held run.
const REPLY: &str = "reply";

/// The prefix of the ids of raised interrupts.
const RAISED: &str = "raised~";

/// Returns the id of an interrupt that a lane of the run raises. Ids of sub-agents are unique only within the
/// sub-agent.
pub fn raised_id(run: &RunId, number: u64) -> InterruptId {
    InterruptId::new(format!("{RAISED}{run}~{number}"))
}

/// A run that ends with interrupts of its lanes, and whose source is held.
pub(crate) struct Suspension {
    published: Arc<Published>,
    /// The interrupts, as the lanes raised them.
    raised: Vec<SourceEvent>,
}

/// The reply to a held run, and the run that delivered it.
struct Answer {
    replies: Vec<InterruptReply>,
    out: FeedSender,
    handle: Arc<RunHandle>,
}

/// The decoder of a held run, which has no lines: its source is a stream. Contains the tool calls that wait for replies.
struct NoLines(Vec<ToolCallId>);

impl LineDecoder for NoLines {
    fn handle_line(&mut self, _line: &ByteString) -> Result<(), String> {
        Err("the events of this run come from its agent: publish another run".to_owned())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        None
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        self.0.clone()
    }

    fn replies_taken(&self, _line: &str) -> Vec<InterruptId> {
        Vec::new()
    }
}

impl Runs {
    /// Registers the run as held, so that every replica accepts replies to it. Must complete before a caller can see the
    /// interrupts.
    pub(crate) async fn suspend(
        &self,
        drive: &Drive,
        raised: Vec<SourceEvent>,
        pending: Vec<ToolCallId>,
    ) -> Suspension {
        let asked: Vec<InterruptId> = raised.iter().filter_map(interrupt_of).cloned().collect();
        let (key, input) = (drive.lease.run_id.clone(), &drive.request.input);
        // This sender is never used: the run that replies replaces it by its own.
        let (out, _) = Feed::published();
        let state = State {
            asked: asked.clone(),
            is_waiting: true,
            lanes_of: drive.lanes_of.as_ref().or(drive.extension.as_ref()).cloned(),
            ..State::new(Box::new(NoLines(pending)), out)
        };
        let published = Arc::new(Published {
            key: key.clone(),
            run_id: input.run_id.detached(),
            agent: Arc::clone(&drive.agent),
            principal: drive.request.principal.clone(),
            thread: input.thread_id.detached(),
            state: Mutex::new(state),
            replies: watch::Sender::default(),
            connections: AtomicU64::new(0),
            boxes: AtomicU64::new(0),
            surface: REPLY,
            format: None,
        });
        let mailbox = self.open_mailbox(&published, &asked).await;
        published.state.lock().await.mailbox = mailbox;
        self.published().insert(key, Arc::clone(&published));
        Suspension { published, raised }
    }

    /// Returns the number of held runs of this replica.
    pub(crate) fn held_runs(&self) -> usize {
        self.published().values().filter(|published| published.surface == REPLY).count()
    }

    /// Starts the run that replies to a held run. Returns `None` if no held run waits for the input.
    ///
    /// # Errors
    ///
    /// Returns a refusal for a reply to an interrupt that a lane raised and for which no run waits any more.
    pub(crate) async fn answer_suspended(
        &self,
        agent: &Arc<AgentEntry>,
        principal: &Principal,
        input: &RunInput,
        run: &ReplyRun,
    ) -> Result<Option<StartedRun>, ServiceError> {
        if let Some(started) = self.answer_here(agent, principal, input, run).await? {
            return Ok(Some(started));
        }
        let is_raised = |reply: &InterruptReply| reply.id.as_str().starts_with(RAISED);
        match self.answer_remotely(agent, principal, input, run).await? {
            None if input.resume.iter().any(is_raised) => Err(not_held(&input.thread_id)),
            started => Ok(started),
        }
    }
}

/// Returns the refusal of a reply whose held run is gone.
fn not_held(thread: &ThreadId) -> ServiceError {
    let message = format!(
        "the run of thread {:?} whose sub-agent raised the interrupt no longer waits for a reply: none arrived within \
         `timeouts.reply`, or its replica was stopped. Send the message again",
        thread.as_str()
    );
    ServiceError::new(RefusalKind::Conflict, message)
}

/// Returns the id of an interrupt event.
fn interrupt_of(event: &SourceEvent) -> Option<&InterruptId> {
    match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(&interrupt.id),
        _ => None,
    }
}

impl Published {
    /// Waits for the reply.
    async fn replied(&self) {
        let mut replies = self.replies.subscribe();
        if replies.wait_for(|replies| !replies.is_empty()).await.is_err() {
            // The sender lives in `self`.
            std::future::pending::<()>().await;
        }
    }

    /// Removes the publication, so that no other reply is accepted, and returns the reply. Returns `None` if there is none.
    async fn take_answer(&self, runs: &Runs) -> Option<Answer> {
        let mut state = self.state.lock().await;
        state.is_waiting = false;
        state.mailbox = None;
        runs.published().remove(&self.key);
        let (out, handle) = (state.out.take(), state.answered_by.take());
        let replies = self.replies.borrow().clone();
        Some(Answer { replies, out: out?, handle: handle? })
    }
}

impl Suspension {
    /// Withdraws the suspension, because the log does not hold the end of the run as interrupted.
    pub(crate) async fn withdraw(self, runs: &Runs) {
        drop(self.published.take_answer(runs).await);
    }

    /// Holds the source until a reply arrives, and feeds the rest of the source into the run that replies. Returns once
    /// that run has ended. Without a reply within `reply_timeout`, cancels the agent and returns.
    pub(crate) async fn hold(self, drive: &Drive, input: &mut Input) {
        let mut held = Held::default();
        tokio::select! {
            biased;
            () = self.published.replied() => {}
            () = tokio::time::sleep(drive.agent.options().reply_timeout) => {}
            () = held.fill(input, &drive.handle) => {}
        }
        let Some(answer) = self.published.take_answer(&drive.runs).await else {
            tracing::info!(
                run = drive.lease.run_id.as_str(),
                "no reply to a sub-agent's interrupt arrived in time"
            );
            drive.handle.cancel_token().cancel();
            return;
        };
        self.feed(drive, answer, held, input).await;
    }

    /// Sends the held batches, the interrupts without a reply, and the rest of the source into the run that replies. A
    /// cancel of that run cancels the agent.
    async fn feed(self, drive: &Drive, answer: Answer, held: Held, input: &mut Input) {
        let Answer { replies, out, handle } = answer;
        let mut senders = ReplySenders { out: Some(out), lanes: handle.lanes() };
        for batch in held.0 {
            senders.send(batch).await;
        }
        let is_open = |event: &SourceEvent| {
            let id = interrupt_of(event);
            !replies.iter().any(|reply| Some(&reply.id) == id)
        };
        let open: Vec<SourceEvent> = self.raised.into_iter().filter(is_open).collect();
        senders.send(Batch { lanes: open, ..Batch::default() }).await;
        if let Some(extension) = drive.lanes_of.as_ref().or(drive.extension.as_ref()) {
            extension.handle_replies(&replies);
        }
        let own = &drive.handle;
        loop {
            tokio::select! {
                biased;
                () = handle.ended() => return,
                () = handle.cancel_token().cancelled(), if !own.cancel_token().is_cancelled() => {
                    own.cancel_token().cancel();
                    drive.request.cancel.cancel();
                }
                () = own.changed() => input.set_lanes(own.take_lanes()),
                batch = input.next(), if senders.out.is_some() => senders.send(batch).await,
            }
        }
    }
}

/// The batches of a held source, at most [`HELD`].
#[derive(Default)]
struct Held(Vec<Batch>);

impl Held {
    /// Holds incoming events. Never returns.
    async fn fill(&mut self, input: &mut Input, handle: &RunHandle) {
        loop {
            let is_over = self.0.last().is_some_and(|batch| batch.is_end);
            tokio::select! {
                biased;
                () = handle.changed() => input.set_lanes(handle.take_lanes()),
                batch = input.next(), if !is_over && self.0.len() < HELD => self.0.push(batch),
            }
        }
    }
}

/// The senders into the run that replies.
struct ReplySenders {
    /// The sender of the agent's events, or `None` once the source has ended.
    out: Option<FeedSender>,
    /// The sender of lane events, or `None` if the run has ended.
    lanes: Option<LaneSender>,
}

impl ReplySenders {
    /// Sends a batch, lane events first. Events for a run that has ended are dropped.
    async fn send(&mut self, batch: Batch) {
        for event in batch.lanes {
            if let Some(lanes) = &self.lanes {
                lanes.send_slowly(event).await;
            }
        }
        if let Some(out) = &self.out
            && !batch.events.is_empty()
        {
            out.send(batch.events).await.ok();
        }
        if batch.is_end {
            self.out = None;
        }
    }
}

//! Runs that a framework feeds: lines of workflow events in, the same path from there.
//!
//! ```text
//!   publish ──► fed ── finish ──────────────────────────────► the run ends as its lines said, or was cut
//!                │ ▲
//!            cut ▼ │ publish of the same run within `grace`: goes on after what was acknowledged
//!               left ── `grace` is over ─────────────────────► the run ends as cut
//! ```
//!
//! A workflow that asks ends its run as interrupted, and its publisher stays. The answer is the next run of the thread
//! ([`answer`]): it goes to the publisher, and what the workflow says then is that run.
//!
//! ```text
//!   fed ── the workflow asks ──► waiting ── a run of the thread brings the answer ──► fed, into that run
//! ```
//!
//! Where gateways share a log, the answer may come to any of them ([`mailbox`]).
//!
//! Invariants: a payload is acknowledged once it was decoded and is sure to reach the run; one that comes again is
//! acknowledged again and not read twice; a future that is dropped loses nothing; an answer is told to every publisher
//! that comes back, until a `responses` line shows that the workflow has it.

mod answer;
pub(super) mod mailbox;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_adapter_magentic::Decoder;
use aqueduct_core::service::{BoxFuture, Caller, Ingest, PublishRequest, RefusalKind, ServiceError};
use aqueduct_core::{
    ByteString, InterruptId, InterruptReply, RunId, RunInput, RunOutcome, SourceEvent, ThreadId,
};
use aqueduct_runlog::RunMeta;
use bytes::Bytes;
use tokio::sync::{Mutex, watch};
use tracing::Instrument as _;

use super::driver::Drive;
use super::feed::Feed;
use super::watch::ActiveRun;
use super::{AgentEntry, Gateway, now, refuse};
use crate::config::AgentSource;
use crate::source::{Ask, EventSender};
use mailbox::Mailbox;

/// The dialects that can be published.
const FORMATS: [&str; 1] = ["magentic"];

/// Numbers the runs whose publishers named none.
static NEXT_RUN: AtomicU64 = AtomicU64::new(1);

/// A run that is fed.
#[derive(Debug)]
pub(super) struct Published {
    /// The run that it began with.
    run_id: RunId,
    agent: Arc<AgentEntry>,
    owner: String,
    thread: ThreadId,
    state: Mutex<State>,
    /// Answers that the workflow does not have yet, as far as its lines tell.
    replies: watch::Sender<Vec<InterruptReply>>,
    /// Counts who fed it: a publisher that left long ago must not cut the one that came after.
    turns: AtomicU64,
    /// Counts the boxes that were put up for it.
    boxes: AtomicU64,
}

impl Published {
    fn next_box(&self) -> u64 {
        self.boxes.fetch_add(1, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct State {
    decoder: Decoder,
    acknowledged: u64,
    /// None once nothing more may come.
    out: Option<EventSender>,
    /// What the run asked.
    asked: Vec<InterruptId>,
    /// True once the run has ended with a question.
    is_waiting: bool,
    /// What the decoder gave and the run has not got yet.
    held: Option<SourceEvent>,
    /// Where other gateways bring answers.
    mailbox: Option<Mailbox>,
}

impl State {
    /// Sends what the decoder has. A dropped future leaves the rest here.
    async fn drain(&mut self, gateway: &Arc<Gateway>, published: &Arc<Published>) {
        let Self { decoder, out, asked, is_waiting, held, mailbox, .. } = self;
        let Some(sender) = out else { return };
        loop {
            let Some(permit) = sender.reserve().await else {
                // The run has ended; what follows is nobody's.
                while decoder.poll_event().is_some() {}
                *held = None;
                return;
            };
            if held.is_none() {
                *held = decoder.poll_event();
                if let Some(SourceEvent::InterruptRequested { interrupt, .. }) = held {
                    asked.push(interrupt.id.clone());
                }
            }
            if let Some(SourceEvent::Finished { outcome, .. }) = held {
                *is_waiting = *outcome == RunOutcome::Interrupted;
                if *is_waiting && mailbox.is_none() {
                    // Before anybody can know of the question.
                    *mailbox = gateway.open_mailbox(published, asked).await;
                }
            }
            let Some(event) = held.take() else { return };
            permit.send(vec![event]);
        }
    }
}

impl Gateway {
    pub(super) async fn publish_run(
        self: Arc<Self>,
        caller: Caller,
        request: PublishRequest,
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        let agent = self.agent(&request.agent);
        let agent = agent.ok_or_else(|| self.no_such_agent(&caller, &request.agent))?;
        let owner = self.authenticate(&agent, &caller)?;
        if !matches!(agent.config.source, AgentSource::Magentic) {
            let message = format!("agent {} is asked by the gateway: nobody feeds it", agent.name);
            return Err(ServiceError::new(RefusalKind::Unsupported, message));
        }
        if !FORMATS.contains(&request.format.as_str()) {
            let message =
                format!("format {:?} is not known: use one of {}", request.format, FORMATS.join(", "));
            return Err(ServiceError::new(RefusalKind::Invalid, message));
        }
        let known = request.run_id.clone().and_then(|run| {
            let known = self.published().get(&run).cloned()?;
            Some((run, known))
        });
        if let Some((run, known)) = known {
            return self.continue_run(run, known, &agent, &owner, &caller).await;
        }
        self.check_room()?;
        self.open_published(request, agent, owner).await
    }

    async fn continue_run(
        self: Arc<Self>,
        run: RunId,
        known: Arc<Published>,
        agent: &AgentEntry,
        owner: &str,
        caller: &Caller,
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        if known.agent.name != agent.name || known.owner != owner {
            return Err(self.no_such_run(caller));
        }
        let ingest = GatewayIngest::new(self, run, known).await;
        Ok(Box::new(ingest))
    }

    async fn open_published(
        self: Arc<Self>,
        request: PublishRequest,
        agent: Arc<AgentEntry>,
        owner: String,
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        let run_id = request.run_id.unwrap_or_else(|| {
            RunId::from(format!("published-{}-{}", now().0, NEXT_RUN.fetch_add(1, Ordering::Relaxed)))
        });
        let thread = request.thread_id.unwrap_or_else(|| run_id.as_bytes().clone());
        let mut input = RunInput::prompt(thread, run_id.as_bytes().clone(), "");
        input.messages.clear();
        let meta = RunMeta {
            run_id: run_id.clone(),
            thread_id: input.thread_id.clone(),
            agent: agent.name.clone(),
            owner: owner.clone(),
            opened_at: now(),
        };
        let lease = self.log.open(meta, self.lease_until()).await.map_err(|error| refuse(&error))?;
        let active = Arc::new(ActiveRun::new());
        self.active().insert(run_id.clone(), Arc::clone(&active));
        let (sender, events) = EventSender::channel();
        let state = State {
            decoder: Decoder::default(),
            acknowledged: 0,
            out: Some(sender),
            asked: Vec::new(),
            is_waiting: false,
            held: None,
            mailbox: None,
        };
        let published = Arc::new(Published {
            run_id: run_id.clone(),
            agent: Arc::clone(&agent),
            owner,
            thread: input.thread_id.clone(),
            state: Mutex::new(state),
            replies: watch::Sender::default(),
            turns: AtomicU64::new(0),
            boxes: AtomicU64::new(0),
        });
        self.published().insert(run_id.clone(), Arc::clone(&published));
        let ask = Ask::plain(input);
        let feed = Feed::Published(events);
        let drive = Drive { gateway: Arc::clone(&self), agent, lease, active, ask, feed };
        tokio::spawn(drive.run().in_current_span());
        Ok(Box::new(GatewayIngest::new(self, run_id, published).await))
    }
}

/// One publisher of a run.
struct GatewayIngest {
    gateway: Arc<Gateway>,
    run_id: RunId,
    published: Arc<Published>,
    turn: u64,
    acknowledged: u64,
    finished: bool,
    /// Answers that this publisher was told.
    told: Vec<InterruptId>,
}

impl GatewayIngest {
    async fn new(gateway: Arc<Gateway>, run_id: RunId, published: Arc<Published>) -> Self {
        let turn = published.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let acknowledged = published.state.lock().await.acknowledged;
        Self { gateway, run_id, published, turn, acknowledged, finished: false, told: Vec::new() }
    }

    async fn take(&mut self, number: u64, payload: Bytes) -> Result<u64, ServiceError> {
        let mut state = self.published.state.lock().await;
        let expected = state.acknowledged + 1;
        if number > expected {
            let message = format!("payload {number} came before payload {expected}: send them in order");
            return Err(ServiceError::new(RefusalKind::Conflict, message));
        }
        if number == expected {
            let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
            let line =
                ByteString::try_from(payload).map_err(|_| invalid("a payload is not UTF-8".to_owned()))?;
            state.decoder.handle_line(&line).map_err(|error| invalid(error.to_string()))?;
            state.acknowledged = number;
            self.published.note_taken(&line);
        }
        state.drain(&self.gateway, &self.published).await;
        self.acknowledged = state.acknowledged;
        Ok(self.acknowledged)
    }

    /// The next answer that this publisher was not told. Nothing is noted before it is given out.
    async fn next_reply(&mut self) -> InterruptReply {
        let Self { published, told, .. } = self;
        let mut replies = published.replies.subscribe();
        loop {
            let next = replies.borrow_and_update().iter().find(|reply| !told.contains(&reply.id)).cloned();
            if let Some(reply) = next {
                told.push(reply.id.clone());
                return reply;
            }
            if replies.changed().await.is_err() {
                // The sender lives in `published`, which is held here.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn end(&mut self) -> Result<(), ServiceError> {
        let mut state = self.published.state.lock().await;
        let read = state.decoder.handle_eof();
        state.drain(&self.gateway, &self.published).await;
        state.out = None;
        state.mailbox = None;
        self.finished = true;
        self.gateway.published().remove(&self.run_id);
        read.map_err(|error| ServiceError::new(RefusalKind::Invalid, error.to_string()))
    }
}

impl Ingest for GatewayIngest {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn accept(&mut self, number: u64, payload: Bytes) -> BoxFuture<'_, Result<u64, ServiceError>> {
        Box::pin(self.take(number, payload))
    }

    fn reply(&mut self) -> BoxFuture<'_, InterruptReply> {
        Box::pin(self.next_reply())
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), ServiceError>> {
        Box::pin(self.end())
    }
}

impl Drop for GatewayIngest {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (gateway, run, published) =
            (Arc::clone(&self.gateway), self.run_id.clone(), Arc::clone(&self.published));
        let turn = self.turn;
        // Without a runtime the process is ending, and everything with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(published.agent.config.grace).await;
            if published.turns.load(Ordering::Relaxed) == turn {
                let mut state = published.state.lock().await;
                state.out = None;
                state.mailbox = None;
                gateway.published().remove(&run);
            }
        });
    }
}

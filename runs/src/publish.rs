//! Runs that a publisher sends in: lines of workflow events are decoded, and the driver handles the events like those of an
//! agent.
//!
//! ```text
//!   publish ──► fed ── finish ───────────────────► the run ends as its lines report, or fails if no line reports an end
//!                │ ▲
//!     connection ▼ │ publish of the same run within `grace`: continues after the last acknowledged payload
//!     lost      idle ── `grace` elapses ─────────► the run fails, because its stream ends without an end
//! ```
//!
//! A workflow that raises an interrupt ends its run as interrupted, and its publisher stays connected. The reply starts the
//! next run of the thread (`answer`): the publisher receives the reply, and the lines that follow belong to that run.
//!
//! ```text
//!   fed ── interrupt ──► waiting ── a caller's run delivers the reply ──► fed: the lines belong to that run
//! ```
//!
//! Where replicas share a log, any replica may receive the reply (`mailbox`), and a publisher may reconnect to any replica,
//! also after the owner of its run crashed (`adopt`).
//!
//! Invariants:
//!
//! * a payload is acknowledged once it is decoded and its events are queued for the driver; where the log outlives this
//!   process, once the log holds the payload and its events;
//! * a repeated payload is acknowledged again and not decoded twice; a dropped future loses no payload;
//! * a reply is sent to every publisher that reconnects, until a line proves that the workflow received the reply
//!   ([`LineDecoder::replies_taken`]).
//!
//! The host provides the formats of lines: the engine knows [`LineDecoder`] and no adapter, except for the format `text`.

pub(crate) mod adopt;
mod answer;
mod ingest;
pub(crate) mod mailbox;
pub(crate) mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::service::{Caller, Ingest, PublishRequest, RefusalKind, ServiceError};
use aqueduct_core::{
    ByteString, InterruptId, InterruptReply, Principal, RunId, RunInput, RunOutcome, SourceEvent, ThreadId,
    ToolCallId,
};
use aqueduct_runlog::{LogScope, RunMeta};
use serde_json::Value;
use tokio::sync::{Mutex, watch};

use crate::agents::AgentEntry;
use crate::driver::Drive;
use crate::extension::{RunExtension, RunOrigin};
use crate::feed::{Feed, FeedSender};
use crate::handle::RunHandle;
use crate::quota::RunPlace;
use crate::runs::Runs;
use ingest::PublisherIngest;
use mailbox::Mailbox;

/// Decodes the lines of a publisher.
pub trait LineDecoder: Send + 'static {
    /// Decodes a line.
    ///
    /// # Errors
    ///
    /// Returns a message for the publisher that describes the error in the line.
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String>;

    /// Handles the end of the publication.
    ///
    /// # Errors
    ///
    /// Returns a message for the publisher that describes the missing input.
    fn handle_eof(&mut self) -> Result<(), String>;

    /// Returns the next event. Returns `None` until more lines are decoded.
    fn poll_event(&mut self) -> Option<SourceEvent>;

    /// Returns the tool calls that wait for replies.
    fn waiting_calls(&self) -> Vec<ToolCallId>;

    /// Returns the interrupts whose replies the workflow has received, as the line proves. Called for every line while
    /// replies are unconfirmed.
    fn replies_taken(&self, line: &str) -> Vec<InterruptId>;
}

/// The surface ([`Caller::surface`]) of published runs.
const PUBLISH: &str = "publish";

/// Numbers the runs whose publishers sent no id.
static NEXT_RUN: AtomicU64 = AtomicU64::new(1);

/// A publication: the source of a published run, and of the runs that reply to its interrupts.
///
/// A held run ([`suspend`](crate::suspend)) is a publication without publisher: its source is the stream of its agent.
#[derive(Debug)]
pub(crate) struct Published {
    /// The key in the log of the run with which the publication began.
    pub(crate) key: RunId,
    /// The publisher's id of that run.
    pub(crate) run_id: RunId,
    pub(crate) agent: Arc<AgentEntry>,
    pub(crate) principal: Principal,
    pub(crate) thread: ThreadId,
    pub(crate) state: Mutex<State>,
    /// Replies that the workflow has not confirmed by a line.
    pub(crate) replies: watch::Sender<Vec<InterruptReply>>,
    /// The number of publishers that connected: the cleanup after a lost connection must not end the run of a publisher
    /// that has reconnected since.
    pub(crate) connections: AtomicU64,
    /// The number of mailboxes that were opened for the publication.
    pub(crate) boxes: AtomicU64,
    /// The surface of the runs that reply to the publication.
    pub(crate) surface: &'static str,
    /// The format of the payloads, if the log stores them for other replicas.
    pub(crate) format: Option<String>,
}

impl Published {
    /// Returns a number that no mailbox of this run has.
    fn next_box(&self) -> u64 {
        self.boxes.fetch_add(1, Ordering::Relaxed)
    }
}

/// The state of a publication, which successive publishers share.
pub(crate) struct State {
    pub(crate) decoder: Box<dyn LineDecoder>,
    /// The number of the last decoded payload.
    pub(crate) acknowledged: u64,
    /// The sender to the driver of the current run, or `None` once no more events may follow.
    pub(crate) out: Option<FeedSender>,
    /// Interrupts without a reply.
    pub(crate) asked: Vec<InterruptId>,
    /// Set if the current run has ended with an interrupt.
    pub(crate) is_waiting: bool,
    /// Decoded events that were not sent to the driver yet.
    pub(crate) held: Vec<SourceEvent>,
    /// The position of the publisher after the held events, if the log stores payloads.
    pub(crate) position: Option<Value>,
    /// The driver of the current run, if the log stores payloads.
    pub(crate) driver: Option<Driver>,
    /// Receives replies from other replicas.
    pub(crate) mailbox: Option<Mailbox>,
    /// The run that delivered the last reply.
    pub(crate) answered_by: Option<Arc<RunHandle>>,
    /// For a held run: the extension whose lanes send events into the runs that reply.
    pub(crate) lanes_of: Option<Arc<dyn RunExtension>>,
}

aqueduct_core::debug_fields!(State { acknowledged });

impl State {
    /// Returns the state of a publication without payloads. `out` sends to the driver of its first run.
    pub(crate) fn new(decoder: Box<dyn LineDecoder>, out: FeedSender) -> Self {
        Self {
            decoder,
            acknowledged: 0,
            out: Some(out),
            asked: Vec::new(),
            is_waiting: false,
            held: Vec::new(),
            position: None,
            driver: None,
            mailbox: None,
            answered_by: None,
            lanes_of: None,
        }
    }

    /// Sends the decoded events to the driver and, if the log stores payloads, waits until the log holds the events. If the
    /// future is dropped, the next call sends the rest.
    ///
    /// # Errors
    ///
    /// Returns a refusal if this replica no longer drives the run and the run has not ended.
    async fn drain(&mut self, runs: &Runs, published: &Arc<Published>) -> Result<(), ServiceError> {
        let Self { decoder, out, asked, is_waiting, held, position, driver, mailbox, .. } = self;
        let Some(sender) = out else { return Ok(()) };
        while let Some(event) = decoder.poll_event() {
            if let SourceEvent::InterruptRequested { interrupt, .. } = &event {
                asked.push(interrupt.id.clone());
            }
            held.push(event);
        }
        if let Some(outcome) = held.iter().find_map(outcome_of) {
            *is_waiting = outcome == RunOutcome::Interrupted;
            if *is_waiting && mailbox.is_none() {
                // The mailbox must exist before a caller can see the interrupt.
                *mailbox = runs.open_mailbox(published, asked).await;
            }
        }
        if !held.is_empty() || position.is_some() {
            let Ok(permit) = sender.reserve().await else {
                // The driver has stopped: the remaining events belong to no run that this replica drives.
                held.clear();
                *position = None;
                return Driver::check_ended(driver.as_ref(), runs).await;
            };
            let mut events = std::mem::take(held);
            if let Some(position) = position.take() {
                events.push(SourceEvent::Position(position));
                if let Some(driver) = driver.as_mut() {
                    driver.sent += 1;
                }
            }
            permit.send(events);
        }
        match driver {
            Some(driver) => driver.stored(sender, runs).await,
            None => Ok(()),
        }
    }
}

/// Returns the outcome that an event reports. Returns `None` for events that do not finish a run.
fn outcome_of(event: &SourceEvent) -> Option<RunOutcome> {
    match event {
        SourceEvent::Finished { outcome, .. } => Some(*outcome),
        _ => None,
    }
}

/// The driver of a published run whose payloads the log stores.
#[derive(Debug)]
pub(crate) struct Driver {
    handle: Arc<RunHandle>,
    /// The number of positions that were sent to the driver.
    sent: u64,
}

impl Driver {
    pub(crate) fn new(handle: &Arc<RunHandle>) -> Self {
        Self { handle: Arc::clone(handle), sent: 0 }
    }

    /// Waits until the log holds all positions that were sent to the driver.
    async fn stored(&self, sender: &FeedSender, runs: &Runs) -> Result<(), ServiceError> {
        tokio::select! {
            biased;
            () = self.handle.stored(self.sent) => Ok(()),
            () = sender.closed() => Self::check_ended(Some(self), runs).await,
        }
    }

    /// Returns a refusal if a run that this replica no longer drives has not ended, or cannot be read.
    async fn check_ended(driver: Option<&Self>, runs: &Runs) -> Result<(), ServiceError> {
        let Some(Self { handle, .. }) = driver else { return Ok(()) };
        match runs.run_log().state(handle.id()).await {
            Ok(run) if run.closed_at.is_some() => Ok(()),
            _ => {
                let message =
                    "the run continues at another replica, or the run log is unavailable: connect again";
                Err(ServiceError::new(RefusalKind::Unavailable, message))
            }
        }
    }
}

impl Runs {
    /// Opens a run for a publisher, or continues the run of a publisher that reconnects, at this replica or at another one.
    pub(crate) async fn publish_run(
        self,
        caller: Caller,
        request: PublishRequest,
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        let principal = self.authenticate(&caller, &request.agent)?;
        let agent = self.entry(&request.agent);
        let agent = agent.ok_or_else(|| self.no_such_agent(&caller, &request.agent))?;
        if !agent.is_published() {
            let message = format!(
                "agent {} is run by this service: its runs cannot be published; name an agent that accepts published runs",
                agent.name()
            );
            return Err(ServiceError::new(RefusalKind::Unsupported, message));
        }
        let formats = &self.0.host.formats;
        let Some(make) = formats.get(&request.format).copied() else {
            let mut known: Vec<&str> = formats.keys().map(String::as_str).collect();
            known.sort_unstable();
            let message =
                format!("format {:?} is not known: use one of {}", request.format, known.join(", "));
            return Err(ServiceError::new(RefusalKind::Invalid, message));
        };
        let known = request
            .run_id
            .as_ref()
            .and_then(|run| self.published().get(&RunMeta::key(&principal.to_string(), run)).cloned());
        if let Some(run) = &request.run_id
            && let Some(adopted) = self.adopt_here(&agent, &principal, run, &request.format).await?
        {
            return Ok(Box::new(PublisherIngest::new(self, adopted).await));
        }
        if let Some(known) = known {
            return self.continue_run(known, &agent, &principal, &caller).await;
        }
        self.check_room()?;
        let place = self.take_place(&principal, &caller)?;
        self.open_published(request, agent, principal, (make(), place)).await
    }

    /// Continues the run of a publisher that reconnects to the same replica within `grace`.
    async fn continue_run(
        self,
        known: Arc<Published>,
        agent: &AgentEntry,
        principal: &Principal,
        caller: &Caller,
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        if known.agent.name() != agent.name() || known.principal != *principal {
            return Err(self.no_such_run(caller));
        }
        let ingest = PublisherIngest::new(self, known).await;
        Ok(Box::new(ingest))
    }

    /// Opens a new run in the log, and starts its driver.
    async fn open_published(
        self,
        request: PublishRequest,
        agent: Arc<AgentEntry>,
        principal: Principal,
        (decoder, place): (Box<dyn LineDecoder>, Option<RunPlace>),
    ) -> Result<Box<dyn Ingest>, ServiceError> {
        let run_id = request.run_id.unwrap_or_else(|| {
            RunId::from(format!("published-{}-{}", self.now().0, NEXT_RUN.fetch_add(1, Ordering::Relaxed)))
        });
        let thread = request.thread_id.unwrap_or_else(|| run_id.as_bytes().clone());
        let mut input = RunInput::prompt(thread, run_id.as_bytes().clone(), "");
        input.messages.clear();
        let lease = self.open_log(&principal.to_string(), agent.name(), &input.thread_id, &run_id).await?;
        let key = lease.run_id.clone();
        let origin = RunOrigin::new(agent.name(), &input.thread_id, PUBLISH);
        let (handle, extension) = self.attach(&key, &origin);
        let (sender, feed) = Feed::published();
        let format = (self.scope() > LogScope::Process).then_some(request.format);
        let driver = format.as_ref().map(|_| Driver::new(&handle));
        let state = State { driver, ..State::new(decoder, sender.clone()) };
        let published = Arc::new(Published {
            key: key.clone(),
            run_id,
            agent: Arc::clone(&agent),
            principal: principal.clone(),
            thread: input.thread_id.clone(),
            state: Mutex::new(state),
            replies: watch::Sender::default(),
            connections: AtomicU64::new(0),
            boxes: AtomicU64::new(0),
            surface: PUBLISH,
            format,
        });
        if let Some(publication) = published.publication(&[]) {
            // The channel is empty.
            sender.try_send(publication.begin()).ok();
        }
        drop(sender);
        self.published().insert(key, Arc::clone(&published));
        let mut request = AgentRequest::new(input);
        request.principal = principal;
        let drive = Drive {
            runs: self.clone(),
            agent,
            lease,
            handle,
            extension,
            request,
            kept_ids: None,
            shown: None,
            lanes_of: None,
            place,
        };
        drive.spawn(feed);
        Ok(Box::new(PublisherIngest::new(self, published).await))
    }
}

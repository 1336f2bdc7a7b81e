//! Publications that outlive their replica: a publisher reconnects to any replica, also after the one that it fed died.
//!
//! ```text
//!   A: payload ──► events, then the payload as position of the source ──► one append ──► acknowledged
//!   A dies, or the publisher connects to B instead
//!   B: fences A ──► reads the log: a decoder from the payloads, the stream machine from the events ──► continues after the last
//! ```
//!
//! The runs of one publication are found by their checkpoint ([`Publication`]): the first one, and one for each reply. A run
//! whose owner died is adopted by the replica that finds it, and waits there for its publisher as long as after a cut
//! (`grace`).
//!
//! Invariants: a payload and its events are one append, so a decoder that reads the stored payloads has decoded what the log
//! holds; an acknowledged payload is in the log. Only a log that outlives the process stores payloads.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aqueduct_core::service::{RefusalKind, ServiceError};
use aqueduct_core::{
    BlockEvent, ByteString, Checkpoint, InterruptId, InterruptReply, Principal, RunId, RunOutcome,
    SourceEvent, Timestamp,
};
use aqueduct_runlog::{Lease, LogError, LogScope, Note, RunMeta, RunQuery, RunState, position_of};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::mailbox::{AT_ONCE, replies_from, replies_to_value};
use super::{Driver, LineDecoder, PUBLISH, Published, PublisherIngest, State};
use crate::agents::AgentEntry;
use crate::extension::RunOrigin;
use crate::feed::{Begin, Feed};
use crate::handle::RunHandle;
use crate::runs::{Runs, refuse};

/// The member of a checkpoint with the publication of the run.
const PUBLISHED: &str = "published";
/// Runs of one thread that are searched for those of a publication.
const RUNS: usize = 64;

/// Returns the position of a publisher after payload `number`.
pub(super) fn position(number: u64, line: Option<&str>) -> Value {
    json!({ "payload": number, "line": line })
}

/// The publication that a run belongs to, as the checkpoint of the run stores it.
pub(crate) struct Publication {
    /// The key of its first run.
    of: RunId,
    format: String,
    /// The replies that the run brings to the workflow.
    replies: Vec<InterruptReply>,
}

impl Publication {
    /// Reads a checkpoint. Returns `None` for a run that is not published.
    pub(crate) fn of(checkpoint: &Value) -> Option<Self> {
        let published = checkpoint.get(PUBLISHED)?;
        let text = |name: &str| published.get(name)?.as_str().map(str::to_owned);
        let replies = published.get("replies").map(replies_from).unwrap_or_default();
        Some(Self {
            of: RunId::new(text("of")?),
            format: text("format")?,
            replies: replies.unwrap_or_default(),
        })
    }

    /// Returns the first events of the run's source: the checkpoint, and that positions follow.
    pub(super) fn begin(&self) -> Vec<SourceEvent> {
        vec![SourceEvent::Checkpoint(Checkpoint(self.to_value())), SourceEvent::Position(Value::Null)]
    }

    /// Returns the value of the checkpoint.
    fn to_value(&self) -> Value {
        let replies = replies_to_value(&self.replies);
        json!({ PUBLISHED: { "of": self.of.as_str(), "format": self.format, "replies": replies } })
    }
}

/// The payloads and events of a publication, as the log holds them.
struct Stored {
    decoder: Box<dyn LineDecoder>,
    acknowledged: u64,
    /// The replies that no payload proves as received.
    replies: Vec<InterruptReply>,
    /// The interrupts with which the last run ended.
    asked: Option<Vec<InterruptId>>,
}

impl Stored {
    /// Decodes a stored payload, whose events the log holds.
    fn handle_position(&mut self, position: &Value) {
        if let Some(number) = position.get("payload").and_then(Value::as_u64) {
            self.acknowledged = number;
        }
        let Some(line) = position.get("line").and_then(Value::as_str) else { return };
        let line = ByteString::from(line);
        // It was decoded before it was stored.
        self.decoder.handle_line(&line).ok();
        while self.decoder.poll_event().is_some() {}
        if !self.replies.is_empty() {
            let taken = self.decoder.replies_taken(&line);
            self.replies.retain(|reply| !taken.contains(&reply.id));
        }
    }

    fn handle_event(&mut self, event: &BlockEvent) {
        if let Some(position) = position_of(event) {
            return self.handle_position(position);
        }
        if let BlockEvent::RunFinished(end) = event
            && end.outcome == RunOutcome::Interrupted
        {
            self.asked = Some(end.interrupts.iter().map(|pending| pending.interrupt.id.clone()).collect());
        }
    }
}

impl Published {
    /// Returns the run that is driven here, or whose workflow waits here. Returns `None` if another replica drives it.
    fn run_here(&self) -> Option<RunId> {
        // A locked state is in use by a publisher here.
        let Ok(state) = self.state.try_lock() else { return Some(self.key.clone()) };
        let driver = state.driver.as_ref()?;
        let is_driven = state.out.as_ref().is_some_and(|out| !out.is_closed());
        (state.is_waiting || is_driven).then(|| driver.handle.id().clone())
    }

    /// Returns the publication of a run that brings these replies. Returns `None` if the log stores no payloads.
    pub(super) fn publication(&self, replies: &[InterruptReply]) -> Option<Publication> {
        let format = self.format.clone()?;
        Some(Publication { of: self.key.clone(), format, replies: replies.to_vec() })
    }
}

impl Runs {
    /// Continues a publication for a publisher that connects here. Returns `None` if the log has none under that id, or only
    /// one that has ended.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the publication has another format or agent, or the log cannot be read.
    pub(super) async fn adopt_here(
        &self,
        agent: &Arc<AgentEntry>,
        principal: &Principal,
        run: &RunId,
        format: &str,
    ) -> Result<Option<Arc<Published>>, ServiceError> {
        if self.scope() == LogScope::Process {
            return Ok(None);
        }
        let key = RunMeta::key(&principal.to_string(), run);
        let first = match self.run_log().state(&key).await {
            Ok(first) => first,
            Err(LogError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(refuse(&error)),
        };
        let is_same =
            first.checkpoint.as_deref().and_then(Publication::of).is_some_and(|known| known.format == format);
        if first.meta.agent != agent.name() || (first.closed_at.is_none() && !is_same) {
            let message =
                format!("run {run} exists, with another agent or format: publish under another run id");
            return Err(ServiceError::new(RefusalKind::Conflict, message));
        }
        if !is_same || self.is_published_here(&first).await.map_err(|error| refuse(&error))? {
            return Ok(None);
        }
        self.check_room()?;
        self.adopt(agent, &first, AT_ONCE).await.map_err(|error| refuse(&error))
    }

    /// Stores which publication a run belongs to, and its replies, before the publisher receives them: the replica to which it
    /// connects next finds both. The driver stores the same as its first checkpoint.
    pub(super) async fn note_publication(
        &self,
        published: &Published,
        lease: &Lease,
        replies: &[InterruptReply],
    ) {
        let Some(publication) = published.publication(replies) else { return };
        if let Err(error) =
            self.run_log().annotate(lease, Note::Checkpoint(Arc::new(publication.to_value()))).await
        {
            let run = lease.run_id.as_str();
            tracing::warn!(run, %error, "the publisher of the run cannot go on at another replica");
        }
    }

    /// Returns `true` if the last run of a publication is driven here, or its workflow waits here.
    async fn is_published_here(&self, first: &RunState) -> Result<bool, LogError> {
        let known = self.published().get(&first.meta.run_id).cloned();
        let Some(here) = known.and_then(|known| known.run_here()) else { return Ok(false) };
        let last = self.published_runs(first).await?.pop();
        Ok(last.is_none_or(|last| last.meta.run_id == here))
    }

    /// Adopts the publication of a run whose owner died: the run waits here for its publisher. Returns
    /// `false` if the run is not published, or cannot be continued.
    pub(crate) async fn adopt_lapsed(
        &self,
        agent: &Arc<AgentEntry>,
        run: &RunState,
    ) -> Result<bool, LogError> {
        let publication = run.checkpoint.as_deref().and_then(Publication::of);
        let Some(publication) = publication.filter(|_| agent.is_published()) else { return Ok(false) };
        let first = self.run_log().state(&publication.of).await?;
        // A run that is not the last one of its publication is left to the takeover, which ends it.
        let last = self.published_runs(&first).await?.pop();
        if last.is_none_or(|last| last.meta.run_id != run.meta.run_id) {
            return Ok(false);
        }
        let Some(adopted) = self.adopt(agent, &first, self.now()).await? else { return Ok(false) };
        tracing::warn!(
            run = run.meta.run_id.as_str(),
            "a published run of a lost replica waits here for its publisher"
        );
        // A publisher that leaves at once: the run waits for the next one.
        drop(PublisherIngest::new(self.clone(), adopted).await);
        Ok(true)
    }

    /// Takes over the last run of a publication at the time `now`, and registers the publication here.
    async fn adopt(
        &self,
        agent: &Arc<AgentEntry>,
        first: &RunState,
        now: Timestamp,
    ) -> Result<Option<Arc<Published>>, LogError> {
        let mut runs = self.published_runs(first).await?;
        let Some(mut last) = runs.pop() else { return Ok(None) };
        let Some(publication) = last.checkpoint.as_deref().and_then(Publication::of) else { return Ok(None) };
        let Some(make) = self.0.host.formats.get(&publication.format).copied() else { return Ok(None) };
        let mut stored = Stored { decoder: make(), acknowledged: 0, replies: Vec::new(), asked: None };
        for run in &runs {
            self.each_event(run, |event| stored.handle_event(event)).await?;
        }
        stored.replies = publication.replies;
        stored.asked = None;
        let taken = if last.closed_at.is_some() {
            self.each_event(&last, |event| stored.handle_event(event)).await?;
            if stored.asked.is_none() {
                return Ok(None);
            }
            None
        } else {
            // Of a trimmed run neither the decoder nor the stream machine can be restored. It is not taken here, so that the
            // takeover can take its lease and end it.
            if last.earliest > 1 {
                return Ok(None);
            }
            let Some(lease) = self.take_lease(&last.meta.run_id, now).await? else { return Ok(None) };
            // The old owner may have appended events and taken replies after `last` was listed.
            last = self.insist(|| self.run_log().state(&lease.run_id)).await?;
            if let Some(newest) = last.checkpoint.as_deref().and_then(Publication::of) {
                stored.replies = newest.replies;
            }
            let calls = stored.decoder.waiting_calls();
            let read = self
                .read_lapsed(&last, Some(agent), &mut |position| stored.handle_position(position))
                .await?;
            let Some((context, _)) = read.resumable else { return Ok(None) };
            let begin = Begin::Takeover {
                context: Box::new(context.with_known_calls(&calls)),
                response_id: read.response_id,
                opened_at: last.meta.opened_at,
                can_hand_over: true,
            };
            Some((lease, begin))
        };
        Ok(Some(self.register(agent, first, (&last, publication.format), stored, taken).await))
    }

    /// Registers an adopted publication, and drives its last run if that is open.
    async fn register(
        &self,
        agent: &Arc<AgentEntry>,
        first: &RunState,
        (last, format): (&RunState, String),
        stored: Stored,
        taken: Option<(Lease, Begin)>,
    ) -> Arc<Published> {
        let (meta, principal) = (&first.meta, Principal::from_stored(&first.meta.owner));
        let driven = taken.map(|(lease, begin)| {
            let origin = RunOrigin::new(agent.name(), &meta.thread_id, PUBLISH);
            let (handle, extension) = self.attach(&last.meta.run_id, &origin);
            (lease, handle, extension, Feed::taken_published(begin))
        });
        let is_waiting = driven.is_none();
        let out = match &driven {
            Some((_, _, _, (sender, _))) => sender.clone(),
            // This sender is never used: the run that replies sets its own.
            None => Feed::published().0,
        };
        let asked = stored.asked.unwrap_or_default();
        let handle = match &driven {
            Some((_, handle, ..)) => Arc::clone(handle),
            None => Arc::new(RunHandle::new(last.meta.run_id.clone())),
        };
        let state = State {
            acknowledged: stored.acknowledged,
            asked: asked.clone(),
            is_waiting,
            driver: Some(Driver::new(&handle)),
            ..State::new(stored.decoder, out)
        };
        let published = Arc::new(Published {
            key: meta.run_id.clone(),
            run_id: meta.public_id(),
            agent: Arc::clone(agent),
            principal: principal.clone(),
            thread: meta.thread_id.clone(),
            state: Mutex::new(state),
            replies: watch::Sender::new(stored.replies),
            connections: AtomicU64::new(0),
            // Apart from the mailboxes of other replicas.
            boxes: AtomicU64::new(u64::try_from(self.now().0).unwrap_or_default()),
            surface: PUBLISH,
            format: Some(format),
        });
        if is_waiting {
            let mailbox = self.open_mailbox(&published, &asked).await;
            published.state.lock().await.mailbox = mailbox;
        }
        self.published().insert(meta.run_id.clone(), Arc::clone(&published));
        if let Some((lease, handle, extension, (_, feed))) = driven {
            self.drive_taken(&last.meta, lease, Arc::clone(agent), (handle, extension), None, feed);
        }
        published
    }

    /// Returns the runs of a publication, oldest first. At most one of them is open, which is the last one, although the clock of
    /// the replica that opened it may be behind.
    async fn published_runs(&self, first: &RunState) -> Result<Vec<RunState>, LogError> {
        let query = RunQuery {
            thread_id: Some(first.meta.thread_id.clone()),
            owner: Some(first.meta.owner.clone()),
            newest_first: true,
            ..RunQuery::default()
        };
        let is_of = |run: &RunState| {
            let publication = run.checkpoint.as_deref().and_then(Publication::of);
            publication.is_some_and(|publication| publication.of == first.meta.run_id)
        };
        let mut runs: Vec<RunState> =
            self.run_log().list(query, RUNS).await?.into_iter().filter(is_of).collect();
        runs.reverse();
        runs.sort_by_key(|run| run.closed_at.is_none());
        Ok(runs)
    }
}

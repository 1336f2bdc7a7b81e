//! Replies that arrive at another replica than the one to which the workflow's publisher is connected.
//!
//! ```text
//!   A: the workflow waits ──► a mailbox in the log, owned by A: a run without watchers; its note lists the interrupts
//!   B: a reply ──► finds the mailbox ──► opens the run that replies ──► sends it to A by the mailbox
//!   A: takes that run over, and drives it with the events that the workflow sends then
//! ```
//!
//! Invariants: the mailbox exists before a caller can see the interrupt; one reply is accepted, from any replica; a run that
//! was opened for a reply ends, also if no replica takes it over (its lease lapses). Only a log that replicas share has
//! mailboxes.

use std::sync::Arc;

use aqueduct_core::service::{ServiceError, StartedRun};
use aqueduct_core::{
    CancelToken, InterruptId, InterruptReply, Principal, RunFailure, RunId, RunInput, ThreadId, Timestamp,
};
use aqueduct_runlog::{Control, Lease, LogError, LogScope, Note, Remains, RunMeta, RunQuery, RunState};
use serde_json::{Value, json};

use super::Published;
use super::answer::replies_to;
use crate::agents::AgentEntry;
use crate::driver::LOG_PAUSE;
use crate::reply::ReplyRun;
use crate::runs::{Runs, refuse};

/// The first character of a mailbox's thread id. Thread ids of clients do not start with a control character; one that does
/// cannot reach a mailbox, because the lookup also compares the owner.
const MARK: char = '\u{1f}';
/// Mailboxes of one thread that are searched: the number of workflows that can wait in it.
const BOXES: usize = 64;
/// A time at which every lease has lapsed: a replica that was asked to take a run over need not wait.
pub(super) const AT_ONCE: Timestamp = Timestamp(1 << 52);
/// The failure code of a run whose reply belongs to no open interrupt.
const NOT_ASKED: &str = "nothing_to_answer";

/// A mailbox that stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct Mailbox(CancelToken);

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Returns `true` for the thread of a mailbox.
pub(crate) fn is_box(thread: &ThreadId) -> bool {
    thread.as_str().starts_with(MARK)
}

/// Returns the thread of the mailboxes of a thread.
fn box_thread(thread: &ThreadId) -> ThreadId {
    ThreadId::new(format!("{MARK}{thread}"))
}

/// Returns the note of a mailbox, which lists the open interrupts.
fn note(asked: &[InterruptId]) -> Note {
    let asked: Vec<&str> = asked.iter().map(InterruptId::as_str).collect();
    Note::Checkpoint(Arc::new(json!({ "asked": asked })))
}

/// Parses the interrupts in the note of a mailbox.
fn asked_in(note: Option<&Value>) -> Vec<InterruptId> {
    let asked = note.and_then(|note| note.get("asked")?.as_array()).into_iter().flatten();
    asked.filter_map(Value::as_str).map(|id| InterruptId::new(id.to_owned())).collect()
}

/// Returns the control message that carries a reply to the owner of the mailbox.
fn letter(run: &ReplyRun, replies: &[InterruptReply]) -> Option<Control> {
    let replies_json = replies_to_value(replies);
    let payload = Some(
        json!({ "run": run.id.as_str(), "shown": run.shown.as_ref().map(RunId::as_str), "replies": replies_json }),
    );
    Some(Control::Reply(InterruptReply { id: replies.first()?.id.clone(), resolved: true, payload }))
}

/// Returns replies as JSON.
pub(super) fn replies_to_value(replies: &[InterruptReply]) -> Value {
    let to_json = |reply: &InterruptReply| json!({ "id": reply.id.as_str(), "resolved": reply.resolved, "payload": reply.payload });
    replies.iter().map(to_json).collect()
}

/// Reads replies from JSON. Returns `None` if a reply is malformed.
pub(super) fn replies_from(replies: &Value) -> Option<Vec<InterruptReply>> {
    let read = |reply: &Value| {
        Some(InterruptReply {
            id: InterruptId::new(reply.get("id")?.as_str()?.to_owned()),
            resolved: reply.get("resolved")?.as_bool()?,
            payload: reply.get("payload").filter(|payload| !payload.is_null()).cloned(),
        })
    };
    replies.as_array()?.iter().map(read).collect()
}

/// Decodes a control message back into the run and the replies.
fn opened(letter: &InterruptReply) -> Option<(ReplyRun, Vec<InterruptReply>)> {
    let payload = letter.payload.as_ref()?;
    let replies = replies_from(payload.get("replies")?)?;
    let id = |name: &str| payload.get(name)?.as_str().map(|id| RunId::new(id.to_owned()));
    Some((ReplyRun { id: id("run")?, shown: id("shown") }, replies))
}

impl Runs {
    /// Opens the mailbox of a workflow that is about to wait. Returns `None` if no other replica could read it.
    pub(crate) async fn open_mailbox(
        &self,
        published: &Arc<Published>,
        asked: &[InterruptId],
    ) -> Option<Mailbox> {
        if self.scope() != LogScope::Replicas {
            return None;
        }
        let meta = RunMeta {
            run_id: RunId::new(format!("{}{MARK}{}", published.key, published.next_box())),
            thread_id: box_thread(&published.thread),
            agent: published.agent.name().to_owned(),
            owner: published.principal.to_string(),
            opened_at: self.now(),
        };
        let lease = match self.put_up(&meta, asked).await {
            Ok(lease) => lease,
            Err(error) => {
                tracing::warn!(run = published.key.as_str(), %error, "replies at other replicas do not come here");
                return None;
            }
        };
        let closed = CancelToken::new();
        tokio::spawn(self.clone().tend(meta, lease, Arc::clone(published), closed.clone()));
        Some(Mailbox(closed))
    }

    /// Opens the run of a mailbox in the log, with the interrupts as its note.
    async fn put_up(&self, meta: &RunMeta, asked: &[InterruptId]) -> Result<Lease, LogError> {
        let lease = self.run_log().open(meta.clone(), self.lease_until()).await?;
        self.run_log().annotate(&lease, note(asked)).await?;
        Ok(lease)
    }

    /// Holds the lease of a mailbox and handles its messages until it is closed.
    async fn tend(self, meta: RunMeta, lease: Lease, published: Arc<Published>, closed: CancelToken) {
        let held = self.hold(&lease);
        let mut seen = 0;
        loop {
            let received = tokio::select! {
                biased;
                () = held.lost.cancelled() => return,
                () = closed.cancelled() => break,
                received = self.run_log().controls(&lease, seen) => received,
            };
            match received {
                Ok(letters) => {
                    seen += letters.len();
                    for letter in letters {
                        if let Control::Reply(letter) = letter {
                            self.take_letter(&published, &letter).await;
                        }
                    }
                }
                Err(error) if error.is_temporary() => tokio::time::sleep(LOG_PAUSE).await,
                Err(_) => return,
            }
        }
        let end = Remains::default().end(&meta, RunFailure::new(NOT_ASKED, "nothing is asked any more"));
        if let Err(error) = self.run_log().append(&lease, end, self.now()).await {
            tracing::debug!(run = meta.run_id.as_str(), %error, "a box was not closed: it lapses");
        }
    }

    /// Handles a reply that arrived at another replica: this replica drives the run that was opened for it.
    async fn take_letter(&self, published: &Arc<Published>, letter: &InterruptReply) {
        let Some((reply, replies)) = opened(letter) else { return };
        let run = reply.id.clone();
        let lease = match self.run_log().take_over(&run, AT_ONCE, self.lease_until()).await {
            Ok(lease) => lease,
            Err(error) => return tracing::warn!(run = run.as_str(), %error, "an answer cannot be taken over"),
        };
        let public = RunMeta::id_of(&published.principal.to_string(), &run);
        let mut input = RunInput::prompt(published.thread.as_bytes().clone(), public.as_bytes().clone(), "");
        input.messages.clear();
        let mut state = published.state.lock().await;
        let is_asked = |reply: &InterruptReply| state.asked.contains(&reply.id);
        if state.is_waiting && state.out.is_some() && replies.iter().all(is_asked) {
            self.note_publication(published, &lease, &replies).await;
            drop(self.begin_answer(published, &mut state, (lease, reply.shown), input, replies));
            return;
        }
        // Another reply was accepted first.
        let failure = RunFailure::new(
            NOT_ASKED,
            "the workflow does not wait for this answer any more: reply to an open interrupt",
        );
        self.end_unanswered(&run, &lease, failure).await;
    }

    /// Ends the run of a reply that was not accepted.
    async fn end_unanswered(&self, run: &RunId, lease: &Lease, failure: RunFailure) {
        let state = self.run_log().state(run).await;
        let ended = match state {
            Ok(state) => {
                let end = Remains::default().end(&state.meta, failure);
                self.run_log().append(lease, end, self.now()).await.map_err(LogError::from).map(drop)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(run = run.as_str(), %error, "a run that answers nothing could not be ended: it lapses");
        }
    }

    /// Sends a reply to the replica whose workflow waits for it. Returns `None` if no workflow waits.
    pub(crate) async fn answer_remotely(
        &self,
        agent: &AgentEntry,
        principal: &Principal,
        input: &RunInput,
        run: &ReplyRun,
    ) -> Result<Option<StartedRun>, ServiceError> {
        let owner = principal.to_string();
        let found = self.find_box(agent, &owner, input).await.map_err(|error| refuse(&error))?;
        let Some((letterbox, replies)) = found else { return Ok(None) };
        let run_id = run.id.clone();
        let lease = self.open_log(&owner, agent.name(), &input.thread_id, &run_id).await?;
        let key = lease.run_id.clone();
        self.note_record(&lease, input).await?;
        let sent = ReplyRun { id: key.clone(), shown: run.shown.clone() };
        let Some(letter) = letter(&sent, &replies) else { return Ok(None) };
        if let Err(error) = self.run_log().control(&letterbox, letter).await {
            let failure = RunFailure::new(
                NOT_ASKED,
                "the workflow does not wait for this answer any more: reply to an open interrupt",
            );
            self.end_unanswered(&key, &lease, failure).await;
            let gone = matches!(error, LogError::Closed(_) | LogError::NotFound(_));
            return if gone { Ok(None) } else { Err(refuse(&error)) };
        }
        tracing::info!(run = key.as_str(), "an answer goes to the replica whose workflow waits for it");
        let events = self.watched(&key, None, 0);
        let events = self.watched_remotely(&key, events);
        Ok(Some(StartedRun::new(run_id, events)))
    }

    /// Returns the mailbox whose interrupts the input replies to, and the replies.
    async fn find_box(
        &self,
        agent: &AgentEntry,
        owner: &str,
        input: &RunInput,
    ) -> Result<Option<(RunId, Vec<InterruptReply>)>, LogError> {
        if self.scope() != LogScope::Replicas {
            return Ok(None);
        }
        let query = RunQuery {
            thread_id: Some(box_thread(&input.thread_id)),
            owner: Some(owner.to_owned()),
            newest_first: true,
            ..RunQuery::default()
        };
        let is_open = |state: &RunState| state.closed_at.is_none() && state.meta.agent == agent.name();
        for state in self.run_log().list(query, BOXES).await?.into_iter().filter(is_open) {
            let asked = asked_in(state.checkpoint.as_deref());
            if let Some(replies) = replies_to(&asked, input) {
                return Ok(Some((state.meta.run_id, replies)));
            }
        }
        Ok(None)
    }
}

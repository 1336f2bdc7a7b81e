//! Replies to interrupts: each is bound to the run that requested it and to its principal, and is accepted once.
//!
//! ```text
//! resume ──► the run that asked ──┬ no run of the principal asked ───────────────────► refused: unknown
//!                                 ├ already answered ──┬ by the same reply ──────────► that run again
//!                                 │                    └ by another one ─────────────► refused: answered
//!                                 └ open ──► claim in the log ──┬ won ───────────────► a new run
//!                                                               └ lost ──► as already answered
//! ```
//!
//! The claim is atomic in the log, so exactly one of several simultaneous replies is accepted, whichever replicas receive
//! them. Its key contains the run that asked and the attempt: a run that failed before its agent emitted content leaves the
//! interrupt open, once. A claim whose replica dies before the run is open lapses with a lease; a claim whose run is open is
//! kept as long as the run.
//!
//! Clients may reply under the id of the run that asked. The log then stores the new run under an id of its own
//! ([`ReplyRun`]), and its events carry the id that the client sent.

use std::time::Duration;

use aqueduct_core::event::RunFinished;
use aqueduct_core::fingerprint::hash_bytes;
use aqueduct_core::service::{RefusalKind, ServiceError, StartedRun};
use aqueduct_core::{BlockEvent, InterruptReply, OpenInterrupts, RunId, RunInput, ThreadId, Timestamp};
use aqueduct_runlog::{LogError, RunMeta, RunQuery, RunState};
use serde_json::{Value, json};

use crate::runs::{Runs, refuse};

/// Runs of a thread that are searched for the one that asked.
const RUNS: usize = 64;

/// Separates the client's run id from the number of the reply.
const RESUMED: &str = "~resume";

/// The most replies under one run id.
const RESUMES: usize = 1_000;

/// The time that a repeated reply waits for the run of the first one to open.
const OPENING: Duration = Duration::from_secs(5);
const OPENING_PAUSE: Duration = Duration::from_millis(20);

/// The ids of a run that is about to start.
#[derive(Debug, Clone)]
pub(crate) struct ReplyRun {
    /// The id in the log, by which the owner addresses the run.
    pub(crate) id: RunId,
    /// The id in the events, if it differs.
    pub(crate) shown: Option<RunId>,
}

/// The decision about an input that replies.
pub(crate) enum Reply {
    /// The input starts a run, under a claim if it is bound to a run that asked.
    Taken(ReplyRun, Option<Claim>),
    /// The input repeats a reply; contains the run that the first one started.
    Repeats(RunId),
}

/// The exclusive right to reply to a run that asked.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    key: String,
    value: String,
}

/// A run whose interrupts an input replies to.
struct Asked {
    run: RunId,
    /// Set if the interrupts wait for a reply.
    is_open: bool,
    /// Set if a run has failed on the interrupts.
    is_retried: bool,
}

impl Asked {
    /// Returns the key of the claim: the run that asked, and whether it is the second attempt.
    fn key(&self, is_retried: bool) -> String {
        format!("reply/{}/{}", self.run, u8::from(is_retried))
    }
}

impl Runs {
    /// Decides whether an input starts a run. An input that does not reply starts a run under its own id.
    pub(crate) async fn take_reply(
        &self,
        agent: &str,
        owner: &str,
        input: &RunInput,
    ) -> Result<Reply, ServiceError> {
        let plain = ReplyRun { id: input.run_id.detached(), shown: None };
        if !input.answers_interrupts() {
            return Ok(Reply::Taken(plain, None));
        }
        let log_error = |error: LogError| refuse(&error);
        let runs = self.runs_of(agent, owner, input).await.map_err(log_error)?;
        let Some(asked) = self.find_asked(&runs, input).await? else {
            let run = self.reply_run(owner, plain, &runs).await.map_err(log_error)?;
            return Ok(Reply::Taken(run, None));
        };
        let run = self.reply_run(owner, plain, &runs).await.map_err(log_error)?;
        let digest = digest(input);
        let claim = Claim { key: asked.key(asked.is_retried), value: format!("{digest} {}", run.id) };
        let is_running = |state: &RunState| state.closed_at.is_none() && state.meta.public_id() == run.id;
        // A run that an equal reply started has the claim of that reply; another run under the id is no repeat.
        if asked.is_open
            && runs.iter().any(is_running)
            && self.holder(claim.key.clone()).await? != claim.value
        {
            return Err(refuse(&LogError::Exists(run.id)));
        }
        let mut holder = if asked.is_open {
            self.hold_claim(&claim, self.lease_until()).await?
        } else {
            self.holder(asked.key(true)).await?
        };
        if asked.is_open && holder == claim.value {
            return Ok(Reply::Taken(run, Some(claim)));
        }
        if holder.is_empty() {
            holder = self.holder(asked.key(false)).await?;
        }
        match holder.split_once(' ') {
            Some((first, run)) if first == digest => Ok(Reply::Repeats(RunId::from(run.to_owned()))),
            _ => Err(answered(input)),
        }
    }

    /// Keeps the claim of an open run. If the log does not store it, a repeated reply is refused instead of finding its run.
    pub(crate) async fn keep_claim(&self, claim: &Claim) {
        let keep = i64::try_from(self.setup().settings.keep.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp(self.now().0.saturating_add(keep));
        if let Err(error) = self.hold_claim(claim, until).await {
            tracing::warn!(claim = claim.key, %error, "the claim of a reply could not be kept");
        }
    }

    /// Releases the claim of a run that could not start. An open run keeps it; a run of another thread or agent under the same
    /// id does not.
    pub(crate) async fn release_claim(&self, claim: &Claim, key: &RunId, agent: &str, thread: &ThreadId) {
        let is_free = match self.run_log().state(key).await {
            Ok(state) => !is_of(&state.meta, agent, thread),
            Err(error) => matches!(error, LogError::NotFound(_)),
        };
        if is_free && let Err(error) = self.hold_claim(claim, Timestamp(0)).await {
            tracing::debug!(claim = claim.key, %error, "the claim of a reply lapses");
        }
    }

    /// Returns `true` if the log holds the run, as one of this agent and thread.
    pub(crate) async fn is_open(&self, key: &RunId, agent: &str, thread: &ThreadId) -> bool {
        self.run_log().state(key).await.is_ok_and(|state| is_of(&state.meta, agent, thread))
    }

    /// Returns the run that the first of several equal replies started.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Conflict`] if the id belongs to a run of another agent or thread, under which the first reply
    /// could not start its run.
    pub(crate) async fn repeat_run(
        &self,
        owner: &str,
        agent: &str,
        thread: &ThreadId,
        run: RunId,
    ) -> Result<StartedRun, ServiceError> {
        let key = RunMeta::key(owner, &run);
        let until = tokio::time::Instant::now() + OPENING;
        let state = loop {
            match self.run_log().state(&key).await {
                Ok(state) => break state,
                Err(error) if tokio::time::Instant::now() >= until => return Err(refuse(&error)),
                Err(_) => tokio::time::sleep(OPENING_PAUSE).await,
            }
        };
        if !is_of(&state.meta, agent, thread) {
            return Err(refuse(&LogError::Exists(run)));
        }
        let handle = self.active().get(&key).cloned();
        let events = self.watched(&key, handle.as_ref(), 0);
        Ok(StartedRun { is_repeat: true, ..StartedRun::new(run, events) })
    }

    /// Takes or extends a claim. Returns the value that holds it, which is that of another reply if it was taken
    /// before.
    async fn hold_claim(&self, claim: &Claim, until: Timestamp) -> Result<String, ServiceError> {
        let Claim { key, value } = claim.clone();
        self.run_log().claim(key, value, self.now(), until).await.map_err(|error| refuse(&error))
    }

    /// Returns the value that holds a claim, without changing it.
    async fn holder(&self, key: String) -> Result<String, ServiceError> {
        self.hold_claim(&Claim { key, value: String::new() }, Timestamp(0)).await
    }

    /// Returns the runs of the thread at the agent, newest first.
    async fn runs_of(&self, agent: &str, owner: &str, input: &RunInput) -> Result<Vec<RunState>, LogError> {
        let query =
            RunQuery { thread_id: Some(input.thread_id.clone()), newest_first: true, ..RunQuery::default() };
        let mut runs = self.run_log().list(query, RUNS).await?;
        runs.retain(|run| run.meta.agent == agent && run.meta.owner == owner);
        Ok(runs)
    }

    /// Returns the ids of the run that replies: another id in the log if the thread already has a run under the client's id.
    async fn reply_run(&self, owner: &str, plain: ReplyRun, runs: &[RunState]) -> Result<ReplyRun, LogError> {
        if !runs.iter().any(|run| run.meta.public_id() == plain.id && run.closed_at.is_some()) {
            return Ok(plain);
        }
        for nth in 1..RESUMES {
            let id = RunId::from(format!("{}{RESUMED}{nth}", plain.id));
            match self.run_log().state(&RunMeta::key(owner, &id)).await {
                Err(LogError::NotFound(_)) => return Ok(ReplyRun { id, shown: Some(plain.id) }),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(plain)
    }

    /// Returns the run that the input replies to. Returns `None` for a reply that names no interrupt in a thread without open
    /// interrupts.
    async fn find_asked(&self, runs: &[RunState], input: &RunInput) -> Result<Option<Asked>, ServiceError> {
        let log_error = |error: LogError| refuse(&error);
        let (mut failed, mut is_answered) = (Vec::new(), false);
        for run in runs.iter().filter(|run| run.closed_at.is_some()) {
            let end = self.read_end(run).await.map_err(log_error)?;
            let Some(BlockEvent::RunFinished(finished)) = &end else {
                failed.push(run);
                continue;
            };
            if finished.interrupts.is_empty() || !asks_any(finished, &input.resume) {
                is_answered = true;
                continue;
            }
            if input.resume.is_empty() && is_answered {
                return Ok(None);
            }
            if let Some(reply) = input.resume.iter().find(|reply| !asks(finished, reply)) {
                return Err(unknown(input, &[reply]));
            }
            let mut open = OpenInterrupts::default();
            if let Some(end) = &end {
                open.handle_event(end);
            }
            for run in failed.iter().rev() {
                self.each_event(run, |event| open.handle_event(event)).await.map_err(log_error)?;
            }
            let run = run.meta.run_id.clone();
            let is_open = !is_answered && !open.is_empty();
            return Ok(Some(Asked { run, is_open, is_retried: open.has_failed() }));
        }
        if input.resume.is_empty() {
            return Ok(None);
        }
        Err(unknown(input, &input.resume.iter().collect::<Vec<_>>()))
    }

    /// Returns the running run that replies under the id of an ended one.
    pub(crate) async fn live_reply(&self, ended: &RunMeta) -> Result<Option<RunId>, LogError> {
        let query =
            RunQuery { thread_id: Some(ended.thread_id.clone()), newest_first: true, ..RunQuery::default() };
        let replies = format!("{}{RESUMED}", ended.public_id());
        let is_reply = |run: &RunState| {
            let has_id = run.meta.public_id().as_str().starts_with(&replies);
            has_id && run.closed_at.is_none() && run.meta.owner == ended.owner
        };
        let runs = self.run_log().list(query, RUNS).await?;
        Ok(runs.into_iter().find(is_reply).map(|run| run.meta.run_id))
    }

    /// Reads the terminal event of a run.
    async fn read_end(&self, run: &RunState) -> Result<Option<BlockEvent>, LogError> {
        let last = self.run_log().read(&run.meta.run_id, run.head.saturating_sub(1), 1).await?;
        Ok(last.events.into_iter().next().map(|event| event.event))
    }
}

/// Returns `true` for a run of this agent and thread.
fn is_of(meta: &RunMeta, agent: &str, thread: &ThreadId) -> bool {
    meta.agent == agent && meta.thread_id == *thread
}

/// Returns `true` if the ended run requested the interrupt of the reply.
fn asks(finished: &RunFinished, reply: &InterruptReply) -> bool {
    finished.interrupts.iter().any(|pending| pending.interrupt.id == reply.id)
}

/// Returns `true` if the ended run requested the interrupt of any reply. A reply that names no interrupt matches every run
/// with interrupts.
fn asks_any(finished: &RunFinished, replies: &[InterruptReply]) -> bool {
    replies.is_empty() || replies.iter().any(|reply| asks(finished, reply))
}

/// Returns a digest that identifies a reply, equal at every replica. The same answer under another run id is another reply.
fn digest(input: &RunInput) -> String {
    let mut replies: Vec<Value> = input
        .resume
        .iter()
        .map(|reply| json!([reply.id.as_str(), reply.resolved, reply.payload]))
        .chain(input.resume_command().cloned())
        .collect();
    replies.sort_by_cached_key(Value::to_string);
    let text = json!([input.run_id.as_str(), replies]).to_string();
    format!("{:016x}{:016x}", hash_bytes(0, text.as_bytes()), hash_bytes(1, text.as_bytes()))
}

/// Returns the quoted ids of replies for a message.
fn names<'r>(replies: impl IntoIterator<Item = &'r InterruptReply>) -> String {
    let names: Vec<String> = replies.into_iter().map(|reply| format!("{:?}", reply.id.as_str())).collect();
    names.join(", ")
}

/// Returns the refusal of a reply to interrupts that no run requested.
fn unknown(input: &RunInput, replies: &[&InterruptReply]) -> ServiceError {
    let message = format!(
        "no run of this agent in thread {:?} waits for an answer to interrupt {}: reply with the id of one that does",
        input.thread_id.as_str(),
        names(replies.iter().copied()),
    );
    ServiceError::new(RefusalKind::Conflict, message)
}

/// Returns the refusal of a reply to interrupts that another reply has answered.
fn answered(input: &RunInput) -> ServiceError {
    let message = format!(
        "interrupt {} of thread {:?} has been answered already: send a message, or watch the run that goes on",
        names(&input.resume),
        input.thread_id.as_str(),
    );
    ServiceError::new(RefusalKind::Conflict, message)
}

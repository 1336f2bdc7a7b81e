//! Ownership of the tasks and contexts of a proxied agent. The agent sees only the gateway's credential, so the gateway
//! stores which principal owns what.
//!
//! ```text
//! call ──► does the caller own every task it names? ── no ──► refused as if the task did not exist
//!              └ yes ──► contexts of others become private names of the caller ──► agent
//!                        agent ──► response ──► the caller becomes the owner of its ids, before it receives them
//!                                      └──► a list: tasks of others are removed
//! ```
//!
//! An ownership record is stored in the run log, so that replicas share it, a restart keeps it, and it expires: a run
//! that ends [`RECORD_KEPT`] from now, under a key that no client can choose. The first claim of an id wins, and only
//! responses claim. The record of a task contains the caller's own name for its context
//! ([`contexts`](super::contexts)).
//!
//! If the configuration has no proofs, all callers are one principal and nothing is filtered.

use std::time::Duration;

use aqueduct_adapter_a2a::relay::{AnswerIds, CallScope, Reach, listed_tasks, retain_tasks};
use aqueduct_adapter_a2a::server::{ServerError, is_public};
use aqueduct_adapter_a2a::wire::ErrorKind;
use aqueduct_core::{RunFailure, RunId, Timestamp};
use aqueduct_runlog::{LogError, Remains, RunMeta};
use aqueduct_runs::Runs;
use aqueduct_transport_http::Error as HttpError;
use aqueduct_transport_http::sse::{DecodeLimits, Decoder};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::answer::{Answer, AnswerBody, Chunks};
use super::contexts::{Renames, agents_id};
use crate::config::PushAccess;
use crate::service::Gateway;

/// How long an ownership record is kept, in addition to `runs.keep`.
const RECORD_KEPT: Duration = Duration::from_hours(24);

/// The longest id that is stored. Ids of agents are UUIDs.
const ID_BYTES: usize = 512;

/// The kind of an id. Tasks and contexts have separate keys: an agent may use one text as both.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Task,
    Context,
}

/// The stored ownership of a task or context: a run in the log whose owner is the owner of the id, and whose thread id
/// contains the name of the context.
struct Record {
    owner: String,
    /// The owner's own name for the context of the task, or `None` if the agent assigned the name.
    context: Option<String>,
}

/// A stream whose ids are decoded until its task is known; the decoder is dropped then, and chunks are only forwarded.
type Learning = ((Owners, Renames), Chunks, Option<Decoder>);

/// The ownership records of one agent, for one caller. Cheap to clone: a stream takes its own.
#[derive(Clone)]
pub(super) struct Owners {
    /// The engine, whose log has the records, and whose clock dates them.
    runs: Runs,
    agent: String,
    /// The stored form of the caller's principal.
    owner: String,
    /// The largest event of a stream that is decoded for its ids, in bytes.
    frame: usize,
}

impl Owners {
    /// Returns `None` if all callers are one principal.
    pub(super) fn new(gateway: &Gateway, agent: &str, owner: &str, frame: usize) -> Option<Self> {
        let (runs, agent, owner) = (gateway.runs().clone(), agent.to_owned(), owner.to_owned());
        (!gateway.is_open()).then_some(Self { runs, agent, owner, frame })
    }

    /// Returns the key of a record. No caller can choose it as a run id: the key of a run begins with the stored form
    /// of its principal, which contains no `/`; the id of an anonymous caller gets a prefix if it contains a `~`.
    fn key(&self, kind: Kind, id: &str) -> RunId {
        let kind = match kind {
            Kind::Task => "task",
            Kind::Context => "context",
        };
        RunId::new(format!("/owner~{}~{kind}~{id}", self.agent))
    }

    /// Returns the record of an id, or `None` if no response contained the id yet or the record has expired. Costs one
    /// read of the log.
    async fn record_of(&self, kind: Kind, id: &str) -> Result<Option<Record>, LogError> {
        match self.runs.run_log().state(&self.key(kind, id)).await {
            Ok(state) => {
                let thread = state.meta.thread_id.as_str();
                let context =
                    thread.strip_prefix(self.key(kind, "").as_str()).filter(|name| !name.is_empty());
                Ok(Some(Record { context: context.map(str::to_owned), owner: state.meta.owner }))
            }
            Err(LogError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the record if the caller owns the id. An id of another principal looks like an id that does not exist.
    async fn own_record(&self, kind: Kind, id: &str) -> Result<Option<Record>, LogError> {
        Ok(self.record_of(kind, id).await?.filter(|record| record.owner == self.owner))
    }

    /// Claims an id for the caller, with the caller's own name for its context. Returns `false` if another principal
    /// owns it. The id must not be longer than [`ID_BYTES`].
    ///
    /// Opening a run is atomic in every engine, so of two replicas that claim one id at the same time one wins; the
    /// other reads the record of the winner. The run ends at once: a record that stayed open would count as a run and
    /// be taken over.
    async fn claim(&self, kind: Kind, id: &str, context: Option<&str>) -> Result<bool, LogError> {
        if let Some(record) = self.record_of(kind, id).await? {
            return Ok(record.owner == self.owner);
        }
        let at = self.runs.now();
        let meta = RunMeta {
            run_id: self.key(kind, id),
            thread_id: self.key(kind, context.unwrap_or_default()).as_bytes().clone().into(),
            agent: String::new(),
            owner: self.owner.clone(),
            opened_at: at,
        };
        // The lease only has to outlast the append that follows.
        let lease = match self.runs.run_log().open(meta.clone(), Timestamp(at.0 + 60_000)).await {
            Ok(lease) => lease,
            Err(LogError::Exists(_)) => return Ok(self.own_record(kind, id).await?.is_some()),
            Err(error) => return Err(error),
        };
        // The run ends in the future, so the log removes the record `runs.keep` after that time.
        let until =
            Timestamp(at.0.saturating_add(i64::try_from(RECORD_KEPT.as_millis()).unwrap_or(i64::MAX)));
        let end = Remains::default().end(&meta, RunFailure::new("owner", "a record of the proxy"));
        self.runs.run_log().append(&lease, end, until).await.map_err(LogError::from)?;
        Ok(true)
    }

    /// Decides whether a call may be forwarded. Returns the contexts to rename. `named` are contexts that the call
    /// names outside of its body.
    ///
    /// Every task must belong to the caller. A context need not: one that the caller does not own is replaced by a
    /// private id, so a call can neither join the context of another principal nor detect it.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest`: the body cannot be parsed unambiguously: the agent could read other ids than the gateway.
    /// - `MethodNotFound`: the method is not part of the protocol, and its ids are unknown.
    /// - `TaskNotFound`: a task that does not exist, or belongs to another principal.
    /// - an invalid field: a context longer than [`ID_BYTES`], or a push address that `server.push` forbids.
    /// - `PushNotificationNotSupported`: `server.push` is off.
    /// - `Unavailable`: the log does not respond. Nothing is forwarded without a check.
    pub(super) async fn admit(
        &self,
        scope: Option<&CallScope>,
        named: &[String],
        push: PushAccess,
    ) -> Result<Renames, ServerError> {
        let unreadable = || {
            ServerError::new(
                ErrorKind::InvalidRequest,
                "the body is not one JSON object without repeated members: remove the repetitions",
            )
        };
        let scope = scope.ok_or_else(unreadable)?;
        if scope.reach == Reach::Unknown {
            return Err(ServerError::new(ErrorKind::MethodNotFound, "there is no such method"));
        }
        let mut renames = Renames::default();
        for task in &scope.tasks {
            let record = self.own_record(Kind::Task, task).await.map_err(|error| unavailable(&error))?;
            if let Some(name) = record.ok_or_else(not_found)?.context {
                renames.add(name.clone(), self.agents_id(&name));
            }
        }
        for context in scope.contexts.iter().chain(named) {
            if context.len() > ID_BYTES {
                let message = format!("must not be longer than {ID_BYTES} bytes");
                return Err(ServerError::invalid_field("contextId", &message));
            }
            let own = self.own_record(Kind::Context, context).await.map_err(|error| unavailable(&error))?;
            if own.is_none() {
                renames.add(context.clone(), self.agents_id(context));
            }
        }
        admit_push(scope, push)?;
        Ok(renames)
    }

    /// Returns the id that the agent receives for a context which the caller calls `name`.
    fn agents_id(&self, name: &str) -> String {
        agents_id(&self.owner, &self.agent, name)
    }

    /// Filters a response for the caller: claims new ids, removes tasks of others from lists, and restores the caller's
    /// names of contexts.
    ///
    /// Responses to calls about one task claim nothing, because the task was checked before.
    ///
    /// # Errors
    ///
    /// Returns a failure if the agent responds with an id of another principal, if its list cannot be parsed, or if the
    /// log does not respond. A stream is cut with an error in these cases, because its head was sent before.
    pub(super) async fn filter(
        &self,
        reach: Reach,
        mut renames: Renames,
        answer: Answer,
    ) -> Result<Answer, RunFailure> {
        let (mut head, body) = answer.into_parts();
        let body = match (reach, body) {
            (Reach::Send, AnswerBody::Whole(bytes)) => {
                if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
                    self.learn(&value, &renames).await?;
                }
                AnswerBody::Whole(bytes)
            }
            (Reach::Send, AnswerBody::Stream(chunks)) => {
                AnswerBody::Stream(self.clone().learning(chunks, renames.clone()))
            }
            (Reach::List, AnswerBody::Whole(bytes)) if head.status.is_success() => {
                // Removed tasks change the length.
                head.headers.remove(http::header::CONTENT_LENGTH);
                AnswerBody::Whole(self.own_tasks(&bytes, &mut renames).await?)
            }
            (Reach::List, AnswerBody::Stream(_)) => {
                return Err(invalid("the agent responded with a stream to a list request"));
            }
            (_, body) => body,
        };
        Ok(renames.answer(Answer::from_parts(head, body)))
    }

    /// Claims the ids of a response for the caller. Returns `true` if the response names a task.
    ///
    /// The record of a task also stores the caller's name of its context, so that a later call that names only the task
    /// can restore it.
    async fn learn(&self, answer: &Value, renames: &Renames) -> Result<bool, RunFailure> {
        let AnswerIds { tasks, contexts } = AnswerIds::of(answer);
        let context = contexts.iter().find_map(|id| renames.name_of(id));
        for (kind, id) in
            tasks.iter().map(|id| (Kind::Task, id)).chain(contexts.iter().map(|id| (Kind::Context, id)))
        {
            if id.len() > ID_BYTES {
                let message = "the agent answered with the id of a task or context that is longer than";
                return Err(invalid(format!("{message} {ID_BYTES} bytes")));
            }
            match self.claim(kind, id, context.filter(|_| matches!(kind, Kind::Task))).await {
                Ok(true) => {}
                Ok(false) => {
                    return Err(invalid("the agent answered with a task or context of another caller"));
                }
                Err(error) => return Err(RunFailure::new("unavailable", error.to_string())),
            }
        }
        Ok(!tasks.is_empty())
    }

    /// Claims the ids of a stream, until its task is known. A chunk is forwarded after the ids in it are claimed.
    ///
    /// Only the first events are decoded: a stream is about one task, which its first events name.
    fn learning(self, chunks: Chunks, renames: Renames) -> Chunks {
        let limits = DecodeLimits { line: self.frame, event: self.frame };
        let state = ((self, renames), chunks, Some(Decoder::new(limits)));
        let next = async |(known, mut chunks, mut decoder): Learning| {
            let (owners, renames) = &known;
            let chunk = chunks.next().await?;
            if let (Ok(bytes), Some(open)) = (&chunk, &mut decoder) {
                open.handle_chunk(bytes.clone());
                match owners.learn_events(open, renames).await {
                    Ok(false) => {}
                    Ok(true) => decoder = None,
                    Err(failure) => {
                        let reason = failure.message.to_string();
                        let cut = HttpError::Cut { upstream: "the agent".to_owned(), reason };
                        return Some((Err(cut), (known, futures_util::stream::empty().boxed(), None)));
                    }
                }
            }
            Some((chunk, (known, chunks, decoder)))
        };
        futures_util::stream::unfold(state, next).boxed()
    }

    /// Claims the ids of the events that are complete. Returns `true` once a task is known. Data that is not JSON is
    /// ignored here; the caller receives it unchanged.
    async fn learn_events(&self, decoder: &mut Decoder, renames: &Renames) -> Result<bool, RunFailure> {
        while let Some(event) = decoder.poll_event() {
            let event = event.map_err(|error| invalid(error.to_string()))?;
            if let Ok(value) = serde_json::from_str::<Value>(&event.data)
                && self.learn(&value, renames).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes tasks of others from a list, and collects the caller's names for the contexts. Costs one read of the log
    /// per listed task.
    ///
    /// ```text
    /// {"tasks":[{"id":"T1",…},{"id":"T2",…}],"totalSize":2}  ──►  {"tasks":[{"id":"T1",…}],"totalSize":1}
    /// ```
    async fn own_tasks(&self, bytes: &Bytes, renames: &mut Renames) -> Result<Bytes, RunFailure> {
        let mut answer: Value =
            serde_json::from_slice(bytes).map_err(|_| invalid("the agent's list of tasks is not JSON"))?;
        let mut own = Vec::new();
        for id in listed_tasks(&answer) {
            let record = self.own_record(Kind::Task, &id).await;
            let record = record.map_err(|error| RunFailure::new("unavailable", error.to_string()))?;
            if let Some(record) = record {
                own.push(id);
                if let Some(name) = record.context {
                    let id = self.agents_id(&name);
                    renames.add(name, id);
                }
            }
        }
        retain_tasks(&mut answer, |id| own.iter().any(|own| own == id));
        Ok(Bytes::from(answer.to_string()))
    }
}

/// Checks push notifications of proxied agents against `server.push`. The agent itself connects to the address, so
/// names cannot be resolved here: only literal addresses are checked.
///
/// # Errors
///
/// Returns `PushNotificationNotSupported` if `server.push` is off, and an invalid field if an address is not public and
/// `server.push` allows public ones alone.
pub(super) fn admit_push(scope: &CallScope, push: PushAccess) -> Result<(), ServerError> {
    let wants = scope.reach == Reach::Push || !scope.push_urls.is_empty();
    if wants && push == PushAccess::Off {
        let message = "push notifications are off: set `server.push`";
        return Err(ServerError::new(ErrorKind::PushNotificationNotSupported, message));
    }
    if push == PushAccess::Public && !scope.push_urls.iter().all(|url| is_public_url(url)) {
        return Err(ServerError::invalid_field("url", "must be an address of the public internet"));
    }
    Ok(())
}

/// Returns `true` for an `http` or `https` address that is not obviously inside a private network.
fn is_public_url(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host().filter(|_| matches!(uri.scheme_str(), Some("http" | "https"))) else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = host.parse() {
        return is_public(address);
    }
    // A host name: neither a single label nor a number, which an agent could parse as an address.
    let is_local =
        host == "localhost" || [".localhost", ".local", ".internal"].iter().any(|end| host.ends_with(end));
    let last = host.rsplit('.').next().unwrap_or_default();
    host.contains('.') && !is_local && !last.starts_with(|first: char| first.is_ascii_digit())
}

/// The refusal for a task that does not exist, and for one of another principal: both look the same.
fn not_found() -> ServerError {
    ServerError::new(ErrorKind::TaskNotFound, "there is no such task")
}

/// The refusal of a call whose owner cannot be checked.
fn unavailable(error: &LogError) -> ServerError {
    ServerError::new(ErrorKind::Unavailable, error.to_string())
}

/// The failure of an agent whose response violates the protocol or names ids of another caller.
fn invalid(message: impl Into<String>) -> RunFailure {
    RunFailure::new(RunFailure::UPSTREAM_INVALID, message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for (url, expected) in [
            ("https://hooks.example.org/x", true),
            ("http://1.1.1.1/x", true),
            ("http://127.0.0.1/x", false),
            ("http://[::1]/x", false),
            ("http://10.0.0.1", false),
            ("http://localhost:1/x", false),
            ("http://metadata.google.internal", false),
            ("http://2130706433/", false),
            ("http://0x7f.1/", false),
            ("http://redis/", false),
            ("ftp://example.org", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_public_url(url), expected, "{url}");
        }
    }
}

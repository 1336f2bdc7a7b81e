//! [`RunLog`]: what an engine must do.
//!
//! ```text
//!            open                append (terminal)
//!  nothing ───────► owned ──────────────────────► closed ── expire ──► nothing
//!                   │   ▲ renew
//!    lease passes,  ▼   │ take_over (a higher epoch; the previous holder is fenced)
//!  released, silent lapsed
//! ```
//!
//! A lease lapses in three ways: its time is over, its holder releases it, or its holder is a replica that has been silent
//! ([`RunLog::beat`]).
//!
//! Times enter as arguments. Replicas that share an engine must agree on the time to within a third of a lease; silence is
//! measured by the engine's own clock.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{BoxFuture, NumberedEvent};
use aqueduct_core::{BlockEvent, InterruptReply, RunId, ThreadId, Timestamp, wellknown};
use serde_json::Value;

use crate::error::{LogError, Refused};

/// The end of a lease that was released, or whose holder has been silent: any replica may take the run over at once.
pub const RELEASED: Timestamp = Timestamp(0);

/// What is known of a run beside its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMeta {
    /// The key of the run in the log ([`key`](Self::key)): clients know it by its [`public_id`](Self::public_id).
    pub run_id: RunId,
    /// Its conversation.
    pub thread_id: ThreadId,
    /// The agent.
    pub agent: String,
    /// The stored form of the principal that the run belongs to; empty for the anonymous one.
    pub owner: String,
    /// When it was opened.
    pub opened_at: Timestamp,
}

/// Separates owner and id in the key of a run. Stored forms of principals do not contain it.
const KEY: char = '~';

impl RunMeta {
    /// Returns the key of the run that `owner` calls `run`. Run ids are chosen by clients: two owners may choose the same
    /// one, and neither learns of the other.
    pub fn key(owner: &str, run: &RunId) -> RunId {
        if owner.is_empty() && !run.as_str().contains(KEY) {
            return run.detached();
        }
        RunId::new(format!("{owner}{KEY}{run}"))
    }

    /// Returns the id by which the owner of the run knows it. Runs of version 0.1 have it as their key.
    pub fn public_id(&self) -> RunId {
        Self::id_of(&self.owner, &self.run_id)
    }

    /// Returns the id by which the owner of the run with this key knows it, where the owner is not at hand.
    pub fn id_in(key: &RunId) -> RunId {
        key.as_str().split_once(KEY).map_or_else(|| key.clone(), |(_, id)| RunId::from(id))
    }

    /// Returns the id of the run that has this key and belongs to `owner`.
    pub fn id_of(owner: &str, key: &RunId) -> RunId {
        let own = key.as_str().strip_prefix(owner).and_then(|rest| rest.strip_prefix(KEY));
        own.map_or_else(|| key.clone(), RunId::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_that_choose_one_id_have_different_keys() {
        let ids = ["r", "alice~r", "~r", "~", "bob~alice~r"];
        let owners = ["", "alice", "bob", "acme:alice"];
        let mut keys = std::collections::HashSet::new();
        for owner in owners {
            for id in ids {
                let run_id = RunMeta::key(owner, &RunId::from(id));
                assert!(keys.insert(run_id.clone()), "{owner} {id}");
                let (thread_id, agent, owner) = ("t".into(), String::new(), owner.to_owned());
                let meta = RunMeta { run_id, thread_id, agent, owner, opened_at: Timestamp(0) };
                assert_eq!(meta.public_id().as_str(), id);
            }
        }
        let (thread_id, agent, owner) = ("t".into(), String::new(), "gateway/0".to_owned());
        let old = RunMeta { run_id: "r".into(), thread_id, agent, owner, opened_at: Timestamp(0) };
        assert_eq!(old.public_id().as_str(), "r", "a run of version 0.1");
    }
}

/// The right to append to a run, for a time. A later lease on the same run ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run_id: RunId,
    /// Counts the leases of the run; only the highest may append.
    pub epoch: u64,
}

/// Some events of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The events after the number asked for, as many as fit.
    pub events: Vec<NumberedEvent>,
    /// The highest number appended.
    pub head: u64,
    /// True if the run has ended, so that nothing will follow the head.
    pub closed: bool,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// What is known of it.
    pub meta: RunMeta,
    /// The epoch of its last lease.
    pub epoch: u64,
    /// When that lease lapses, or has lapsed. Says nothing about a run that has ended.
    pub lease_until: Timestamp,
    /// Until when some replica has said that somebody watches. Long ago if none has.
    pub watched_until: Timestamp,
    /// The lowest number kept; 1 unless the run was trimmed.
    pub earliest: u64,
    /// The highest number appended.
    pub head: u64,
    /// When it ended, if it has.
    pub closed_at: Option<Timestamp>,
    /// Where the agent's work on the run is found again, as the lease holder annotated it last.
    pub checkpoint: Option<Arc<Value>>,
}

impl RunState {
    /// True if the run goes on and nobody may be sure of appending to it.
    pub fn is_lapsed(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && self.lease_until < now
    }

    /// Returns `true` if the run goes on and its last holder has released it, or was found silent.
    pub fn is_released(&self) -> bool {
        self.closed_at.is_none() && self.lease_until <= RELEASED
    }

    /// Its place in lists.
    pub fn place(&self) -> RunPlace {
        RunPlace { opened_at: self.meta.opened_at, run_id: self.meta.run_id.clone() }
    }
}

/// Where a run stands in lists: by the time of its opening, then by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPlace {
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The run.
    pub run_id: RunId,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunQuery {
    /// Those of one conversation.
    pub thread_id: Option<ThreadId>,
    /// Those of one owner.
    pub owner: Option<String>,
    /// Those after this place: the last one of the page before.
    pub after: Option<RunPlace>,
    /// The other way round, from the newest to the oldest.
    pub newest_first: bool,
}

impl RunQuery {
    /// True if the run is asked for.
    pub fn wants(&self, run: &RunState) -> bool {
        self.thread_id.as_ref().is_none_or(|thread| *thread == run.meta.thread_id)
            && self.owner.as_ref().is_none_or(|owner| *owner == run.meta.owner)
            && self.after.as_ref().is_none_or(|after| {
                let place = run.place();
                if self.newest_first { *after > place } else { *after < place }
            })
    }

    /// Puts the runs that are wanted in order, and leaves the first `max` of them.
    pub(crate) fn sort(&self, runs: &mut Vec<RunState>, max: usize) {
        runs.sort_by_cached_key(RunState::place);
        if self.newest_first {
            runs.reverse();
        }
        runs.truncate(max);
    }
}

/// A message to whoever holds the lease of a run, from any replica.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Control {
    /// Stop the run.
    Cancel,
    /// A human's answer.
    Reply(InterruptReply),
    /// What replicas have to tell each other beside; the log does not read it.
    Message(Value),
}

/// A fact about a run that hosts keep beside its events. No watcher sees it, and it has no number.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The request that the run answers, in the form of the host.
    Input(Arc<Value>),
    /// Where the agent's work is found again, in the form of the agent's adapter.
    Checkpoint(Arc<Value>),
}

impl Note {
    /// Returns the value of the note.
    pub fn value(&self) -> &Arc<Value> {
        let (Self::Input(value) | Self::Checkpoint(value)) = self;
        value
    }
}

/// Returns `true` for an event by which version 0.1 kept a [`Note`] among the events of a run. Readers of old logs leave it
/// out.
pub fn is_log_metadata(event: &BlockEvent) -> bool {
    let names = [wellknown::INPUT, wellknown::UPSTREAM];
    matches!(event, BlockEvent::Custom(custom) if names.contains(&&*custom.name))
}

/// Which processes can read a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogScope {
    /// This process alone: what it forgets is gone.
    #[default]
    Process,
    /// One process at a time: the next one finds what the last one left.
    Machine,
    /// Several replicas at once.
    Replicas,
}

/// Keeps the events of runs. Engines differ in what survives what; the conformance suite says what all of them do.
///
/// Every future may be dropped at any time: what was asked has then happened or not, and never by halves.
pub trait RunLog: Send + Sync + 'static {
    /// Creates a run and takes its lease until that time. A run of that id that is there already is refused.
    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>>;

    /// Takes the lease of a run that has not ended, if it has lapsed by `now`; whoever held it before can no longer
    /// append. Of several who try at once one succeeds.
    fn take_over(
        &self,
        run: &RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<Lease, LogError>>;

    /// Holds leases until that time, and gives those that are lost: taken over, or of runs that ended or are gone.
    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> BoxFuture<'_, Result<Vec<Lease>, LogError>>;

    /// Ends leases now: other replicas take the runs over at once. Leases that are lost already are left alone.
    fn release(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<(), LogError>> {
        Box::pin(async move { self.renew(leases, RELEASED).await.map(drop) })
    }

    /// Waits until a lease was released, by any replica. An engine that no other process shares never returns.
    fn released(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Tells other replicas that this one is alive, and releases the leases of replicas that have been silent for longer
    /// than `silence`; returns how many. To be called several times within `silence`. An engine that no other process
    /// shares does nothing.
    fn beat(&self, silence: Duration) -> BoxFuture<'_, Result<usize, LogError>> {
        let _ = silence;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Appends events, all or none, and gives the number of the last. A terminal event must be the last of its batch and
    /// closes the run at `now`; there is always room for it. What is refused comes back.
    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, Refused>>;

    /// Keeps a fact about the run. A later note of the same kind replaces it. Its content counts as content of the run, and
    /// a run that has ended takes none.
    fn annotate(&self, lease: &Lease, note: Note) -> BoxFuture<'_, Result<(), LogError>>;

    /// Returns the [`Note::Input`] of a run; `None` if it has none.
    fn input(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Arc<Value>>, LogError>>;

    /// Returns which processes can read the log.
    fn scope(&self) -> LogScope {
        LogScope::Process
    }

    /// Reads at most `max` events with numbers above `after`; [`LogError::Gone`] if the next one is no longer kept.
    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>>;

    /// The same, from an engine that has what is asked for at hand; none from one that has to fetch it. Watchers that keep
    /// up ask once per event, and are spared the future.
    fn read_now(&self, run: &RunId, after: u64, max: usize) -> Option<Result<Page, LogError>> {
        let _ = (run, after, max);
        None
    }

    /// Waits until there are events above `after`, or the run has ended.
    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>>;

    /// The same, as a future that holds what it needs: watchers keep it. An engine that holds little more than the run
    /// saves them a future in a future.
    fn changed_owned(self: Arc<Self>, run: &RunId, after: u64) -> BoxFuture<'static, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move { self.changed(&run, after).await })
    }

    /// Says that somebody watches the run until that time, for the owner to know where nobody watches there.
    fn watched(&self, run: &RunId, until: Timestamp) -> BoxFuture<'_, Result<(), LogError>>;

    /// What is known of a run.
    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>>;

    /// At most `max` runs, oldest first unless the query says otherwise.
    fn list(&self, query: RunQuery, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>>;

    /// At most `max` runs that go on although their lease lapsed before `now`.
    fn lapsed(&self, now: Timestamp, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>>;

    /// Sends a message to whoever holds the lease, now or later: it is kept with the run.
    fn control(&self, run: &RunId, message: Control) -> BoxFuture<'_, Result<(), LogError>>;

    /// Waits until more than `seen` messages were sent to the run, and gives those above; [`LogError::Fenced`] or
    /// [`LogError::Closed`] once they are no longer this lease's business. Who took over sees all of them.
    fn controls(&self, lease: &Lease, seen: usize) -> BoxFuture<'_, Result<Vec<Control>, LogError>>;

    /// Says that those keys lead to the run, for about as long as that. They are one name space beside the runs, and one
    /// key may lead to several of them. An engine that no other process shares may know none: whoever drives a run
    /// there knows its keys itself.
    fn relate(
        &self,
        run: &RunId,
        keys: Vec<String>,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<(), LogError>> {
        let _ = (run, keys, until);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Says that those keys lead to the run no more.
    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> BoxFuture<'_, Result<(), LogError>> {
        let _ = (run, keys);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The runs that each of the keys leads to, in the order of the keys. Some may have ended, or be gone.
    fn related(&self, keys: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<RunId>>, LogError>> {
        Box::pin(std::future::ready(Ok(vec![Vec::new(); keys.len()])))
    }

    /// Claims a key for `value` until that time, and returns the value that holds it: another one if the key was claimed
    /// for that before and the claim has not lapsed. Of several that try at once one succeeds. The holder may claim again,
    /// which moves the end of its claim; an `until` that is not after `now` gives the key back, or takes nothing.
    fn claim(
        &self,
        key: String,
        value: String,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<String, LogError>>;

    /// Returns how many connections to the server of the log broke and were made again; `None` for an engine without a
    /// server.
    fn reconnects(&self) -> Option<u64> {
        None
    }

    /// Whether the log can be written now. Returns soon, also if it cannot.
    fn check(&self) -> BoxFuture<'_, Result<(), LogError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Forgets events with numbers below `earliest`; the head is always kept.
    fn trim(&self, run: &RunId, earliest: u64) -> BoxFuture<'_, Result<(), LogError>>;

    /// Forgets runs that ended before `before`, and gives how many.
    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>>;
}

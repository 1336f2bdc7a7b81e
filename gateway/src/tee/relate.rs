//! Relates calls to runs.
//!
//! Every agent that works in a run has an [`Anchor`]: the run's own agent, and each sub-agent that is called through
//! the gateway. A call is related to the anchor of the calling agent by its relation keys, in the configured order:
//!
//! | kind | value | identifies |
//! |---|---|---|
//! | token | header `x-aqueduct-run`, metadata `aqueduct/run`, baggage `aqueduct-run` | the agent that received the token |
//! | trace | the trace id of `traceparent` | the run, if only one run has that trace |
//! | context | the A2A context id | the run, if only one run has that thread or context; else a lane, likewise |
//!
//! Anchors exist at the replica that drives their run. The relation keys of a run are published to all replicas that
//! share the log, which then send a request to the owner of the run ([`remote`](super::remote)); so a key that is
//! unique is unique among all replicas.
//!
//! A call is related only to runs of its own principal, unless the called agent lists the principal of the call as a
//! supervisor. Traces and contexts can be guessed; therefore each kind can be switched off, and only tokens relate
//! where there is more than one principal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_core::{RunId, Source, Timestamp};
use aqueduct_runlog::RunLog;
use http::HeaderMap;

use super::index::Index;
use super::relation::{RELATION_KEY_BYTES, RelationKey, relation_keys};
use super::run::TeeRun;
use super::token::RunToken;
use crate::config::RelateBy;
use crate::service::now;
use crate::telemetry::Metrics;

/// How long published relation keys of a run are kept whose owner died. A living owner removes them when the run ends.
/// A run that lasts longer than a day is found only by its own replica.
const TOLD_FOR_MS: i64 = 24 * 60 * 60 * 1000;

/// A run, its key, and the principal that it belongs to.
pub(super) type OwnedRun = (Arc<TeeRun>, RunId, String);

/// An agent that works in a run. The lanes of the agents that it calls are attached to it.
///
/// Held by the context of the agent's calls and by its lane. Dropping the last reference removes the anchor
/// from the index and unpublishes its keys.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) run: Arc<TeeRun>,
    pub(super) run_id: RunId,
    /// The agent in its run.
    pub(crate) source: Source,
    /// The stored form of the principal that the run belongs to.
    owner: String,
    /// The token that this agent alone has received; `None` if calls are not related by tokens.
    pub(super) token: Option<RunToken>,
    /// The trace id of the run, which all its agents share.
    pub(super) trace: Option<String>,
    /// A2A contexts and AG-UI threads in which the agent works.
    contexts: Mutex<Vec<String>>,
    /// Weak, because the index of the tee refers to anchors.
    tee: Weak<Tee>,
}

impl Anchor {
    /// Adds a context of the agent and publishes it.
    pub(crate) fn learn_context(self: &Arc<Self>, context: &str) {
        if self.note_context(context)
            && let Some(tee) = self.tee.upgrade()
        {
            let (run, keys) = (self.run_id.clone(), vec![RelationKey::Context(context.to_owned()).key()]);
            spawn(async move { tee.tell(&run, keys).await });
        }
    }

    /// Adds a context. Returns `true` if it is new and short enough to be a relation key.
    pub(super) fn note_context(self: &Arc<Self>, context: &str) -> bool {
        let Some(tee) = self.tee.upgrade().filter(|tee| tee.has(RelateBy::Context)) else { return false };
        let mut own = self.contexts();
        let known = own.iter().any(|known| known == context);
        if context.is_empty() || context.len() > RELATION_KEY_BYTES || known {
            return false;
        }
        own.push(context.to_owned());
        drop(own);
        tee.index().add_context(self, context);
        true
    }

    /// Publishes the relation keys of this run to all replicas that share the log. Await it before the agent receives
    /// them.
    pub(super) async fn publish(&self) {
        if let Some(tee) = self.tee.upgrade() {
            tee.tell(&self.run_id, self.keys()).await;
        }
    }

    /// Returns an anchor for a sub-agent of this agent.
    pub(crate) fn child(self: &Arc<Self>, source: Source) -> Option<Arc<Self>> {
        let tee = self.tee.upgrade()?;
        let token = self.token.as_ref().and_then(RunToken::child);
        let run = (Arc::clone(&self.run), self.run_id.clone(), self.owner.clone());
        Some(tee.anchor(run, source, token, self.trace.clone()))
    }

    fn contexts(&self) -> MutexGuard<'_, Vec<String>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the published keys of this anchor. Token and trace are those of the whole run.
    fn keys(&self) -> Vec<String> {
        let token = self.token.iter().map(|token| RelationKey::Token(token.as_str().to_owned()));
        let trace = self.trace.iter().cloned().map(RelationKey::Trace);
        let of_run = token.chain(trace).filter(|_| self.source.is_root());
        of_run
            .chain(self.contexts().iter().cloned().map(RelationKey::Context))
            .map(|relation| relation.key())
            .collect()
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        let Some(tee) = self.tee.upgrade() else { return };
        let contexts = std::mem::take(&mut *self.contexts());
        let left = tee.index().forget(self, &contexts);
        *self.contexts() = left;
        let keys = self.keys();
        if !keys.is_empty() {
            let run = self.run_id.clone();
            spawn(async move {
                if let Err(error) = tee.log.unrelate(&run, keys).await {
                    tracing::debug!(%error, "what led to a run that ended is not taken back");
                }
            });
        }
    }
}

/// Spawns `work`. Without a runtime the process is ending, and `work` is dropped.
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

/// The agent that made a call.
#[derive(Debug)]
pub(crate) enum Caller {
    /// An agent of a run that this replica drives.
    Here(Arc<Anchor>),
    /// An agent of a run that another replica drives; its owner knows which agent.
    There(RemoteRun),
}

impl Caller {
    /// Returns the run of the caller.
    pub(crate) fn run(&self) -> &RunId {
        match self {
            Self::Here(anchor) => &anchor.run_id,
            Self::There(remote) => &remote.run,
        }
    }
}

/// A run that another replica drives, and the relation key that identifies it.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRun {
    pub(crate) run: RunId,
    pub(crate) relation: RelationKey,
}

/// The sender of a call that may be related to a run.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    /// The stored form of its principal.
    pub(crate) owner: String,
    /// Set if the called agent lists the principal as a supervisor: its calls may be related to runs of any principal.
    pub(crate) is_supervisor: bool,
}

impl Requester {
    /// Returns `true` if calls of the requester may be related to runs of that principal.
    fn may_act_for(&self, owner: &str) -> bool {
        self.is_supervisor || self.owner == owner
    }
}

/// All anchors of a gateway.
pub(crate) struct Tee {
    /// The configured kinds of relation keys, in the order in which they are tried. Replaced when the
    /// configuration is reloaded.
    ways: RwLock<Vec<RelateBy>>,
    index: Mutex<Index>,
    log: Arc<dyn RunLog>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Tee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tee").field("ways", &self.ways()).finish_non_exhaustive()
    }
}

impl Tee {
    /// Returns a tee without anchors.
    pub(crate) fn new(ways: Vec<RelateBy>, log: Arc<dyn RunLog>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { ways: RwLock::new(ways), index: Mutex::default(), log, metrics })
    }

    /// Sets the kinds of relation keys to use from now on. Keys that were published before stay published until
    /// their runs end.
    pub(crate) fn relate_by(&self, ways: Vec<RelateBy>) {
        *self.ways.write().unwrap_or_else(PoisonError::into_inner) = ways;
    }

    fn ways(&self) -> Vec<RelateBy> {
        self.ways.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn log(&self) -> &Arc<dyn RunLog> {
        &self.log
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if calls are related by that kind of key.
    pub(super) fn has(&self, way: RelateBy) -> bool {
        self.ways.read().unwrap_or_else(PoisonError::into_inner).contains(&way)
    }

    /// Returns an anchor for the agent of a run, which is removed when it is dropped.
    pub(super) fn root(self: &Arc<Self>, run: OwnedRun, trace: Option<String>) -> Arc<Anchor> {
        let token = if self.has(RelateBy::Token) { RunToken::mint() } else { None };
        self.anchor(run, Source::root(), token, trace)
    }

    /// Creates an anchor and adds it to the index.
    fn anchor(
        self: &Arc<Self>,
        (run, run_id, owner): OwnedRun,
        source: Source,
        token: Option<RunToken>,
        trace: Option<String>,
    ) -> Arc<Anchor> {
        let tee = Arc::downgrade(self);
        let anchor =
            Arc::new(Anchor { run, run_id, source, owner, token, trace, contexts: Mutex::default(), tee });
        self.index().add(&anchor);
        anchor
    }

    /// Returns the agent that made a call, and the kind of key that identified it. Runs of principals for which the
    /// requester may not act are skipped: they are neither found nor make another run ambiguous. `is_here` returns
    /// `true` for runs that this replica drives.
    pub(crate) async fn relate(
        &self,
        requester: &Requester,
        headers: &HeaderMap,
        call: &PassingCall<'_>,
        is_here: impl Fn(&RunId) -> bool + Send + Sync,
    ) -> Option<(Caller, RelateBy)> {
        for relation in relation_keys(&self.ways(), headers, call) {
            let way = relation.way();
            let mut here = self.at_hand(&relation, |anchor| requester.may_act_for(&anchor.owner));
            // A token is unique: one that is known here belongs to no other replica.
            let elsewhere = match way {
                RelateBy::Token if !here.is_empty() => Vec::new(),
                _ => self.elsewhere(requester, &relation, &is_here).await,
            };
            // A key that identifies no run, or more than one, is skipped: a wrong relation would show the call
            // in another run.
            match (here.len(), elsewhere.as_slice()) {
                (1, []) => return here.pop().map(|anchor| (Caller::Here(anchor), way)),
                (0, [run]) => return Some((Caller::There(RemoteRun { run: run.clone(), relation }), way)),
                _ => {}
            }
        }
        None
    }

    /// Returns the anchor of a run that a relation key identifies, if it is unique.
    pub(super) fn anchor_of(&self, run: &Arc<TeeRun>, relation: &RelationKey) -> Option<Arc<Anchor>> {
        let mut found = self.at_hand(relation, |anchor| Arc::ptr_eq(&anchor.run, run));
        let anchor = found.pop()?;
        (found.is_empty() && self.has(relation.way())).then_some(anchor)
    }

    /// Returns the local anchors with that relation key that pass the filter.
    fn at_hand(&self, relation: &RelationKey, is_wanted: impl Fn(&Anchor) -> bool) -> Vec<Arc<Anchor>> {
        // Dropping the last reference to an anchor locks the index, so no reference is dropped while the lock is held.
        let all = self.index().find(relation);
        let found = all.into_iter().filter(|anchor| is_wanted(anchor));
        // The run's own agent takes precedence over its sub-agents: a supervisor often forwards its own context.
        let (roots, lanes): (Vec<_>, Vec<_>) = found.partition(|anchor| anchor.source.is_root());
        if roots.is_empty() { lanes } else { roots }
    }

    /// Returns the runs of other replicas with that relation key; none if the log cannot be read.
    async fn elsewhere(
        &self,
        requester: &Requester,
        relation: &RelationKey,
        is_here: impl Fn(&RunId) -> bool,
    ) -> Vec<RunId> {
        let found = self.log.related(vec![relation.key()]).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the run log cannot say whether a call belongs to a run");
            Vec::new()
        });
        let mut open = Vec::new();
        for run in found.concat() {
            if is_here(&run) {
                continue;
            }
            // Replicas that died have not removed their keys.
            if let Ok(state) = self.log.state(&run).await
                && state.closed_at.is_none()
                && requester.may_act_for(&state.meta.owner)
            {
                open.push(run);
            }
        }
        open
    }

    /// Publishes keys of a run. A log that is unavailable costs the relation at other replicas only.
    async fn tell(&self, run: &RunId, keys: Vec<String>) {
        let until = Timestamp(now().0.saturating_add(TOLD_FOR_MS));
        if keys.is_empty() {
            return;
        }
        if let Err(error) = self.log.relate(run, keys, until).await {
            tracing::warn!(%error, "other gateways cannot relate calls of sub-agents to a run");
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.index().is_empty()
    }
}

#[cfg(test)]
mod tests;

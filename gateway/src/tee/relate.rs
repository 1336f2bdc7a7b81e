//! [`Tee`]: finds the run, and the agent in the run, that a call through the gateway comes from.
//!
//! Every agent that works in a run has an [`Anchor`]: the run's own agent, and each sub-agent that is called through
//! the gateway. A call is related to the anchor of the calling agent by its relation keys, tried in the configured order:
//!
//! | kind | value | identifies |
//! |---|---|---|
//! | token | header `x-aqueduct-run`, metadata `aqueduct/run`, baggage `aqueduct-run` | the agent that received the token |
//! | trace | the trace id of `traceparent` | the run, if exactly one run has that trace |
//! | context | the A2A context id | the run, if exactly one run has that thread or context; otherwise the sub-agent, if exactly one has that context |
//!
//! Anchors exist at the replica that drives their run, its owner. The owner publishes the relation keys of a run to all replicas
//! that share the log. A replica that relates a call to a run of another owner forwards the call's events to that owner
//! ([`remote`](super::remote)). So "exactly one" means one among all replicas.
//!
//! A call is related only to runs of its own principal, unless the called agent lists the principal of the call as a
//! supervisor. Traces and contexts can be guessed; therefore each kind can be switched off, and by default only tokens
//! relate calls if more than one principal is configured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_core::{RunId, Source, Timestamp};
use aqueduct_runlog::RunLog;
use aqueduct_runs::Clock;
use http::HeaderMap;

use super::index::Index;
use super::relation::{RELATION_KEY_BYTES, RelationKey, relation_keys};
use super::run::TeeRun;
use super::token::RunToken;
use crate::config::RelateBy;
use crate::telemetry::Metrics;

/// How long published relation keys stay in the log. A living owner removes them when the run ends, so the limit is for keys
/// whose owner died. It applies to long runs too: after a day, only the owner relates calls to a run.
const KEYS_LIFETIME_MS: i64 = 24 * 60 * 60 * 1000;

/// A run, its id, and the stored form of the principal that it belongs to.
pub(super) type OwnedRun = (Arc<TeeRun>, RunId, String);

/// An agent that works in a run: the lanes of the sub-agents that it calls are attached below its source.
///
/// The context of the agent's calls and the agent's lane hold references. Dropping the last one removes the anchor from the
/// index, and its keys from the log.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) run: Arc<TeeRun>,
    pub(super) run_id: RunId,
    /// The source of the agent in its run.
    pub(crate) source: Source,
    /// The stored form of the principal that the run belongs to.
    principal: String,
    /// The token that this agent alone has received; `None` if calls are not related by tokens.
    pub(super) token: Option<RunToken>,
    /// The trace id of the run, which all its agents share.
    pub(super) trace: Option<String>,
    /// The A2A contexts and AG-UI threads in which the agent works.
    contexts: Mutex<Vec<String>>,
    /// Weak, because the index of the tee refers to anchors.
    tee: Weak<Tee>,
}

impl Anchor {
    /// Adds a context of the agent, and publishes it in the background.
    pub(crate) fn learn_context(self: &Arc<Self>, context: &str) {
        if self.add_context(context)
            && let Some(tee) = self.tee.upgrade()
        {
            let (run, keys) = (self.run_id.clone(), vec![RelationKey::Context(context.to_owned()).key()]);
            spawn(async move { tee.publish_keys(&run, keys).await });
        }
    }

    /// Adds a context of the agent to the index. Returns `false` if calls are not related by contexts, and if the context is empty,
    /// too long or already known.
    pub(super) fn add_context(self: &Arc<Self>, context: &str) -> bool {
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

    /// Publishes the relation keys of this anchor to all replicas that share the log. Must complete before the agent receives
    /// the keys.
    pub(super) async fn publish(&self) {
        if let Some(tee) = self.tee.upgrade() {
            tee.publish_keys(&self.run_id, self.keys()).await;
        }
    }

    /// Returns an anchor for a sub-agent of this agent. Returns `None` if the tee is gone.
    pub(crate) fn child(self: &Arc<Self>, source: Source) -> Option<Arc<Self>> {
        let tee = self.tee.upgrade()?;
        let token = self.token.as_ref().and_then(RunToken::child);
        let run = (Arc::clone(&self.run), self.run_id.clone(), self.principal.clone());
        Some(tee.anchor(run, source, token, self.trace.clone()))
    }

    fn contexts(&self) -> MutexGuard<'_, Vec<String>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys to publish for this anchor: its contexts, and for the run's own agent the token and the trace.
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
        // Contexts that another agent of the run has too stay published.
        let own = tee.index().forget(self, &contexts);
        *self.contexts() = own;
        let keys = self.keys();
        if !keys.is_empty() {
            let run = self.run_id.clone();
            spawn(async move {
                if let Err(error) = tee.log.unrelate(&run, keys).await {
                    tracing::debug!(%error, "the relation keys of an ended agent were not removed from the log; they expire");
                }
            });
        }
    }
}

/// Spawns `work`. Drops it if there is no runtime, because the process is then ending.
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
    /// An agent of a run that another replica drives. The owner of the run finds the agent by the relation key.
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

/// The principal that sent a call, and whether it is a supervisor.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    /// The stored form of the principal.
    pub(crate) principal: String,
    /// Set if the called agent lists the principal as a supervisor: its calls may be related to runs of any principal.
    pub(crate) is_supervisor: bool,
}

impl Requester {
    /// Returns `true` if calls of the requester may be related to runs of `principal`.
    fn may_act_for(&self, principal: &str) -> bool {
        self.is_supervisor || self.principal == principal
    }
}

/// The anchors of all runs that this gateway drives, and the log in which their keys are published.
pub(crate) struct Tee {
    /// The configured kinds of relation keys, in the order in which they are tried. Replaced when the
    /// configuration is reloaded.
    kinds: RwLock<Vec<RelateBy>>,
    index: Mutex<Index>,
    log: Arc<dyn RunLog>,
    /// The clock by which keys expire: that of the log and its runs.
    clock: Clock,
    metrics: Arc<Metrics>,
}

aqueduct_core::debug_fields!(Tee { kinds: kinds() });

impl Tee {
    /// Returns a tee without anchors.
    pub(crate) fn new(
        kinds: Vec<RelateBy>,
        log: Arc<dyn RunLog>,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self { kinds: RwLock::new(kinds), index: Mutex::default(), log, clock, metrics })
    }

    /// Replaces the kinds of relation keys. Keys that are already published stay published until their runs end.
    pub(crate) fn relate_by(&self, kinds: Vec<RelateBy>) {
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds;
    }

    fn kinds(&self) -> Vec<RelateBy> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
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
    pub(super) fn has(&self, kind: RelateBy) -> bool {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).contains(&kind)
    }

    /// Creates the anchor of a run's own agent, with a new token.
    pub(super) fn root(self: &Arc<Self>, run: OwnedRun, trace: Option<String>) -> Arc<Anchor> {
        let token = if self.has(RelateBy::Token) { RunToken::mint() } else { None };
        self.anchor(run, Source::root(), token, trace)
    }

    /// Creates an anchor and adds it to the index.
    fn anchor(
        self: &Arc<Self>,
        (run, run_id, principal): OwnedRun,
        source: Source,
        token: Option<RunToken>,
        trace: Option<String>,
    ) -> Arc<Anchor> {
        let tee = Arc::downgrade(self);
        let anchor = Arc::new(Anchor {
            run,
            run_id,
            source,
            principal,
            token,
            trace,
            contexts: Mutex::default(),
            tee,
        });
        self.index().add(&anchor);
        anchor
    }

    /// Returns the agent that made a call, and the kind of key that identified it. Runs of principals for which the
    /// requester may not act are ignored, so they cannot make a key ambiguous either. `is_here` returns `true` for runs that
    /// this replica drives.
    pub(crate) async fn relate(
        &self,
        requester: &Requester,
        headers: &HeaderMap,
        call: &PassingCall<'_>,
        is_here: impl Fn(&RunId) -> bool + Send + Sync,
    ) -> Option<(Caller, RelateBy)> {
        for relation in relation_keys(&self.kinds(), headers, call) {
            let kind = relation.kind();
            let mut here = self.local_anchors(&relation, |anchor| requester.may_act_for(&anchor.principal));
            // A token belongs to one anchor, so no other replica has one that is known here.
            let remote = match kind {
                RelateBy::Token if !here.is_empty() => Vec::new(),
                _ => self.remote_runs(requester, &relation, &is_here).await,
            };
            // A key that identifies no run, or more than one, is skipped, because a wrong relation would show the call in the
            // wrong run.
            match (here.len(), remote.as_slice()) {
                (1, []) => return here.pop().map(|anchor| (Caller::Here(anchor), kind)),
                (0, [run]) => return Some((Caller::There(RemoteRun { run: run.clone(), relation }), kind)),
                _ => {}
            }
        }
        None
    }

    /// Returns the anchor of a run that a relation key identifies. Returns `None` if there is not exactly one, or if calls are not
    /// related by that kind of key.
    pub(super) fn anchor_of(&self, run: &Arc<TeeRun>, relation: &RelationKey) -> Option<Arc<Anchor>> {
        let mut found = self.local_anchors(relation, |anchor| Arc::ptr_eq(&anchor.run, run));
        let anchor = found.pop()?;
        (found.is_empty() && self.has(relation.kind())).then_some(anchor)
    }

    /// Returns the anchors with that relation key at this replica that pass the filter: those of the runs' own agents, otherwise
    /// those of sub-agents.
    fn local_anchors(&self, relation: &RelationKey, is_wanted: impl Fn(&Anchor) -> bool) -> Vec<Arc<Anchor>> {
        // Dropping the last reference to an anchor locks the index, so references are filtered after the lock is released.
        let all = self.index().find(relation);
        let found = all.into_iter().filter(|anchor| is_wanted(anchor));
        // A supervisor often forwards its own context to sub-agents, which then have the same context.
        let (roots, lanes): (Vec<_>, Vec<_>) = found.partition(|anchor| anchor.source.is_root());
        if roots.is_empty() { lanes } else { roots }
    }

    /// Returns the open runs of other replicas with that relation key. Returns none if the log cannot be read.
    async fn remote_runs(
        &self,
        requester: &Requester,
        relation: &RelationKey,
        is_here: impl Fn(&RunId) -> bool,
    ) -> Vec<RunId> {
        let found = self.log.related(vec![relation.key()]).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the run log cannot be searched for the run of a call: the call is related only to runs of this replica");
            Vec::new()
        });
        let mut open = Vec::new();
        for run in found.concat() {
            if is_here(&run) {
                continue;
            }
            // The keys of a replica that died are still published, so the run may have ended.
            if let Ok(state) = self.log.state(&run).await
                && state.closed_at.is_none()
                && requester.may_act_for(&state.meta.owner)
            {
                open.push(run);
            }
        }
        open
    }

    /// Publishes keys of a run. If the log is unavailable, only other replicas cannot relate calls to the run.
    async fn publish_keys(&self, run: &RunId, keys: Vec<String>) {
        let until = Timestamp((self.clock)().0.saturating_add(KEYS_LIFETIME_MS));
        if keys.is_empty() {
            return;
        }
        if let Err(error) = self.log.relate(run, keys, until).await {
            tracing::warn!(%error, "the relation keys of a run were not published: other replicas cannot relate calls to the run");
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.index().is_empty()
    }
}

#[cfg(test)]
mod tests;

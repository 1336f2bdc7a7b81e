//! [`AccessPolicy`]: determines the identity of a caller. The host decides; the engine compares.
//!
//! A run belongs to the principal that started it. To any other principal the run does not exist; a caller without
//! identity is refused as unauthenticated.
//!
//! ```text
//! Caller ── AccessPolicy::identify ──┬ refused ──► Unauthenticated
//!                                    └ Identity ──┬ may not run the agent, does not own the run ──► NotFound
//!                                                 └ ──► Principal, stored with the run
//! ```

use std::fmt;
use std::sync::Arc;

use aqueduct_core::service::{AgentInfo, BoxFuture, Caller, RefusalKind, ServiceError};
use aqueduct_core::{Account, Identity, Principal, Quota, RunId};
use aqueduct_runlog::{RunMeta, RunState};

use crate::agents::AgentEntry;
use crate::runs::{Runs, refuse};

/// Determines the identity of a caller.
pub trait AccessPolicy: fmt::Debug + Send + Sync + 'static {
    /// Returns the identity of the caller.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Unauthenticated`] for a caller without a valid proof. The refusal does not reveal which agents
    /// and runs exist.
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError>;

    /// Checks the proof of a caller where that takes time, and returns the caller with the result. The default leaves the
    /// check to [`identify`], at every lookup.
    ///
    /// [`identify`]: Self::identify
    fn authenticate(&self, caller: Caller) -> BoxFuture<'_, Caller> {
        Box::pin(std::future::ready(caller))
    }

    /// Returns `true` if the identity may run `agent`. The agent may be retired.
    fn may_run(&self, identity: &Identity, agent: &str) -> bool {
        identity.may_run(agent)
    }

    /// Returns how much the account may use at once.
    fn quota(&self, _account: &Account) -> Quota {
        Quota::default()
    }

    /// Returns the refusal that replaces [`RefusalKind::NotFound`] for an identity that would see more with a proof.
    /// Returns `None` if the identity has a proof, or if no agent requires one.
    fn challenge(&self, _identity: &Identity) -> Option<ServiceError> {
        None
    }
}

/// A policy under which every caller is the anonymous principal.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAccess;

impl AccessPolicy for OpenAccess {
    fn identify(&self, _caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        Ok(Arc::default())
    }
}

impl Runs {
    /// Returns the identity of the caller.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Unauthenticated`] if the caller lacks a required proof, or the proof is invalid.
    pub fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        self.0.host.access.identify(caller).inspect_err(|_| self.0.metrics.count_denied())
    }

    /// Returns the principal under which the caller may run `agent`.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] if the agent does not exist or the caller may not run it, and
    /// [`RefusalKind::Unauthenticated`] if the caller lacks a required proof.
    pub fn authenticate(&self, caller: &Caller, agent: &str) -> Result<Principal, ServiceError> {
        let identity = self.identify(caller)?;
        let is_there = self.entry(agent).is_some() && self.0.host.access.may_run(&identity, agent);
        if is_there { Ok(identity.principal.clone()) } else { Err(self.no_such_agent(caller, agent)) }
    }

    /// Returns the refusal of a request for an agent that does not exist.
    pub fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        self.not_found(caller, format!("there is no agent {name:?}: see GET /agents"))
    }

    /// Returns the refusal of a request for a run that does not exist or that the caller may not see. The two are not
    /// distinguished.
    pub(crate) fn no_such_run(&self, caller: &Caller) -> ServiceError {
        self.not_found(caller, "there is no such run: check its id and the token".to_owned())
    }

    /// Returns the refusal of a request for a thread that does not exist or that the caller may not see.
    pub(crate) fn no_such_thread(&self, caller: &Caller) -> ServiceError {
        self.not_found(caller, "there is no such thread: check its id and the token".to_owned())
    }

    /// Returns a challenge instead of the refusal for callers without proof, so that they cannot probe for agents and runs.
    fn not_found(&self, caller: &Caller, message: String) -> ServiceError {
        let challenge = match self.identify(caller) {
            Ok(identity) => self.0.host.access.challenge(&identity),
            Err(refused) => return refused,
        };
        let denied = challenge.inspect(|_| self.0.metrics.count_denied());
        denied.unwrap_or_else(|| ServiceError::new(RefusalKind::NotFound, message))
    }

    /// Returns `true` if the identity may see the run.
    pub(crate) fn may_see(&self, identity: &Identity, run: &RunMeta) -> bool {
        let owns = || identity.owners().contains(&run.owner);
        identity.is_admin
            || (self.setup().agents.known(&run.agent).is_some()
                && self.0.host.access.may_run(identity, &run.agent)
                && owns())
    }

    /// Returns the id under which the identity addresses the run: the run's own id for its owner, the key for an admin.
    pub fn id_for(identity: &Identity, run: &RunMeta) -> RunId {
        if identity.owners().contains(&run.owner) { run.public_id() } else { run.run_id.clone() }
    }

    /// Returns the run that the caller addresses by `run`. An admin addresses the runs of other principals by their keys.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] for runs of other principals, and [`RefusalKind::Unavailable`] if the log cannot be read.
    pub async fn find_run(&self, caller: &Caller, run: &RunId) -> Result<RunState, ServiceError> {
        let identity = self.identify(caller)?;
        let own = RunMeta::key(&identity.principal.to_string(), run);
        let mut keys = vec![own];
        if (identity.is_admin || !identity.former.is_empty()) && keys.first() != Some(run) {
            keys.push(run.clone());
        }
        for key in &keys {
            match self.0.log.state(key).await {
                Ok(state) if self.may_see(&identity, &state.meta) => return Ok(state),
                Err(error) if error.is_temporary() => return Err(refuse(&error)),
                Ok(_) | Err(_) => {}
            }
        }
        Err(self.no_such_run(caller))
    }

    /// Returns the agents that the caller may run, in alphabetical order.
    pub(crate) fn list(&self, caller: &Caller) -> Result<Vec<AgentInfo>, ServiceError> {
        let (setup, access, identity) = (self.setup(), &self.0.host.access, self.identify(caller)?);
        let may_run = |entry: &&Arc<AgentEntry>| access.may_run(&identity, entry.name());
        let info = |entry: &Arc<AgentEntry>| AgentInfo {
            name: entry.name().to_owned(),
            description: entry.options().description.clone(),
        };
        let agents: Vec<AgentInfo> = setup.agents.all().into_iter().filter(may_run).map(info).collect();
        match access.challenge(&identity) {
            Some(refusal) if agents.is_empty() => Err(refusal),
            _ => Ok(agents),
        }
    }
}

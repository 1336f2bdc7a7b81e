//! [`AccessPolicy`]: which principal a caller is. The host decides; the engine compares.
//!
//! A run belongs to the principal that started it. What belongs to another principal does not exist for a caller; a
//! caller without any identity is told to bring one.

use std::fmt;
use std::sync::Arc;

use aqueduct_core::Principal;
use aqueduct_core::service::{AgentInfo, Caller, RefusalKind, ServiceError};
use aqueduct_runlog::RunMeta;

use crate::agents::AgentEntry;
use crate::runs::Runs;

/// Decides which principal a caller is.
pub trait AccessPolicy: fmt::Debug + Send + Sync + 'static {
    /// Returns the principal of the caller at an agent, which may be retired; `None` if the caller may not use the agent.
    fn identify(&self, caller: &Caller, agent: &str) -> Option<Principal>;

    /// Returns `true` if the caller has no identity at any agent although some require one. Such a caller learns nothing
    /// about which agents and runs exist.
    fn is_stranger(&self, _caller: &Caller) -> bool {
        false
    }

    /// Returns the refusal of a caller that has to bring an identity.
    fn refusal(&self) -> ServiceError {
        ServiceError::new(RefusalKind::Unauthenticated, "send a token: `Authorization: Bearer …`")
    }
}

/// Every caller is the anonymous principal.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAccess;

impl AccessPolicy for OpenAccess {
    fn identify(&self, _caller: &Caller, _agent: &str) -> Option<Principal> {
        Some(Principal::anonymous())
    }
}

impl Runs {
    /// Returns the principal that the caller is at that agent.
    ///
    /// # Errors
    ///
    /// [`RefusalKind::NotFound`] if there is no such agent, [`RefusalKind::Unauthenticated`] if the caller has to bring an
    /// identity.
    pub fn authenticate(&self, caller: &Caller, agent: &str) -> Result<Principal, ServiceError> {
        self.entry(agent).ok_or_else(|| self.no_such_agent(caller, agent))?;
        self.0.host.access.identify(caller, agent).ok_or_else(|| self.unauthenticated())
    }

    /// Returns the refusal of a request for an agent that does not exist.
    pub fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        self.not_found(caller, format!("there is no agent {name:?}: see GET /agents"))
    }

    pub(crate) fn no_such_run(&self, caller: &Caller) -> ServiceError {
        self.not_found(caller, "there is no such run".to_owned())
    }

    pub(crate) fn no_such_thread(&self, caller: &Caller) -> ServiceError {
        self.not_found(caller, "there is no such thread".to_owned())
    }

    /// Strangers learn nothing about what exists.
    fn not_found(&self, caller: &Caller, message: String) -> ServiceError {
        if self.0.host.access.is_stranger(caller) {
            return self.unauthenticated();
        }
        ServiceError::new(RefusalKind::NotFound, message)
    }

    fn unauthenticated(&self) -> ServiceError {
        self.0.metrics.count_denied();
        self.0.host.access.refusal()
    }

    /// Returns `true` if the run belongs to the caller.
    pub(crate) fn owns(&self, caller: &Caller, run: &RunMeta) -> bool {
        let principal = self.0.host.access.identify(caller, &run.agent);
        self.setup().agents.known(&run.agent).is_some()
            && principal.is_some_and(|principal| principal.to_string() == run.owner)
    }

    /// Returns the agents that the caller may run, in the order of their names.
    pub(crate) fn list(&self, caller: &Caller) -> Result<Vec<AgentInfo>, ServiceError> {
        let (setup, access) = (self.setup(), &self.0.host.access);
        let may_run = |entry: &&Arc<AgentEntry>| access.identify(caller, entry.name()).is_some();
        let info = |entry: &Arc<AgentEntry>| AgentInfo {
            name: entry.name().to_owned(),
            description: entry.options().description.clone(),
        };
        let agents: Vec<AgentInfo> = setup.agents.all().into_iter().filter(may_run).map(info).collect();
        if agents.is_empty() && access.is_stranger(caller) {
            return Err(self.unauthenticated());
        }
        Ok(agents)
    }
}

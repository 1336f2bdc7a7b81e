//! Who may do what.
//!
//! A caller is known by its bearer token. An agent with tokens (its own, or those of the gateway) is protected. Tokens
//! are compared in constant time, all of them, so that neither their number nor their content can be measured. What a
//! caller may not see does not exist for it; a caller without any good token is told to bring one.

use aqueduct_core::service::{AgentInfo, Caller, RefusalKind, ServiceError};
use aqueduct_runlog::RunMeta;
use subtle::{Choice, ConstantTimeEq as _};

use super::{AgentEntry, Gateway};
use crate::config::Secret;

impl Gateway {
    /// Who the caller is to this agent; empty for an agent that asks nobody.
    pub(crate) fn authenticate(&self, agent: &AgentEntry, caller: &Caller) -> Result<String, ServiceError> {
        self.identify(agent, caller).ok_or_else(|| self.unauthenticated())
    }

    /// True if the run is this caller's.
    pub(super) fn owns(&self, caller: &Caller, run: &RunMeta) -> bool {
        let setup = self.setup();
        let agent = setup.known(&run.agent);
        agent.and_then(|agent| self.identify(agent, caller)).as_deref() == Some(run.owner.as_str())
    }

    fn identify(&self, agent: &AgentEntry, caller: &Caller) -> Option<String> {
        let config = self.config();
        let (own, common) = (&agent.config.tokens, &config.server.tokens);
        if own.is_empty() && common.is_empty() {
            return Some(String::new());
        }
        let token = caller.token.as_deref().unwrap_or_default();
        // Each is looked at, whichever fits.
        let (of_agent, of_gateway) = (position(own, token), position(common, token));
        match (of_gateway, of_agent) {
            (Some(index), _) => Some(format!("gateway/{index}")),
            (None, Some(index)) => Some(format!("{}/{index}", agent.name)),
            (None, None) => None,
        }
    }

    /// The agents that the caller may run.
    pub(super) fn list(&self, caller: &Caller) -> Result<Vec<AgentInfo>, ServiceError> {
        let setup = self.setup();
        let mut agents: Vec<AgentInfo> = setup
            .agents
            .values()
            .filter(|agent| self.identify(agent, caller).is_some())
            .map(|agent| AgentInfo { name: agent.name.clone(), description: agent.description.clone() })
            .collect();
        if agents.is_empty() && self.is_stranger(caller) {
            return Err(self.unauthenticated());
        }
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    /// Decides about a caller before its request is read: the agent, or any agent, is there and accepts its token.
    pub(super) fn admit(&self, caller: &Caller, name: Option<&str>) -> Result<(), ServiceError> {
        let Some(name) = name else { return self.list(caller).map(drop) };
        let agent = self.agent(name).ok_or_else(|| self.no_such_agent(caller, name))?;
        self.authenticate(&agent, caller).map(drop)
    }

    /// Strangers cannot find out which runs there are.
    pub(super) fn no_such_run(&self, caller: &Caller) -> ServiceError {
        if self.is_stranger(caller) {
            return self.unauthenticated();
        }
        ServiceError::new(RefusalKind::NotFound, "there is no such run")
    }

    /// The same for threads.
    pub(super) fn no_such_thread(&self, caller: &Caller) -> ServiceError {
        if self.is_stranger(caller) {
            return self.unauthenticated();
        }
        ServiceError::new(RefusalKind::NotFound, "there is no such thread")
    }

    pub(crate) fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        if self.is_stranger(caller) {
            return self.unauthenticated();
        }
        ServiceError::new(RefusalKind::NotFound, format!("there is no agent {name:?}: see GET /agents"))
    }

    /// True if there are tokens and the caller has none of them.
    fn is_stranger(&self, caller: &Caller) -> bool {
        let token = caller.token.as_deref().unwrap_or_default();
        let setup = self.setup();
        let common = &setup.config.server.tokens;
        let mut protected = !common.is_empty();
        let mut known = position(common, token).is_some();
        for agent in setup.agents.values() {
            protected |= !agent.config.tokens.is_empty();
            known |= position(&agent.config.tokens, token).is_some();
        }
        protected && !known
    }

    fn unauthenticated(&self) -> ServiceError {
        self.metrics.denied();
        let message = "send a token: `Authorization: Bearer …`";
        ServiceError::new(RefusalKind::Unauthenticated, message)
    }
}

/// Which of the secrets the token is. Every secret is compared, and every byte of it.
fn position(secrets: &[Secret], token: &str) -> Option<usize> {
    let mut found = None;
    for (index, secret) in secrets.iter().enumerate() {
        let same: Choice = secret.reveal().as_bytes().ct_eq(token.as_bytes());
        if bool::from(same) {
            found = Some(index);
        }
    }
    found
}

//! Audit lines: which principal did what to which run, and whether it was allowed, at the target `aqueduct::audit`.
//!
//! A line contains the stored form of a principal, never a token. Hosts route the target to their audit log; all other
//! lines are logged at the targets of their modules.

use aqueduct_core::service::{Caller, RefusalKind, ServiceError};

use crate::runs::Runs;

/// An action of a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    /// The verb: `start`, `watch`, `cancel` or `publish`.
    pub(crate) verb: &'static str,
    /// The agent; empty if the request names a run.
    pub(crate) agent: &'a str,
    /// The run as the request names it; empty if the service chooses the id.
    pub(crate) run: &'a str,
}

impl Runs {
    /// Records an action and its outcome.
    pub(crate) fn audit<T>(&self, caller: &Caller, action: Action<'_>, outcome: &Result<T, ServiceError>) {
        if !tracing::enabled!(target: "aqueduct::audit", tracing::Level::INFO) {
            return;
        }
        let identity = self.0.host.access.identify(caller);
        let principal = identity.map(|identity| identity.principal.to_string()).unwrap_or_default();
        let peer = caller.peer.as_deref().unwrap_or_default();
        let Action { verb, agent, run } = action;
        match outcome {
            Ok(_) => {
                tracing::info!(target: "aqueduct::audit", verb, principal, agent, run, peer, allowed = true);
            }
            Err(error) => {
                let is_denied = matches!(error.kind, RefusalKind::Unauthenticated | RefusalKind::NotFound);
                let reason = error.message.as_str();
                let allowed = !is_denied;
                tracing::info!(target: "aqueduct::audit", verb, principal, agent, run, peer, allowed, reason);
            }
        }
    }
}

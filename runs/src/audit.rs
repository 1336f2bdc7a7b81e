//! Audit lines: who did what to which run, and whether that was allowed, at the target `aqueduct::audit`.
//!
//! A line names the stored form of a principal, never a token. Hosts route the target to where audits are kept; everything
//! else is logged at the targets of its modules.

use aqueduct_core::service::{Caller, RefusalKind, ServiceError};

use crate::runs::Runs;

/// What a caller does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    /// The verb: `start`, `watch`, `cancel` or `publish`.
    pub(crate) verb: &'static str,
    /// The agent; empty if the caller named a run.
    pub(crate) agent: &'a str,
    /// The run, as the caller named it; empty if the service chose it.
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

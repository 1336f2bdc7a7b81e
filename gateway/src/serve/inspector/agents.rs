//! The agents that a caller may run, with the results of the last calls to them.
//!
//! Invariants: an agent that the caller may not run is not listed. The reason of a failed call may name hosts behind
//! the gateway, so only an admin sees it, or every caller on a gateway without principals.

use aqueduct_core::service::{Caller, RunService as _, ServiceError};
use serde_json::{Value, json};

use crate::serve::probes;
use crate::service::Gateway;

/// Returns the agents of the caller with their health, as `/readyz?verbose` shows it.
///
/// ```text
/// {"agents":[{"name":"team","description":"…","status":"ok","inFlight":0,"failures":0,"lastFailure":null,…}]}
/// ```
///
/// # Errors
///
/// Returns a refusal if the caller's proof is invalid, or missing where every agent requires one.
pub(super) async fn list(gateway: &Gateway, caller: &Caller) -> Result<Value, ServiceError> {
    let agents = gateway.runs().list_agents(caller).await?;
    let sees_causes = gateway.is_open() || gateway.runs().identify(caller)?.is_admin;
    let listed = agents.into_iter().map(|agent| {
        let mut entry = probes::health_of(gateway, &agent.name);
        if let Some(entry) = entry.as_object_mut() {
            if !sees_causes {
                entry.remove("lastFailure");
            }
            entry.insert("name".to_owned(), agent.name.into());
            entry.insert("description".to_owned(), agent.description.into());
        }
        entry
    });
    Ok(json!({ "agents": listed.collect::<Vec<_>>() }))
}

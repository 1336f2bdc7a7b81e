//! The state that is built from a configuration, and its replacement by a reload while runs are open.
//!
//! ```text
//! serving ── reload ──► same sockets and limits? ── no ──► refused: nothing changes, a restart is needed
//!                                  └ yes ──► agents and tokens replaced at once; open runs keep the agent they began with
//! ```
//!
//! Invariants: a reload changes everything it can, or nothing; an agent whose configuration is unchanged keeps its
//! state; a proof that is no longer configured is revoked.

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::Timestamp;

use super::agents::Watches;
use super::{AgentEntry, agents, now};
use crate::config::{Config, RelateBy};
use crate::identity::Identities;

/// A configuration, its agents and its identities.
pub(super) struct Setup {
    pub(super) config: Arc<Config>,
    /// The proofs and identities of callers.
    pub(super) identities: Identities,
    /// The time of the load or reload.
    pub(super) since: Timestamp,
    pub(super) agents: HashMap<String, Arc<AgentEntry>>,
    /// Agents that are no longer configured; their runs can still be watched.
    retired: HashMap<String, Arc<AgentEntry>>,
    /// Observers of the calls to remote agents.
    watches: Watches,
}

/// The effect of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Names of added agents.
    pub added: Vec<String>,
    /// Names of agents that were rebuilt: their configuration changed, or they are read from files.
    pub changed: Vec<String>,
    /// Names of removed agents.
    pub removed: Vec<String>,
    /// `true` if new connections receive another certificate.
    pub certificate: bool,
}

impl Setup {
    /// Builds everything from the first configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of an agent or an issuer cannot be read.
    pub(super) fn new(config: Config, watches: Watches) -> anyhow::Result<Self> {
        let agents = agents::build(&config, &HashMap::new(), &watches)?;
        let identities = Identities::new(&config, std::iter::empty())?;
        let (config, since, retired) = (Arc::new(config), now(), HashMap::new());
        Ok(Self { config, identities, since, agents, retired, watches })
    }

    /// Returns how calls of sub-agents are related to runs: by values that can be guessed only if there is a single
    /// principal.
    pub(super) fn relate_by(&self) -> Vec<RelateBy> {
        let set = self.config.tee.relate_by.clone();
        set.unwrap_or_else(|| {
            let all = [RelateBy::Token, RelateBy::Trace, RelateBy::Context];
            let count = if self.identities.is_shared() { 1 } else { all.len() };
            all.into_iter().take(count).collect()
        })
    }

    /// Returns the agents as entries of the run engine.
    pub(super) fn run_entries(&self) -> Vec<Arc<aqueduct_runs::AgentEntry>> {
        self.agents.values().map(|agent| Arc::clone(&agent.runs)).collect()
    }

    /// Returns the agent of that name, also if a reload removed it.
    pub(super) fn known(&self, name: &str) -> Option<&Arc<AgentEntry>> {
        self.agents.get(name).or_else(|| self.retired.get(name))
    }

    /// Returns the setup for another configuration, and how it differs from this one.
    ///
    /// Changes nothing in this setup: the caller revokes identities whose proofs are gone ([`Identities::replace`])
    /// once no step of the reload can fail. Removed agents stay as retired ones: their runs can be watched, and their
    /// tokens still prove the owners of these runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration needs a restart, or if a file of an agent or an issuer cannot be read.
    pub(super) fn next(&self, config: Config) -> anyhow::Result<(Self, Changes)> {
        check_restart(&self.config, &config)?;
        let agents = agents::build(&config, &self.agents, &self.watches)?;
        let mut retired = self.retired.clone();
        let mut changes = Changes::default();
        for (name, entry) in &agents {
            match self.agents.get(name) {
                None => changes.added.push(name.clone()),
                Some(before) if !Arc::ptr_eq(before, entry) => changes.changed.push(name.clone()),
                Some(_) => {}
            }
            retired.remove(name);
        }
        for (name, entry) in self.agents.iter().filter(|(name, _)| !agents.contains_key(*name)) {
            changes.removed.push(name.clone());
            retired.insert(name.clone(), Arc::clone(entry));
        }
        for names in [&mut changes.added, &mut changes.changed, &mut changes.removed] {
            names.sort_unstable();
        }
        let former = retired.iter().map(|(name, entry)| (name.as_str(), &entry.config));
        let identities = Identities::new(&config, former)?;
        let (config, since, watches) = (Arc::new(config), now(), self.watches.clone());
        Ok((Self { config, identities, since, agents, retired, watches }, changes))
    }
}

/// Refuses changes that sockets, admission and the log cannot apply without a restart.
///
/// Keys that can change are set to their old values in a copy; what still differs needs a restart. So a key that is
/// added to the configuration needs a restart until it is listed here.
///
/// # Errors
///
/// Returns an error that names the changed sections, and the keys of each that could have changed.
fn check_restart(old: &Config, new: &Config) -> anyhow::Result<()> {
    let mut server = new.server.clone();
    server.tokens.clone_from(&old.server.tokens);
    (server.pre_stop, server.drain) = (old.server.pre_stop, old.server.drain);
    server.public_url.clone_from(&old.server.public_url);
    // Other certificate files are read like changed ones; only switching TLS on or off needs a restart.
    if server.tls.is_some() && old.server.tls.is_some() {
        server.tls.clone_from(&old.server.tls);
    }
    let mut runs = new.runs.clone();
    (runs.limit, runs.keep, runs.on_log_loss) = (old.runs.limit, old.runs.keep, old.runs.on_log_loss);
    let mut quotas = new.quotas.clone();
    (quotas.runs, quotas.rate, quotas.bytes) = (old.quotas.runs, old.quotas.rate, old.quotas.bytes);
    let connections = quotas.peer.connections;
    quotas.peer.clone_from(&old.quotas.peer);
    quotas.peer.connections = connections;
    let sections = [
        (
            "[server] beside `tokens`, `pre_stop`, `drain`, `public_url` and the files of `tls`",
            server == old.server,
        ),
        ("[log]", new.log == old.log),
        ("[runs] beside `limit`, `keep` and `on_log_loss`", runs == old.runs),
        (
            "[quotas] beside `runs`, `rate`, `bytes`, `peer.runs`, `peer.rate` and `peer.bytes`",
            quotas == old.quotas,
        ),
        ("[inspector]", new.inspector == old.inspector),
        ("[telemetry]", new.telemetry == old.telemetry),
    ];
    let changed: Vec<&str> = sections.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
    anyhow::ensure!(changed.is_empty(), "needs a restart, and nothing was changed: {}", changed.join(", "));
    Ok(())
}

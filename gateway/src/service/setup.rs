//! What a configuration makes of the gateway, and how it becomes another one while runs go on.
//!
//! ```text
//! serving ── reload ──► same sockets and limits? ── no ──► refused: nothing changes, a restart is needed
//!                                  └ yes ──► agents and tokens replaced at once; runs under way keep what they began with
//! ```
//!
//! Invariants: a reload changes everything it can or nothing; an agent that is configured as before keeps what it
//! remembers; a proof that is no longer configured is revoked.

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::Timestamp;

use super::agents::Watches;
use super::{AgentEntry, agents, now};
use crate::config::{Config, RelateBy};
use crate::identity::Identities;

/// A configuration and its agents.
pub(super) struct Setup {
    pub(super) config: Arc<Config>,
    /// Who callers are.
    pub(super) identities: Identities,
    /// When it became so.
    pub(super) since: Timestamp,
    pub(super) agents: HashMap<String, Arc<AgentEntry>>,
    /// Agents that are no longer configured; their runs can still be watched.
    retired: HashMap<String, Arc<AgentEntry>>,
    /// What watches the calls to remote agents.
    watches: Watches,
}

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Agents that are new.
    pub added: Vec<String>,
    /// Agents that are built anew: configured otherwise, or read from files.
    pub changed: Vec<String>,
    /// Agents that are gone.
    pub removed: Vec<String>,
    /// `true` if the gateway shows another certificate from now on.
    pub certificate: bool,
}

impl Setup {
    pub(super) fn new(config: Config, watches: Watches) -> anyhow::Result<Self> {
        let agents = agents::build(&config, &HashMap::new(), &watches)?;
        let identities = Identities::new(&config, std::iter::empty())?;
        let (config, since, retired) = (Arc::new(config), now(), HashMap::new());
        Ok(Self { config, identities, since, agents, retired, watches })
    }

    /// How calls of sub-agents are related to runs: by what can be guessed only where there is nobody to guess it.
    pub(super) fn relate_by(&self) -> Vec<RelateBy> {
        let set = self.config.tee.relate_by.clone();
        set.unwrap_or_else(|| {
            let all = [RelateBy::Token, RelateBy::Trace, RelateBy::Context];
            let count = if self.identities.is_shared() { 1 } else { all.len() };
            all.into_iter().take(count).collect()
        })
    }

    /// The agents as the run engine has them.
    pub(super) fn run_entries(&self) -> Vec<Arc<aqueduct_runs::AgentEntry>> {
        self.agents.values().map(|agent| Arc::clone(&agent.runs)).collect()
    }

    /// The agent of that name, also if it is gone.
    pub(super) fn known(&self, name: &str) -> Option<&Arc<AgentEntry>> {
        self.agents.get(name).or_else(|| self.retired.get(name))
    }

    /// What the gateway would be with another configuration.
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
        let mut identities = Identities::new(&config, former)?;
        identities.replace(&self.identities);
        let (config, since, watches) = (Arc::new(config), now(), self.watches.clone());
        Ok((Self { config, identities, since, agents, retired, watches }, changes))
    }
}

/// What sockets, walls and the log were made of cannot change under them.
fn check_restart(old: &Config, new: &Config) -> anyhow::Result<()> {
    let mut server = new.server.clone();
    server.tokens.clone_from(&old.server.tokens);
    (server.pre_stop, server.drain) = (old.server.pre_stop, old.server.drain);
    server.public_url.clone_from(&old.server.public_url);
    // Other files are read as the same files would be; only whether TLS is spoken is a matter of the socket.
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

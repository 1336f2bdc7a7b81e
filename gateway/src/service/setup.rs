//! What a configuration makes of the gateway, and how it becomes another one while runs go on.
//!
//! ```text
//! serving ── reload ──► same sockets and limits? ── no ──► refused: nothing changes, a restart is needed
//!                                  └ yes ──► agents and tokens replaced at once; runs under way keep what they began with
//! ```
//!
//! Invariants: a reload changes everything it can or nothing; an agent that is configured as before keeps what it
//! remembers; a token keeps its number for as long as the gateway lives, so nobody inherits the runs of another.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use aqueduct_core::Timestamp;

use super::{AgentEntry, agents, now};
use crate::config::{Config, Secret};

/// A configuration and its agents.
pub(super) struct Setup {
    pub(super) config: Arc<Config>,
    /// When it became so.
    pub(super) since: Timestamp,
    pub(super) agents: HashMap<String, Arc<AgentEntry>>,
    /// Agents that are no longer configured; their runs can still be watched.
    retired: HashMap<String, Arc<AgentEntry>>,
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
}

impl Setup {
    pub(super) fn new(config: Config) -> anyhow::Result<Self> {
        let agents = agents::build(&config, &HashMap::new())?;
        Ok(Self { config: Arc::new(config), since: now(), agents, retired: HashMap::new() })
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
    pub(super) fn next(&self, mut config: Config) -> anyhow::Result<(Self, Changes)> {
        check_restart(&self.config, &config)?;
        keep_numbers(&self.config.server.tokens, &mut config.server.tokens);
        for (name, agent) in &mut config.agents {
            if let Some(before) = self.known(name) {
                keep_numbers(&before.config.tokens, &mut agent.tokens);
            }
        }
        let agents = agents::build(&config, &self.agents)?;
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
        Ok((Self { config: Arc::new(config), since: now(), agents, retired }, changes))
    }
}

/// What sockets, walls and the log were made of cannot change under them.
fn check_restart(old: &Config, new: &Config) -> anyhow::Result<()> {
    let mut server = new.server.clone();
    server.tokens.clone_from(&old.server.tokens);
    server.drain = old.server.drain;
    server.public_url.clone_from(&old.server.public_url);
    let mut runs = new.runs.clone();
    (runs.limit, runs.keep) = (old.runs.limit, old.runs.keep);
    let sections = [
        ("[server] beside `tokens`, `drain` and `public_url`", server == old.server),
        ("[log]", new.log == old.log),
        ("[runs] beside `limit` and `keep`", runs == old.runs),
        ("[inspector]", new.inspector == old.inspector),
    ];
    let changed: Vec<&str> = sections.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
    anyhow::ensure!(changed.is_empty(), "needs a restart, and nothing was changed: {}", changed.join(", "));
    Ok(())
}

/// Callers are known by the number of their token. One that stays keeps its number; the number of one that goes is held
/// by a token that nobody has.
fn keep_numbers(old: &[Secret], new: &mut Vec<Secret>) {
    if new.is_empty() {
        return;
    }
    let mut kept: Vec<Secret> =
        old.iter().map(|token| if new.contains(token) { token.clone() } else { nobodys() }).collect();
    kept.extend(new.drain(..).filter(|token| !old.contains(token)));
    *new = kept;
}

fn nobodys() -> Secret {
    let half = || RandomState::new().hash_one(0);
    Secret::new(format!("{:016x}{:016x}{:016x}", half(), half(), half()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_keeps_its_number_and_leaves_it_to_nobody() {
        let secrets = |all: &[&str]| all.iter().map(|text| Secret::new(*text)).collect::<Vec<_>>();
        let old = secrets(&["ann", "bob"]);
        let mut new = secrets(&["cid", "bob"]);
        keep_numbers(&old, &mut new);
        assert_eq!(new.len(), 3);
        assert_eq!((&new[1], &new[2]), (&Secret::new("bob"), &Secret::new("cid")));
        assert!(new[0] != Secret::new("ann") && new[0].reveal().len() == 48);
        let mut open = Vec::new();
        keep_numbers(&old, &mut open);
        assert_eq!(open, [], "an agent that asks for no token any more asks for none");
    }
}

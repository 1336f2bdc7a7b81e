//! The agents of an engine, by name.
//!
//! ```text
//! absent ── replace ──► present ── replace ──► retired (its runs can be watched) ── replace ──► present
//! ```
//!
//! A run keeps the entry that it started with: replacing agents does not change runs in progress.

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::Agent;

use crate::settings::AgentOptions;

/// An agent and its options.
pub struct AgentEntry {
    name: String,
    options: AgentOptions,
    agent: Option<Arc<dyn Agent>>,
}

aqueduct_core::debug_fields!(AgentEntry { name });

impl AgentEntry {
    /// Returns an entry for an agent that the engine runs.
    pub fn new(name: impl Into<String>, agent: Arc<dyn Agent>, options: AgentOptions) -> Self {
        Self { name: name.into(), options, agent: Some(agent) }
    }

    /// Returns an entry for an agent whose runs a framework publishes.
    pub fn published(name: impl Into<String>, options: AgentOptions) -> Self {
        Self { name: name.into(), options, agent: None }
    }

    /// Returns the name of the agent.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the options of the agent.
    pub fn options(&self) -> &AgentOptions {
        &self.options
    }

    /// Returns the agent; `None` if a framework publishes its runs.
    pub fn agent(&self) -> Option<&Arc<dyn Agent>> {
        self.agent.as_ref()
    }

    /// Returns `true` if a framework publishes the runs of the agent.
    pub fn is_published(&self) -> bool {
        self.agent.is_none()
    }
}

/// All agents of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agents {
    present: HashMap<String, Arc<AgentEntry>>,
    /// Agents that a replacement removed. Their runs can still be watched.
    retired: HashMap<String, Arc<AgentEntry>>,
}

impl Agents {
    /// Returns the agents of a new engine; none is retired.
    pub(crate) fn new(entries: impl IntoIterator<Item = Arc<AgentEntry>>) -> Self {
        let present = entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Self { present, retired: HashMap::new() }
    }

    /// Returns the agents after a complete replacement.
    pub(crate) fn replaced(&self, entries: impl IntoIterator<Item = Arc<AgentEntry>>) -> Self {
        let mut next = Self::new(entries);
        let former = self.retired.iter().chain(&self.present);
        for (name, entry) in former.filter(|(name, _)| !next.present.contains_key(*name)) {
            next.retired.insert(name.clone(), Arc::clone(entry));
        }
        next
    }

    /// Adds an agent, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, entry: Arc<AgentEntry>) {
        self.retired.remove(entry.name());
        self.present.insert(entry.name.clone(), entry);
    }

    /// Returns the agent `name`, unless it is retired.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<AgentEntry>> {
        self.present.get(name)
    }

    /// Returns the agent `name`, including retired ones.
    pub(crate) fn known(&self, name: &str) -> Option<&Arc<AgentEntry>> {
        self.get(name).or_else(|| self.retired.get(name))
    }

    /// Returns the agents that are not retired, in alphabetical order.
    pub(crate) fn all(&self) -> Vec<&Arc<AgentEntry>> {
        let mut all: Vec<_> = self.present.values().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<Arc<AgentEntry>> {
        names.iter().map(|name| Arc::new(AgentEntry::published(*name, AgentOptions::default()))).collect()
    }

    #[test]
    fn an_agent_that_goes_is_known_until_it_comes_back() {
        let agents = Agents::new(entries(&["a", "b"])).replaced(entries(&["b", "c"]));
        assert!(agents.get("a").is_none() && agents.known("a").is_some());
        let back = entries(&["a"]);
        let agents = agents.replaced(back.clone());
        assert!(Arc::ptr_eq(agents.known("a").unwrap(), &back[0]));
        assert!(agents.get("c").is_none() && agents.known("c").is_some());
    }
}

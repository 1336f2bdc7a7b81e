//! Builds the agents of a configuration.
//!
//! ```text
//! [agents.NAME] ──► AgentSource ──┬ A2a, Agui ─────► remote agent: client, health, circuit
//!                                 ├ Script, Replay ─► source in this process
//!                                 ├ FanOut ─────────► the sources of other agents
//!                                 └ Magentic ───────► none: a publisher sends the events of its runs
//! ```
//!
//! An entry of an unchanged agent is kept over a reload, with its connections, its health and its circuit. Runs hold
//! the entry they began with.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct::FanOut;
use aqueduct::a2a::RemoteAgent;
use aqueduct::remote::AgentHealth;
use aqueduct_core::{Agent as RunAgent, Limits};
use aqueduct_runs::{AgentEntry as RunEntry, AgentOptions};
use aqueduct_transport_http::Dial;

use crate::config::{A2aBinding, A2aExposure, Agent, AgentSource, Config};
use crate::recording::Recording;
use crate::remote::Way;
use crate::source::ReplaySource;
use crate::source::script::{Script, ScriptSource};
use crate::telemetry::{Metrics, Tracing, UpstreamWatch};
use crate::tls;

/// Properties of an agent that appear in its A2A card.
#[derive(Debug, Default)]
pub(crate) struct CardTraits {
    /// Set if the card omits the members of 0.3.
    pub(crate) only_v1: bool,
    /// Media types that the agent accepts; empty for all.
    pub(crate) input_modes: Vec<String>,
    /// Example prompts.
    pub(crate) examples: Vec<String>,
}

impl CardTraits {
    /// Returns the properties that a script defines. Agents of other kinds have none of their own.
    fn of(script: &Script) -> Self {
        let (input_modes, examples) = (script.input_modes.clone(), script.examples.clone());
        Self { only_v1: script.is_card_v1, input_modes, examples }
    }
}

/// One agent: its configuration and what was built from it. Immutable; a changed agent gets another entry.
pub(crate) struct AgentEntry {
    pub(crate) name: String,
    /// As configured, else that of the script.
    pub(crate) description: String,
    /// Properties of the agent for its A2A card.
    pub(crate) card: CardTraits,
    pub(crate) config: Agent,
    /// A hash of the files of the agent when they were read, by which a reload detects renewed files of the same name.
    files: u64,
    /// The client, for the health of the agent; `None` for agents in this process.
    remote: Option<Remote>,
    /// The A2A agent to which calls are forwarded (`expose = "proxy"`); `None` if the gateway serves the agent itself.
    pub(crate) a2a: Option<RemoteAgent>,
    /// The agent as an entry of the run engine.
    pub(crate) runs: Arc<RunEntry>,
}

aqueduct_core::debug_fields!(AgentEntry { name });

/// Observers of the calls to remote agents, and their network.
#[derive(Debug, Clone)]
pub(super) struct Watches {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracing: Option<Arc<Tracing>>,
    /// Opens the connections of the calls, in place of sockets.
    pub(super) dial: Option<Arc<dyn Dial>>,
}

impl Watches {
    /// Returns how calls to that agent are observed and connected.
    fn of(&self, agent: &str) -> Way {
        let watch = UpstreamWatch::new(agent, &self.metrics, self.tracing.as_ref());
        Way { watch: Some(Arc::new(watch)), dial: self.dial.clone() }
    }
}

/// An agent at another address, by its protocol.
enum Remote {
    A2a(RemoteAgent),
    Agui(aqueduct::agui::RemoteAgent),
}

impl AgentEntry {
    /// Returns the result of the last calls to the agent, or `None` for an agent that is not remote.
    pub(crate) fn health(&self) -> Option<AgentHealth> {
        self.remote.as_ref().map(|remote| match remote {
            Remote::A2a(agent) => agent.health(),
            Remote::Agui(agent) => agent.health(),
        })
    }
}

/// Builds all agents; those that fan out last, because they refer to the others. Agents whose configuration is
/// unchanged keep their state.
///
/// # Errors
///
/// Returns an error that names the agent if one of its files cannot be read or parsed, or if a fan-out names an agent
/// that cannot be called. No agent is replaced then.
pub(super) fn build(
    config: &Config,
    before: &HashMap<String, Arc<AgentEntry>>,
    watches: &Watches,
) -> anyhow::Result<HashMap<String, Arc<AgentEntry>>> {
    let mut built: HashMap<String, Arc<AgentEntry>> = HashMap::new();
    let is_fan_out = |agent: &Agent| matches!(agent.source, AgentSource::FanOut { .. });
    // Two passes: first agents of all other kinds, then fan-outs, which hold the sources of agents built before.
    for last in [false, true] {
        for (name, agent) in config.agents.iter().filter(|(_, agent)| is_fan_out(agent) == last) {
            let files = tls::fingerprint(tls::files_of_agent(agent));
            let is_same = |entry: &&Arc<AgentEntry>| entry.config == *agent && entry.files == files;
            let kept = before.get(name).filter(is_same).filter(|_| !is_read_anew(agent));
            let entry = match kept {
                Some(entry) => Arc::clone(entry),
                None => {
                    Arc::new(entry(name, agent, &built, watches).with_context(|| format!("agent {name}"))?)
                }
            };
            built.insert(name.clone(), entry);
        }
    }
    Ok(built)
}

/// Returns `true` for agents that depend on more than their configuration: files, or other agents. They are rebuilt by
/// every reload; they hold no connections, so nothing is lost.
fn is_read_anew(agent: &Agent) -> bool {
    use AgentSource::{FanOut, Replay, Script};
    matches!(agent.source, Script { .. } | Replay { .. } | FanOut { .. })
}

/// Builds one agent. `others` are the agents that a fan-out may name. Nothing is connected and no card is read.
fn entry(
    name: &str,
    agent: &Agent,
    others: &HashMap<String, Arc<AgentEntry>>,
    watches: &Watches,
) -> anyhow::Result<AgentEntry> {
    let mut description = agent.description.clone();
    let mut card = CardTraits::default();
    let mut a2a = None;
    let mut remote: Option<Remote> = None;
    let watch = || watches.of(name);
    let source: Option<Arc<dyn RunAgent>> = match &agent.source {
        AgentSource::A2a { binding, expose, .. } => {
            let source = crate::remote::a2a(agent, watch())?;
            remote = Some(Remote::A2a(source.clone()));
            // gRPC calls are not forwarded: the gateway serves such an agent itself.
            let passes = *expose == A2aExposure::Proxy && *binding != Some(A2aBinding::Grpc);
            a2a = passes.then(|| source.clone());
            Some(Arc::new(source))
        }
        AgentSource::Agui { .. } => {
            let source = crate::remote::agui(agent, watch())?;
            remote = Some(Remote::Agui(source.clone()));
            Some(Arc::new(source))
        }
        // Runs of this agent are started by its publisher.
        AgentSource::Magentic => None,
        AgentSource::Script { file } => {
            let script = Script::load(file)?;
            if description.is_empty() {
                description.clone_from(&script.description);
            }
            card = CardTraits::of(&script);
            Some(Arc::new(ScriptSource::new(Arc::new(script))))
        }
        AgentSource::Embedded { script } => {
            card = CardTraits::of(script);
            Some(Arc::new(ScriptSource::new(Arc::clone(script))))
        }
        AgentSource::Replay { file, speed } => {
            let recording = Arc::new(Recording::load(file)?);
            Some(Arc::new(ReplaySource { recording, speed: *speed }))
        }
        AgentSource::FanOut { agents } => {
            let named = |name: &String| {
                let source = others.get(name).and_then(|entry| entry.runs.agent().cloned());
                let source = source.with_context(|| {
                    format!("{name} publishes its runs itself and cannot be part of a fan-out: remove it")
                })?;
                Ok((name.clone(), source))
            };
            let agents = agents.iter().map(named).collect::<anyhow::Result<_>>()?;
            Some(Arc::new(FanOut::new(agents)))
        }
    };
    let options = options(agent, &description);
    let runs = Arc::new(match source {
        Some(source) => RunEntry::new(name, source, options),
        None => RunEntry::published(name, options),
    });
    Ok(AgentEntry {
        name: name.to_owned(),
        description,
        card,
        config: agent.clone(),
        files: tls::fingerprint(tls::files_of_agent(agent)),
        a2a,
        remote,
        runs,
    })
}

/// Returns the options of an agent for the run engine.
///
/// Limits that are not configured are those of the stream machine.
fn options(agent: &Agent, description: &str) -> AgentOptions {
    let limits =
        Limits { open_lanes: agent.limits.lanes, open_blocks: agent.limits.blocks, ..Limits::default() };
    AgentOptions::default()
        .with_description(description)
        .with_run_timeout(agent.timeouts.run)
        .with_reply_timeout(agent.timeouts.reply)
        .with_grace(agent.grace)
        .with_on_disconnect(agent.on_disconnect)
        .with_limits(limits)
        .with_forward_headers(agent.forward_headers.iter().cloned())
}

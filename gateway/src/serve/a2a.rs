//! The configuration of agents served over A2A: their cards, limits and access.
//!
//! Servers, bindings and routes are those of [`aqueduct::a2a`]; [`proxy`](super::proxy) forwards calls to A2A agents.

use std::sync::{Arc, Mutex, PoisonError};

use aqueduct::a2a::{CardConfig, CardSigner, Cards, PushPolicy, ServerConfig, Servers, TaskLimits};
use aqueduct_adapter_a2a::server::Skill;
use aqueduct_adapter_agui::config::Subagents;
use aqueduct_core::IntermediateView;
use aqueduct_core::service::{Caller, ServiceError};

use crate::config::{AgentSource, CardAccess, Config, PushAccess};
use crate::remote::card_signer;
use crate::service::{AgentEntry, Gateway};

/// Returns the servers of all agents.
///
/// Includes proxied agents: the proxy falls back to the gateway's own server for bindings that the agent does not have.
pub(super) fn servers(gateway: &Arc<Gateway>) -> Servers {
    Servers::of_runs(gateway.runs(), Arc::new(ConfiguredCards(Arc::clone(gateway), Mutex::default())))
}

/// The cards of the configured agents. The configuration is read at each call, so that a reload takes effect.
struct ConfiguredCards(Arc<Gateway>, Mutex<Option<Signer>>);

/// The signer of cards, and the configuration that it was built from.
type Signer = (Arc<Config>, Option<Arc<CardSigner>>);

impl Cards for ConfiguredCards {
    /// Current agents; agents that a reload removed have no card.
    fn names(&self) -> Vec<String> {
        self.0.agent_names()
    }

    /// Built per request from the current configuration: a few allocations, and never outdated.
    fn card(&self, agent: &str) -> Option<CardConfig> {
        let (agent, config) = (self.0.agent(agent)?, self.0.config());
        let is_protected = self.0.protects(&agent.name);
        let name = agent.name.clone();
        Some(CardConfig {
            description: if agent.description.is_empty() { name.clone() } else { agent.description.clone() },
            name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            only_v1: agent.card.only_v1,
            input_modes: if agent.card.input_modes.is_empty() {
                vec!["text/plain".to_owned(), "application/json".to_owned()]
            } else {
                agent.card.input_modes.clone()
            },
            output_modes: ServerConfig::default().output_modes,
            bindings: agent.config.bindings.clone(),
            skills: skills(&agent),
            push: config.server.push != PushAccess::Off,
            bearer: is_protected,
            public: !is_protected || agent.config.card == CardAccess::Public,
            modified: Some(self.0.configured_at()),
            ..CardConfig::default()
        })
    }

    /// Returns `server.public_url`, or else the address by which the caller reached the gateway. Admission has checked
    /// the host, so a card cannot name a foreign host.
    fn base(&self, _agent: &str, host: Option<&str>) -> String {
        let config = self.0.config();
        config.server.public_url.clone().unwrap_or_else(|| {
            let scheme = if config.server.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", host.unwrap_or("localhost"))
        })
    }

    /// An agent that does not exist has default settings; its calls are refused by `authenticate`.
    fn server_config(&self, agent: &str) -> ServerConfig {
        self.0.agent(agent).map(|agent| server_config(&self.0, &agent)).unwrap_or_default()
    }

    /// Returns the stored form of the principal, by which tasks are compared with their owners.
    fn authenticate(&self, caller: &Caller, agent: &str) -> Result<String, ServiceError> {
        Ok(self.0.runs().authenticate(caller, agent)?.to_string())
    }

    fn is_card_public(&self, agent: &str) -> bool {
        self.0.agent(agent).is_some_and(|agent| agent.config.card == CardAccess::Public)
    }

    /// Rebuilt when the configuration changes: the key is read from its file once per configuration, not once per card.
    /// A key that cannot be read is logged, and cards are served without a signature.
    fn signer(&self) -> Option<Arc<CardSigner>> {
        let config = self.0.config();
        let mut known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, signer)) = known.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &config)) {
            return signer.clone();
        }
        let signer = card_signer(&config.server).unwrap_or_else(|error| {
            tracing::error!(%error, "cards are not signed: `server.card_key` cannot be read");
            None
        });
        let signer = signer.map(Arc::new);
        *known = Some((config, signer.clone()));
        signer
    }

    /// Push notifications are off unless `server.push` allows them: a registered address makes the gateway send
    /// requests to it.
    fn has_push(&self) -> bool {
        self.0.config().server.push != PushAccess::Off
    }
}

/// Returns one skill with the agent's example prompts, or none, which keeps the default skills of the card.
fn skills(agent: &AgentEntry) -> Vec<Skill> {
    let examples = agent.card.examples.clone();
    let (id, description) = (agent.name.clone(), agent.description.clone());
    let tags = vec!["agent".to_owned()];
    let skill = Skill { name: id.clone(), id, description, tags, examples, ..Skill::default() };
    if skill.examples.is_empty() { Vec::new() } else { vec![skill] }
}

/// Returns how the gateway serves an agent over A2A. A2A has no reasoning channel, so intermediate text that AG-UI
/// shows as reasoning is shown as text.
fn server_config(gateway: &Gateway, agent: &AgentEntry) -> ServerConfig {
    let config = gateway.config();
    ServerConfig {
        intermediate: match agent.config.intermediate {
            IntermediateView::Hidden => IntermediateView::Hidden,
            IntermediateView::Reasoning | IntermediateView::Text => IntermediateView::Text,
        },
        subagents: agent.config.subagents != Some(Subagents::Hidden),
        // The framework of such an agent starts its runs; no call does.
        adopts_runs: matches!(agent.config.source, AgentSource::Magentic),
        input_modes: agent.card.input_modes.clone(),
        // A task is kept as long as the log keeps its runs.
        limits: TaskLimits { keep: config.runs.keep, ..TaskLimits::default() },
        // Unless every address is allowed, receivers of push notifications must be on the public internet.
        push: PushPolicy { any_address: config.server.push == PushAccess::Any, ..PushPolicy::default() },
        ..ServerConfig::default()
    }
}

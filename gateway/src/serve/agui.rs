//! AG-UI as the configuration wants it: how each agent is shown to each client.

use std::sync::Arc;

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::protocol::AguiProtocol;
use aqueduct_adapter_agui::version::{dialect_for, negotiate};
use http::HeaderMap;
use http::header::ACCEPT;

use crate::config::{Agent, DialectChoice};
use crate::service::Gateway;

/// How an agent is shown to a client that declared this version.
pub(super) fn settings_for(agent: &Agent, declared: Option<&str>) -> Settings {
    let dialect = match agent.dialect {
        DialectChoice::Auto => dialect_for(declared),
        DialectChoice::V1_0 => Dialect::V1_0,
        DialectChoice::V0_0_59 => Dialect::V0_0_59,
    };
    let mut settings = Settings::new(dialect).with_intermediate(agent.intermediate).with_errors(agent.errors);
    if let Some(subagents) = agent.subagents {
        settings = settings.with_subagents(subagents);
    }
    if let Some(interrupts) = agent.interrupts {
        settings = settings.with_interrupts(interrupts);
    }
    settings
}

/// The encoder for a watcher.
pub(super) fn encoder(agent: &Agent, declared: Option<&str>, headers: &HeaderMap) -> WatcherEncoder {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let settings = settings_for(agent, declared);
    WatcherEncoder::for_settings(&settings, negotiate(accept, declared))
}

/// Returns the protocol with the settings of the configuration. An agent that is not there is refused by the engine.
pub(super) fn protocol(gateway: &Arc<Gateway>) -> AguiProtocol {
    let gateway = Arc::clone(gateway);
    AguiProtocol::new(move |agent, declared| {
        settings_for(&gateway.agent_config(agent).unwrap_or_default(), declared)
    })
}

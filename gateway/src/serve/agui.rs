//! The AG-UI settings of each agent, selected by configuration and declared version.
//!
//! The configuration is read once per request, so that a reload takes effect for the next run. A watcher of an older
//! run receives the settings of the current configuration too.

use std::sync::Arc;

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::protocol::AguiProtocol;
use aqueduct_adapter_agui::version::dialect_for;

use crate::config::{Agent, DialectChoice};
use crate::service::Gateway;

/// Returns the settings of an agent for a client that declared this version.
///
/// `dialect` of the agent overrides the declared version, for clients that declare a version which they cannot read.
/// Keys that are not configured keep the default of the dialect.
fn settings_for(agent: &Agent, declared: Option<&str>) -> Settings {
    let dialect = match agent.dialect {
        DialectChoice::Auto => dialect_for(declared),
        DialectChoice::V1_0 => Dialect::V1_0,
        DialectChoice::V0_0_59 => Dialect::V0_0_59,
    };
    let mut settings = Settings::new(dialect).with_intermediate(agent.intermediate);
    settings.errors = agent.errors.unwrap_or(settings.errors);
    settings.labels = agent.labels.unwrap_or(settings.labels);
    settings.subagents = agent.subagents.unwrap_or(settings.subagents);
    settings.interrupts = agent.interrupts.unwrap_or(settings.interrupts);
    settings
}

/// Returns the protocol with the settings of the configuration. The engine refuses agents that do not exist.
///
/// So an unknown name has default settings here, and an agent that a reload removed keeps the settings it had, for the
/// watchers of its runs.
pub(super) fn protocol(gateway: &Arc<Gateway>) -> AguiProtocol {
    let gateway = Arc::clone(gateway);
    AguiProtocol::new(move |agent, declared| {
        let settings = settings_for(&gateway.agent_config(agent).unwrap_or_default(), declared);
        count(&gateway, settings);
        settings
    })
}

/// Counts the dialect that a client receives, so that an operator sees when no client of 0.0.59 is left.
fn count(gateway: &Gateway, settings: Settings) {
    let dialect = match settings.dialect {
        Dialect::V1_0 => "1.0",
        Dialect::V0_0_59 => "0.0.59",
    };
    gateway.metrics().count_dialect("agui", dialect);
}

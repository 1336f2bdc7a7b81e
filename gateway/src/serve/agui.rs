//! AG-UI at the gateway's own door: inputs that are posted, and how each watcher wants the events.

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::version::{dialect_for, negotiate};
use aqueduct_transport_http::{Refusal, RunRequest};
use http::HeaderMap;
use http::header::ACCEPT;

use crate::config::{Agent, DialectChoice};

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

/// Reads a posted input.
pub(super) fn read(agent: &Agent, headers: &HeaderMap, body: &[u8]) -> Result<RunRequest, Refusal> {
    let input = read_input(body).map_err(|error| Refusal::invalid(error.to_string()))?;
    for (member, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
        if id.is_empty() {
            return Err(Refusal::invalid(format!("{member} is empty: choose an id of your own")));
        }
    }
    let declared = input.protocol_version.clone();
    let encoder = encoder(agent, declared.as_deref(), headers);
    Ok(RunRequest { input: run_input(input), encoder: Box::new(encoder) })
}

//! Builds remote agents from their configuration.
//!
//! ```text
//! [agents.NAME] ──► Agent ──┬─ a2a ──► a2a::RemoteAgent
//!                           └─ agui ─► agui::RemoteAgent      settings: timeouts, limits, TLS, credentials, circuit
//! ```
//!
//! The gateway and the commands (`record`, `doctor`) build agents here, so that a command calls an agent as the
//! gateway would. Files are read when an agent is built; nothing is connected.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct::a2a::{Address, CardKey, CardSigner};
use aqueduct::remote::{CareSettings, RemoteSettings};
use aqueduct::{a2a, agui};
use aqueduct_adapter_a2a::DecodeConfig;
use aqueduct_transport_http::{CallWatch, Dial};

use crate::config::{A2aAddress, Agent, AgentSource, Server};
use crate::tls;

/// How the calls to an agent are sent: who observes them, and who opens their connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    /// Measures and traces calls. `None` for commands.
    pub(crate) watch: Option<Arc<dyn CallWatch>>,
    /// Opens connections instead of the default connector.
    pub(crate) dial: Option<Arc<dyn Dial>>,
}

/// Returns the A2A agent of this configuration.
///
/// # Errors
///
/// The agent is not an A2A agent, or an address, key or certificate cannot be used.
pub(crate) fn a2a(agent: &Agent, way: Way) -> anyhow::Result<a2a::RemoteAgent> {
    let AgentSource::A2a { address, binding, version, stream, hosts, .. } = &agent.source else {
        anyhow::bail!("not an A2A agent");
    };
    let address = match address {
        A2aAddress::Url(url) => Address::Agent(url.clone()),
        A2aAddress::Card(url) => Address::Card(url.clone()),
    };
    let mut builder = a2a::RemoteAgent::builder(address)
        .version(*version)
        .settings(settings(agent, way)?.with_hosts(hosts.iter().cloned()))
        .decode(DecodeConfig { stream: *stream, ..DecodeConfig::root() });
    if let Some(binding) = binding {
        builder = builder.binding(*binding);
    }
    Ok(builder.card_keys(card_keys(agent)?).build()?)
}

/// Returns the public keys, one of which must have signed the card of the agent. Empty if signatures are not
/// checked.
pub(crate) fn card_keys(agent: &Agent) -> anyhow::Result<Vec<CardKey>> {
    let read = |file: &PathBuf| {
        let pem = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        CardKey::from_pem(&pem).with_context(|| file.display().to_string())
    };
    agent.card_keys.iter().map(read).collect()
}

/// Returns the key with which the gateway signs cards. Returns `None` if cards are not signed.
pub(crate) fn card_signer(server: &Server) -> anyhow::Result<Option<CardSigner>> {
    let Some(file) = &server.card_key else { return Ok(None) };
    let pem = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(Some(
        CardSigner::from_pem(&pem, server.card_key_id.as_str())
            .with_context(|| file.display().to_string())?,
    ))
}

/// Returns the AG-UI agent of this configuration.
///
/// # Errors
///
/// The agent is not an AG-UI agent, or an address or certificate cannot be used.
pub(crate) fn agui(agent: &Agent, way: Way) -> anyhow::Result<agui::RemoteAgent> {
    let AgentSource::Agui { url, resume } = &agent.source else { anyhow::bail!("not an AG-UI agent") };
    Ok(agui::RemoteAgent::with_settings(url.as_str(), &settings(agent, way)?)?.resuming(*resume))
}

/// Returns the limits, retries and circuit settings of an agent.
fn care(agent: &Agent) -> CareSettings {
    let limits = &agent.limits;
    CareSettings::default()
        .with_concurrency(limits.concurrency)
        .with_rate(limits.rate.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)))
        .with_connect_retries(agent.retries)
        .with_circuit(agent.circuit.failures, agent.circuit.pause)
        .with_patience(agent.timeouts.connect)
}

/// Returns the settings that both protocols share.
fn settings(agent: &Agent, way: Way) -> anyhow::Result<RemoteSettings> {
    let mut settings = RemoteSettings::default()
        .with_connect_timeout(agent.timeouts.connect)
        .with_response_timeout(agent.timeouts.response)
        .with_idle_timeout(agent.timeouts.idle)
        .with_frame_bytes(agent.limits.frame)
        .with_care(care(agent))
        .with_tls(tls::of_client(agent.tls.as_ref()).context("tls")?);
    (settings.watch, settings.dial) = (way.watch, way.dial);
    Ok(match &agent.credentials {
        Some(credentials) => settings.with_credentials(credentials.reveal()),
        None => settings,
    })
}

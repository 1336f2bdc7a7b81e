//! Remote agents as the configuration describes them.

use anyhow::Context as _;
use aqueduct::a2a::{Address, Binding, Version};
use aqueduct::remote::RemoteSettings;
use aqueduct::{a2a, agui};
use aqueduct_adapter_a2a::DecodeConfig;

use crate::config::{A2aAddress, A2aBinding, A2aVersion, Agent, AgentSource};
use crate::tls;

/// Returns the A2A agent of this configuration.
pub(crate) fn a2a(agent: &Agent) -> anyhow::Result<a2a::RemoteAgent> {
    let AgentSource::A2a { address, binding, version, stream, .. } = &agent.source else {
        anyhow::bail!("not an A2A agent");
    };
    let address = match address {
        A2aAddress::Url(url) => Address::Agent(url.clone()),
        A2aAddress::Card(url) => Address::Card(url.clone()),
    };
    let version = match version {
        A2aVersion::V1_0 => Version::V1,
        A2aVersion::V0_3 => Version::V03,
    };
    let mut builder = a2a::RemoteAgent::builder(address)
        .version(version)
        .settings(settings(agent)?)
        .decode(DecodeConfig { stream: *stream, ..DecodeConfig::root() });
    if let Some(binding) = binding {
        builder = builder.binding(match binding {
            A2aBinding::JsonRpc => Binding::JsonRpc,
            A2aBinding::Rest => Binding::HttpJson,
            A2aBinding::Grpc => Binding::Grpc,
        });
    }
    Ok(builder.build()?)
}

/// Returns the AG-UI agent of this configuration.
pub(crate) fn agui(agent: &Agent) -> anyhow::Result<agui::RemoteAgent> {
    let AgentSource::Agui { url } = &agent.source else { anyhow::bail!("not an AG-UI agent") };
    Ok(agui::RemoteAgent::with_settings(url.as_str(), &settings(agent)?)?)
}

fn settings(agent: &Agent) -> anyhow::Result<RemoteSettings> {
    let settings = RemoteSettings::default()
        .with_connect_timeout(agent.timeouts.connect)
        .with_response_timeout(agent.timeouts.response)
        .with_idle_timeout(agent.timeouts.idle)
        .with_frame_bytes(agent.limits.frame)
        .with_tls(tls::of_client(agent.tls.as_ref()).context("tls")?);
    Ok(match &agent.credentials {
        Some(credentials) => settings.with_credentials(credentials.reveal()),
        None => settings,
    })
}

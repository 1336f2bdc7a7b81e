//! Who a command talks to: an agent of the configuration, or one at an address.

use aqueduct_adapter_a2a::config::StreamShape;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{card_urls, parse};
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;

use crate::cli::UrlProtocol;
use crate::config::{self, A2aAddress, A2aExposure, A2aVersion, Agent, AgentSource, Config};
use crate::serve::{DEMO_PORT, load_config};

/// The name of an agent that was given by its address.
const BY_URL: &str = "agent";

/// The agent of a demo that runs beside the command, where no configuration says otherwise.
const DEMO: &str = "demo";

/// The configuration that has the agent, and its name there.
pub(crate) async fn resolve(
    target: &str,
    protocol: UrlProtocol,
    file: &Path,
    environment: Vec<(String, String)>,
) -> anyhow::Result<(Config, String)> {
    if target == DEMO && !file.exists() {
        let url = format!("http://127.0.0.1:{DEMO_PORT}/agents/{DEMO}");
        return Ok((one_agent(BY_URL, AgentSource::Agui { url }), BY_URL.to_owned()));
    }
    if !target.starts_with("http://") && !target.starts_with("https://") {
        let config = load_config(file, environment)?;
        anyhow::ensure!(
            config.agents.contains_key(target),
            "there is no agent {target} in {}: it has {}",
            file.display(),
            config.agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        );
        return Ok((config, target.to_owned()));
    }
    let is_a2a = match protocol {
        UrlProtocol::A2a => true,
        UrlProtocol::Agui => false,
        UrlProtocol::Auto => has_card(target).await,
    };
    let source = if is_a2a {
        let address = A2aAddress::Url(target.to_owned());
        AgentSource::A2a {
            address,
            binding: None,
            version: A2aVersion::V1_0,
            expose: A2aExposure::Proxy,
            stream: StreamShape::Auto,
        }
    } else {
        AgentSource::Agui { url: target.to_owned() }
    };
    Ok((one_agent(BY_URL, source), BY_URL.to_owned()))
}

/// A configuration with one agent.
pub(crate) fn one_agent(name: &str, source: AgentSource) -> Config {
    let agent = Agent { source, ..Agent::default() };
    config::with_agents(BTreeMap::from([(name.to_owned(), agent)]))
}

/// True if an agent card is found where cards are. Only the address itself is asked, not its host: an AG-UI agent may
/// live beside an A2A agent.
async fn has_card(url: &str) -> bool {
    let timeouts = ClientTimeouts { response: Duration::from_secs(5), ..ClientTimeouts::default() };
    let Ok(client) = Client::new(ClientConfig { timeouts, ..ClientConfig::default() }) else { return false };
    for card in card_urls(url).into_iter().take(2) {
        let wanted = card_request(card);
        let mut request = http::Request::get(&wanted.url);
        for (name, value) in &wanted.headers {
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(Bytes::new()) else { return false };
        let Ok(response) = client.request(request).await else { return false };
        let text = String::from_utf8_lossy(response.body());
        if response.status().is_success() && parse(&text).is_ok_and(|card| !card.name.is_empty()) {
            return true;
        }
    }
    false
}

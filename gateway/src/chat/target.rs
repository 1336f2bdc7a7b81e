//! Resolves the target of a command: an agent of the configuration, or one at an address; and the credentials of the
//! call.
//!
//! | target | agent |
//! |---|---|
//! | a URL | A2A if a card is found below it, else AG-UI; `--protocol` decides without a look |
//! | a name in the configuration | that agent, with its own settings |
//! | `demo`, not configured | the demo on its default port |
//!
//! The result is always a configuration with the agent in it, so that commands start runs as the gateway does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{card_urls, parse};
use aqueduct_adapter_a2a::config::StreamShape;
use aqueduct_core::service::Caller;
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;

use crate::cli::{CallerArgs, ReachArgs, UrlProtocol};
use crate::config::{
    self, A2aAddress, A2aExposure, A2aVersion, Agent, AgentSource, ClientTls, Config, Secret,
};
use crate::serve::{DEMO_PORT, load_config};
use crate::tls;

/// The name of an agent that is given by its address.
const BY_URL: &str = "agent";

/// The name of the demo agent, unless the configuration has an agent of that name.
const DEMO: &str = "demo";

/// Returns the configuration that contains the agent, and its name there, without access control and with the
/// credentials of the command line added.
///
/// # Errors
///
/// The configuration cannot be loaded, has no such agent, no demo runs, or the token or CA file cannot be read.
pub(crate) async fn resolve(
    target: &str,
    reach: &ReachArgs,
    environment: Vec<(String, String)>,
) -> anyhow::Result<(Config, String)> {
    let (mut config, name) = find(target, reach, environment).await?;
    remove_access_control(&mut config);
    if let Some(agent) = config.agents.get_mut(&name) {
        dress(agent, &reach.caller)?;
    }
    Ok((config, name))
}

/// Removes every proof from a configuration, so that all its agents are open. The user of a command can read the
/// configuration and its secrets, so access control would have no effect.
fn remove_access_control(config: &mut Config) {
    config.server.tokens.clear();
    config.principals.clear();
    config.issuers.clear();
    config.agents.values_mut().for_each(|agent| agent.tokens.clear());
}

/// Finds the agent, without credentials of the command line.
async fn find(
    target: &str,
    reach: &ReachArgs,
    environment: Vec<(String, String)>,
) -> anyhow::Result<(Config, String)> {
    if is_url(target) {
        let is_a2a = match reach.protocol {
            UrlProtocol::A2a => true,
            UrlProtocol::Agui => false,
            // An address that refuses the card, or cannot be reached, is tried as AG-UI: the run then reports
            // the failure with its code.
            UrlProtocol::Auto => find_card(target, &reach.caller).await.is_ok_and(|card| card.is_some()),
        };
        let source =
            if is_a2a { a2a(target) } else { AgentSource::Agui { url: target.to_owned(), resume: true } };
        return Ok((one_agent(BY_URL, source), BY_URL.to_owned()));
    }
    let file = &reach.config;
    // The demo is available in every folder, unless the configuration there has an agent of that name.
    let config = if target == DEMO {
        load_config(file, environment).ok()
    } else {
        Some(load_config(file, environment)?)
    };
    match config {
        Some(config) if config.agents.contains_key(target) => Ok((config, target.to_owned())),
        _ if target == DEMO => {
            let address = format!("127.0.0.1:{DEMO_PORT}");
            // Connecting first gives an error that says how to start the demo, instead of a failed run.
            let runs = tokio::net::TcpStream::connect(&address).await;
            runs.with_context(|| format!("no demo runs at {address}: start it with `aqueduct demo`"))?;
            let url = format!("http://{address}/agents/{DEMO}");
            Ok((one_agent(BY_URL, AgentSource::Agui { url, resume: true }), BY_URL.to_owned()))
        }
        config => {
            let names =
                config.map(|config| config.agents.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
            anyhow::bail!("there is no agent {target} in {}: it has {}", file.display(), names.join(", "))
        }
    }
}

/// Returns `true` if the target is an address and not a name in the configuration.
fn is_url(target: &str) -> bool {
    target.starts_with("http://") || target.starts_with("https://")
}

/// Returns the source of an A2A agent at an address, with the interface of its card. The binding is chosen from
/// the card at the first call.
pub(crate) fn a2a(url: &str) -> AgentSource {
    AgentSource::A2a {
        address: A2aAddress::Url(url.to_owned()),
        binding: None,
        version: A2aVersion::V1,
        expose: A2aExposure::Proxy,
        stream: StreamShape::Auto,
        hosts: Vec::new(),
    }
}

/// Adds the credentials, authorities and headers of the command line to an agent. The command line takes
/// precedence over the configuration; a configured client certificate is kept. Headers are only named here:
/// their values travel with the caller of the run, like headers that a gateway forwards.
pub(crate) fn dress(agent: &mut Agent, caller: &CallerArgs) -> anyhow::Result<()> {
    if let Some(token) = caller.token()? {
        agent.credentials = Some(Secret::new(&token));
    }
    if let Some(ca) = caller.ca() {
        let identity = agent.tls.take().and_then(|tls| tls.identity);
        agent.tls = Some(ClientTls { ca: Some(ca.to_owned()), identity });
    }
    agent.forward_headers.extend(caller.headers.iter().map(|(name, _)| name.clone()));
    Ok(())
}

/// Returns the caller of runs that a command starts, with the headers of the command line.
pub(crate) fn caller(args: &CallerArgs) -> Caller {
    Caller { headers: args.headers.clone(), ..Caller::default() }
}

/// Returns a configuration with one agent. All other settings are defaults.
pub(crate) fn one_agent(name: &str, source: AgentSource) -> Config {
    let agent = Agent { source, ..Agent::default() };
    config::with_agents(BTreeMap::from([(name.to_owned(), agent)]))
}

/// Returns a client that trusts the authorities of the command line. Tokens and headers are added per request.
///
/// The response timeout is 5 seconds: cards and probes are small, and a person waits.
pub(crate) fn client(caller: &CallerArgs) -> anyhow::Result<Client> {
    let timeouts = ClientTimeouts { response: Duration::from_secs(5), ..ClientTimeouts::default() };
    let files = ClientTls { ca: caller.ca().map(Into::into), identity: None };
    let tls = tls::of_client(Some(&files)).context("--ca")?;
    Ok(Client::new(ClientConfig { timeouts, tls, ..ClientConfig::default() })?)
}

/// Returns the address and the text of an agent card, if one is found at the well-known paths below the address. The
/// root of the host is not searched: an AG-UI agent may share the host with an A2A agent.
///
/// # Errors
///
/// Returns an error if the address cannot be reached or refuses the caller.
pub(crate) async fn find_card(url: &str, caller: &CallerArgs) -> anyhow::Result<Option<(String, String)>> {
    let client = client(caller)?;
    let token = caller.token()?;
    let mut refused = None;
    // The first two are the names of the card below the address, of 1.0 and of older versions.
    for card in card_urls(url).into_iter().take(2) {
        let wanted = card_request(card);
        let mut request = http::Request::get(&wanted.url);
        for (name, value) in &wanted.headers {
            request = request.header(*name, value);
        }
        if let Some(token) = &token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &caller.headers {
            request = request.header(name, value);
        }
        let response = client.request(request.body(Bytes::new())?).await?;
        let text = String::from_utf8_lossy(response.body());
        // Servers of single-page applications answer every path with 200 and HTML, so only a card that parses
        // counts.
        if response.status().is_success() && parse(&text).is_ok_and(|card| !card.name.is_empty()) {
            return Ok(Some((wanted.url, text.into_owned())));
        }
        if [401, 403].contains(&response.status().as_u16()) {
            refused = Some(response.status());
        }
    }
    match refused {
        Some(status) => anyhow::bail!("the card is refused with {status}: give a token with `--token`"),
        None => Ok(None),
    }
}

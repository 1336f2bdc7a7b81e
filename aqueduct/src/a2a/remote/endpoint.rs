//! Resolves the endpoint of an A2A agent: from its settings, or from its card.
//!
//! ```text
//! address and binding configured ──► fixed: no card is read
//! otherwise ──► card ── signed by a trusted key? ──► interfaces of allowed hosts, in the order of preference ──► cached
//!                                                     └ none: the failure names the interface and the setting that allows it
//! ```
//!
//! Invariant: credentials are sent to the configured origin and to the hosts of the settings alone; a card cannot lead them elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{self, Endpoint};
use aqueduct_adapter_a2a::frontend;
use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::version::{Binding, VERSION_HEADER, Version};
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;

use super::Address;
#[cfg(feature = "grpc")]
use super::grpc::GrpcConnection;
use crate::a2a::signing::{CardKey, is_signed_by};
use crate::remote::{Connection, REFUSED, RemoteSettings, describe_refusal, failure_of, invalid, unsent};

/// The endpoint of an agent, and the capabilities that its card declares.
#[derive(Debug)]
pub(super) struct ResolvedCard {
    pub(super) endpoint: Endpoint,
    pub(super) streaming: bool,
    /// Connected on the first call.
    #[cfg(feature = "grpc")]
    pub(super) grpc: GrpcConnection,
    /// Set if the agent's card named the address.
    is_from_card: bool,
    /// The interfaces of the card that may be called.
    offered: Vec<Endpoint>,
}

impl ResolvedCard {
    /// Creates the state of an endpoint; no connection is opened.
    fn new(endpoint: Endpoint, streaming: bool, settings: &RemoteSettings, offered: Vec<Endpoint>) -> Self {
        #[cfg(not(feature = "grpc"))]
        let _ = settings;
        Self {
            #[cfg(feature = "grpc")]
            grpc: GrpcConnection::new(endpoint.url.clone(), settings),
            endpoint,
            streaming,
            is_from_card: false,
            offered,
        }
    }

    /// Returns `true` if the agent declares that it reads the data of frontends.
    pub(super) fn reads_frontend(&self) -> bool {
        self.endpoint.extensions.iter().any(|uri| uri == frontend::EXTENSION)
    }

    /// Returns the reason why the endpoint cannot be reached. For an address of the card it names the setting that
    /// overrides it.
    pub(super) fn explain(&self, reason: &str) -> String {
        if self.is_from_card { card::unreachable(&self.endpoint, reason) } else { reason.to_owned() }
    }

    /// Returns the interface with that binding and version, if it may be called.
    pub(super) fn interface(&self, binding: Binding, version: Version) -> Option<&Endpoint> {
        self.offered.iter().find(|endpoint| endpoint.binding == binding && endpoint.version == version)
    }
}

/// Resolves the endpoint, and caches it until [`forget`](Self::forget).
#[derive(Debug)]
pub(super) struct Directory {
    address: Address,
    /// The configured binding, if there is one.
    wanted: Option<Binding>,
    /// The supported bindings, in the order of preference.
    bindings: Vec<Binding>,
    settings: RemoteSettings,
    /// The endpoint of an agent that needs no card.
    fixed: Option<Arc<ResolvedCard>>,
    resolved: Mutex<Option<Arc<ResolvedCard>>>,
    /// The keys whose signatures are accepted; empty to accept every card.
    keys: Vec<CardKey>,
}

impl Directory {
    /// Creates the directory of one agent. With an address and a binding, the endpoint is fixed.
    pub(super) fn new(
        address: Address,
        wanted: Option<Binding>,
        version: Version,
        settings: &RemoteSettings,
    ) -> Self {
        let fixed = match (&address, wanted) {
            (Address::Agent(url), Some(binding)) => {
                let mut endpoint = Endpoint::new(url.clone(), binding, version);
                endpoint.extensions.push(EXTENSION.to_owned());
                let offered = vec![endpoint.clone()];
                Some(Arc::new(ResolvedCard::new(endpoint, true, settings, offered)))
            }
            _ => None,
        };
        let mut bindings = vec![Binding::JsonRpc, Binding::HttpJson];
        if cfg!(feature = "grpc") {
            bindings.push(Binding::Grpc);
        }
        bindings.sort_by_key(|binding| Some(*binding) != wanted);
        let (settings, resolved) = (settings.clone(), Mutex::default());
        Self { address, wanted, bindings, settings, fixed, resolved, keys: Vec::new() }
    }

    /// Restricts the accepted cards to those that one of the keys has signed.
    pub(super) fn with_keys(mut self, keys: Vec<CardKey>) -> Self {
        self.keys = keys;
        self
    }

    /// Returns the endpoint. Reads the card on the first call; concurrent first calls may read it more than once.
    pub(super) async fn resolve(
        &self,
        connection: &Connection,
        context: &dyn CallContext,
    ) -> Result<Arc<ResolvedCard>, RunFailure> {
        if let Some(fixed) = &self.fixed {
            return Ok(Arc::clone(fixed));
        }
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(resolved) = resolved {
            return Ok(resolved);
        }
        let found = Arc::new(self.look_up(connection, context).await?);
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Returns `true` if no card is needed.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Drops the cached endpoint: the agent may have moved.
    pub(super) fn forget(&self) {
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads the card and chooses an interface. An interface on another host than the configured ones is not called:
    /// the next one of the card is used, with a warning, unless the binding is configured.
    async fn look_up(
        &self,
        connection: &Connection,
        context: &dyn CallContext,
    ) -> Result<ResolvedCard, RunFailure> {
        let (url, text) = self.find_card(connection, context, None).await?;
        let card = card::parse(&text).map_err(invalid)?;
        let preferred = self.addressed(card::choose(&card, &self.bindings).map_err(invalid)?);
        let all = card::endpoints(&card).into_iter().map(|endpoint| self.addressed(endpoint));
        let activated = card::activated_extensions(&card);
        let mut offered: Vec<Endpoint> =
            all.filter(|endpoint| connection.check(&endpoint.url).is_ok()).collect();
        for endpoint in &mut offered {
            endpoint.extensions.clone_from(&activated);
        }
        let endpoint = match (connection.check(&preferred.url), card::choose_among(&offered, &self.bindings))
        {
            (Err(reason), Some(endpoint)) if self.wanted != Some(preferred.binding) => {
                let (reason, instead) = (refused(&url, &preferred, &reason), &endpoint.url);
                tracing::warn!(instead, "{reason}");
                endpoint.clone()
            }
            (Err(reason), _) => return Err(RunFailure::new(REFUSED, refused(&url, &preferred, &reason))),
            (Ok(()), _) => Endpoint { extensions: activated, ..preferred },
        };
        let mut resolved = ResolvedCard::new(endpoint, card.capabilities.streaming, &self.settings, offered);
        resolved.is_from_card = true;
        Ok(resolved)
    }

    /// Returns the text of the agent's card. Some agents have one per protocol version.
    pub(super) async fn card(
        &self,
        connection: &Connection,
        context: &dyn CallContext,
        version: Option<&str>,
    ) -> Result<String, RunFailure> {
        self.find_card(connection, context, version).await.map(|(_, text)| text)
    }

    /// Returns an interface with a complete address: cards may omit the scheme of gRPC interfaces.
    fn addressed(&self, mut endpoint: Endpoint) -> Endpoint {
        if endpoint.binding == Binding::Grpc {
            endpoint.url = grpc_address(&endpoint.url, self.address.url());
        }
        endpoint
    }

    /// Returns the address at which the agent's card was found, and its text.
    async fn find_card(
        &self,
        connection: &Connection,
        context: &dyn CallContext,
        version: Option<&str>,
    ) -> Result<(String, String), RunFailure> {
        let urls = match &self.address {
            Address::Agent(url) => card::card_urls(url),
            Address::Card(url) => vec![url.clone()],
        };
        let mut failure =
            RunFailure::new(REFUSED, "the agent has no card: check its address, or configure the card's own");
        for url in urls {
            match read_card(connection, context, &url, version).await {
                Ok(card) if self.trusts(&card) => return Ok((url, card)),
                Ok(_) => {
                    let message = format!(
                        "the card at {url} has no signature by a key that is trusted (`card_keys`): trust the key of its agent, or remove the setting"
                    );
                    return Err(RunFailure::new(REFUSED, message));
                }
                Err(error) => {
                    let message = format!("no agent card at {url}: {}", &*error.message);
                    failure = RunFailure::new(error.code, message);
                }
            }
        }
        Err(failure)
    }
}

impl Directory {
    /// Returns `true` if a trusted key has signed the card, or if no keys are configured.
    fn trusts(&self, card: &str) -> bool {
        let read = || serde_json::from_str(card).is_ok_and(|card| is_signed_by(&card, &self.keys));
        self.keys.is_empty() || read()
    }
}

/// Describes an interface of a card that may not be called.
fn refused(card: &str, endpoint: &Endpoint, reason: &str) -> String {
    card::unreachable(endpoint, &format!("the card at {card} leads elsewhere: {reason}"))
}

/// Reads a card. A response that is not a card is an error, so that the next address is tried.
async fn read_card(
    connection: &Connection,
    context: &dyn CallContext,
    url: &str,
    version: Option<&str>,
) -> Result<String, RunFailure> {
    let wanted = card_request(url);
    let mut headers: Vec<(&str, &str)> = wanted.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    if let Some(version) = version {
        headers.retain(|(name, _)| *name != VERSION_HEADER);
        headers.push((VERSION_HEADER, version));
    }
    let request = connection.request(wanted.method, &wanted.url, &headers, context, wanted.body.into());
    let request = request.map_err(unsent)?;
    let response = connection.client().request(request).await.map_err(|error| failure_of(&error))?;
    if !response.status().is_success() {
        return Err(RunFailure::new(REFUSED, describe_refusal(&response)));
    }
    let text = String::from_utf8(response.into_body().to_vec()).map_err(invalid)?;
    card::parse(&text).map_err(invalid)?;
    Ok(text)
}

/// Adds the scheme of the card's address: cards name gRPC interfaces as `host:port`.
fn grpc_address(url: &str, card: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let scheme = if card.starts_with("https://") { "https" } else { "http" };
    format!("{scheme}://{url}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_address_without_a_scheme_has_that_of_its_card() {
        assert_eq!(grpc_address("agent:50051", "https://agent/card.json"), "https://agent:50051");
        assert_eq!(grpc_address("agent:50051", "http://agent/card.json"), "http://agent:50051");
        assert_eq!(grpc_address("http://agent:50051", "https://agent/card.json"), "http://agent:50051");
    }
}

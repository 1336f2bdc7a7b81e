//! Where and how to talk to an A2A agent: as configured, or as its card says.

use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{self, Endpoint};
use aqueduct_adapter_a2a::version::{Binding, VERSION_HEADER, Version};
use aqueduct_core::RunFailure;
use aqueduct_transport_grpc::raw::RawClient;
use tokio::sync::OnceCell;

use super::super::upstream::{Forwarded, REFUSED, Upstream, failure_of, refusal_words, unsent};
use super::line::GrpcSettings;
use crate::config::{A2aAddress, A2aBinding, A2aVersion};

/// An endpoint, whether the agent streams, and the connection to it where there is one for many calls.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) endpoint: Endpoint,
    pub(super) streaming: bool,
    pub(super) grpc: GrpcSettings,
    pub(super) connection: OnceCell<RawClient>,
    /// True if the agent's card names the address.
    from_card: bool,
    /// Every interface there is.
    offered: Vec<Endpoint>,
}

impl Known {
    fn new(endpoint: Endpoint, streaming: bool, grpc: &GrpcSettings, offered: Vec<Endpoint>) -> Self {
        let connection = OnceCell::new();
        Self { endpoint, streaming, grpc: grpc.clone(), connection, from_card: false, offered }
    }

    /// What to tell if the endpoint cannot be reached.
    pub(super) fn explain(&self, what: &str) -> String {
        if self.from_card { card::unreachable(&self.endpoint, what) } else { what.to_owned() }
    }

    /// The interface for calls of that binding and version.
    pub(super) fn interface(&self, binding: Binding, version: Version) -> Option<&Endpoint> {
        self.offered.iter().find(|endpoint| endpoint.binding == binding && endpoint.version == version)
    }
}

/// Finds the endpoint, and remembers it.
pub(super) struct Directory {
    address: A2aAddress,
    bindings: Vec<Binding>,
    grpc: GrpcSettings,
    /// What to use without a card.
    fixed: Option<Arc<Known>>,
    known: Mutex<Option<Arc<Known>>>,
}

impl Directory {
    pub(super) fn new(
        address: A2aAddress,
        binding: Option<A2aBinding>,
        version: A2aVersion,
        grpc: GrpcSettings,
    ) -> Self {
        let wanted = binding.map(|binding| match binding {
            A2aBinding::JsonRpc => Binding::JsonRpc,
            A2aBinding::Rest => Binding::HttpJson,
            A2aBinding::Grpc => Binding::Grpc,
        });
        let version = match version {
            A2aVersion::V1_0 => Version::V1,
            A2aVersion::V0_3 => Version::V03,
        };
        let fixed = match (&address, wanted) {
            (A2aAddress::Url(url), Some(binding)) => {
                let endpoint = Endpoint::new(url.clone(), binding, version);
                let offered = vec![endpoint.clone()];
                Some(Arc::new(Known::new(endpoint, true, &grpc, offered)))
            }
            _ => None,
        };
        let mut bindings = vec![Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];
        bindings.sort_by_key(|binding| Some(*binding) != wanted);
        Self { address, bindings, grpc, fixed, known: Mutex::default() }
    }

    pub(super) async fn endpoint(
        &self,
        upstream: &Upstream,
        forwarded: &Forwarded,
    ) -> Result<Arc<Known>, RunFailure> {
        if let Some(fixed) = &self.fixed {
            return Ok(Arc::clone(fixed));
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = Arc::new(self.look_up(upstream, forwarded).await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
        Ok(found)
    }

    /// True if no card is needed.
    pub(super) fn is_told(&self) -> bool {
        self.fixed.is_some()
    }

    pub(super) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn look_up(&self, upstream: &Upstream, forwarded: &Forwarded) -> Result<Known, RunFailure> {
        let text = self.card(upstream, forwarded, None).await?;
        let invalid = |error: String| RunFailure::new(RunFailure::UPSTREAM_INVALID, error);
        let card = card::parse(&text).map_err(|error| invalid(error.to_string()))?;
        let mut endpoint = card::choose(&card, &self.bindings).map_err(|error| invalid(error.to_string()))?;
        if endpoint.binding == Binding::Grpc {
            endpoint.url = grpc_address(&endpoint.url, self.address());
        }
        let offered = card::endpoints(&card);
        let known = Known::new(endpoint, card.capabilities.streaming, &self.grpc, offered);
        Ok(Known { from_card: true, ..known })
    }

    /// Where the card is looked for: the agent's own address, or that of its card.
    fn address(&self) -> &str {
        match &self.address {
            A2aAddress::Url(url) | A2aAddress::Card(url) => url,
        }
    }

    /// The text of the agent's card. Some agents have one for each version of the protocol.
    pub(super) async fn card(
        &self,
        upstream: &Upstream,
        forwarded: &Forwarded,
        version: Option<&str>,
    ) -> Result<String, RunFailure> {
        let urls = match &self.address {
            A2aAddress::Url(url) => card::card_urls(url),
            A2aAddress::Card(url) => vec![url.clone()],
        };
        let mut failure = RunFailure::new(REFUSED, "the agent has no card");
        for url in urls {
            match read_card(upstream, forwarded, &url, version).await {
                Ok(card) => return Ok(card),
                Err(error) => {
                    let message = format!("no agent card at {url}: {}", &*error.message);
                    failure = RunFailure::new(error.code, message);
                }
            }
        }
        Err(failure)
    }
}

/// Reads a card; what is none is refused here, so that the next address is tried.
async fn read_card(
    upstream: &Upstream,
    forwarded: &Forwarded,
    url: &str,
    version: Option<&str>,
) -> Result<String, RunFailure> {
    let wanted = card_request(url);
    let mut headers: Vec<(&str, &str)> = wanted.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    if let Some(version) = version {
        headers.retain(|(name, _)| *name != VERSION_HEADER);
        headers.push((VERSION_HEADER, version));
    }
    let request = upstream.request(wanted.method, &wanted.url, &headers, forwarded, wanted.body.into());
    let request = request.map_err(unsent)?;
    let response = upstream.client.request(request).await.map_err(|error| failure_of(&error))?;
    if !response.status().is_success() {
        return Err(RunFailure::new(REFUSED, refusal_words(&response)));
    }
    let invalid = |error: String| RunFailure::new(RunFailure::UPSTREAM_INVALID, error);
    let text =
        String::from_utf8(response.into_body().to_vec()).map_err(|error| invalid(error.to_string()))?;
    card::parse(&text).map_err(|error| invalid(error.to_string()))?;
    Ok(text)
}

/// Cards name gRPC interfaces as `host:port`. Such an address is as secret as the card was.
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
    fn a_grpc_address_without_a_scheme_is_as_secret_as_its_card() {
        assert_eq!(grpc_address("agent:50051", "https://agent/card.json"), "https://agent:50051");
        assert_eq!(grpc_address("agent:50051", "http://agent/card.json"), "http://agent:50051");
        assert_eq!(grpc_address("http://agent:50051", "https://agent/card.json"), "http://agent:50051");
    }
}

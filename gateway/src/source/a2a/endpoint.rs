//! Where and how to talk to an A2A agent: as configured, or as its card says.

use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{self, Endpoint};
use aqueduct_adapter_a2a::version::{Binding, VERSION_HEADER, Version};
use aqueduct_core::RunFailure;

use super::super::upstream::{Forwarded, REFUSED, Upstream, failure_of, refusal_words, unsent};
use crate::config::{A2aAddress, A2aBinding, A2aVersion};

/// An endpoint, and whether the agent streams.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) endpoint: Endpoint,
    pub(super) streaming: bool,
    /// Every interface there is.
    offered: Vec<Endpoint>,
}

impl Known {
    /// The interface for calls of that binding and version; of another version, if there is none of that one.
    pub(super) fn interface(&self, binding: Binding, version: Version) -> Option<&Endpoint> {
        let of_binding = || self.offered.iter().filter(|endpoint| endpoint.binding == binding);
        of_binding().find(|endpoint| endpoint.version == version).or_else(|| of_binding().next())
    }
}

/// Finds the endpoint, and remembers it.
pub(super) struct Directory {
    address: A2aAddress,
    bindings: Vec<Binding>,
    /// What to use without a card.
    fixed: Option<Arc<Known>>,
    known: Mutex<Option<Arc<Known>>>,
}

impl Directory {
    pub(super) fn new(address: A2aAddress, binding: Option<A2aBinding>, version: A2aVersion) -> Self {
        let wanted = binding.map(|binding| match binding {
            A2aBinding::JsonRpc => Binding::JsonRpc,
            A2aBinding::Rest => Binding::HttpJson,
        });
        let version = match version {
            A2aVersion::V1_0 => Version::V1,
            A2aVersion::V0_3 => Version::V03,
        };
        let fixed = match (&address, wanted) {
            (A2aAddress::Url(url), Some(binding)) => {
                let endpoint = Endpoint::new(url.clone(), binding, version);
                let offered = vec![endpoint.clone()];
                Some(Arc::new(Known { endpoint, streaming: true, offered }))
            }
            _ => None,
        };
        let mut bindings = vec![Binding::JsonRpc, Binding::HttpJson];
        bindings.sort_by_key(|binding| Some(*binding) != wanted);
        Self { address, bindings, fixed, known: Mutex::default() }
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

    pub(super) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn look_up(&self, upstream: &Upstream, forwarded: &Forwarded) -> Result<Known, RunFailure> {
        let text = self.card(upstream, forwarded, None).await?;
        let invalid = |error: String| RunFailure::new(RunFailure::UPSTREAM_INVALID, error);
        let card = card::parse(&text).map_err(|error| invalid(error.to_string()))?;
        let endpoint = card::choose(&card, &self.bindings).map_err(|error| invalid(error.to_string()))?;
        let offered = card::endpoints(&card);
        Ok(Known { endpoint, streaming: card.capabilities.streaming, offered })
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

//! Discovery: where a card is, and which of its interfaces to use. Pure functions; fetching is the transport's.
//!
//! Choice: the caller's bindings in the caller's order; within a binding 1.0 before 0.3; within that the order of
//! the card. (The specification prefers the card's order, §8.3.2; callers who want it list all bindings they have
//! and ask [`choose_by_card`].)

use crate::error::Error;
use crate::frontend::{self, A2UI_EXTENSIONS};
use crate::mark::EXTENSION;
use crate::version::{Binding, Version};
use crate::wire::AgentCard;
use crate::wire::card::AgentInterface;
use crate::wire::text::Text;

/// Where cards are, best first. The second is that of 0.2 and early 0.3.
pub const WELL_KNOWN_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The addresses to try for an agent's card: the address itself if it names a JSON file, else both well-known
/// paths below it, and below its host if it has a path of its own.
pub fn card_urls(agent: &str) -> Vec<String> {
    let base = agent.split(['?', '#']).next().unwrap_or(agent).trim_end_matches('/');
    let file = base.rsplit('/').next().unwrap_or_default();
    if std::path::Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    {
        return vec![agent.to_owned()];
    }
    let mut urls: Vec<String> = WELL_KNOWN_PATHS.iter().map(|path| format!("{base}{path}")).collect();
    let host =
        base.find("://").and_then(|at| base.get(at + 3..)).and_then(|rest| rest.find('/').map(|n| (rest, n)));
    if let Some((rest, at)) = host
        && let Some(origin) = base.get(..base.len() - rest.len() + at)
    {
        urls.extend(WELL_KNOWN_PATHS.iter().map(|path| format!("{origin}{path}")));
    }
    urls
}

/// Reads a card of any version.
///
/// # Errors
///
/// An error if the text is no card of either version.
pub fn parse(json: &str) -> Result<AgentCard<'_>, Error> {
    serde_json::from_str(json).map_err(Error::Card)
}

/// Where and how to talk to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address. For gRPC `host:port`, with or without a scheme.
    pub url: String,
    /// How requests are put on the wire.
    pub binding: Binding,
    /// In which version.
    pub version: Version,
    /// To be sent back in every request; empty if the card names none.
    pub tenant: String,
    /// Extensions to ask for.
    pub extensions: Vec<String>,
}

impl Endpoint {
    /// An address that needs no card.
    pub fn new(url: impl Into<String>, binding: Binding, version: Version) -> Self {
        Self { url: url.into(), binding, version, tenant: String::new(), extensions: Vec::new() }
    }

    /// An interface of a card; `version` is that of entries that name none.
    fn of(interface: &AgentInterface<'_>, version: Version) -> Option<Self> {
        let version = match interface.version.set() {
            Some(named) => Version::parse(Some(named))?,
            None => version,
        };
        let mut endpoint = Self::new(interface.url.set()?, Binding::parse(&interface.binding)?, version);
        endpoint.tenant = interface.tenant.to_string();
        Some(endpoint)
    }
}

/// Every usable interface of a card, in its order: those of 1.0, then those that only the 0.3 members name.
pub fn endpoints(card: &AgentCard<'_>) -> Vec<Endpoint> {
    // 0.3 has no such member: an entry without a version is 1.0, whatever the card says of itself.
    let of_v1 = |interface: &AgentInterface<'_>| Endpoint::of(interface, Version::V1);
    let mut found: Vec<Endpoint> = card.supported_interfaces.iter().filter_map(of_v1).collect();
    let mut add = |endpoint: Endpoint| {
        if !found.contains(&endpoint) {
            found.push(endpoint);
        }
    };
    // 0.3 members of a card are in the version the card names; one that names 1.0 there means the main address.
    let version = Version::parse(card.protocol_version.set());
    if let (Some(url), Some(version)) = (card.url.set(), version) {
        let name = card.preferred_transport.set().unwrap_or(Binding::JsonRpc.as_str());
        if let Some(binding) = Binding::parse(name) {
            add(Endpoint::new(url, binding, version));
        }
    }
    if let Some(version) = version {
        for interface in &card.additional_interfaces {
            if let Some(mut endpoint) = Endpoint::of(interface, version) {
                endpoint.version = version;
                add(endpoint);
            }
        }
    }
    found
}

/// The interface to use: the first of `bindings` that the card offers, in its best version.
///
/// # Errors
///
/// An error if the card has no interface that this client speaks.
pub fn choose(card: &AgentCard<'_>, bindings: &[Binding]) -> Result<Endpoint, Error> {
    choose_among(&endpoints(card), bindings).cloned().ok_or_else(|| no_interface(card))
}

/// The same among interfaces that the caller has filtered; `None` if none of them has one of `bindings`.
pub fn choose_among<'e>(offered: &'e [Endpoint], bindings: &[Binding]) -> Option<&'e Endpoint> {
    bindings.iter().find_map(|binding| best_version(offered, *binding))
}

/// The interface to use: the first of the card whose binding is among `bindings`, in the best version the card
/// has for that binding.
///
/// # Errors
///
/// An error if the card has no interface that this client speaks.
pub fn choose_by_card(card: &AgentCard<'_>, bindings: &[Binding]) -> Result<Endpoint, Error> {
    let offered = endpoints(card);
    offered
        .iter()
        .find(|endpoint| bindings.contains(&endpoint.binding))
        .and_then(|endpoint| best_version(&offered, endpoint.binding))
        .cloned()
        .ok_or_else(|| no_interface(card))
}

fn best_version(offered: &[Endpoint], binding: Binding) -> Option<&Endpoint> {
    // `max_by_key` keeps the last of equals, the card's order wants the first.
    offered
        .iter()
        .filter(|endpoint| endpoint.binding == binding)
        .rev()
        .max_by_key(|endpoint| endpoint.version)
}

fn no_interface(card: &AgentCard<'_>) -> Error {
    let names = |interface: &AgentInterface<'_>| {
        format!("{} {}", interface.binding.as_str(), Text::as_str(&interface.version)).trim_end().to_owned()
    };
    let mut offered: Vec<String> =
        card.supported_interfaces.iter().chain(&card.additional_interfaces).map(names).collect();
    if let Some(url) = card.url.set() {
        offered.push(format!("{} {url}", card.preferred_transport.as_str()).trim_start().to_owned());
    }
    let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
    Error::NoInterface { offered }
}

/// What to tell if the address that a card names cannot be reached: cards name hosts that only their own machine knows
/// (`0.0.0.0`, names of containers).
pub fn unreachable(endpoint: &Endpoint, what: &str) -> String {
    format!(
        "{what}: the agent's card names the address {}; to use another one, set `url` to it and `binding` to {}",
        endpoint.url, endpoint.binding
    )
}

/// True if there is a card that only known clients may see.
pub fn has_extended_card(card: &AgentCard<'_>) -> bool {
    card.capabilities.extended_agent_card || card.supports_extended_card
}

/// Returns the extensions of a card that this crate's client activates: those whose pieces it reads.
pub fn activated_extensions(card: &AgentCard<'_>) -> Vec<String> {
    let uris = card.capabilities.extensions.iter().map(|extension| extension.uri.as_str());
    let is_read =
        |uri: &&str| [EXTENSION, frontend::EXTENSION].contains(uri) || uri.starts_with(A2UI_EXTENSIONS);
    uris.filter(is_read).map(str::to_owned).collect()
}

/// Extensions that the agent demands and `known` does not have.
pub fn missing_extensions<'c>(card: &'c AgentCard<'_>, known: &[String]) -> Vec<&'c str> {
    card.capabilities
        .extensions
        .iter()
        .filter(|extension| extension.required && !known.iter().any(|uri| *uri == *extension.uri))
        .map(|extension| extension.uri.as_str())
        .collect()
}

#[cfg(test)]
mod tests;

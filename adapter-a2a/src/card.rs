//! Discovery: the address of a card, and the interface to use. Pure functions; a transport fetches the card.
//!
//! Choice: the caller's bindings in the caller's order; within a binding 1.0 before 0.3; within a version the order of
//! the card. (The specification prefers the card's order, §8.3.2; [`choose_by_card`] implements that.)

use crate::error::Error;
use crate::frontend::{self, A2UI_EXTENSIONS};
use crate::mark::EXTENSION;
use crate::version::{Binding, Version};
use crate::wire::AgentCard;
use crate::wire::card::AgentInterface;
use crate::wire::text::Text;

/// The well-known paths of cards, best first. The second is that of 0.2 and early 0.3.
pub const WELL_KNOWN_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// Returns the addresses to try for an agent's card: the address itself if it names a JSON file, else both
/// well-known paths below it, and below its host if it has a path of its own.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::card::card_urls;
///
/// assert_eq!(card_urls("https://agent.test/a2a")[0], "https://agent.test/a2a/.well-known/agent-card.json");
/// assert_eq!(card_urls("https://agent.test/card.json"), ["https://agent.test/card.json"]);
/// ```
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

/// Parses a card of any version.
///
/// # Errors
///
/// Returns an error if the text is not a card of either version.
pub fn parse(json: &str) -> Result<AgentCard<'_>, Error> {
    serde_json::from_str(json).map_err(Error::Card)
}

/// An interface of an agent: address, binding and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address. For gRPC `host:port`, with or without a scheme.
    pub url: String,
    /// The protocol binding.
    pub binding: Binding,
    /// The protocol version.
    pub version: Version,
    /// The tenant to send in every request; empty if the card names none.
    pub tenant: String,
    /// The extensions to activate.
    pub extensions: Vec<String>,
}

impl Endpoint {
    /// Returns an endpoint that needs no card.
    pub fn new(url: impl Into<String>, binding: Binding, version: Version) -> Self {
        Self { url: url.into(), binding, version, tenant: String::new(), extensions: Vec::new() }
    }

    /// Converts an interface of a card; `version` applies to entries that name none.
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

/// Returns every usable interface of a card, in its order: those of 1.0, then those that only the 0.3 members name.
pub fn endpoints(card: &AgentCard<'_>) -> Vec<Endpoint> {
    // 0.3 has no such member: an entry without a version is 1.0, whatever version the card declares.
    let of_v1 = |interface: &AgentInterface<'_>| Endpoint::of(interface, Version::V1);
    let mut found: Vec<Endpoint> = card.supported_interfaces.iter().filter_map(of_v1).collect();
    let mut add = |endpoint: Endpoint| {
        if !found.contains(&endpoint) {
            found.push(endpoint);
        }
    };
    // The 0.3 members of a card are in the version that the card declares; a card that declares 1.0 there means its
    // main address.
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

/// Returns the interface to use: the first of `bindings` that the card offers, in its best version.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::card;
/// use aqueduct_adapter_a2a::version::Binding;
///
/// let card = card::parse(
///     r#"{"name": "a", "supportedInterfaces": [
///         {"url": "https://agent.test/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
///         {"url": "https://agent.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
///     ]}"#,
/// )?;
/// assert_eq!(card::choose(&card, &[Binding::JsonRpc, Binding::HttpJson])?.url, "https://agent.test/rpc");
/// assert_eq!(card::choose_by_card(&card, &[Binding::JsonRpc, Binding::HttpJson])?.url, "https://agent.test/rest");
/// # Ok::<(), aqueduct_adapter_a2a::error::Error>(())
/// ```
///
/// # Errors
///
/// Returns [`Error::NoInterface`], with the interfaces of the card, if the card has no interface with one of
/// `bindings` in a supported version.
pub fn choose(card: &AgentCard<'_>, bindings: &[Binding]) -> Result<Endpoint, Error> {
    choose_among(&endpoints(card), bindings).cloned().ok_or_else(|| no_interface(card))
}

/// Chooses among interfaces that the caller has filtered. Returns `None` if none of them has one of `bindings`.
pub fn choose_among<'e>(offered: &'e [Endpoint], bindings: &[Binding]) -> Option<&'e Endpoint> {
    bindings.iter().find_map(|binding| best_version(offered, *binding))
}

/// Returns the interface to use: the first of the card whose binding is among `bindings`, in the best version that the
/// card has for that binding.
///
/// # Errors
///
/// Returns an error if the card has no interface with one of `bindings` in a supported version.
pub fn choose_by_card(card: &AgentCard<'_>, bindings: &[Binding]) -> Result<Endpoint, Error> {
    let offered = endpoints(card);
    offered
        .iter()
        .find(|endpoint| bindings.contains(&endpoint.binding))
        .and_then(|endpoint| best_version(&offered, endpoint.binding))
        .cloned()
        .ok_or_else(|| no_interface(card))
}

/// Returns the interface of a binding with the newest version that the client supports. Of equal ones the first of
/// the card wins.
fn best_version(offered: &[Endpoint], binding: Binding) -> Option<&Endpoint> {
    // `max_by_key` keeps the last of equal elements; the order of the card requires the first.
    offered
        .iter()
        .filter(|endpoint| endpoint.binding == binding)
        .rev()
        .max_by_key(|endpoint| endpoint.version)
}

/// Returns the error for a card without a usable interface. It names the interfaces of the card.
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

/// Returns the error message for an address of a card that cannot be reached: cards often name hosts that only their
/// own machine resolves (`0.0.0.0`, names of containers).
pub fn unreachable(endpoint: &Endpoint, what: &str) -> String {
    format!(
        "{what}: the agent's card names the address {}; to use another one, set `url` to it and `binding` to {}",
        endpoint.url, endpoint.binding
    )
}

/// Returns `true` if an extended card exists for authenticated callers.
pub fn has_extended_card(card: &AgentCard<'_>) -> bool {
    card.capabilities.extended_agent_card || card.supports_extended_card
}

/// Returns the extensions of a card that the client of this crate activates: those that it can decode.
pub fn activated_extensions(card: &AgentCard<'_>) -> Vec<String> {
    let uris = card.capabilities.extensions.iter().map(|extension| extension.uri.as_str());
    let is_read =
        |uri: &&str| [EXTENSION, frontend::EXTENSION].contains(uri) || uri.starts_with(A2UI_EXTENSIONS);
    uris.filter(is_read).map(str::to_owned).collect()
}

/// Returns the extensions that the agent requires and `known` does not contain.
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

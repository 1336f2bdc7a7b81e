//! The card of an agent behind a proxy: the agent's description, and the interfaces of the proxy.
//!
//! ```text
//! agent's card:  name, skills, …, supportedInterfaces: [http://10.0.0.5/a2a  JSONRPC 1.0]
//! proxy's card:  …,               supportedInterfaces: [https://gw/a  HTTP+JSON 1.0,  https://gw/a  JSONRPC 1.0]
//! result:        name, skills, …, supportedInterfaces: [https://gw/a  JSONRPC 1.0,    https://gw/a  HTTP+JSON 1.0]
//! ```
//!
//! Members of 1.0 and of 0.3 are replaced separately, each by those that the proxy's card has. If it has none of a
//! version, the agent's are removed: an address of the agent itself would lead clients past the proxy. All other
//! members stay as the agent wrote them.

use serde_json::{Map, Value, json};

use crate::card;
use crate::version::{Binding, Version};

/// Replaces the interfaces of a card by those of `here`, the card of the server that responds in the agent's place.
/// Interfaces whose calls are forwarded to the agent come first, in its order, because clients use the first one that
/// they support. They are those of the bindings in `passing` that the agent has itself. Signatures are removed, because
/// they were made for another card.
pub fn move_card(card: &mut Map<String, Value>, here: &Map<String, Value>, passing: &[Binding]) {
    let own = card::parse(&Value::Object(card.clone()).to_string()).map(|card| card::endpoints(&card));
    let mut own = own.unwrap_or_default();
    own.retain(|endpoint| passing.contains(&endpoint.binding));
    // Interfaces that the agent does not have itself sort last, and keep their order: the sort is stable.
    let rank = |binding: Option<Binding>, version: Version| {
        let is_it =
            |endpoint: &card::Endpoint| Some(endpoint.binding) == binding && endpoint.version == version;
        own.iter().position(is_it).unwrap_or(usize::MAX)
    };
    card.shift_remove("signatures");
    let interfaces = here.get("supportedInterfaces").and_then(Value::as_array);
    let mut interfaces = interfaces.cloned().unwrap_or_default();
    interfaces.sort_by_key(|interface| {
        let version = Version::parse(interface.get("protocolVersion").and_then(Value::as_str));
        rank(binding(interface, "protocolBinding"), version.unwrap_or(Version::V1))
    });
    card.insert("supportedInterfaces".to_owned(), Value::Array(interfaces));
    let mut older = older_interfaces(here);
    older.sort_by_key(|interface| rank(binding(interface, "transport"), Version::V03));
    set_older(card, here, older);
}

/// Returns the binding of an interface, which 1.0 and 0.3 name by different members.
fn binding(interface: &Value, member: &str) -> Option<Binding> {
    interface.get(member).and_then(Value::as_str).and_then(Binding::parse)
}

/// Returns the interfaces of 0.3: one is the card's own, the others are listed.
fn older_interfaces(card: &Map<String, Value>) -> Vec<Value> {
    let preferred =
        card.get("preferredTransport").cloned().unwrap_or_else(|| Binding::JsonRpc.as_str().into());
    let first = card.get("url").map(|url| json!({ "transport": preferred, "url": url }));
    let others = card.get("additionalInterfaces").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all: Vec<Value> = first.into_iter().chain(others).collect();
    all.dedup();
    all
}

/// Writes the members of 0.3: the first interface as the card's own, the others as a list. Without any, the members
/// are removed.
fn set_older(card: &mut Map<String, Value>, here: &Map<String, Value>, older: Vec<Value>) {
    let mut older = older.into_iter();
    let first = older.next();
    let of_first = |member: &str| first.as_ref()?.get(member).cloned();
    for (member, value) in [
        ("url", of_first("url")),
        ("preferredTransport", of_first("transport")),
        ("protocolVersion", here.get("protocolVersion").filter(|_| first.is_some()).cloned()),
        ("additionalInterfaces", first.is_some().then(|| older.collect())),
    ] {
        match value {
            Some(value) => card.insert(member.to_owned(), value),
            None => card.shift_remove(member),
        };
    }
}

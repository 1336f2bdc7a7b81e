//! What the card of an A2A agent offers, and what of it the gateway would use.

use aqueduct_adapter_a2a::card;
use aqueduct_adapter_a2a::wire::AgentCard;
use serde_json::Value;

use super::Report;
use crate::progress::count;

/// Reports what the card offers and which interface the gateway would choose.
///
/// A card that was written on the agent's own machine often names `localhost`. It works there and nowhere else,
/// so it is reported if the agent was reached under another host.
pub(super) fn look_at_card(text: &str, url: &str, report: &mut Report) {
    let Ok(found) = card::parse(text) else { return report.bad("the card cannot be read") };
    report.name = found.name.to_string();
    report.note(format!("it is called {:?}, version {:?}", &*found.name, &*found.version));
    let endpoints = card::endpoints(&found);
    for endpoint in &endpoints {
        report.note(format!("offers {:?} {:?} at {}", endpoint.binding, endpoint.version, endpoint.url));
    }
    let bindings =
        [aqueduct::a2a::Binding::JsonRpc, aqueduct::a2a::Binding::HttpJson, aqueduct::a2a::Binding::Grpc];
    match card::choose_by_card(&found, &bindings) {
        Ok(endpoint) => {
            report.good(format!(
                "the gateway uses {:?} {:?} at {}",
                endpoint.binding, endpoint.version, endpoint.url
            ));
            if let (Some(asked), Some(named)) = (host_of(url), host_of(&endpoint.url))
                && is_local(&named)
                && !is_local(&asked)
            {
                report.bad(format!("the card names {named}, which leads nowhere from other machines: configure the public address of the agent"));
            }
        }
        Err(error) => report.bad(format!("no interface that the gateway speaks: {error}")),
    }
    look_at_capabilities(&found, text, report);
}

/// Reports streaming, required extensions, security schemes and skills.
///
/// The security schemes are read from the text of the card, where 0.3 and 1.0 use the same member. Schemes are
/// reported, not tried: only the run shows whether the token is accepted.
fn look_at_capabilities(found: &AgentCard<'_>, text: &str, report: &mut Report) {
    if found.capabilities.streaming {
        report.good("it streams");
    } else {
        report.note("it does not stream: answers come whole");
    }
    let missing = card::missing_extensions(found, &[]);
    if !missing.is_empty() {
        report.bad(format!("it refuses clients without the extensions {}", missing.join(", ")));
    }
    let raw: Value = serde_json::from_str(text).unwrap_or_default();
    let schemes = raw.get("securitySchemes").and_then(Value::as_object);
    if let Some(schemes) = schemes.filter(|schemes| !schemes.is_empty()) {
        let names: Vec<&str> = schemes.keys().map(String::as_str).collect();
        report.wants_token = true;
        report.note(format!(
            "it names {}: {}",
            count(names.len() as u64, "security scheme"),
            names.join(", ")
        ));
    } else {
        report.note("its card asks for no credentials");
    }
    report.note(count(found.skills.len() as u64, "skill"));
}

/// Returns the host of a URL, or `None` if the text is not a URL with a host.
fn host_of(url: &str) -> Option<String> {
    let url: http::Uri = url.parse().ok()?;
    url.host().map(str::to_owned)
}

/// Returns `true` for hosts that mean the machine of the reader: loopback and unspecified addresses.
fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "0.0.0.0" | "[::]" | "[::1]") || host.starts_with("127.")
}

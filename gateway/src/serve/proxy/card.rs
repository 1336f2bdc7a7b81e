//! The cards of proxied agents, rewritten to name the gateway's interfaces and to omit capabilities that the gateway
//! does not forward.

use aqueduct::a2a::{RemoteAgent, Servers};
use aqueduct_adapter_a2a::relay::move_card;
use aqueduct_adapter_a2a::version::{Binding, VERSION_HEADER};
use aqueduct_core::RunFailure;
use axum::response::{IntoResponse as _, Response};
use http::header;
use http::request::Parts;
use serde_json::{Map, Value};

use super::answer::refuse_http;
use crate::service::AgentEntry;
use crate::source::Forwarded;

/// The bindings whose calls are forwarded. A gRPC call names its agent inside the message, so the gateway decodes and
/// serves it.
const PASSING: [Binding; 2] = [Binding::JsonRpc, Binding::HttpJson];

/// Returns the rewritten card of the agent; the gateway's own card if the agent is configured without one.
///
/// The card depends on the host of the request, which the interfaces name, and on the version, for which agents may
/// serve different cards: `Vary` names both headers.
///
/// A card that cannot be fetched responds with 502, 503 or 504, unless address and binding are configured: then the
/// agent is usable without a card, and the gateway describes it.
pub(super) async fn card(
    servers: &Servers,
    agent: &AgentEntry,
    source: &RemoteAgent,
    forwarded: &Forwarded,
    parts: &Parts,
) -> Response {
    let version = parts.headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    let here = own_card(servers, agent, parts);
    let text = match source.card(forwarded, version).await {
        Ok(text) => text,
        Err(_) if source.is_card_optional() => Value::Object(here.clone()).to_string(),
        Err(failure) => return refuse_http(&failure),
    };
    let Ok(Value::Object(mut card)) = serde_json::from_str(&text) else {
        return refuse_http(&RunFailure::new(
            RunFailure::UPSTREAM_INVALID,
            "the agent card is not a JSON object: check what the agent serves as its card",
        ));
    };
    // The agent's signature does not cover the rewritten card; the gateway signs it if it has a key.
    place(&mut card, &here);
    servers.sign(&mut card);
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::VARY, "host, a2a-version")];
    (headers, Value::Object(card).to_string()).into_response()
}

/// Rewrites the card of an agent: names the gateway's interfaces, and clears push notifications if the gateway refuses
/// them.
pub(super) fn place(card: &mut Map<String, Value>, here: &Map<String, Value>) {
    move_card(card, here, &PASSING);
    let may_push = here.get("capabilities").and_then(|can| can.get("pushNotifications")?.as_bool());
    if may_push != Some(true)
        && let Some(Value::Object(can)) = card.get_mut("capabilities")
    {
        can.insert("pushNotifications".to_owned(), Value::Bool(false));
    }
}

/// Returns the card of the gateway's own server of the agent, for the caller. Admission has checked the host.
///
/// The map is empty if a reload removed the agent in the meantime.
pub(super) fn own_card(servers: &Servers, agent: &AgentEntry, parts: &Parts) -> Map<String, Value> {
    match servers.card(&agent.name, parts).map(|card| card.to_json()) {
        Some(Value::Object(card)) => card,
        _ => Map::new(),
    }
}

//! The upgrade of RFC 6455 §4.2 as a pure function: the head of a request in, an [`Upgrade`] or a [`Refusal`] out.
//!
//! A server that owns its HTTP port calls [`accept`], answers with [`Upgrade::response`] or [`Refusal::response`], and
//! hands the upgraded connection to [`Endpoint::serve`](crate::Endpoint::serve). Nothing here touches a socket, and a
//! refusal has caused no work.

use aqueduct_core::service::Caller;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version, request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::config::Admission;
use crate::origin;

/// How payloads travel on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Text: one JSON value per event.
    Json,
    /// Bytes, e.g. protobuf.
    Binary,
}

/// What was agreed on for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The protocol `aqueduct.v1`: several runs, addressed messages.
    Multiplexed(Encoding),
    /// One run of the path's agent: its input in, its events out, one per message and without envelope.
    Plain,
}

/// Addressed messages, payloads as JSON.
pub const SUBPROTOCOL_JSON: &str = "aqueduct.v1.json";
/// Addressed messages, payloads as bytes.
pub const SUBPROTOCOL_PROTO: &str = "aqueduct.v1.proto";
/// The plain mode by name: for browsers that must offer something to carry a token.
pub const SUBPROTOCOL_PLAIN: &str = "aqueduct.v1.plain";
/// A token among the subprotocols, the only place a browser can put one. Never sent back.
pub const SUBPROTOCOL_BEARER: &str = "aqueduct.bearer.";

/// A request that may be upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// What was agreed on.
    pub mode: Mode,
    /// The agent that the path names.
    pub agent: Option<String>,
    /// Who asks.
    pub caller: Caller,
    accept_key: HeaderValue,
    subprotocol: Option<&'static str>,
}

impl Upgrade {
    /// The `101` response.
    pub fn response(&self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept_key.clone());
        if let Some(name) = self.subprotocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
        }
        response
    }
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// A sentence for the client.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The response, with the sentence as its body.
    pub fn response(&self) -> Response<String> {
        let mut response = Response::new(self.message.clone());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self.status == StatusCode::UPGRADE_REQUIRED {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

/// Decides about a request. `agent` is what its path names, `peer` where it comes from.
pub fn accept(
    rules: &Admission,
    head: &request::Parts,
    agent: Option<&str>,
    peer: Option<String>,
) -> Result<Upgrade, Refusal> {
    check_admission(rules, &head.headers)?;
    let key = check_upgrade(head)?;
    let offer = Offer::read(&head.headers);
    let (mode, subprotocol) = offer.choose(agent.is_some())?;
    let accept_key = HeaderValue::from_str(&derive_accept_key(key))
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the key cannot be answered"))?;
    let token = bearer(&head.headers).or(offer.token).map(str::to_owned);
    let caller = Caller { token, headers: readable(&head.headers), peer, certificate: None };
    Ok(Upgrade { mode, agent: agent.map(str::to_owned), caller, accept_key, subprotocol })
}

/// `Host` and `Origin`, before anything else is looked at.
pub(crate) fn check_admission(rules: &Admission, headers: &HeaderMap) -> Result<(), Refusal> {
    let forbidden = |message: &str| Refusal::new(StatusCode::FORBIDDEN, message);
    let host = single(headers, &header::HOST)
        .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "a request needs one Host header"))?;
    if !origin::host_allowed(rules, host) {
        return Err(forbidden("this server is not known under that host: add it to the allowed hosts"));
    }
    match headers.get_all(header::ORIGIN).iter().count() {
        0 => Ok(()),
        1 if single(headers, &header::ORIGIN).is_some_and(|o| origin::origin_allowed(rules, o, host)) => {
            Ok(())
        }
        _ => Err(forbidden("pages of this origin may not connect: add it to the allowed origins")),
    }
}

/// The rules of RFC 6455 §4.2.1; gives the key.
fn check_upgrade(head: &request::Parts) -> Result<&[u8], Refusal> {
    let bad = |message: &str| Refusal::new(StatusCode::BAD_REQUEST, message);
    if head.method != Method::GET {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET"));
    }
    if head.version < Version::HTTP_11 {
        return Err(bad("a WebSocket needs HTTP/1.1"));
    }
    let upgrade = |message: &str| Refusal::new(StatusCode::UPGRADE_REQUIRED, message);
    if !lists(&head.headers, &header::UPGRADE, "websocket") {
        return Err(upgrade("this address speaks WebSocket: send `Upgrade: websocket`"));
    }
    if !lists(&head.headers, &header::CONNECTION, "upgrade") {
        return Err(bad("the header `Connection: Upgrade` is missing"));
    }
    if single(&head.headers, &header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(upgrade("only version 13 of the WebSocket protocol is known"));
    }
    // A key is 16 random bytes in base64: 24 characters, the last two of them padding.
    single(&head.headers, &header::SEC_WEBSOCKET_KEY)
        .filter(|key| key.len() == 24 && key.ends_with("=="))
        .map(str::as_bytes)
        .ok_or_else(|| bad("the header Sec-WebSocket-Key is missing or malformed"))
}

/// What a client offers as subprotocols.
#[derive(Default)]
struct Offer<'a> {
    names: Vec<&'a str>,
    token: Option<&'a str>,
}

impl<'a> Offer<'a> {
    fn read(headers: &'a HeaderMap) -> Self {
        let mut offer = Self::default();
        for name in items(headers, &header::SEC_WEBSOCKET_PROTOCOL) {
            match name.strip_prefix(SUBPROTOCOL_BEARER) {
                Some(token) => offer.token = offer.token.or(Some(token)),
                None => offer.names.push(name),
            }
        }
        offer
    }

    /// The first of the client's names that is known: the order is the client's preference.
    fn choose(&self, has_agent: bool) -> Result<(Mode, Option<&'static str>), Refusal> {
        let known = self.names.iter().find_map(|name| match *name {
            SUBPROTOCOL_JSON => Some((Mode::Multiplexed(Encoding::Json), SUBPROTOCOL_JSON)),
            SUBPROTOCOL_PROTO => Some((Mode::Multiplexed(Encoding::Binary), SUBPROTOCOL_PROTO)),
            SUBPROTOCOL_PLAIN => Some((Mode::Plain, SUBPROTOCOL_PLAIN)),
            _ => None,
        });
        let bad = |message: &str| Refusal::new(StatusCode::BAD_REQUEST, message);
        match known {
            Some((Mode::Plain, _)) | None if !has_agent => {
                Err(bad("connect to the path of an agent, or offer the subprotocol aqueduct.v1.json"))
            }
            Some((mode, name)) => Ok((mode, Some(name))),
            None if self.names.is_empty() => Ok((Mode::Plain, None)),
            None => Err(bad("none of the offered subprotocols is known: offer aqueduct.v1.json or none")),
        }
    }
}

/// The token of the header `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = single(headers, &header::AUTHORIZATION)?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The headers as text. Those of the handshake are left out: they say nothing about the caller, and one may hold a
/// token.
fn readable(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter(|(name, _)| !name.as_str().starts_with("sec-websocket-"))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// The value of a header that occurs once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.to_str().ok()).flatten()
}

/// The items of a comma-separated header.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
}

fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    items(headers, name).any(|item| item.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;

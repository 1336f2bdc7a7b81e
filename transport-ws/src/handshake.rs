//! The upgrade of RFC 6455 §4.2 as a pure function: from the head of a request to an [`Upgrade`] or a [`Refusal`].
//!
//! The module uses no socket. The server's [`Admission`](aqueduct_transport_http::Admission) has checked `Host` and `Origin`
//! before.

use aqueduct_core::protocol::Encoding;
use aqueduct_core::service::{Caller, Proof};
use aqueduct_transport_http::{Quotas, Refusal, Stopping, caller_from};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version, request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::subprotocol::{SUBPROTOCOL_BEARER, SUBPROTOCOL_JSON, SUBPROTOCOL_PLAIN, SUBPROTOCOL_PROTO};

/// The negotiated mode of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The protocol `aqueduct.v1`: several runs, addressed messages.
    Multiplexed(Encoding),
    /// One run of the path's agent: its input in, its events out, one per message and without envelope.
    Plain,
}

/// An accepted upgrade.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Upgrade {
    /// The negotiated mode.
    pub mode: Mode,
    /// The agent of the path.
    pub agent: Option<String>,
    /// The caller of the request.
    pub caller: Caller,
    /// The shutdown of the server: while it drains, a connection closes with 1001 once no run is watched or published on it; when
    /// it closes, at once.
    pub stopping: Stopping,
    /// The counters of the server for the quota of the caller.
    pub quotas: Quotas,
    accept_key: HeaderValue,
    subprotocol: Option<&'static str>,
}

impl Upgrade {
    /// Returns the `101` response.
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

/// Checks a request for an upgrade. `agent` is the agent of the path; `stopping` is the shutdown of the server.
///
/// # Errors
///
/// Returns a refusal with the status that RFC 6455 requires.
pub fn accept(head: &request::Parts, agent: Option<&str>, stopping: Stopping) -> Result<Upgrade, Refusal> {
    let key = check_upgrade(head)?;
    let offer = Offer::read(&head.headers);
    let (mode, subprotocol) = offer.choose(agent.is_some())?;
    let accept_key = HeaderValue::from_str(&derive_accept_key(key))
        .map_err(|_| Refusal::invalid("the header Sec-WebSocket-Key cannot be answered: send another"))?;
    let mut caller = caller_from(&head.headers, &head.extensions);
    if caller.token.is_none() && offer.token.is_some() {
        (caller.token, caller.proof) = (offer.token.map(str::to_owned), Proof::Unchecked);
    }
    // The headers of the handshake do not describe the caller, and one may contain a token.
    caller.headers.retain(|(name, _)| !name.starts_with("sec-websocket-"));
    let quotas = head.extensions.get::<Quotas>().cloned().unwrap_or_default();
    Ok(Upgrade { mode, agent: agent.map(str::to_owned), caller, stopping, quotas, accept_key, subprotocol })
}

/// Checks the rules of RFC 6455 §4.2.1. Returns the key.
fn check_upgrade(head: &request::Parts) -> Result<&[u8], Refusal> {
    let bad = |message: &str| Refusal::invalid(message);
    if head.method != Method::GET {
        let message = "a WebSocket is opened with GET";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
    }
    if head.version < Version::HTTP_11 {
        return Err(bad("a WebSocket is opened over HTTP/1.1"));
    }
    let upgrade = |message: &str| Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message);
    if !lists(&head.headers, &header::UPGRADE, "websocket") {
        return Err(upgrade("this address speaks WebSocket: send `Upgrade: websocket`"));
    }
    if !lists(&head.headers, &header::CONNECTION, "upgrade") {
        return Err(bad("the header `Connection: Upgrade` is missing"));
    }
    if single(&head.headers, &header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(upgrade("unsupported version of the WebSocket protocol: use 13"));
    }
    // A key is 16 random bytes in base64: 24 characters, the last two of them padding.
    single(&head.headers, &header::SEC_WEBSOCKET_KEY)
        .filter(|key| key.len() == 24 && key.ends_with("=="))
        .map(str::as_bytes)
        .ok_or_else(|| bad("the header Sec-WebSocket-Key is missing or malformed"))
}

/// The subprotocols that a client offers.
#[derive(Default)]
struct Offer<'a> {
    names: Vec<&'a str>,
    token: Option<&'a str>,
}

impl<'a> Offer<'a> {
    /// Parses the offered subprotocols. One of them may carry a bearer token, because browsers cannot set headers.
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

    /// Returns the first supported name: the order is the client's preference.
    fn choose(&self, has_agent: bool) -> Result<(Mode, Option<&'static str>), Refusal> {
        let known = self.names.iter().find_map(|name| match *name {
            SUBPROTOCOL_JSON => Some((Mode::Multiplexed(Encoding::Json), SUBPROTOCOL_JSON)),
            SUBPROTOCOL_PROTO => Some((Mode::Multiplexed(Encoding::Binary), SUBPROTOCOL_PROTO)),
            SUBPROTOCOL_PLAIN => Some((Mode::Plain, SUBPROTOCOL_PLAIN)),
            _ => None,
        });
        let bad = |message: &str| Refusal::invalid(message);
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

/// Returns the value of a header that occurs once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.to_str().ok()).flatten()
}

/// Returns the items of a comma-separated header.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
}

/// Returns `true` if a comma-separated header contains the word, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    items(headers, name).any(|item| item.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;

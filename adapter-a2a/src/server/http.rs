//! A2A over HTTP without sockets: converts an [`HttpCall`] into an [`HttpAnswer`].
//!
//! | path below the mount | what |
//! |---|---|
//! | `POST /` | JSON-RPC, both versions |
//! | `/message:send`, `/tasks…`, `/extendedAgentCard`, each also below `/{tenant}` | HTTP+JSON 1.0 |
//! | `/v1/…` | HTTP+JSON 0.3 |
//! | `GET /.well-known/agent-card.json`, `GET /.well-known/agent.json` | the card |

use aqueduct_core::service::{Caller, PayloadStream};
use serde_json::Value;

use super::agent::AgentServer;
use super::card::CardConfig;
use super::{CallContext, ServerError};
use super::{jsonrpc, rest};
use crate::mark::EXTENSION;
use crate::version::{EXTENSIONS_HEADER, EXTENSIONS_HEADER_V03, JSON, VERSION_HEADER, Version};
use crate::wire::ErrorKind;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct HttpCall<'r> {
    /// The method: `GET`, `POST` or `DELETE`.
    pub method: &'r str,
    /// The path below the mount, still encoded; empty or with a slash first.
    pub path: &'r str,
    /// The query without its question mark.
    pub query: Option<&'r str>,
    /// The caller, with the headers of the request.
    pub caller: &'r Caller,
    /// The body.
    pub body: &'r [u8],
}

/// A response.
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case. A stream sets its own content type.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: HttpBody,
}

/// The body of a response.
pub enum HttpBody {
    /// A complete body.
    Whole(Vec<u8>),
    /// Server-sent events.
    Stream(Box<dyn PayloadStream>),
}

aqueduct_core::debug_fields!(HttpAnswer { status, headers });

impl std::fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(&bytes.len()).finish(),
            Self::Stream(_) => f.write_str("Stream(…)"),
        }
    }
}

impl HttpAnswer {
    /// Returns a response with a JSON body.
    pub(super) fn json(status: u16, media_type: &str, value: &Value) -> Self {
        let headers = vec![("content-type", media_type.to_owned())];
        Self { status, headers, body: HttpBody::Whole(value.to_string().into_bytes()) }
    }

    /// Returns a response with server-sent events.
    pub(super) fn stream(payloads: Box<dyn PayloadStream>) -> Self {
        Self { status: 200, headers: Vec::new(), body: HttpBody::Stream(payloads) }
    }

    /// Adds the challenge that a 401 must have (RFC 9110, 15.5.2), and when a caller that has used its quota may retry.
    pub(super) fn challenged(mut self, error: &ServerError) -> Self {
        if self.status == 401 {
            self.headers.push(("www-authenticate", "Bearer".to_owned()));
        }
        if let Some(exceeded) = error.exceeded {
            self.headers.push(("retry-after", exceeded.retry_seconds().to_string()));
        }
        self
    }

    /// Adds the extensions that were activated, by the header names of the version.
    fn with_extensions(mut self, activated: &[String], version: Version) -> Self {
        if !activated.is_empty() {
            let list = activated.join(",");
            if version == Version::V03 {
                self.headers.push((EXTENSIONS_HEADER_V03, list.clone()));
            }
            self.headers.push((EXTENSIONS_HEADER, list));
        }
        self
    }
}

impl AgentServer {
    /// Handles a request. `card` is this agent's card with the addresses that this client can reach.
    ///
    /// Errors are responses too. Dropping the future stops nothing that has started.
    pub async fn handle_http(&self, call: HttpCall<'_>, card: &CardConfig) -> HttpAnswer {
        let path = call.path.trim_end_matches('/');
        if crate::card::WELL_KNOWN_PATHS.contains(&path) {
            return card.answer(&call);
        }
        // Some clients add a slash to the address of JSON-RPC.
        let is_rpc = matches!(call.path, "" | "/");
        let (answer, version) = if is_rpc {
            jsonrpc::answer(self, &call, card).await
        } else {
            rest::answer(self, &call, card).await
        };
        let asked = extensions(call.caller);
        let config = self.config();
        let is_known = |uri: &String| {
            uri == EXTENSION || config.extensions.contains(uri) || config.required_extensions.contains(uri)
        };
        let activated: Vec<String> = asked.into_iter().filter(is_known).collect();
        answer.with_extensions(&activated, version)
    }
}

/// Returns the context of a call, if the version header matches the version of its form. An absent header means 0.3
/// (spec 3.6.2).
pub(super) fn context(call: &HttpCall<'_>, written: Version) -> Result<CallContext, ServerError> {
    let query = rest::query_value(call.query, "A2A-Version");
    let said = call
        .caller
        .header(VERSION_HEADER)
        .map(str::to_owned)
        .filter(|said| !said.trim().is_empty())
        .or(query);
    match Version::parse(said.as_deref()) {
        Some(version) if version == written => {}
        _ => {
            let shown: String = said.as_deref().unwrap_or("0.3").chars().take(20).collect();
            let words = format!(
                "A2A version '{shown}' does not have this method: it is one of {written}; send `A2A-Version: {written}`"
            );
            return Err(ServerError::new(ErrorKind::VersionNotSupported, words));
        }
    }
    Ok(CallContext { version: written, tenant: String::new(), extensions: extensions(call.caller) })
}

/// Returns the extensions that the headers request, each once.
pub(crate) fn extensions(caller: &Caller) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (name, value) in &caller.headers {
        if name == EXTENSIONS_HEADER || name == EXTENSIONS_HEADER_V03 {
            for uri in value.split(',').map(str::trim).filter(|uri| !uri.is_empty()) {
                if !found.iter().any(|known| known == uri) {
                    found.push(uri.to_owned());
                }
            }
        }
    }
    found
}

/// Returns the media type of the body, without parameters.
pub(super) fn content_type(caller: &Caller) -> String {
    let value = caller.header("content-type").unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns `true` for the JSON media types of this protocol.
pub(super) fn is_json(content_type: &str) -> bool {
    content_type == JSON || content_type == crate::version::A2A_JSON
}

/// Parses a body. Nesting beyond 128 levels is refused by the parser.
pub(super) fn read_json(body: &[u8]) -> Result<Value, ServerError> {
    serde_json::from_slice(body).map_err(|error| {
        ServerError::new(ErrorKind::Parse, format!("the body is not readable as JSON: {error}"))
    })
}

//! What remote agents of every protocol share: how calls are made, what they carry, and how failed calls are described.
//!
//! ```text
//! RemoteSettings ──► Connection ──► request: headers of the run's context, of the protocol, credentials ──► Client
//!                                                                                    limits, circuit: Care ──┘
//! ```
//!
//! Credentials and configured headers are sent to the configured host alone: a card can name any other. Redirects are
//! not followed. This module knows no agent protocol.

mod care;
mod describe;
mod memory;
mod settings;

use std::sync::Arc;

#[cfg(any(feature = "a2a", feature = "agui"))]
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;
use aqueduct_transport_http::{Client, ClientConfig, ClientLimits, ClientTimeouts, sse};
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Request, Uri, header};

use crate::error::Error;
pub use care::{AgentHealth, BUSY, CIRCUIT_OPEN, Care, CareSettings, CareWatch};
pub use describe::{
    REFUSED, TIMEOUT, UNAUTHORIZED, UNREACHABLE, describe_refusal, failure_code, failure_of, is_json, unsent,
};
pub use memory::ThreadMemory;
pub use settings::{RemoteSettings, Secret};

/// The calls to one remote agent. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
    credentials: Option<Secret>,
    headers: Vec<(HeaderName, HeaderValue)>,
    care: Arc<Care>,
    /// The only host that receives credentials and configured headers.
    trusted: Option<Authority>,
}

impl Connection {
    /// Returns a connection to the agent at `url`. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Address`] if `url` is not an absolute HTTP address, and [`Error::Client`] if the TLS settings
    /// cannot be used.
    pub fn new(url: &str, settings: &RemoteSettings) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|error| Error::address(url, &error))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Error::address(url, &"an address starts with http:// or https:// and names a host"));
        };
        let care = Arc::new(Care::new(settings.care.clone(), settings.watch.clone()));
        let config =
            ClientConfig { watch: Some(Arc::new(CareWatch(Arc::clone(&care)))), ..client_config(settings) };
        let client = Client::new(config).map_err(Error::Client)?;
        Ok(Self {
            client,
            care,
            credentials: settings.credentials.clone(),
            headers: settings.headers.clone(),
            trusted: Some(authority.clone()),
        })
    }

    /// Returns the HTTP client, for callers that read answers themselves.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns what the calls to the agent came to.
    pub fn health(&self) -> AgentHealth {
        self.care.health()
    }

    /// Builds a request with the headers of `context`, then `headers`, then what the settings add.
    ///
    /// # Errors
    ///
    /// Returns the reason if an address or a header cannot be sent.
    pub fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        context: &dyn CallContext,
        body: Bytes,
    ) -> Result<Request<Bytes>, String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not an address: {error}"))?;
        let is_trusted = uri.authority() == self.trusted.as_ref();
        let mut builder = Request::builder().method(method).uri(uri);
        for (name, value) in context.headers() {
            builder = builder.header(name, sensitive(&value)?);
        }
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        if is_trusted {
            for (name, value) in &self.headers {
                builder = builder.header(name, value);
            }
            if let Some(secret) = &self.credentials {
                let value = sensitive(&format!("Bearer {}", secret.reveal()))
                    .map_err(|_| "the credentials of the agent are not a header value".to_owned())?;
                builder = builder.header(header::AUTHORIZATION, value);
            }
        }
        builder.body(body).map_err(|error| format!("the request cannot be built: {error}"))
    }
}

/// A value that stays out of logs: a context may carry tokens.
fn sensitive(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

fn client_config(settings: &RemoteSettings) -> ClientConfig {
    let events = sse::DecodeLimits { line: settings.frame_bytes, event: settings.frame_bytes };
    let limits = ClientLimits { body_bytes: settings.frame_bytes, events, ..ClientLimits::default() };
    let timeouts = ClientTimeouts {
        connect: settings.connect_timeout,
        response: settings.response_timeout,
        idle: settings.idle_timeout,
        ..ClientTimeouts::default()
    };
    ClientConfig {
        limits,
        timeouts,
        #[cfg(feature = "tls")]
        tls: settings.tls.clone(),
        ..ClientConfig::default()
    }
}

/// Returns the failure of an upstream that sends what its protocol does not allow.
#[cfg(any(feature = "a2a", feature = "agui"))]
pub(crate) fn invalid(message: impl std::fmt::Display) -> RunFailure {
    RunFailure::new(RunFailure::UPSTREAM_INVALID, message.to_string())
}

#[cfg(test)]
mod tests {
    use aqueduct_core::agent::NoContext;

    use super::*;

    #[test]
    fn credentials_reach_the_configured_host_alone() {
        let settings =
            RemoteSettings::default().with_credentials("open-sesame").with_header("x-team", "a").unwrap();
        let connection = Connection::new("http://agent:8000/base", &settings).unwrap();
        let sent = |url| connection.request("GET", url, &[], &NoContext, Bytes::new()).unwrap();
        let own = sent("http://agent:8000/card");
        assert_eq!(own.headers()[header::AUTHORIZATION], "Bearer open-sesame");
        assert_eq!(own.headers()["x-team"], "a");
        assert!(!format!("{own:?}{settings:?}").contains("open-sesame"));
        for other in ["http://agent:8001/", "http://other:8000/", "https://elsewhere/"] {
            let other = sent(other);
            assert!(other.headers().is_empty(), "{other:?}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_at_once() {
        for url in ["agent:8000", "/card", "ftp://agent/", "http://", "not an address"] {
            let error = Connection::new(url, &RemoteSettings::default()).unwrap_err();
            assert!(error.to_string().contains(url), "{error}");
        }
    }
}

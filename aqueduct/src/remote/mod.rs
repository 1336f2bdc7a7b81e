//! Shared by remote agents of every protocol: sending calls, their headers, and the description of failures.
//!
//! ```text
//! RemoteSettings ──► Connection ──► request: headers of the run's context, of the protocol, credentials ──► Client
//!                                                                                    limits, circuit: Care ──┘
//! ```
//!
//! Calls are sent to the configured origin and to hosts that the settings allow; credentials, configured headers and
//! headers of the caller are sent to the configured origin alone (`bounds`). Redirects are not followed. This module
//! knows no agent protocol.

mod bounds;
mod care;
mod describe;
mod memory;
mod settings;

use std::sync::Arc;
#[cfg(feature = "a2a")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(any(feature = "a2a", feature = "agui"))]
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;
use aqueduct_transport_http::{Client, ClientConfig, ClientLimits, ClientTimeouts, sse};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri, header};

use crate::error::Error;
use bounds::{Bounds, Origin, Reach};
pub use care::{AgentHealth, BUSY, CIRCUIT_OPEN, Care, CareSettings, CareWatch};
pub use describe::{
    OWNER_LOST, REFUSED, TIMEOUT, UNAUTHORIZED, UNREACHABLE, describe_refusal, failure_code, failure_of,
    is_json, unsent, work_lost,
};
pub use memory::ThreadMemory;
pub use settings::{RemoteSettings, Secret};

/// Sends the calls to one remote agent. Clones share connections.
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
    credentials: Option<Secret>,
    headers: Vec<(HeaderName, HeaderValue)>,
    care: Arc<Care>,
    bounds: Bounds,
    /// The number of calls so far.
    #[cfg(feature = "a2a")]
    calls: Arc<AtomicU64>,
}

/// Headers of a call's context that are also sent to allowed hosts: they identify no caller.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

impl Connection {
    /// Returns a connection to the agent at `url`. No socket is opened yet.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Address`] if `url` is not an absolute HTTP address, and [`Error::Client`] if the TLS settings
    /// cannot be used.
    pub fn new(url: &str, settings: &RemoteSettings) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|error| Error::address(url, &error))?;
        let Some(own) = Origin::of(&uri) else {
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
            bounds: Bounds::new(own, &settings.hosts),
            #[cfg(feature = "a2a")]
            calls: Arc::default(),
        })
    }

    /// Returns the id of the next call, unique among the calls of this connection: some servers treat a repeated id as a repetition.
    #[cfg(feature = "a2a")]
    pub(crate) fn next_call_id(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Checks whether `url`, which a card may name, may be called.
    ///
    /// # Errors
    ///
    /// Returns the reason why it may not.
    pub fn check(&self, url: &str) -> Result<(), String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not an address: {error}"))?;
        self.bounds.reach(&uri).map(drop)
    }

    /// Returns the HTTP client, for callers that read responses themselves.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the results of the last calls to the agent.
    pub fn health(&self) -> AgentHealth {
        self.care.health()
    }

    /// Builds a request with the headers of `context`, then `headers`, then those of the settings. A request to an
    /// allowed host has only `headers` and the trace context.
    ///
    /// # Errors
    ///
    /// Returns the reason if an address or a header cannot be sent, or the address is not allowed.
    pub fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        context: &dyn CallContext,
        body: Bytes,
    ) -> Result<Request<Bytes>, String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not an address: {error}"))?;
        let is_own = self.bounds.reach(&uri)? == Reach::Own;
        let mut builder = Request::builder().method(method).uri(uri);
        let goes = |name: &str| is_own || TRACE_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known));
        for (name, value) in context.headers().into_iter().filter(|(name, _)| goes(name)) {
            builder = builder.header(name, sensitive(&value)?);
        }
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        if is_own {
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

/// Returns a header value that is kept out of logs: a context may contain tokens.
fn sensitive(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the limits and timeouts of the HTTP client.
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
        dial: settings.dial.clone(),
        #[cfg(feature = "tls")]
        tls: settings.tls.clone(),
        ..ClientConfig::default()
    }
}

/// Returns the failure of an upstream that violates its protocol.
#[cfg(any(feature = "a2a", feature = "agui"))]
pub(crate) fn invalid(message: impl std::fmt::Display) -> RunFailure {
    RunFailure::new(RunFailure::UPSTREAM_INVALID, message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of a caller, as a host forwards them.
    #[derive(Debug)]
    struct Forwarding;

    impl CallContext for Forwarding {
        fn headers(&self) -> Vec<(String, String)> {
            [("x-user", "ann"), ("cookie", "a=1"), ("baggage", "b=2"), ("traceparent", "00-1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        }
    }

    #[test]
    fn credentials_and_headers_of_callers_reach_the_configured_origin_alone() {
        let settings = RemoteSettings::default()
            .with_credentials("open-sesame")
            .with_header("x-team", "a")
            .unwrap()
            .with_hosts(["other".to_owned()]);
        let connection = Connection::new("https://agent/base", &settings).unwrap();
        let sent = |url| connection.request("GET", url, &[("accept", "*/*")], &Forwarding, Bytes::new());
        let own = sent("https://agent:443/card").unwrap();
        assert_eq!(own.headers()[header::AUTHORIZATION], "Bearer open-sesame");
        assert_eq!(
            (own.headers()["x-team"].as_bytes(), own.headers()["x-user"].as_bytes()),
            (&b"a"[..], &b"ann"[..])
        );
        assert!(!format!("{own:?}{settings:?}").contains("open-sesame"));
        let other = sent("https://other:8443/").unwrap();
        let names: Vec<&str> = other.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["traceparent", "accept"]);
        for refused in ["https://agent:8001/", "https://elsewhere/", "http://agent/", "http://other/"] {
            assert!(sent(refused).is_err(), "{refused}");
            assert!(connection.check(refused).is_err(), "{refused}");
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

//! [`RemoteSettings`]: the settings of calls to a remote agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_transport_http::{CallWatch, Dial};
use http::{HeaderName, HeaderValue};

use super::care::CareSettings;
use crate::error::Error;

/// The largest event of a stream or response, in bytes. A tool result can be large; a file in an event is larger.
const FRAME_BYTES: usize = 10 * 1024 * 1024;
/// An agent may think for long before its first byte.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// A stream without a byte or a keep-alive for this long counts as dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// A healthy network connects in milliseconds; two lost packets take 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of calls to a remote agent: credentials, timeouts, limits, TLS.
///
/// # Examples
///
/// ```
/// use aqueduct::remote::RemoteSettings;
/// use std::time::Duration;
///
/// let settings = RemoteSettings::default()
///     .with_credentials("a bearer token")
///     .with_idle_timeout(Duration::from_secs(300));
/// assert!(!format!("{settings:?}").contains("bearer token"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteSettings {
    /// The bearer token, sent only to the configured origin.
    pub credentials: Option<Secret>,
    /// Headers that are sent with every request to the configured origin.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Hosts beside the configured one that the card may name: `host`, for all of its ports, or `host:port`. They
    /// receive no credentials, no configured headers and no headers of callers.
    pub hosts: Vec<String>,
    /// The timeout of connecting, TLS included.
    pub connect_timeout: Duration,
    /// The timeout from the request to the head of its response.
    pub response_timeout: Duration,
    /// The timeout between two reads of a stream.
    pub idle_timeout: Duration,
    /// The largest event of a stream or response, in bytes.
    pub frame_bytes: usize,
    /// Limits, retries of connects, and the circuit breaker.
    pub care: CareSettings,
    /// Observes the calls that are sent: measurements, trace context.
    pub watch: Option<Arc<dyn CallWatch>>,
    /// Opens the connections of calls over HTTP, in place of sockets and TLS.
    pub dial: Option<Arc<dyn Dial>>,
    /// Trusted authorities and the client certificate; by default the public authorities and none.
    #[cfg(feature = "tls")]
    pub tls: aqueduct_transport_http::tls::ClientTls,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            credentials: None,
            headers: Vec::new(),
            hosts: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            response_timeout: RESPONSE_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            frame_bytes: FRAME_BYTES,
            care: CareSettings::default(),
            watch: None,
            dial: None,
            #[cfg(feature = "tls")]
            tls: aqueduct_transport_http::tls::ClientTls::default(),
        }
    }
}

aqueduct_core::setters! {
    impl RemoteSettings {
        /// Sets the timeout of connecting.
        pub fn with_connect_timeout(connect_timeout: Duration);
        /// Sets the timeout from a request to the head of its response.
        pub fn with_response_timeout(response_timeout: Duration);
        /// Sets the timeout between two reads of a stream.
        pub fn with_idle_timeout(idle_timeout: Duration);
        /// Sets the largest event of a stream or response, in bytes.
        pub fn with_frame_bytes(frame_bytes: usize);
        /// Sets limits, retries of connects, and the circuit breaker.
        pub fn with_care(care: CareSettings);
    }
}

impl RemoteSettings {
    /// Sets the bearer token.
    pub fn with_credentials(mut self, token: impl Into<String>) -> Self {
        self.credentials = Some(Secret::new(token));
        self
    }

    /// Adds a header to every request to the configured host. Its value is kept out of logs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Header`] if name or value cannot be sent.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let invalid = || Error::Header { name: name.to_owned() };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        self.headers.push((header, value));
        Ok(self)
    }

    /// Allows the card to name these hosts beside the configured one: `host`, or `host:port`.
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.hosts.extend(hosts);
        self
    }

    /// Sets the observer of calls.
    pub fn with_watch(mut self, watch: Arc<dyn CallWatch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Opens the connections of calls over HTTP by `dial`, in place of sockets and TLS. Calls over gRPC do not use it.
    pub fn with_dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = Some(dial);
        self
    }

    /// Sets trusted authorities and the client certificate.
    #[cfg(feature = "tls")]
    pub fn with_tls(mut self, tls: aqueduct_transport_http::tls::ClientTls) -> Self {
        self.tls = tls;
        self
    }
}

/// A secret, which is redacted in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

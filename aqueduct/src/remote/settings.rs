//! [`RemoteSettings`]: how a remote agent is called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_transport_http::CallWatch;
use http::{HeaderName, HeaderValue};

use super::care::CareSettings;
use crate::error::Error;

/// Bytes of one event of a stream, or of one answer. A tool result can be large; a file in an event is larger.
const FRAME_BYTES: usize = 10 * 1024 * 1024;
/// An agent may think for long before its first byte.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// A stream without a byte or a keep-alive for this long is taken for dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// A healthy network answers in milliseconds; two lost packets take 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a remote agent is called: credentials, timeouts, limits, TLS.
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
    /// Sent as `Authorization: Bearer`, to the configured origin alone.
    pub credentials: Option<Secret>,
    /// Sent with every request to the configured origin.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Hosts beside the configured one that the agent may name as its own, in its card: `host`, for all of its ports, or
    /// `host:port`. They get no credentials, no configured headers and no headers of callers.
    pub hosts: Vec<String>,
    /// Until the connection stands, TLS included.
    pub connect_timeout: Duration,
    /// From the request to the head of its answer.
    pub response_timeout: Duration,
    /// Between two reads of a stream.
    pub idle_timeout: Duration,
    /// Bytes of one event of a stream, or of one answer.
    pub frame_bytes: usize,
    /// Limits, retries of connects, and when the agent is given up for a while.
    pub care: CareSettings,
    /// Watches the calls that are sent: measures, trace context.
    pub watch: Option<Arc<dyn CallWatch>>,
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
            #[cfg(feature = "tls")]
            tls: aqueduct_transport_http::tls::ClientTls::default(),
        }
    }
}

impl RemoteSettings {
    /// Sends this bearer token.
    pub fn with_credentials(mut self, token: impl Into<String>) -> Self {
        self.credentials = Some(Secret::new(token));
        self
    }

    /// Sends this header with every request to the configured host. Its value stays out of logs.
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

    /// Lets the agent name these hosts as its own beside the configured one: `host`, or `host:port`.
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.hosts.extend(hosts);
        self
    }

    /// Sets the time until the connection stands.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the time from a request to the head of its answer.
    pub fn with_response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets the time between two reads of a stream.
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the bytes of one event of a stream, or of one answer.
    pub fn with_frame_bytes(mut self, bytes: usize) -> Self {
        self.frame_bytes = bytes;
        self
    }

    /// Sets limits, retries of connects, and when the agent is given up for a while.
    pub fn with_care(mut self, care: CareSettings) -> Self {
        self.care = care;
        self
    }

    /// Watches the calls that are sent.
    pub fn with_watch(mut self, watch: Arc<dyn CallWatch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Sets trusted authorities and the client certificate.
    #[cfg(feature = "tls")]
    pub fn with_tls(mut self, tls: aqueduct_transport_http::tls::ClientTls) -> Self {
        self.tls = tls;
        self
    }
}

/// A secret. Never printed.
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

//! [`RedisConfig`]: the addresses of the servers, TLS, key prefix and limits.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Client, RedisError};

use super::dial::RedisDial;
use crate::limits::LogLimits;

/// The configuration of a [`RedisLog`](super::RedisLog).
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `redis://[user:password@]host[:port][/database]`, or `rediss://…` for TLS. For a cluster any node, or several separated
    /// by commas: the others are discovered. Secret: it may contain a password.
    pub url: String,
    /// Certificate authorities (PEM) for servers with TLS, instead of the public ones.
    #[cfg(feature = "redis-tls")]
    pub authorities: Option<Vec<u8>>,
    /// The certificate chain (PEM) that is shown to a server with TLS, and its private key (PEM).
    #[cfg(feature = "redis-tls")]
    pub identity: Option<ClientIdentity>,
    /// The name of the service that Sentinel watches: `url` then names sentinels, with the user, password and database of
    /// the servers.
    pub sentinel: Option<String>,
    /// The prefix of all keys, so that several gateways can share one server.
    pub prefix: String,
    /// The time that a call waits for an unreachable server before it is refused. A restart of the server takes a second or
    /// two, and runs should not fail for it.
    pub patience: Duration,
    /// The time to live of keys that are not renewed: a backstop for keys that no process deletes any
    /// more. Keys of open runs are renewed with their leases. It must be longer than twice the time for
    /// which ended runs are kept.
    pub expiry: Duration,
    /// The limits of one run. Those of the whole log apply to the other engines only.
    pub limits: LogLimits,
    /// The name of this process among the replicas that share the log; by default a random number.
    pub replica: Option<String>,
    /// Opens the connections in place of TCP and TLS. Sentinels are always reached by TCP.
    pub dial: Option<Arc<dyn RedisDial>>,
}

/// A certificate chain and its private key, both PEM.
#[cfg(feature = "redis-tls")]
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The chain, with the certificate of the client first.
    pub certificate: Vec<u8>,
    /// The private key. Secret.
    pub key: Vec<u8>,
}

#[cfg(feature = "redis-tls")]
impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// A month: longer than any run is kept.
const EXPIRY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl RedisConfig {
    /// Returns the configuration for the server at `url`, with defaults for everything else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            #[cfg(feature = "redis-tls")]
            authorities: None,
            #[cfg(feature = "redis-tls")]
            identity: None,
            sentinel: None,
            prefix: "aqueduct".to_owned(),
            patience: Duration::from_secs(10),
            expiry: EXPIRY,
            limits: LogLimits::default(),
            replica: None,
            dial: None,
        }
    }
}

impl RedisConfig {
    /// Returns a client for every address.
    pub(super) fn clients(&self) -> Result<Vec<Client>, RedisError> {
        let urls = self.url.split(',').map(str::trim).filter(|url| !url.is_empty());
        urls.map(|url| client(self, url)).collect()
    }
}

#[cfg(not(feature = "redis-tls"))]
fn client(_: &RedisConfig, url: &str) -> Result<Client, RedisError> {
    Client::open(url)
}

/// With authorities or a certificate of its own a server without TLS is an error: the configuration means it to have it.
#[cfg(feature = "redis-tls")]
fn client(config: &RedisConfig, url: &str) -> Result<Client, RedisError> {
    let (root_cert, identity) = (config.authorities.clone(), config.identity.clone());
    if root_cert.is_none() && identity.is_none() {
        return Client::open(url);
    }
    let client_tls = identity.map(|ClientIdentity { certificate, key }| ::redis::ClientTlsConfig {
        client_cert: certificate,
        client_key: key,
    });
    Client::build_with_tls(url, ::redis::TlsCertificates { client_tls, root_cert })
}

//! [`RedisConfig`]: the addresses of the servers, TLS, key prefix and limits.

use std::time::Duration;

use ::redis::{Client, RedisError};

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
    /// The prefix of all keys: several gateways can share one server.
    pub prefix: String,
    /// The time that a call waits for an unreachable server before it is refused. A restart of the server takes a second or
    /// two, and runs should not fail for it.
    pub patience: Duration,
    /// The limits of a run.
    pub limits: LogLimits,
}

impl RedisConfig {
    /// Returns the configuration for the server at `url`, with defaults for everything else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            #[cfg(feature = "redis-tls")]
            authorities: None,
            prefix: "aqueduct".to_owned(),
            patience: Duration::from_secs(10),
            limits: LogLimits::default(),
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

/// Rejects authorities for a server without TLS: the configuration intended TLS.
#[cfg(feature = "redis-tls")]
fn client(config: &RedisConfig, url: &str) -> Result<Client, RedisError> {
    match config.authorities.clone() {
        None => Client::open(url),
        Some(authorities) => {
            let trusted = ::redis::TlsCertificates { client_tls: None, root_cert: Some(authorities) };
            Client::build_with_tls(url, trusted)
        }
    }
}

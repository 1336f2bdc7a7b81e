//! [`RedisConfig`]: which servers, and how they are talked to.

use std::time::Duration;

use ::redis::{Client, RedisError};

use crate::limits::LogLimits;

/// How to reach the server.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `redis://[user:password@]host[:port][/database]`, or `rediss://…` for TLS. Of a cluster any node, or several with
    /// commas between them: the others are found through them. Secret: it may hold a password.
    pub url: String,
    /// Authorities (PEM) that a server with TLS must be vouched for by, instead of the public ones.
    #[cfg(feature = "redis-tls")]
    pub authorities: Option<Vec<u8>>,
    /// What all keys begin with: several gateways can share one server.
    pub prefix: String,
    /// How long a call waits for a server that cannot be reached, before it is refused. A restart of the server takes a
    /// second or two, and runs should not fail for it.
    pub patience: Duration,
    /// How much a run may hold.
    pub limits: LogLimits,
}

impl RedisConfig {
    /// The server at that address, everything else as usual.
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
    /// A client for every address.
    pub(super) fn clients(&self) -> Result<Vec<Client>, RedisError> {
        let urls = self.url.split(',').map(str::trim).filter(|url| !url.is_empty());
        urls.map(|url| client(self, url)).collect()
    }
}

#[cfg(not(feature = "redis-tls"))]
fn client(_: &RedisConfig, url: &str) -> Result<Client, RedisError> {
    Client::open(url)
}

/// With authorities of its own a server without TLS is an error: somebody meant it to have it.
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

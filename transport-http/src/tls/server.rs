//! [`ServerTls`]: the identity of a server, and the client certificates that it requires; [`LiveTls`]: its replacement at
//! run time.

use std::sync::Arc;
#[cfg(feature = "server")]
use std::sync::{PoisonError, RwLock};

#[cfg(feature = "server")]
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;

use super::TlsError;
use super::pem::{Authorities, Identity};

/// The TLS settings of a server.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The identity of the server.
    pub identity: Identity,
    /// The authorities that may sign the certificates of clients. If set, a client without such a certificate is rejected.
    pub client_authorities: Option<Authorities>,
}

impl ServerTls {
    /// Returns the configuration, offering `protocols` (ALPN), the preferred one first.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate or key cannot be used.
    pub fn into_config(self, protocols: &[&[u8]]) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        let builder = rustls::ServerConfig::builder_with_provider(super::provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::unusable)?;
        let builder = match self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(authorities.into_store()?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, super::provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(TlsError::unusable)?)
            }
        };
        let Identity { chain, key } = self.identity;
        let mut config = builder.with_single_cert(chain, key).map_err(TlsError::unusable)?;
        config.alpn_protocols = super::owned(protocols);
        Ok(Arc::new(config))
    }
}

/// The replaceable TLS configuration of a listening server. Later handshakes use the new one. Clones share it.
#[cfg(feature = "server")]
#[derive(Debug, Clone)]
pub struct LiveTls {
    current: Arc<RwLock<Current>>,
    protocols: &'static [&'static [u8]],
}

/// The present configuration, and its certificate for the comparison with a new one.
#[cfg(feature = "server")]
#[derive(Debug)]
struct Current {
    config: Arc<rustls::ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
}

#[cfg(feature = "server")]
impl LiveTls {
    /// Returns a configuration that offers `protocols` (ALPN).
    pub(crate) fn new(tls: ServerTls, protocols: &'static [&'static [u8]]) -> Result<Self, TlsError> {
        let current = Arc::new(RwLock::new(Current::new(tls, protocols)?));
        Ok(Self { current, protocols })
    }

    /// Replaces the configuration. Returns `true` if the server has another certificate than before.
    ///
    /// # Errors
    ///
    /// Returns an error if certificates and key do not match. The server keeps the former configuration.
    pub fn replace(&self, tls: ServerTls) -> Result<bool, TlsError> {
        let next = Current::new(tls, self.protocols)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = current.chain != next.chain;
        *current = next;
        Ok(is_other)
    }

    pub(crate) fn current(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config)
    }
}

#[cfg(feature = "server")]
impl Current {
    fn new(tls: ServerTls, protocols: &[&[u8]]) -> Result<Self, TlsError> {
        let chain = tls.identity.chain.clone();
        Ok(Self { config: tls.into_config(protocols)?, chain })
    }
}

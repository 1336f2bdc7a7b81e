//! What a server shows and asks for.

use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;

use super::TlsError;
use super::pem::{Authorities, Identity};

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Who the server is.
    pub identity: Identity,
    /// Who may sign the certificates of clients. If given, a client without such a certificate is refused.
    pub client_authorities: Option<Authorities>,
}

impl ServerTls {
    /// The configuration, offering `protocols` (ALPN), the preferred one first.
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

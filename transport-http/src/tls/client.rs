//! [`ClientTls`]: the authorities that a client trusts, and its identity.

use super::TlsError;
use super::pem::{Authorities, Identity};

/// The TLS settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientTls {
    /// The authorities that may sign the certificates of servers; the public ones if absent.
    pub authorities: Option<Authorities>,
    /// The identity of the client, for servers that request one.
    pub identity: Option<Identity>,
}

impl ClientTls {
    /// Returns the configuration, offering `protocols` (ALPN), the preferred one first; empty if the connector chooses.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate or key cannot be used.
    pub fn into_config(self, protocols: &[&[u8]]) -> Result<rustls::ClientConfig, TlsError> {
        let roots = match self.authorities {
            Some(authorities) => authorities.into_store()?,
            None => rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        };
        let builder = rustls::ClientConfig::builder_with_provider(super::provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::unusable)?
            .with_root_certificates(roots);
        let mut config = match self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).map_err(TlsError::unusable)?
            }
        };
        config.alpn_protocols = super::owned(protocols);
        Ok(config)
    }
}

//! TLS by rustls with the ring provider: certificates in, ready configurations out.
//!
//! Nothing here is global: no process-wide provider is installed, so a program may use another one beside.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::TlsError;

/// A certificate chain and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads PEM files.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        Self::parse(&read(chain)?, &display(chain), &read(key)?, &display(key))
    }

    /// Reads PEM text.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::parse(chain, "memory", key, "memory")
    }

    fn parse(chain: &[u8], chain_path: &str, key: &[u8], key_path: &str) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| pem_error("a private key", key_path, error.to_string()))?;
        Ok(Self { chain: certificates(chain, chain_path)?, key })
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

/// The key stays out of logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// Certificates that are trusted to sign others.
#[derive(Debug, Clone)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Reads a PEM file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let path = path.as_ref();
        certificates(&read(path)?, &display(path)).map(Self)
    }

    /// Reads PEM text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        certificates(pem, "memory").map(Self)
    }

    fn into_store(self) -> Result<rustls::RootCertStore, TlsError> {
        let mut store = rustls::RootCertStore::empty();
        for certificate in self.0 {
            store.add(certificate).map_err(unusable)?;
        }
        Ok(store)
    }
}

/// What a server shows and asks for.
#[cfg(feature = "server")]
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Who the server is.
    pub identity: Identity,
    /// Who may sign the certificates of clients. If given, a client without such a certificate is refused.
    pub client_authorities: Option<Authorities>,
}

#[cfg(feature = "server")]
impl ServerTls {
    /// The configuration, offering HTTP/2 only: gRPC speaks nothing else.
    pub(crate) fn into_config(self) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(authorities.into_store()?);
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(unusable)?)
            }
        };
        let mut config =
            builder.with_single_cert(self.identity.chain, self.identity.key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Whom a client trusts and who it is.
#[cfg(feature = "client")]
#[derive(Debug, Clone, Default)]
pub struct ClientTls {
    /// Who may sign the certificates of servers; the authorities of the web if absent.
    pub authorities: Option<Authorities>,
    /// Who the client is, for servers that ask.
    pub identity: Option<Identity>,
}

#[cfg(feature = "client")]
impl ClientTls {
    /// The configuration; what it offers is set by the connector.
    pub(crate) fn into_config(self) -> Result<rustls::ClientConfig, TlsError> {
        let roots = match self.authorities {
            Some(authorities) => authorities.into_store()?,
            None => rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        };
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(roots);
        match self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key).map_err(unusable),
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &[u8], path: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(pem_error("a certificate", path, "there is none".to_owned())),
        Err(error) => Err(pem_error("a certificate", path, error.to_string())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| pem_error("PEM", &display(path), error.to_string()))
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn pem_error(what: &'static str, path: &str, reason: String) -> TlsError {
    TlsError::Pem { what, path: path.to_owned(), reason }
}

fn unusable(error: impl fmt::Display) -> TlsError {
    TlsError::Unusable(error.to_string())
}

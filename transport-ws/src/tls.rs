//! TLS settings from PEM text, for servers and clients, with certificates on both sides if wanted.
//!
//! Programs with needs of their own pass a `rustls` configuration instead.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::Error;

/// A certificate chain and its key, as PEM text.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The chain, the own certificate first.
    pub certificates: &'a [u8],
    /// The key.
    pub key: &'a [u8],
}

/// The key stays out of logs.
impl std::fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Settings of a server; with `client_roots` it talks only to clients that they vouch for.
pub fn server_config(
    identity: Identity<'_>,
    client_roots: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let builder = match client_roots {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
                .build()
                .map_err(|error| Error::Tls(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (chain, key) = read(identity)?;
    let config = builder.with_single_cert(chain, key).map_err(|error| Error::Tls(error.to_string()))?;
    Ok(Arc::new(config))
}

/// Settings of a client that trusts `server_roots`, and shows `identity` if it has one.
pub fn client_config(
    server_roots: &[u8],
    identity: Option<Identity<'_>>,
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?
        .with_root_certificates(roots(server_roots)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = read(identity)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| Error::Tls(error.to_string()))?
        }
    };
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem)? {
        store.add(certificate).map_err(|error| Error::Tls(error.to_string()))?;
    }
    Ok(store)
}

fn read(identity: Identity<'_>) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let key = PrivateKeyDer::from_pem_slice(identity.key)
        .map_err(|error| Error::Tls(format!("no key: {error}")))?;
    Ok((certificates(identity.certificates)?, key))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| Error::Tls(format!("no certificate: {error}")))?;
    if found.is_empty() {
        return Err(Error::Tls("the PEM text holds no certificate".to_owned()));
    }
    Ok(found)
}

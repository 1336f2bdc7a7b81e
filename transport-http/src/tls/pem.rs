//! Identities and authorities from PEM files or PEM text. Errors name the file and the expected item.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// The path in errors about text that is not from a file.
const IN_MEMORY: &str = "memory";

/// A certificate chain and its private key.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads PEM files. The first certificate of the chain is the identity's own.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file if it cannot be read or lacks a certificate or key.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        Self::parse(&read(chain)?, &display(chain), &read(key)?, &display(key))
    }

    /// Parses PEM text. The first certificate of the chain is the identity's own.
    ///
    /// # Errors
    ///
    /// Returns an error if the text lacks a certificate or key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::parse(chain, IN_MEMORY, key, IN_MEMORY)
    }

    fn parse(chain: &[u8], chain_path: &str, key: &[u8], key_path: &str) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| missing("a private key", key_path, error.to_string()))?;
        Ok(Self { chain: certificates(chain, chain_path)?, key })
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

// Omits the key.
aqueduct_core::debug_fields!(Identity { certificates: chain.len() });

/// Certificates of trusted authorities.
#[derive(Debug, Clone)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Reads a PEM file.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file if it cannot be read or contains no certificate.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let path = path.as_ref();
        certificates(&read(path)?, &display(path)).map(Self)
    }

    /// Parses PEM text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text contains no certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        certificates(pem, IN_MEMORY).map(Self)
    }

    pub(crate) fn into_store(self) -> Result<rustls::RootCertStore, TlsError> {
        let mut store = rustls::RootCertStore::empty();
        for certificate in self.0 {
            store.add(certificate).map_err(TlsError::unusable)?;
        }
        Ok(store)
    }
}

fn certificates(pem: &[u8], path: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(missing("a certificate", path, "there is none".to_owned())),
        Err(error) => Err(missing("a certificate", path, error.to_string())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| missing("PEM", &display(path), error.to_string()))
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn missing(what: &'static str, path: &str, reason: String) -> TlsError {
    TlsError::Pem { what, path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_what_is_missing_and_where() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let failed = |result: Result<Identity, TlsError>| result.unwrap_err().to_string();
        let swapped = failed(Identity::from_pem(key.as_bytes(), key.as_bytes()));
        assert!(swapped.contains("a certificate from memory: there is none"), "{swapped}");
        let keyless = failed(Identity::from_pem(chain.as_bytes(), b""));
        assert!(keyless.contains("a private key from memory"), "{keyless}");
        let absent = failed(Identity::from_files("no/such/chain.pem", "no/such/key.pem"));
        assert!(absent.contains("no/such/chain.pem"), "{absent}");
    }

    #[test]
    fn the_key_is_never_shown() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = made.signing_key.serialize_pem();
        let identity = Identity::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(format!("{identity:?}"), "Identity { certificates: 1, .. }");
    }
}

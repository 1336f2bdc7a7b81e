//! Who one is and whom one trusts, from PEM files or PEM text. Errors name the file and what was looked for in it.

use std::fmt;
use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// Stands for the path of text that was never in a file.
const IN_MEMORY: &str = "memory";

/// A certificate chain and its key.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads PEM files; the own certificate is the first of the chain.
    ///
    /// # Errors
    ///
    /// An error that names the file that cannot be read or holds nothing of the kind.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        Self::parse(&read(chain)?, &display(chain), &read(key)?, &display(key))
    }

    /// Reads PEM text; the own certificate is the first of the chain.
    ///
    /// # Errors
    ///
    /// An error if the text holds nothing of the kind.
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

/// Never shows the key.
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
    ///
    /// # Errors
    ///
    /// An error that names the file that cannot be read or holds nothing of the kind.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let path = path.as_ref();
        certificates(&read(path)?, &display(path)).map(Self)
    }

    /// Reads PEM text.
    ///
    /// # Errors
    ///
    /// An error if the text holds nothing of the kind.
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

//! Reads the configured certificates and keys from their files: once for the port, once per agent and issuer.
//!
//! Files are read when a gateway starts, when its configuration is reloaded and when an agent is built. A file
//! that cannot be read or parsed is an error with its path.

pub(crate) use aqueduct_transport_http::tls::{Authorities, TlsError};
use aqueduct_transport_http::tls::{ClientTls, Identity, ServerTls};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use crate::config;

/// Returns the TLS settings of the port. With client authorities, certificates of clients are verified.
pub(crate) fn of_server(files: &config::ServerTls) -> Result<ServerTls, TlsError> {
    let identity = Identity::from_files(&files.certificate, &files.key)?;
    let client_authorities = files.client_ca.as_ref().map(Authorities::from_file).transpose()?;
    Ok(ServerTls { identity, client_authorities })
}

/// Returns the TLS settings of calls to an agent; the public authorities are trusted if nothing is configured.
pub(crate) fn of_client(files: Option<&config::ClientTls>) -> Result<ClientTls, TlsError> {
    let Some(files) = files else { return Ok(ClientTls::default()) };
    let authorities = files.ca.as_ref().map(Authorities::from_file).transpose()?;
    let identity = files.identity.as_ref();
    let identity = identity.map(|(chain, key)| Identity::from_files(chain, key)).transpose()?;
    Ok(ClientTls { authorities, identity })
}

/// Returns the files of an agent that are read when it is built: certificates, their keys, and `card_keys`.
pub(crate) fn files_of_agent(agent: &config::Agent) -> impl Iterator<Item = &PathBuf> {
    files_of_client(agent.tls.as_ref()).chain(&agent.card_keys)
}

/// Returns the files of an issuer: certificates and their keys, which are read when it is built, and `keys_file`.
pub(crate) fn files_of_issuer(issuer: &config::Issuer) -> impl Iterator<Item = &PathBuf> {
    files_of_client(issuer.tls.as_ref()).chain(&issuer.keys_file)
}

fn files_of_client(tls: Option<&config::ClientTls>) -> impl Iterator<Item = &PathBuf> {
    tls.into_iter().flat_map(|tls| {
        let (chain, key) = tls.identity.as_ref().map(|(chain, key)| (chain, key)).unzip();
        [tls.ca.as_ref(), chain, key].into_iter().flatten()
    })
}

/// Returns a hash of the content of files; files that cannot be read count as empty. A reload compares it, to rebuild what was
/// built from files that have changed under the same names. Not stable between builds.
pub(crate) fn fingerprint<'f>(files: impl Iterator<Item = &'f PathBuf>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

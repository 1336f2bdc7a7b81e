//! The certificates and keys that the configuration names, read from their files: once for the port, once per agent.

pub(crate) use aqueduct_transport_http::tls::{Authorities, TlsError};
use aqueduct_transport_http::tls::{ClientTls, Identity, ServerTls};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::config;

/// What the port shows and asks for.
pub(crate) fn of_server(files: &config::ServerTls) -> Result<ServerTls, TlsError> {
    let identity = Identity::from_files(&files.certificate, &files.key)?;
    let client_authorities = files.client_ca.as_ref().map(Authorities::from_file).transpose()?;
    Ok(ServerTls { identity, client_authorities })
}

/// Whom an agent's calls trust and who they are; the authorities of the web where nothing is configured.
pub(crate) fn of_client(files: Option<&config::ClientTls>) -> Result<ClientTls, TlsError> {
    let Some(files) = files else { return Ok(ClientTls::default()) };
    let authorities = files.ca.as_ref().map(Authorities::from_file).transpose()?;
    let identity = files.identity.as_ref();
    let identity = identity.map(|(chain, key)| Identity::from_files(chain, key)).transpose()?;
    Ok(ClientTls { authorities, identity })
}

/// Returns a number that differs when the files of an agent's certificates hold something else; files that cannot be read
/// count as empty.
pub(crate) fn fingerprint(files: Option<&config::ClientTls>) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(config::ClientTls { ca, identity }) = files {
        let identity = identity.iter().flat_map(|(chain, key)| [chain, key]);
        for file in ca.iter().chain(identity) {
            std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        }
    }
    hasher.finish()
}

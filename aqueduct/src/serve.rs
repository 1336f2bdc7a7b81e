//! [`serve`]: a router on a socket, with the limits, timeouts and admission of the transport.

use std::net::{SocketAddr, ToSocketAddrs};

use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Admission, Server, ServerConfig};
use axum::Router;

use crate::error::Error;

/// Serves `router` at `address` until the process ends. Requests for foreign hosts, and from foreign origins of browsers,
/// are refused; port 0 takes a free port, which is printed to standard output as `http://{address}`.
///
/// # Errors
///
/// Returns [`Error::Bind`] if the address cannot be resolved or is taken.
pub async fn serve(address: impl ToSocketAddrs, router: Router) -> Result<(), Error> {
    let server = bind(address).await?;
    announce(server.local_addr().map_err(Error::Server)?);
    server.serve(Admission::default().apply(router), CancelToken::new()).await;
    Ok(())
}

async fn bind(address: impl ToSocketAddrs) -> Result<Server, Error> {
    let mut found = address.to_socket_addrs().map_err(|error| Error::Bind { reason: error.to_string() })?;
    let address =
        found.next().ok_or_else(|| Error::Bind { reason: "the address names no host".to_owned() })?;
    Server::bind(address, ServerConfig::default()).await.map_err(Error::Server)
}

#[expect(clippy::print_stdout, reason = "a program on port 0 has to say where it is")]
fn announce(address: SocketAddr) {
    println!("http://{address}");
}

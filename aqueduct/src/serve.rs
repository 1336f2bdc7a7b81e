//! [`serve`]: serves a router on a socket, with the limits, timeouts and admission of the transport.

use std::net::{SocketAddr, ToSocketAddrs};

use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Admission, Server, ServerConfig};
use axum::Router;

use crate::error::Error;

/// Serves `router` at `address` until the process ends. Requests with a foreign `Host`, and from foreign origins of
/// browsers, are refused. Port 0 selects a free port; the address is printed to standard output as `http://{address}`.
///
/// # Errors
///
/// Returns [`Error::Bind`] if the address cannot be resolved, and [`Error::Server`] if it is in use.
///
/// # Examples
///
/// ```no_run
/// use aqueduct::prelude::*;
///
/// # #[cfg(feature = "agui")]
/// # async fn run() -> Result<(), aqueduct::Error> {
/// let runs = Runs::new();
/// aqueduct::serve("127.0.0.1:8000", agui::router(&runs)).await
/// # }
/// ```
pub async fn serve(address: impl ToSocketAddrs, router: Router) -> Result<(), Error> {
    let server = bind(address).await?;
    announce(server.local_addr().map_err(Error::Server)?);
    server.serve(Admission::default().apply(router), CancelToken::new()).await;
    Ok(())
}

/// Binds the first address that `address` resolves to.
async fn bind(address: impl ToSocketAddrs) -> Result<Server, Error> {
    let mut found = address.to_socket_addrs().map_err(|error| Error::Bind { reason: error.to_string() })?;
    let address =
        found.next().ok_or_else(|| Error::Bind { reason: "the address names no host".to_owned() })?;
    Server::bind(address, ServerConfig::default()).await.map_err(Error::Server)
}

/// Prints the bound address.
#[expect(clippy::print_stdout, reason = "a program on port 0 has to say where it is")]
fn announce(address: SocketAddr) {
    println!("http://{address}");
}

//! The seam between the client and its network: a host can open the connections of a client itself.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use http::Uri;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The future of a connection that a [`Dial`] opens.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// Opens the connections of a [`Client`](crate::Client), in place of sockets and TLS: for upstreams behind a Unix socket, a
/// tunnel, or in the same process.
pub trait Dial: Debug + Send + Sync + 'static {
    /// Opens a connection to the origin of `target`. The client reads and writes HTTP on it as it is, also for `https`
    /// addresses. The limit `connect` applies.
    fn dial(&self, target: &Uri) -> Dialing;
}

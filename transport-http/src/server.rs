//! A server for an [`axum::Router`]: HTTP/1.1 and HTTP/2 (also without TLS) on one port, with every limit enforced.
//!
//! ```text
//! permit of `limits.connections` ──► accept ──► TLS ──► hyper over a guarded socket ──► router ──► response
//!                                                       ├ one timer for the phases idle, head, busy (`phase`)
//!                                                       └ the socket of a quiet stream is taken from hyper (`handoff`)
//! ```
//!
//! Why not `axum::serve`: it does not close a connection that sends its head slowly, bounds neither connections nor the
//! kernel's send buffers, and does not report its open connections.
//!
//! Invariants: a peer cannot use more than [`Limits`](crate::Limits), nor hold it for longer than
//! [`Timeouts`](crate::Timeouts) without sending or accepting bytes; every count of open connections and streams is
//! decremented on every path. The server knows nothing about its routes.

mod connection;
mod exchange;
mod handoff;
mod io;
mod phase;
mod preface;
mod quiet;
mod request_body;
mod service;
mod stopping;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::CancelToken;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

pub use self::request_body::BodyLimitLift;
pub(crate) use self::request_body::{BodyLimits, BodyTooLong, BodyTooSlow};
pub use self::service::StallWatched;
pub use self::stopping::{Drained, Stopping};
pub use self::workers::Workers;

use self::io::ConnectionPermit;
use self::service::RefusedPeer;
use self::stopping::Open;
use self::workers::WorkerHandles;
use crate::config::{HttpVersions, Limits, ServerConfig, Timeouts};
use crate::counters::{Counters, Gauge, Total};
use crate::error::Error;
use crate::quota::Quotas;
#[cfg(feature = "tls")]
use crate::tls::LiveTls;

/// The pause after a failed accept, mostly for lack of file descriptors, which ending connections release.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The least buffer size of HTTP/1.1 that hyper accepts: it panics below.
const LEAST_BUFFER_BYTES: usize = 8192;

/// The address of the peer, as an extension of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The verified certificate (DER) of the peer, as an extension of every request of a connection with a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub bytes::Bytes);

/// A listening socket with its configuration.
///
/// # Examples
///
/// ```no_run
/// use aqueduct_transport_http::{CancelToken, Server, ServerConfig, Error};
///
/// # async fn run(router: axum::Router) -> Result<(), Error> {
/// let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await?;
/// println!("listening on {}", server.local_addr()?);
/// server.serve(router, CancelToken::new()).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: ServerConfig,
    counters: Counters,
    /// Cancelled when health checks must fail; see [`Stopping::leaving`].
    leaving: CancelToken,
    quotas: Quotas,
    workers: WorkerHandles,
    #[cfg(feature = "tls")]
    tls: Option<LiveTls>,
}

impl Server {
    /// Binds `address`; port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Bind`] if the address is in use or not local, and [`Error::Tls`] if TLS cannot be set up.
    pub async fn bind(
        address: impl ToSocketAddrs + std::fmt::Debug,
        config: ServerConfig,
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind(&address)
            .await
            .map_err(|source| Error::Bind { address: format!("{address:?}"), source })?;
        Self::from_listener(listener, config)
    }

    /// Returns a server on a socket that already listens.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Tls`] if TLS cannot be set up.
    pub fn from_listener(listener: TcpListener, config: ServerConfig) -> Result<Self, Error> {
        #[cfg(feature = "tls")]
        let tls = config.tls.clone().map(|tls| LiveTls::new(tls, protocols(config.versions))).transpose()?;
        Ok(Self {
            listener,
            config,
            counters: Counters::default(),
            leaving: CancelToken::new(),
            quotas: Quotas::default(),
            workers: WorkerHandles::default(),
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Sets the token that makes health checks fail once it is cancelled, while the server still accepts connections.
    pub fn leaving_by(mut self, leaving: CancelToken) -> Self {
        self.leaving = leaving;
        self
    }

    /// Enforces quotas per caller. Servers that share `quotas` share the counts. By default there are none.
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Serves connections on the threads of `workers`. By default they are tasks of the runtime that runs
    /// [`serve`](Self::serve).
    pub fn on_workers(mut self, workers: &Workers) -> Self {
        self.workers = workers.handles();
        self
    }

    /// Returns the address that the server listens on.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Socket`] if the system does not return the address.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Socket)
    }

    /// Returns the TLS configuration, which can be replaced when certificates are renewed. Returns `None` for plain text.
    #[cfg(feature = "tls")]
    pub fn tls(&self) -> Option<LiveTls> {
        self.tls.clone()
    }

    /// Returns the live counts of the server.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Serves until `stop` is cancelled, then waits for open connections within the timeouts `drain` and `close`, and cuts the
    /// rest. Dropping the future drops all connections except upgraded ones, which their service owns.
    pub async fn serve(self, router: Router, stop: CancelToken) -> Drained {
        let ServerConfig { limits, timeouts, versions, .. } = self.config;
        let mut open = Open::new(limits.connections);
        let shared = Arc::new(Shared {
            router,
            builder: builder(&limits, &timeouts, versions),
            limits,
            timeouts,
            versions,
            counters: self.counters,
            stopping: Stopping::new(self.leaving, stop),
            quotas: self.quotas,
            #[cfg(feature = "tls")]
            tls: self.tls,
        });
        accept_until_stopped(&self.listener, &shared, &self.workers, &mut open).await;
        drop(self.listener);
        open.drain(&shared.timeouts, &shared.stopping).await
    }
}

/// The protocols that TLS offers (ALPN), the preferred one first.
#[cfg(feature = "tls")]
fn protocols(versions: HttpVersions) -> &'static [&'static [u8]] {
    match versions {
        HttpVersions::Negotiated => &[b"h2", b"http/1.1"],
        HttpVersions::Http1 => &[b"http/1.1"],
        HttpVersions::Http2 => &[b"h2"],
    }
}

/// The state that all connections of a server share.
#[derive(Debug)]
struct Shared {
    router: Router,
    limits: Limits,
    timeouts: Timeouts,
    versions: HttpVersions,
    counters: Counters,
    stopping: Stopping,
    quotas: Quotas,
    builder: Builder<TokioExecutor>,
    #[cfg(feature = "tls")]
    tls: Option<LiveTls>,
}

/// Returns hyper's builder with the configured limits.
fn builder(limits: &Limits, timeouts: &Timeouts, versions: HttpVersions) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = match versions {
        HttpVersions::Negotiated => builder,
        HttpVersions::Http1 => builder.http1_only(),
        HttpVersions::Http2 => builder.http2_only(),
    };
    builder
        .http1()
        // The timer of `phase` covers the head and more.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes.max(LEAST_BUFFER_BYTES));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.pong)
        .max_concurrent_streams(limits.streams_per_connection)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.error_resets)
        .max_send_buf_size(limits.stream_send_bytes)
        .initial_stream_window_size(limits.stream_receive_bytes)
        .initial_connection_window_size(limits.connection_receive_bytes);
    builder
}

/// Accepts connections until the server stops. Waits for a permit before each accept, so that the new connections of a full
/// server wait in the kernel's queue.
async fn accept_until_stopped(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    workers: &WorkerHandles,
    open: &mut Open,
) {
    let stopped = shared.stopping.draining.cancelled();
    tokio::pin!(stopped);
    loop {
        let permit = open.permit();
        let next = async { Some((permit.await?, listener.accept().await)) };
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => return,
            Some(_ended) = open.tasks.join_next() => continue,
            accepted = next => accepted,
        };
        match accepted {
            None => return,
            Some((permit, Ok((stream, peer)))) => {
                shared.counters.count(Total::Connections);
                let Some((peer_permit, refused)) = shared.quotas.connect(peer.ip()) else { continue };
                set_up(&stream, shared.limits.send_buffer_bytes);
                let open_count = shared.counters.open(Gauge::Connections);
                let (worker, worker_permit) = workers.pick().unzip();
                let permit = ConnectionPermit {
                    _permit: permit,
                    _open: open_count,
                    _peer: peer_permit,
                    _worker: worker_permit,
                };
                let (shared, refused) = (Arc::clone(shared), refused.map(RefusedPeer::new));
                let accepted = Box::new(connection::Accepted { shared, address: peer, permit, refused });
                let Some(worker) = worker else {
                    open.tasks.spawn(connection::serve(stream, accepted));
                    continue;
                };
                // The socket is registered with the runtime of the worker, so it leaves this one first.
                let Ok(stream) = stream.into_std() else { continue };
                let serve = async move {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        connection::serve(stream, accepted).await;
                    }
                };
                open.tasks.spawn_on(serve, worker);
            }
            Some((_, Err(error))) => {
                shared.counters.count(Total::AcceptFailures);
                if !is_peer_error(&error) {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Sets the options of an accepted socket. A socket that rejects them still works, with more memory or latency.
fn set_up(stream: &TcpStream, send_buffer_bytes: usize) {
    let socket = socket2::SockRef::from(stream);
    socket.set_send_buffer_size(send_buffer_bytes).ok();
    socket.set_tcp_nodelay(true).ok();
}

/// Returns `true` if the peer disconnected before it was accepted: the next accept can follow at once.
fn is_peer_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

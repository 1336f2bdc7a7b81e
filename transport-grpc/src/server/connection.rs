//! The connection loop: accepts, hands over to HTTP/2, and brings all to an end.
//!
//! tonic's own loop keeps a connection that never says a word for ever, and cannot say how many there are; hence this one.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::Service as _;
use tonic::service::Routes;

use super::guard::Guarded;
use super::handler::{PeerAddress, PeerCertificate};
use super::preface;
use crate::config::ServerConfig;
use crate::driver::Shared;
use crate::shutdown::{Drained, Shutdown};

/// How long to wait after the kernel refused a connection, which it does when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What every connection is served with.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) routes: Routes,
    pub(super) config: ServerConfig,
    pub(super) shared: Arc<Shared>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<tokio_rustls::TlsAcceptor>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Connections {
    /// Accepts until `leaving` is done, then ends in the order that [`Shutdown`] shows.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        leaving: impl Future<Output = ()>,
        shutdown: &Shutdown,
    ) -> Drained {
        let tasks = TaskTracker::new();
        let cut = CancellationToken::new();
        // Whoever drops the server without waiting for its end drops its connections too.
        let _cut_on_drop = cut.clone().drop_guard();
        tokio::select! {
            () = self.accept(&listener, &tasks, &cut, shutdown) => {}
            () = leaving => {}
        }
        drop(listener);
        tasks.close();
        let timeouts = &self.config.timeouts;
        if tokio::time::timeout(timeouts.drain, tasks.wait()).await.is_ok() {
            return Drained::default();
        }
        self.shared.stop.cancel();
        if tokio::time::timeout(timeouts.close, tasks.wait()).await.is_ok() {
            return Drained::default();
        }
        let drained = Drained { cut: tasks.len() };
        cut.cancel();
        tasks.wait().await;
        drained
    }

    async fn accept(
        &self,
        listener: &TcpListener,
        tasks: &TaskTracker,
        cut: &CancellationToken,
        shutdown: &Shutdown,
    ) {
        let room = Arc::new(Semaphore::new(self.config.limits.connections));
        // The semaphore is never closed, so there always is a permit in the end.
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let Ok((socket, peer)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (this, cut, shutdown) = (self.clone(), cut.clone(), shutdown.clone());
            let open = self.shared.counters.open_connection();
            tasks.spawn(async move {
                let _held = (permit, open);
                tokio::select! {
                    biased;
                    () = cut.cancelled() => {}
                    // A peer that goes away is no news; what it did wrong before is counted.
                    _ = this.connection(socket, peer, &shutdown) => {}
                }
            });
        }
    }

    async fn connection(&self, socket: TcpStream, peer: SocketAddr, shutdown: &Shutdown) -> io::Result<()> {
        // A message is written in one go, so waiting for more gains nothing.
        socket.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let secured = self.in_time(tls.accept(socket)).await?;
            let certificate = secured.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = certificate.map(|first| PeerCertificate(bytes::Bytes::copy_from_slice(first)));
            return self.speak(secured, peer, certificate, shutdown).await;
        }
        self.speak(socket, peer, None, shutdown).await
    }

    async fn speak<I>(
        &self,
        io: I,
        peer: SocketAddr,
        certificate: Option<PeerCertificate>,
        shutdown: &Shutdown,
    ) -> io::Result<()>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let guarded = Guarded::new(io, self.config.timeouts.write_stall, self.shared.counters.clone());
        let io = self.in_time(preface::expect(guarded)).await?;
        self.shared.counters.accepted();
        let mut routes = self.routes.clone();
        let service = tower::service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer));
            if let Some(certificate) = &certificate {
                request.extensions_mut().insert(certificate.clone());
            }
            routes.call(request)
        });
        let connection =
            self.protocol().serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            () = shutdown.triggered() => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(io::Error::other)
    }

    /// Limits the time of a handshake, and counts those that fail.
    async fn in_time<T>(&self, handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let done = tokio::time::timeout(self.config.timeouts.handshake, handshake).await;
        let done = done.unwrap_or_else(|late| Err(late.into()));
        if done.is_err() {
            self.shared.counters.refused();
        }
        done
    }

    fn protocol(&self) -> http2::Builder<TokioExecutor> {
        let (limits, timeouts) = (&self.config.limits, &self.config.timeouts);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_per_connection)
            .max_header_list_size(limits.header_bytes)
            .max_pending_accept_reset_streams(limits.pending_resets)
            .max_local_error_reset_streams(limits.error_resets)
            .max_send_buf_size(limits.stream_send_bytes)
            .initial_stream_window_size(limits.stream_receive_bytes)
            .initial_connection_window_size(limits.connection_receive_bytes)
            .keep_alive_interval(timeouts.ping)
            .keep_alive_timeout(timeouts.pong);
        builder
    }
}

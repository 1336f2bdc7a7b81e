//! One accepted connection from the handshake to its end: settings of the HTTP library, the clock over its phases, and
//! the service that puts limits around every request.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, UpgradeableConnection};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tower::ServiceExt as _;

use super::PeerAddr;
use super::counters::{Counted, Counters};
use super::exchange::{Exchange, RequestBody, ResponseBody};
use super::io::{GuardedSocket, Place, Socket};
use super::phase::{Phase, PhaseWatch};
use crate::config::{Limits, Timeouts};
use crate::shutdown::Shutdown;

/// hyper panics below this.
const LEAST_BUFFER_BYTES: usize = 8192;

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) counters: Counters,
    pub(crate) shutdown: Shutdown,
    pub(crate) builder: Builder<TokioExecutor>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// The HTTP library with our limits.
pub(crate) fn builder(limits: &Limits, timeouts: &Timeouts) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        // Our own clock covers the head and more; see `phase`.
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
        .max_send_buf_size(limits.stream_send_bytes);
    builder
}

/// Serves one socket until it is closed, by whichever side.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, place: Place) {
    let Some(socket) = handshake(&shared, stream).await else {
        shared.counters.count(Counted::HandshakeFailure);
        return;
    };
    let phase = Arc::new(PhaseWatch::default());
    let stall = shared.timeouts.write_stall;
    let socket = GuardedSocket::new(socket, Arc::clone(&phase), stall, shared.counters.clone(), place);
    let service = ConnectionService { shared: Arc::clone(&shared), phase: Arc::clone(&phase), peer };
    let connection =
        shared.builder.serve_connection_with_upgrades(TokioIo::new(socket), service).into_owned();
    let asked_to_stop = {
        let shutdown = shared.shutdown.clone();
        Box::pin(async move { shutdown.triggered().await })
    };
    Connection {
        connection: Box::pin(connection),
        phase,
        seen: None,
        timer: None,
        asked_to_stop,
        stopping: false,
        shared,
    }
    .await;
}

#[cfg(not(feature = "tls"))]
async fn handshake(_: &Shared, stream: TcpStream) -> Option<Socket> {
    std::future::ready(Some(Socket::Plain(stream))).await
}

#[cfg(feature = "tls")]
async fn handshake(shared: &Shared, stream: TcpStream) -> Option<Socket> {
    let Some(config) = &shared.tls else {
        return Some(Socket::Plain(stream));
    };
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(config));
    let handshake = tokio::time::timeout(shared.timeouts.handshake, acceptor.accept(stream));
    Some(Socket::Tls(Box::new(handshake.await.ok()?.ok()?)))
}

type Hyper = UpgradeableConnection<'static, TokioIo<GuardedSocket>, ConnectionService, TokioExecutor>;

/// Drives a connection and its clock. All changes of phase happen while the connection is polled (or wake it), so the
/// clock is looked at after each poll and needs no wake-ups of its own while a stream runs.
struct Connection<F> {
    connection: Pin<Box<Hyper>>,
    phase: Arc<PhaseWatch>,
    seen: Option<(Phase, u64)>,
    timer: Option<Pin<Box<Sleep>>>,
    asked_to_stop: Pin<Box<F>>,
    /// It was told to end; the timer now bounds how long that may take.
    stopping: bool,
    shared: Arc<Shared>,
}

impl<F: Future<Output = ()>> Future for Connection<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.stopping && this.asked_to_stop.as_mut().poll(cx).is_ready() {
            this.stop();
        }
        // Errors are the peer's: garbage, resets, timeouts. Closing is the answer to all of them.
        if this.connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        this.follow_phase();
        while let Some(timer) = &mut this.timer {
            if timer.as_mut().poll(cx).is_pending() {
                break;
            }
            if this.handle_timeout() {
                return Poll::Ready(());
            }
            if this.connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl<F> Connection<F> {
    fn follow_phase(&mut self) {
        let now = self.phase.phase();
        if self.seen == Some(now) {
            return;
        }
        self.seen = Some(now);
        let limit = match now.0 {
            Phase::Busy => None,
            Phase::Head => Some(self.shared.timeouts.header),
            Phase::Idle if self.stopping => Some(self.shared.timeouts.header),
            Phase::Idle => Some(self.shared.timeouts.idle),
        };
        self.timer = limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
    }

    /// True if the connection is to be dropped.
    fn handle_timeout(&mut self) -> bool {
        let is_idle = matches!(self.seen, Some((Phase::Idle, _)));
        if is_idle && !self.stopping {
            self.shared.counters.count(Counted::IdleTimeout);
            self.stop();
            self.timer = Some(Box::pin(tokio::time::sleep(self.shared.timeouts.header)));
            return false;
        }
        if !is_idle {
            self.shared.counters.count(Counted::HeaderTimeout);
        }
        true
    }

    /// Lets what runs come to its end, and takes nothing new.
    fn stop(&mut self) {
        self.stopping = true;
        self.connection.as_mut().graceful_shutdown();
    }
}

/// Puts limits and counts around every request, and hands it to the router.
struct ConnectionService {
    shared: Arc<Shared>,
    phase: Arc<PhaseWatch>,
    peer: SocketAddr,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let is_http2 = request.version() == Version::HTTP_2;
        let exchange = Exchange::open(Arc::clone(&self.phase), &shared.counters, is_http2);
        let (limit, timeout) = (shared.limits.body_bytes, shared.timeouts.body);
        let mut request = request.map(|body| RequestBody::new(body, limit, timeout));
        request.extensions_mut().insert(PeerAddr(self.peer));
        let response = shared.router.clone().oneshot(request.map(axum::body::Body::new));
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map(|body| {
                if is_http2 {
                    let stall = shared.timeouts.write_stall;
                    ResponseBody::watched(body, exchange, stall, shared.counters.clone())
                } else {
                    ResponseBody::new(body, exchange)
                }
            }))
        })
    }
}

//! Drives one accepted connection from the TLS handshake to its end: applies the timeout of its phase, and moves the socket
//! between hyper and a quiet stream.
//!
//! ```text
//!               a stream goes quiet (HTTP/1.1)
//!  Http ───────────────────────────────────────────► Quiet
//!   │  ▲────────── the stream ended ─────────────────── │
//!   └─────────────► closed ◄────────────────────────────┘
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_core::Cancelled;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::UpgradeableConnection;
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::handoff::{Handoff, SocketHandle};
use super::io::{ConnectionPermit, GuardedSocket, Socket};
use super::phase::{Phase, PhaseWatch};
use super::preface;
use super::quiet::QuietStream;
use super::service::{ConnectionService, Peer, RefusedPeer};
use super::{PeerCertificate, Shared};
use crate::config::HttpVersions;
use crate::counters::Total;

/// What a connection is served with. Boxed on its way to the task, because a future stores each moved argument twice.
pub(crate) struct Accepted {
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
    pub(crate) permit: ConnectionPermit,
    /// If set, the first request is answered with this refusal, and the connection is closed.
    pub(crate) refused: Option<RefusedPeer>,
}

impl Accepted {
    /// Frees the box. Inside of a future, a box that was moved out of is freed with the future.
    fn unboxed(self: Box<Self>) -> Self {
        *self
    }
}

/// Serves one socket until one of the two sides closes it.
pub(crate) async fn serve(stream: TcpStream, accepted: Box<Accepted>) {
    let Accepted { shared, address, permit, refused } = accepted.unboxed();
    let phase = Arc::new(PhaseWatch::default());
    // Boxed: the state of a handshake is large and short-lived, and would otherwise stay in the task's size.
    let opened = Box::pin(open(&shared, &phase, stream, permit)).await;
    let Some((socket, certificate)) = opened else {
        shared.counters.count(Total::HandshakeFailures);
        return;
    };
    let answered = refused.as_ref().map(|refused| Box::new(refused.answered.cancelled()));
    let peer = Peer { address, certificate, refused };
    let stage = Stage::http(&shared, &phase, peer.clone(), socket);
    let draining = shared.stopping.draining.cancelled();
    Connection { stage, peer, phase, timed: None, timer: None, draining, answered, stopping: false, shared }
        .await;
}

/// Performs the TLS handshake, and on a port for HTTP/2 alone reads the preface. Returns `None` if either fails or times out.
async fn open(
    shared: &Shared,
    phase: &Arc<PhaseWatch>,
    stream: TcpStream,
    permit: ConnectionPermit,
) -> Option<(GuardedSocket, Option<PeerCertificate>)> {
    let socket = handshake(shared, stream).await?;
    let certificate = socket.certificate();
    let (stall, counters) = (shared.timeouts.write_stall, shared.counters.clone());
    let mut socket = GuardedSocket::new(socket, Arc::clone(phase), stall, counters, permit);
    if shared.versions == HttpVersions::Http2 {
        let expected = tokio::time::timeout(shared.timeouts.handshake, preface::expect(&mut socket));
        expected.await.ok()?.ok()?;
        phase.handle_preface();
    }
    Some((socket, certificate))
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
    let acceptor = tokio_rustls::TlsAcceptor::from(config.current());
    let handshake = tokio::time::timeout(shared.timeouts.handshake, acceptor.accept(stream));
    Some(Socket::Tls(Box::new(handshake.await.ok()?.ok()?)))
}

type Hyper = UpgradeableConnection<'static, TokioIo<SocketHandle>, ConnectionService, TokioExecutor>;

/// What drives the socket: hyper, or a quiet stream.
enum Stage {
    Http(Pin<Box<Hyper>>, Arc<Handoff>),
    Quiet(Box<QuietStream>),
    Closed,
}

impl Stage {
    /// Passes the socket to hyper.
    fn http(shared: &Arc<Shared>, phase: &Arc<PhaseWatch>, peer: Peer, socket: GuardedSocket) -> Self {
        let handoff = Handoff::new(socket);
        let service =
            ConnectionService::new(Arc::clone(shared), Arc::clone(phase), Arc::clone(&handoff), peer);
        let io = TokioIo::new(SocketHandle(Arc::clone(&handoff)));
        let connection = shared.builder.serve_connection_with_upgrades(io, service).into_owned();
        Self::Http(Box::pin(connection), handoff)
    }
}

/// Drives a connection and its timer. A change of the phase happens in a poll of the connection or wakes it, so checking the
/// timer after each poll is sufficient, and a running stream needs no timer.
struct Connection {
    stage: Stage,
    peer: Peer,
    phase: Arc<PhaseWatch>,
    /// The phase for which the timer was last set.
    timed: Option<(Phase, u64)>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Completes when the server drains.
    draining: Cancelled,
    /// Completes when a refused peer was answered; `None` for any other peer.
    answered: Option<Box<Cancelled>>,
    /// Set once the connection must end after the open responses; the timer limits how long it may then be idle.
    stopping: bool,
    shared: Arc<Shared>,
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.stopping && this.poll_stop(cx).is_ready() {
            this.stop();
        }
        loop {
            if this.poll_stage(cx).is_ready() {
                return Poll::Ready(());
            }
            this.update_timer();
            let Some(timer) = &mut this.timer else {
                return Poll::Pending;
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if this.handle_timeout() {
                return Poll::Ready(());
            }
        }
    }
}

impl Connection {
    /// Completes when the connection must end: the server drains, or a refused peer was answered.
    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if Pin::new(&mut self.draining).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.answered.as_mut().map_or(Poll::Pending, |answered| Pin::new(answered).poll(cx))
    }

    /// Completes when the connection is over. Errors of hyper are not reported: the peer caused them (invalid data, resets,
    /// timeouts), and each ends the connection.
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.stage {
                Stage::Http(connection, handoff) => {
                    let mut polled = connection.as_mut().poll(cx);
                    if polled.is_pending() && handoff.needs_read() {
                        polled = connection.as_mut().poll(cx);
                    }
                    if polled.is_ready() {
                        self.stage = Stage::Closed;
                        return Poll::Ready(());
                    }
                    let Some((socket, stream)) = handoff.take_quiet() else {
                        return Poll::Pending;
                    };
                    self.shared.counters.count(Total::Handoffs);
                    self.stage = Stage::Quiet(Box::new(QuietStream::new(socket, stream)));
                }
                Stage::Quiet(quiet) => {
                    if quiet.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if self.end_quiet().is_none() {
                        return Poll::Ready(());
                    }
                }
                Stage::Closed => return Poll::Ready(()),
            }
        }
    }

    /// Passes the socket of an ended quiet stream to hyper again. Returns `None` if the connection ends.
    fn end_quiet(&mut self) -> Option<()> {
        let Stage::Quiet(quiet) = std::mem::replace(&mut self.stage, Stage::Closed) else {
            return None;
        };
        let socket = quiet.into_socket().filter(|_| !self.stopping)?;
        self.stage = Stage::http(&self.shared, &self.phase, self.peer.clone(), socket);
        Some(())
    }

    /// Sets the timer to the limit of the phase, if the phase has changed.
    fn update_timer(&mut self) {
        let now = self.phase.phase();
        if self.timed == Some(now) {
            return;
        }
        self.timed = Some(now);
        let limit = match now.0 {
            Phase::Busy => None,
            Phase::Head => Some(self.shared.timeouts.header),
            Phase::Idle if self.stopping => Some(self.shared.timeouts.header),
            Phase::Idle => Some(self.shared.timeouts.idle),
        };
        self.timer = limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
    }

    /// Handles the end of the timer: an idle connection is first shut down gracefully, any other is dropped. Returns `true` if
    /// the connection must be dropped.
    fn handle_timeout(&mut self) -> bool {
        let is_idle = matches!(self.timed, Some((Phase::Idle, _)));
        if is_idle && !self.stopping {
            self.shared.counters.count(Total::IdleTimeouts);
            self.stop();
            self.timer = Some(Box::pin(tokio::time::sleep(self.shared.timeouts.header)));
            return false;
        }
        if !is_idle {
            self.shared.counters.count(Total::HeaderTimeouts);
        }
        true
    }

    /// Shuts the connection down: no new requests are accepted, and it ends after the open responses.
    fn stop(&mut self) {
        self.stopping = true;
        if let Stage::Http(connection, _) = &mut self.stage {
            connection.as_mut().graceful_shutdown();
        }
    }
}

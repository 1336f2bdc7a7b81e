//! One accepted connection, from the handshake to its end: the timer of its phases, and the handoff between hyper and quiet
//! streams.
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

/// Serves one socket until it is closed, by whichever side. One that is `refused` is closed after its first request.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    address: SocketAddr,
    place: ConnectionPermit,
    refused: Option<RefusedPeer>,
) {
    let phase = Arc::new(PhaseWatch::default());
    // Boxed, because a handshake is much larger than the state after it, and short.
    let opened = Box::pin(open(&shared, &phase, stream, place)).await;
    let Some((socket, certificate)) = opened else {
        shared.counters.count(Total::HandshakeFailures);
        return;
    };
    let stop = refused.as_ref().map_or(&shared.stopping.draining, |refused| &refused.answered).clone();
    let peer = Peer { address, certificate, refused };
    let stage = Stage::http(&shared, &phase, peer.clone(), socket);
    let asked_to_stop = stop.cancelled();
    Connection { stage, peer, phase, seen: None, timer: None, asked_to_stop, stopping: false, shared }.await;
}

/// Performs everything before the first request: TLS, and the preface on a port for HTTP/2 alone.
async fn open(
    shared: &Shared,
    phase: &Arc<PhaseWatch>,
    stream: TcpStream,
    place: ConnectionPermit,
) -> Option<(GuardedSocket, Option<PeerCertificate>)> {
    let socket = handshake(shared, stream).await?;
    let certificate = socket.certificate();
    let (stall, counters) = (shared.timeouts.write_stall, shared.counters.clone());
    let mut socket = GuardedSocket::new(socket, Arc::clone(phase), stall, counters, place);
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

/// The part that drives the socket.
enum Stage {
    Http(Pin<Box<Hyper>>, Arc<Handoff>),
    Quiet(Box<QuietStream>),
    Closed,
}

impl Stage {
    fn http(shared: &Arc<Shared>, phase: &Arc<PhaseWatch>, peer: Peer, socket: GuardedSocket) -> Self {
        let handoff = Handoff::new(socket);
        let service =
            ConnectionService::new(Arc::clone(shared), Arc::clone(phase), Arc::clone(&handoff), peer);
        let io = TokioIo::new(SocketHandle(Arc::clone(&handoff)));
        let connection = shared.builder.serve_connection_with_upgrades(io, service).into_owned();
        Self::Http(Box::pin(connection), handoff)
    }
}

/// Drives a connection and its timer. The phase changes only while the connection is polled (or wakes it), so the timer is
/// checked after each poll and needs no wake-ups of its own while a stream runs.
struct Connection {
    stage: Stage,
    peer: Peer,
    phase: Arc<PhaseWatch>,
    seen: Option<(Phase, u64)>,
    timer: Option<Pin<Box<Sleep>>>,
    asked_to_stop: Cancelled,
    /// Set once the connection must end; the timer then bounds the time of its end.
    stopping: bool,
    shared: Arc<Shared>,
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.stopping && Pin::new(&mut this.asked_to_stop).poll(cx).is_ready() {
            this.stop();
        }
        loop {
            if this.poll_stage(cx).is_ready() {
                return Poll::Ready(());
            }
            this.follow_phase();
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
    /// Completes when the connection is over. Errors are the peer's (invalid data, resets, timeouts), and the connection is
    /// closed after all of them.
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

    /// Returns the socket to hyper, if the connection continues.
    fn end_quiet(&mut self) -> Option<()> {
        let Stage::Quiet(quiet) = std::mem::replace(&mut self.stage, Stage::Closed) else {
            return None;
        };
        let socket = quiet.into_socket().filter(|_| !self.stopping)?;
        self.stage = Stage::http(&self.shared, &self.phase, self.peer.clone(), socket);
        Some(())
    }

    /// Restarts the timer when the phase has changed, with the limit of the new phase.
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

    /// Returns `true` if the connection must be dropped.
    fn handle_timeout(&mut self) -> bool {
        let is_idle = matches!(self.seen, Some((Phase::Idle, _)));
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

    /// Ends the connection after the present responses; new requests are not accepted.
    fn stop(&mut self) {
        self.stopping = true;
        if let Stage::Http(connection, _) = &mut self.stage {
            connection.as_mut().graceful_shutdown();
        }
    }
}

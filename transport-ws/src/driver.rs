//! Drives one connection: reads requests, polls the [session], collects messages and writes them in batches.
//!
//! ```text
//!            ┌────────────── Open ──────────────┐
//!            │ read ► session ► batch ► flush   │
//!            └──┬───────────────┬───────────┬───┘
//!  this side    │   the peer    │           │ connection lost, or
//!  closes       ▼   closes      ▼           │ the peer is stalled
//!            Closing       PeerClosing      │
//!               │               │           │ the two closing phases end with the handshake,
//!               └──────► Done ◄─┴───────────┘ the connection, or the timeout `close`
//! ```
//!
//! Invariants: the session is dropped as soon as the connection leaves `Open`, so services notice at once that a peer has
//! disconnected; a session is asked for more events only after the earlier ones were written; all waits have a deadline; no
//! task is spawned.
//!
//! The driver handles frames and deadlines. Agents, runs and payloads belong to the session.

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod envelope;
pub(crate) mod intake;
pub(crate) mod metered;
pub(crate) mod mux;
pub(crate) mod plain;
pub(crate) mod publisher;
mod server_end;
pub(crate) mod session;
pub(crate) mod subscriptions;
mod write;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_transport_http::{Total, proof_end};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error as CodecError, Message};

use self::batch::Batch;
use self::clock::{Alarm, Clock};
use self::intake::Intake;
use self::metered::Metered;
use self::mux::MuxSession;
use self::plain::PlainSession;
use self::server_end::{EndStage, ServerEnd};
use self::session::{Session, Shared};
use crate::close::CloseReason;
use crate::handshake::{Mode, Upgrade};

/// The most messages read, or batches written, before the other direction is polled.
const TURN: usize = 32;

/// One connection after the upgrade.
pub(crate) struct Connection<IO> {
    socket: WebSocketStream<Metered<IO>>,
    shared: Arc<Shared>,
    phase: Phase,
    batch: Batch,
    /// Messages that the codec has not accepted yet. Filled only when empty.
    outbox: VecDeque<Message>,
    /// Set while the codec holds bytes that are not flushed to the socket.
    unflushed: bool,
    /// Set after a violation of the protocol or of a limit: further input is not decoded, but discarded.
    broken: bool,
    /// Set once the write half of a `broken` connection is shut down.
    shut: bool,
    clock: Clock,
    intake: Intake,
    /// The shutdown stage of the server.
    end: ServerEnd,
    /// Completes when the proof of the caller expires or is revoked; `None` until the caller's identity is known.
    proof_end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The phase of a connection.
enum Phase {
    Open(Box<dyn Session>),
    /// This side closes. The close frame follows the messages in the outbox; `None` once it is there.
    Closing {
        frame: Option<CloseReason>,
    },
    /// The peer has sent a close frame, which the codec answers.
    PeerClosing,
    Done,
}

/// Drives an upgraded connection to its end.
///
/// Boxed throughout: a future stores each moved value twice, and each idle connection holds this one.
pub(crate) async fn run<IO>(shared: Arc<Shared>, io: IO, upgrade: Box<Upgrade>)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin,
{
    let codec = shared.config.limits.codec();
    let socket =
        Box::pin(WebSocketStream::from_raw_socket(Metered::new(io), Role::Server, Some(codec))).await;
    let mut connection = Connection::boxed(shared, socket, upgrade);
    poll_fn(|cx| connection.poll(cx)).await;
    connection.shut_down().await;
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Connection<IO> {
    /// Returns an open connection with the session that the upgrade selects.
    fn boxed(shared: Arc<Shared>, socket: WebSocketStream<Metered<IO>>, upgrade: Box<Upgrade>) -> Box<Self> {
        let Upgrade { mode, agent, caller, stopping, quotas, .. } = *upgrade;
        let caller = Arc::new(caller);
        let intake = Intake::new(&quotas, shared.config.limits.frames);
        intake.assign(&*shared.service, &caller);
        let session: Box<dyn Session> = match mode {
            Mode::Multiplexed(encoding) => {
                Box::new(MuxSession::new(Arc::clone(&shared), caller, agent, encoding, quotas))
            }
            Mode::Plain => {
                Box::new(PlainSession::new(Arc::clone(&shared), caller, agent.unwrap_or_default()))
            }
        };
        Box::new(Self {
            socket,
            clock: Clock::new(shared.config.timeouts.clone()),
            shared,
            phase: Phase::Open(session),
            batch: Batch::default(),
            outbox: VecDeque::new(),
            unflushed: false,
            broken: false,
            shut: false,
            intake,
            end: ServerEnd::new(stopping),
            proof_end: None,
        })
    }

    /// Polls everything once; completes when the connection is done.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Polled first, so that deadlines also apply to a peer that always has messages.
        self.poll_clock(cx);
        for _ in 0..TURN {
            self.poll_stop(cx);
            let read = self.poll_read(cx);
            let worked = match &mut self.phase {
                Phase::Open(session) => session.poll_work(cx),
                _ => false,
            };
            let wrote = self.poll_write(cx);
            if matches!(self.phase, Phase::Done) {
                return Poll::Ready(());
            }
            if !(read || worked || wrote || self.poll_clock(cx)) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Closes an idle connection when the server drains, any connection when the server closes, and one whose proof has ended.
    fn poll_stop(&mut self, cx: &mut Context<'_>) {
        let Phase::Open(session) = &self.phase else { return };
        let is_over = match self.end.poll(cx) {
            EndStage::Serving => false,
            EndStage::Draining => session.is_idle() && self.outbox.is_empty(),
            EndStage::Closing => true,
        };
        if is_over {
            self.close(going_away());
        }
        self.poll_proof(cx);
    }

    /// Closes the connection when the proof of its caller expires or is revoked.
    fn poll_proof(&mut self, cx: &mut Context<'_>) {
        let Phase::Open(session) = &self.phase else { return };
        if self.proof_end.is_none() {
            let identity = session.identity().filter(|identity| !identity.principal.is_anonymous());
            self.proof_end = identity.cloned().map(|identity| Box::pin(proof_end(identity)) as _);
            if self.proof_end.is_some() {
                self.intake.assign(&*self.shared.service, session.caller());
            }
        }
        if self.proof_end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            let hint = "the token expired or was revoked; resumable: connect with a new one and watch from your last number";
            self.close(CloseReason::new(CloseReason::UNAUTHENTICATED, hint));
        }
    }

    /// Reads available messages. Returns `true` if there were any.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> bool {
        if self.broken {
            return self.poll_discard(cx);
        }
        for turn in 0..TURN {
            if let Phase::Open(session) = &self.phase
                && session.is_backlogged()
            {
                return turn > 0;
            }
            match self.intake.poll_frame(cx) {
                Poll::Pending => return turn > 0,
                Poll::Ready(true) => self.shared.counters.count(Total::Throttles),
                Poll::Ready(false) => {}
            }
            let read = Pin::new(&mut self.socket).poll_next(cx);
            let received = self.socket.get_ref().received();
            match read {
                Poll::Pending => return self.count_partial(received) || turn > 0,
                Poll::Ready(message) => {
                    self.intake.handle_frame(received);
                    self.count_partial(received);
                    self.handle_message(message);
                }
            }
            if self.broken || matches!(self.phase, Phase::Done) {
                return true;
            }
        }
        true
    }

    /// Counts the received bytes of an incomplete message. Closes the connection and returns `true` if a limit is exceeded.
    fn count_partial(&mut self, received: u64) -> bool {
        let charged = self.intake.charge_partial(received);
        let Phase::Open(session) = &self.phase else { return false };
        let most = self.shared.config.limits.token_bytes;
        let reason = match charged {
            Err(error) => CloseReason::from(&error),
            Ok(()) if session.awaits_token() && received > most as u64 => {
                let reason = format!("more than {most} bytes before a token (limit `token_bytes`)");
                CloseReason::new(CloseReason::UNAUTHENTICATED, reason)
            }
            Ok(()) => return false,
        };
        self.broken = true;
        self.close(reason);
        true
    }

    /// Handles one message of the client, the end of the connection, or an error of the codec. Every message, pings and pongs
    /// included, restarts the ping interval.
    fn handle_message(&mut self, message: Option<Result<Message, CodecError>>) {
        self.clock.handle_input();
        let message = match message {
            None => return self.phase = Phase::Done,
            Some(Err(error)) => return self.handle_codec_error(&error),
            Some(Ok(message)) => message,
        };
        let Phase::Open(session) = &mut self.phase else { return };
        let handled = match &message {
            Message::Text(text) => session.handle_text(text),
            Message::Binary(data) => session.handle_binary(data),
            Message::Close(_) => {
                self.outbox.clear();
                self.phase = Phase::PeerClosing;
                return self.clock.start_closing();
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return,
        };
        self.shared.counters.count(Total::MessagesIn);
        if let Err(reason) = handled {
            self.close(reason);
        }
    }

    /// Handles an error of the codec: a violation of the protocol is answered with a close frame, a lost connection
    /// ends the driver.
    fn handle_codec_error(&mut self, error: &CodecError) {
        match (CloseReason::of_codec(error), &self.phase) {
            (Some(reason), Phase::Open(_)) => {
                self.broken = true;
                self.close(reason);
            }
            // A peer that violates the protocol while closing gets no further message.
            _ => self.phase = Phase::Done,
        }
    }

    /// Handles an elapsed deadline. Returns `true` if there was one.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> bool {
        let first_message = match &self.phase {
            Phase::Open(session) => session.first_message_limit(),
            _ => None,
        };
        let written = self.socket.get_ref().written();
        match self.clock.poll_alarm(cx, first_message.as_ref().map(|(limit, _)| *limit), written) {
            Poll::Pending => return false,
            // The clock marks the ping as due, and the next batch contains it.
            Poll::Ready(Alarm::Ping) => {}
            Poll::Ready(Alarm::NoFirstMessage) => {
                if let Some((_, reason)) = first_message {
                    self.close(reason);
                }
            }
            Poll::Ready(Alarm::Dead) => {
                let reason = "no pong in time; resumable: connect again and watch from your last number";
                self.close(CloseReason::new(CloseReason::TIMEOUT, reason));
            }
            Poll::Ready(Alarm::Stalled) => {
                self.shared.counters.count(Total::WriteStalls);
                self.phase = Phase::Done;
            }
            Poll::Ready(Alarm::Closing) => self.phase = Phase::Done,
        }
        true
    }

    /// Drops the session, and starts the closing handshake with `reason`.
    fn close(&mut self, reason: CloseReason) {
        self.phase = Phase::Closing { frame: Some(reason) };
        self.clock.start_closing();
    }

    /// Shuts the socket down, because TLS requires a close message. Skipped if unflushed bytes remain, which a stalled peer
    /// would not accept, or if it is shut down already.
    async fn shut_down(&mut self) {
        if self.unflushed || self.shut {
            return;
        }
        let limit = self.shared.config.timeouts.close;
        let mut io = Pin::new(self.socket.get_mut());
        let ended = poll_fn(|cx| io.as_mut().poll_shutdown(cx));
        // A failure or timeout is ignored, because the socket is dropped next.
        drop(tokio::time::timeout(limit, ended).await);
    }
}

/// Returns the close reason of a server that stops. The client can resume at another replica.
fn going_away() -> CloseReason {
    let hint = "the server stops; resumable: connect again and watch from your last number";
    CloseReason::new(CloseReason::GOING_AWAY, hint)
}

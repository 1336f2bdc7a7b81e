//! The writing half of a connection: fills the outbox from the session and moves it into the socket.
//!
//! ```text
//! session ── poll_fill ──► batch ──► outbox ──► socket buffer ── flush
//!                                                └ pending: the stall clock runs, until bytes move again
//! ```
//!
//! Invariants: a batch is flushed before the next is filled, so at most one batch waits for a slow peer; nothing is written after the close
//! frame.

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_transport_http::Total;
use futures_util::Sink;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::{Error as CodecError, Message};

use super::server_end::EndStage;
use super::{Connection, Phase, TURN, going_away};
use crate::close::CloseReason;

impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Connection<IO> {
    /// Shuts down the write half after the close frame to a broken peer, and discards further input: closing a socket with
    /// unread bytes would reset it, and the close frame could be lost.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> bool {
        let is_closing = matches!(self.phase, Phase::Closing { frame: None });
        if !is_closing || self.unflushed || !self.outbox.is_empty() {
            return false;
        }
        let mut io = Pin::new(self.socket.get_mut());
        if !self.shut {
            match io.as_mut().poll_shutdown(cx) {
                Poll::Pending => return false,
                Poll::Ready(_) => self.shut = true,
            }
        }
        let mut space = [0_u8; 1024];
        let mut buffer = ReadBuf::new(&mut space);
        match io.poll_read(cx, &mut buffer) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => true,
            Poll::Ready(_) => {
                self.phase = Phase::Done;
                true
            }
        }
    }

    /// Writes pending messages. Returns `true` if there were any. Every round is one batch and one flush.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        for round in 0..TURN {
            let sent = match self.poll_send(cx) {
                Poll::Pending => {
                    self.clock.blocked(self.socket.get_ref().written());
                    return round > 0;
                }
                Poll::Ready(Err(_)) => {
                    self.phase = Phase::Done;
                    return true;
                }
                Poll::Ready(Ok(sent)) => sent,
            };
            self.clock.unblocked();
            if !self.refill(cx) {
                return sent || round > 0;
            }
        }
        true
    }

    /// Passes the outbox to the codec and flushes it. Returns whether it was not empty.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, CodecError>> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.outbox.is_empty() {
            std::task::ready!(socket.as_mut().poll_ready(cx))?;
            if let Some(message) = self.outbox.pop_front() {
                socket.as_mut().start_send(message)?;
                self.unflushed = true;
            }
        }
        if !self.unflushed {
            return Poll::Ready(Ok(false));
        }
        std::task::ready!(socket.poll_flush(cx))?;
        self.unflushed = false;
        self.shared.counters.count(Total::Flushes);
        Poll::Ready(Ok(true))
    }

    /// Collects the next batch. Returns `false` if it is empty.
    pub(super) fn refill(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.phase {
            Phase::Open(session) => {
                if self.clock.take_ping() {
                    self.outbox.push_back(Message::Ping(bytes::Bytes::new()));
                }
                session.poll_fill(cx, &mut self.batch);
                if let (true, Some(reason)) = (self.batch.is_empty(), session.close_reason()) {
                    // A run that was handed over continues on another replica.
                    let is_handed_over =
                        self.end.stage != EndStage::Serving && reason.code == CloseReason::INTERNAL;
                    self.close(if is_handed_over { going_away() } else { reason });
                    return true;
                }
                let waiting = self.outbox.len();
                self.batch.move_into(&mut self.outbox);
                self.shared.counters.add(Total::MessagesOut, self.outbox.len() - waiting);
            }
            Phase::Closing { frame } => {
                let Some(reason) = frame.take() else { return false };
                self.outbox.push_back(Message::Close(Some(reason.frame())));
            }
            Phase::PeerClosing | Phase::Done => return false,
        }
        !self.outbox.is_empty()
    }
}

//! The deadlines of one connection, behind one timer.
//!
//! | alarm | when |
//! |---|---|
//! | `NoFirstMessage` | the peer has not sent its first message (token or input) in time |
//! | `Ping` | the peer was silent for the ping interval |
//! | `Dead` | it stayed silent after the ping |
//! | `Stalled` | it accepted no byte for the stall timeout while bytes wait |
//! | `Closing` | the closing handshake takes too long |
//!
//! The timer is reset only when an earlier deadline appears; when it fires early, the deadlines are checked again. So a busy
//! connection does not touch the timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::config::Timeouts;

/// An elapsed deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    NoFirstMessage,
    Ping,
    Dead,
    Stalled,
    Closing,
}

/// The deadlines of a connection.
pub(crate) struct Clock {
    timeouts: Timeouts,
    timer: Pin<Box<Sleep>>,
    opened: Instant,
    last_input: Instant,
    pinged: Option<Instant>,
    /// Set if a ping must be sent.
    ping_due: bool,
    /// Since when the socket accepts no byte, and the number of bytes written before.
    blocked: Option<(Instant, u64)>,
    closing: Option<Instant>,
}

impl Clock {
    /// Returns a clock that expects the first input within the ping interval.
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + timeouts.ping));
        Self {
            timeouts,
            timer,
            opened: now,
            last_input: now,
            pinged: None,
            ping_due: false,
            blocked: None,
            closing: None,
        }
    }

    /// Handles input from the peer.
    pub(crate) fn handle_input(&mut self) {
        self.last_input = Instant::now();
        self.pinged = None;
    }

    /// Handles a full socket, after `written` bytes.
    pub(crate) fn blocked(&mut self, written: u64) {
        match self.blocked {
            Some((_, before)) if before == written => {}
            Some(_) => self.moved(written),
            None => self.blocked = Some((Instant::now(), written)),
        }
    }

    /// Handles an empty outbox.
    pub(crate) fn unblocked(&mut self) {
        if self.blocked.take().is_some() {
            self.handle_input();
        }
    }

    /// Handles progress of a full socket: the peer has read, so it is alive. A slow reader receives a ping only after all waiting
    /// bytes, and must not count as dead meanwhile.
    fn moved(&mut self, written: u64) {
        self.handle_input();
        self.blocked = Some((self.last_input, written));
    }

    /// Switches to the deadline of the closing handshake.
    pub(crate) fn start_closing(&mut self) {
        self.closing.get_or_insert_with(Instant::now);
    }

    /// Returns `true` once for every ping that must be sent.
    pub(crate) fn take_ping(&mut self) -> bool {
        std::mem::replace(&mut self.ping_due, false)
    }

    /// Waits for the earliest alarm. `first_message` is the time after the upgrade within which the peer must send its first
    /// message; `written` is the number of bytes that the socket has accepted.
    pub(crate) fn poll_alarm(
        &mut self,
        cx: &mut Context<'_>,
        first_message: Option<Duration>,
        written: u64,
    ) -> Poll<Alarm> {
        loop {
            let (at, alarm) = self.earliest(first_message);
            if at < self.timer.deadline() {
                self.timer.as_mut().reset(at);
            }
            ready!(self.timer.as_mut().poll(cx));
            if at > Instant::now() {
                self.timer.as_mut().reset(at);
                continue;
            }
            match alarm {
                Alarm::Stalled | Alarm::Dead if self.blocked.is_some_and(|(_, before)| before != written) => {
                    self.moved(written);
                    continue;
                }
                Alarm::Ping => {
                    self.pinged = Some(Instant::now());
                    self.ping_due = true;
                }
                _ => {}
            }
            return Poll::Ready(alarm);
        }
    }

    /// Returns the next alarm. While the connection closes, only the close timeout counts.
    fn earliest(&self, first_message: Option<Duration>) -> (Instant, Alarm) {
        if let Some(since) = self.closing {
            return (since + self.timeouts.close, Alarm::Closing);
        }
        let mut earliest = match self.pinged {
            Some(pinged) => (pinged + self.timeouts.pong, Alarm::Dead),
            None => (self.last_input + self.timeouts.ping, Alarm::Ping),
        };
        let others = [
            first_message.map(|limit| (self.opened + limit, Alarm::NoFirstMessage)),
            self.blocked.map(|(since, _)| (since + self.timeouts.stall, Alarm::Stalled)),
        ];
        for other in others.into_iter().flatten() {
            if other.0 < earliest.0 {
                earliest = other;
            }
        }
        earliest
    }
}

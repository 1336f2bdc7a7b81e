//! The deadlines of one connection, behind one timer.
//!
//! | alarm | when |
//! |---|---|
//! | `Owed` | the peer has not sent what it owes first |
//! | `Ping` | the peer was silent for the ping interval |
//! | `Dead` | it stayed silent after the ping |
//! | `Stalled` | it took no byte for the stall timeout while bytes wait |
//! | `Closing` | the closing handshake takes too long |
//!
//! The timer is moved only when an earlier deadline appears; when it fires early, the deadlines are looked at again. So
//! a busy connection does not touch the timer at all.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::config::Timeouts;

/// What happened by not happening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    Owed,
    Ping,
    Dead,
    Stalled,
    Closing,
}

/// The deadlines.
pub(crate) struct Clock {
    timeouts: Timeouts,
    timer: Pin<Box<Sleep>>,
    opened: Instant,
    heard: Instant,
    pinged: Option<Instant>,
    /// True if a ping is to be sent.
    ping_due: bool,
    /// Since when the socket takes nothing, and how many bytes it had taken then.
    blocked: Option<(Instant, u64)>,
    closing: Option<Instant>,
}

impl Clock {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + timeouts.ping));
        Self {
            timeouts,
            timer,
            opened: now,
            heard: now,
            pinged: None,
            ping_due: false,
            blocked: None,
            closing: None,
        }
    }

    /// The peer said something.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
        self.pinged = None;
    }

    /// The socket takes nothing now, after `written` bytes.
    pub(crate) fn blocked(&mut self, written: u64) {
        match self.blocked {
            Some((_, before)) if before == written => {}
            Some(_) => self.moved(written),
            None => self.blocked = Some((Instant::now(), written)),
        }
    }

    /// Nothing waits for the socket.
    pub(crate) fn unblocked(&mut self) {
        if self.blocked.take().is_some() {
            self.heard();
        }
    }

    /// A full socket took something: the peer made room, so it lives. A slow reader finds our ping only behind all that
    /// waits for it, and must not be taken for dead meanwhile.
    fn moved(&mut self, written: u64) {
        self.heard();
        self.blocked = Some((self.heard, written));
    }

    /// From now on only the closing handshake counts.
    pub(crate) fn start_closing(&mut self) {
        self.closing.get_or_insert_with(Instant::now);
    }

    /// True once for every ping that is to be sent.
    pub(crate) fn take_ping(&mut self) -> bool {
        std::mem::replace(&mut self.ping_due, false)
    }

    /// Waits for the earliest alarm. `owed` is how long after the upgrade the peer may take for what it owes.
    pub(crate) fn poll_alarm(
        &mut self,
        cx: &mut Context<'_>,
        owed: Option<Duration>,
        written: u64,
    ) -> Poll<Alarm> {
        loop {
            let (at, alarm) = self.earliest(owed);
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

    fn earliest(&self, owed: Option<Duration>) -> (Instant, Alarm) {
        if let Some(since) = self.closing {
            return (since + self.timeouts.close, Alarm::Closing);
        }
        let mut earliest = match self.pinged {
            Some(pinged) => (pinged + self.timeouts.pong, Alarm::Dead),
            None => (self.heard + self.timeouts.ping, Alarm::Ping),
        };
        let others = [
            owed.map(|wait| (self.opened + wait, Alarm::Owed)),
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

//! One run that the peer publishes: payloads in, acknowledgements and replies to interrupts out.
//!
//! ```text
//!            payload ──► window ──► inbox ──► Ingest::accept ──► ack
//! publish ──► open                            Ingest::reply  ──► interrupt_reply
//!             finish ────────────► inbox ──► Ingest::finish ──► finished
//! ```
//!
//! The back-pressure of the service is a pending `accept`: the inbox fills, and the window makes the peer wait. A peer that
//! exceeds the window violates the protocol. While `accept` is pending, no reply is read: the ingest is borrowed by one call
//! at a time.

use std::collections::VecDeque;

use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::{Ingest, ServiceError};
use aqueduct_transport_http::OpenGuard;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::config::Limits;

/// The connection's half of a publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// `None` once the peer has abandoned the publisher.
    inbox: Option<mpsc::Sender<Feed>>,
    /// Numbers and sizes of unacknowledged payloads.
    waiting: VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    finishing: bool,
    _open: OpenGuard,
}

/// An item of a publisher's inbox.
#[derive(Debug)]
pub(crate) enum Feed {
    Payload { number: u64, data: Bytes },
    Finish,
}

/// The service's half of a publisher.
pub(crate) struct Feeder {
    pub(crate) ingest: Box<dyn Ingest>,
    pub(crate) inbox: mpsc::Receiver<Feed>,
}

/// The outcome of one step.
pub(crate) enum Step {
    /// Payloads up to this number are stored.
    Acknowledged(u64),
    /// A reply to an interrupt.
    Replied(InterruptReply),
    /// The run is finished.
    Finished,
    /// The peer abandoned the publisher.
    Abandoned,
    /// The service refused.
    Failed(ServiceError),
}

impl Publisher {
    /// Returns a publisher and the receiver of its payloads. The channel holds the window, so that a client within its
    /// window never waits.
    pub(crate) fn new(limits: &Limits, open: OpenGuard) -> (Self, mpsc::Receiver<Feed>) {
        // One more than the window, for the finish.
        let (inbox, receiver) = mpsc::channel(limits.window_payloads.saturating_add(1));
        (
            Self {
                inbox: Some(inbox),
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                finishing: false,
                _open: open,
            },
            receiver,
        )
    }

    /// Adds a payload. Returns `false` if the window is exceeded or no payload may follow.
    pub(crate) fn handle_payload(&mut self, limits: &Limits, number: u64, data: Bytes) -> bool {
        let bytes = self.waiting_bytes.saturating_add(data.len());
        let full = self.waiting.len() >= limits.window_payloads
            || (bytes > limits.window_bytes && !self.waiting.is_empty());
        let Some(inbox) = self.inbox.as_ref().filter(|_| !full && !self.finishing) else { return false };
        self.waiting.push_back((number, data.len()));
        self.waiting_bytes = bytes;
        // A closed inbox means that the service failed; the error is on its way to the peer.
        !matches!(inbox.try_send(Feed::Payload { number, data }), Err(mpsc::error::TrySendError::Full(_)))
    }

    /// Handles the end of the publication.
    pub(crate) fn handle_finish(&mut self) {
        if let (Some(inbox), false) = (&self.inbox, std::mem::replace(&mut self.finishing, true)) {
            // Never full, because one place is reserved. A closed inbox means that an error is on its way to the peer.
            inbox.try_send(Feed::Finish).unwrap_or_default();
        }
    }

    /// Handles an abandoned publisher. Its reference stays in use until the service has released the run.
    pub(crate) fn handle_abandon(&mut self) {
        self.inbox = None;
    }

    /// Returns `true` if the client has abandoned the publication.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inbox.is_none()
    }

    /// Handles the acknowledgement of one payload, with all numbers up to `number` stored. A repeated number is acknowledged twice.
    pub(crate) fn handle_acknowledged(&mut self, number: u64) {
        while let Some((waiting, bytes)) = self.waiting.front()
            && *waiting <= number
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(*bytes);
            self.waiting.pop_front();
        }
    }
}

impl Feeder {
    /// Waits for the next outcome. Must be dropped after `Finished`, `Abandoned` and `Failed`.
    pub(crate) async fn step(mut self) -> (Step, Self) {
        let step = tokio::select! {
            biased;
            reply = self.ingest.reply() => Step::Replied(reply),
            feed = self.inbox.recv() => match feed {
                Some(Feed::Payload { number, data }) => {
                    self.ingest.accept(number, data).await.map_or_else(Step::Failed, Step::Acknowledged)
                }
                Some(Feed::Finish) => self.ingest.finish().await.map_or_else(Step::Failed, |()| Step::Finished),
                None => Step::Abandoned,
            },
        };
        (step, self)
    }
}

//! One run that the peer feeds: payloads in, acknowledgements and human answers out.
//!
//! ```text
//!            payload ──► window ──► inbox ──► Ingest::accept ──► ack
//! publish ──► open                            Ingest::reply  ──► interrupt_reply
//!             finish ────────────► inbox ──► Ingest::finish ──► finished
//! ```
//!
//! The service pushes back by not answering `accept`; then the inbox fills, and the window tells the peer to wait. A
//! peer that does not wait breaks the protocol. While `accept` waits, no human answer is taken: the service lends
//! itself to one call at a time.

use std::collections::VecDeque;

use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::{Ingest, ServiceError};
use aqueduct_transport_http::OpenGuard;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::config::Limits;

/// What the connection keeps of a publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// None once the peer has given up.
    inbox: Option<mpsc::Sender<Feed>>,
    /// Numbers and sizes of payloads that are not acknowledged.
    waiting: VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    finishing: bool,
    _open: OpenGuard,
}

/// What a publisher is given.
#[derive(Debug)]
pub(crate) enum Feed {
    Payload { number: u64, data: Bytes },
    Finish,
}

/// The service's half of a publisher, ready for its next step.
pub(crate) struct Feeder {
    pub(crate) ingest: Box<dyn Ingest>,
    pub(crate) inbox: mpsc::Receiver<Feed>,
}

/// What one step came to.
pub(crate) enum Step {
    /// Payloads up to this number are safe.
    Acknowledged(u64),
    /// A human answered.
    Replied(InterruptReply),
    /// All was taken.
    Finished,
    /// The peer stopped without finishing.
    Abandoned,
    /// The service refused.
    Failed(ServiceError),
}

impl Publisher {
    pub(crate) fn new(limits: &Limits, open: OpenGuard) -> (Self, mpsc::Receiver<Feed>) {
        // One place more than the window, for the finish.
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

    /// Takes a payload; false if the window is exceeded or nothing may follow.
    pub(crate) fn handle_payload(&mut self, limits: &Limits, number: u64, data: Bytes) -> bool {
        let bytes = self.waiting_bytes.saturating_add(data.len());
        let full = self.waiting.len() >= limits.window_payloads
            || (bytes > limits.window_bytes && !self.waiting.is_empty());
        let Some(inbox) = self.inbox.as_ref().filter(|_| !full && !self.finishing) else { return false };
        self.waiting.push_back((number, data.len()));
        self.waiting_bytes = bytes;
        // A closed inbox means that the service failed; the peer is being told.
        !matches!(inbox.try_send(Feed::Payload { number, data }), Err(mpsc::error::TrySendError::Full(_)))
    }

    /// The peer has sent all.
    pub(crate) fn handle_finish(&mut self) {
        if let (Some(inbox), false) = (&self.inbox, std::mem::replace(&mut self.finishing, true)) {
            // Cannot be full: one place is kept for this. Closed means that the peer is being told of a failure.
            inbox.try_send(Feed::Finish).unwrap_or_default();
        }
    }

    /// The peer gives up. The name stays taken until the service has let go of the run.
    pub(crate) fn handle_abandon(&mut self) {
        self.inbox = None;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.inbox.is_none()
    }

    /// One payload was answered, with all numbers up to `number` safe. A number that was sent twice is answered twice.
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
    /// Waits for the next thing to happen. After `Finished`, `Abandoned` and `Failed` it is to be dropped.
    pub(crate) async fn step(mut self) -> (Step, Self) {
        let step = tokio::select! {
            feed = self.inbox.recv() => match feed {
                Some(Feed::Payload { number, data }) => {
                    self.ingest.accept(number, data).await.map_or_else(Step::Failed, Step::Acknowledged)
                }
                Some(Feed::Finish) => self.ingest.finish().await.map_or_else(Step::Failed, |()| Step::Finished),
                None => Step::Abandoned,
            },
            reply = self.ingest.reply() => Step::Replied(reply),
        };
        (step, self)
    }
}

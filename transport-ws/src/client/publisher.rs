//! [`Publisher`]: a run that this client publishes.

use std::collections::VecDeque;

use aqueduct_core::run::InterruptReply;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Message;

use super::link::Link;
use super::{Outgoing, raw};
use crate::error::Error;
use crate::message::binary;

/// The state of a published run, as reported by the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pub(crate) acknowledged: u64,
    pub(crate) finished: bool,
    pub(crate) refused: Option<String>,
}

/// Publishes the payloads of a run; waits while the server's window is full. Dropping it without [`finish`](Self::finish)
/// counts as a lost connection: the run stays open for a publisher that continues it.
#[derive(Debug)]
pub struct Publisher {
    pub(super) link: Link,
    pub(super) reference: String,
    pub(super) run: String,
    /// The number of the next payload.
    pub(super) next: u64,
    pub(super) window: usize,
    pub(super) window_bytes: usize,
    /// Numbers and sizes of unacknowledged payloads.
    pub(super) waiting: VecDeque<(u64, usize)>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) replies: mpsc::Receiver<InterruptReply>,
}

impl Publisher {
    /// Returns the id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the highest number that the server has stored. A continued run starts above it.
    pub fn acknowledged(&self) -> u64 {
        self.progress.borrow().acknowledged
    }

    /// Sends a payload of JSON text unchanged, and returns its number. Waits while the window is full. Cancel safe: a dropped
    /// future has sent nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost; unacknowledged payloads must be sent again.
    pub async fn send(&mut self, data: &str) -> Result<u64, Error> {
        let value = raw(data)?;
        self.wait_for_room(data.len()).await?;
        let permit = self.link.reserve().await?;
        let reference = Some(self.reference.as_str());
        let message =
            Outgoing { reference, number: Some(self.next), data: Some(value), ..Outgoing::of("payload") };
        permit.send(Message::text(message.to_text()?));
        Ok(self.count(data.len()))
    }

    /// Sends a payload of bytes and returns its number. Waits while the window is full.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_bytes(&mut self, data: &[u8]) -> Result<u64, Error> {
        self.wait_for_room(data.len()).await?;
        let permit = self.link.reserve().await?;
        let mut message = Vec::with_capacity(data.len() + 32);
        binary::write_payload(&self.reference, self.next, &mut message);
        message.extend_from_slice(data);
        permit.send(Message::Binary(Bytes::from(message)));
        Ok(self.count(data.len()))
    }

    /// Returns the next reply to an interrupt. Returns `None` when the connection has ended.
    pub async fn reply(&mut self) -> Option<InterruptReply> {
        self.replies.recv().await
    }

    /// Waits until all payloads are stored and the server has finished the run.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn finish(mut self) -> Result<(), Error> {
        self.end().await
    }

    /// Sends the end of the publication, and waits until the server has stored all payloads.
    pub(crate) async fn end(&mut self) -> Result<(), Error> {
        let reference = Some(self.reference.as_str());
        let text = Outgoing { reference, ..Outgoing::of("finish") }.to_text()?;
        self.link.send(Message::text(text)).await?;
        self.wait_until(|progress| progress.finished).await
    }

    /// Waits until the window has room for `bytes`.
    async fn wait_for_room(&mut self, bytes: usize) -> Result<(), Error> {
        loop {
            let acknowledged = self.acknowledged();
            self.waiting.retain(|(number, _)| *number > acknowledged);
            let held: usize = self.waiting.iter().map(|(_, bytes)| *bytes).sum();
            let fits = self.waiting.len() < self.window && held.saturating_add(bytes) <= self.window_bytes;
            if fits || self.waiting.is_empty() {
                return self.check();
            }
            self.wait_until(|progress| progress.acknowledged > acknowledged).await?;
        }
    }

    /// Counts a sent payload, and returns its number.
    fn count(&mut self, bytes: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, bytes));
        number
    }

    /// Waits until all payloads sent so far are stored.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn drain(&mut self) -> Result<(), Error> {
        let last = self.next - 1;
        self.wait_until(|progress| progress.acknowledged >= last).await
    }

    /// Returns the error with which the server refused the publication, if it has.
    fn check(&self) -> Result<(), Error> {
        match &self.progress.borrow().refused {
            Some(message) => Err(Error::Rejected { code: "refused".to_owned(), message: message.clone() }),
            None => Ok(()),
        }
    }

    /// Waits until the server's progress satisfies the condition, or the connection ends.
    async fn wait_until(&mut self, reached: impl Fn(&Progress) -> bool) -> Result<(), Error> {
        let arrived =
            self.progress.wait_for(|progress| progress.refused.is_some() || reached(progress)).await;
        match arrived.map(|progress| progress.refused.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(message)) => Err(Error::Rejected { code: "refused".to_owned(), message }),
            Err(_) => Err(self.link.end()),
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.link.abandon(&self.reference);
    }
}

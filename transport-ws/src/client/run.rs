//! The events of one run: [`RunEvents`], [`Event`] and the [`Position`] of a reader.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;

use super::link::Link;
use crate::error::Error;

/// One payload of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of the event it belongs to.
    pub number: u64,
    /// The index among the event's payloads.
    pub k: u32,
    /// Set if more payloads of the same event follow.
    pub more: bool,
    /// The payload, unchanged.
    pub data: Bytes,
}

/// The position of a reader in a run, across connections.
///
/// # Examples
///
/// ```
/// # use aqueduct_transport_ws::client::{Event, Position};
/// # let event = |number, k, more| Event { number, k, more, data: "".into() };
/// let mut position = Position::default();
/// assert!(position.advance(&event(1, 0, false)));
/// assert!(position.advance(&event(2, 0, true)));
/// // The connection is lost in the middle of event 2: it must be sent again ...
/// assert_eq!(position.resume_after(), 1);
/// // ... and the payload that was received before is dropped.
/// assert!(!position.advance(&event(2, 0, true)));
/// assert!(position.advance(&event(2, 1, false)));
/// assert_eq!(position.resume_after(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    number: u64,
    k: u32,
    more: bool,
}

impl Position {
    /// Advances the position. Returns `false` if the payload was received before and must be dropped.
    pub fn advance(&mut self, event: &Event) -> bool {
        if (event.number, event.k) <= (self.number, self.k) && self.number > 0 {
            return false;
        }
        *self = Self { number: event.number, k: event.k, more: event.more };
        true
    }

    /// Returns the `after` with which no payload is missed.
    pub fn resume_after(&self) -> u64 {
        if self.more { self.number.saturating_sub(1) } else { self.number }
    }
}

/// An item of a run's queue.
#[derive(Debug)]
pub(crate) enum Item {
    Event(Event),
    Ended,
    Failed(Error),
}

/// The events of one run. Ends after the run's last event. After an error, resume at the reader's [`Position`]. Dropping it
/// stops the watch, not the run.
#[derive(Debug)]
pub struct RunEvents {
    run: String,
    items: mpsc::Receiver<Item>,
    link: Link,
    done: bool,
}

impl RunEvents {
    /// Returns the reader of a run whose items the link enqueues.
    pub(crate) fn new(run: String, items: mpsc::Receiver<Item>, link: Link) -> Self {
        Self { run, items, link, done: false }
    }

    /// Returns the id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the next payload. Returns `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for RunEvents {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let end = match ready!(self.items.poll_recv(cx)) {
            Some(Item::Event(event)) => return Poll::Ready(Some(Ok(event))),
            Some(Item::Ended) => None,
            Some(Item::Failed(error)) => Some(Err(error)),
            None => Some(Err(self.link.end())),
        };
        self.done = true;
        Poll::Ready(end)
    }
}

impl Drop for RunEvents {
    fn drop(&mut self) {
        if !self.done {
            self.link.unwatch(&self.run);
        }
    }
}

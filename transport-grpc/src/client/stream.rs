//! [`RunStream`]: the events of a run from the service.
//!
//! ```text
//! open ──► first message: the run id ──► messages: events in order ──► terminal event ──► end
//!                                          └ lost, or the end without a terminal event ──► Error::Cut, then end
//! ```
//!
//! Invariants: numbers increase; events before an error are returned before it; after an error the stream is over.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aqueduct_core::RunId;
use aqueduct_core::service::NumberedEvent;
use futures_core::Stream;
use tonic::Streaming;

use crate::convert::{EventReader, text};
use crate::error::Error;
use crate::proto::StreamMessage;
use crate::status::to_error;

/// The events of a run, in order. Ends after the terminal event; any other end is an error, after which
/// [`Client::watch`](crate::Client::watch) continues after [`last`](Self::last). Dropping it ends the watch, not the run.
#[derive(Debug)]
pub struct RunStream {
    run: RunId,
    messages: Streaming<StreamMessage>,
    reader: EventReader,
    ready: VecDeque<NumberedEvent>,
    /// An error that follows the ready events.
    failure: Option<Error>,
    last: u64,
    /// The number after which the reader resumed, until an event follows it.
    after: u64,
    is_over: bool,
}

impl RunStream {
    /// Waits for the first message, which contains the run id and is sent at once.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the service, [`Error::Protocol`] if the first message names no run, or the failure of the connection.
    pub(super) async fn open(after: u64, mut messages: Streaming<StreamMessage>) -> Result<Self, Error> {
        let first = messages.message().await.map_err(to_error)?;
        let mut first = first.ok_or(Error::Protocol("the stream ended before its first message"))?;
        let run = first.run_id.take().ok_or(Error::Protocol("the first message names no run"))?;
        let mut stream = Self {
            run: RunId::new(text("run_id", run)?).detached(),
            messages,
            reader: EventReader::new(),
            ready: VecDeque::new(),
            failure: None,
            last: after,
            after,
            is_over: false,
        };
        stream.take(first);
        Ok(stream)
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Returns the number of the last returned event, after which to resume.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of skipped events of unknown kinds.
    pub fn skipped(&self) -> u64 {
        self.reader.skipped()
    }

    /// Converts the events of a message; an error is kept behind the events before it.
    fn take(&mut self, message: StreamMessage) {
        let ready = &mut self.ready;
        self.failure = self.reader.read(message, |event| ready.push_back(event)).err().map(Into::into);
    }

    /// Returns the next converted event, or the error behind them.
    fn give(&mut self) -> Option<Result<NumberedEvent, Error>> {
        if let Some(event) = self.ready.pop_front() {
            self.last = event.number;
            self.is_over = event.event.is_terminal();
            return Some(Ok(event));
        }
        let failure = self.failure.take()?;
        self.is_over = true;
        Some(Err(failure))
    }
}

impl Stream for RunStream {
    type Item = Result<NumberedEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            if let Some(given) = self.give() {
                return Poll::Ready(Some(given));
            }
            match ready!(Pin::new(&mut self.messages).poll_next(cx)) {
                Some(Ok(message)) => self.take(message),
                Some(Err(status)) => self.failure = Some(to_error(status)),
                // No event follows the terminal event, which the reader already has.
                None if self.after > 0 && self.last == self.after => self.is_over = true,
                None => {
                    let message = "it ended without a terminal event".to_owned();
                    self.failure = Some(Error::Cut { code: tonic::Code::Ok, message });
                }
            }
        }
    }
}

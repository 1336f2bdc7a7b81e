//! Messages collected for one write, in one buffer.
//!
//! Encoders and replies append to the same bytes; the messages are slices of it, so a batch costs one allocation whatever
//! the number of its messages.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// Consecutive messages in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The end of each message, and whether it is binary.
    messages: Vec<(usize, bool)>,
}

impl Batch {
    /// Returns `true` if the batch contains no complete message.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the bytes of all messages.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the buffer, to append to the present message.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the start of the present message.
    pub(crate) fn start(&self) -> usize {
        self.messages.last().map_or(0, |(end, _)| *end)
    }

    /// Ends the present message.
    pub(crate) fn end_message(&mut self, binary: bool) {
        self.messages.push((self.bytes.len(), binary));
    }

    /// Returns the number of messages.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Removes all but the first `messages`.
    pub(crate) fn truncate(&mut self, messages: usize) {
        self.messages.truncate(messages);
        self.bytes.truncate(self.start());
    }

    /// Moves the messages into `outbox`, as frames.
    pub(crate) fn move_into(&mut self, outbox: &mut VecDeque<Message>) {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let mut rest = bytes;
        let mut start = 0;
        for (end, binary) in self.messages.drain(..) {
            let length = end.saturating_sub(start).min(rest.len());
            start = end;
            let kind = if binary { Data::Binary } else { Data::Text };
            // A frame, not a text message: the latter would check the UTF-8 of encoded payloads once more.
            outbox.push_back(Message::Frame(Frame::message(rest.split_to(length), OpCode::Data(kind), true)));
        }
    }
}

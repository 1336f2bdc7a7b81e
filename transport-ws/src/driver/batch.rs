//! Messages gathered for one write, in one buffer.
//!
//! Encoders and replies append to the same bytes; the messages are slices of it, so a batch costs one allocation
//! however many messages it holds.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// Messages one after the other.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Where each message ends, and whether it is binary.
    messages: Vec<(usize, bool)>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all messages.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer, to append to the message that is being written.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where the message that is being written begins.
    pub(crate) fn start(&self) -> usize {
        self.messages.last().map_or(0, |(end, _)| *end)
    }

    /// Ends the message that is being written.
    pub(crate) fn end_message(&mut self, binary: bool) {
        self.messages.push((self.bytes.len(), binary));
    }

    /// How many messages there are.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Forgets all but the first `messages`.
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
            // A frame, not a text message: the latter would check the UTF-8 of what encoders wrote once more.
            outbox.push_back(Message::Frame(Frame::message(rest.split_to(length), OpCode::Data(kind), true)));
        }
    }
}

//! The output of the decoder for one frame; shares text of the frame with events without a copy.
//!
//! A frame is reference-counted bytes. Most texts of a frame have no escapes, so the parser borrows them from it, and
//! an event can hold a slice of the same bytes. Text with escapes was copied by the parser, and is moved into the
//! event.

use std::borrow::Cow;

use aqueduct_core::{ByteString, SourceEvent};

use crate::wire::Text;

/// The output while one frame is decoded.
pub(super) struct Sink<'s> {
    /// The frame that is being decoded; empty for input without text, such as gRPC messages.
    frame: &'s ByteString,
    /// The events so far.
    pub(super) out: &'s mut Vec<SourceEvent>,
}

impl<'s> Sink<'s> {
    /// Returns an output that appends to `out`. Any `frame` is correct; the wrong one only costs copies.
    pub(super) fn new(frame: &'s ByteString, out: &'s mut Vec<SourceEvent>) -> Self {
        Self { frame, out }
    }

    /// Returns the text as a slice of the frame, if it is one.
    pub(super) fn share(&self, text: Text<'_>) -> ByteString {
        match text.0 {
            Cow::Owned(text) => ByteString::from(text),
            Cow::Borrowed(text) => self.share_str(text),
        }
    }

    /// As [`share`](Self::share), for a plain string. A string that lies outside of the frame, or is empty, is
    /// copied.
    pub(super) fn share_str(&self, text: &str) -> ByteString {
        let frame = self.frame.as_ptr().addr()..=self.frame.as_ptr().addr() + self.frame.len();
        let start = text.as_ptr().addr();
        if !text.is_empty() && frame.contains(&start) && frame.contains(&(start + text.len())) {
            self.frame.slice_ref(text)
        } else {
            ByteString::from(text)
        }
    }

    /// Appends an event.
    pub(super) fn push(&mut self, event: impl Into<SourceEvent>) {
        self.out.push(event.into());
    }
}

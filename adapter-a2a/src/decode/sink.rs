//! Where decoded events go, and how text of a frame becomes text of an event without a copy.

use std::borrow::Cow;

use aqueduct_core::{ByteString, SourceEvent};

use crate::wire::Text;

/// Where events go while one frame is read.
pub(super) struct Sink<'s> {
    frame: &'s ByteString,
    pub(super) out: &'s mut Vec<SourceEvent>,
}

impl<'s> Sink<'s> {
    pub(super) fn new(frame: &'s ByteString, out: &'s mut Vec<SourceEvent>) -> Self {
        Self { frame, out }
    }

    /// The text as a slice of the frame, if it is one.
    pub(super) fn share(&self, text: Text<'_>) -> ByteString {
        match text.0 {
            Cow::Owned(text) => ByteString::from(text),
            Cow::Borrowed(text) => self.share_str(text),
        }
    }

    /// The same for a plain string.
    pub(super) fn share_str(&self, text: &str) -> ByteString {
        let frame = self.frame.as_ptr().addr()..=self.frame.as_ptr().addr() + self.frame.len();
        let start = text.as_ptr().addr();
        if !text.is_empty() && frame.contains(&start) && frame.contains(&(start + text.len())) {
            self.frame.slice_ref(text)
        } else {
            ByteString::from(text)
        }
    }

    pub(super) fn push(&mut self, event: impl Into<SourceEvent>) {
        self.out.push(event.into());
    }
}

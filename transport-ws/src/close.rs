//! [`CloseReason`]: the code and reason of a close frame.
//!
//! | code | meaning | what the peer can do |
//! |---|---|---|
//! | 1000 | the run of a plain connection has ended | nothing |
//! | 1001 | the server stops | connect again and watch from the last number |
//! | 1002 | invalid frames | repair the client |
//! | 1003 | an unsupported kind of message | repair the client |
//! | 1007 | text that is not UTF-8 | repair the client |
//! | 1009 | a frame or message over its limit | send less |
//! | 1011 | a failure of the server, or a lost run | start again |
//! | 4xxx | 4000 + the HTTP status of the same meaning | see [`CloseReason`] |
//!
//! A stalled reader cannot receive a close frame, because unread bytes precede it. It sees the connection end without one
//! (1006) and can resume.

use std::borrow::Cow;

use aqueduct_core::service::{RefusalKind, ServiceError};
#[cfg(feature = "server")]
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as CodecError, ProtocolError};
#[cfg(feature = "server")]
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A close code and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReason {
    /// The close code.
    pub code: u16,
    /// A message of at most 123 bytes, the room in a close frame.
    pub reason: Cow<'static, str>,
}

impl CloseReason {
    /// The run of a plain connection has ended.
    pub const NORMAL: u16 = 1000;
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// Invalid frames.
    pub const PROTOCOL: u16 = 1002;
    /// An unsupported kind of message.
    pub const UNSUPPORTED_DATA: u16 = 1003;
    /// Text that is not UTF-8.
    pub const INVALID_TEXT: u16 = 1007;
    /// A size limit was exceeded.
    pub const TOO_BIG: u16 = 1009;
    /// A failure of the server.
    pub const INTERNAL: u16 = 1011;
    /// A message that does not belong to this protocol.
    pub const BAD_MESSAGE: u16 = 4400;
    /// No valid token, or not in time.
    pub const UNAUTHENTICATED: u16 = 4401;
    /// No such agent or run.
    pub const NOT_FOUND: u16 = 4404;
    /// The peer was silent for too long.
    pub const TIMEOUT: u16 = 4408;
    /// The request conflicts with stored state.
    pub const CONFLICT: u16 = 4409;
    /// The events are no longer stored.
    pub const GONE: u16 = 4410;
    /// The publish window was exceeded, or the service is busy.
    pub const TOO_MANY: u16 = 4429;
    /// The service does not support the operation.
    pub const UNSUPPORTED: u16 = 4501;
    /// The agent cannot be reached.
    pub const UNAVAILABLE: u16 = 4503;

    /// Returns a reason, truncated to the room in a close frame.
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        if reason.len() <= LONGEST_REASON {
            return Self { code, reason };
        }
        let fitting = (0..=LONGEST_REASON).rev().find_map(|end| reason.get(..end)).unwrap_or_default();
        Self { code, reason: Cow::Owned(fitting.to_owned()) }
    }

    /// Returns the close frame.
    #[cfg(feature = "server")]
    pub(crate) fn frame(&self) -> CloseFrame {
        CloseFrame { code: self.code.into(), reason: self.reason.as_ref().into() }
    }

    /// Returns the reason for a peer with unreadable frames. Returns `None` if the connection is already lost.
    #[cfg(feature = "server")]
    pub(crate) fn of_codec(error: &CodecError) -> Option<Self> {
        match error {
            CodecError::Capacity(CapacityError::MessageTooLong { size, max_size }) => Some(Self::new(
                Self::TOO_BIG,
                format!("{size} bytes in a frame or message, {max_size} allowed: send less at once"),
            )),
            CodecError::Utf8(_) => {
                Some(Self::new(Self::INVALID_TEXT, "a text message is not UTF-8: encode it as UTF-8"))
            }
            CodecError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
            CodecError::Protocol(error) => Some(Self::new(Self::PROTOCOL, error.to_string())),
            _ => None,
        }
    }
}

impl From<&ServiceError> for CloseReason {
    fn from(error: &ServiceError) -> Self {
        let code = match error.kind {
            RefusalKind::NotFound => Self::NOT_FOUND,
            RefusalKind::Unauthenticated => Self::UNAUTHENTICATED,
            RefusalKind::Invalid => Self::BAD_MESSAGE,
            RefusalKind::Conflict => Self::CONFLICT,
            RefusalKind::Gone { .. } => Self::GONE,
            RefusalKind::Busy => Self::TOO_MANY,
            RefusalKind::Unavailable => Self::UNAVAILABLE,
            RefusalKind::Unsupported => Self::UNSUPPORTED,
            _ => Self::INTERNAL,
        };
        Self::new(code, error.message.clone())
    }
}

/// RFC 6455 §5.5: a control frame has 125 bytes, two of which are the code.
const LONGEST_REASON: usize = 123;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let cut = CloseReason::new(1000, "ä".repeat(100));
        assert_eq!(cut.reason.len(), 122);
        assert_eq!(CloseReason::new(1000, "short").reason, "short");
    }
}

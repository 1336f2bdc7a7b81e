//! Server-sent events without IO: an encoder and an incremental decoder of `text/event-stream` (WHATWG HTML, section 9.2).
//!
//! ```text
//! fields ──► encode_event ──► bytes ──► (any split) ──► Decoder ──► Event
//! ```
//!
//! Invariants:
//!
//! * encoded lines end with LF, and no payload, id or name can forge a field;
//! * decoding an encoded event, split anywhere, gives the same event, except for one thing that the format cannot carry: CR
//!   and CRLF in data become LF;
//! * the decoder accepts any bytes without a panic, examines each byte once, copies it at most twice (a line cut by two
//!   reads, then data of several lines), and holds no more than its [`DecodeLimits`];
//! * a payload whose line lies in one read is a slice of that read.
//!
//! The module does not interpret payloads, reads no clock and does not reconnect. It depends on no other module of this
//! crate.

mod decode;
mod encode;
mod lines;

pub use decode::{DecodeError, DecodeLimits, Decoder, Event};
pub use encode::{
    EncodeError, EventFields, encode_comment, encode_data_with, encode_event, encode_id, encode_name,
    encode_retry,
};

/// The media type of an event stream.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// Returns `true` if a `Content-Type` value is that of an event stream. Ignores parameters and case.
pub fn is_event_stream(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim_matches([' ', '\t']).eq_ignore_ascii_case(MEDIA_TYPE)
}

#[cfg(test)]
mod tests;

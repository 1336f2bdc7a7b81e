//! Server-sent events without IO: a writer and an incremental reader of `text/event-stream`
//! (WHATWG HTML, section 9.2).
//!
//! ```text
//! fields ──► encode_event ──► bytes ──► (any split) ──► Decoder ──► Event
//! ```
//!
//! Invariants:
//!
//! * what is written ends its lines with LF and holds no field that the text of a payload, an id or a name could forge;
//! * what is written and read again, split anywhere, is the same, but for one thing that the format cannot carry:
//!   CR and CRLF in data come back as LF;
//! * the reader takes any bytes without a panic, looks at each byte once, copies it at most twice (a line cut by two
//!   reads, then data of several lines), and holds no more than its [`DecodeLimits`];
//! * a payload whose line lies in one read is a slice of that read.
//!
//! Nothing here knows what a payload means, reads a clock or reconnects. It depends on no other module of this crate.

mod decode;
mod encode;

pub use decode::{DecodeError, DecodeLimits, Decoder, Event};
pub use encode::{
    EncodeError, EventFields, encode_comment, encode_data_with, encode_event, encode_id, encode_name,
    encode_retry,
};

/// The media type of an event stream, as it is written.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// True if a `Content-Type` value names an event stream. Parameters and case do not matter.
pub fn is_event_stream(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim_matches([' ', '\t']).eq_ignore_ascii_case(MEDIA_TYPE)
}

#[cfg(test)]
mod tests;

//! The encoding of canonical events as bytes, for engines that store them outside the process.
//!
//! ```text
//! event := version tag fields…        integers: LEB128; texts and bytes: length, then content
//!          └ 1    └ `BlockEvent`'s variant
//! ```
//!
//! Every event is self-contained: the head of its block and its lane are written with it, so that any event can be decoded
//! alone. Repetition is cheap: [`Encoder`] caches the bytes of the last head, and [`Decoder`] the last heads by their bytes,
//! so a delta costs a copy and a comparison, and deltas of one block share one head.
//!
//! Invariants: decoding an encoded event gives an equal event (property test); bytes of every released version stay readable
//! (`runlog/fixtures/`); bytes of an unknown version and invalid bytes are errors; no input makes the decoder panic, recurse
//! without bound, or allocate more than the size of the input.
//!
//! The module does no framing and no storage. A version never changes once released: a new variant, a new field at the end
//! of a variant, or a changed meaning needs a new version.

mod control;
mod ends;
mod event;
mod head;
mod memory;
mod read;
mod value;
mod write;

use thiserror::Error;

pub use control::{decode_control, encode_control};
pub(crate) use control::{decode_value, encode_value};
pub use event::{Decoder, Encoder};
#[cfg(feature = "disk")]
pub(crate) use read::Reader;
pub(crate) use read::read_number;
#[cfg(feature = "disk")]
pub(crate) use write::Writer;
pub(crate) use write::write_number;

/// The newest version that is written and read. An event that version 1 can represent is written in version 1, so that
/// replicas of an older program can read it.
///
/// | version | adds |
/// |---|---|
/// | 2 | the finish reason, behind the fields of `RunFinished` |
pub const VERSION: u8 = 2;

/// The version of everything that version 2 does not extend.
pub(crate) const FIRST_VERSION: u8 = 1;

/// The deepest nesting of JSON values. Values from a parser nest at most half as deep.
pub const MAX_DEPTH: usize = 256;

/// Why bytes cannot be decoded, or an event cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// A newer program wrote the bytes.
    #[error(
        "it was written in version {found} of the encoding; this program knows versions 1 to {VERSION}: upgrade it"
    )]
    UnknownVersion {
        /// The version of the bytes.
        found: u8,
    },
    /// The bytes are truncated.
    #[error("the bytes end in the middle of {0}")]
    Truncated(&'static str),
    /// Bytes follow the event.
    #[error("{0} bytes follow the event")]
    Trailing(usize),
    /// A value is out of range.
    #[error("{what} cannot be {found}")]
    Invalid {
        /// The name of the value.
        what: &'static str,
        /// The invalid value.
        found: u64,
    },
    /// A text is not valid UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// The encoding has no form for the value.
    #[error("version {VERSION} of the encoding has no form for {0}")]
    NoForm(&'static str),
    /// A JSON value is nested too deep.
    #[error("a value nests deeper than {MAX_DEPTH}")]
    TooDeep,
}

#[cfg(test)]
mod tests;

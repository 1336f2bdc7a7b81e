//! Canonical events as bytes, for engines that leave the process.
//!
//! ```text
//! event := version tag fields…        integers: LEB128; texts and bytes: length, then content
//!          └ 1    └ `BlockEvent`'s variant
//! ```
//!
//! An event stands for itself: its block's head and its lane are written with it, so that any number can be read alone.
//! What repeats is made cheap by remembering: [`Encoder`] keeps the bytes of the last head, [`Decoder`] the last heads by
//! their bytes, so a delta costs a copy and a comparison, and deltas of one block share one head again.
//!
//! Invariants: reading what was written gives an equal event (property test); bytes of every version ever released
//! stay readable (`runlog/fixtures/`); bytes of an unknown version and bytes that make no sense are errors; nothing that
//! is read can make the reader panic, recurse without bound, or reserve more than it was given.
//!
//! What is *not* here: framing and storage. A version is changed by adding one; a variant, a field at the end of a
//! variant's fields, or a changed meaning is a new version.

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
#[cfg(any(feature = "disk", feature = "redis"))]
pub(crate) use control::{decode_value, encode_value};
pub use event::{Decoder, Encoder};
#[cfg(feature = "disk")]
pub(crate) use read::Reader;
#[cfg(feature = "disk")]
pub(crate) use write::Writer;

/// The version that is written, and the newest that is read. An event that version 1 can hold is written in version 1, so
/// that replicas of an older program read it.
///
/// | version | adds |
/// |---|---|
/// | 2 | the finish reason, behind the fields of `RunFinished` |
pub const VERSION: u8 = 2;

/// The version of everything that version 2 does not extend.
pub(crate) const FIRST_VERSION: u8 = 1;

/// JSON values nest at most this deep. Those that come from a parser nest at most half as deep.
pub const MAX_DEPTH: usize = 256;

/// Why bytes cannot be read as an event, or an event cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Another version of this program wrote it.
    #[error(
        "it was written in version {found} of the encoding; this program knows versions 1 to {VERSION}: upgrade it"
    )]
    UnknownVersion {
        /// The version found.
        found: u8,
    },
    /// The bytes end too early.
    #[error("the bytes end in the middle of {0}")]
    Truncated(&'static str),
    /// The bytes go on after the event.
    #[error("{0} bytes follow the event")]
    Trailing(usize),
    /// A value that cannot be.
    #[error("{what} cannot be {found}")]
    Invalid {
        /// What it is.
        what: &'static str,
        /// What was found.
        found: u64,
    },
    /// A text that is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// Something newer than the encoding.
    #[error("version {VERSION} of the encoding has no form for {0}")]
    NoForm(&'static str),
    /// A value that nests too deep.
    #[error("a value nests deeper than {MAX_DEPTH}")]
    TooDeep,
}

#[cfg(test)]
mod tests;

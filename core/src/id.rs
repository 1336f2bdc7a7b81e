//! Identifiers as newtypes, and [`IdMint`], which generates the emitted ids.
//!
//! Sources repeat ids (`result`, `m1`), share one id between thinking and text, or send none at all. Frontends treat two
//! things with the same id as one, over the *whole thread*. So no id of a source is assumed to be unique: [`IdMint`]
//! generates the emitted ids, and [`Origin`](crate::event::Origin) carries the source's own id. A tool call id that is
//! unique in the thread is emitted unchanged; so are message ids where the host requests it
//! ([`StreamContext::with_kept_ids`](crate::StreamContext::with_kept_ids)).
//!
//! Invariants: an id is never mutated; a minted id is unique in its thread as long as run ids are; the same input gives
//! the same ids (no randomness), so golden traces are stable.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

/// The conversions and formats of an id type, by its `new` and `as_str`.
macro_rules! text_impls {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self::new(id)
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self::new(id)
            }
        }

        impl From<ByteString> for $name {
            fn from(id: ByteString) -> Self {
                Self::new(id)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
    };
}

macro_rules! id_type {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(ByteString);

        impl $name {
            /// Wraps an id without copying it.
            pub fn new(id: impl Into<ByteString>) -> Self {
                Self(id.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the shared text of the id.
            pub fn as_bytes(&self) -> &ByteString {
                &self.0
            }

            /// Returns a copy that does not keep the buffer alive from which the id was read. State that outlives one read
            /// (heads of open blocks, memory of ended ones) holds detached ids.
            pub fn detached(&self) -> Self {
                Self(detach(&self.0))
            }
        }

        text_impls! { $name }
    )+};
}

id_type! {
    /// A conversation: an AG-UI thread, an A2A context.
    ThreadId
    /// One run of an agent in a thread. Unique in its thread; the prefix of all minted ids.
    RunId
    /// An emitted block, unique in its thread.
    BlockId
    /// An emitted lane (one invocation of one sub-agent), unique in its thread.
    LaneId
    /// A tool call. In an [`Update`](crate::Update) the source's id, in a [`BlockEvent`](crate::BlockEvent) the emitted one.
    ToolCallId
    /// A message as the source names it. Not unique.
    MessageId
    /// An interrupt, unique in its thread.
    InterruptId
}

/// A model response as the source names it. Not unique.
///
/// Half the size of the other ids: all updates of a response carry the same text, so that it is copied once instead of
/// sliced out of each frame.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResponseId(Arc<str>);

impl ResponseId {
    /// Copies an id.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(Arc::from(id.as_ref()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

text_impls! { ResponseId }

impl From<Arc<str>> for ResponseId {
    fn from(id: Arc<str>) -> Self {
        Self(id)
    }
}

/// Returns a copy of `text` in an allocation of its own size.
pub(crate) fn detach(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}

/// Generates the ids of a run: `<run>/1`, `<run>/2`, … in the order of calls.
///
/// The ordinal holds digits only, so the last `/` splits an id into run and ordinal again: no two pairs of run
/// and ordinal give the same text, whatever characters a run id has.
#[derive(Debug, Clone)]
pub struct IdMint {
    scope: RunId,
    next: u64,
}

impl IdMint {
    /// Returns a mint for one run.
    pub fn new(run: &RunId) -> Self {
        Self { scope: run.detached(), next: 1 }
    }

    /// Returns the next id.
    pub fn mint(&mut self) -> String {
        let ordinal = self.next.to_string();
        self.next += 1;
        // Every block has one: joining costs half of `format!`, and leaves no room that a shared text would have to return.
        [self.scope.as_str(), "/", &ordinal].concat()
    }

    /// Returns `true` if `id` has the form of an id of this run. A source's id of this form must not be emitted unchanged.
    pub fn could_mint(&self, id: &str) -> bool {
        self.ordinal(id).is_some()
    }

    /// Excludes an id that an earlier mint of the same run generated.
    pub fn skip(&mut self, id: &str) {
        if let Some(ordinal) = self.ordinal(id).and_then(|ordinal| ordinal.parse::<u64>().ok()) {
            self.next = self.next.max(ordinal.saturating_add(1));
        }
    }

    fn ordinal<'i>(&self, id: &'i str) -> Option<&'i str> {
        let ordinal = id.strip_prefix(self.scope.as_str())?.strip_prefix('/')?;
        ordinal.bytes().all(|b| b.is_ascii_digit()).then_some(ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_ids_are_unique_even_if_one_run_id_extends_another() {
        let mut short = IdMint::new(&RunId::from("a"));
        let mut long = IdMint::new(&RunId::from("a/1"));
        let from_short: Vec<_> = (0..20).map(|_| short.mint()).collect();
        let from_long: Vec<_> = (0..20).map(|_| long.mint()).collect();
        assert!(from_short.iter().all(|id| !from_long.contains(id)));
        assert_eq!(from_short[0], "a/1");
        assert_eq!(from_long[1], "a/1/2");
    }

    #[test]
    fn a_source_id_that_looks_minted_is_recognised() {
        let mint = IdMint::new(&RunId::from("r"));
        assert!(mint.could_mint("r/17"));
        assert!(!mint.could_mint("r/x"));
        assert!(!mint.could_mint("call_1"));
    }

    #[test]
    fn an_id_that_was_made_before_is_not_made_again() {
        let mut mint = IdMint::new(&RunId::from("r"));
        for id in ["r/7", "r/3", "call_9", "r/x", "s/12"] {
            mint.skip(id);
        }
        assert_eq!(mint.mint(), "r/8");
    }

    #[test]
    fn a_detached_id_is_equal_and_shares_nothing() {
        let buffer = ByteString::from("xxcall_1xx");
        let shared = MessageId::new(buffer.slice_ref(buffer.get(2..8).unwrap()));
        assert_eq!(shared.detached(), shared);
        assert_ne!(shared.detached().as_str().as_ptr(), shared.as_str().as_ptr());
    }
}

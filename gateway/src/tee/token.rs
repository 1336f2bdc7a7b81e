//! Proof of belonging to a run.
//!
//! A token is `<128 bits>-<64 bits>`, both random. The first part is that of the run, and leads to it at any gateway that
//! shares its log; the second is that of one agent of the run, which alone was given both.

use std::fmt::{self, Write as _};

/// Characters of the part that all tokens of a run share.
const SHARED: usize = 32;

/// Proof of belonging to a run, given to one of its agents.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunToken(String);

impl RunToken {
    /// One for the agent of a new run; none if the system has no randomness, which a run survives.
    pub(super) fn mint() -> Option<Self> {
        Self::with(&random_hex::<16>()?)
    }

    /// One for another agent of the same run.
    pub(super) fn child(&self) -> Option<Self> {
        Self::with(self.shared())
    }

    fn with(shared: &str) -> Option<Self> {
        random_hex::<8>().map(|own| Self(format!("{shared}-{own}")))
    }

    /// As somebody wrote it; it may be anything.
    pub(super) fn read(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// What all tokens of the run have in common.
    pub(super) fn shared(&self) -> &str {
        self.0.get(..SHARED).unwrap_or(&self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never printed: it opens a run to whoever has it.
impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToken(…)")
    }
}

/// So many random bytes of the system, as hexadecimal text.
pub(super) fn random_hex<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "the system has no randomness: calls of sub-agents cannot be related by token");
        return None;
    }
    Some(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
        // Writing to a `String` cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    }))
}

//! Run tokens: proof that a call belongs to a run.
//!
//! A token is `<128 bits>-<64 bits>`, both random. The first part identifies the run at any replica that shares its
//! log; the second identifies one agent of the run, which alone received both.

use std::fmt::{self, Write as _};

/// The length of the part that all tokens of a run share, in characters.
const SHARED: usize = 32;

/// Proof that the bearer works in a run, issued to one agent of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunToken(String);

impl RunToken {
    /// Returns the token of the agent of a new run, or `None` if the system has no randomness; the run continues
    /// without one.
    pub(super) fn mint() -> Option<Self> {
        Self::with(&random_hex::<16>()?)
    }

    /// Returns a token for another agent of the same run.
    pub(super) fn child(&self) -> Option<Self> {
        Self::with(self.shared())
    }

    fn with(shared: &str) -> Option<Self> {
        random_hex::<8>().map(|own| Self(format!("{shared}-{own}")))
    }

    /// Wraps the text of a request, which may be anything.
    pub(super) fn read(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the part that all tokens of the run share.
    pub(super) fn shared(&self) -> &str {
        self.0.get(..SHARED).unwrap_or(&self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Redacted: the token gives its bearer access to the run.
impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToken(…)")
    }
}

/// Returns random bytes of the system as hexadecimal text.
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

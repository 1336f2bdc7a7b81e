//! Checks for tests of other crates (feature `testing`): parses arbitrary bytes as messages of the protocol.
#![expect(clippy::expect_used, reason = "a panic is how a check says no")]

use crate::message::{Request, binary};

/// The depth of JSON that the checks allow.
const DEPTH: usize = 64;

/// Parses a message as text and as binary, and checks the round trip of binary messages.
///
/// # Panics
///
/// Panics if a written message is not read back equal.
pub fn check_message(message: &[u8]) {
    if let Ok(text) = std::str::from_utf8(message) {
        drop(Request::parse(text, DEPTH));
    }
    if let Some((reference, number, at)) = binary::read_payload(message) {
        let mut out = Vec::new();
        binary::write_payload(reference, number, &mut out);
        let again = binary::read_payload(&out).expect("what was written is read");
        assert!((again.0, again.1) == (reference, number) && at <= message.len());
    }
    if let Some((run, number, k, is_last, at)) = binary::read_event(message) {
        let mut out = Vec::new();
        binary::write_event(run, number, k, &mut out);
        let again = binary::read_event(&out).expect("what was written is read");
        assert!((again.0, again.1, again.2) == (run, number, k) && at <= message.len(), "{is_last}");
    }
}

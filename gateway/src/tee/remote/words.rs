//! The messages between carrier and owner.
//!
//! ```text
//! carrier ──► owner   message to the run       {"side":"…","relation":{"way":"token","value":"…"},"call":{…}}
//! owner ──► carrier   message to the side run  {"tee":"granted","token":"…","trace":null}
//! carrier ──► owner   event of the side run    {"tee":"chunk","text":"data: {…}\n\n"}
//! ```
//!
//! Both sides may be of different versions during an update, so unknown messages are skipped and not an error.

use aqueduct_core::RunFailure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tee::call::LaneCall;
use crate::tee::relation::RelationKey;

/// The name of a piece of the response in the log of a side run.
pub(super) const PIECE: &str = "aqueduct/tee";

/// A message to the owner of a run: a call that is related to the run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Announcement {
    /// The side run of the call.
    pub(super) side: String,
    pub(super) relation: RelationKey,
    pub(super) call: LaneCall,
}

/// A message to the carrier of a side run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "tee", rename_all = "lowercase")]
pub(super) enum Word {
    /// The owner has opened a lane; token and trace are for the sub-agent.
    Granted { token: Option<String>, trace: Option<String> },
    /// The owner opens no lane.
    Refused,
    /// The run was cancelled: the carrier cancels this task.
    Cancel { task: String },
    /// The run needs no more of the response. This is the last message.
    Over,
}

/// A piece of the response, in the log of the side run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tee", rename_all = "lowercase")]
pub(super) enum Piece {
    /// The agent has not responded yet.
    Wait,
    /// A chunk of an event stream.
    Chunk { text: String },
    /// The end of the stream.
    End,
    /// A response that is not a stream.
    Body { status: u16, text: String },
    /// A failed call or a cut stream.
    Failure { code: String, message: String },
    /// A notice about the response for watchers.
    Note { text: String },
}

impl Piece {
    pub(super) fn failure(failure: &RunFailure) -> Self {
        Self::Failure { code: failure.code.to_string(), message: failure.message.to_string() }
    }
}

/// Serialises a message. The types above cannot fail to serialise.
pub(super) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// Decodes UTF-8 that arrives in chunks which may end within a character.
#[derive(Debug, Default)]
pub(super) struct TextPieces(Vec<u8>);

impl TextPieces {
    /// Returns the complete characters of the input so far. Invalid bytes are replaced, as by any lossy decoder.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // Invalid bytes are replaced, except for a last character that is incomplete.
            Err(_) => self.0.len() - unfinished(&self.0),
            Ok(text) => text.len(),
        };
        let rest = self.0.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }

    /// Returns the rest at the end of the input.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// Returns the number of bytes of an incomplete character at the end.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 == 0xc0).map_or(0, |at| at + 1);
    let end = bytes.get(bytes.len() - tail..).unwrap_or_default();
    match std::str::from_utf8(end) {
        Err(error) if error.error_len().is_none() => tail,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_whole_wherever_it_is_cut() {
        let text = "data: žluťoučký 🐎\n\n";
        for at in 0..=text.len() {
            let mut pieces = TextPieces::default();
            let (one, two) = text.as_bytes().split_at(at);
            let got = [pieces.push(one), pieces.push(two), pieces.finish()].concat();
            assert_eq!(got, text, "cut at {at}");
        }
    }

    #[test]
    fn foreign_bytes_are_replaced_and_hold_nothing_back() {
        let mut pieces = TextPieces::default();
        assert_eq!(pieces.push(b"a\xffb\xc5"), "a\u{fffd}b");
        assert_eq!(pieces.push(b"\xbe"), "ž");
        assert_eq!(pieces.push(b"\xf0\x9f"), "");
        assert_eq!(pieces.finish(), "\u{fffd}");
    }
}

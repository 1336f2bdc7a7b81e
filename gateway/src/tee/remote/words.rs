//! What carrier and owner say to each other.

use aqueduct_core::RunFailure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tee::call::LaneCall;
use crate::tee::clue::Clue;

/// The name of a piece in the log of a side run.
pub(super) const PIECE: &str = "aqueduct/tee";

/// To the owner of a run, with its messages.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Announcement {
    /// The side run of the call.
    pub(super) side: String,
    pub(super) clue: Clue,
    pub(super) call: LaneCall,
}

/// To the carrier, with the messages of its side run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "tee", rename_all = "lowercase")]
pub(super) enum Word {
    /// There is a lane; this is for its agent.
    Granted { token: Option<String>, trace: Option<String> },
    /// There is none.
    Refused,
    /// The run was stopped: that task is to be cancelled.
    Cancel { task: String },
    /// The run has no more use for the call. It is the last word.
    Over,
}

/// A piece of the answer, in the log of the side run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tee", rename_all = "lowercase")]
pub(super) enum Piece {
    /// There is no answer yet.
    Wait,
    /// Some of an event stream.
    Chunk { text: String },
    /// The stream is over.
    End,
    /// An answer that is no stream.
    Body { status: u16, text: String },
    /// No answer, or no more of it.
    Failure { code: String, message: String },
    /// Something about the answer that whoever watches should know.
    Note { text: String },
}

impl Piece {
    pub(super) fn failure(failure: &RunFailure) -> Self {
        Self::Failure { code: failure.code.to_string(), message: failure.message.to_string() }
    }
}

/// As the log keeps it. Nothing here can fail to be written.
pub(super) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// Text that comes in pieces which may end within a character.
#[derive(Debug, Default)]
pub(super) struct TextPieces(Vec<u8>);

impl TextPieces {
    /// What is whole of what came so far. What is no text at all is told as such, like any reader would.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // Foreign bytes are replaced, but for a last character that is not whole yet.
            Err(_) => self.0.len() - unfinished(&self.0),
            Ok(text) => text.len(),
        };
        let rest = self.0.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }

    /// What is left when nothing follows.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// Bytes of a character at the end that is not whole.
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

//! How a complete text relates to the answers of the turn: agents restate their answer in another artifact, in the
//! final status, or in a snapshot.
//!
//! Only answers of the present turn are compared: an agent may give the same answer twice in one conversation.

use aqueduct_core::ByteString;
use aqueduct_core::fingerprint::{Fingerprint, Relation};

use super::memory::TaskMemory;

/// How a text that claims to be the complete answer relates to the answer so far.
pub(super) enum AnswerMatch {
    /// There is no answer yet.
    None,
    /// The text repeats that artifact.
    Repeats(ByteString),
    /// The text repeats all artifacts together.
    RepeatsAll,
    /// The text continues all artifacts together, from that byte on.
    ContinuesAll(usize),
    /// The text continues the only artifact.
    Continues(ByteString),
    /// The text differs from the only artifact.
    Differs(ByteString),
    /// The text differs from all artifacts.
    DiffersFromAll,
}

impl TaskMemory {
    /// Compares a complete text with the answers of this turn, one by one and together.
    pub(super) fn match_answer(&self, text: &str) -> AnswerMatch {
        let mut relations =
            self.answers().map(|(place, record)| (place, record.text.relation_of_whole(text)));
        if let Some((place, _)) =
            self.answers().find(|(_, record)| record.text.relation_of_whole(text) == Relation::Same)
        {
            return AnswerMatch::Repeats(place.clone());
        }
        match (relations.next(), relations.next()) {
            (None, _) => AnswerMatch::None,
            (Some((place, Relation::Extends(_))), None) => AnswerMatch::Continues(place.clone()),
            (Some((place, _)), None) => AnswerMatch::Differs(place.clone()),
            _ => match Fingerprint::relation_to_all(self.answers().map(|(_, record)| &record.text), text) {
                Relation::Same => AnswerMatch::RepeatsAll,
                Relation::Extends(rest) => AnswerMatch::ContinuesAll(text.len() - rest.len()),
                Relation::First | Relation::Different => AnswerMatch::DiffersFromAll,
            },
        }
    }
}

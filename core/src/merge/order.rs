//! The order of one agent's messages.
//!
//! Comparing "by time if both have one, else by arrival" is not transitive: with times (10, none, 5) in order of
//! arrival the first precedes the second, the second the third, and the third the first. So each message first gets
//! an *effective* time, and messages are then ordered by (effective time, arrival), which is a total order:
//!
//! * a message with a time has that time;
//! * a message without one has the time of the message that arrived before it;
//! * a message that carries a tool call or a result is a *barrier*: what arrived after it gets at least its time, so
//!   that clocks that disagree cannot put an answer before the result it came from.
//!
//! Responses take precedence over times: messages of one response id are contiguous, in the order in which the ids first
//! appeared; a message without response id belongs to the response it arrived in, and a result is never sorted before the
//! response that made its call.

use std::collections::HashMap;

use super::draft::Draft;
use super::{MergeSettings, Placement};
use crate::id::ResponseId;
use crate::update::Timestamp;

/// The sort key of a message. The sort is stable, so equal keys keep the order of arrival.
type Rank = (bool, usize, bool, Option<Timestamp>);

pub(super) fn sorted(drafts: Vec<Draft>, settings: MergeSettings) -> Vec<Draft> {
    let ranks = ranks(&drafts, settings);
    let mut ranked: Vec<(Rank, Draft)> = ranks.into_iter().zip(drafts).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, draft)| draft).collect()
}

/// Returns the sort key of each message, computed in the order of arrival.
fn ranks(drafts: &[Draft], settings: MergeSettings) -> Vec<Rank> {
    let mut responses: HashMap<&ResponseId, usize> = HashMap::new();
    let mut response = 0;
    let mut calls_in = 0;
    let mut before: Option<Timestamp> = None;
    let mut barrier: Option<Timestamp> = None;
    let mut ranks = Vec::with_capacity(drafts.len());
    for draft in drafts {
        if let Some(id) = &draft.response {
            let next = responses.len();
            response = *responses.entry(id).or_insert(next);
        }
        let rank = if draft.has_results() { response.max(calls_in) } else { response };
        let effective = draft.created_at.or(before).max(barrier);
        before = effective;
        if draft.has_tools() {
            barrier = effective;
            calls_in = calls_in.max(rank);
        }
        let last_by_response =
            settings.without_response_id == Placement::AfterKeyed && draft.response.is_none();
        let last_by_message = settings.without_message_id == Placement::AfterKeyed && draft.id.is_none();
        ranks.push((last_by_response, rank, last_by_message, effective));
    }
    ranks
}

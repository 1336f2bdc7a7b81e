//! Token usage, counted once.
//!
//! The usage of a turn is reported several times: as `usage` contents (each added to the last, or with
//! `merge_mode: replace` as the turn's total so far), and as `usage_details` of the whole response, which
//! `executor_completed` repeats. Only the difference to the earlier reports of the turn is emitted.

use std::collections::HashMap;

use aqueduct_core::Usage;
use serde_json::Value;

use crate::wire::Json;

/// The usage of each executor's turn so far.
#[derive(Debug)]
pub(super) struct Spending {
    turns: HashMap<String, Usage, foldhash::fast::FixedState>,
    max: usize,
}

impl Spending {
    /// Returns a counter for at most `max` turns at once; further ones count as one.
    pub(super) fn new(max: usize) -> Self {
        Self { turns: HashMap::default(), max }
    }

    /// Adds tokens. Returns `None` if nothing was reported.
    pub(super) fn add(&mut self, turn: &str, usage: Usage) -> Option<Usage> {
        if usage == Usage::default() {
            return None;
        }
        self.turn(turn).add(&usage);
        Some(usage)
    }

    /// Sets the turn's total so far. Returns the difference.
    pub(super) fn total(&mut self, turn: &str, usage: &Usage) -> Option<Usage> {
        let known = self.turn(turn);
        let new = Usage {
            input: more(known.input, usage.input),
            output: more(known.output, usage.output),
            total: more(known.total, usage.total),
            reasoning: more(known.reasoning, usage.reasoning),
            cached_input: more(known.cached_input, usage.cached_input),
            cache_write_input: more(known.cache_write_input, usage.cache_write_input),
            ..Usage::default()
        };
        known.add(&new);
        (new != Usage::default()).then_some(new)
    }

    /// Ends a turn; the next one starts at zero.
    pub(super) fn end_turn(&mut self, turn: &str) {
        self.turns.remove(turn);
    }

    /// Returns the counts of a turn. Beyond the limit of turns all further ones share one entry.
    fn turn(&mut self, turn: &str) -> &mut Usage {
        let room = self.turns.len() < self.max || self.turns.contains_key(turn);
        self.turns.entry(if room { turn.to_owned() } else { String::new() }).or_default()
    }
}

/// Returns the difference of `now` and `before`; a zero is emitted once.
fn more(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    match (before, now) {
        (None, now) => now,
        (Some(before), Some(now)) => now.checked_sub(before).filter(|more| *more > 0),
        (Some(_), None) => None,
    }
}

/// Parses `usage_details`. Counts without a field in [`Usage`] are provider details of the others.
pub(super) fn usage(details: Json<'_>) -> Usage {
    let details = details.value();
    let count = |names: &[&str]| names.iter().find_map(|name| details.get(name).and_then(Value::as_u64));
    Usage {
        provider: None,
        model: None,
        input: count(&["input_token_count"]),
        output: count(&["output_token_count"]),
        total: count(&["total_token_count"]),
        reasoning: count(&["reasoning_output_token_count", "openai.reasoning_tokens"]),
        cached_input: count(&["cache_read_input_token_count", "openai.cached_input_tokens"]),
        cache_write_input: count(&["cache_creation_input_token_count"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(count: u64) -> Usage {
        Usage { input: Some(count), ..Usage::default() }
    }

    #[test]
    fn a_total_that_repeats_what_was_added_tells_nothing() {
        let mut spending = Spending::new(8);
        assert_eq!(spending.add("a", input(20)), Some(input(20)));
        assert_eq!(spending.total("a", &input(40)), Some(input(20)));
        assert_eq!(spending.total("a", &input(40)), None);
        assert_eq!(spending.total("a", &input(30)), None);
        spending.end_turn("a");
        assert_eq!(spending.total("a", &input(40)), Some(input(40)));
    }
}

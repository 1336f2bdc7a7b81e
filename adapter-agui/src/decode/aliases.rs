//! Ids under which a snapshot restated content that was streamed under other ids.
//!
//! ```text
//! streamed  text m1, call c1 in m1, result r1      snapshot  message x1 with text and c1, result x2
//!   -> IDS {"texts": {"m1": ["x1"]}, "calls": {"c1": "x1"}, "results": {"c1": "x2"}}
//! ```
//!
//! The frontend keeps the streamed ids. An input for the source must use the restated ones, because
//! the source stores its history under them (`ids`). A later snapshot overrides an earlier one.
//! Bounded by [`REMEMBERED`] entries of each kind.

use std::collections::HashMap;

use aqueduct_core::ByteString;
use foldhash::fast::RandomState;
use serde_json::{Value, json};

use super::seen::{EmittedText, REMEMBERED};

/// Ids under which the source restated content that it had streamed under other ids.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// By the streamed id, one entry for each message of that id.
    texts: HashMap<ByteString, Vec<Option<ByteString>>, RandomState>,
    /// The message of a call, by the id of the call.
    pub(super) calls: HashMap<ByteString, ByteString, RandomState>,
    /// The message of a result, by the id of the call.
    pub(super) results: HashMap<ByteString, ByteString, RandomState>,
}

impl Aliases {
    /// Records the id under which a streamed text was restated.
    pub(super) fn note_text(&mut self, streamed: &EmittedText, restated: &str) {
        let alias = Some(restated).filter(|id| !id.is_empty() && streamed.id != *id).map(ByteString::from);
        if alias.is_none() && !self.texts.contains_key(&streamed.id) || self.texts.len() >= REMEMBERED {
            return;
        }
        let places = self.texts.entry(streamed.id.clone()).or_default();
        if places.len() <= streamed.nth {
            places.resize(streamed.nth + 1, None);
        }
        if let Some(place) = places.get_mut(streamed.nth) {
            *place = alias;
        }
    }

    /// Records that a call was streamed under another message id than the snapshot gives it.
    pub(super) fn note(
        map: &mut HashMap<ByteString, ByteString, RandomState>,
        call: &ByteString,
        streamed: &str,
        restated: &str,
    ) {
        if restated.is_empty() || streamed == restated {
            map.remove(call);
        } else if map.len() < REMEMBERED {
            map.insert(call.clone(), restated.into());
        }
    }

    /// Returns the value of a [`wellknown::IDS`](aqueduct_core::wellknown::IDS) block. Returns `None` if no id was restated.
    pub(super) fn value(&self) -> Option<Value> {
        fn object<V: Ord>(map: &HashMap<ByteString, V, RandomState>, to: impl Fn(&V) -> Value) -> Value {
            let mut all: Vec<_> = map.iter().collect();
            all.sort_unstable();
            let members = all.into_iter().map(|(from, alias)| (from.to_string(), to(alias)));
            Value::Object(members.collect())
        }
        if self.texts.is_empty() && self.calls.is_empty() && self.results.is_empty() {
            return None;
        }
        let id = |id: &ByteString| Value::from(&**id);
        let texts = object(&self.texts, |ids| {
            ids.iter().map(|alias| alias.as_ref().map_or(Value::Null, id)).collect()
        });
        Some(
            json!({ "texts": texts, "calls": object(&self.calls, id), "results": object(&self.results, id) }),
        )
    }
}

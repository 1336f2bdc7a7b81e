//! Ids under which a snapshot restated what was streamed under others.

use std::collections::HashMap;

use aqueduct_core::ByteString;
use foldhash::fast::RandomState;
use serde_json::{Value, json};

use super::seen::{REMEMBERED, Said};

/// Ids under which the source restated what it had sent under others.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// By the streamed id, for each of its messages.
    texts: HashMap<ByteString, Vec<Option<ByteString>>, RandomState>,
    /// The message of a call, by the call's id.
    pub(super) calls: HashMap<ByteString, ByteString, RandomState>,
    /// By the call's id.
    pub(super) results: HashMap<ByteString, ByteString, RandomState>,
}

impl Aliases {
    pub(super) fn note_text(&mut self, said: &Said, restated: &str) {
        let alias = Some(restated).filter(|id| !id.is_empty() && said.id != *id).map(ByteString::from);
        if alias.is_none() && !self.texts.contains_key(&said.id) || self.texts.len() >= REMEMBERED {
            return;
        }
        let places = self.texts.entry(said.id.clone()).or_default();
        if places.len() <= said.nth {
            places.resize(said.nth + 1, None);
        }
        if let Some(place) = places.get_mut(said.nth) {
            *place = alias;
        }
    }

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

    /// The value of a [`wellknown::IDS`](aqueduct_core::wellknown::IDS) block; none if all ids are those of the stream.
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

//! Sorted sets.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds as _};

use super::{
    Entry, Refusal, Reply, Store, Text, Value, place, syntax, text, unknown, wrong_number, wrong_type,
};

impl Store {
    pub(super) fn execute_on_sorted_set(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("ZADD", [key, rest @ ..]) => self.zadd(key, rest),
            ("ZREM", [key, members @ ..]) => {
                let sorted = value!(self, key, Sorted, BTreeMap::new());
                let removed = members.iter().filter(|member| sorted.remove(*member).is_some()).count();
                self.remove_empty(key);
                Ok(Reply::count(removed))
            }
            ("ZSCORE", [key, member]) => {
                let score = known!(self, key, Sorted).and_then(|sorted| sorted.get(member));
                Ok(score.map_or(Reply::Nil, |score| Reply::Bulk(score.to_string().into_bytes())))
            }
            ("ZRANGE", [key, from, to]) => {
                let (from, to) = (place(from)?, place(to)?);
                let all = self.sorted(key)?.into_iter().skip(from).take((to + 1).saturating_sub(from));
                Ok(Reply::texts(all.map(|(_, member)| member)))
            }
            ("ZRANGEBYSCORE", [key, from, to, options @ ..]) => self.range(key, (from, to), options, false),
            ("ZREVRANGEBYSCORE", [key, to, from, options @ ..]) => self.range(key, (from, to), options, true),
            _ => Err(unknown(name)),
        }
    }

    fn zadd(&mut self, key: &Text, rest: &[Text]) -> Result<Reply, Refusal> {
        let (condition, pairs) = match rest {
            [word, pairs @ ..] if matches!(word.as_slice(), b"NX" | b"XX") => (Some(word.as_slice()), pairs),
            pairs => (None, pairs),
        };
        let (pairs, []) = pairs.as_chunks::<2>() else { return Err(wrong_number()) };
        let sorted = value!(self, key, Sorted, BTreeMap::new());
        let mut added = 0;
        for [score, member] in pairs {
            let is_known = sorted.contains_key(member);
            if (condition == Some(b"NX") && is_known) || (condition == Some(b"XX") && !is_known) {
                continue;
            }
            let score = text(score).parse().map_err(|_| "ERR value is not a valid float".to_owned())?;
            added += usize::from(sorted.insert(member.clone(), score).is_none());
        }
        self.remove_empty(key);
        Ok(Reply::count(added))
    }

    /// Returns the members of a sorted set with their scores, in the order of the server: by score, then by member.
    fn sorted(&self, key: &Text) -> Result<Vec<(f64, Text)>, Refusal> {
        let sorted = known!(self, key, Sorted);
        let mut all: Vec<_> =
            sorted.into_iter().flatten().map(|(member, score)| (*score, member.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(all)
    }

    fn range(
        &self,
        key: &Text,
        (from, to): (&Text, &Text),
        options: &[Text],
        is_descending: bool,
    ) -> Result<Reply, Refusal> {
        let (skip, most) = match options {
            [] => (0, usize::MAX),
            [word, skip, most] if word == b"LIMIT" => (place(skip)?, place(most)?),
            _ => return Err(syntax()),
        };
        let range = (bound(from)?, bound(to)?);
        let mut all = self.sorted(key)?;
        all.retain(|(score, _)| range.contains(score));
        if is_descending {
            all.reverse();
        }
        Ok(Reply::texts(all.into_iter().skip(skip).take(most).map(|(_, member)| member)))
    }
}

/// Reads a limit of a range of scores: `5`, `(5`, `-inf`, `+inf`.
fn bound(bytes: &[u8]) -> Result<Bound<f64>, Refusal> {
    let limit = text(bytes);
    let read = |score: &str| score.parse().map_err(|_| "ERR min or max is not a float".to_owned());
    match limit.as_str() {
        "-inf" | "+inf" => Ok(Bound::Unbounded),
        limit => match limit.strip_prefix('(') {
            Some(limit) => read(limit).map(Bound::Excluded),
            None => read(limit).map(Bound::Included),
        },
    }
}

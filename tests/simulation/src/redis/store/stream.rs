//! Streams. An entry whose id is not above the last one is refused: that is the fence of the engine.

use std::collections::BTreeMap;

use super::{
    Entry, EntryId, Refusal, Reply, Store, Text, Value, entry_id, place, syntax, unknown, wrong_type,
};

impl Store {
    pub(super) fn execute_on_stream(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("XADD", [key, id, fields @ ..]) => self.xadd(key, id, fields),
            ("XRANGE", [key, from, to, options @ ..]) => self.xrange(key, (from, to), options),
            ("XTRIM", [key, strategy, from]) => self.xtrim(key, strategy, from),
            _ => Err(unknown(name)),
        }
    }

    fn xadd(&mut self, key: &Text, id: &Text, fields: &[Text]) -> Result<Reply, Refusal> {
        let entry = entry_id(id).ok_or_else(syntax)?;
        let empty =
            || Entry { value: Value::Stream { entries: BTreeMap::new(), last: (0, 0) }, expires_at: None };
        match &mut self.entries.entry(key.clone()).or_insert_with(empty).value {
            Value::Stream { last, .. } if entry <= *last => {
                Err("ERR The ID specified in XADD is equal or smaller than the target stream top item"
                    .to_owned())
            }
            Value::Stream { entries, last } => {
                entries.insert(entry, fields.to_vec());
                *last = entry;
                Ok(Reply::Bulk(id.clone()))
            }
            _ => Err(wrong_type()),
        }
    }

    fn xrange(&self, key: &Text, (from, to): (&Text, &Text), options: &[Text]) -> Result<Reply, Refusal> {
        let most = match options {
            [] => usize::MAX,
            [word, count] if word == b"COUNT" => place(count)?,
            _ => return Err(syntax()),
        };
        let from = entry_id(from).ok_or_else(syntax)?;
        if to != b"+" {
            return Err(syntax());
        }
        let entries = match self.entries.get(key).map(|entry| &entry.value) {
            Some(Value::Stream { entries, .. }) => entries,
            Some(_) => return Err(wrong_type()),
            None => return Ok(Reply::List(Vec::new())),
        };
        let reply = |((epoch, number), fields): (&EntryId, &Vec<Text>)| {
            let id = Reply::Bulk(format!("{epoch}-{number}").into_bytes());
            Reply::List(vec![id, Reply::texts(fields.iter().cloned())])
        };
        Ok(Reply::List(entries.range(from..).take(most).map(reply).collect()))
    }

    fn xtrim(&mut self, key: &Text, strategy: &Text, from: &Text) -> Result<Reply, Refusal> {
        let from = entry_id(from).filter(|_| strategy == b"MINID").ok_or_else(syntax)?;
        let Some(Entry { value: Value::Stream { entries, .. }, .. }) = self.entries.get_mut(key) else {
            return Ok(Reply::Integer(0));
        };
        let kept = entries.split_off(&from);
        let removed = std::mem::replace(entries, kept);
        Ok(Reply::count(removed.len()))
    }
}

//! [`Store`]: the keys of the simulated server, and the commands of Redis 6.2 that the engine uses.
//!
//! Commands follow the reference of Redis as far as the engine depends on it. An unknown command, a wrong number of arguments and
//! a value of another type are errors, as they are on the server. Expired keys are removed before the next command.

use std::collections::{BTreeMap, BTreeSet};

use super::reply::{Reply, Text};

/// An error reply.
type Refusal = String;

/// The id of an entry of a stream: for the engine the epoch of the writer and the number of the event.
pub type EntryId = (u64, u64);

#[derive(Debug, Clone)]
enum Value {
    Text(Text),
    Hash(BTreeMap<Text, Text>),
    List(Vec<Text>),
    Set(BTreeSet<Text>),
    Sorted(BTreeMap<Text, f64>),
    Stream { entries: BTreeMap<EntryId, Vec<Text>>, last: EntryId },
}

#[derive(Debug, Clone)]
struct Entry {
    value: Value,
    expires_at: Option<i64>,
}

/// All keys.
#[derive(Debug, Clone, Default)]
pub struct Store {
    entries: BTreeMap<Text, Entry>,
    /// The time of the command, in milliseconds.
    now: i64,
    /// A time before which no key expires.
    next_expiry: i64,
}

/// Returns a mutable value of one type. A key that does not exist is created.
macro_rules! value {
    ($store:expr, $key:expr, $kind:ident, $empty:expr) => {{
        let empty = || Entry { value: Value::$kind($empty), expires_at: None };
        match &mut $store.entries.entry($key.clone()).or_insert_with(empty).value {
            Value::$kind(value) => value,
            _ => return Err(wrong_type()),
        }
    }};
}

/// Returns the value of one type, or `None` if the key does not exist.
macro_rules! known {
    ($store:expr, $key:expr, $kind:ident) => {
        match $store.entries.get($key).map(|entry| &entry.value) {
            Some(Value::$kind(value)) => Some(value),
            Some(_) => return Err(wrong_type()),
            None => None,
        }
    };
}

mod sorted;
mod stream;

fn wrong_type() -> Refusal {
    "WRONGTYPE Operation against a key holding the wrong kind of value".to_owned()
}

fn wrong_number() -> Refusal {
    "ERR wrong number of arguments".to_owned()
}

fn unknown(name: &str) -> Refusal {
    format!("ERR unknown command '{name}', or {}", wrong_number())
}

fn syntax() -> Refusal {
    "ERR syntax error".to_owned()
}

/// Returns `true` if a command changes keys.
pub fn is_write(name: &str) -> bool {
    matches!(
        name,
        "SET"
            | "DEL"
            | "UNLINK"
            | "HSET"
            | "PEXPIRE"
            | "PEXPIREAT"
            | "XADD"
            | "XTRIM"
            | "RPUSH"
            | "ZADD"
            | "ZREM"
            | "SADD"
            | "SREM"
    )
}

/// Returns the name of a command, in capitals.
pub fn name_of(command: &[Text]) -> String {
    command.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap_or_default()
}

impl Store {
    /// Executes a command at a time.
    pub fn execute(&mut self, now: i64, command: &[Text]) -> Reply {
        self.now = now;
        self.remove_expired();
        let args = command.get(1..).unwrap_or_default();
        self.dispatch(&name_of(command), args).unwrap_or_else(Reply::Error)
    }

    fn dispatch(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match name.as_bytes().first() {
            Some(b'H') => self.execute_on_hash(name, args),
            Some(b'X') => self.execute_on_stream(name, args),
            Some(b'Z') => self.execute_on_sorted_set(name, args),
            _ => match name {
                "SADD" | "SREM" | "SMEMBERS" => self.execute_on_set(name, args),
                "RPUSH" | "LLEN" | "LPOS" | "LRANGE" => self.execute_on_list(name, args),
                _ => self.execute_on_key(name, args),
            },
        }
    }

    fn execute_on_key(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("PING", _) => Ok(Reply::Status("PONG")),
            ("CLIENT", _) => Ok(Reply::OK),
            ("TIME", []) => {
                let texts = [self.now / 1_000, self.now % 1_000 * 1_000].map(|part| part.to_string());
                Ok(Reply::texts(texts.map(String::into_bytes)))
            }
            ("GET", [key]) => Ok(Reply::text(known!(self, key, Text))),
            ("SET", [key, value, options @ ..]) => self.set(key, value, options),
            ("EXISTS", [key]) => Ok(Reply::count(usize::from(self.entries.contains_key(key)))),
            ("DEL" | "UNLINK", [_, ..]) => {
                Ok(Reply::count(args.iter().filter(|key| self.entries.remove(*key).is_some()).count()))
            }
            ("PEXPIRE", [key, millis]) => {
                let at = self.now.saturating_add(number(millis)?);
                Ok(self.expire(key, at))
            }
            ("PEXPIREAT", [key, at]) => {
                let at = number(at)?;
                Ok(self.expire(key, at))
            }
            ("PTTL", [key]) => Ok(Reply::Integer(self.remaining(key))),
            _ => Err(unknown(name)),
        }
    }

    fn execute_on_hash(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("HGET", [key, field]) => {
                Ok(Reply::text(known!(self, key, Hash).and_then(|hash| hash.get(field))))
            }
            ("HMGET", [key, fields @ ..]) => {
                let hash = known!(self, key, Hash);
                let value = |field: &Text| Reply::text(hash.and_then(|hash| hash.get(field)));
                Ok(Reply::List(fields.iter().map(value).collect()))
            }
            ("HSET", [key, pairs @ ..]) => {
                let (pairs, []) = pairs.as_chunks::<2>() else { return Err(wrong_number()) };
                let hash = value!(self, key, Hash, BTreeMap::new());
                let added = |[field, value]: &&[Text; 2]| hash.insert(field.clone(), value.clone()).is_none();
                Ok(Reply::count(pairs.iter().filter(added).count()))
            }
            _ => Err(unknown(name)),
        }
    }

    fn execute_on_list(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("RPUSH", [key, texts @ ..]) => {
                let list = value!(self, key, List, Vec::new());
                list.extend(texts.iter().cloned());
                Ok(Reply::count(list.len()))
            }
            ("LLEN", [key]) => Ok(Reply::count(known!(self, key, List).map_or(0, Vec::len))),
            ("LPOS", [key, text, rank, from]) if rank == b"RANK" && from == b"-1" => {
                let found = known!(self, key, List).and_then(|list| list.iter().rposition(|one| one == text));
                Ok(found.map_or(Reply::Nil, Reply::count))
            }
            ("LRANGE", [key, from, to]) => {
                let (from, to) = (place(from)?, place(to)?);
                let list = known!(self, key, List).into_iter().flatten().cloned();
                Ok(Reply::texts(list.skip(from).take((to + 1).saturating_sub(from))))
            }
            _ => Err(unknown(name)),
        }
    }

    fn execute_on_set(&mut self, name: &str, args: &[Text]) -> Result<Reply, Refusal> {
        match (name, args) {
            ("SADD", [key, members @ ..]) => {
                let set = value!(self, key, Set, BTreeSet::new());
                Ok(Reply::count(members.iter().filter(|member| set.insert((*member).clone())).count()))
            }
            ("SREM", [key, members @ ..]) => {
                let set = value!(self, key, Set, BTreeSet::new());
                let removed = members.iter().filter(|member| set.remove(*member)).count();
                self.remove_empty(key);
                Ok(Reply::count(removed))
            }
            ("SMEMBERS", [key]) => Ok(Reply::texts(known!(self, key, Set).into_iter().flatten().cloned())),
            _ => Err(unknown(name)),
        }
    }

    fn remove_expired(&mut self) {
        if self.now < self.next_expiry {
            return;
        }
        let now = self.now;
        self.entries.retain(|_, entry| entry.expires_at.is_none_or(|at| at > now));
        let next = self.entries.values().filter_map(|entry| entry.expires_at).min();
        self.next_expiry = next.unwrap_or(i64::MAX);
    }

    fn remove_empty(&mut self, key: &Text) {
        let is_empty = |entry: &Entry| match &entry.value {
            Value::Set(set) => set.is_empty(),
            Value::Sorted(sorted) => sorted.is_empty(),
            Value::Text(_) | Value::Hash(_) | Value::List(_) | Value::Stream { .. } => false,
        };
        if self.entries.get(key).is_some_and(is_empty) {
            self.entries.remove(key);
        }
    }

    fn set(&mut self, key: &Text, value: &Text, options: &[Text]) -> Result<Reply, Refusal> {
        let expires_at = match options {
            [] => None,
            [unit, time] if unit == b"PX" => Some(self.now.saturating_add(number(time)?)),
            [unit, time] if unit == b"PXAT" => Some(number(time)?),
            _ => return Err(syntax()),
        };
        self.entries.insert(key.clone(), Entry { value: Value::Text(value.clone()), expires_at });
        self.next_expiry = self.next_expiry.min(expires_at.unwrap_or(i64::MAX));
        Ok(Reply::OK)
    }

    fn expire(&mut self, key: &Text, at: i64) -> Reply {
        let Some(entry) = self.entries.get_mut(key) else { return Reply::Integer(0) };
        entry.expires_at = Some(at);
        self.next_expiry = self.next_expiry.min(at);
        Reply::Integer(1)
    }

    fn remaining(&self, key: &Text) -> i64 {
        match self.entries.get(key) {
            Some(Entry { expires_at: Some(at), .. }) => at - self.now,
            Some(_) => -1,
            None => -2,
        }
    }

    /// Returns all keys.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.entries.keys()
    }

    /// Returns a field of a hash as text.
    pub fn field(&self, key: &[u8], field: &[u8]) -> Option<String> {
        match &self.entries.get(key)?.value {
            Value::Hash(hash) => hash.get(field).map(|value| text(value)),
            _ => None,
        }
    }
}

/// Reads a text: all texts that the store interprets are ASCII.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(bytes: &[u8]) -> Result<i64, Refusal> {
    text(bytes).parse().map_err(|_| "ERR value is not an integer or out of range".to_owned())
}

/// Reads an index or a count. -1, the last index, is the largest one.
fn place(bytes: &[u8]) -> Result<usize, Refusal> {
    Ok(usize::try_from(number(bytes)?).unwrap_or(usize::MAX - 1))
}

/// Reads `<epoch>-<number>`.
pub fn entry_id(bytes: &[u8]) -> Option<EntryId> {
    let id = text(bytes);
    let (epoch, number) = id.split_once('-')?;
    Some((epoch.parse().ok()?, number.parse().ok()?))
}

//! A table of a script: its keys checked, its values as their keys want them.

use std::time::Duration;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::config::{self, Setting};
use crate::source::script::keys::{FILE_KEYS, Holds, Key, MATCH_KEYS, STEP_KEYS};
use crate::source::script::model::Words;

/// A table of the file: its path, its keys, and what they hold.
pub(super) struct Table<'r, 't, 'f> {
    pub(super) reader: &'r mut Reader<'f>,
    pub(super) path: String,
    pub(super) written: &'t Spanned<DeTable<'t>>,
}

impl<'r, 't, 'f> Table<'r, 't, 'f> {
    pub(super) fn new(
        reader: &'r mut Reader<'f>,
        path: String,
        table: &'t Spanned<DeTable<'t>>,
        keys: &'static [Key],
    ) -> Self {
        let this = Self { reader, path, written: table };
        for (name, _) in table.get_ref() {
            if !keys.iter().any(|key| key.name == name.get_ref().as_ref()) {
                let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
                let what = format!("no such key; expected one of {}", known.join(", "));
                this.reader.fail(name.span(), this.key(name.get_ref()), what);
            }
        }
        this
    }

    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.written.get_ref().get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn wrong(&mut self, name: &str, expected: &str) {
        let Some(value) = self.get(name) else { return };
        let what = format!("expected {expected}, found {}", config::found(value.get_ref()));
        self.reader.fail(value.span(), self.key(name), what);
    }

    /// A value as its key wants it.
    pub(super) fn plain(&mut self, name: &str) -> Option<Setting> {
        let value = self.get(name)?;
        let key = STEP_KEYS.iter().chain(FILE_KEYS).chain(MATCH_KEYS).find(|key| key.name == name)?;
        let Holds::Plain(kind) = key.holds else { return None };
        match config::read_value(kind, value.get_ref()) {
            Ok(value) => Some(value),
            Err(what) => {
                self.reader.fail(value.span(), self.key(name), what);
                None
            }
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let DeValue::String(text) = self.get(name)?.get_ref() else {
            self.wrong(name, "text");
            return None;
        };
        Some(text.to_string())
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.plain(name)? {
            Setting::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Option<u64> {
        match self.plain(name)? {
            Setting::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn duration(&mut self, name: &str) -> Option<Duration> {
        match self.plain(name)? {
            Setting::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    pub(super) fn word(&mut self, name: &str) -> Option<String> {
        match self.plain(name)? {
            Setting::Text(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        match self.plain(name)? {
            Setting::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(super) fn value(&mut self, name: &str) -> Option<Value> {
        self.get(name).map(|value| json(value.get_ref()))
    }

    pub(super) fn words(&mut self, name: &str) -> Option<Words> {
        match self.get(name)?.get_ref() {
            DeValue::String(text) => Some(Words::Flow(text.to_string())),
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                });
                let chunks = texts.collect::<Option<Vec<String>>>();
                if chunks.is_none() {
                    self.wrong(name, &Holds::Words.expected());
                }
                chunks.map(Words::Chunks)
            }
            _ => {
                self.wrong(name, &Holds::Words.expected());
                None
            }
        }
    }

    pub(super) fn table<T>(
        &mut self,
        name: &str,
        keys: &'static [Key],
        read: impl FnOnce(&mut Table<'_, '_, 'f>) -> T,
    ) -> Option<T> {
        let value = self.get(name)?;
        let DeValue::Table(inner) = value.get_ref() else {
            self.wrong(name, "a table");
            return None;
        };
        let path = self.key(name);
        let inner = Spanned::new(value.span(), inner.clone());
        Some(read(&mut Table::new(self.reader, path, &inner, keys)))
    }

    pub(super) fn tables(&mut self, name: &str) -> Vec<Spanned<DeTable<'t>>> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let mut tables = Vec::new();
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                self.wrong(name, &format!("tables: `[[{}]]`", self.key(name)));
                return Vec::new();
            };
            tables.push(Spanned::new(item.span(), table.clone()));
        }
        tables
    }
}

/// A TOML value as JSON; a date is its text.
fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect(),
        ),
    }
}

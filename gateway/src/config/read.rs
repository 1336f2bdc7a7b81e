//! The file and the environment as one flat list of settings, each with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::keys::{self, Key, Kind};
use super::value::{self, Value, Written};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// All that is set.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) values: BTreeMap<String, Setting>,
    /// Where each agent first stands.
    pub(crate) agents: BTreeMap<String, Place>,
    pub(crate) errors: Vec<ConfigError>,
}

/// Names are part of addresses (`/agents/{name}`), so they need no escaping there.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(allowed)
}

impl Settings {
    /// Takes the text of a file.
    pub(crate) fn read_file(&mut self, path: &Path, text: &str) {
        let file = TomlFile::new(path, text);
        match DeTable::parse(text) {
            Ok(table) => self.read_table("", table.get_ref(), &file),
            Err(error) => {
                let place = file.place(error.span().unwrap_or_default());
                let what = format!("not TOML: {}", error.message());
                self.errors.push(ConfigError { place, key: String::new(), what });
            }
        }
    }

    /// Takes the environment: `AQUEDUCT_LOG__LEVEL` is `log.level`. What is not below a section is somebody else's.
    pub(crate) fn read_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, text) in variables {
            let Some(path) = name.strip_prefix("AQUEDUCT_").and_then(|rest| self.path_of(rest)) else {
                continue;
            };
            let place = Place::Environment(name);
            match keys::find(&path) {
                Some(key) => self.set(path, key, &value::from_environment(key.kind, &text), place),
                None => self.unknown(path, place),
            }
        }
    }

    fn path_of(&self, variable: &str) -> Option<String> {
        let mut segments = variable.split("__").map(str::to_ascii_lowercase);
        let section = segments.next()?;
        let mut rest: Vec<String> = segments.collect();
        if rest.is_empty() || !keys::members("").contains(&section.as_str()) {
            return None;
        }
        if section == "agents"
            && let Some(name) = rest.first_mut()
            && let Some(known) =
                self.agents.keys().find(|known| known.to_ascii_lowercase().replace('-', "_") == *name)
        {
            name.clone_from(known);
        }
        rest.insert(0, section);
        Some(rest.join("."))
    }

    fn read_table(&mut self, path: &str, table: &DeTable<'_>, file: &TomlFile<'_>) {
        for (name, value) in table {
            let name_text = name.get_ref();
            let place = file.place(name.span());
            let full = if path.is_empty() { name_text.to_string() } else { format!("{path}.{name_text}") };
            if path == "agents" && !is_name(name_text) {
                let what = "an agent's name has letters, digits, `-` and `_`, at most 64 of them".to_owned();
                self.errors.push(ConfigError { place, key: full, what });
                continue;
            }
            if path == "agents" {
                self.agents.entry(name_text.to_string()).or_insert_with(|| place.clone());
            }
            match (keys::find(&full), value.get_ref()) {
                (Some(key), written) => {
                    self.set(full, key, &write(written), file.place(value.span()));
                }
                (None, DeValue::Table(inner)) if keys::is_table(&full) => {
                    self.read_table(&full, inner, file);
                }
                (None, other) if keys::is_table(&full) => {
                    let what = format!("expected a table, found {}", found(other));
                    self.errors.push(ConfigError { place, key: full, what });
                }
                (None, _) => self.unknown(full, place),
            }
        }
    }

    fn set(&mut self, path: String, key: &Key, written: &Written, place: Place) {
        if let Some(name) = path.strip_prefix("agents.").and_then(|rest| rest.split('.').next()) {
            self.agents.entry(name.to_owned()).or_insert_with(|| place.clone());
        }
        match value::read(key.kind, written) {
            Ok(value) => drop(self.values.insert(path, Setting { value, place })),
            Err(what) => self.errors.push(ConfigError { place, key: path, what }),
        }
    }

    fn unknown(&mut self, path: String, place: Place) {
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let known = keys::members(table);
        let what = match known.as_slice() {
            [] => "no such key".to_owned(),
            names => format!("no such key; expected one of {}", names.join(", ")),
        };
        self.errors.push(ConfigError { place, key: path, what });
    }
}

/// The text of a TOML file, for the places of what stands in it.
pub(crate) struct TomlFile<'t> {
    path: PathBuf,
    text: &'t str,
}

impl<'t> TomlFile<'t> {
    pub(crate) fn new(path: &Path, text: &'t str) -> Self {
        Self { path: path.to_owned(), text }
    }

    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Place::File { path: self.path.clone(), line, column }
    }
}

/// A value as a key of that kind wants it; the error says what was expected and what was found.
pub(crate) fn read_value(kind: Kind, value: &DeValue<'_>) -> Result<Value, String> {
    value::read(kind, &write(value))
}

fn write(value: &DeValue<'_>) -> Written {
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Boolean(flag) => Written::Flag(*flag),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Written::Other("a number that is too large"), Written::Number),
        DeValue::Array(items) => Written::List(items.iter().map(Spanned::get_ref).map(write).collect()),
        other => Written::Other(found(other)),
    }
}

/// What a value is, in words.
pub(crate) fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

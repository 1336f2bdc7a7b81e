//! `aqueduct config print`: the effective configuration, from the file, the environment and the defaults.
//!
//! The output contains no secret: keys hold names of secrets (`env:NAME`), which this module does not resolve. Defaults
//! are written as comments, so the output is a configuration with the same meaning.

use std::fmt::Write as _;

use toml::de::DeValue;

use super::document::At;
use super::keys::Key;

/// Returns a configuration as TOML, with all defaults.
///
/// ```text
/// [server]
/// listen = ["127.0.0.1:9000"]
/// # body = "1MiB"
/// ```
pub(super) fn effective(root: &At<'_>, keys: &[Key]) -> String {
    let mut text = String::new();
    for key in keys {
        match (key.members.first(), root.member(key.name)) {
            (Some(named), Some(tables)) if named.name == "*" => {
                for (name, table) in tables.members().unwrap_or_default() {
                    section(&mut text, &format!("{}.{name}", key.name), Some(&table), &named.members);
                }
            }
            (Some(named), None) if named.name == "*" => {}
            (_, table) => section(&mut text, key.name, table.as_ref(), &key.members),
        }
    }
    text
}

/// Writes a table: its values, then its tables.
fn section(text: &mut String, path: &str, table: Option<&At<'_>>, keys: &[Key]) {
    // Writing to a `String` cannot fail.
    let gap = if text.is_empty() { "" } else { "\n" };
    // A table that is absent from the document is written as a comment, like defaults.
    let mark = if table.is_some() { "" } else { "# " };
    writeln!(text, "{gap}{mark}[{path}]").ok();
    for key in keys.iter().filter(|key| key.members.is_empty()) {
        match table.and_then(|table| table.member(key.name)) {
            Some(value) => writeln!(text, "{} = {}", key.name, given(&value, key)).ok(),
            None if key.default.is_empty() => None,
            None => writeln!(text, "# {} = {}", key.name, literal(key.default, key)).ok(),
        };
    }
    for key in keys.iter().filter(|key| !key.members.is_empty()) {
        let member = table.and_then(|table| table.member(key.name));
        if member.is_some() || !key.is_optional {
            section(text, &format!("{path}.{}", key.name), member.as_ref(), &key.members);
        }
    }
}

/// Returns a configured value as TOML. The text of a variable is written in the type of its key.
fn given(value: &At<'_>, key: &Key) -> String {
    match value.loose_text() {
        Some(text) => literal(text, key),
        None => written(value.value()),
    }
}

/// Returns a default, or the text of a variable, as TOML.
fn literal(text: &str, key: &Key) -> String {
    let is_plain =
        ["`true` or `false`", "a whole number", "a number"].iter().any(|kind| key.expected.starts_with(kind));
    if is_plain || text.starts_with('[') {
        return text.to_owned();
    }
    if key.expected.starts_with("a list of") {
        let items: Vec<String> = text.split(',').map(|item| quoted(item.trim())).collect();
        return format!("[{}]", items.join(", "));
    }
    quoted(text)
}

/// Quotes a text as JSON does, which is valid TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a value of the file as TOML on one line: equal in meaning, not in its spelling.
fn written(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| written(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            let members: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", quoted(key.get_ref()), written(value.get_ref())))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

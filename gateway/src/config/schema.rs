//! `aqueduct config schema`: a JSON Schema of the configuration for editors, derived from the tables of keys.
//!
//! The schema describes single values and tables. What involves several keys (`check`) is not part of it, so a file
//! that the schema accepts may still be refused. The type of a value is derived from the description of its kind, which
//! is also its documentation: a kind with a new description is a string here until [`of_kind`] knows it.

use serde_json::{Map, Value, json};

use super::keys::Key;

/// Returns the schema of a document with these keys.
pub(super) fn schema(keys: &[Key]) -> Value {
    let mut schema = table(keys);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        schema.insert("title".to_owned(), "aqueduct.toml".into());
    }
    schema
}

/// Returns the schema of a table. Unknown keys are invalid; the key `*` stands for tables by name.
fn table(keys: &[Key]) -> Value {
    if let [named] = keys
        && named.name == "*"
    {
        let names = json!({ "pattern": "^[A-Za-z0-9_-]{1,64}$" });
        return json!({
            "type": "object", "propertyNames": names, "additionalProperties": table(&named.members),
        });
    }
    let members: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), of_key(key))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": members })
}

/// Returns the schema of one key, with its documentation and its default as the file would contain it.
fn of_key(key: &Key) -> Value {
    let mut schema = if key.members.is_empty() { of_kind(&key.expected) } else { table(&key.members) };
    if let Some(schema) = schema.as_object_mut() {
        if !key.about.is_empty() {
            schema.insert("description".to_owned(), key.about.clone().into());
        }
        if !key.default.is_empty() {
            let default = default_of(key.default, schema);
            schema.insert("default".to_owned(), default);
        }
    }
    schema
}

/// Returns a default as a value of the type that `schema` describes: `true`, `5` and `[]` are text for keys of text
/// alone.
fn default_of(default: &str, schema: &Map<String, Value>) -> Value {
    let is_text = schema.get("type").is_none_or(|kind| kind == "string");
    let value = if is_text { None } else { serde_json::from_str(default).ok() };
    value.unwrap_or_else(|| default.into())
}

/// Returns the schema of a value, derived from the description of its kind.
///
/// ```text
/// "one of `text`, `json`"                 ──►  {"enum":["text","json"]}
/// "a list of addresses (`127.0.0.1:80`)"  ──►  {"type":"array","items":{"type":"string"}}
/// "a duration (`500ms`, …)"               ──►  {"type":"string","pattern":"^[0-9]+ *(ms|s|m|h)$"}
/// ```
fn of_kind(expected: &str) -> Value {
    if let Some(words) = expected.strip_prefix("one of ") {
        return json!({ "enum": quoted(words) });
    }
    if let Some(item) = expected.strip_prefix("a list of ") {
        let items =
            if item.starts_with('`') { json!({ "enum": quoted(item) }) } else { json!({ "type": "string" }) };
        return json!({ "type": "array", "items": items });
    }
    match expected {
        "`true` or `false`" => json!({ "type": "boolean" }),
        "a whole number from 1" => json!({ "type": "integer", "minimum": 1 }),
        "a whole number" => json!({ "type": "integer", "minimum": 0 }),
        "a number from 0 to 1" => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        kind if kind.starts_with("a duration") => {
            json!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h)$" })
        }
        kind if kind.starts_with("a size") => {
            json!({ "type": ["string", "integer"], "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)?$", "minimum": 1 })
        }
        kind if kind.starts_with("a URL") => json!({ "type": "string", "pattern": "^https?://" }),
        kind if kind.starts_with("a secret") => json!({ "type": "string", "pattern": "^(env|file):." }),
        kind if kind.starts_with("a number") => json!({ "type": ["number", "string"] }),
        _ => json!({ "type": "string" }),
    }
}

/// Returns the words between backquotes.
fn quoted(words: &str) -> Vec<&str> {
    words.split('`').skip(1).step_by(2).collect()
}

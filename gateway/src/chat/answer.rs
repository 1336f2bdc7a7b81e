//! Parses replies to interrupts: a line of text, JSON, or one line per field of an object, as the schema of the
//! interrupt requires.
//!
//! | schema | a line |
//! |---|---|
//! | none, `string` | the words |
//! | `boolean` | `yes`, `no`, `true`, `false` |
//! | `number`, `integer` | the number, within its bounds |
//! | `enum` | one of the values, or its number in the list |
//! | `object` with `properties` | JSON, or an empty line: then each member is prompted for in turn |
//! | anything else | JSON |
//!
//! The reply is checked here, so that a typing error is corrected at once instead of failing the next run. Only
//! the keywords above and `minimum`, `maximum`, `minLength`, `maxLength` and `required` are checked; the agent
//! checks the rest.

use serde_json::{Map, Value};

/// A value that is read from a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// The member of the object that the value belongs to; empty for the whole reply.
    pub(super) name: String,
    /// The JSON Schema of the value; `null` if the interrupt has none.
    schema: Value,
    /// Set for the whole reply and for members that the schema requires: an empty line is not accepted as
    /// absence.
    is_required: bool,
}

impl Field {
    /// Returns the field of a whole reply. Without a schema any text is a reply.
    pub(super) fn answer(schema: Option<&Value>) -> Self {
        Self { name: String::new(), schema: schema.cloned().unwrap_or(Value::Null), is_required: true }
    }

    /// Returns the members to prompt for; none if the schema is not an object with properties.
    pub(super) fn members(&self) -> Vec<Self> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let is_object = self.kind() == "object";
        let own = properties.filter(|_| is_object).into_iter().flatten().map(|(name, schema)| Self {
            name: name.clone(),
            schema: schema.clone(),
            is_required: required.is_some_and(|names| names.iter().any(|wanted| wanted == name)),
        });
        own.collect()
    }

    /// Returns the type of the schema. A schema with `properties` and no `type` is an object; empty if unknown.
    fn kind(&self) -> &str {
        let kind = self.schema.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind.is_empty() && self.schema.get("properties").is_some() { "object" } else { kind }
    }

    /// Returns the values of a non-empty `enum`.
    fn choices(&self) -> Option<&Vec<Value>> {
        self.schema.get("enum").and_then(Value::as_array).filter(|choices| !choices.is_empty())
    }

    /// Returns a hint about what to type, empty if any text fits:
    ///
    /// ```text
    /// Format (1 A4, 2 A5)
    /// copies (a whole number from 1; optional)
    /// ```
    pub(super) fn hint(&self) -> String {
        let title = self.schema.get("title").and_then(Value::as_str).unwrap_or(&self.name);
        let wanted = match (self.choices(), self.kind()) {
            (Some(choices), _) => {
                let list = choices
                    .iter()
                    .enumerate()
                    .map(|(index, choice)| format!("{} {}", index + 1, plain(choice)));
                list.collect::<Vec<_>>().join(", ")
            }
            (_, "boolean") => "yes or no".to_owned(),
            (_, "integer") => format!("a whole number{}", self.bounds()),
            (_, "number") => format!("a number{}", self.bounds()),
            (_, "object") if !self.members().is_empty() => {
                "JSON, or nothing to be asked one by one".to_owned()
            }
            (_, "object" | "array") => "JSON".to_owned(),
            _ => String::new(),
        };
        let optional = if self.is_required { "" } else { "optional" };
        let about: Vec<&str> =
            [wanted.as_str(), optional].into_iter().filter(|words| !words.is_empty()).collect();
        match (title.is_empty(), about.is_empty()) {
            (_, true) => title.to_owned(),
            (true, false) => format!("({})", about.join("; ")),
            (false, false) => format!("{title} ({})", about.join("; ")),
        }
    }

    /// Returns the bounds of a number as words, with a space before them.
    fn bounds(&self) -> String {
        let bound = |name: &str| self.schema.get(name).and_then(Value::as_f64);
        match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" from {least}"),
            (None, Some(most)) => format!(" up to {most}"),
            (None, None) => String::new(),
        }
    }

    /// Parses a line. Returns `Ok(None)` for an optional member that is left empty.
    ///
    /// # Errors
    ///
    /// Returns a message with the expected input.
    pub(super) fn read(&self, line: &str) -> Result<Option<Value>, String> {
        let line = line.trim();
        if line.is_empty() && !self.is_required {
            return Ok(None);
        }
        let value = self.value(line)?;
        self.check(&value).map(|()| Some(value))
    }

    /// Converts a line into a value of the type. A choice is found by its text first, then by its number, so
    /// that the choice `2` of a list of numbers is the value 2.
    fn value(&self, line: &str) -> Result<Value, String> {
        if let Some(choices) = self.choices() {
            let by_number = line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
            let by_name = choices.iter().find(|choice| plain(choice).eq_ignore_ascii_case(line));
            return by_name.or(by_number).cloned().ok_or_else(|| format!("choose one of: {}", self.hint()));
        }
        match self.kind() {
            "boolean" => match line.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(Value::Bool(true)),
                "no" | "n" | "false" => Ok(Value::Bool(false)),
                _ => Err("type yes or no".to_owned()),
            },
            "number" | "integer" => serde_json::from_str::<Value>(line)
                .ok()
                .filter(|value| {
                    if self.kind() == "integer" {
                        value.is_i64() || value.is_u64()
                    } else {
                        value.is_number()
                    }
                })
                .ok_or_else(|| format!("type {}", self.hint())),
            "object" | "array" => {
                serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}"))
            }
            _ => Ok(Value::from(line)),
        }
    }

    /// Checks a value against the bounds of the schema, and the members of an object recursively.
    fn check(&self, value: &Value) -> Result<(), String> {
        if let Some(number) = value.as_f64() {
            let within = |name: &str, fits: fn(f64, f64) -> bool| {
                self.schema.get(name).and_then(Value::as_f64).is_none_or(|bound| fits(number, bound))
            };
            if !within("minimum", |n, least| n >= least) || !within("maximum", |n, most| n <= most) {
                return Err(format!("must be {}", self.hint()));
            }
        }
        if let Some(text) = value.as_str() {
            let length = text.chars().count() as u64;
            let bound = |name: &str| self.schema.get(name).and_then(Value::as_u64);
            if let Some(least) = bound("minLength").filter(|least| length < *least) {
                return Err(format!("must have at least {least} characters"));
            }
            if let Some(most) = bound("maxLength").filter(|most| length > *most) {
                return Err(format!("must have at most {most} characters"));
            }
        }
        let fits = match self.kind() {
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        if !fits {
            return Err(format!("must be JSON: {}", article(self.kind())));
        }
        value.as_object().map_or(Ok(()), |object| self.check_members(object))
    }

    /// Checks the members that the schema knows. Other members are passed on.
    fn check_members(&self, object: &Map<String, Value>) -> Result<(), String> {
        for member in self.members() {
            match object.get(&member.name) {
                None if member.is_required => return Err(format!("`{}` is required", member.name)),
                Some(value) => member.check(value).map_err(|what| format!("`{}` {what}", member.name))?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns the type with its article: `an object`.
fn article(kind: &str) -> String {
    format!("{} {kind}", if kind.starts_with(['a', 'o']) { "an" } else { "a" })
}

/// Returns a value as a person would type it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: &Value) -> Field {
        Field::answer(Some(schema))
    }

    #[test]
    fn a_line_is_read_as_the_schema_wants_it() {
        assert_eq!(Field::answer(None).read(" early "), Ok(Some(json!("early"))));
        assert_eq!(field(&json!({ "type": "boolean" })).read("Yes"), Ok(Some(json!(true))));
        assert_eq!(field(&json!({ "type": "integer" })).read("4"), Ok(Some(json!(4))));
        let choice = field(&json!({ "enum": ["A4", "A5"] }));
        assert_eq!((choice.read("2"), choice.read("a4")), (Ok(Some(json!("A5"))), Ok(Some(json!("A4")))));
        assert_eq!(field(&json!({ "type": "object" })).read("{\"a\":1}"), Ok(Some(json!({ "a": 1 }))));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (schema, line) in [
            (json!({ "type": "boolean" }), "perhaps"),
            (json!({ "type": "integer", "minimum": 1, "maximum": 9 }), "12"),
            (json!({ "type": "integer" }), "1.5"),
            (json!({ "enum": ["A4"] }), "2"),
            (json!({ "type": "string", "minLength": 2 }), "x"),
            (json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }), "{}"),
            (json!({ "type": "array" }), "{}"),
        ] {
            assert!(field(&schema).read(line).is_err(), "{schema} {line}");
        }
    }

    #[test]
    fn an_object_is_asked_member_by_member() {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "title": "Name" }, "copies": { "type": "integer", "minimum": 1 } } });
        let members = field(&schema).members();
        assert_eq!(
            members.iter().map(Field::hint).collect::<Vec<_>>(),
            ["Name", "copies (a whole number from 1; optional)"]
        );
        assert_eq!(members[1].read(""), Ok(None));
    }
}

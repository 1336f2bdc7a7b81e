//! Conversion of a user's text into the value that a schema requires.
//!
//! | schema of the reply | text | payload |
//! |---|---|---|
//! | none, reason `tool_call` or `confirmation` | `yes` | `{"approved":true}` |
//! | none, another reason | `tomorrow` | `"tomorrow"` |
//! | `{"type":"boolean"}` | `ok, but hurry` | `false`: not a clear yes |
//! | object with a boolean `approved` and a string `reason` | `no, too expensive` | `{"approved":false,"reason":"no, too expensive"}` |
//! | object with one string | `Berlin` | `{"city":"Berlin"}` |
//! | `{"enum":["Red","Blue"]}` | `red` | `"Red"` |
//! | `{"type":"number"}` | `3` | `3` |
//!
//! Invariant: only a text that is a clear yes approves. A text that is not understood declines,
//! because an approval may have effects that cannot be undone. The words are English; any other
//! language declines, with the text as reason where the schema has a member for one. Values are not
//! validated against the rest of the schema: the agent does that.

use aqueduct_core::Interrupt;
use serde_json::{Map, Value, json};

/// Names of a boolean member that approves, the most reliable first. The schemas of agent
/// frameworks do not agree on a name.
const APPROVALS: [&str; 8] =
    ["approved", "accepted", "confirmed", "approve", "accept", "confirm", "allowed", "proceed"];

/// Names of a member for the reason of a refusal.
const REASONS: [&str; 5] = ["reason", "message", "feedback", "comment", "explanation"];

/// Reasons of interrupts that ask for approval, even without a schema.
const ASKS_APPROVAL: [&str; 2] = ["tool_call", "confirmation"];

/// Words that approve, if no other word than these and [`FILLERS`] follows.
const YES: [&str; 20] = [
    "yes",
    "y",
    "yep",
    "yeah",
    "ok",
    "okay",
    "sure",
    "true",
    "approve",
    "approved",
    "accept",
    "accepted",
    "confirm",
    "confirmed",
    "allow",
    "allowed",
    "proceed",
    "continue",
    "agree",
    "go",
];

/// Words that decline, as the first word of a text. What follows is the reason.
const NO: [&str; 20] = [
    "no",
    "n",
    "nope",
    "false",
    "decline",
    "declined",
    "deny",
    "denied",
    "reject",
    "rejected",
    "refuse",
    "refused",
    "cancel",
    "cancelled",
    "stop",
    "abort",
    "never",
    "dont",
    "not",
    "disagree",
];

/// Words that do not change the meaning of a yes.
const FILLERS: [&str; 10] = ["please", "thanks", "thank", "you", "ahead", "it", "do", "that", "i", "this"];

/// Returns the part of the text for each interrupt, in the order of `open`.
///
/// ```text
/// open i1, i2    {"i1": true, "i2": "later"}   -> [true, "later"]        by id
///                ["yes", "no"]                 -> ["yes", "no"]          by order
///                yes⏎no                        -> ["yes", "no"]          by line
///                yes                           -> ["yes", "yes"]         the same for all
/// ```
///
/// An object that lacks an id, or a list of another length, is not split: guessing could approve
/// the wrong call.
pub(super) fn shares(text: &str, open: &[&Interrupt]) -> Vec<Value> {
    let same = || vec![Value::from(text); open.len()];
    if open.len() < 2 {
        return same();
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => {
            let by_id = open.iter().map(|interrupt| members.get(interrupt.id.as_str()).cloned());
            by_id.collect::<Option<_>>().unwrap_or_else(same)
        }
        Ok(Value::Array(items)) if items.len() == open.len() => items,
        _ => {
            let lines: Vec<Value> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from).collect();
            if lines.len() == open.len() { lines } else { same() }
        }
    }
}

/// Returns the payload for an interrupt. A part that is not text was JSON, and is kept unchanged.
pub(super) fn for_interrupt(interrupt: &Interrupt, share: Value) -> Value {
    let Value::String(text) = share else { return share };
    if let Some(schema) = &interrupt.response_schema {
        return for_schema(schema, &text).unwrap_or(Value::String(text));
    }
    if ASKS_APPROVAL.contains(&&*interrupt.reason) {
        return json_object(&text).unwrap_or_else(|| json!({ "approved": approves(&text) == Some(true) }));
    }
    Value::String(text)
}

/// Returns the value that a schema requires. Returns `None` if it requires the text, or if the text
/// cannot be converted; the caller then sends the text unchanged.
///
/// Checks in order: `enum`, object, boolean, number, array, then the alternatives of `anyOf` and
/// `oneOf`, of which the first that yields a value counts. The recursion is bounded by the depth of
/// the schema, which was parsed from JSON.
fn for_schema(schema: &Value, text: &str) -> Option<Value> {
    let alternatives = ["anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
    let wants = |kind: &str| match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    };
    // The value of the schema is returned, not the spelling of the user.
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let is_it = |word: &&Value| word.as_str().is_some_and(|word| word.eq_ignore_ascii_case(text));
        return words.iter().find(is_it).cloned();
    }
    if wants("object") || schema.get("properties").is_some() {
        return json_object(text).or_else(|| object(schema, text));
    }
    if wants("boolean") {
        return Some(Value::Bool(approves(text) == Some(true)));
    }
    if wants("integer") || wants("number") {
        return serde_json::from_str(text).ok().filter(Value::is_number);
    }
    if wants("array") {
        return serde_json::from_str(text).ok().filter(Value::is_array);
    }
    alternatives
        .filter(|alternative| alternative.is_object())
        .find_map(|alternative| for_schema(alternative, text))
}

/// Returns the object that a schema describes, from a text. Returns `None` if it has neither a
/// member that approves nor one string that the text can be.
fn object(schema: &Value, text: &str) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    let is_kind = |name: &str, kind: &str| {
        let of = properties.get(name).and_then(|property| property.get("type"));
        of.is_some_and(|of| {
            of == kind || of.as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind))
        })
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let mut out = Map::new();
    // All required booleans of this kind get the same decision: a schema may have `approved` and
    // `confirmed`.
    if let Some(first) = APPROVALS.into_iter().find(|name| is_kind(name, "boolean")) {
        let approved = approves(text);
        let also = APPROVALS.into_iter().filter(|name| is_kind(name, "boolean") && is_required(name));
        for name in std::iter::once(first).chain(also) {
            out.insert(name.to_owned(), Value::Bool(approved == Some(true)));
        }
        // A bare "no" has no reason to pass on.
        let says_more = approved.is_none() || approved == Some(false) && words(text).count() > 1;
        if let Some(name) = REASONS.into_iter().find(|name| is_kind(name, "string") && says_more) {
            out.insert(name.to_owned(), Value::from(text));
        }
        return Some(Value::Object(out));
    }
    // Without an approval the text is the first required string, or the only string.
    let texts: Vec<&String> = properties.keys().filter(|name| is_kind(name, "string")).collect();
    let wanted =
        texts.iter().find(|name| is_required(name)).or_else(|| texts.first().filter(|_| texts.len() == 1))?;
    out.insert((*wanted).clone(), Value::from(text));
    Some(Value::Object(out))
}

/// Returns the text as an object if it is the JSON of one, so that a reply in the form of the
/// schema is passed on unchanged.
fn json_object(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Returns the decision of a text that is a clear yes or no. Returns `None` for a conditional yes, which must not approve.
fn approves(text: &str) -> Option<bool> {
    let mut all = words(text);
    let first = all.next()?;
    if NO.contains(&&*first) {
        return Some(false);
    }
    let is_yes = |word: &str| YES.contains(&word);
    (is_yes(&first) && all.all(|word| is_yes(&word) || FILLERS.contains(&&*word))).then_some(true)
}

/// Returns the words in lower case, without punctuation.
fn words(text: &str) -> impl Iterator<Item = String> {
    let word = |word: &str| {
        word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    text.split_whitespace().map(word).filter(|word: &String| !word.is_empty())
}

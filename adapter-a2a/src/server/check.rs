//! Validates messages of clients, independent of the binding.
//!
//! An invalid message is not stored: other clients read it back as history and fail on it. All violations of a
//! message are reported at once, with their paths (`message.parts[2].metadata`).
//!
//! This module checks neither the encoding, which the readers of the bindings do, nor whether the ids exist, nor
//! what the agent does with the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::FieldViolation;
use super::config::TaskLimits;
use crate::wire::{Content, Message, Part, Raw, Role, Text};

/// Returns the violations of a message, member by member; none for a valid one.
///
/// Ids are bounded because every event of the task contains them. The role of the agent is accepted like that of
/// the user.
pub(super) fn message_violations(message: &Message<'_>, limits: &TaskLimits) -> Vec<FieldViolation> {
    let mut found = Vec::new();
    let mut complain = |key: &str, words: &str| found.push(violation(&format!("message.{key}"), words));
    let ids = [
        ("messageId", &message.message_id),
        ("contextId", &message.context_id),
        ("taskId", &message.task_id),
    ];
    for (key, id) in ids {
        if id.len() > limits.id_bytes {
            complain(key, &format!("must have at most {} bytes", limits.id_bytes));
        }
    }
    if message.message_id.is_empty() {
        complain("messageId", "must be set: choose an id of your own");
    }
    if matches!(message.role, Role::Unspecified | Role::Other(_)) {
        complain("role", "must be ROLE_USER (1.0) or user (0.3)");
    }
    if is_no_object(message.metadata.as_ref()) {
        complain("metadata", "must be an object");
    }
    if message.parts.is_empty() {
        complain("parts", "must hold at least one part");
    }
    for (index, part) in message.parts.iter().enumerate() {
        part_violations(&format!("message.parts[{index}]"), part, &mut found);
    }
    found
}

/// Appends the violations of one part: no content, bytes that are not standard base64 (the reader has converted
/// other forms), or metadata that are not an object.
fn part_violations(at: &str, part: &Part<'_>, found: &mut Vec<FieldViolation>) {
    match &part.content {
        Content::Unknown(_) => found.push(violation(at, "must hold text, raw, url or data")),
        Content::Bytes(bytes) if !is_base64(bytes) => {
            found.push(violation(at, "must hold its bytes as base64"));
        }
        _ => {}
    }
    if is_no_object(part.metadata.as_ref()) {
        found.push(violation(&format!("{at}.metadata"), "must be an object"));
    }
}

/// Returns a violation; `words` complete the sentence "`field` …".
fn violation(field: &str, words: &str) -> FieldViolation {
    FieldViolation { field: field.to_owned(), description: words.to_owned() }
}

/// Returns `true` if metadata are present and not an object.
fn is_no_object(raw: Option<&Raw<'_>>) -> bool {
    raw.is_some_and(|raw| !raw.is_object())
}

/// Returns `true` for standard base64 with padding. The whole text is decoded: a check of its letters would
/// accept wrong padding.
fn is_base64(bytes: &Text<'_>) -> bool {
    STANDARD.decode(bytes.as_bytes()).is_ok()
}

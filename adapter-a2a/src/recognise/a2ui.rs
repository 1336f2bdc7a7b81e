//! A2UI: user interfaces that agents describe in data parts, message by message or as a list of messages (versions 0.8,
//! 0.9 and 1.0).
//!
//! The messages of one surface belong together, so each surface is one progress card whose content grows. A part with
//! one of A2UI's media types is A2UI, whatever its messages are called.

use serde_json::Value;

use super::{Recogniser, Sign};
use crate::wire::{Content, Part};

/// The type of the cards that surfaces become.
const CARD: &str = "a2ui-surface";
/// The names of A2UI's messages, in all versions. Data with such a member is A2UI even without a media type.
const MESSAGES: [&str; 7] = [
    "beginRendering",
    "surfaceUpdate",
    "dataModelUpdate",
    "deleteSurface",
    "createSurface",
    "updateComponents",
    "updateDataModel",
];

/// The media types of 0.8 and 0.9, and of 1.0.
const MEDIA_TYPES: [&str; 2] = ["application/json+a2ui", "application/a2ui+json"];

/// Recognises A2UI messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct A2uiParts;

impl Recogniser for A2uiParts {
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        let is_named = is_a2ui(part);
        if !is_named && !MESSAGES.iter().any(|name| raw.as_str().contains(name)) {
            return None;
        }
        let card = |operation: Value| {
            let key = surface(&operation, is_named)?;
            Some(Sign::Card { kind: CARD, key, operation })
        };
        match raw.to_value() {
            Value::Array(operations) if !operations.is_empty() => {
                operations.into_iter().map(card).collect::<Option<_>>().map(Sign::Several)
            }
            operation => card(operation),
        }
    }
}

/// Returns `true` if the media type, of the part or in its metadata, is one of A2UI's.
fn is_a2ui(part: &Part<'_>) -> bool {
    let is_it = |kind: &str| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        MEDIA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(essence))
    };
    let beside = || {
        let metadata = part.metadata.as_ref()?.to_object()?;
        ["mimeType", "mediaType"].iter().find_map(|key| metadata.get(*key)?.as_str().map(is_it))
    };
    is_it(&part.media_type) || beside() == Some(true)
}

/// Returns the surface of a message: its `surfaceId`, or `default`. Returns `None` if it is not a message of A2UI; a
/// list with one such entry is then data as a whole.
fn surface(operation: &Value, is_named: bool) -> Option<String> {
    let members = operation.as_object()?;
    let is_message = |name: &String| is_named || MESSAGES.contains(&name.as_str());
    let body = members.iter().find(|(name, body)| is_message(name) && body.is_object())?.1;
    Some(body.get("surfaceId").and_then(Value::as_str).unwrap_or("default").to_owned())
}

//! A2UI: user interfaces that agents describe in data parts, message by message (versions 0.8 and 0.9).
//!
//! The messages of one surface belong together, so each surface is one progress card whose content grows.

use serde_json::Value;

use super::{Recogniser, Sign};
use crate::wire::{Content, Part};

/// Type of the card.
const CARD: &str = "a2ui-surface";
const MESSAGES: [&str; 7] = [
    "beginRendering",
    "surfaceUpdate",
    "dataModelUpdate",
    "deleteSurface",
    "createSurface",
    "updateComponents",
    "updateDataModel",
];

/// Reads A2UI messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct A2uiParts;

impl Recogniser for A2uiParts {
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        if !MESSAGES.iter().any(|name| raw.as_str().contains(name)) {
            return None;
        }
        let operation = raw.to_value();
        let body = MESSAGES.iter().find_map(|name| operation.get(name).filter(|body| body.is_object()))?;
        let surface = body.get("surfaceId").and_then(Value::as_str).unwrap_or("default").to_owned();
        Some(Sign::Card { kind: CARD, key: surface, operation })
    }
}

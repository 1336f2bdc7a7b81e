//! Custom content: files as file parts, everything else as data parts, one artifact each.
//!
//! ```text
//! aqueduct.file {"url": "https://x/y", "name": "y"}  ──►  part {"url": "https://x/y", "filename": "y"}
//! chart {"points": [1, 2]}                           ──►  part {"data": {"points": [1, 2]}}
//! scores [1, 2]                                      ──►  part {"data": {"value": [1, 2]}}, mark "wrapped": true
//! ```
//!
//! Content of the run log that no protocol shows, and the encrypted forms of messages and calls (`aqueduct.sealed`),
//! are not sent.

use aqueduct_core::event::CustomEvent;
use aqueduct_core::{BlockEvent, BlockEventConverter, wellknown};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::show::{Chunk, Piece, artifact, artifact_name, converter, owned, put_origin};
use crate::mark::{Mark, channel_name, kind};
use crate::wire::{Content, Part, StreamItem};

converter! {
    /// Converts custom content: one artifact per piece.
    CustomConverter
}

impl BlockEventConverter<StreamItem<'static>> for CustomConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let BlockEvent::Custom(custom) = event else { return };
        // No protocol shows content of the run log; encrypted forms are written by AG-UI alone.
        if wellknown::is_internal(&custom.name) || custom.name == wellknown::SEALED {
            return;
        }
        let mut mark = Mark::new(kind::CUSTOM).of_lane(&custom.lane);
        mark.put("name", &*custom.name);
        mark.put_set("channel", channel_name(custom.channel));
        put_origin(&mut mark, &custom.origin);
        let part = file(custom).unwrap_or_else(|| plain(&custom.value, &mut mark));
        // A card is emitted repeatedly under one id. Its changes are appended to a second artifact, because an
        // artifact with the card's id would replace the card.
        let id = match &*custom.name {
            wellknown::ACTIVITY_DELTA => format!("{}/changes", custom.id),
            _ => custom.id.as_str().to_owned(),
        };
        let chunk = if &*custom.name == wellknown::ACTIVITY_DELTA { Chunk::More } else { Chunk::Whole };
        out.push(artifact(
            &self.settings,
            Piece {
                id: &id,
                name: artifact_name(&custom.origin).unwrap_or(&custom.name),
                part,
                mark: Some(mark),
                chunk,
            },
        ));
    }
}

/// Returns a data part. 0.3 allows only objects, so any other value is wrapped in one, and the mark records it for
/// Aqueduct's own client.
fn plain(value: &Value, mark: &mut Mark) -> Part<'static> {
    if value.is_object() {
        return Part::data(value);
    }
    mark.put("wrapped", true);
    Part::data(&json!({ "value": value }))
}

/// Returns a file part, if one can represent the value without loss: only known members, all of them strings that are
/// not empty, either an address or bytes, and bytes in base64. Returns `None` otherwise; the value is then sent as
/// data.
fn file(custom: &CustomEvent) -> Option<Part<'static>> {
    if &*custom.name != wellknown::FILE {
        return None;
    }
    let file = custom.value.as_object()?;
    let known = ["url", "data", "mediaType", "name"];
    if !file
        .iter()
        .all(|(key, value)| known.contains(&key.as_str()) && value.as_str().is_some_and(|v| !v.is_empty()))
    {
        return None;
    }
    let text = |key: &str| file.get(key).and_then(Value::as_str);
    let content = match (text("url"), text("data")) {
        (Some(url), None) => Content::Url(owned(url)),
        (None, Some(bytes)) if STANDARD.decode(bytes).is_ok() => Content::Bytes(owned(bytes)),
        _ => return None,
    };
    let mut part = Part::new(content);
    part.media_type = owned(text("mediaType").unwrap_or_default());
    part.filename = owned(text("name").unwrap_or_default());
    Some(part)
}

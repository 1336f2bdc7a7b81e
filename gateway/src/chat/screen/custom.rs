//! What the screen shows of custom content and of results: one line each.
//!
//! | name | line |
//! |---|---|
//! | `wellknown::FILE` | `file NAME (MEDIA TYPE, SIZE)`; the content is not shown |
//! | `wellknown::NOTICE` | its text, dimmed |
//! | `wellknown::DATA` | `data JSON`, cut at `VALUE` characters |
//! | any other | nothing: it is meant for programs |

use aqueduct_core::wellknown;
use serde_json::Value;

use super::VALUE;
use crate::chat::style::{CYAN, DIM};

/// Returns a colour and a text for custom content that is meant for people, or `None` for content that is not.
///
/// Members that are missing or of another type are left out: the value comes from an agent.
pub(super) fn about(name: &str, value: &Value) -> Option<(&'static str, String)> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match name {
        wellknown::FILE => {
            let name = text("name").or_else(|| text("url")).unwrap_or("without a name");
            // The content is Base64: four characters for three bytes, padding counted.
            let size = text("data").map(|data| format!("{} bytes", data.len() * 3 / 4));
            let more: Vec<&str> = text("mediaType").into_iter().chain(size.as_deref()).collect();
            let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
            Some((CYAN, format!("file {}{}", printable(name), printable(&more))))
        }
        wellknown::NOTICE => Some((DIM, printable(text("text").unwrap_or_default()))),
        wellknown::DATA => {
            let json = value.to_string();
            let end = json.char_indices().nth(VALUE).map_or(json.len(), |(end, _)| end);
            let sign = if end < json.len() { "…" } else { "" };
            Some((CYAN, format!("data {}{sign}", printable(json.get(..end).unwrap_or_default()))))
        }
        _ => None,
    }
}

/// Removes control characters except line breaks and tabs: text of an agent must not control the terminal.
/// Escape sequences could move the cursor, change the title of the window or imitate a prompt.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

//! Restated messages in the form of the peer's dialect.
//!
//! Used for `MESSAGES_SNAPSHOT` events, and by `fold` for the messages of a thread. A client
//! replaces its messages by the list of a snapshot, so a message that cannot be expressed must not
//! be dropped from it: [`messages`] then returns `None`, and the block is shown as `CUSTOM`
//! instead.

use serde_json::Value;

use super::tool::is_modern;
use crate::config::Dialect;
use crate::wire::object::{At, FromWire as _};
use crate::wire::{Content, ContentPart, MediaPart, Message, PartSource, Strictness};

/// Returns the messages of a `MESSAGES` block. Returns `None` if the peer cannot read all of them.
/// Reading is lenient, because the list comes from a source of either dialect.
pub(super) fn messages(value: &Value, dialect: Dialect) -> Option<Vec<Message>> {
    let at = At::root("messages", Strictness::Forgiving);
    let messages: Vec<Message> = Vec::from_wire(value.clone(), &at).ok()?;
    messages.into_iter().map(|message| readable(message, dialect)).collect()
}

/// Returns the message in a form that a peer of this dialect can read. Returns `None` if it has no
/// such form: a message of an unknown role, or one with a part that the dialect does not have.
pub(crate) fn readable(mut message: Message, dialect: Dialect) -> Option<Message> {
    match &mut message {
        Message::Unknown(_) => return None,
        Message::User(user) => {
            if let Content::Parts(parts) = &mut user.content
                && !parts.iter().all(|part| is_readable(part, dialect))
            {
                return None;
            }
        }
        Message::Tool(tool) => tool.content = tool_content(&tool.content, dialect)?,
        _ => {}
    }
    Some(message)
}

/// Returns `true` if the dialect has the part: binary parts are of 0.0.59 alone, uploaded files of 1.0 alone.
fn is_readable(part: &ContentPart, dialect: Dialect) -> bool {
    let is_file = |part: &MediaPart| matches!(part.source, PartSource::File(_));
    match part {
        ContentPart::Binary(_) => dialect == Dialect::V0_0_59,
        ContentPart::Image(media)
        | ContentPart::Audio(media)
        | ContentPart::Video(media)
        | ContentPart::Document(media)
            if is_file(media) =>
        {
            dialect == Dialect::V1_0
        }
        part => is_modern(part),
    }
}

/// Returns the content of a tool message. Before 1.0 it is text only.
/// Parts become the JSON of the list for 0.0.59, as in `TOOL_CALL_RESULT`. Returns `None` for parts
/// that 1.0 does not define.
fn tool_content(content: &Content, dialect: Dialect) -> Option<Content> {
    match (content, dialect) {
        (Content::Text(_), _) => Some(content.clone()),
        (Content::Parts(parts), Dialect::V1_0) => parts.iter().all(is_modern).then(|| content.clone()),
        (Content::Parts(parts), Dialect::V0_0_59) => {
            serde_json::to_string(parts).ok().map(|text| Content::Text(text.into()))
        }
    }
}

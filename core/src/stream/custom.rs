//! Content without a kind of its own: progress of tools, progress cards, encrypted forms, and the source's custom content.
//!
//! Every such block is emitted as one event, without start and end.

use bytestring::ByteString;
use serde_json::{Value, json};

use super::lanes::LaneState;
use super::outlet::Outlet;
use super::tools::CallKey;
use super::{StreamContext, UNKNOWN_TOOL, text};
use crate::block::{Custom, ToolResult};
use crate::error::Error;
use crate::event::{BlockEvent, CustomEvent};
use crate::id::{BlockId, ToolCallId};
use crate::source::Source;
use crate::update::Update;
use crate::wellknown;

impl StreamContext {
    /// Emits a progress report of a tool as custom content, with the emitted id of its call.
    pub(super) fn emit_progress(
        &mut self,
        source: &Source,
        key: Option<&CallKey>,
        result: &ToolResult,
        text: &str,
        update: &Update,
    ) -> Result<(), Error> {
        let (_, state) = self.lanes.open(source, &mut self.out)?;
        let waiting = key.and_then(|key| state.tools.waiting(key));
        let id = waiting.as_ref().map(|(id, _)| id).or(result.id.as_ref()).map_or("", ToolCallId::as_str);
        let name = waiting.as_ref().map(|(_, name)| name).or(result.name.as_ref());
        let name = name.map_or(UNKNOWN_TOOL, |name| &**name);
        let value = json!({ "toolCallId": id, "toolName": name, "text": text });
        let custom = Custom { name: ByteString::from_static(wellknown::TOOL_PROGRESS), value };
        self.emit_custom_of(source, custom, update)
    }

    pub(super) fn emit_custom(&mut self, custom: Custom, update: &Update) -> Result<(), Error> {
        if custom.name == wellknown::SEALED {
            return self.emit_sealed(custom, update);
        }
        let source = update.source.clone();
        self.emit_custom_of(&source, custom, update)
    }

    /// Emits an encrypted form in the open lane of the message or call it belongs to, with the emitted id. If no such lane is
    /// open, the form is emitted unchanged as raw content.
    fn emit_sealed(&mut self, mut custom: Custom, update: &Update) -> Result<(), Error> {
        let id = custom.value.get("id").and_then(Value::as_str).unwrap_or_default();
        let source = if let Some((source, id)) = self.lanes.emitted_id(&update.source, id) {
            if let Some(members) = custom.value.as_object_mut() {
                members.insert("id".to_owned(), Value::String(id));
            }
            source
        } else {
            custom.name = ByteString::from_static(wellknown::RAW);
            custom.value = json!({ "event": custom.value });
            update.source.clone()
        };
        self.emit_custom_of(&source, custom, update)
    }

    /// Emits custom content in the lane of `source`.
    fn emit_custom_of(&mut self, source: &Source, custom: Custom, update: &Update) -> Result<(), Error> {
        let (lane, state) = self.lanes.open(source, &mut self.out)?;
        let id = custom_id(&custom.name, update, state, &mut self.out);
        let event = CustomEvent {
            id,
            lane,
            name: custom.name,
            value: custom.value,
            channel: update.channel,
            origin: text::origin(update),
        };
        self.out.emit(BlockEvent::Custom(Box::new(event)));
        Ok(())
    }
}

/// Returns the block id of custom content: a progress card keeps its id over all changes, other content gets a new one.
fn custom_id(name: &str, update: &Update, state: &mut LaneState, out: &mut Outlet) -> BlockId {
    let card = matches!(name, wellknown::ACTIVITY | wellknown::ACTIVITY_DELTA);
    let Some(message) = update.message_id.as_ref().filter(|_| card) else {
        return BlockId::new(out.mint());
    };
    if let Some(id) = state.activities.get(message) {
        return id.clone();
    }
    let id = out.block_id(Some(message));
    state.activities.insert(message.detached(), id.clone(), out.limits.remembered_blocks);
    id
}

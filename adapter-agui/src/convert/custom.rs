//! Custom blocks: well-known names become activities, restated messages and raw events; all others become `CUSTOM`.
//!
//! ```text
//! ACTIVITY {"type":"plan","content":{…}}                 -> ACTIVITY_SNAPSHOT
//! ACTIVITY_DELTA {"type":"plan","patch":[…]}             -> ACTIVITY_DELTA
//! MESSAGES […]                                           -> MESSAGES_SNAPSHOT, from the root lane only
//! SEALED {"subtype":"tool-call","id":"c","value":"…"}    -> REASONING_ENCRYPTED_VALUE
//! RAW {"event":{…},"source":"…"}                         -> RAW
//! any other name, or a value of another form             -> CUSTOM
//! ```
//!
//! Internal names (`wellknown::is_internal`) are for the log and the engine, and are never shown.

use aqueduct_core::event::CustomEvent;
use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString, Metadata, wellknown};
use serde_json::Value;

use super::history;
use super::show::{converter, origin_base};
use super::state::operations;
use crate::wire::{
    ActivityDelta, ActivitySnapshot, Custom, EncryptedSubtype, Event, MessagesSnapshot, Raw,
    ReasoningEncryptedValue,
};

converter! {
    /// `ACTIVITY_SNAPSHOT`, `ACTIVITY_DELTA`, `MESSAGES_SNAPSHOT`, `RAW`, `CUSTOM`. A well-known name with a value of another
    /// form becomes `CUSTOM`: a strict client would end the stream.
    CustomConverter
}

impl BlockEventConverter<Event> for CustomConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        let BlockEvent::Custom(custom) = event else { return };
        if self.settings.hides(&custom.lane) || wellknown::is_internal(&custom.name) {
            return;
        }
        let known = match &*custom.name {
            wellknown::ACTIVITY => self.activity(custom),
            wellknown::ACTIVITY_DELTA => self.activity_delta(custom),
            wellknown::MESSAGES => self.messages(custom),
            wellknown::SEALED => self.sealed(custom),
            wellknown::RAW => self.raw(custom),
            _ => None,
        };
        out.push(known.unwrap_or_else(|| self.plain(custom)));
    }
}

impl CustomConverter {
    /// Converts a progress card. Returns `None` if the value has another form, here and below.
    /// The id of the card is that of the block: later changes refer to it.
    fn activity(self, custom: &CustomEvent) -> Option<Event> {
        Some(Event::from(ActivitySnapshot {
            base: origin_base(&custom.origin),
            subagent_run_id: self.settings.tag(&custom.lane),
            message_id: custom.id.as_bytes().clone(),
            activity_type: text(&custom.value, "type")?,
            content: custom.value.get("content")?.as_object()?.clone(),
            replace: custom.value.get("replace").and_then(Value::as_bool),
        }))
    }

    /// Returns a change of a progress card, as a JSON Patch. Returns `None` if the value has not the form of one.
    fn activity_delta(self, custom: &CustomEvent) -> Option<Event> {
        Some(Event::ActivityDelta(ActivityDelta {
            base: origin_base(&custom.origin),
            subagent_run_id: self.settings.tag(&custom.lane),
            message_id: custom.id.as_bytes().clone(),
            activity_type: text(&custom.value, "type")?,
            patch: operations(custom.value.get("patch")?.as_array()?)?,
        }))
    }

    /// Converts restated messages of the root agent only: a client drops messages that are not in the list, and the history of
    /// a sub-agent is not that of the thread.
    fn messages(self, custom: &CustomEvent) -> Option<Event> {
        if !custom.lane.is_root() {
            return None;
        }
        let messages = history::messages(&custom.value, self.settings.dialect)?;
        Some(Event::MessagesSnapshot(MessagesSnapshot { base: origin_base(&custom.origin), messages }))
    }

    /// Returns the sealed form of a message or a call. Returns `None` for an unknown subtype.
    fn sealed(self, custom: &CustomEvent) -> Option<Event> {
        let subtype = match &*text(&custom.value, "subtype")? {
            "message" => EncryptedSubtype::Message,
            "tool-call" => EncryptedSubtype::ToolCall,
            _ => return None,
        };
        Some(Event::ReasoningEncryptedValue(ReasoningEncryptedValue {
            base: origin_base(&custom.origin),
            subagent_run_id: self.settings.tag(&custom.lane),
            subtype,
            entity_id: text(&custom.value, "id")?,
            encrypted_value: text(&custom.value, "value")?,
        }))
    }

    /// Returns a `RAW` event, which an agent behind this adapter sent as such.
    fn raw(self, custom: &CustomEvent) -> Option<Event> {
        let source = match custom.value.get("source") {
            None | Some(Value::Null) => None,
            Some(source) => Some(ByteString::from(source.as_str()?)),
        };
        Some(Event::Raw(Raw {
            base: origin_base(&custom.origin),
            event: custom.value.get("event")?.clone(),
            source,
            subagent_run_id: self.settings.tag(&custom.lane),
        }))
    }

    /// Returns a `CUSTOM` event: content without a form of its own in AG-UI.
    fn plain(self, custom: &CustomEvent) -> Event {
        Event::Custom(Custom {
            base: origin_base(&custom.origin),
            name: custom.name.clone(),
            value: custom.value.clone(),
            subagent_run_id: self.settings.tag(&custom.lane),
        })
    }
}

/// Returns a member of an object if it is a text.
fn text(value: &Value, name: &str) -> Option<ByteString> {
    let members: &Metadata = value.as_object()?;
    members.get(name)?.as_str().map(ByteString::from)
}

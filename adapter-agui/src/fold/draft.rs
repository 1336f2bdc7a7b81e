//! A message under construction. Texts are appended to; the finished message shares them.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::patch::{PatchLimits, patched};
use crate::error::Error;
use crate::wire::{
    ActivityMessage, ActivitySnapshot, AssistantMessage, Content, FunctionCall, InstructionMessage, Message,
    PatchOperation, ReasoningMessage, TextRole, ToolCall, ToolCallResult, ToolMessage, UserMessage,
};

/// A message with its text and the arguments of its calls so far.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    message: Message,
    text: String,
    /// The arguments of the message's `tool_calls`, in the same order.
    arguments: Vec<String>,
}

/// Returns an empty text message.
pub(super) fn text(role: TextRole, id: &ByteString, subagent_run_id: Option<ByteString>) -> Message {
    let id = id.clone();
    let instruction = |id, subagent_run_id| InstructionMessage { id, subagent_run_id, ..Default::default() };
    match role {
        TextRole::Assistant => {
            let content = Some(ByteString::new());
            Message::Assistant(AssistantMessage { id, content, subagent_run_id, ..Default::default() })
        }
        TextRole::User => Message::User(UserMessage { id, subagent_run_id, ..Default::default() }),
        TextRole::System => Message::System(instruction(id, subagent_run_id)),
        TextRole::Developer => Message::Developer(instruction(id, subagent_run_id)),
    }
}

/// Returns a message with calls only: its text is absent, which differs from an empty one.
pub(super) fn carrier(id: &ByteString, subagent_run_id: Option<ByteString>) -> Message {
    Message::Assistant(AssistantMessage { id: id.clone(), subagent_run_id, ..Default::default() })
}

/// Returns an empty reasoning message.
pub(super) fn reasoning(id: &ByteString, subagent_run_id: Option<ByteString>) -> Message {
    Message::Reasoning(ReasoningMessage { id: id.clone(), subagent_run_id, ..Default::default() })
}

/// Returns the message of a tool result.
pub(super) fn answer(result: &ToolCallResult) -> Message {
    Message::Tool(ToolMessage {
        id: result.message_id.clone(),
        content: result.content.clone(),
        tool_call_id: result.tool_call_id.clone(),
        metadata: result.base.metadata().cloned(),
        subagent_run_id: result.subagent_run_id.clone(),
        ..Default::default()
    })
}

/// Returns the message of a progress card.
pub(super) fn activity(card: &ActivitySnapshot) -> Message {
    Message::Activity(ActivityMessage {
        id: card.message_id.clone(),
        metadata: card.base.metadata().cloned(),
        subagent_run_id: card.subagent_run_id.clone(),
        activity_type: card.activity_type.clone(),
        content: card.content.clone(),
        extra: None,
    })
}

/// Merges metadata. A later value of a member replaces the earlier one.
pub(super) fn merge(into: &mut Option<Metadata>, more: Option<&Metadata>) {
    if let Some(more) = more {
        into.get_or_insert_default().extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

impl Draft {
    /// Returns a draft that continues a message, for example one of a snapshot: its text and arguments
    /// are copied once, so that later deltas can be appended.
    pub(super) fn new(message: Message) -> Self {
        let text = match &message {
            Message::Assistant(message) => message.content.as_deref().unwrap_or_default().to_owned(),
            Message::Developer(message) | Message::System(message) => message.content.to_string(),
            Message::Reasoning(message) => message.content.to_string(),
            Message::User(message) => plain(&message.content),
            _ => String::new(),
        };
        let arguments = message.tool_calls().iter().map(|call| call.function.arguments.to_string()).collect();
        Self { message, text, arguments }
    }

    /// Returns the id of the message.
    pub(super) fn id(&self) -> &str {
        self.message.id()
    }

    /// Returns the role of the message on the wire.
    pub(super) fn role(&self) -> &str {
        self.message.kind()
    }

    /// Returns `true` for a message that can have calls.
    pub(super) fn is_assistant(&self) -> bool {
        matches!(self.message, Message::Assistant(_))
    }

    /// Returns `true` for a tool result.
    pub(super) fn is_tool(&self) -> bool {
        matches!(self.message, Message::Tool(_))
    }

    /// Returns the calls of the message; their arguments are not filled in yet.
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.message.tool_calls().iter()
    }

    /// Returns the approximate size: the texts, and an estimate for the rest.
    /// The estimate is 128 bytes per message, for ids and metadata. Used to shorten a thread, not to
    /// limit memory exactly.
    pub(super) fn bytes(&self) -> usize {
        let held = match &self.message {
            Message::Tool(message) => plain(&message.content).len(),
            Message::Activity(card) => Value::Object(card.content.clone()).to_string().len(),
            _ => 0,
        };
        self.text.len() + self.arguments.iter().map(String::len).sum::<usize>() + held + 128
    }

    /// Appends to the text, which becomes the content of the message at the end.
    pub(super) fn append_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Sets the name of the author. Messages without a name of their own ignore it.
    pub(super) fn set_name(&mut self, name: Option<ByteString>) {
        match &mut self.message {
            Message::Assistant(message) => message.name = name,
            Message::User(message) => message.name = name,
            Message::Developer(message) | Message::System(message) => message.name = name,
            _ => {}
        }
    }

    /// Merges metadata of a later event into the message.
    pub(super) fn merge(&mut self, metadata: Option<&Metadata>) {
        match &mut self.message {
            Message::Assistant(message) => merge(&mut message.metadata, metadata),
            Message::User(message) => merge(&mut message.metadata, metadata),
            Message::Developer(message) | Message::System(message) => merge(&mut message.metadata, metadata),
            Message::Reasoning(message) => merge(&mut message.metadata, metadata),
            _ => {}
        }
    }

    /// Sets the sealed form of the message.
    pub(super) fn seal(&mut self, value: &ByteString) {
        let value = Some(value.clone());
        match &mut self.message {
            Message::Assistant(message) => message.encrypted_value = value,
            Message::Reasoning(message) => message.encrypted_value = value,
            Message::Tool(message) => message.encrypted_value = value,
            Message::User(message) => message.encrypted_value = value,
            Message::Developer(message) | Message::System(message) => message.encrypted_value = value,
            _ => {}
        }
    }

    /// Adds a call. A call that starts again is the same call.
    pub(super) fn call(&mut self, id: &ByteString, name: &ByteString, metadata: Option<&Metadata>) {
        let Message::Assistant(message) = &mut self.message else { return };
        let calls = message.tool_calls.get_or_insert_default();
        if let Some(call) = calls.iter_mut().find(|call| call.id == *id) {
            call.function.name = name.clone();
            return;
        }
        calls.push(ToolCall {
            id: id.clone(),
            function: FunctionCall { name: name.clone(), ..Default::default() },
            metadata: metadata.cloned(),
            ..Default::default()
        });
        self.arguments.push(String::new());
    }

    /// Returns a call and its arguments so far.
    pub(super) fn call_mut(&mut self, id: &str) -> Option<(&mut ToolCall, &mut String)> {
        let Message::Assistant(message) = &mut self.message else { return None };
        let calls = message.tool_calls.as_mut()?.iter_mut();
        calls.zip(&mut self.arguments).find(|(call, _)| call.id == id)
    }

    /// Applies a JSON Patch to a progress card.
    ///
    /// # Errors
    ///
    /// Returns an error if an operation fails, or the result is not an object; the card is unchanged then.
    pub(super) fn patch(&mut self, operations: &[PatchOperation]) -> Result<(), Error> {
        let Message::Activity(card) = &mut self.message else { return Ok(()) };
        let content = Value::Object(std::mem::take(&mut card.content));
        let (content, applied) = match patched(&content, operations, &PatchLimits::default()) {
            Ok(changed @ Value::Object(_)) => (changed, Ok(())),
            Ok(_) => {
                let operation = operations.len().saturating_sub(1);
                (content, Err(Error::PatchRefused { operation }))
            }
            Err(error) => (content, Err(error)),
        };
        if let Value::Object(content) = content {
            card.content = content;
        }
        applied
    }

    /// Returns the message in its present state. Content other than text is unchanged.
    pub(super) fn finish(&self) -> Message {
        let text = ByteString::from(self.text.as_str());
        let mut message = self.message.clone();
        match &mut message {
            Message::Assistant(message) => {
                message.content = Some(text).filter(|text| message.content.is_some() || !text.is_empty());
                for (call, arguments) in message.tool_calls.iter_mut().flatten().zip(&self.arguments) {
                    call.function.arguments = arguments.as_str().into();
                }
            }
            Message::Developer(message) | Message::System(message) => message.content = text,
            Message::Reasoning(message) => message.content = text,
            Message::User(message) => {
                if let Content::Text(content) = &mut message.content {
                    *content = text;
                }
            }
            _ => {}
        }
        message
    }
}

fn plain(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_string(),
        Content::Parts(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A card is an object: a patch that makes anything else of it is refused, and changes nothing.
    #[test]
    fn a_patch_that_leaves_no_object_is_refused() {
        let content = json!({ "done": 1 }).as_object().unwrap().clone();
        let card = ActivityMessage { content: content.clone(), ..ActivityMessage::default() };
        let mut draft = Draft::new(Message::Activity(card));
        let root = |value: Value| {
            let operation = json!({ "op": "replace", "path": "", "value": value });
            PatchOperation(operation.as_object().unwrap().clone())
        };
        let content_of = |draft: &Draft| match draft.finish() {
            Message::Activity(card) => card.content,
            other => panic!("{other:?}"),
        };
        for value in [json!(null), json!([1]), json!("text")] {
            let refused = draft.patch(&[root(json!({})), root(value)]);
            assert!(matches!(refused, Err(Error::PatchRefused { operation: 1 })), "{refused:?}");
            assert_eq!(content_of(&draft), content);
        }
        draft.patch(&[root(json!(1)), root(json!({ "done": 2 }))]).unwrap();
        assert_eq!(Value::Object(content_of(&draft)), json!({ "done": 2 }));
    }
}

//! Builds the message to the agent from the input of a run.
//!
//! Only new content is sent, because the agent keeps the history of the context. What is new, first match:
//!
//! 1. replies to interrupts (`resume`), each in the shape that its framework expects;
//! 2. results of tools that the frontend executed, if a task waits for them;
//! 3. the user's text as the reply to interrupts that expect a shape;
//! 4. the content of the user's last message.
//!
//! An action on an A2UI surface is added to any of these. The data of a frontend beside the message (state,
//! tools) becomes metadata: [`frontend`].

use aqueduct_core::block::Custom;
use aqueduct_core::{ContentBlock, InterruptId, InterruptReply, RunInput, wellknown};
use serde_json::{Value, json};

use crate::call::{TaskRef, follow_up, user_message};
use crate::frontend;
use crate::question::{self, Shape};
use crate::wire::{Content, Message, Part, Text};

/// The target of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// A new context.
    New,
    /// A new task in that context.
    Context(String),
    /// An interrupted task.
    Task(TaskRef),
}

/// Returns the message for a run. `message_id` must be new: servers deduplicate messages by it.
pub fn message(input: &RunInput, message_id: impl Into<String>, to: &Recipient) -> Message<'static> {
    answering(input, message_id, to, &[])
}

/// Returns the message for a task that waits for replies to these interrupts: a message that names none of them answers
/// all of them, each in the shape that its framework expects.
pub fn answering(
    input: &RunInput,
    message_id: impl Into<String>,
    to: &Recipient,
    interrupts: &[InterruptId],
) -> Message<'static> {
    let user = input.latest_user_message();
    let results = frontend::tool_results(input);
    let mut parts: Vec<Part<'static>> = if !input.resume.is_empty() {
        question::reply_parts(&input.resume)
    } else if !results.is_empty() && matches!(to, Recipient::Task(_)) {
        results
    } else if is_shaped(interrupts) {
        let words = user.map(words).unwrap_or_default();
        let reply = |id: &InterruptId| InterruptReply {
            id: id.clone(),
            resolved: true,
            payload: Some(words.as_str().into()),
        };
        question::reply_parts(&interrupts.iter().map(reply).collect::<Vec<_>>())
    } else {
        user.into_iter().flat_map(|message| parts(&message.contents)).map(named).collect()
    };
    parts.extend(frontend::a2ui_action(input));
    match to {
        Recipient::New => user_message(message_id, None, parts),
        Recipient::Context(context) => user_message(message_id, Some(context.clone()), parts),
        Recipient::Task(task) => follow_up(message_id, task, parts),
    }
}

/// Returns `true` if a framework expects the reply to one of these interrupts in a shape of its own.
fn is_shaped(interrupts: &[InterruptId]) -> bool {
    interrupts.iter().any(|id| Shape::of_id(id.as_str()) != Shape::Words)
}

/// Returns the text blocks of a message, joined.
fn words(message: &aqueduct_core::Message) -> String {
    let texts = message.contents.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(&*text.text),
        _ => None,
    });
    texts.collect()
}

/// Converts content into parts. Content without a part in the protocol becomes data under its name.
pub fn parts(contents: &[ContentBlock]) -> Vec<Part<'static>> {
    contents.iter().filter_map(part).collect()
}

/// Converts one block, or returns `None` for content that is not the user's.
fn part(block: &ContentBlock) -> Option<Part<'static>> {
    match block {
        ContentBlock::Text(text) => Some(Part::text(text.text.to_string())),
        ContentBlock::Custom(custom) => Some(custom_part(custom)),
        // Thinking and tool calls of the history are not part of a user's message.
        ContentBlock::Thinking(_) | ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => None,
    }
}

/// Converts a file into a file part, data into a data part, and any other custom block into a data part that
/// names its kind.
fn custom_part(custom: &Custom) -> Part<'static> {
    let field = |key: &str| custom.value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = match &*custom.name {
        wellknown::FILE if custom.value.get("data").is_some() => Content::Bytes(Text::from(field("data"))),
        wellknown::FILE if custom.value.get("url").is_some() => Content::Url(Text::from(field("url"))),
        wellknown::DATA => return Part::data(&custom.value),
        name => return Part::data(&json!({"type": name, "value": custom.value})),
    };
    Part {
        filename: Text::from(field("name")),
        media_type: Text::from(field("mediaType")),
        ..Part::new(content)
    }
}

/// Adds a name to files without one.
fn named(mut part: Part<'static>) -> Part<'static> {
    if matches!(part.content, Content::Bytes(_) | Content::Url(_)) && part.filename.is_empty() {
        part.filename = Text::from(file_name(&part.media_type));
    }
    part
}

/// Returns a name for a file without one, as images of AG-UI are: strands 1.62 drops a file whose name has no
/// extension.
fn file_name(media_type: &str) -> String {
    let ending = media_type.split(';').next().and_then(|kind| kind.split_once('/'));
    let ending = ending
        .map(|(_, ending)| ending.trim())
        .filter(|ending| !ending.is_empty() && ending.chars().all(|c| c.is_ascii_alphanumeric()));
    ending.map(|ending| format!("file.{ending}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Dialect;

    #[test]
    fn the_last_words_of_the_user_go_out_with_their_files() {
        let mut input = RunInput::prompt("thread", "run", "look at this");
        let file = json!({"data": "AAEC", "mediaType": "image/png", "name": "a.png"});
        input.messages[0].contents.push(ContentBlock::custom(wellknown::FILE, file));
        input.messages[0].contents.push(ContentBlock::custom("mine", json!(1)));
        let message = message(&input, "m", &Recipient::Context("c".to_owned()));
        assert_eq!(
            message.to_json(Dialect::V1),
            json!({"messageId": "m", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": "look at this"},
                {"raw": "AAEC", "filename": "a.png", "mediaType": "image/png"}, {"data": {"type": "mine", "value": 1}}]})
        );
    }

    #[test]
    fn a_file_without_a_name_gets_one_from_its_media_type() {
        for (media_type, name) in
            [("image/png", "file.png"), ("image/svg+xml", ""), ("", ""), ("text/plain; x=1", "file.plain")]
        {
            assert_eq!(file_name(media_type), name);
        }
    }

    #[test]
    fn answers_go_to_the_task_that_waits() {
        let reply = |resolved, payload| InterruptReply { id: InterruptId::from("i"), resolved, payload };
        let mut input = RunInput::prompt("thread", "run", "old words");
        input.resume = vec![
            reply(true, Some(json!("prod"))),
            reply(true, Some(json!({"cluster": "prod", "n": 2}))),
            reply(true, Some(json!({"text": "yes"}))),
            reply(false, None),
        ];
        let to = Recipient::Task(TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() });
        let message = message(&input, "m", &to);
        assert_eq!((&*message.task_id, &*message.context_id), ("t", "c"));
        let parts: Vec<_> = message.parts.iter().map(|part| part.to_json(Dialect::V1)).collect();
        assert_eq!(
            parts,
            [
                json!({"text": "prod"}),
                json!({"data": {"cluster": "prod", "n": 2}}),
                json!({"text": "yes"}),
                json!({"text": "The user declined to answer.", "metadata": {"declined": true}})
            ]
        );
    }
}

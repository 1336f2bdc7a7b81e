//! What an A2A agent is told: the user's latest message, or the answer to its question.

use aqueduct_adapter_a2a::call::{SendMessage, follow_up, user_message};
use aqueduct_adapter_a2a::wire::{Content, Part};
use aqueduct_core::{ContentBlock, InterruptReply, RunInput, wellknown};
use serde_json::Value;

use super::Thread;

/// The message of a run.
pub(super) fn of_input(input: &RunInput, thread: &Thread) -> SendMessage {
    let id = format!("{}-input", input.run_id);
    let parts = parts(input);
    SendMessage::new(if let Some((task, _)) = &thread.waiting {
        follow_up(id, task, parts)
    } else {
        let context = Some(thread.context_id.clone()).filter(|context| !context.is_empty());
        user_message(id, context, parts)
    })
}

fn parts(input: &RunInput) -> Vec<Part<'static>> {
    let answers: Vec<Part<'static>> = input.resume.iter().map(answer).collect();
    if !answers.is_empty() {
        return answers;
    }
    let latest = input.latest_user_message();
    let parts: Vec<Part<'static>> =
        latest.into_iter().flat_map(|message| &message.contents).filter_map(part).collect();
    // An agent that is asked nothing is asked all the same: an empty message is refused by some servers.
    if parts.is_empty() { vec![Part::text(String::new())] } else { parts }
}

fn answer(reply: &InterruptReply) -> Part<'static> {
    match &reply.payload {
        _ if !reply.resolved => Part::text("The user declined to answer.".to_owned()),
        Some(Value::String(text)) => Part::text(text.clone()),
        Some(value) => Part::data(value),
        None => Part::text("Yes.".to_owned()),
    }
}

fn part(block: &ContentBlock) -> Option<Part<'static>> {
    match block {
        ContentBlock::Text(text) => Some(Part::text(text.text.to_string())),
        ContentBlock::Custom(custom) if custom.name == wellknown::FILE => file(&custom.value),
        ContentBlock::Custom(custom) => Some(Part::data(&custom.value)),
        _ => None,
    }
}

fn file(value: &Value) -> Option<Part<'static>> {
    let member = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let content = match (member("url"), member("data")) {
        (Some(url), _) => Content::Url(url.into()),
        (None, Some(data)) => Content::Bytes(data.into()),
        (None, None) => return None,
    };
    let mut part = Part::new(content);
    part.media_type = member("mediaType").unwrap_or_default().into();
    part.filename = member("name").unwrap_or_default().into();
    Some(part)
}

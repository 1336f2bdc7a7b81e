//! The content that a reader of a stream holds at the end: texts, thinking, calls and results, by id.
//!
//! A view is built in two independent ways, from canonical events and from the messages a real client holds, and the
//! two must be equal: "no error" alone would also hold for a stream that lost everything.

mod team;

use std::collections::BTreeMap;

use aqueduct_adapter_agui::config::{Interrupts, Settings, Subagents};
use aqueduct_core::presentation::shown_kind;
use aqueduct_core::{BlockEvent, BlockHead, Channel, EventKind, Lane, Role, RunOutcome, SpanKind};
use serde_json::Value;

use team::Team;

/// What a reader ends up with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Text messages: role and text.
    pub texts: BTreeMap<String, (String, String)>,
    /// Reasoning messages.
    pub thoughts: BTreeMap<String, String>,
    /// Tool calls: name and arguments.
    pub calls: BTreeMap<String, (String, String)>,
    /// Tool results by call.
    pub results: BTreeMap<String, Vec<String>>,
}

impl View {
    /// What the canonical events say, as these settings show it.
    pub fn of_blocks(events: &[BlockEvent], settings: Settings) -> Self {
        let (mut view, mut team) = (Self::default(), Team::default());
        let is_answered = events.iter().any(is_answer_of_root);
        for event in events {
            if settings.subagents == Subagents::Tool {
                team.show(event, settings, &mut view);
            }
            if block_of(event).is_some_and(|block| team::is_inside(block, settings)) {
                continue;
            }
            if event.lane().is_some_and(|lane| hidden(lane, settings)) && (is_answered || !is_answer(event)) {
                continue;
            }
            match (event, shown_kind(event, settings.intermediate)) {
                (BlockEvent::BlockStarted(block), Some(EventKind::Text)) => {
                    view.texts
                        .insert(block.id.to_string(), (role(block.role), team::prefix(block, settings)));
                }
                (BlockEvent::BlockStarted(block), Some(EventKind::Thinking)) => {
                    view.thoughts.insert(block.id.to_string(), team::prefix(block, settings));
                }
                (BlockEvent::BlockStarted(block), Some(EventKind::ToolUse)) => {
                    view.calls.insert(block.id.to_string(), (team::tool(block, settings), String::new()));
                }
                (BlockEvent::BlockDelta { block, delta }, Some(kind)) => {
                    view.append(kind, block.id.as_str(), delta);
                }
                (BlockEvent::ToolResult(result), _) => {
                    let results = view.results.entry(result.call_id.to_string()).or_default();
                    results.push(result.output.to_text().to_string());
                }
                (BlockEvent::RunFinished(end), _)
                    if end.outcome == RunOutcome::Interrupted && settings.interrupts == Interrupts::Text =>
                {
                    view.ask(end);
                }
                _ => {}
            }
        }
        view
    }

    /// What the messages of an AG-UI client say.
    pub fn of_messages(messages: &[Value]) -> Self {
        let mut view = Self::default();
        for message in messages {
            let id = word(message, "id");
            let content = message.get("content").map(content).unwrap_or_default();
            for call in message.get("toolCalls").and_then(Value::as_array).into_iter().flatten() {
                let function = call.get("function").cloned().unwrap_or_default();
                view.calls.insert(word(call, "id"), (word(&function, "name"), word(&function, "arguments")));
            }
            match word(message, "role").as_str() {
                "reasoning" => drop(view.thoughts.insert(id, content)),
                "tool" => view.results.entry(word(message, "toolCallId")).or_default().push(content),
                "activity" => {}
                // A client makes a message without content to hold a call that belongs to none.
                "assistant" if content.is_empty() && message.get("toolCalls").is_some() => {}
                role => drop(view.texts.insert(id, (role.to_owned(), content))),
            }
        }
        view
    }

    /// The question of each interrupt, where interrupts are shown as text.
    fn ask(&mut self, end: &aqueduct_core::event::RunFinished) {
        for pending in &end.interrupts {
            let ask = &pending.interrupt;
            let question = ask.message.as_ref().map_or_else(
                || format!("The agent waits for your answer ({}).", ask.reason),
                ToString::to_string,
            );
            self.texts.insert(format!("interrupt/{}", ask.id), ("assistant".to_owned(), question));
        }
    }

    fn append(&mut self, kind: EventKind, id: &str, delta: &str) {
        let text = match kind {
            EventKind::Text => self.texts.get_mut(id).map(|(_, text)| text),
            EventKind::Thinking => self.thoughts.get_mut(id),
            EventKind::ToolUse => self.calls.get_mut(id).map(|(_, arguments)| arguments),
            _ => None,
        };
        text.expect("a delta of a block that has started").push_str(delta);
    }
}

fn hidden(lane: &Lane, settings: Settings) -> bool {
    settings.subagents == Subagents::Hidden && !lane.is_root()
}

/// The block that an event belongs to.
fn block_of(event: &BlockEvent) -> Option<&BlockHead> {
    match event {
        BlockEvent::BlockStarted(block) | BlockEvent::BlockDelta { block, .. } => Some(block),
        _ => None,
    }
}

/// Words of the root on the answer channel. Without them, hidden sub-agents answer for it.
fn is_answer_of_root(event: &BlockEvent) -> bool {
    let is_words = matches!(event, BlockEvent::BlockDelta { block, .. } if block.role == Role::Assistant);
    is_words && is_answer(event) && event.lane().is_some_and(|lane| lane.is_root())
}

/// Text on the answer channel.
fn is_answer(event: &BlockEvent) -> bool {
    block_of(event).is_some_and(|block| block.kind == SpanKind::Text && block.channel == Channel::Answer)
}

fn role(role: Role) -> String {
    match role {
        Role::User => "user",
        Role::System => "system",
        Role::Developer => "developer",
        _ => "assistant",
    }
    .to_owned()
}

fn word(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Text as it is; parts as JSON.
fn content(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

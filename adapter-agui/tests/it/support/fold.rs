//! A reference fold: the messages that a client ends up with, by the rules of the protocol.
//!
//! A text message is created by its start and appended to by its content; a tool call belongs to the message it
//! names, or to one of its own; a result becomes a message behind that of its call; a snapshot replaces what it
//! restates, adds what is new, and drops the rest (but not activities and reasoning that it does not mention); an
//! activity is replaced, or patched.

use aqueduct_adapter_agui::chunks::ChunkExpander;
use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::wire::{Content, Event, Message, PatchOperation, RunFinishedOutcome};
use serde_json::{Map, Value};

/// One message as a client holds it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) role: String,
    pub(crate) name: Option<String>,
    pub(crate) content: String,
    pub(crate) calls: Vec<(String, String, String)>,
    pub(crate) answers: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) card: Option<(String, Value)>,
    pub(crate) sealed: Option<String>,
    pub(crate) tag: Option<String>,
}

/// All that a client ends up with.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) messages: Vec<Shown>,
    pub(crate) state: Value,
    pub(crate) interrupts: Vec<String>,
    pub(crate) error: Option<(Option<String>, String)>,
    pub(crate) finished: Option<String>,
}

/// Folds a stream.
pub(crate) fn fold(events: &[Event]) -> Client {
    let mut client = Client { state: Value::Object(Map::new()), ..Client::default() };
    let mut chunks = ChunkExpander::new(Dialect::V0_0_59);
    for event in events {
        let mut expanded = Vec::new();
        chunks.handle_event(event.clone(), &mut expanded).unwrap();
        for event in &expanded {
            client.apply(event);
        }
    }
    client
}

impl Client {
    /// The contents by role, in order: what a reader sees, whatever the ids are.
    pub(crate) fn said(&self, role: &str) -> Vec<String> {
        let messages = self.messages.iter().filter(|message| message.role == role);
        messages.map(|message| message.content.clone()).filter(|content| !content.is_empty()).collect()
    }

    /// Names and arguments of all tool calls, in order.
    pub(crate) fn called(&self) -> Vec<(String, String)> {
        let calls = self.messages.iter().flat_map(|message| &message.calls);
        calls.map(|(_, name, arguments)| (name.clone(), arguments.clone())).collect()
    }

    /// Calls whose results are errors, with the error, in order.
    pub(crate) fn failed(&self) -> Vec<(Option<String>, String)> {
        let failed = |shown: &Shown| Some((shown.answers.clone(), shown.error.clone()?));
        self.messages.iter().filter_map(failed).collect()
    }

    /// The cards as they stand in the end.
    pub(crate) fn cards(&self) -> Vec<(String, Value)> {
        self.messages.iter().filter_map(|message| message.card.clone()).collect()
    }

    fn at(&mut self, id: &str) -> Option<&mut Shown> {
        self.messages.iter_mut().find(|message| message.id == id)
    }

    fn create(&mut self, id: &str, role: &str) -> &mut Shown {
        if self.at(id).is_none() {
            self.messages.push(Shown { id: id.to_owned(), role: role.to_owned(), ..Shown::default() });
        }
        self.at(id).unwrap()
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::TextMessageStart(start) => {
                let role = start.role.unwrap_or_default().as_str();
                let message = self.create(&start.message_id, role);
                message.name = start.name.as_ref().map(ToString::to_string);
                message.tag = start.subagent_run_id.as_ref().map(ToString::to_string);
            }
            Event::TextMessageContent(content) => {
                if let Some(message) = self.at(&content.message_id) {
                    message.content.push_str(&content.delta);
                }
            }
            Event::ReasoningMessageStart(start) => {
                let tag = start.subagent_run_id.as_ref().map(ToString::to_string);
                self.create(&start.message_id, "reasoning").tag = tag;
            }
            Event::ReasoningMessageContent(content) => {
                if let Some(message) = self.at(&content.message_id) {
                    message.content.push_str(&content.delta);
                }
            }
            Event::ReasoningEncryptedValue(value) => {
                if let Some(message) = self.at(&value.entity_id) {
                    message.sealed = Some(value.encrypted_value.to_string());
                }
            }
            Event::ToolCallStart(start) => {
                let parent = start.parent_message_id.as_deref().unwrap_or(&start.tool_call_id).to_owned();
                let fits = self.at(&parent).is_none_or(|message| message.role == "assistant");
                let carrier = if fits { parent } else { start.tool_call_id.to_string() };
                let call = (start.tool_call_id.to_string(), start.tool_call_name.to_string(), String::new());
                self.create(&carrier, "assistant").calls.push(call);
            }
            Event::ToolCallArgs(args) => {
                let calls = self.messages.iter_mut().flat_map(|message| &mut message.calls);
                if let Some(call) = calls.into_iter().find(|call| call.0 == *args.tool_call_id) {
                    call.2.push_str(&args.delta);
                }
            }
            Event::ToolCallResult(result) => {
                self.answer(&result.message_id, &result.tool_call_id, &result.content);
            }
            Event::ActivitySnapshot(activity) => {
                let exists = self.at(&activity.message_id).is_some();
                let card = (activity.activity_type.to_string(), Value::Object(activity.content.clone()));
                let message = self.create(&activity.message_id, "activity");
                if !exists || activity.replace != Some(false) {
                    message.card = Some(card);
                }
            }
            Event::ActivityDelta(delta) => {
                if let Some((_, content)) =
                    self.at(&delta.message_id).and_then(|message| message.card.as_mut())
                {
                    delta.patch.iter().for_each(|operation| patch(content, operation));
                }
            }
            Event::StateSnapshot(state) => self.state = state.snapshot.clone(),
            Event::StateDelta(state) => {
                state.delta.iter().for_each(|operation| patch(&mut self.state, operation));
            }
            Event::MessagesSnapshot(snapshot) => self.restate(&snapshot.messages),
            Event::RunError(error) => {
                self.error = Some((error.code.as_ref().map(ToString::to_string), error.message.to_string()));
            }
            Event::RunFinished(finished) => {
                let outcome = finished.outcome.as_ref();
                self.finished = Some(outcome.map_or("success", |outcome| outcome.kind()).to_owned());
                if let Some(RunFinishedOutcome::Interrupt(outcome)) = outcome {
                    self.interrupts =
                        outcome.interrupts.iter().map(|interrupt| interrupt.id.to_string()).collect();
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, id: &str, call: &str, content: &Content) {
        let owner = self.messages.iter().position(|message| message.calls.iter().any(|own| own.0 == call));
        let shown = Shown {
            id: id.to_owned(),
            role: "tool".to_owned(),
            content: plain(content),
            answers: Some(call.to_owned()),
            ..Shown::default()
        };
        let mut at = owner.map_or(self.messages.len(), |at| at + 1);
        while self.messages.get(at).is_some_and(|message| message.role == "tool") {
            at += 1;
        }
        self.messages.insert(at, shown);
    }

    fn restate(&mut self, restated: &[Message]) {
        let mentions = |role: &str| restated.iter().any(|message| message.kind() == role);
        let keeps = |message: &Shown| {
            restated.iter().any(|new| new.id() == message.id)
                || ["activity", "reasoning"].contains(&&*message.role) && !mentions(&message.role)
        };
        self.messages.retain(keeps);
        for message in restated {
            let new = shown(message);
            match self.at(message.id()) {
                Some(old) => *old = new,
                None => self.messages.push(new),
            }
        }
    }
}

fn shown(message: &Message) -> Shown {
    let mut shown =
        Shown { id: message.id().to_owned(), role: message.kind().to_owned(), ..Shown::default() };
    for call in message.tool_calls() {
        let (name, arguments) = (call.function.name.to_string(), call.function.arguments.to_string());
        shown.calls.push((call.id.to_string(), name, arguments));
    }
    match message {
        Message::Assistant(said) => said.content.as_deref().unwrap_or("").clone_into(&mut shown.content),
        Message::User(said) => shown.content = plain(&said.content),
        Message::Tool(result) => {
            shown.content = plain(&result.content);
            shown.answers = Some(result.tool_call_id.to_string());
            shown.error = result.error.as_ref().map(ToString::to_string);
        }
        Message::Reasoning(thought) => shown.content = thought.content.to_string(),
        Message::Activity(card) => {
            shown.card = Some((card.activity_type.to_string(), Value::Object(card.content.clone())));
        }
        _ => {}
    }
    shown
}

fn plain(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_string(),
        Content::Parts(parts) => serde_json::to_string(parts).unwrap(),
    }
}

/// As much of RFC 6902 as the fixtures need: `add` and `replace` of members, `remove`, and `add` at the end of a list.
fn patch(target: &mut Value, operation: &PatchOperation) {
    let Some((parent, name)) = operation.path().rsplit_once('/') else {
        *target = operation.0.get("value").cloned().unwrap_or_default();
        return;
    };
    let Some(parent) = target.pointer_mut(parent) else { return };
    let value = operation.0.get("value").cloned();
    match (operation.op(), parent, value) {
        ("add" | "replace", Value::Object(members), Some(value)) => {
            members.insert(name.to_owned(), value);
        }
        ("add", Value::Array(list), Some(value)) if name == "-" => list.push(value),
        ("remove", Value::Object(members), _) => {
            members.shift_remove(name);
        }
        _ => {}
    }
}

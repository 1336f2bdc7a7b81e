//! [`Fold`]: the messages and the state that a client holds after a stream, to restate a thread without replaying it.
//!
//! ```text
//! events of ended runs ──► Fold ──► messages ──► MESSAGES_SNAPSHOT
//!                               └─► state ─────► STATE_SNAPSHOT
//! ```
//!
//! The rules are those of the protocol's own client: the start of a text message creates it, and content appends to it; a
//! call belongs to the message it names, or to one of its own; a result becomes a message after that of its call; a
//! snapshot replaces the messages it restates, adds new ones and drops the rest, except for activities and reasoning that it
//! does not mention; a patch is applied completely or not at all.
//!
//! Events without place in messages or state (steps, lifecycles of sub-agents, custom and raw events) are ignored. Chunk
//! events must be [expanded](crate::chunks) before.

mod draft;
mod guard;
pub mod patch;

use aqueduct_core::{ByteString, Metadata, RunInput};
use serde_json::{Map, Value};

use crate::config::Dialect;
use crate::convert::readable;
use crate::input::run_agent_input;
use crate::wire::object::{At, FromWire as _};
use crate::wire::{Event, Message, Strictness, ToolCall};
use draft::{Draft, merge};
pub use guard::{STATE_LIMIT, state_guard};

/// Returns the input of a run as the value of a [`wellknown::INPUT`](aqueduct_core::wellknown::INPUT) block: the messages from
/// the index `from` on, and the state. Returns `None` if there is neither.
pub fn asked(input: &RunInput, from: usize) -> Option<Value> {
    let messages = input.messages.get(from..).unwrap_or_default().to_vec();
    if messages.is_empty() && input.state.is_null() {
        return None;
    }
    let input = RunInput { messages, tools: Vec::new(), context: Vec::new(), ..input.clone() };
    let written = run_agent_input(&input, Dialect::V1_0);
    let mut asked = Map::from_iter([("messages".to_owned(), serde_json::to_value(written.messages).ok()?)]);
    if !input.state.is_null() {
        asked.insert("state".to_owned(), input.state);
    }
    Some(Value::Object(asked))
}

/// Folds events into messages and state.
#[derive(Debug, Clone)]
pub struct Fold {
    drafts: Vec<Draft>,
    state: Value,
}

impl Default for Fold {
    fn default() -> Self {
        Self { drafts: Vec::new(), state: Value::Object(Map::new()) }
    }
}

impl Fold {
    /// Returns a fold without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of an input, if there is none of its id.
    pub fn handle_message(&mut self, message: Message) {
        if self.find(message.id()).is_none() {
            self.drafts.push(Draft::new(message));
        }
    }

    /// Adds the input of a run in the form of [`asked`]. Messages that cannot be decoded are skipped.
    pub fn handle_asked(&mut self, asked: &Value) {
        for message in asked.get("messages").and_then(Value::as_array).into_iter().flatten() {
            let at = At::root("messages", Strictness::Forgiving);
            if let Ok(message) = Message::from_wire(message.clone(), &at) {
                self.handle_message(message);
            }
        }
        if let Some(state) = asked.get("state") {
            self.state = state.clone();
        }
    }

    /// Handles the next event.
    pub fn handle_event(&mut self, event: &Event) {
        match event {
            Event::TextMessageStart(start) => {
                let tag = start.subagent_run_id.clone();
                let message = draft::text(start.role.unwrap_or_default(), &start.message_id, tag);
                let draft = self.created(message);
                draft.set_name(start.name.clone());
                draft.merge(metadata(event));
            }
            Event::TextMessageContent(content) => {
                self.append_text(&content.message_id, &content.delta, event);
            }
            Event::TextMessageEnd(end) => self.append_text(&end.message_id, "", event),
            Event::ReasoningMessageStart(start) => {
                let message = draft::reasoning(&start.message_id, start.subagent_run_id.clone());
                self.created(message).merge(metadata(event));
            }
            Event::ReasoningMessageContent(content) => {
                self.append_text(&content.message_id, &content.delta, event);
            }
            Event::ReasoningMessageEnd(end) => self.append_text(&end.message_id, "", event),
            Event::ReasoningEncryptedValue(value) => self.seal(&value.entity_id, &value.encrypted_value),
            Event::ToolCallStart(start) => {
                let parent = start.parent_message_id.as_ref().unwrap_or(&start.tool_call_id);
                let fits = self.find(parent).is_none_or(Draft::is_assistant);
                let carrier = if fits { parent } else { &start.tool_call_id };
                let tag = start.subagent_run_id.clone();
                let draft = self.created(draft::carrier(carrier, tag));
                draft.call(&start.tool_call_id, &start.tool_call_name, metadata(event));
            }
            Event::ToolCallArgs(args) => self.append_arguments(&args.tool_call_id, &args.delta, event),
            Event::ToolCallEnd(end) => self.append_arguments(&end.tool_call_id, "", event),
            Event::ToolCallResult(result) => self.answer(draft::answer(result), &result.tool_call_id),
            Event::ActivitySnapshot(card) => self.show(draft::activity(card), card.replace != Some(false)),
            Event::ActivityDelta(delta) => {
                let _refused = self.find_mut(&delta.message_id).map(|draft| draft.patch(&delta.patch));
            }
            Event::StateSnapshot(state) => self.state = state.snapshot.clone(),
            // A patch that is refused changes nothing, as in the client.
            Event::StateDelta(state) => drop(patch::apply(&mut self.state, &state.delta)),
            Event::MessagesSnapshot(snapshot) => self.restate(&snapshot.messages),
            _ => {}
        }
    }

    /// Removes the oldest messages until the texts of the rest have at most `bytes` bytes. Returns the number removed.
    pub fn shorten(&mut self, bytes: usize) -> usize {
        let mut held: usize = self.drafts.iter().map(Draft::bytes).sum();
        let mut gone = 0;
        for draft in &self.drafts {
            if held <= bytes {
                break;
            }
            held -= draft.bytes();
            gone += 1;
        }
        self.drafts.drain(..gone).count()
    }

    /// Returns the messages, without those that a peer of this dialect cannot read.
    pub fn messages(&self, dialect: Dialect) -> Vec<Message> {
        self.drafts.iter().filter_map(|draft| readable(draft.finish(), dialect)).collect()
    }

    /// Returns the shared state.
    pub fn state(&self) -> &Value {
        &self.state
    }

    /// Searches from the newest message: streaming ones are at the end.
    fn find(&self, id: &str) -> Option<&Draft> {
        self.drafts.iter().rev().find(|draft| draft.id() == id)
    }

    /// Returns the latest message of an id: some sources use one id for several messages.
    fn find_mut(&mut self, id: &str) -> Option<&mut Draft> {
        self.drafts.iter_mut().rev().find(|draft| draft.id() == id)
    }

    /// Returns the message of that id, created if there is none.
    #[expect(clippy::indexing_slicing, reason = "the place was found or made just before")]
    fn created(&mut self, message: Message) -> &mut Draft {
        let at = self.drafts.iter().rposition(|draft| draft.id() == message.id());
        let at = at.unwrap_or_else(|| {
            self.drafts.push(Draft::new(message));
            self.drafts.len() - 1
        });
        &mut self.drafts[at]
    }

    fn append_text(&mut self, id: &str, text: &str, event: &Event) {
        if let Some(draft) = self.find_mut(id) {
            draft.append_text(text);
            draft.merge(metadata(event));
        }
    }

    fn append_arguments(&mut self, call: &str, text: &str, event: &Event) {
        let mut drafts = self.drafts.iter_mut().rev();
        if let Some((call, arguments)) = drafts.find_map(|draft| draft.call_mut(call)) {
            arguments.push_str(text);
            merge(&mut call.metadata, metadata(event));
        }
    }

    fn seal(&mut self, id: &ByteString, value: &ByteString) {
        if let Some(draft) = self.find_mut(id) {
            draft.seal(value);
        } else if let Some((call, _)) = self.drafts.iter_mut().rev().find_map(|draft| draft.call_mut(id)) {
            call.encrypted_value = Some(value.clone());
        }
    }

    /// Inserts a tool message after the message of its call, and after earlier results there.
    fn answer(&mut self, message: Message, call: &str) {
        let is_owner = |draft: &Draft| draft.calls().any(|own: &ToolCall| own.id == call);
        let mut at = self.drafts.iter().rposition(is_owner).map_or(self.drafts.len(), |at| at + 1);
        while self.drafts.get(at).is_some_and(Draft::is_tool) {
            at += 1;
        }
        self.drafts.insert(at, Draft::new(message));
    }

    /// Inserts a message. One of the same id is replaced if `replaces` is set, and stays otherwise.
    fn show(&mut self, message: Message, replaces: bool) {
        match self.find_mut(message.id()) {
            Some(draft) if replaces => *draft = Draft::new(message),
            Some(_) => {}
            None => self.drafts.push(Draft::new(message)),
        }
    }

    /// Applies a snapshot: replaces restated messages, adds new ones, drops the rest except for activities and reasoning.
    fn restate(&mut self, restated: &[Message]) {
        let mentions = |role: &str| restated.iter().any(|message| message.kind() == role);
        self.drafts.retain(|draft| {
            let is_local = ["activity", "reasoning"].contains(&draft.role()) && !mentions(draft.role());
            is_local || restated.iter().any(|message| message.id() == draft.id())
        });
        for message in restated {
            match self.find_mut(message.id()) {
                Some(draft) => *draft = Draft::new(message.clone()),
                None => self.drafts.push(Draft::new(message.clone())),
            }
        }
    }
}

fn metadata(event: &Event) -> Option<&Metadata> {
    event.base()?.metadata()
}

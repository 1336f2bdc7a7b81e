//! Events of orchestrators: plans, ledgers, turns, hand-offs.
//!
//! ```text
//! magentic_orchestrator  content = message          -> PLAN, unless it equals the last one
//!                        content = progress ledger  -> custom block with the ledger
//!                        content = anything else    -> custom block under its event type
//! group_chat             request sent / response received -> custom block on the root lane
//! handoff_sent           source, target                   -> custom block on the root lane
//! ```
//!
//! The handlers return `false` for data of another form, and the caller then emits the line as raw
//! content: nothing is dropped. Undeclared fields are part of the value.

use aqueduct_core::{Source, wellknown};
use serde_json::{Map, Value, json};

use super::plan::plan;
use super::run::Run;
use crate::names;
use crate::wire::{
    GroupChatEvent, HandoffSentEvent, Json, MagenticOrchestratorEvent, Message, ProgressLedger,
};

impl Run {
    /// Handles an event of the Magentic manager. Returns `false` if it is not one.
    pub(super) fn handle_orchestrator(&mut self, executor: Option<&str>, data: Option<Json<'_>>) -> bool {
        let Some(event) = data.and_then(Json::read::<MagenticOrchestratorEvent<'_>>) else {
            return false;
        };
        let (Some(kind), Some(content)) = (event.event_type.as_deref(), event.content) else { return false };
        let executor = executor.unwrap_or("magentic_orchestrator");
        // The manager represents the workflow, whatever the name of its executor.
        self.sources.orchestrates(executor);
        let source = self.sources.executor(executor);
        if let Some(message) = content.read::<Message<'_>>().filter(|message| !message.contents.is_empty()) {
            self.emit_plan(&source, &message.text());
        } else if content.read::<ProgressLedger<'_>>().is_some() {
            self.custom(&source, names::LEDGER, content.value());
        } else {
            self.custom(&source, format!("{}{kind}", names::CONTENT_PREFIX), content.value());
        }
        true
    }

    /// Emits a plan once: a manager that replans sends the same plan twice.
    pub(super) fn emit_plan(&mut self, source: &Source, text: &str) {
        if self.last_plan.as_deref() != Some(text) {
            self.last_plan = Some(text.to_owned());
            self.custom(source, wellknown::PLAN, plan(text));
        }
    }

    /// Handles a turn of a group chat, which names no executor. Returns `false` if it is not one.
    pub(super) fn handle_group_chat(&mut self, data: Option<Json<'_>>) -> bool {
        let Some(event) = data.and_then(Json::read::<GroupChatEvent<'_>>) else { return false };
        let name = match event.class.as_deref() {
            Some("GroupChatRequestSentEvent") => names::TURN_REQUESTED,
            Some("GroupChatResponseReceivedEvent") => names::TURN_RECEIVED,
            _ => return false,
        };
        // The only executor with an open turn is the orchestrator, whatever its name.
        if let [orchestrator] = self.turns.as_slice() {
            self.sources.orchestrates(&orchestrator.clone());
        }
        let mut value = fields(&event.unknown);
        if let Some(round) = event.round_index {
            value.insert("round_index".to_owned(), json!(round));
        }
        if let Some(participant) = &event.participant_name {
            value.insert("participant_name".to_owned(), json!(&**participant));
        }
        self.custom(&Source::root(), name, Value::Object(value));
        true
    }

    /// Handles a hand-off, which names no executor. Returns `false` if it is not one.
    pub(super) fn handle_handoff(&mut self, data: Option<Json<'_>>) -> bool {
        let Some(event) = data.and_then(Json::read::<HandoffSentEvent<'_>>) else { return false };
        let (Some(from), Some(to)) = (&event.source, &event.target) else { return false };
        let mut value = fields(&event.unknown);
        value.insert("source".to_owned(), json!(&**from));
        value.insert("target".to_owned(), json!(&**to));
        self.custom(&Source::root(), names::HANDOFF, Value::Object(value));
        true
    }
}

/// Returns the fields that the wire type does not know, for custom content: nothing is dropped.
fn fields(unknown: &crate::wire::Unknown<'_>) -> Map<String, Value> {
    unknown.iter().map(|(key, value)| ((**key).to_owned(), value.value())).collect()
}

//! Everything beside the content, as `working` statuses with a data part: lanes, steps, state, usage, interrupts.
//!
//! ```text
//! step "plan" started  ──►  state working, message id "<task>/step-started/<lane>/plan/<hash>",
//!                           part {"data": {"type": "step-started", "name": "plan"}, "mediaType": …},
//!                           metadata {"aqueduct/v1": {"kind": "step-started", "lane"?: […]}}
//! ```
//!
//! The data are readable without the mark; the mark adds the lane. An interrupt becomes `input-required` only when
//! the turn ends, because that state ends the stream. `Settings::signals` omits all of these except interrupts.

use std::sync::Arc;

use aqueduct_core::fingerprint::hash_bytes;
use aqueduct_core::{BlockEvent, BlockEventConverter, EventKind, Lane};
use serde_json::{Value, json};

use super::show::{converter, data, message, status, tells};
use crate::config::Settings;
use crate::mark::{Mark, interrupt_value, kind, outcome_value, usage_value};
use crate::wire::{StreamItem, TaskState};

converter! {
    /// Converts the start and the end of a lane.
    LaneConverter
}

converter! {
    /// Converts named steps.
    StepConverter
}

converter! {
    /// Converts the shared state and its changes.
    StateConverter
}

converter! {
    /// Converts token usage.
    UsageConverter
}

converter! {
    /// Converts interrupts, when they are requested.
    InterruptConverter
}

/// Appends a status with one data part: `content` with the kind of the mark as `type`.
///
/// Its id is derived from its content, because a converter cannot count: readers of a history deduplicate by it. Two
/// statuses with the same content have the same id, so a reader that gets both from a history emits one.
fn signal(
    settings: &Settings,
    mark: Mark,
    subject: &str,
    content: Value,
    out: &mut Vec<StreamItem<'static>>,
) {
    let kind = mark.kind().to_owned();
    let mut value = json!({ "type": kind });
    if let (Some(value), Value::Object(content)) = (value.as_object_mut(), content) {
        value.extend(content);
    }
    let print = hash_bytes(0, value.to_string().as_bytes());
    let id = format!("{}/{kind}/{subject}/{print:x}", settings.task_id);
    let message = message(settings, id, vec![data(&value)], mark);
    out.push(status(settings, TaskState::Working, Some(message)));
}

/// Returns the subject of a step in its message id: lanes may have steps of one name.
fn step_subject(lane: &Arc<Lane>, name: &str) -> String {
    format!("{}/{name}", lane.id)
}

impl BlockEventConverter<StreamItem<'static>> for LaneConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        if !tells(&self.settings, EventKind::Lane) {
            return;
        }
        match event {
            BlockEvent::LaneOpened(lane) => {
                let mut mark = Mark::new(kind::LANE_OPENED).of_lane(lane);
                if let Some(own) = lane.source.metadata().filter(|own| !own.is_empty()) {
                    mark.put("metadata", Value::Object((**own).clone()));
                }
                signal(&self.settings, mark, lane.id.as_str(), json!({"name": lane.name()}), out);
            }
            BlockEvent::LaneClosed { lane, outcome } => {
                let mark = Mark::new(kind::LANE_CLOSED).of_lane(lane);
                let mut content = outcome_value(outcome);
                if let Some(content) = content.as_object_mut() {
                    content.insert("name".to_owned(), lane.name().into());
                }
                signal(&self.settings, mark, lane.id.as_str(), content, out);
            }
            _ => {}
        }
    }
}

impl BlockEventConverter<StreamItem<'static>> for StepConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let (word, lane, name) = match event {
            BlockEvent::StepStarted { lane, name } => (kind::STEP_STARTED, lane, name),
            BlockEvent::StepFinished { lane, name } => (kind::STEP_FINISHED, lane, name),
            _ => return,
        };
        if tells(&self.settings, EventKind::Step) {
            let mark = Mark::new(word).of_lane(lane);
            signal(&self.settings, mark, &step_subject(lane, name), json!({"name": &**name}), out);
        }
    }
}

impl BlockEventConverter<StreamItem<'static>> for StateConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let (word, lane, content) = match event {
            BlockEvent::StateSnapshot { lane, state } => (kind::STATE, lane, json!({ "state": state })),
            BlockEvent::StateDelta { lane, patch } => (kind::STATE_PATCH, lane, json!({ "patch": patch })),
            _ => return,
        };
        if tells(&self.settings, EventKind::State) {
            signal(&self.settings, Mark::new(word).of_lane(lane), lane.id.as_str(), content, out);
        }
    }
}

impl BlockEventConverter<StreamItem<'static>> for UsageConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let BlockEvent::Usage { lane, usage } = event else { return };
        if tells(&self.settings, EventKind::Usage) {
            let mark = Mark::new(kind::USAGE).of_lane(lane);
            signal(&self.settings, mark, lane.id.as_str(), json!({"usage": usage_value(usage)}), out);
        }
    }
}

impl BlockEventConverter<StreamItem<'static>> for InterruptConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let BlockEvent::InterruptRequested(pending) = event else { return };
        let mark = Mark::new(kind::INTERRUPT).of_lane(&pending.lane);
        let content = json!({"interrupt": interrupt_value(&pending.interrupt)});
        signal(&self.settings, mark, pending.interrupt.id.as_str(), content, out);
    }
}

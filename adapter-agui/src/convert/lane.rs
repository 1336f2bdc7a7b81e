//! Sub-agents and steps.
//!
//! | | `Attributed` | `Inline` | `Hidden` |
//! |---|---|---|---|
//! | lane opens | `SUBAGENT_STARTED` | `STEP_STARTED` with the agent's name | nothing |
//! | lane closes | `SUBAGENT_FINISHED`, `SUBAGENT_ERROR` | a `CUSTOM` notice if it failed, `STEP_FINISHED` | nothing |
//! | step of a sub-agent | under its name | under `agent/step` | nothing |
//!
//! `Tool` is made of `Attributed` by [`ToolView`](super::ToolView).
//!
//! Inline, the lane's own step is tagged with the lane and its inner steps are prefixed with the agent's name:
//! two open steps never have one name and one tag, which clients would refuse.

use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString, Lane, LaneOutcome, Metadata, wellknown};
use serde_json::{Value, json};

use super::show::{META_OUTCOME, agent_name, converter, noted};
use crate::config::{Dialect, Settings, Subagents};
use crate::wire::{
    Custom, Event, StepFinished, StepStarted, SubagentError, SubagentFinished, SubagentFinishedOutcome,
    SubagentStarted, SubagentSuccessOutcome, SuspendedOutcome,
};

/// What an agent without a name is called.
const NAMELESS: &str = "agent";

/// The code of a sub-agent that somebody stopped.
const CANCELLED: &str = aqueduct_core::RunFailure::CANCELLED;

converter! {
    /// `SUBAGENT_*`, or steps, by the setting.
    LaneConverter
}

impl BlockEventConverter<Event> for LaneConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match (event, self.settings.subagents) {
            (BlockEvent::LaneOpened(lane), Subagents::Attributed | Subagents::Tool) => {
                out.push(started(lane));
            }
            (BlockEvent::LaneOpened(lane), Subagents::Inline) => out.push(Event::StepStarted(StepStarted {
                step_name: shown_name(lane),
                subagent_run_id: self.settings.tag(lane),
                ..StepStarted::default()
            })),
            (BlockEvent::LaneClosed { lane, outcome }, Subagents::Attributed | Subagents::Tool) => {
                out.push(ended(lane, outcome, self.settings.dialect));
            }
            (BlockEvent::LaneClosed { lane, outcome }, Subagents::Inline) => {
                self.end_inline(lane, outcome, out);
            }
            _ => {}
        }
    }
}

impl LaneConverter {
    fn end_inline(self, lane: &Lane, outcome: &LaneOutcome, out: &mut Vec<Event>) {
        let subagent_run_id = self.settings.tag(lane);
        let mut metadata = Metadata::new();
        let word = match outcome {
            LaneOutcome::Success(Some(_)) => Some("success"),
            LaneOutcome::Suspended => Some("suspended"),
            LaneOutcome::Cancelled => Some("cancelled"),
            LaneOutcome::Failed(failure) => {
                out.push(Event::Custom(Custom {
                    name: ByteString::from_static(wellknown::NOTICE),
                    value: json!({ "text": &*failure.message, "level": "error", "code": &*failure.code }),
                    subagent_run_id: subagent_run_id.clone(),
                    ..Custom::default()
                }));
                Some("failed")
            }
            _ => None,
        };
        if let Some(word) = word {
            metadata.insert(META_OUTCOME.to_owned(), Value::from(word));
        }
        if let LaneOutcome::Success(Some(value)) = outcome {
            metadata.insert("aqueduct.result".to_owned(), value.clone());
        }
        out.push(Event::StepFinished(StepFinished {
            base: noted(metadata),
            step_name: shown_name(lane),
            subagent_run_id,
        }));
    }
}

fn shown_name(lane: &Lane) -> ByteString {
    agent_name(lane).unwrap_or(ByteString::from_static(NAMELESS))
}

fn started(lane: &Lane) -> Event {
    let parent = lane.parent.as_ref().filter(|parent| !parent.is_root());
    Event::from(SubagentStarted {
        base: noted(lane.source.metadata().map(|metadata| (**metadata).clone()).unwrap_or_default()),
        subagent_run_id: lane.id.as_bytes().clone(),
        name: shown_name(lane),
        description: lane.source.description().cloned(),
        parent_subagent_run_id: parent.map(|parent| parent.id.as_bytes().clone()),
        parent_tool_call_id: lane.parent_call.as_ref().map(|call| call.as_bytes().clone()),
        parent_message_id: None,
    })
}

fn ended(lane: &Lane, outcome: &LaneOutcome, dialect: Dialect) -> Event {
    let subagent_run_id = lane.id.as_bytes().clone();
    let finished = |result: Option<Value>, outcome| {
        let base = noted(Metadata::new());
        Event::from(SubagentFinished { base, subagent_run_id: subagent_run_id.clone(), result, outcome })
    };
    match outcome {
        LaneOutcome::Success(result) => {
            let success = SubagentFinishedOutcome::Success(SubagentSuccessOutcome::default());
            let said = (dialect == Dialect::V1_0).then_some(success);
            finished(result.clone().filter(|result| !result.is_null()), said)
        }
        LaneOutcome::Suspended => {
            finished(None, Some(SubagentFinishedOutcome::Suspended(SuspendedOutcome::default())))
        }
        LaneOutcome::Failed(failure) => error(subagent_run_id, failure.message.clone(), failure.code.clone()),
        // A sub-agent that was stopped did not do what it was for, and the protocol has no word for it.
        _ => error(
            subagent_run_id,
            ByteString::from_static("the sub-agent was cancelled"),
            ByteString::from_static(CANCELLED),
        ),
    }
}

fn error(subagent_run_id: ByteString, message: ByteString, code: ByteString) -> Event {
    let code = Some(code).filter(|code| !code.is_empty());
    Event::SubagentError(SubagentError { subagent_run_id, message, code, ..SubagentError::default() })
}

converter! {
    /// `STEP_STARTED`, `STEP_FINISHED`.
    StepConverter
}

impl BlockEventConverter<Event> for StepConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            BlockEvent::StepStarted { lane, name } if !self.settings.hides(lane) => {
                out.push(Event::StepStarted(StepStarted {
                    step_name: step_name(self.settings, lane, name),
                    subagent_run_id: self.settings.tag(lane),
                    ..StepStarted::default()
                }));
            }
            BlockEvent::StepFinished { lane, name } if !self.settings.hides(lane) => {
                out.push(Event::StepFinished(StepFinished {
                    step_name: step_name(self.settings, lane, name),
                    subagent_run_id: self.settings.tag(lane),
                    ..StepFinished::default()
                }));
            }
            _ => {}
        }
    }
}

fn step_name(settings: Settings, lane: &Lane, name: &ByteString) -> ByteString {
    if lane.is_root() || settings.subagents != Subagents::Inline {
        return name.clone();
    }
    ByteString::from(format!("{}/{name}", shown_name(lane)))
}

//! Converts lanes (sub-agents) and steps, by the setting [`Subagents`].
//!
//! | | `Attributed` | `Inline` | `Tool` | `Hidden` |
//! |---|---|---|---|---|
//! | lane opens | `SUBAGENT_STARTED` | `STEP_STARTED` with the agent's name | `TOOL_CALL_START`, `_ARGS` | nothing |
//! | lane closes | `SUBAGENT_FINISHED`, `SUBAGENT_ERROR` | a `CUSTOM` notice if it failed, `STEP_FINISHED` | `TOOL_CALL_END`, `_RESULT` | nothing |
//! | failure as a text, if the settings show errors as text | no | yes | yes | no |
//! | step of a sub-agent | under its name | under `agent/step` | nothing | nothing |
//!
//! With `Tool`, a lane that a tool call of its parent opened is shown by that call, and gets no call of its own.
//!
//! With `Inline`, the step that shows the lane has the lane's tag, and the names of the steps inside the lane start with the
//! agent's name: clients reject two open steps with the same name and tag.

use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString, Lane, LaneOutcome, Metadata, wellknown};
use serde_json::{Value, json};

use super::run::push_failure_text;
use super::show::{META_IS_ERROR, META_OUTCOME, converter, shown_name, with_metadata};
use crate::config::{Dialect, Settings, Subagents};
use crate::ids::CALL_RESULT;
use crate::wire::{
    Content, Custom, Event, StepFinished, StepStarted, SubagentError, SubagentFinished,
    SubagentFinishedOutcome, SubagentStarted, SubagentSuccessOutcome, SuspendedOutcome, ToolCallArgs,
    ToolCallEnd, ToolCallResult, ToolCallStart, ToolRole,
};

/// Members of a sub-agent's metadata that may hold its input. No protocol standardises the name: the
/// first of these that is present is shown as the argument of the call.
const INPUT_MEMBERS: [&str; 6] = ["input", "task", "prompt", "query", "instructions", "message"];

/// The error code of a cancelled sub-agent.
const CANCELLED: &str = aqueduct_core::RunFailure::CANCELLED;

/// The error message of a cancelled sub-agent.
const CANCELLED_MESSAGE: &str = "the sub-agent was cancelled";

converter! {
    /// Converts lanes to `SUBAGENT_*` events, steps or tool calls, by the setting.
    LaneConverter
}

impl BlockEventConverter<Event> for LaneConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match (event, self.settings.subagents) {
            (BlockEvent::LaneOpened(lane), Subagents::Attributed) => out.push(started(lane)),
            (BlockEvent::LaneOpened(lane), Subagents::Tool) => self.start_call(lane, out),
            (BlockEvent::LaneOpened(lane), Subagents::Inline) => out.push(Event::StepStarted(StepStarted {
                step_name: shown_name(lane),
                subagent_run_id: self.settings.tag(lane),
                ..StepStarted::default()
            })),
            (BlockEvent::LaneClosed { lane, outcome }, Subagents::Attributed) => {
                out.push(ended(lane, outcome, self.settings.dialect));
            }
            // A lane that a tool call of its parent opened has no call of its own to end, but its failure is shown too.
            (BlockEvent::LaneClosed { lane, outcome }, Subagents::Tool) => {
                if has_own_call(lane) {
                    end_call(lane, outcome, out);
                }
                self.push_failure(lane, outcome, out);
            }
            (BlockEvent::LaneClosed { lane, outcome }, Subagents::Inline) => {
                self.end_inline(lane, outcome, out);
                self.push_failure(lane, outcome, out);
            }
            _ => {}
        }
    }
}

impl LaneConverter {
    /// Emits the start of the tool call that shows a lane, with the sub-agent's input as arguments. The call ends when the lane
    /// closes, so it surrounds the calls and texts of the sub-agent.
    fn start_call(self, lane: &Lane, out: &mut Vec<Event>) {
        let Some(label) = self.settings.label(lane).filter(|_| has_own_call(lane)) else { return };
        let tool_call_id = lane.id.as_bytes().clone();
        let tool_call_name = ByteString::from(label);
        let start =
            ToolCallStart { tool_call_id: tool_call_id.clone(), tool_call_name, ..ToolCallStart::default() };
        out.push(Event::ToolCallStart(start));
        let delta = ByteString::from(input_arguments(lane).to_string());
        out.push(Event::ToolCallArgs(ToolCallArgs { tool_call_id, delta, ..ToolCallArgs::default() }));
    }

    /// Appends the failure as a text, if the settings show errors as text: no frontend displays a failed call as failed.
    fn push_failure(self, lane: &Lane, outcome: &LaneOutcome, out: &mut Vec<Event>) {
        let LaneOutcome::Failed(failure) = outcome else { return };
        let name = self.settings.label(lane).map_or_else(|| shown_name(lane), ByteString::from);
        push_failure_text(self.settings, lane.id.as_str(), &name, &failure.message, out);
    }

    /// Ends the step of a sub-agent, after a notice if it failed.
    fn end_inline(self, lane: &Lane, outcome: &LaneOutcome, out: &mut Vec<Event>) {
        let subagent_run_id = self.settings.tag(lane);
        let mut metadata = Metadata::new();
        let label = match outcome {
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
        if let Some(label) = label {
            metadata.insert(META_OUTCOME.to_owned(), Value::from(label));
        }
        if let LaneOutcome::Success(Some(value)) = outcome {
            metadata.insert("aqueduct.result".to_owned(), value.clone());
        }
        out.push(Event::StepFinished(StepFinished {
            base: with_metadata(metadata),
            step_name: shown_name(lane),
            subagent_run_id,
        }));
    }
}

/// Returns `true` if [`Subagents::Tool`] shows the lane as a call of its own: it is not the root, and no tool call of its
/// parent opened it.
fn has_own_call(lane: &Lane) -> bool {
    !lane.is_root() && lane.parent_call.is_none()
}

/// Returns the input of the sub-agent as arguments of a call: `{"input": …}` from its metadata, otherwise from its
/// description; `{}` if there is neither.
fn input_arguments(lane: &Lane) -> Value {
    let input = INPUT_MEMBERS.iter().find_map(|name| lane.source.metadata()?.get(*name)).cloned();
    let input = input.or_else(|| lane.source.description().map(|text| Value::from(&**text)));
    input.map_or_else(|| json!({}), |input| json!({ "input": input }))
}

/// Emits the end and the result of the call that shows a lane. The result of a success without a value is empty:
/// [`View`](super::View) fills in the sub-agent's text.
fn end_call(lane: &Lane, outcome: &LaneOutcome, out: &mut Vec<Event>) {
    let tool_call_id = lane.id.as_bytes().clone();
    out.push(Event::ToolCallEnd(ToolCallEnd {
        tool_call_id: tool_call_id.clone(),
        ..ToolCallEnd::default()
    }));
    let mut metadata = Metadata::new();
    let mut fail = |message: &ByteString| {
        metadata.insert(META_IS_ERROR.to_owned(), Value::Bool(true));
        message.clone()
    };
    let content = match outcome {
        LaneOutcome::Success(Some(Value::String(value))) => ByteString::from(&**value),
        LaneOutcome::Success(Some(value)) if !value.is_null() => ByteString::from(value.to_string()),
        LaneOutcome::Success(_) => ByteString::default(),
        // The call ends although the lane continues in a later run: every call has a result in its run.
        LaneOutcome::Suspended => ByteString::from_static("waits for a reply"),
        LaneOutcome::Failed(failure) => fail(&failure.message),
        _ => fail(&ByteString::from_static(CANCELLED_MESSAGE)),
    };
    out.push(Event::from(ToolCallResult {
        base: with_metadata(metadata),
        subagent_run_id: None,
        // The id is derived from the id of the lane, so it is the same for every watcher. `ids` recognises the suffix.
        message_id: ByteString::from(format!("{tool_call_id}{CALL_RESULT}")),
        tool_call_id,
        content: Content::Text(content),
        role: Some(ToolRole::Tool),
    }));
}

/// Returns the start of a sub-agent. A parent that is the root is omitted.
fn started(lane: &Lane) -> Event {
    let parent = lane.parent.as_ref().filter(|parent| !parent.is_root());
    Event::from(SubagentStarted {
        base: with_metadata(lane.source.metadata().map(|metadata| (**metadata).clone()).unwrap_or_default()),
        subagent_run_id: lane.id.as_bytes().clone(),
        name: shown_name(lane),
        description: lane.source.description().cloned(),
        parent_subagent_run_id: parent.map(|parent| parent.id.as_bytes().clone()),
        parent_tool_call_id: lane.parent_call.as_ref().map(|call| call.as_bytes().clone()),
        parent_message_id: None,
    })
}

/// Returns the end of a sub-agent. The dialect 0.0.59 has no outcome `success`; `suspended` is sent in both dialects.
fn ended(lane: &Lane, outcome: &LaneOutcome, dialect: Dialect) -> Event {
    let subagent_run_id = lane.id.as_bytes().clone();
    let finished = |result: Option<Value>, outcome| {
        let base = with_metadata(Metadata::new());
        Event::from(SubagentFinished { base, subagent_run_id: subagent_run_id.clone(), result, outcome })
    };
    match outcome {
        LaneOutcome::Success(result) => {
            let success = SubagentFinishedOutcome::Success(SubagentSuccessOutcome::default());
            let outcome = (dialect == Dialect::V1_0).then_some(success);
            finished(result.clone().filter(|result| !result.is_null()), outcome)
        }
        LaneOutcome::Suspended => {
            finished(None, Some(SubagentFinishedOutcome::Suspended(SuspendedOutcome::default())))
        }
        LaneOutcome::Failed(failure) => error(subagent_run_id, failure.message.clone(), failure.code.clone()),
        // The protocol has no outcome for a cancelled sub-agent.
        _ => error(
            subagent_run_id,
            ByteString::from_static(CANCELLED_MESSAGE),
            ByteString::from_static(CANCELLED),
        ),
    }
}

/// Returns the failure of a sub-agent. An empty code is omitted.
fn error(subagent_run_id: ByteString, message: ByteString, code: ByteString) -> Event {
    let code = Some(code).filter(|code| !code.is_empty());
    Event::SubagentError(SubagentError { subagent_run_id, message, code, ..SubagentError::default() })
}

converter! {
    /// Converts steps to `STEP_STARTED` and `STEP_FINISHED`.
    StepConverter
}

impl BlockEventConverter<Event> for StepConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            BlockEvent::StepStarted { lane, name } if self.shows(lane) => {
                out.push(Event::StepStarted(StepStarted {
                    step_name: step_name(self.settings, lane, name),
                    subagent_run_id: self.settings.tag(lane),
                    ..StepStarted::default()
                }));
            }
            BlockEvent::StepFinished { lane, name } if self.shows(lane) => {
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

impl StepConverter {
    /// Returns `true` if steps of the lane are shown: neither those of hidden lanes, nor those of lanes that are shown as tool
    /// calls, because AG-UI has no steps inside a call.
    fn shows(self, lane: &Lane) -> bool {
        !self.settings.hides(lane) && self.settings.label(lane).is_none()
    }
}

/// Returns the name of a step. With `Inline`, all sub-agents share one name space, so the agent's name precedes the step's.
fn step_name(settings: Settings, lane: &Lane, name: &ByteString) -> ByteString {
    if lane.is_root() || settings.subagents != Subagents::Inline {
        return name.clone();
    }
    ByteString::from(format!("{}/{name}", shown_name(lane)))
}

//! [`ToolView`]: sub-agents as tool calls, for frontends that show tool calls and nothing of sub-agents.
//!
//! | attributed | in this view |
//! |---|---|
//! | `SUBAGENT_STARTED` of a tool call of the parent | nothing: that call shows what it was asked and its answer |
//! | `SUBAGENT_STARTED` else | a call named after the agent, with what it was asked |
//! | texts of the sub-agent | held as its answer |
//! | `SUBAGENT_FINISHED` | the call's result: the agent's value, or its last text |
//! | `SUBAGENT_ERROR` | the call's result, marked as an error |
//! | its thoughts, calls, steps, cards; agents below it | nothing |
//! | its changes of the state | the same, without tag |
//! | a run whose root says nothing | the last sub-agent's answer as a text, before the end |
//!
//! Invariants: what leaves is balanced if what enters is; held text is bounded by [`MAX_HELD`] per open sub-agent. A
//! watcher that begins in the middle sees no result of a call whose start it has not seen.

use std::collections::HashMap;

use aqueduct_core::{ByteString, Metadata};
use serde_json::{Value, json};

use super::show::{META_IS_ERROR, noted};
use crate::wire::{
    Content, Event, RunFinishedOutcome, SubagentFinished, SubagentFinishedOutcome, SubagentStarted,
    TextMessageContent, TextMessageEnd, TextMessageStart, TextRole, ToolCallArgs, ToolCallEnd,
    ToolCallResult, ToolCallStart, ToolRole,
};

/// How many bytes of a sub-agent's text are held as its answer; more is cut off.
const MAX_HELD: usize = 1 << 20;

/// Members of a sub-agent's metadata that say what it was asked.
const ASKED: [&str; 6] = ["input", "task", "prompt", "query", "instructions", "message"];

/// A sub-agent that works.
#[derive(Debug, Default)]
struct Agent {
    /// True if it is shown as a call of its own.
    is_call: bool,
    /// The message that its text belongs to, and the text.
    message: ByteString,
    text: String,
}

/// Turns attributed events into events that show sub-agents as tool calls.
#[derive(Debug, Default)]
pub struct ToolView {
    agents: HashMap<ByteString, Agent>,
    /// True if the root has said something.
    has_spoken: bool,
    /// The latest answer of a sub-agent, as message id and text.
    latest: Option<(ByteString, String)>,
}

impl ToolView {
    /// Takes the next event, and appends what is shown of it.
    pub fn handle_event(&mut self, mut event: Event, out: &mut Vec<Event>) {
        match &mut event {
            Event::SubagentStarted(started) => return self.start(started, out),
            Event::SubagentFinished(finished) => return self.finish(finished, out),
            Event::SubagentError(error) => {
                if let Some(agent) = self.agents.remove(&error.subagent_run_id).filter(|agent| agent.is_call)
                {
                    let answer = Value::from(&*error.message);
                    end_call(&error.subagent_run_id, Some(&answer), agent.text, true, out);
                }
                return;
            }
            Event::StateSnapshot(state) => state.subagent_run_id = None,
            Event::StateDelta(state) => state.subagent_run_id = None,
            Event::RunFinished(finished) => {
                if let Some(RunFinishedOutcome::Interrupt(outcome)) = &mut finished.outcome {
                    outcome.interrupts.iter_mut().for_each(|interrupt| interrupt.subagent_run_id = None);
                }
                self.answer(out);
            }
            event => {
                if let Some(tag) = event.subagent_run_id().cloned() {
                    return self.hold(&tag, event);
                }
                self.has_spoken |= matches!(event, Event::TextMessageContent(_));
            }
        }
        out.push(event);
    }

    fn start(&mut self, started: &SubagentStarted, out: &mut Vec<Event>) {
        let is_call = started.parent_tool_call_id.is_none() && started.parent_subagent_run_id.is_none();
        let id = started.subagent_run_id.clone();
        self.agents.insert(id.clone(), Agent { is_call, ..Agent::default() });
        if !is_call {
            return;
        }
        let metadata = started.base.metadata();
        let asked = ASKED.iter().find_map(|name| metadata?.get(*name)).cloned();
        let asked = asked.or_else(|| started.description.as_ref().map(|text| Value::from(&**text)));
        out.push(Event::ToolCallStart(ToolCallStart {
            tool_call_id: id.clone(),
            tool_call_name: started.name.clone(),
            ..ToolCallStart::default()
        }));
        let arguments = asked.map_or_else(|| json!({}), |asked| json!({ "input": asked }));
        let delta = ByteString::from(arguments.to_string());
        out.push(Event::ToolCallArgs(ToolCallArgs { tool_call_id: id, delta, ..ToolCallArgs::default() }));
    }

    fn finish(&mut self, finished: &SubagentFinished, out: &mut Vec<Event>) {
        let Some(agent) = self.agents.remove(&finished.subagent_run_id) else { return };
        if !agent.text.is_empty() {
            self.latest = Some((agent.message, agent.text.clone()));
        }
        let is_suspended = matches!(finished.outcome, Some(SubagentFinishedOutcome::Suspended(_)));
        if agent.is_call && is_suspended {
            let tool_call_id = finished.subagent_run_id.clone();
            out.push(Event::ToolCallEnd(ToolCallEnd { tool_call_id, ..ToolCallEnd::default() }));
        } else if agent.is_call {
            end_call(&finished.subagent_run_id, finished.result.as_ref(), agent.text, false, out);
        }
    }

    /// Each message of a sub-agent takes the place of the one before: the last one is its answer.
    fn hold(&mut self, tag: &ByteString, event: &Event) {
        let Event::TextMessageContent(content) = event else { return };
        let Some(agent) = self.agents.get_mut(tag) else { return };
        if agent.message != content.message_id {
            agent.message = content.message_id.clone();
            agent.text.clear();
        }
        let room = MAX_HELD.saturating_sub(agent.text.len()).min(content.delta.len());
        let room = (0..=room).rev().find(|at| content.delta.is_char_boundary(*at)).unwrap_or(0);
        agent.text.push_str(content.delta.get(..room).unwrap_or_default());
    }

    fn answer(&mut self, out: &mut Vec<Event>) {
        let Some((message_id, text)) = self.latest.take().filter(|_| !self.has_spoken) else { return };
        out.push(Event::TextMessageStart(TextMessageStart {
            message_id: message_id.clone(),
            role: Some(TextRole::Assistant),
            ..TextMessageStart::default()
        }));
        let (delta, base) = (ByteString::from(text), crate::wire::Base::default());
        let content =
            TextMessageContent { base, message_id: message_id.clone(), delta, subagent_run_id: None };
        out.push(Event::TextMessageContent(content));
        out.push(Event::TextMessageEnd(TextMessageEnd { message_id, ..TextMessageEnd::default() }));
    }
}

fn end_call(id: &ByteString, value: Option<&Value>, text: String, is_error: bool, out: &mut Vec<Event>) {
    out.push(Event::ToolCallEnd(ToolCallEnd { tool_call_id: id.clone(), ..ToolCallEnd::default() }));
    let content = match value {
        Some(Value::String(value)) => value.clone(),
        Some(value) if !value.is_null() => value.to_string(),
        _ => text,
    };
    let mut metadata = Metadata::new();
    if is_error {
        metadata.insert(META_IS_ERROR.to_owned(), Value::Bool(true));
    }
    out.push(Event::from(ToolCallResult {
        base: noted(metadata),
        subagent_run_id: None,
        message_id: ByteString::from(format!("{id}/result")),
        tool_call_id: id.clone(),
        content: Content::Text(content.into()),
        role: Some(ToolRole::Tool),
    }));
}

#[cfg(test)]
mod tests {
    use aqueduct_core::testing::{run_to_end, scenarios};
    use aqueduct_core::{ContentBlock, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent, Update};

    use super::*;
    use crate::config::{Dialect, Settings, Subagents};
    use crate::convert::converters;
    use crate::verify::{Level, verify};

    fn viewed(events: Vec<SourceEvent>, dialect: Dialect) -> Vec<Event> {
        let set = converters(&Settings::new(dialect).with_subagents(Subagents::Tool));
        let (mut view, mut shown, mut out) = (ToolView::default(), Vec::new(), Vec::new());
        for event in run_to_end(events) {
            set.convert(&event, &mut shown);
        }
        shown.into_iter().for_each(|event| view.handle_event(event, &mut out));
        out
    }

    fn agent() -> Source {
        Source::root().child("a").named("researcher").described("Find it.")
    }

    fn of_agent(block: ContentBlock, message: &str) -> SourceEvent {
        Update::new(block).from_source(&agent()).in_message(message).into()
    }

    fn kinds(events: &[Event]) -> Vec<&str> {
        events.iter().map(Event::kind).collect()
    }

    #[test]
    fn a_sub_agent_is_a_call_with_its_answer_as_result() {
        let out = viewed(
            vec![
                SourceEvent::LaneOpened(agent()),
                of_agent(ContentBlock::thinking("hm"), "t"),
                of_agent(ContentBlock::text("Looking."), "m1"),
                of_agent(ContentBlock::text("Found "), "m2"),
                of_agent(ContentBlock::text("it."), "m2"),
                SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
                Update::text("Done.").into(),
                SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
            ],
            Dialect::V0_0_59,
        );
        let call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"];
        assert_eq!(kinds(&out)[1..5], call);
        assert!(matches!(&out[1], Event::ToolCallStart(start) if start.tool_call_name == "researcher"));
        assert!(matches!(&out[2], Event::ToolCallArgs(args) if args.delta == r#"{"input":"Find it."}"#));
        let Event::ToolCallResult(result) = &out[4] else { panic!() };
        assert_eq!(result.content, Content::Text("Found it.".into()));
        assert!(out.iter().all(|event| event.subagent_run_id().is_none()));
    }

    #[test]
    fn a_failure_is_a_failed_result_and_an_answer_is_never_lost() {
        let failed = LaneOutcome::Failed(RunFailure::new("e", "no way"));
        let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
        let lane = |outcome| {
            let text = of_agent(ContentBlock::text("Found it."), "m");
            vec![text, SourceEvent::LaneClosed { source: agent(), outcome }, end.clone()]
        };
        let out = viewed(lane(failed), Dialect::V1_0);
        let result = out.iter().find_map(|event| match event {
            Event::ToolCallResult(result) => Some(result),
            _ => None,
        });
        let result = result.unwrap();
        assert_eq!(result.content, Content::Text("no way".into()));
        assert_eq!(result.base.metadata().unwrap()[META_IS_ERROR], true);
        // The root says nothing: the agent's answer is the run's.
        let out = viewed(lane(LaneOutcome::Success(None)), Dialect::V1_0);
        assert!(
            out.iter()
                .any(|event| matches!(event, Event::TextMessageContent(text) if text.delta == "Found it."))
        );
    }

    #[test]
    fn every_scenario_is_a_stream_that_clients_take() {
        for (name, events) in scenarios() {
            for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
                let found = verify(&viewed(events.clone(), dialect), dialect, Level::Strict);
                assert!(found.is_empty(), "{name}: {found:#?}");
            }
        }
    }
}

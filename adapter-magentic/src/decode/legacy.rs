//! Events of the older packages (core 1.0.0b251001 to b260106), named by `event_class`.
//!
//! Deltas build the text, and the completion event only ends the turn. Its message is emitted only if the stream had no text,
//! or another one (core's [`Accumulator`]).
//!
//! | class | becomes |
//! |---|---|
//! | `MagenticAgentDeltaEvent` | text, tool call or tool result of an agent |
//! | `MagenticAgentMessageEvent` | the end of its turn |
//! | `MagenticOrchestratorMessageEvent` | plan (`task_ledger`), task, instruction, notice |
//! | `WorkflowOutputEvent`, `MagenticFinalResultEvent` | the answer, once |
//! | `AgentRunUpdateEvent`, `AgentRunEvent` | intermediate content; with `magentic_event_type` as above |
//! | `RequestInfoEvent` | an interrupt |
//! | the rest | as in the current packages |
//!
//! [`Accumulator`]: aqueduct_core::accumulator::Accumulator

use aqueduct_core::accumulator::{Completion, TextFrom};
use aqueduct_core::block::{ToolOutput, ToolResult, ToolUse};
use aqueduct_core::{
    ByteString, Channel, ContentBlock, LaneOutcome, RunFailure, Source, SourceEvent, ToolCallId, Update,
    wellknown,
};
use serde_json::json;

use super::content::arguments;
use super::message::{Output, ResponseMeta};
use super::run::Run;
use crate::names;
use crate::wire::{AgentResponseUpdate, Json, Line, MagenticProperties, Message};

/// The manager's executor, for events that do not name it.
const ORCHESTRATOR: &str = "magentic_orchestrator";

impl Run {
    /// Handles an event of the older packages. Returns `false` if its class is unknown.
    pub(super) fn handle_legacy(&mut self, text: &ByteString, line: &Line<'_>) -> bool {
        let executor = line.executor_id.as_deref().or(line.source_executor_id.as_deref());
        let answer = Output { line: text, executor, channel: Channel::Answer };
        match line.event_class.as_deref().unwrap_or_default() {
            "WorkflowStartedEvent" => {}
            "WorkflowStatusEvent" => return self.handle_status(line.state.as_deref()),
            "WorkflowOutputEvent" => self.handle_output(answer, line.data),
            "AgentRunUpdateEvent" | "AgentResponseUpdateEvent" | "AgentRunEvent" | "AgentResponseEvent" => {
                self.handle_output(Output { channel: Channel::Intermediate, ..answer }, line.data);
            }
            "MagenticAgentDeltaEvent" => self.handle_delta(text, line),
            "MagenticAgentMessageEvent" => return self.handle_agent_message(line),
            "MagenticOrchestratorMessageEvent" => return self.handle_orchestrator_message(line),
            "MagenticFinalResultEvent" => return self.handle_final_result(text, line),
            "MagenticOrchestratorEvent" => return self.handle_orchestrator(executor, line.data),
            "GroupChatRequestSentEvent" | "GroupChatResponseReceivedEvent" => {
                return self.handle_group_chat(line.data);
            }
            "HandoffSentEvent" => return self.handle_handoff(line.data),
            "RequestInfoEvent" => self.handle_request(text, line),
            "SuperStepStartedEvent" => self.step_started(super::workflow::superstep(line.iteration)),
            "SuperStepCompletedEvent" => self.step_finished(super::workflow::superstep(line.iteration)),
            "ExecutorInvokedEvent" => self.start_turn(executor.unwrap_or_default()),
            "ExecutorCompletedEvent" => self.end_turn(executor.unwrap_or_default(), None),
            "ExecutorFailedEvent" => self.handle_executor_failed(executor, line.details.as_ref()),
            "WorkflowFailedEvent" => self.record_failure(executor, line.details.as_ref()),
            "WorkflowWarningEvent" => self.handle_remark(executor, "warning", line.data),
            "WorkflowErrorEvent" => self.handle_remark(executor, "error", line.data),
            _ => return false,
        }
        true
    }

    /// Handles a fragment of text, a call or a result: the three are fields of one class.
    fn handle_delta(&mut self, text: &ByteString, line: &Line<'_>) {
        let agent = line.agent_id.as_deref().unwrap_or_default();
        let source = self.agent(agent);
        if let Some(delta) = line.text.as_ref().filter(|delta| !delta.is_empty()) {
            self.accumulate(|turns| turns.handle_delta(agent, delta));
            self.emit_delta(&source, ContentBlock::text(delta.share(text)), false);
        }
        if line.function_call_id.is_some()
            || line.function_call_name.as_deref().is_some_and(|n| !n.is_empty())
        {
            self.accumulate(|turns| turns.handle_tool(agent));
            let (arguments, whole) = arguments(line.function_call_arguments, text);
            let name = line.function_call_name.as_ref().filter(|name| !name.is_empty());
            let call = ToolUse {
                id: line.function_call_id.as_ref().map(|id| ToolCallId::new(id.share(text))),
                name: name.map(|name| name.share(text)),
                arguments,
            };
            self.emit_delta(&source, ContentBlock::from(call), whole);
        }
        if line.function_result_id.is_some() || line.function_result.is_some() {
            self.accumulate(|turns| turns.handle_tool(agent));
            let output = match line.function_result.map(|result| (result, result.text())) {
                Some((_, Some(result))) => ToolOutput::Text(result.share(text)),
                Some((result, None)) => ToolOutput::Json(result.value()),
                None => ToolOutput::default(),
            };
            let id = line.function_result_id.as_ref().map(|id| ToolCallId::new(id.share(text)));
            // The class has no field for failures; the framework starts the text of a failure with this word.
            let is_error = matches!(&output, ToolOutput::Text(text) if text.starts_with("Error:"));
            let result = ToolResult { id, name: None, output, is_error };
            self.emit_delta(&source, ContentBlock::from(result), true);
        }
    }

    /// Emits a fragment on the intermediate channel.
    fn emit_delta(&mut self, source: &Source, block: ContentBlock, last: bool) {
        let mut update = Update::new(block).from_source(source).intermediate();
        update.last = last;
        self.emit(update.into());
    }

    /// Handles the end of an agent's turn.
    fn handle_agent_message(&mut self, line: &Line<'_>) -> bool {
        let agent = line.agent_id.as_deref().unwrap_or_default();
        let message = line.message.and_then(Json::read::<Message<'_>>);
        let text = message.map(|message| message.text()).unwrap_or_default();
        let is_error = is_outage(agent, &text);
        let done = self.accumulator.handle_completion(agent, &text, is_error);
        let source = self.agent(agent);
        self.emit_completion(&source, &done, is_error);
        if is_error {
            let failure = RunFailure::new(RunFailure::AGENT_FAILED, ByteString::from(text));
            self.emit(SourceEvent::LaneClosed { source, outcome: LaneOutcome::Failed(failure) });
        }
        true
    }

    /// Emits the end of a turn according to the [`Completion`](aqueduct_core::accumulator::Completion).
    fn emit_completion(&mut self, source: &Source, done: &Completion, is_error: bool) {
        let level = if is_error { "error" } else { "info" };
        match done.from {
            TextFrom::Nothing => {}
            TextFrom::Stream => {
                self.emit(Update::text("").from_source(source).intermediate().last().into());
                // The message is the last one of the turn, so it adds nothing if the stream ends with it.
                let news = |text: &&ByteString| {
                    !self.is_turn_too_long && !done.text.trim_end().ends_with(text.trim())
                };
                if let Some(notice) = done.notice.as_ref().filter(news) {
                    self.notice(source, level, notice);
                }
            }
            TextFrom::Completion if done.is_error => self.notice(source, level, &done.text),
            TextFrom::Completion | TextFrom::Fallback => {
                let mut update = Update::text(done.text.clone()).from_source(source).intermediate().last();
                let from = if done.from == TextFrom::Fallback { "fallback" } else { "completion" };
                let mut metadata = aqueduct_core::Metadata::new();
                metadata.insert(wellknown::META_TEXT_FROM.to_owned(), json!(from));
                update.details_mut().metadata = Some(std::sync::Arc::new(metadata));
                self.emit(update.into());
            }
        }
    }

    /// Ends the turns without completion event: their text was already emitted.
    pub(super) fn flush_turns(&mut self) {
        let open: Vec<String> = self.accumulator.open_turns().map(str::to_owned).collect();
        for agent in open {
            self.accumulator.handle_completion(&agent, "", false);
        }
    }

    /// Handles a message of the manager. Returns `false` if the line has none.
    fn handle_orchestrator_message(&mut self, line: &Line<'_>) -> bool {
        let Some(message) = line.message.and_then(Json::read::<Message<'_>>) else {
            return false;
        };
        let orchestrator = line.orchestrator_id.as_deref().unwrap_or(ORCHESTRATOR);
        self.emit_orchestrator(
            orchestrator,
            line.message_kind.as_deref().unwrap_or_default(),
            &message.text(),
        );
        true
    }

    /// Emits a message of the manager: plan, task, instruction or notice.
    fn emit_orchestrator(&mut self, orchestrator: &str, kind: &str, text: &str) {
        self.sources.orchestrates(orchestrator);
        let source = self.sources.executor(orchestrator);
        match kind {
            "task_ledger" => self.emit_plan(&source, text),
            "user_task" => self.custom(&source, names::TASK, json!({ "text": text })),
            "instruction" => self.custom(&source, names::INSTRUCTION, json!({ "text": text })),
            "notice" => self.notice(&source, "info", text),
            other => {
                let name = format!("{}{other}", names::CONTENT_PREFIX);
                self.custom(&source, name, json!({ "text": text }));
            }
        }
    }

    /// Handles the repeated answer: `WorkflowOutputEvent` precedes it with the same text.
    fn handle_final_result(&mut self, text: &ByteString, line: &Line<'_>) -> bool {
        let Some(message) = line.message.and_then(Json::read::<Message<'_>>) else {
            return false;
        };
        let author = message.author_name.as_deref();
        let maker = self.sources.maker(Some(ORCHESTRATOR), author, message.message_id.as_deref());
        if !self.history.has_text(&maker, Channel::Answer, &message.text()) {
            let answer = Output { line: text, executor: Some(ORCHESTRATOR), channel: Channel::Answer };
            self.handle_messages(answer, std::slice::from_ref(&message), &ResponseMeta::default());
        }
        true
    }

    /// Handles an update of the intermediate packages, whose properties contain its kind. Returns `false` if they do not.
    pub(super) fn handle_magentic_update(
        &mut self,
        output: Output<'_>,
        update: &AgentResponseUpdate<'_>,
    ) -> bool {
        let Some(properties) =
            update.additional_properties.filter(|p| p.as_str().contains("magentic_event_type"))
        else {
            return false;
        };
        let Some(properties) = properties.read::<MagenticProperties<'_>>() else { return false };
        match properties.event_type.as_deref() {
            Some("orchestrator_message") => {
                let text: String =
                    update.contents.iter().filter_map(|content| content.text.as_deref()).collect();
                let orchestrator = properties.orchestrator_id.as_deref().or(output.executor);
                let kind = properties.kind.as_deref().unwrap_or_default();
                self.emit_orchestrator(orchestrator.unwrap_or(ORCHESTRATOR), kind, &text);
                true
            }
            Some("agent_delta") => {
                let executor = properties.agent_id.as_deref().or(output.executor);
                let mut plain = update.clone();
                plain.additional_properties = None;
                self.handle_update(Output { executor, ..output }, &plain);
                true
            }
            _ => false,
        }
    }

    /// Emits a warning or an error that does not end the run, as a notice.
    pub(super) fn handle_remark(&mut self, executor: Option<&str>, level: &str, data: Option<Json<'_>>) {
        let source = executor.map_or_else(Source::root, |id| self.sources.executor(id));
        let text =
            data.map(|data| data.text().map_or_else(|| data.as_str().to_owned(), |text| text.to_string()));
        self.notice(&source, level, text.as_deref().unwrap_or("(no text)"));
    }

    /// Returns the source of a named agent; the root if the name is empty.
    fn agent(&mut self, agent: &str) -> Source {
        if agent.is_empty() { Source::root() } else { self.sources.executor(agent) }
    }

    /// Adds to the accumulator. Content beyond its limit is still emitted; only the completion cannot be compared with it.
    fn accumulate<E>(
        &mut self,
        take: impl FnOnce(&mut aqueduct_core::accumulator::Accumulator) -> Result<(), E>,
    ) {
        self.is_turn_too_long |= take(&mut self.accumulator).is_err();
    }
}

/// Returns `true` for the text that the older packages send in place of an agent that raised an exception.
fn is_outage(agent: &str, text: &str) -> bool {
    text.strip_prefix("Agent ")
        .and_then(|rest| rest.strip_prefix(agent))
        .is_some_and(|rest| rest.starts_with(": Error processing request"))
}

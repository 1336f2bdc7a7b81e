//! Events of the current packages: one class, distinguished by `type`.
//!
//! | type | becomes |
//! |---|---|
//! | `output` | content on the answer channel |
//! | `intermediate`, `data` | content on the intermediate channel |
//! | `request_info` | an interrupt |
//! | `superstep_*`, `executor_*` | steps; the end of a turn closes the executor's lane |
//! | `magentic_orchestrator`, `group_chat`, `handoff_sent` | plan and custom blocks |
//! | `warning`, `error` | notices |
//! | `status` | the end of the run, if it is one |
//! | `failed`, `executor_failed` | kept for the end of the run |
//!
//! An executor that is invoked with `should_respond: false` receives a broadcast, which is not a turn. The data of
//! `executor_invoked` and `executor_completed` repeats the conversation and is not emitted; it only provides the authors of
//! messages and the usage.

use std::borrow::Cow;

use aqueduct_core::{ByteString, Channel, Role, RunOutcome, Source, SourceEvent, Update};

use super::failure::failure;
use super::message::{Output, ResponseMeta, role};
use super::run::Run;
use super::usage::usage;
use crate::wire::{
    AgentExecutorRequest, AgentExecutorResponse, AgentResponse, AgentResponseUpdate, Content, ContentType,
    ErrorDetails, Json, Line, Message, Tagged,
};

impl Run {
    /// Handles a workflow event. Returns `false` if its type is unknown.
    pub(super) fn handle_workflow(&mut self, text: &ByteString, line: &Line<'_>) -> bool {
        let executor = line.executor_id.as_deref();
        let answer = Output { line: text, executor, channel: Channel::Answer };
        match line.kind.as_deref().unwrap_or_default() {
            "started" => {}
            "status" => return self.handle_status(line.state.as_deref()),
            "output" => self.handle_output(answer, line.data),
            "intermediate" | "data" => {
                self.handle_output(Output { channel: Channel::Intermediate, ..answer }, line.data);
            }
            "request_info" => self.handle_request(text, line),
            "superstep_started" => self.step_started(superstep(line.iteration)),
            "superstep_completed" => self.step_finished(superstep(line.iteration)),
            "executor_invoked" => self.handle_invoked(executor, line.data),
            "executor_completed" => self.handle_completed(executor, line.data),
            "executor_bypassed" => self.end_turn(executor.unwrap_or_default(), None),
            "executor_failed" => self.handle_executor_failed(executor, line.details.as_ref()),
            "failed" => self.record_failure(executor, line.details.as_ref()),
            "magentic_orchestrator" => return self.handle_orchestrator(executor, line.data),
            "group_chat" => return self.handle_group_chat(line.data),
            "handoff_sent" => return self.handle_handoff(line.data),
            level @ ("warning" | "error") => self.handle_remark(executor, level, line.data),
            _ => return false,
        }
        true
    }

    /// Records the failure of an executor, and ends its turn with it.
    pub(super) fn handle_executor_failed(
        &mut self,
        executor: Option<&str>,
        details: Option<&ErrorDetails<'_>>,
    ) {
        self.record_failure(executor, details);
        self.end_turn(executor.unwrap_or_default(), Some(failure(executor, details)));
    }

    /// Handles a state of the run. Only a final state ends the run; an output never does.
    pub(super) fn handle_status(&mut self, state: Option<&str>) -> bool {
        match state.unwrap_or_default() {
            "STARTED" | "IN_PROGRESS" | "IN_PROGRESS_PENDING_REQUESTS" => {}
            "IDLE" => self.finish(RunOutcome::Success),
            "IDLE_WITH_PENDING_REQUESTS" => self.finish(RunOutcome::Interrupted),
            "CANCELLED" => self.finish(RunOutcome::Cancelled),
            "FAILED" => self.start_failing(),
            _ => return false,
        }
        true
    }

    /// Handles the output of an executor.
    pub(super) fn handle_output(&mut self, output: Output<'_>, data: Option<Json<'_>>) {
        let Some(data) = data else { return };
        let Output { line, executor, channel } = output;
        let source = executor.map_or_else(Source::root, |id| self.sources.executor(id));
        if let Some(text) = data.text() {
            let mut update = Update::text(text.share(line)).from_source(&source).last();
            update.channel = channel;
            self.produced |= channel == Channel::Answer;
            return self.emit(update.into());
        }
        if let Some(list) = data.list() {
            return self.handle_list(output, data, &list);
        }
        match payload(data) {
            Payload::Update(update) => {
                if !self.handle_magentic_update(output, &update) {
                    self.handle_update(output, &update);
                }
            }
            Payload::Response(response) => self.handle_response(output, &response),
            Payload::ExecutorResponse(response) => {
                let executor = response.executor_id.as_deref().or(executor);
                self.handle_response(Output { executor, ..output }, &response.agent_response);
            }
            Payload::Message(message) => {
                self.handle_messages(output, std::slice::from_ref(&message), &ResponseMeta::default());
            }
            Payload::Content(content) => {
                let update =
                    AgentResponseUpdate { contents: vec![*content], ..AgentResponseUpdate::default() };
                self.handle_update(output, &update);
            }
            Payload::Other => self.data(&source, channel, data.value()),
        }
    }

    /// Handles a list: a conversation, or several outputs of an executor. Any other list is data.
    fn handle_list(&mut self, output: Output<'_>, data: Json<'_>, list: &[Json<'_>]) {
        let messages: Vec<Message<'_>> = list.iter().filter_map(|item| read_message(*item)).collect();
        let all = |fits: fn(&Payload<'_>) -> bool| list.iter().all(|item| fits(&payload(*item)));
        if list.is_empty() || messages.is_empty() && all(|item| matches!(item, Payload::Other)) {
            let source = output.executor.map_or_else(Source::root, |id| self.sources.executor(id));
            self.data(&source, output.channel, data.value());
        } else if messages.len() == list.len() {
            self.handle_conversation(output, &messages);
        } else {
            for item in list {
                self.handle_output(output, Some(*item));
            }
        }
    }

    /// Handles a conversation that is output as a whole: user messages are not output. The messages of an aggregator are the
    /// answer; otherwise the last message is the answer, and the earlier ones are intermediate.
    fn handle_conversation(&mut self, output: Output<'_>, messages: &[Message<'_>]) {
        let gathered = output.executor == Some("aggregator");
        let last = messages.iter().rposition(|message| role(message.role.as_deref()) == Role::Assistant);
        let split = if gathered { 0 } else { last.unwrap_or(0) };
        let (before, after) = messages.split_at_checked(split).unwrap_or((&[], messages));
        let meta = ResponseMeta::default();
        self.handle_messages(Output { channel: Channel::Intermediate, ..output }, before, &meta);
        self.handle_messages(output, after, &meta);
    }

    /// Handles the start of an executor: a turn, unless it is a broadcast.
    fn handle_invoked(&mut self, executor: Option<&str>, data: Option<Json<'_>>) {
        let Some(executor) = executor else { return };
        self.sources.invoked(executor);
        let request = data.and_then(Json::read::<AgentExecutorRequest<'_>>);
        let broadcast = request.is_some_and(|request| request.should_respond == Some(false));
        if !broadcast {
            self.start_turn(executor);
        }
    }

    /// Records that an executor works. Beyond the limit no further executor is recorded.
    pub(super) fn start_turn(&mut self, executor: &str) {
        let name = ByteString::from(executor);
        if !self.turns.contains(&name) && self.turns.len() < self.max_turns {
            self.waiting.retain(|waiting| *waiting != name);
            self.turns.push(name.clone());
            self.step_started(name);
        }
    }

    /// Handles the end of an executor: records its messages and usage, and ends its turn.
    fn handle_completed(&mut self, executor: Option<&str>, data: Option<Json<'_>>) {
        let Some(executor) = executor else { return };
        if !self.turns.iter().any(|turn| **turn == *executor) {
            // The end of a broadcast.
            return;
        }
        for part in data.and_then(Json::list).unwrap_or_default() {
            if let Payload::ExecutorResponse(response) = payload(part) {
                self.learn(executor, &response);
            }
        }
        self.end_turn(executor, None);
    }

    /// Records the authors of messages, and the usage of a turn without streaming.
    fn learn(&mut self, executor: &str, response: &AgentExecutorResponse<'_>) {
        let response_of = response.executor_id.as_deref().unwrap_or(executor);
        if response_of != executor {
            return;
        }
        for message in &response.agent_response.messages {
            self.sources.made(executor, message.author_name.as_deref(), message.message_id.as_deref());
        }
        let Some(details) = response.agent_response.usage_details else { return };
        if let Some(usage) = self.spending.total(executor, &usage(details)) {
            // A hidden agent has no lane, and its usage must not open one.
            self.emit(SourceEvent::Usage { source: Source::root(), usage: Box::new(usage) });
        }
    }
}

/// Returns the name of a step from its iteration.
pub(super) fn superstep(iteration: Option<u64>) -> ByteString {
    match iteration {
        Some(iteration) => format!("superstep {iteration}").into(),
        None => ByteString::from_static("superstep"),
    }
}

/// The known classes of a payload.
pub(super) enum Payload<'de> {
    Update(Box<AgentResponseUpdate<'de>>),
    Response(Box<AgentResponse<'de>>),
    ExecutorResponse(Box<AgentExecutorResponse<'de>>),
    Message(Box<Message<'de>>),
    Content(Box<Content<'de>>),
    Other,
}

/// Parses a payload by its class.
pub(super) fn payload(data: Json<'_>) -> Payload<'_> {
    let (class, kind) = match data.first_field() {
        Some(("type", kind)) => (None, Some(Cow::Borrowed(kind))),
        Some(("__class__", class)) => (Some(Cow::Borrowed(class)), None),
        _ => {
            let tag = data.read::<Tagged<'_>>().unwrap_or_default();
            (tag.class.map(|class| class.to_string().into()), tag.kind.map(|kind| kind.to_string().into()))
        }
    };
    let read = match (class.as_deref(), kind.as_deref()) {
        (Some("AgentExecutorResponse"), _) => data.read().map(|it| Payload::ExecutorResponse(Box::new(it))),
        (_, Some("agent_response_update" | "agent_run_response_update")) => {
            data.read().map(|it| Payload::Update(Box::new(it)))
        }
        (_, Some("agent_response" | "agent_run_response")) => {
            data.read().map(|it| Payload::Response(Box::new(it)))
        }
        (_, Some("message" | "chat_message")) => data.read().map(|it| Payload::Message(Box::new(it))),
        (None, Some(kind)) if ContentType::from_name(kind).is_some() => {
            data.read().map(|it| Payload::Content(Box::new(it)))
        }
        _ => None,
    };
    read.unwrap_or(Payload::Other)
}

/// Returns the message in a payload. Returns `None` for any other payload.
fn read_message(data: Json<'_>) -> Option<Message<'_>> {
    match payload(data) {
        Payload::Message(message) => Some(*message),
        _ => None,
    }
}

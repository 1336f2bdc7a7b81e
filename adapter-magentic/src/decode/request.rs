//! Requests to a human (`request_info` events and contents that need a reply) as interrupts.
//!
//! | request | reason | reply |
//! |---|---|---|
//! | `function_approval_request` | `tool_call` | `{"approved": bool}` |
//! | `oauth_consent_request` | `auth_required` | none: open the URL, then start again |
//! | `AgentExecutorResponse` (an agent's answer under review) | `confirmation` | `{"feedback"?: text}`; without it the answer is accepted |
//! | `MagenticPlanReviewRequest` | `magentic:plan_review` | `{"approved": bool, "feedback"?: text}` |
//! | `HandoffAgentUserRequest` | `input_required` | `{"text": …}`; declined: the workflow ends |
//! | any other | `magentic:<class>` | according to its response type |
//!
//! The interrupt's metadata contains the whole request.

use std::sync::Arc;

use aqueduct_core::block::ToolUse;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, Metadata, Source, SourceEvent, ToolCallId, Update,
    wellknown,
};
use serde_json::{Value, json};

use super::content::{arguments, function_call};
use super::message::{Output, ResponseMeta};
use super::plan::plan;
use super::run::{PendingRequest, Run};
use crate::names;
use crate::reply::{Request, RequestKind};
use crate::wire::{
    AgentExecutorResponse, AgentResponse, Content, ContentType, HandoffAgentUserRequest, Json,
    LegacyPlanReviewRequest, Line, Message, PlanReviewRequest, Tagged,
};

/// An interrupt under construction: the part that depends on the class of the request.
/// `Run::request` adds id and metadata, and keeps `kind` to encode the reply in the form that the
/// class expects.
struct InterruptDraft {
    kind: RequestKind,
    reason: ByteString,
    message: Option<String>,
    schema: Option<Value>,
    call: Option<ToolCallId>,
}

impl InterruptDraft {
    /// Returns a draft without message, schema and call.
    fn new(kind: RequestKind, reason: impl Into<ByteString>) -> Self {
        Self { kind, reason: reason.into(), message: None, schema: None, call: None }
    }

    /// Sets the text for the user. A blank text counts as none.
    fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into()).filter(|message| !message.trim().is_empty());
        self
    }

    /// Sets the JSON Schema of the reply.
    fn with_schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }
}

impl Run {
    /// Handles a `request_info` event.
    pub(super) fn handle_request(&mut self, text: &ByteString, line: &Line<'_>) {
        let Some(id) = line.request_id.as_deref() else {
            return self.raw(text);
        };
        let executor = line.source_executor_id.as_deref().or(line.executor_id.as_deref());
        let source = executor.map_or_else(Source::root, |id| self.sources.executor(id));
        let draft = self.interrupt_of(text, executor, &source, line);
        let mut metadata = Metadata::new();
        let texts = [("request_type", &line.request_type), ("response_type", &line.response_type)];
        for (key, text) in texts {
            if let Some(text) = text {
                metadata.insert(key.to_owned(), json!(&**text));
            }
        }
        if let Some(executor) = executor {
            metadata.insert("source_executor_id".to_owned(), json!(executor));
            self.record_waiting(executor);
        }
        if let Some(data) = line.data {
            metadata.insert("data".to_owned(), data.value());
        }
        self.request(&source, id, draft, metadata);
    }

    /// Handles a content object that needs a reply.
    pub(super) fn handle_request_content(&mut self, source: &Source, content: &Content<'_>) {
        let Some(draft) = content_interrupt(content) else { return };
        self.emit_waiting_call(source, content);
        let maker = draft.call.as_ref().and_then(|call| self.calls.get(call.as_str())).cloned();
        let source = &maker.unwrap_or_else(|| source.clone());
        let id = content.id.as_deref().or(content.call_id.as_deref()).unwrap_or("consent");
        let mut metadata = Metadata::new();
        if let Some(call) = &content.function_call {
            metadata.insert("function_call".to_owned(), function_call(call));
        }
        for (key, value) in &content.unknown {
            metadata.insert((**key).to_owned(), value.value());
        }
        self.request(source, id, draft, metadata);
    }

    /// Handles a call of the pseudo tool `request_info`, the form of a request in `as_agent()`. Returns `false` if it is not one.
    pub(super) fn handle_request_call(&mut self, source: &Source, content: &Content<'_>) -> bool {
        if content.content_type() != Some(ContentType::FunctionCall)
            || content.name.as_deref() != Some("request_info")
        {
            return false;
        }
        let Some(arguments) = content.arguments.map(Json::value) else { return false };
        let event = arguments.get("request_event").cloned().unwrap_or_default();
        let id = content.call_id.as_deref().or_else(|| arguments.get("request_id").and_then(Value::as_str));
        let Some(id) = id else { return false };
        let class = event.get("request_type").and_then(Value::as_str).map_or("request_info", class_of);
        let response = event.get("response_type").and_then(Value::as_str);
        let draft = match class {
            "AgentExecutorResponse" => review(RequestKind::Review),
            "MagenticPlanReviewRequest" => plan_review(RequestKind::PlanReview),
            "HandoffAgentUserRequest" => user_input(),
            other => unknown_interrupt(other, response),
        };
        let metadata = event.as_object().cloned().unwrap_or_default();
        let asker =
            event.get("source_executor_id").and_then(Value::as_str).map(|id| self.sources.executor(id));
        let source = &asker.unwrap_or_else(|| source.clone());
        self.request(source, id, draft, metadata);
        true
    }

    /// Emits the call that waits for an approval, unless it was streamed: without streaming only the request contains it.
    fn emit_waiting_call(&mut self, source: &Source, content: &Content<'_>) {
        let Some(call) = content.function_call.as_deref() else { return };
        let Some(id) = call.call_id.as_deref().or(call.id.as_deref()) else { return };
        if self.calls.contains_key(id) {
            return;
        }
        let id = ToolCallId::from(id);
        self.record_call(Some(&id), source);
        let (arguments, _) = arguments(call.arguments, &ByteString::new());
        let name = call.name.as_deref().or(call.tool_name.as_deref()).map(ByteString::from);
        let call = ContentBlock::from(ToolUse { id: Some(id), name, arguments });
        self.emit(Update::new(call).from_source(source).snapshot().last().into());
    }

    /// Emits the interrupt of a request, and keeps the request for the reply.
    fn request(&mut self, source: &Source, id: &str, draft: InterruptDraft, metadata: Metadata) {
        if self.requests.iter().any(|asked| asked.request.id == id) {
            return;
        }
        let mut interrupt = Interrupt::new(ByteString::from(id), draft.reason);
        interrupt.message = draft.message.map(ByteString::from);
        interrupt.response_schema = draft.schema;
        interrupt.tool_call_id = draft.call;
        interrupt.metadata = (!metadata.is_empty()).then(|| Arc::new(metadata));
        let request = Request { id: id.to_owned(), kind: draft.kind };
        self.earlier.retain(|asked| asked.request.id != id);
        self.requests.push(PendingRequest { source: source.clone(), interrupt: interrupt.clone(), request });
        if self.requests.len() > self.max_requests {
            self.requests.remove(0);
        }
        self.emit(SourceEvent::InterruptRequested { source: source.clone(), interrupt: Box::new(interrupt) });
    }

    /// Returns the interrupt for a request of any class, by the class of its data.
    fn interrupt_of(
        &mut self,
        text: &ByteString,
        executor: Option<&str>,
        source: &Source,
        line: &Line<'_>,
    ) -> InterruptDraft {
        let named = line.request_type.as_deref().map(class_of);
        let response = line.response_type.as_deref();
        let tag = line.data.and_then(Json::read::<Tagged<'_>>).unwrap_or_default();
        let class = tag.class.as_deref().or(named).unwrap_or("request_info");
        let Some(data) = line.data else { return unknown_interrupt(class, response) };
        if let Some(content) = data.read::<Content<'_>>()
            && let Some(draft) = content_interrupt(&content)
        {
            self.emit_waiting_call(source, &content);
            return draft;
        }
        let draft = match class {
            "AgentExecutorResponse" => data.read::<AgentExecutorResponse<'_>>().map(|reviewed| {
                self.emit_reviewed(text, executor, &reviewed.agent_response);
                review(RequestKind::Review).with_message(last_text(&reviewed.agent_response))
            }),
            "HandoffAgentUserRequest" => data.read::<HandoffAgentUserRequest<'_>>().map(|asked| {
                self.emit_reviewed(text, executor, &asked.agent_response);
                user_input().with_message(last_text(&asked.agent_response))
            }),
            "MagenticPlanReviewRequest" => self.plan_interrupt(source, data),
            _ => None,
        };
        draft.unwrap_or_else(|| {
            unknown_interrupt(class, response).with_message(asked(data).unwrap_or_default())
        })
    }

    /// Emits the plan under review, and returns its interrupt.
    fn plan_interrupt(&mut self, source: &Source, data: Json<'_>) -> Option<InterruptDraft> {
        let legacy: LegacyPlanReviewRequest<'_> = data.read()?;
        if let Some(text) = &legacy.plan_text {
            if self.last_plan.as_deref().is_none_or(|shown| !shown.contains(text.trim())) {
                let text = format!("Here is the plan to follow as best as possible:\n\n{}", &**text);
                self.last_plan = Some(text.clone());
                self.custom(source, wellknown::PLAN, plan(&text));
            }
            return Some(plan_review(RequestKind::LegacyPlanReview).with_message(&**text));
        }
        let request: PlanReviewRequest<'_> = data.read()?;
        let text = request.plan.as_ref().map(Message::text)?;
        self.emit_plan(source, &text);
        Some(plan_review(RequestKind::PlanReview).with_message(text.trim()))
    }

    /// Emits the content under review, unless the agent has already streamed it: an agent under review streams nothing, one in a
    /// handoff has streamed everything.
    fn emit_reviewed(&mut self, line: &ByteString, executor: Option<&str>, response: &AgentResponse<'_>) {
        for message in &response.messages {
            let source =
                self.sources.maker(executor, message.author_name.as_deref(), message.message_id.as_deref());
            self.history.finish_all(&source);
            let text = message.text();
            let emitted = [Channel::Answer, Channel::Intermediate]
                .into_iter()
                .any(|channel| self.history.has_text(&source, channel, &text));
            if !emitted {
                let output = Output { line, executor, channel: Channel::Intermediate };
                let meta = ResponseMeta::of(response, line);
                self.handle_messages(output, std::slice::from_ref(message), &meta);
            }
        }
    }
}

/// Returns the interrupt for a request inside a message: approval of a call, or input of the user.
fn content_interrupt(content: &Content<'_>) -> Option<InterruptDraft> {
    match content.content_type()? {
        ContentType::FunctionApprovalRequest => {
            let call = content.function_call.as_deref();
            let name = call.and_then(|call| call.name.as_deref()).unwrap_or("a tool");
            let kind = RequestKind::Approval { function_call: call.map(function_call).unwrap_or_default() };
            let mut draft =
                InterruptDraft::new(kind, "tool_call").with_message(format!("approve the call of {name}?"));
            let id = call.and_then(|call| call.call_id.as_deref().or(call.id.as_deref()));
            draft.call = id.map(ToolCallId::from);
            let approved = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]});
            Some(draft.with_schema(approved))
        }
        ContentType::OauthConsentRequest => {
            let link = content.unknown.iter().find(|(key, _)| &**key == "consent_link");
            let link = link.and_then(|(_, link)| link.text()).or_else(|| content.uri.clone());
            let asks = link.map_or_else(
                || "consent is needed".to_owned(),
                |link| format!("consent is needed: {}", &*link),
            );
            Some(InterruptDraft::new(RequestKind::Other, "auth_required").with_message(asks))
        }
        _ => None,
    }
}

/// Returns the interrupt for a review: without feedback the answer stands.
fn review(kind: RequestKind) -> InterruptDraft {
    let schema = json!({"type": "object", "properties": {"feedback": {"type": "string", "description": "what to change; without it the answer stands"}}});
    InterruptDraft::new(kind, "confirmation").with_schema(schema)
}

/// Returns the interrupt for the review of a plan: approval, or feedback that revises it.
fn plan_review(kind: RequestKind) -> InterruptDraft {
    let schema = json!({"type": "object", "properties": {"approved": {"type": "boolean"}, "feedback": {"type": "string", "description": "what to change, if it is not approved"}}, "required": ["approved"]});
    InterruptDraft::new(kind, names::PLAN_REVIEW).with_schema(schema)
}

/// Returns the interrupt for free text.
fn user_input() -> InterruptDraft {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    InterruptDraft::new(RequestKind::UserInput, "input_required").with_schema(schema)
}

/// Returns the interrupt for a class that the adapter does not know. The type that the framework expects becomes the schema of the
/// reply, if it is a plain one.
fn unknown_interrupt(class: &str, response_type: Option<&str>) -> InterruptDraft {
    let mut draft = InterruptDraft::new(RequestKind::Other, format!("{}{class}", names::REASON_PREFIX));
    let kind = match response_type.map(class_of) {
        Some("str") => Some("string"),
        Some("bool") => Some("boolean"),
        Some("int") => Some("integer"),
        Some("float") => Some("number"),
        Some("dict") => Some("object"),
        Some("list") => Some("array"),
        _ => None,
    };
    draft.schema = kind.map(|kind| json!({ "type": kind }));
    draft
}

/// Returns the last name of a Python class: of `a.b.C` and of `<class 'a.b.C'>`.
fn class_of(path: &str) -> &str {
    let path = path.strip_prefix("<class '").and_then(|rest| rest.strip_suffix("'>")).unwrap_or(path);
    path.rsplit('.').next().unwrap_or(path)
}

/// Returns the message of a user-defined request: its text, or the usual field of such classes.
/// Returns `None` for a request of another form.
fn asked(data: Json<'_>) -> Option<String> {
    match data.value() {
        Value::String(text) => Some(text),
        Value::Object(mut fields) => {
            let names = ["prompt", "question", "message", "text"];
            names.iter().find_map(|name| match fields.remove(*name) {
                Some(Value::String(text)) => Some(text),
                _ => None,
            })
        }
        _ => None,
    }
}

/// Returns the last text of a response that is not blank.
fn last_text(response: &AgentResponse<'_>) -> String {
    response.messages.iter().rev().map(Message::text).find(|text| !text.trim().is_empty()).unwrap_or_default()
}

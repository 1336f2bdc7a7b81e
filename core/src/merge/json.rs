//! The JSON form of a [`CompletedRun`]: what HTTP callers and the command line get.
//!
//! ```json
//! { "responseId": "…", "threadId": "…", "runId": "…", "agent": "…", "status": "success", "text": "the answer",
//!   "messages": [{ "id": "…", "agent": "…", "role": "assistant", "channel": "answer", "contents": [ … ] }],
//!   "usage": [ … ], "interrupts": [ … ] }
//! ```
//!
//! `status` is `success`, `interrupted`, `cancelled` or `failed`; `error` stands beside `failed`. Absent members mean
//! "not reported".

use serde_json::{Map, Value, json};

use super::CompletedRun;
use crate::block::{ContentBlock, ToolOutput};
use crate::id::ToolCallId;
use crate::message::Message;
use crate::run::{Interrupt, RunOutcome, Usage};
use crate::update::{Channel, Role};

impl CompletedRun {
    /// Returns the word for how the run ended: `success`, `interrupted`, `cancelled` or `failed`.
    pub fn status(&self) -> &'static str {
        match &self.outcome {
            Ok(RunOutcome::Success) => "success",
            Ok(RunOutcome::Interrupted) => "interrupted",
            Ok(RunOutcome::Cancelled) => "cancelled",
            Err(_) => "failed",
        }
    }

    /// Returns the JSON form.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        let run = self.run.as_ref();
        set("responseId", Some(self.response.id.as_str().into()));
        set("threadId", run.map(|run| run.thread_id.as_str().into()));
        set("runId", run.map(|run| run.run_id.as_str().into()));
        set("agent", run.and_then(|run| Some(run.agent.as_deref()?.into())));
        set("status", Some(self.status().into()));
        set("text", Some(self.response.text().into()));
        set("messages", Some(self.response.messages.iter().map(message).collect()));
        set("createdAt", self.response.created_at.map(|at| at.0.into()));
        set("finishReason", self.response.finish_reason.as_deref().map(Into::into));
        let usage = &self.response.usage;
        set("usage", (!usage.is_empty()).then(|| usage.iter().map(usage_value).collect()));
        set("result", self.result.clone());
        let interrupts = &self.interrupts;
        set("interrupts", (!interrupts.is_empty()).then(|| interrupts.iter().map(interrupt).collect()));
        set(
            "error",
            self.outcome
                .as_ref()
                .err()
                .map(|failure| json!({ "code": &*failure.code, "message": &*failure.message })),
        );
        Value::Object(object)
    }
}

fn message(message: &Message) -> Value {
    let mut value = json!({
        "agent": message.source.name(),
        "role": role(message.role),
        "channel": match message.channel {
            Channel::Answer => "answer",
            Channel::Intermediate => "intermediate",
        },
        "contents": message.contents.iter().map(content).collect::<Vec<_>>(),
    });
    let id = message.id.as_ref().map(|id| Value::from(id.as_str()));
    for (name, member) in [("id", id), ("createdAt", message.created_at.map(|at| at.0.into()))] {
        if let (Some(object), Some(member)) = (value.as_object_mut(), member) {
            object.insert(name.to_owned(), member);
        }
    }
    value
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::User => "user",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Tool => "tool",
    }
}

fn content(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({ "type": "text", "text": &*text.text }),
        ContentBlock::Thinking(thinking) => json!({ "type": "thinking", "text": &*thinking.text }),
        ContentBlock::ToolUse(call) => json!({
            "type": "toolUse",
            "id": call.id.as_ref().map(ToolCallId::as_str),
            "name": call.name.as_deref(),
            "arguments": serde_json::from_str::<Value>(&call.arguments)
                .unwrap_or_else(|_| Value::from(&*call.arguments)),
        }),
        ContentBlock::ToolResult(result) => json!({
            "type": "toolResult",
            "id": result.id.as_ref().map(ToolCallId::as_str),
            "name": result.name.as_deref(),
            "output": output(&result.output),
            "isError": result.is_error,
        }),
        ContentBlock::Custom(custom) => {
            json!({ "type": "custom", "name": &*custom.name, "value": custom.value })
        }
    }
}

fn output(output: &ToolOutput) -> Value {
    match output {
        ToolOutput::Text(text) | ToolOutput::Progress(text) => Value::from(&**text),
        ToolOutput::Json(value) => value.clone(),
    }
}

fn usage_value(usage: &Usage) -> Value {
    let counts = [
        ("inputTokens", usage.input),
        ("outputTokens", usage.output),
        ("totalTokens", usage.total),
        ("reasoningTokens", usage.reasoning),
        ("cachedInputTokens", usage.cached_input),
        ("cacheWriteInputTokens", usage.cache_write_input),
    ];
    let names = [("provider", &usage.provider), ("model", &usage.model)];
    let names = names.into_iter().filter_map(|(key, name)| Some((key, Value::from(&**name.as_ref()?))));
    let counts = counts.into_iter().filter_map(|(key, count)| Some((key, Value::from(count?))));
    names.chain(counts).map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn interrupt(interrupt: &Interrupt) -> Value {
    let members = [
        ("id", Some(Value::from(interrupt.id.as_str()))),
        ("reason", Some(Value::from(&*interrupt.reason))),
        ("message", interrupt.message.as_deref().map(Value::from)),
        ("toolCallId", interrupt.tool_call_id.as_ref().map(|id| Value::from(id.as_str()))),
        ("responseSchema", interrupt.response_schema.clone()),
        ("expiresAt", interrupt.expires_at.as_deref().map(Value::from)),
    ];
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    members.collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::RunMerger;
    use crate::run::RunFailure;
    use crate::testing::run_to_end;
    use crate::update::{SourceEvent, Update};

    fn value_of(events: impl IntoIterator<Item = SourceEvent>) -> Value {
        let mut merger = RunMerger::default();
        for event in run_to_end(events) {
            merger.handle_event(&event).unwrap();
        }
        merger.finish().to_value()
    }

    #[test]
    fn the_answer_and_its_parts_are_members() {
        let value = value_of([
            Update::tool_use("c", "search", json!({ "q": 1 })).into(),
            Update::tool_result("c", "two").into(),
            Update::text("Two.").in_response("r").into(),
            SourceEvent::finished(),
        ]);
        assert_eq!((&value["status"], &value["text"]), (&json!("success"), &json!("Two.")));
        assert_eq!(value["messages"][0]["contents"][0]["arguments"], json!({ "q": 1 }));
        assert!(value.get("error").is_none());
    }

    #[test]
    fn a_failure_has_its_code_and_an_invalid_call_its_text() {
        let value = value_of([
            Update::new(ContentBlock::tool_use("c", "search", "{broken")).into(),
            SourceEvent::failed(RunFailure::AGENT_FAILED, "no luck"),
        ]);
        assert_eq!(value["error"], json!({ "code": "agent_failed", "message": "no luck" }));
        assert_eq!(value["status"], "failed");
        assert_eq!(value["messages"][0]["contents"][0]["arguments"], "{broken");
    }
}

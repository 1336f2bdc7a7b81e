//! The JSON form of a [`CompletedRun`], as returned to HTTP callers and printed by the command line.
//!
//! ```json
//! { "response": "…", "thread": "…", "run": "…", "agent": "…", "status": "success", "text": "the answer",
//!   "messages": [{ "id": "…", "agent": "…", "role": "assistant", "channel": "answer", "contents": [ … ] }],
//!   "interrupts": [ … ], "usage": [ … ] }
//! ```
//!
//! `status` is `success`, `interrupted`, `cancelled` or `failed`; `failure` is present if and only if it is `failed`.

use serde_json::Value;

use super::{Object, failed, interrupt, role_word, with_usage};
use crate::block::{ContentBlock, ToolOutput};
use crate::merge::CompletedRun;
use crate::message::Message;
use crate::run::RunOutcome;

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

    /// Returns the run as one JSON object.
    pub fn to_json(&self) -> Value {
        let (run, response) = (self.run.as_ref(), &self.response);
        let object = Object::empty()
            .text("response", response.id.as_str())
            .maybe("thread", run.map(|run| run.thread_id.as_str()))
            .maybe("run", run.map(|run| run.run_id.as_str()))
            .maybe("agent", run.and_then(|run| run.agent.as_deref()))
            .text("status", self.status())
            .text("text", &response.text())
            .value("messages", response.messages.iter().map(message).collect())
            .maybe_value("createdAt", response.created_at.map(|time| Value::from(time.0)))
            .maybe("finishReason", response.finish_reason.as_deref())
            .maybe_value("result", self.result.clone())
            .maybe_value("failure", self.outcome.as_ref().err().map(|failure| failed(failure)));
        let asked = self.interrupts.iter().map(|asked| interrupt(asked, None));
        let asked = (!self.interrupts.is_empty()).then(|| asked.collect());
        Value::Object(with_usage(object.maybe_value("interrupts", asked), &response.usage).0)
    }
}

fn message(message: &Message) -> Value {
    let object = Object::empty()
        .maybe("id", message.id.as_ref())
        .maybe("agent", Some(message.source.name()).filter(|name| !name.is_empty()))
        .text("role", role_word(message.role))
        .channel(message.channel)
        .maybe_value("createdAt", message.created_at.map(|time| Value::from(time.0)))
        .value("contents", message.contents.iter().map(content).collect());
    Value::Object(object.0)
}

fn content(block: &ContentBlock) -> Value {
    let object = match block {
        ContentBlock::Text(text) => Object::empty().text("kind", "text").text("text", &text.text),
        ContentBlock::Thinking(thinking) => {
            Object::empty().text("kind", "thinking").text("text", &thinking.text)
        }
        ContentBlock::ToolUse(call) => {
            // Arguments that are not valid JSON are kept as a string.
            let arguments = serde_json::from_str(&call.arguments);
            Object::empty()
                .text("kind", "toolUse")
                .maybe("call", call.id.as_ref())
                .maybe("tool", call.name.as_deref())
                .value("arguments", arguments.unwrap_or_else(|_| Value::from(&*call.arguments)))
        }
        ContentBlock::ToolResult(result) => Object::empty()
            .text("kind", "toolResult")
            .maybe("call", result.id.as_ref())
            .maybe("tool", result.name.as_deref())
            .value("isError", Value::from(result.is_error))
            .value("output", output(&result.output)),
        ContentBlock::Custom(custom) => Object::empty()
            .text("kind", "custom")
            .text("name", &custom.name)
            .value("value", custom.value.clone()),
    };
    Value::Object(object.0)
}

fn output(output: &ToolOutput) -> Value {
    match output {
        ToolOutput::Text(text) | ToolOutput::Progress(text) => Value::from(&**text),
        ToolOutput::Json(value) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        merger.finish().to_json()
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
        assert!(value.get("failure").is_none());
    }

    #[test]
    fn a_failure_has_its_code_and_an_invalid_call_its_text() {
        let value = value_of([
            Update::new(ContentBlock::tool_use("c", "search", "{broken")).into(),
            SourceEvent::failed(RunFailure::AGENT_FAILED, "no luck"),
        ]);
        assert_eq!(value["failure"], json!({ "code": "agent_failed", "message": "no luck" }));
        assert_eq!(value["status"], "failed");
        assert_eq!(value["messages"][0]["contents"][0]["arguments"], "{broken");
    }
}

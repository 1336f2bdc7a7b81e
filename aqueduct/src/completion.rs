//! An ended run as JSON: the merged turn, how the run ended, and what it waits for.

use aqueduct_core::block::ToolOutput;
use aqueduct_core::{Channel, ContentBlock, Message, Role, RunOutcome, ToolCallId, Usage};
use aqueduct_runs::{Completion, RunEnd};
use serde_json::{Map, Value, json};

/// Returns the ended run as JSON. Absent members are left out.
///
/// | member | what |
/// |---|---|
/// | `runId`, `threadId` | the run |
/// | `outcome` | `success`, `interrupted`, `cancelled` or `failed` |
/// | `text` | the answer |
/// | `messages` | all messages, grouped by agent: `agent`, `role`, `channel`, `content` |
/// | `responseId`, `finishReason`, `usage`, `result` | of the turn |
/// | `interrupts` | what the run waits for |
/// | `error` | `code` and `message` of a run that failed |
pub fn completion_json(completion: &Completion) -> Value {
    let response = &completion.response;
    let mut value = Map::new();
    value.insert("runId".into(), completion.run_id.as_str().into());
    match &completion.end {
        RunEnd::Finished(end) => {
            value.insert("threadId".into(), end.run.thread_id.as_str().into());
            value.insert("outcome".into(), outcome(end.outcome).into());
            insert(&mut value, "result", end.result.clone());
            let asked = end.interrupts.iter().map(|pending| {
                let interrupt = &pending.interrupt;
                let mut asked = Map::new();
                asked.insert("id".into(), interrupt.id.as_str().into());
                asked.insert("reason".into(), (&*interrupt.reason).into());
                insert(&mut asked, "message", interrupt.message.as_ref().map(|text| (&**text).into()));
                insert(&mut asked, "responseSchema", interrupt.response_schema.clone());
                Value::Object(asked)
            });
            let asked: Vec<Value> = asked.collect();
            insert(&mut value, "interrupts", (!asked.is_empty()).then_some(Value::Array(asked)));
        }
        RunEnd::Failed(end) => {
            value.insert("threadId".into(), end.run.thread_id.as_str().into());
            value.insert("outcome".into(), "failed".into());
            let failure = &end.failure;
            value.insert("error".into(), json!({ "code": &*failure.code, "message": &*failure.message }));
        }
        _ => {}
    }
    value.insert("text".into(), response.text().into());
    value.insert("responseId".into(), response.id.as_str().into());
    value.insert("messages".into(), response.messages.iter().map(message_json).collect());
    insert(&mut value, "finishReason", response.finish_reason.as_ref().map(|reason| (&**reason).into()));
    let usage: Vec<Value> = response.usage.iter().map(usage_json).collect();
    insert(&mut value, "usage", (!usage.is_empty()).then_some(Value::Array(usage)));
    Value::Object(value)
}

fn insert(object: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value);
    }
}

fn outcome(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Interrupted => "interrupted",
        RunOutcome::Cancelled => "cancelled",
        _ => "success",
    }
}

fn message_json(message: &Message) -> Value {
    let mut value = Map::new();
    insert(&mut value, "id", message.id.as_ref().map(|id| id.as_str().into()));
    let agent = message.source.parent().map(|_| message.source.name().into());
    insert(&mut value, "agent", agent);
    value.insert("role".into(), role(message.role).into());
    let channel = if message.channel == Channel::Answer { "answer" } else { "intermediate" };
    value.insert("channel".into(), channel.into());
    insert(&mut value, "createdAt", message.created_at.map(|at| at.0.into()));
    value.insert("content".into(), message.contents.iter().map(block_json).collect());
    Value::Object(value)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Tool => "tool",
        _ => "assistant",
    }
}

fn block_json(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({ "type": "text", "text": &*text.text }),
        ContentBlock::Thinking(thinking) => json!({ "type": "thinking", "text": &*thinking.text }),
        ContentBlock::ToolUse(call) => json!({
            "type": "tool_use",
            "id": call.id.as_ref().map(ToolCallId::as_str),
            "name": call.name.as_deref(),
            "arguments": &*call.arguments,
        }),
        ContentBlock::ToolResult(result) => json!({
            "type": "tool_result",
            "id": result.id.as_ref().map(ToolCallId::as_str),
            "output": match &result.output {
                ToolOutput::Json(value) => value.clone(),
                ToolOutput::Text(text) | ToolOutput::Progress(text) => (&**text).into(),
            },
            "isError": result.is_error,
        }),
        ContentBlock::Custom(custom) => {
            json!({ "type": "custom", "name": &*custom.name, "value": custom.value })
        }
    }
}

fn usage_json(usage: &Usage) -> Value {
    let mut value = Map::new();
    insert(&mut value, "provider", usage.provider.as_ref().map(|text| (&**text).into()));
    insert(&mut value, "model", usage.model.as_ref().map(|text| (&**text).into()));
    for (name, count) in [
        ("inputTokens", usage.input),
        ("outputTokens", usage.output),
        ("totalTokens", usage.total),
        ("reasoningTokens", usage.reasoning),
        ("cachedInputTokens", usage.cached_input),
        ("cacheWriteInputTokens", usage.cache_write_input),
    ] {
        insert(&mut value, name, count.map(Value::from));
    }
    Value::Object(value)
}

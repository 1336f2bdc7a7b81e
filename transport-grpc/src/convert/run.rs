//! Conversion of runs, usage, failures, interrupts and replies, both ways; and of the parts that content shares: agents,
//! origins, tool outputs.
//!
//! Texts are passed on as bytes that share the memory of the message; a text that outlives its message is detached by the reader. Each reading
//! function names the field of the .proto file in its error.

use std::sync::Arc;

use aqueduct_core::block::ToolOutput;
use aqueduct_core::event::Origin;
use aqueduct_core::{
    Interrupt, InterruptId, InterruptReply, MessageId, ResponseId, RunFailure, RunId, RunInfo, Source,
    ThreadId, Timestamp, ToolCallId, Track, Usage,
};

use super::ConvertError;
use super::values::{
    JsonDepth, json, json_to_bytes, kept, optional_bytes, optional_json, optional_kept, optional_metadata,
    optional_metadata_to_bytes, optional_text, text, to_bytes,
};
use crate::proto;

/// Returns the identity of a run.
pub(super) fn run_to_proto(run: &RunInfo) -> proto::RunInfo {
    proto::RunInfo {
        thread_id: to_bytes(run.thread_id.as_bytes()),
        run_id: to_bytes(run.run_id.as_bytes()),
        parent_run_id: run.parent_run_id.as_ref().map(|id| to_bytes(id.as_bytes())),
        agent: optional_bytes(run.agent.as_ref()),
    }
}

/// Decodes the identity of a run, which is required.
pub(super) fn run_from_proto(run: Option<proto::RunInfo>) -> Result<Arc<RunInfo>, ConvertError> {
    let run = run.ok_or(ConvertError::Missing { field: "run" })?;
    Ok(Arc::new(RunInfo {
        thread_id: ThreadId::new(kept("run.thread_id", &run.thread_id)?),
        run_id: RunId::new(kept("run.run_id", &run.run_id)?),
        parent_run_id: optional_kept("run.parent_run_id", run.parent_run_id.as_ref())?.map(RunId::new),
        agent: optional_kept("run.agent", run.agent.as_ref())?,
    }))
}

/// Returns token counts. Counts that the provider did not report stay unset.
pub(super) fn usage_to_proto(usage: &Usage) -> proto::Usage {
    proto::Usage {
        provider: optional_bytes(usage.provider.as_ref()),
        model: optional_bytes(usage.model.as_ref()),
        input: usage.input,
        output: usage.output,
        total: usage.total,
        reasoning: usage.reasoning,
        cached_input: usage.cached_input,
        cache_write_input: usage.cache_write_input,
    }
}

/// Reads token counts.
///
/// # Errors
///
/// Returns an error if the name of a provider or model is not UTF-8.
pub(super) fn usage_from_proto(usage: proto::Usage) -> Result<Usage, ConvertError> {
    Ok(Usage {
        provider: optional_text("usage.provider", usage.provider)?,
        model: optional_text("usage.model", usage.model)?,
        input: usage.input,
        output: usage.output,
        total: usage.total,
        reasoning: usage.reasoning,
        cached_input: usage.cached_input,
        cache_write_input: usage.cache_write_input,
    })
}

/// Reads a list of token counts.
pub(super) fn usages_from_proto(usages: Vec<proto::Usage>) -> Result<Vec<Usage>, ConvertError> {
    usages.into_iter().map(usage_from_proto).collect()
}

/// Returns a failure. Its details are JSON, as bytes.
pub(super) fn failure_to_proto(failure: &RunFailure) -> proto::Failure {
    proto::Failure {
        code: to_bytes(&failure.code),
        message: to_bytes(&failure.message),
        details_json: failure.details.as_ref().map(json_to_bytes),
    }
}

/// Reads a failure.
///
/// # Errors
///
/// Returns an error if a text is not UTF-8 or the details are not JSON.
pub(super) fn failure_from_proto(failure: proto::Failure) -> Result<RunFailure, ConvertError> {
    Ok(RunFailure {
        code: text("failure.code", failure.code)?,
        message: text("failure.message", failure.message)?,
        details: optional_json("failure.details_json", failure.details_json.as_ref(), JsonDepth::MOST)?,
    })
}

/// Returns an interrupt of the lane with that handle.
pub(super) fn interrupt_to_proto(lane: u64, interrupt: &Interrupt) -> proto::PendingInterrupt {
    proto::PendingInterrupt {
        lane,
        id: to_bytes(interrupt.id.as_bytes()),
        reason: to_bytes(&interrupt.reason),
        message: optional_bytes(interrupt.message.as_ref()),
        tool_call_id: interrupt.tool_call_id.as_ref().map(|id| to_bytes(id.as_bytes())),
        response_schema_json: interrupt.response_schema.as_ref().map(json_to_bytes),
        expires_at: optional_bytes(interrupt.expires_at.as_ref()),
        metadata_json: optional_metadata_to_bytes(interrupt.metadata.as_ref()),
    }
}

/// Reads an interrupt. Schemas come from agents, not from callers, so they may nest as deep as the parser allows.
pub(super) fn interrupt_from_proto(pending: proto::PendingInterrupt) -> Result<Interrupt, ConvertError> {
    let depth = JsonDepth::MOST;
    let schema = pending.response_schema_json.as_ref();
    Ok(Interrupt {
        id: InterruptId::new(text("interrupt.id", pending.id)?),
        reason: text("interrupt.reason", pending.reason)?,
        message: optional_text("interrupt.message", pending.message)?,
        tool_call_id: optional_text("interrupt.tool_call_id", pending.tool_call_id)?.map(ToolCallId::new),
        response_schema: optional_json("interrupt.response_schema_json", schema, depth)?,
        expires_at: optional_text("interrupt.expires_at", pending.expires_at)?,
        metadata: optional_metadata("interrupt.metadata_json", pending.metadata_json.as_ref(), depth)?,
    })
}

/// Converts a reply to its message.
pub fn reply_to_proto(reply: &InterruptReply) -> proto::InterruptReply {
    proto::InterruptReply {
        id: to_bytes(reply.id.as_bytes()),
        resolved: reply.resolved,
        payload_json: reply.payload.as_ref().map(json_to_bytes),
    }
}

/// Converts a message to a reply.
///
/// # Errors
///
/// Returns an error that names the field that is missing or invalid.
pub fn reply_from_proto(
    reply: proto::InterruptReply,
    depth: JsonDepth,
) -> Result<InterruptReply, ConvertError> {
    Ok(InterruptReply {
        id: InterruptId::new(text("reply.id", reply.id)?),
        resolved: reply.resolved,
        payload: optional_json("reply.payload_json", reply.payload_json.as_ref(), depth)?,
    })
}

/// Returns the agents from the outermost to the source itself; none for the root.
pub(super) fn agents_to_proto(source: &Source) -> Vec<proto::Agent> {
    let mut agents = Vec::new();
    let mut current = Some(source);
    while let Some(source) = current.filter(|source| !source.is_root()) {
        agents.push(proto::Agent {
            key: source.key().to_owned().into(),
            name: (source.name() != source.key()).then(|| source.name().to_owned().into()),
            description: optional_bytes(source.description()),
            parent_call: source.parent_call().map(|id| to_bytes(id.as_bytes())),
            metadata_json: optional_metadata_to_bytes(source.metadata()),
        });
        current = source.parent();
    }
    agents.reverse();
    agents
}

/// Decodes the path of a source: one agent per level below the root.
pub(super) fn agents_from_proto(agents: Vec<proto::Agent>, depth: JsonDepth) -> Result<Source, ConvertError> {
    let mut source = Source::root();
    for agent in agents {
        source = source.child(kept("agent.key", &agent.key)?);
        if let Some(name) = optional_kept("agent.name", agent.name.as_ref())? {
            source = source.named(name);
        }
        if let Some(description) = optional_kept("agent.description", agent.description.as_ref())? {
            source = source.described(description);
        }
        if let Some(call) = optional_kept("agent.parent_call", agent.parent_call.as_ref())? {
            source = source.called_by(ToolCallId::new(call));
        }
        if let Some(metadata) = optional_metadata("agent.metadata_json", agent.metadata_json.as_ref(), depth)?
        {
            source = source.with_metadata(Arc::unwrap_or_clone(metadata));
        }
    }
    Ok(source)
}

/// Encodes an origin, or `None` if it is empty, which most are.
pub(super) fn origin_to_proto(origin: &Origin) -> Option<proto::Origin> {
    if *origin == Origin::default() {
        return None;
    }
    Some(proto::Origin {
        message_id: origin.message_id.as_ref().map(|id| to_bytes(id.as_bytes())),
        response_id: origin.response_id.as_ref().map(|id| id.as_str().to_owned().into()),
        tool_call_id: origin.tool_call_id.as_ref().map(|id| to_bytes(id.as_bytes())),
        track: origin.track.as_str().to_owned().into(),
        created_at_ms: origin.created_at.map(|time| time.0),
        metadata_json: optional_metadata_to_bytes(origin.metadata.as_ref()),
    })
}

/// Reads the ids that the source gave to a block. A missing message is an origin without ids.
pub(super) fn origin_from_proto(origin: Option<proto::Origin>) -> Result<Origin, ConvertError> {
    let Some(origin) = origin else { return Ok(Origin::default()) };
    let metadata = origin.metadata_json.as_ref();
    Ok(Origin {
        message_id: optional_kept("origin.message_id", origin.message_id.as_ref())?.map(MessageId::new),
        response_id: optional_kept("origin.response_id", origin.response_id.as_ref())?.map(ResponseId::new),
        tool_call_id: optional_kept("origin.tool_call_id", origin.tool_call_id.as_ref())?
            .map(ToolCallId::new),
        track: Track::new(kept("origin.track", &origin.track)?),
        created_at: origin.created_at_ms.map(Timestamp),
        metadata: optional_metadata("origin.metadata_json", metadata, JsonDepth::MOST)?,
    })
}

/// Returns the output of a tool: text, JSON, or progress.
pub(super) fn output_to_proto(output: &ToolOutput) -> proto::ToolOutput {
    use proto::tool_output::Output;
    let output = match output {
        ToolOutput::Text(text) => Output::Text(to_bytes(text)),
        ToolOutput::Json(value) => Output::Json(json_to_bytes(value)),
        ToolOutput::Progress(text) => Output::Progress(to_bytes(text)),
    };
    proto::ToolOutput { output: Some(output) }
}

/// Reads the output of a tool.
///
/// # Errors
///
/// Returns [`ConvertError::Missing`] if no output is set: an empty text is an output, none is not.
pub(super) fn output_from_proto(
    output: Option<proto::ToolOutput>,
    depth: JsonDepth,
) -> Result<ToolOutput, ConvertError> {
    use proto::tool_output::Output;
    match output.and_then(|output| output.output) {
        None => Err(ConvertError::Missing { field: "tool_result.output" }),
        Some(Output::Text(value)) => Ok(ToolOutput::Text(text("tool_result.output.text", value)?)),
        Some(Output::Json(value)) => Ok(ToolOutput::Json(json("tool_result.output.json", &value, depth)?)),
        Some(Output::Progress(value)) => {
            Ok(ToolOutput::Progress(text("tool_result.output.progress", value)?))
        }
    }
}

//! Events of the run: lifecycle, steps, sub-agents, state, activities, raw and custom events.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::declare::{event, object};
use super::input::RunAgentInput;
use super::message::Message;
use super::outcome::{RunFinishedOutcome, SubagentFinishedOutcome};
use super::patch::PatchOperation;

event! {
    /// `RUN_STARTED`: a run begins.
    pub struct RunStarted {
        /// The thread of the run.
        thread_id: ByteString = "threadId" @ 2,
        /// The id of the run.
        run_id: ByteString = "runId" @ 3,
        /// The run this one branches from.
        parent_run_id: Option<ByteString> = "parentRunId" @ 4,
        /// The input, echoed.
        input: Option<Box<RunAgentInput>> = "input" @ 5,
        /// The version of the protocol of the producer.
        protocol_version: Option<ByteString> = "protocolVersion" @ 6,
    }

    /// `RUN_FINISHED`: a run ends without failing.
    pub struct RunFinished {
        /// The thread of the run.
        thread_id: ByteString = "threadId",
        /// The id of the run.
        run_id: ByteString = "runId",
        /// The return value of the run. Never null.
        result: Option<Value> = "result",
        /// The outcome; absent means success.
        outcome: Option<RunFinishedOutcome> = "outcome",
        /// The tokens spent.
        usage: Option<Vec<TokenUsage>> = "usage",
    }

    /// `RUN_ERROR`: a run fails.
    pub struct RunError {
        /// A stable code for programs.
        code: Option<ByteString> = "code" @ 2,
        /// A message for people.
        message: ByteString = "message" @ 3,
        /// The tokens spent.
        usage: Option<Vec<TokenUsage>> = "usage" @ 4,
    }

    /// `STEP_STARTED`: a named phase of work begins.
    pub struct StepStarted {
        /// The name of the step, unique among the open steps of its agent.
        step_name: ByteString = "stepName" @ 2,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `STEP_FINISHED`: a named phase of work ends.
    pub struct StepFinished {
        /// The name of the step.
        step_name: ByteString = "stepName" @ 2,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `SUBAGENT_STARTED`: a sub-agent begins.
    pub struct SubagentStarted {
        /// The id of the invocation, unique in the run.
        subagent_run_id: ByteString = "subagentRunId" @ 2,
        /// The agent's name.
        name: ByteString = "name" @ 3,
        /// A description of the agent.
        description: Option<ByteString> = "description" @ 4,
        /// The sub-agent that called it; absent for the parent agent.
        parent_subagent_run_id: Option<ByteString> = "parentSubagentRunId" @ 5,
        /// The tool call that started it.
        parent_tool_call_id: Option<ByteString> = "parentToolCallId" @ 6,
        /// The message that started it.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 7,
    }

    /// `SUBAGENT_FINISHED`: a sub-agent ends without failing.
    pub struct SubagentFinished {
        /// The id of the invocation.
        subagent_run_id: ByteString = "subagentRunId",
        /// The return value of the sub-agent. Never null.
        result: Option<Value> = "result",
        /// The outcome; absent means success.
        outcome: Option<SubagentFinishedOutcome> = "outcome",
    }

    /// `SUBAGENT_ERROR`: a sub-agent fails. The run may continue.
    pub struct SubagentError {
        /// The id of the invocation.
        subagent_run_id: ByteString = "subagentRunId" @ 2,
        /// A message for people.
        message: ByteString = "message" @ 3,
        /// A stable code for programs.
        code: Option<ByteString> = "code" @ 4,
    }

    /// `STATE_SNAPSHOT`: the complete shared state.
    pub struct StateSnapshot {
        /// The state: any JSON including null.
        snapshot: Value = "snapshot" @ 2,
        /// The sub-agent that reported it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `STATE_DELTA`: a change of the shared state.
    pub struct StateDelta {
        /// RFC 6902 operations.
        delta: Vec<PatchOperation> = "delta" @ 2,
        /// The sub-agent that reported it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `MESSAGES_SNAPSHOT`: the restated messages of the thread.
    pub struct MessagesSnapshot {
        /// All messages; a client drops those that are not in the list.
        messages: Vec<Message> = "messages" @ 2,
    }

    /// `ACTIVITY_SNAPSHOT`: a complete progress card.
    pub struct ActivitySnapshot {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the activity message, unique in the thread.
        message_id: ByteString = "messageId" @ 3,
        /// The kind of card.
        activity_type: ByteString = "activityType" @ 4,
        /// The content of the card.
        content: Metadata = "content" @ 5,
        /// `false` keeps an existing card unchanged.
        replace: Option<bool> = "replace" @ 6,
    }

    /// `ACTIVITY_DELTA`: a change of a progress card.
    pub struct ActivityDelta {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the activity message.
        message_id: ByteString = "messageId" @ 3,
        /// The kind of card.
        activity_type: ByteString = "activityType" @ 4,
        /// RFC 6902 operations on its content.
        patch: Vec<PatchOperation> = "patch" @ 5,
    }

    /// `RAW`: an unchanged event of the framework.
    pub struct Raw {
        /// The event: any JSON including null.
        event: Value = "event" @ 2,
        /// The origin of the event.
        source: Option<ByteString> = "source" @ 3,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }

    /// `CUSTOM`: content of any other kind, identified by a name.
    pub struct Custom {
        /// The name of the content.
        name: ByteString = "name" @ 2,
        /// The content: any JSON including null.
        value: Value = "value" @ 3,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }
}

object! {
    /// Token counts. Absent means "not reported". Input and output are totals, the other counts are parts of them.
    pub struct TokenUsage {
        /// The provider of the model.
        provider: Option<ByteString> = "provider" @ 1,
        /// The model.
        model: Option<ByteString> = "model" @ 2,
        /// Input tokens.
        input_tokens: Option<u64> = "inputTokens" @ 3,
        /// Output tokens.
        output_tokens: Option<u64> = "outputTokens" @ 4,
        /// Input and output tokens.
        total_tokens: Option<u64> = "totalTokens" @ 5,
        /// Output tokens spent on reasoning.
        reasoning_tokens: Option<u64> = "reasoningTokens" @ 6,
        /// Input tokens read from a cache.
        cached_input_tokens: Option<u64> = "cachedInputTokens" @ 7,
        /// Input tokens written to a cache (from 1.0 on).
        cache_write_input_tokens: Option<u64> = "cacheWriteInputTokens" @ 8,
    }
}

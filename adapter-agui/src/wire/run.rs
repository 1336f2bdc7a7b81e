//! Events of the run: its life, its steps and sub-agents, its state, and what has no kind of its own.

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
        /// The conversation.
        thread_id: ByteString = "threadId" @ 2,
        /// The run.
        run_id: ByteString = "runId" @ 3,
        /// The run this one branches from.
        parent_run_id: Option<ByteString> = "parentRunId" @ 4,
        /// The input, echoed.
        input: Option<Box<RunAgentInput>> = "input" @ 5,
        /// The version of the protocol that the producer speaks.
        protocol_version: Option<ByteString> = "protocolVersion" @ 6,
    }
}

event! {
    /// `RUN_FINISHED`: a run ends without failing.
    pub struct RunFinished {
        /// The conversation.
        thread_id: ByteString = "threadId",
        /// The run.
        run_id: ByteString = "runId",
        /// The run's value. Never null.
        result: Option<Value> = "result",
        /// How it ended; absent means success.
        outcome: Option<RunFinishedOutcome> = "outcome",
        /// What it cost.
        usage: Option<Vec<TokenUsage>> = "usage",
    }
}

event! {
    /// `RUN_ERROR`: a run fails.
    pub struct RunError {
        /// A word for programs.
        code: Option<ByteString> = "code" @ 2,
        /// A sentence for people.
        message: ByteString = "message" @ 3,
        /// What it cost.
        usage: Option<Vec<TokenUsage>> = "usage" @ 4,
    }
}

object! {
    /// Tokens spent. Absent means "not reported". Input and output are totals, the rest are parts of them.
    pub struct TokenUsage {
        /// Who was paid.
        provider: Option<ByteString> = "provider" @ 1,
        /// For what model.
        model: Option<ByteString> = "model" @ 2,
        /// Tokens in.
        input_tokens: Option<u64> = "inputTokens" @ 3,
        /// Tokens out.
        output_tokens: Option<u64> = "outputTokens" @ 4,
        /// Both.
        total_tokens: Option<u64> = "totalTokens" @ 5,
        /// Tokens out that were thought, not said.
        reasoning_tokens: Option<u64> = "reasoningTokens" @ 6,
        /// Tokens in that were read from a cache.
        cached_input_tokens: Option<u64> = "cachedInputTokens" @ 7,
        /// Tokens in that were written to a cache (from 1.0 on).
        cache_write_input_tokens: Option<u64> = "cacheWriteInputTokens" @ 8,
    }
}

event! {
    /// `STEP_STARTED`: a named phase of work begins.
    pub struct StepStarted {
        /// Its name, unique among the open steps of its agent.
        step_name: ByteString = "stepName" @ 2,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `STEP_FINISHED`: a named phase of work ends.
    pub struct StepFinished {
        /// Its name.
        step_name: ByteString = "stepName" @ 2,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `SUBAGENT_STARTED`: a sub-agent begins.
    pub struct SubagentStarted {
        /// This invocation's id, unique in the run.
        subagent_run_id: ByteString = "subagentRunId" @ 2,
        /// The agent's name.
        name: ByteString = "name" @ 3,
        /// What it is for.
        description: Option<ByteString> = "description" @ 4,
        /// The sub-agent it works for; absent means the parent agent.
        parent_subagent_run_id: Option<ByteString> = "parentSubagentRunId" @ 5,
        /// The tool call that started it.
        parent_tool_call_id: Option<ByteString> = "parentToolCallId" @ 6,
        /// The message that started it.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 7,
    }
}

event! {
    /// `SUBAGENT_FINISHED`: a sub-agent ends without failing.
    pub struct SubagentFinished {
        /// Which invocation.
        subagent_run_id: ByteString = "subagentRunId",
        /// Its value. Never null.
        result: Option<Value> = "result",
        /// How it ended; absent means success.
        outcome: Option<SubagentFinishedOutcome> = "outcome",
    }
}

event! {
    /// `SUBAGENT_ERROR`: a sub-agent fails. The run need not.
    pub struct SubagentError {
        /// Which invocation.
        subagent_run_id: ByteString = "subagentRunId" @ 2,
        /// A sentence for people.
        message: ByteString = "message" @ 3,
        /// A word for programs.
        code: Option<ByteString> = "code" @ 4,
    }
}

event! {
    /// `STATE_SNAPSHOT`: the shared state, whole.
    pub struct StateSnapshot {
        /// The state: any JSON, null too.
        snapshot: Value = "snapshot" @ 2,
        /// Who says so.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `STATE_DELTA`: a change of the shared state.
    pub struct StateDelta {
        /// RFC 6902 operations.
        delta: Vec<PatchOperation> = "delta" @ 2,
        /// Who says so.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `MESSAGES_SNAPSHOT`: the messages of the conversation, restated.
    pub struct MessagesSnapshot {
        /// All of them; what is not here is dropped by the client.
        messages: Vec<Message> = "messages" @ 2,
    }
}

event! {
    /// `ACTIVITY_SNAPSHOT`: a progress card, whole.
    pub struct ActivitySnapshot {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the activity message, unique in the thread.
        message_id: ByteString = "messageId" @ 3,
        /// What kind of card.
        activity_type: ByteString = "activityType" @ 4,
        /// What it shows.
        content: Metadata = "content" @ 5,
        /// False: leave a card that is already there as it is.
        replace: Option<bool> = "replace" @ 6,
    }
}

event! {
    /// `ACTIVITY_DELTA`: a change of a progress card.
    pub struct ActivityDelta {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the activity message.
        message_id: ByteString = "messageId" @ 3,
        /// What kind of card.
        activity_type: ByteString = "activityType" @ 4,
        /// RFC 6902 operations on its content.
        patch: Vec<PatchOperation> = "patch" @ 5,
    }
}

event! {
    /// `RAW`: an event of the framework behind, as it was.
    pub struct Raw {
        /// The event: any JSON, null too.
        event: Value = "event" @ 2,
        /// Where it comes from.
        source: Option<ByteString> = "source" @ 3,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }
}

event! {
    /// `CUSTOM`: anything else, by name.
    pub struct Custom {
        /// What it is.
        name: ByteString = "name" @ 2,
        /// The content: any JSON, null too.
        value: Value = "value" @ 3,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }
}

//! The payload classes of orchestrations and requests: plain dataclasses, named by `__class__`.

use super::message::{AgentResponse, Message};
use super::object::{Json, RoleName, Text, wire_object};

wire_object! {
    /// The common fields of all payloads: the name of the class or the type.
    pub struct Tagged {
        /// The name of the dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The type of a class that has a JSON form of its own.
        kind: Option<Text<'de>> = "type",
        /// The role of a message; its presence identifies one.
        role: Option<RoleName<'de>> = "role",
    }
}

wire_object! {
    /// The input of an agent's executor.
    pub struct AgentExecutorRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The messages for the agent.
        messages: Vec<Message<'de>> = "messages",
        /// `false` for a broadcast: the agent does not respond.
        should_respond: Option<bool> = "should_respond",
    }
}

wire_object! {
    /// The output of an agent's executor.
    pub struct AgentExecutorResponse {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The id of the executor.
        executor_id: Option<Text<'de>> = "executor_id",
        /// The response of the agent.
        agent_response: AgentResponse<'de> = "agent_response",
        /// The history so far. Ignored, because it repeats earlier messages.
        full_conversation: Option<Json<'de>> = "full_conversation",
    }
}

wire_object! {
    /// An event of the Magentic manager.
    pub struct MagenticOrchestratorEvent {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// `plan_created`, `replanned`, `progress_ledger_updated`.
        event_type: Option<Text<'de>> = "event_type",
        /// A message or a ledger.
        content: Option<Json<'de>> = "content",
    }
}

wire_object! {
    /// The manager's progress ledger. Each entry is `{"reason", "answer"}`.
    pub struct ProgressLedger {
        /// Whether the task is completed.
        is_request_satisfied: Option<Json<'de>> = "is_request_satisfied",
        /// Whether the agents repeat themselves.
        is_in_loop: Option<Json<'de>> = "is_in_loop",
        /// Whether there is progress.
        is_progress_being_made: Option<Json<'de>> = "is_progress_being_made",
        /// The next participant.
        next_speaker: Option<Json<'de>> = "next_speaker",
        /// The instruction to the next participant.
        instruction_or_question: Option<Json<'de>> = "instruction_or_question",
    }
}

wire_object! {
    /// The start or end of a turn in a group chat.
    pub struct GroupChatEvent {
        /// `GroupChatRequestSentEvent` or `GroupChatResponseReceivedEvent`.
        class: Option<Text<'de>> = "__class__",
        /// The index of the round.
        round_index: Option<u64> = "round_index",
        /// The participant of the turn.
        participant_name: Option<Text<'de>> = "participant_name",
    }
}

wire_object! {
    /// A hand-off from one agent to another.
    pub struct HandoffSentEvent {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The agent that hands over.
        source: Option<Text<'de>> = "source",
        /// The agent that takes over.
        target: Option<Text<'de>> = "target",
    }
}

wire_object! {
    /// A request of a handoff workflow to its user.
    pub struct HandoffAgentUserRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The last response of the agent.
        agent_response: AgentResponse<'de> = "agent_response",
    }
}

wire_object! {
    /// A request of the Magentic manager for a review of its plan.
    pub struct PlanReviewRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The plan.
        plan: Option<Message<'de>> = "plan",
        /// The ledger, after a stall.
        current_progress: Option<Json<'de>> = "current_progress",
        /// Set after a stall.
        is_stalled: Option<bool> = "is_stalled",
    }
}

wire_object! {
    /// A request for a review of a plan, in the older packages.
    pub struct LegacyPlanReviewRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The text of the task.
        task_text: Option<Text<'de>> = "task_text",
        /// The text of the facts.
        facts_text: Option<Text<'de>> = "facts_text",
        /// The text of the plan.
        plan_text: Option<Text<'de>> = "plan_text",
        /// The number of earlier reviews.
        round_index: Option<u64> = "round_index",
    }
}

wire_object! {
    /// The properties of an update of the intermediate packages.
    pub struct MagenticProperties {
        /// `orchestrator_message` or `agent_delta`.
        event_type: Option<Text<'de>> = "magentic_event_type",
        /// The kind of the manager's message.
        kind: Option<Text<'de>> = "orchestrator_message_kind",
        /// The id of the orchestrator.
        orchestrator_id: Option<Text<'de>> = "orchestrator_id",
        /// The id of the agent.
        agent_id: Option<Text<'de>> = "agent_id",
    }
}

//! The payload classes of orchestrations and requests: plain dataclasses, named by `__class__`.

use super::message::{AgentResponse, Message};
use super::object::{Json, RoleName, Text, wire_object};

wire_object! {
    /// What every payload has: the name of its class or its type.
    pub struct Tagged {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The type of a class that has a JSON form of its own.
        kind: Option<Text<'de>> = "type",
        /// A message has one; a role by itself means a message.
        role: Option<RoleName<'de>> = "role",
    }
}

wire_object! {
    /// What an agent's executor is given.
    pub struct AgentExecutorRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// What to take note of.
        messages: Vec<Message<'de>> = "messages",
        /// False for a broadcast: the agent takes note and says nothing.
        should_respond: Option<bool> = "should_respond",
    }
}

wire_object! {
    /// What an agent's executor passes on.
    pub struct AgentExecutorResponse {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// Whose.
        executor_id: Option<Text<'de>> = "executor_id",
        /// What it said.
        agent_response: AgentResponse<'de> = "agent_response",
        /// The history so far. Not read: it restates.
        full_conversation: Option<Json<'de>> = "full_conversation",
    }
}

wire_object! {
    /// A word of the Magentic manager.
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
    /// The manager's view of where the work stands. Each entry is `{"reason", "answer"}`.
    pub struct ProgressLedger {
        /// Is it done?
        is_request_satisfied: Option<Json<'de>> = "is_request_satisfied",
        /// Does it go in circles?
        is_in_loop: Option<Json<'de>> = "is_in_loop",
        /// Does it advance?
        is_progress_being_made: Option<Json<'de>> = "is_progress_being_made",
        /// Who is next?
        next_speaker: Option<Json<'de>> = "next_speaker",
        /// What is the speaker told?
        instruction_or_question: Option<Json<'de>> = "instruction_or_question",
    }
}

wire_object! {
    /// A turn of a group chat was asked for or came back.
    pub struct GroupChatEvent {
        /// `GroupChatRequestSentEvent` or `GroupChatResponseReceivedEvent`.
        class: Option<Text<'de>> = "__class__",
        /// Which round.
        round_index: Option<u64> = "round_index",
        /// Whose turn.
        participant_name: Option<Text<'de>> = "participant_name",
    }
}

wire_object! {
    /// One agent handed over to another.
    pub struct HandoffSentEvent {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// From.
        source: Option<Text<'de>> = "source",
        /// To.
        target: Option<Text<'de>> = "target",
    }
}

wire_object! {
    /// A handoff workflow asks its user.
    pub struct HandoffAgentUserRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// What the agent said last.
        agent_response: AgentResponse<'de> = "agent_response",
    }
}

wire_object! {
    /// The Magentic manager asks for a review of its plan.
    pub struct PlanReviewRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// The plan.
        plan: Option<Message<'de>> = "plan",
        /// The ledger, after a stall.
        current_progress: Option<Json<'de>> = "current_progress",
        /// True after a stall.
        is_stalled: Option<bool> = "is_stalled",
    }
}

wire_object! {
    /// The same, in the older packages.
    pub struct LegacyPlanReviewRequest {
        /// The dataclass.
        class: Option<Text<'de>> = "__class__",
        /// What is to be done.
        task_text: Option<Text<'de>> = "task_text",
        /// What is known.
        facts_text: Option<Text<'de>> = "facts_text",
        /// The plan.
        plan_text: Option<Text<'de>> = "plan_text",
        /// How many reviews there were.
        round_index: Option<u64> = "round_index",
    }
}

wire_object! {
    /// What an update of the packages between says about itself.
    pub struct MagenticProperties {
        /// `orchestrator_message` or `agent_delta`.
        event_type: Option<Text<'de>> = "magentic_event_type",
        /// What the manager's message is.
        kind: Option<Text<'de>> = "orchestrator_message_kind",
        /// Whose message.
        orchestrator_id: Option<Text<'de>> = "orchestrator_id",
        /// Whose fragment.
        agent_id: Option<Text<'de>> = "agent_id",
    }
}

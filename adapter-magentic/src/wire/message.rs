//! Messages, whole responses, and the updates that stream them.

use super::content::{Content, MergeMode};
use super::object::{Json, RoleName, Text, wire_object};

wire_object! {
    /// A fragment of an agent's response (`agent_response_update`; older: `agent_run_response_update`).
    ///
    /// Neither id is always there: the Responses client sets no message id at all and the response id only on the
    /// first and last update, tool results have neither.
    pub struct AgentResponseUpdate {
        /// `agent_response_update`.
        kind: Option<Text<'de>> = "type",
        /// What it adds. Often empty.
        contents: Vec<Content<'de>> = "contents",
        /// Whose words they are.
        role: Option<RoleName<'de>> = "role",
        /// The name of the agent.
        author_name: Option<Text<'de>> = "author_name",
        /// The id of the agent.
        agent_id: Option<Text<'de>> = "agent_id",
        /// Which model response it belongs to.
        response_id: Option<Text<'de>> = "response_id",
        /// Which message it belongs to.
        message_id: Option<Text<'de>> = "message_id",
        /// `replace`: the message starts anew with these contents.
        merge_mode: MergeMode = "merge_mode",
        /// When (ISO 8601).
        created_at: Option<Text<'de>> = "created_at",
        /// Why the model stopped.
        finish_reason: Option<Text<'de>> = "finish_reason",
        /// For resuming a background response.
        continuation_token: Option<Json<'de>> = "continuation_token",
        /// Where a background response stands. Bookkeeping of the client, said on every update.
        operation_state: Option<Text<'de>> = "_operation_state",
        /// Anything else.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

wire_object! {
    /// A whole response: its messages in order.
    pub struct AgentResponse {
        /// `agent_response`.
        kind: Option<Text<'de>> = "type",
        /// What was said.
        messages: Vec<Message<'de>> = "messages",
        /// Which model response it was.
        response_id: Option<Text<'de>> = "response_id",
        /// The id of the agent.
        agent_id: Option<Text<'de>> = "agent_id",
        /// When (ISO 8601).
        created_at: Option<Text<'de>> = "created_at",
        /// Why the model stopped.
        finish_reason: Option<Text<'de>> = "finish_reason",
        /// What it cost.
        usage_details: Option<Json<'de>> = "usage_details",
        /// A structured value beside the text.
        value: Option<Json<'de>> = "value",
        /// Anything else.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

wire_object! {
    /// One message (`message`; older: `chat_message`).
    pub struct Message {
        /// `message`.
        kind: Option<Text<'de>> = "type",
        /// Whose words they are.
        role: Option<RoleName<'de>> = "role",
        /// What it says.
        contents: Vec<Content<'de>> = "contents",
        /// The name of the agent.
        author_name: Option<Text<'de>> = "author_name",
        /// Its id. Aggregators keep that of the participant.
        message_id: Option<Text<'de>> = "message_id",
        /// Anything else.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

impl Message<'_> {
    /// Its texts, joined as the agent said them.
    pub fn text(&self) -> String {
        self.contents.iter().filter(|c| c.is_text()).filter_map(|c| c.text.as_deref()).collect()
    }
}

//! Messages, whole responses, and their streamed updates.

use super::content::{Content, MergeMode};
use super::object::{Json, RoleName, Text, wire_object};

wire_object! {
    /// A fragment of an agent's response (`agent_response_update`; older: `agent_run_response_update`).
    ///
    /// Both ids may be absent: the Responses client sets no message id at all and the response id only on the first and last
    /// update; tool results have neither.
    pub struct AgentResponseUpdate {
        /// `agent_response_update`.
        kind: Option<Text<'de>> = "type",
        /// The content. Often empty.
        contents: Vec<Content<'de>> = "contents",
        /// The role of the author.
        role: Option<RoleName<'de>> = "role",
        /// The name of the agent.
        author_name: Option<Text<'de>> = "author_name",
        /// The id of the agent.
        agent_id: Option<Text<'de>> = "agent_id",
        /// The model response that the update belongs to.
        response_id: Option<Text<'de>> = "response_id",
        /// The message that the update belongs to.
        message_id: Option<Text<'de>> = "message_id",
        /// `replace`: these contents replace those of the message.
        merge_mode: MergeMode = "merge_mode",
        /// The time of creation (ISO 8601).
        created_at: Option<Text<'de>> = "created_at",
        /// Why the model stopped.
        finish_reason: Option<Text<'de>> = "finish_reason",
        /// A token to resume a background response.
        continuation_token: Option<Json<'de>> = "continuation_token",
        /// The state of a background response. Bookkeeping of the client, on every update.
        operation_state: Option<Text<'de>> = "_operation_state",
        /// Further properties.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

wire_object! {
    /// A whole response: its messages in order.
    pub struct AgentResponse {
        /// `agent_response`.
        kind: Option<Text<'de>> = "type",
        /// The messages, in order.
        messages: Vec<Message<'de>> = "messages",
        /// The model response.
        response_id: Option<Text<'de>> = "response_id",
        /// The id of the agent.
        agent_id: Option<Text<'de>> = "agent_id",
        /// The time of creation (ISO 8601).
        created_at: Option<Text<'de>> = "created_at",
        /// Why the model stopped.
        finish_reason: Option<Text<'de>> = "finish_reason",
        /// The tokens spent.
        usage_details: Option<Json<'de>> = "usage_details",
        /// A structured value beside the text.
        value: Option<Json<'de>> = "value",
        /// Further properties.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

wire_object! {
    /// One message (`message`; older: `chat_message`).
    pub struct Message {
        /// `message`.
        kind: Option<Text<'de>> = "type",
        /// The role of the author.
        role: Option<RoleName<'de>> = "role",
        /// The content, in order.
        contents: Vec<Content<'de>> = "contents",
        /// The name of the agent.
        author_name: Option<Text<'de>> = "author_name",
        /// The id of the message. Aggregators keep that of the participant.
        message_id: Option<Text<'de>> = "message_id",
        /// Further properties.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

impl Message<'_> {
    /// Returns the texts, joined without separator.
    pub fn text(&self) -> String {
        self.contents.iter().filter(|c| c.is_text()).filter_map(|c| c.text.as_deref()).collect()
    }
}

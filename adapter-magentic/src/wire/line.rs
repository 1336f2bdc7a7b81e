//! One line: a workflow event, an agent's update, an event of the older classes, or a line of the forwarder.

use super::object::{Json, RoleName, Text, wire_object};

wire_object! {
    /// The fields of all kinds of line. [`Dialect::of`](crate::Dialect::of) returns the kind.
    pub struct Line {
        /// The number of the line, from 0 without gaps.
        seq: Option<u64> = "seq",
        /// The type of a workflow event, or of a bare payload (`agent_response_update`, `agent_response`).
        kind: Option<Text<'de>> = "type",
        /// `FRAMEWORK` or `EXECUTOR`.
        origin: Option<Text<'de>> = "origin",
        /// The executor of the event.
        executor_id: Option<Text<'de>> = "executor_id",
        /// Of a `status` event.
        state: Option<Text<'de>> = "state",
        /// Of a superstep.
        iteration: Option<u64> = "iteration",
        /// Of a `request_info` event.
        request_id: Option<Text<'de>> = "request_id",
        /// The executor that requests, or that made the output (older classes).
        source_executor_id: Option<Text<'de>> = "source_executor_id",
        /// The class of the request.
        request_type: Option<Text<'de>> = "request_type",
        /// The class of the expected reply.
        response_type: Option<Text<'de>> = "response_type",
        /// Of `failed` and `executor_failed`.
        details: Option<ErrorDetails<'de>> = "details",
        /// The Python class of `data`, for people.
        data_class: Option<Text<'de>> = "data_class",
        /// The payload.
        data: Option<Json<'de>> = "data",
        /// An update of `as_agent()`, in a wrapper with a number.
        update: Option<Json<'de>> = "update",
        /// The whole response of `as_agent()`, at its end.
        final_response: Option<Json<'de>> = "final_response",
        /// The class of the exception that left `run()`.
        exception: Option<Text<'de>> = "exception",
        /// The text of the exception; in the older classes the message.
        message: Option<Json<'de>> = "message",
        /// Replies that were delivered to the workflow, by request id.
        responses: Option<Json<'de>> = "responses",
        /// Contents that were delivered to `as_agent()` as replies.
        contents: Option<Json<'de>> = "contents",
        /// A remark of the recorder.
        recorder: Option<Text<'de>> = "recorder",
        /// The class of an event of the older packages.
        event_class: Option<Text<'de>> = "event_class",
        /// Of `MagenticOrchestratorMessageEvent`.
        orchestrator_id: Option<Text<'de>> = "orchestrator_id",
        /// Of `MagenticOrchestratorMessageEvent`: the kind of message.
        message_kind: Option<Text<'de>> = "kind",
        /// Of the agent events of the older packages.
        agent_id: Option<Text<'de>> = "agent_id",
        /// Of `MagenticAgentDeltaEvent`.
        text: Option<Text<'de>> = "text",
        /// Of `MagenticAgentDeltaEvent`.
        function_call_id: Option<Text<'de>> = "function_call_id",
        /// Of `MagenticAgentDeltaEvent`.
        function_call_name: Option<Text<'de>> = "function_call_name",
        /// Of `MagenticAgentDeltaEvent`.
        function_call_arguments: Option<Json<'de>> = "function_call_arguments",
        /// Of `MagenticAgentDeltaEvent`.
        function_result_id: Option<Text<'de>> = "function_result_id",
        /// Of `MagenticAgentDeltaEvent`.
        function_result: Option<Json<'de>> = "function_result",
        /// Of `MagenticAgentDeltaEvent`.
        role: Option<RoleName<'de>> = "role",
    }
}

wire_object! {
    /// The framework's details of an error. By default the message is the class name.
    pub struct ErrorDetails {
        /// The class of the exception.
        error_type: Option<Text<'de>> = "error_type",
        /// The text of the exception, or its class again.
        message: Option<Text<'de>> = "message",
        /// The stack trace.
        traceback: Option<Text<'de>> = "traceback",
        /// The executor that raised it.
        executor_id: Option<Text<'de>> = "executor_id",
        /// Further details.
        extra: Option<Json<'de>> = "extra",
    }
}

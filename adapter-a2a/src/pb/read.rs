//! Decodes gRPC requests of both packages into [`Call`]s: the inverse of [`request`](super::request).
//!
//! ```text
//! ("GetTask", GetTaskRequest { tenant: "x", id: "t" })     1.0  ►  tenant "x", Call::GetTask { id: "t", .. }
//! ("GetTask", GetTaskRequest { name: "tasks/t" })          0.3  ►  tenant "",  Call::GetTask { id: "t", .. }
//! ("GetTask", GetTaskRequest { name: "" })                 0.3  ►  tenant "",  Err(violation of `name`)
//! ```
//!
//! Field names in errors are those of the JSON form, which the specification and the other bindings use.
//!
//! Not here: whether the caller may make the call, whether the task exists, and the limits of sizes and counts.
//! The [`AgentServer`](crate::server::AgentServer) checks these for all bindings.

use prost::Message;

use super::names::{config_ids, task_id};
use super::value::object_to_json;
use super::{v1, v03};
use crate::call::{Call, ListTasks, PushConfig, SendMessage};
use crate::server::{FieldViolation, ServerError};
use crate::version::Version;
use crate::wire::ErrorKind;

/// A decoded request and its tenant.
///
/// Decoding does not fail as a whole: the server authenticates the caller before it reports an invalid request,
/// so the error is kept until then.
#[derive(Debug)]
pub struct Asked {
    /// The tenant that the request names; empty if it names none, if it cannot be decoded, and in 0.3, which has
    /// no tenants.
    pub tenant: String,
    /// The call, or why it is invalid: an unknown method, bytes that are not the message of the method, or the
    /// list of all invalid fields.
    pub call: Result<Call, ServerError>,
}

impl Asked {
    /// Decodes a request of a method.
    ///
    /// `version` is that of the package in the request's path; `method` is the last segment of the path;
    /// `message` is without the five-byte prefix of gRPC.
    pub fn read(version: Version, method: &str, message: &[u8]) -> Self {
        let read = match version {
            Version::V1 => read_v1(method, message),
            Version::V03 => read_v03(method, message).map(|call| (String::new(), call)),
        };
        match read {
            Ok((tenant, call)) => Self { tenant, call },
            Err(error) => Self { tenant: String::new(), call: Err(error) },
        }
    }
}

/// A tenant, and the call or its violations. The outer `Result` of the readers is for requests of which not even
/// the tenant can be read.
type Read = (String, Result<Call, ServerError>);

/// Decodes a request of package `lf.a2a.v1`.
///
/// # Errors
///
/// Returns an error if the package has no such method, or if the bytes are not its message. Invalid fields are
/// inside of the result.
fn read_v1(method: &str, message: &[u8]) -> Result<Read, ServerError> {
    let mut fields = Fields::default();
    let (tenant, call) = match method {
        "SendMessage" | "SendStreamingMessage" => {
            let request: v1::SendMessageRequest = decode(message)?;
            let tenant = request.tenant.clone();
            return Ok((tenant, v1_send(request).map(|send| send_call(method, send))));
        }
        "GetTask" => {
            let request: v1::GetTaskRequest = decode(message)?;
            let id = fields.id("id", request.id);
            let history_length = fields.count("historyLength", request.history_length);
            (request.tenant, Call::GetTask { id, history_length })
        }
        "ListTasks" => {
            let request: v1::ListTasksRequest = decode(message)?;
            let tenant = request.tenant.clone();
            return Ok((tenant, v1_list(request)));
        }
        "CancelTask" => {
            let request: v1::CancelTaskRequest = decode(message)?;
            let id = fields.id("id", request.id);
            let metadata = request.metadata.map(object_to_json);
            (request.tenant, Call::CancelTask { id, metadata })
        }
        "SubscribeToTask" => {
            let request: v1::SubscribeToTaskRequest = decode(message)?;
            let id = fields.id("id", request.id);
            (request.tenant, Call::SubscribeToTask { id })
        }
        "CreateTaskPushNotificationConfig" => {
            let request: v1::TaskPushNotificationConfig = decode(message)?;
            // The id of the configuration may be empty: the server then chooses one.
            fields.id("taskId", request.task_id.clone());
            fields.id("url", request.url.clone());
            (request.tenant.clone(), Call::CreatePushConfig(Box::new(request.into())))
        }
        "GetTaskPushNotificationConfig" => {
            let request: v1::GetTaskPushNotificationConfigRequest = decode(message)?;
            let (task_id, id) = (fields.id("taskId", request.task_id), fields.id("id", request.id));
            (request.tenant, Call::GetPushConfig { task_id, id })
        }
        "DeleteTaskPushNotificationConfig" => {
            let request: v1::DeleteTaskPushNotificationConfigRequest = decode(message)?;
            let (task_id, id) = (fields.id("taskId", request.task_id), fields.id("id", request.id));
            (request.tenant, Call::DeletePushConfig { task_id, id })
        }
        "ListTaskPushNotificationConfigs" => {
            let request: v1::ListTaskPushNotificationConfigsRequest = decode(message)?;
            let task_id = fields.id("taskId", request.task_id);
            (request.tenant, Call::ListPushConfigs { task_id })
        }
        "GetExtendedAgentCard" => {
            (decode::<v1::GetExtendedAgentCardRequest>(message)?.tenant, Call::GetExtendedCard)
        }
        _ => return Err(no_method(method)),
    };
    Ok((tenant, fields.finish(call)))
}

/// Returns the call of one of the two methods that send a message.
fn send_call(method: &str, send: SendMessage) -> Call {
    let send = Box::new(send);
    if method == "SendMessage" { Call::SendMessage(send) } else { Call::SendStreamingMessage(send) }
}

/// Converts a message and its configuration. The server checks the content of the message: its parts, its role
/// and its ids.
fn v1_send(request: v1::SendMessageRequest) -> Result<SendMessage, ServerError> {
    let mut fields = Fields::default();
    let Some(message) = request.message else {
        return Err(ServerError::invalid_field("message", "must be set"));
    };
    let mut send = SendMessage::new(message.into());
    send.metadata = request.metadata.map(object_to_json);
    if let Some(configuration) = request.configuration {
        send.accepted_output_modes = configuration.accepted_output_modes;
        send.history_length = fields.count("configuration.historyLength", configuration.history_length);
        send.return_immediately = configuration.return_immediately;
        send.push = configuration.task_push_notification_config.map(Into::into);
    }
    fields.finish(send)
}

/// Converts the filters of a list. Empty strings are unset: proto3 does not distinguish them.
fn v1_list(request: v1::ListTasksRequest) -> Result<Call, ServerError> {
    let mut fields = Fields::default();
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    // 0 is "unspecified", the default of the enum: no filter.
    let status = match request.status {
        0 => None,
        number => match v1::TaskState::try_from(number) {
            Ok(state) => Some(state.as_str_name().to_owned()),
            Err(_) => return Err(ServerError::invalid_field("status", "must be a state that there is")),
        },
    };
    let list = ListTasks {
        context_id: text(request.context_id),
        status,
        page_size: fields.count("pageSize", request.page_size),
        page_token: text(request.page_token),
        history_length: fields.count("historyLength", request.history_length),
        status_timestamp_after: request.status_timestamp_after.map(|time| time.to_string()),
        include_artifacts: request.include_artifacts,
    };
    fields.finish(Call::ListTasks(Box::new(list)))
}

/// Decodes a request of package `a2a.v1`. Resource names are converted to ids; an empty name is a violation of
/// `name` or `parent`.
///
/// # Errors
///
/// As [`read_v1`].
fn read_v03(method: &str, message: &[u8]) -> Result<Result<Call, ServerError>, ServerError> {
    let mut fields = Fields::default();
    let call = match method {
        "SendMessage" | "SendStreamingMessage" => {
            return Ok(v03_send(decode(message)?).map(|send| send_call(method, send)));
        }
        "GetTask" => {
            let request: v03::GetTaskRequest = decode(message)?;
            // Zero means all: it cannot be distinguished from an absent value.
            let length = Some(request.history_length).filter(|length| *length != 0);
            let history_length = fields.count("historyLength", length);
            Call::GetTask { id: fields.id("name", task_id(&request.name).to_owned()), history_length }
        }
        "CancelTask" => {
            let request: v03::CancelTaskRequest = decode(message)?;
            Call::CancelTask { id: fields.id("name", task_id(&request.name).to_owned()), metadata: None }
        }
        "TaskSubscription" => {
            let request: v03::TaskSubscriptionRequest = decode(message)?;
            Call::SubscribeToTask { id: fields.id("name", task_id(&request.name).to_owned()) }
        }
        "CreateTaskPushNotificationConfig" => {
            let request: v03::CreateTaskPushNotificationConfigRequest = decode(message)?;
            // The id can stand in the configuration or beside it; that of the configuration takes precedence.
            let config = request.config.and_then(|config| config.push_notification_config);
            let mut config: PushConfig = config.map(Into::into).unwrap_or_default();
            config.task_id = fields.id("parent", task_id(&request.parent).to_owned());
            if config.id.is_empty() {
                config.id = request.config_id;
            }
            fields.id("config.pushNotificationConfig.url", config.url.clone());
            Call::CreatePushConfig(Box::new(config))
        }
        "GetTaskPushNotificationConfig" => {
            let request: v03::GetTaskPushNotificationConfigRequest = decode(message)?;
            let (task, config) = config_ids(&request.name);
            // The name of a task alone is accepted: an empty id means the first configuration of the task.
            Call::GetPushConfig { task_id: fields.id("name", task.to_owned()), id: config.to_owned() }
        }
        "DeleteTaskPushNotificationConfig" => {
            let request: v03::DeleteTaskPushNotificationConfigRequest = decode(message)?;
            let (task, config) = config_ids(&request.name);
            let task_id = fields.id("name", task.to_owned());
            Call::DeletePushConfig { task_id, id: fields.id("name", config.to_owned()) }
        }
        "ListTaskPushNotificationConfig" => {
            let request: v03::ListTaskPushNotificationConfigRequest = decode(message)?;
            Call::ListPushConfigs { task_id: fields.id("parent", task_id(&request.parent).to_owned()) }
        }
        "GetAgentCard" => {
            decode::<v03::GetAgentCardRequest>(message)?;
            Call::GetExtendedCard
        }
        _ => return Err(no_method(method)),
    };
    Ok(fields.finish(call))
}

/// Converts a message and its configuration. `blocking` is the opposite of `return_immediately`; a request
/// without a configuration waits for the end of the task, as in 1.0.
fn v03_send(request: v03::SendMessageRequest) -> Result<SendMessage, ServerError> {
    let mut fields = Fields::default();
    let Some(message) = request.request else {
        return Err(ServerError::invalid_field("message", "must be set"));
    };
    let mut send = SendMessage::new(message.into());
    send.metadata = request.metadata.map(object_to_json);
    if let Some(configuration) = request.configuration {
        send.accepted_output_modes = configuration.accepted_output_modes;
        // Zero means all, as in `GetTask`.
        let length = Some(configuration.history_length).filter(|length| *length != 0);
        send.history_length = fields.count("configuration.historyLength", length);
        send.return_immediately = !configuration.blocking;
        send.push = configuration.push_notification.map(Into::into);
    }
    fields.finish(send)
}

/// Authentication without a scheme is dropped: no header could be written from it.
impl From<v1::TaskPushNotificationConfig> for PushConfig {
    fn from(config: v1::TaskPushNotificationConfig) -> Self {
        let authentication = config.authentication.filter(|own| !own.scheme.is_empty());
        Self {
            task_id: config.task_id,
            id: config.id,
            url: config.url,
            token: Some(config.token).filter(|token| !token.is_empty()),
            authentication: authentication.map(|own| (own.scheme, own.credentials)),
        }
    }
}

/// 0.3 lists several schemes for one credential; the first is used, as 1.0 has one. The task is named by the
/// request around the configuration, so `task_id` stays empty.
impl From<v03::PushNotificationConfig> for PushConfig {
    fn from(config: v03::PushNotificationConfig) -> Self {
        let authentication = config
            .authentication
            .and_then(|own| own.schemes.into_iter().next().map(|scheme| (scheme, own.credentials)));
        Self {
            task_id: String::new(),
            id: config.id,
            url: config.url,
            token: Some(config.token).filter(|token| !token.is_empty()),
            authentication,
        }
    }
}

/// Decodes a message.
///
/// # Errors
///
/// Returns an error of kind `Parse` with the message of prost, which names the field.
fn decode<M: Message + Default>(message: &[u8]) -> Result<M, ServerError> {
    M::decode(message).map_err(|error| {
        ServerError::new(ErrorKind::Parse, format!("the message is not valid protobuf of its type: {error}"))
    })
}

/// Returns the error for an unknown method. The name is shortened: it is the caller's and ends up in logs.
fn no_method(method: &str) -> ServerError {
    let shown: String = method.chars().take(80).collect();
    ServerError::new(ErrorKind::MethodNotFound, format!("there is no method {shown:?}"))
}

/// Decodes fields and records the violations.
///
/// Reading continues after a violation, so a caller learns about several mistakes at once, as in the JSON
/// bindings.
#[derive(Default)]
struct Fields {
    violations: Vec<FieldViolation>,
}

impl Fields {
    /// Records a violation. The description completes the sentence "`field` …".
    fn complain(&mut self, field: &str, description: &str) {
        let (field, description) = (field.to_owned(), description.to_owned());
        self.violations.push(FieldViolation { field, description });
    }

    /// Returns an id, and records a violation if it is empty.
    fn id(&mut self, field: &str, id: String) -> String {
        if id.is_empty() {
            self.complain(field, "must be set");
        }
        id
    }

    /// Returns a count, and records a violation if it is negative. Absent stays absent.
    fn count(&mut self, field: &str, count: Option<i32>) -> Option<u32> {
        let read = count.map(u32::try_from)?;
        if read.is_err() {
            self.complain(field, "must be a whole number from 0 on");
        }
        read.ok()
    }

    /// Returns the value, or all recorded violations as one error.
    fn finish<T>(self, read: T) -> Result<T, ServerError> {
        if self.violations.is_empty() { Ok(read) } else { Err(ServerError::invalid_fields(self.violations)) }
    }
}

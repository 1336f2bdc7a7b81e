//! Encodes calls as gRPC requests of either package: path, metadata and message.
//!
//! | | 1.0 | 0.3 |
//! |---|---|---|
//! | tasks | by their id | by a name, `tasks/{id}` |
//! | tenant | in every request | none |
//! | version | metadata `a2a-version` | none |
//! | extensions | metadata `a2a-extensions` | `x-a2a-extensions` too |
//!
//! Not here: the connection, deadlines and credentials, which belong to the transport and its caller.

use aqueduct_core::Metadata;
use prost::Message as _;

use super::names::{config_name, task_name};
use super::value::object_from_json;
use super::{V1_SERVICE, V03_SERVICE, v1, v03};
use crate::call::{Call, ListTasks, PushConfig, SendMessage};
use crate::card::Endpoint;
use crate::error::Error;
use crate::version::{Version, headers};

/// A gRPC request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcRequest {
    /// The path, `/service/method`.
    pub path: String,
    /// The metadata, with names in lower case; all values are text.
    pub metadata: Vec<(&'static str, String)>,
    /// The message, without the five-byte prefix of gRPC.
    pub message: Vec<u8>,
    /// Set if the response is a stream.
    pub streaming: bool,
}

impl Endpoint {
    /// Encodes a call for gRPC, in the package of the endpoint's version.
    ///
    /// The binding of the endpoint is not checked: the caller chooses the interface ([`card`](crate::card)) and
    /// opens the channel to its address.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotInVersion`] if the version has no such call (`ListTasks` in 0.3), and
    /// [`Error::Filter`] if a filter of a list has a value that protobuf cannot represent: a state without a
    /// number, or a time that is not RFC 3339. Both are the caller's fault.
    pub fn grpc_request(&self, call: &Call) -> Result<GrpcRequest, Error> {
        let version = self.version;
        let service = service(version);
        // `ListTasks` is the only call that a version lacks.
        let Some(method) = method(call, version) else {
            return Err(Error::NotInVersion { method: "ListTasks", version: version.as_str() });
        };
        let message = match version {
            Version::V1 => v1_message(call, &self.tenant)?,
            Version::V03 => v03_message(call),
        };
        Ok(GrpcRequest {
            path: format!("/{service}/{method}"),
            metadata: headers(version, &self.extensions),
            message,
            streaming: call.is_streaming(),
        })
    }
}

/// Returns the service of a version.
pub const fn service(version: Version) -> &'static str {
    match version {
        Version::V1 => V1_SERVICE,
        Version::V03 => V03_SERVICE,
    }
}

/// Returns the name of a call's method, or `None` if the version has none.
///
/// Three names differ: 0.3 calls a subscription `TaskSubscription`, lists configurations with a name in the
/// singular, and has one `GetAgentCard` instead of an extended card.
pub fn method(call: &Call, version: Version) -> Option<&'static str> {
    let (new, old) = match call {
        Call::SendMessage(_) => ("SendMessage", Some("SendMessage")),
        Call::SendStreamingMessage(_) => ("SendStreamingMessage", Some("SendStreamingMessage")),
        Call::GetTask { .. } => ("GetTask", Some("GetTask")),
        Call::ListTasks(_) => ("ListTasks", None),
        Call::CancelTask { .. } => ("CancelTask", Some("CancelTask")),
        Call::SubscribeToTask { .. } => ("SubscribeToTask", Some("TaskSubscription")),
        Call::CreatePushConfig(_) => {
            ("CreateTaskPushNotificationConfig", Some("CreateTaskPushNotificationConfig"))
        }
        Call::GetPushConfig { .. } => {
            ("GetTaskPushNotificationConfig", Some("GetTaskPushNotificationConfig"))
        }
        Call::ListPushConfigs { .. } => {
            ("ListTaskPushNotificationConfigs", Some("ListTaskPushNotificationConfig"))
        }
        Call::DeletePushConfig { .. } => {
            ("DeleteTaskPushNotificationConfig", Some("DeleteTaskPushNotificationConfig"))
        }
        Call::GetExtendedCard => ("GetExtendedAgentCard", Some("GetAgentCard")),
    };
    match version {
        Version::V1 => Some(new),
        Version::V03 => old,
    }
}

/// Encodes the message of a 1.0 call. Every request names the tenant of the endpoint; empty is the default of the
/// field.
fn v1_message(call: &Call, tenant: &str) -> Result<Vec<u8>, Error> {
    let tenant = tenant.to_owned();
    Ok(match call {
        Call::SendMessage(send) | Call::SendStreamingMessage(send) => v1_send(send, tenant).encode_to_vec(),
        Call::GetTask { id, history_length } => {
            v1::GetTaskRequest { tenant, id: id.clone(), history_length: history_length.map(length) }
                .encode_to_vec()
        }
        Call::ListTasks(list) => v1_list(list, tenant)?.encode_to_vec(),
        Call::CancelTask { id, metadata } => {
            v1::CancelTaskRequest { tenant, id: id.clone(), metadata: metadata_of(metadata.as_ref()) }
                .encode_to_vec()
        }
        Call::SubscribeToTask { id } => v1::SubscribeToTaskRequest { tenant, id: id.clone() }.encode_to_vec(),
        Call::CreatePushConfig(config) => {
            v1::TaskPushNotificationConfig { tenant, ..v1::TaskPushNotificationConfig::from(&**config) }
                .encode_to_vec()
        }
        Call::GetPushConfig { task_id, id } => {
            v1::GetTaskPushNotificationConfigRequest { tenant, task_id: task_id.clone(), id: id.clone() }
                .encode_to_vec()
        }
        Call::DeletePushConfig { task_id, id } => {
            v1::DeleteTaskPushNotificationConfigRequest { tenant, task_id: task_id.clone(), id: id.clone() }
                .encode_to_vec()
        }
        Call::ListPushConfigs { task_id } => v1::ListTaskPushNotificationConfigsRequest {
            tenant,
            task_id: task_id.clone(),
            ..Default::default()
        }
        .encode_to_vec(),
        Call::GetExtendedCard => v1::GetExtendedAgentCardRequest { tenant }.encode_to_vec(),
    })
}

/// Returns the request of both sending methods. A configuration with nothing but defaults is omitted.
fn v1_send(send: &SendMessage, tenant: String) -> v1::SendMessageRequest {
    let configuration = v1::SendMessageConfiguration {
        accepted_output_modes: send.accepted_output_modes.clone(),
        task_push_notification_config: send.push.as_ref().map(Into::into),
        history_length: send.history_length.map(length),
        return_immediately: send.return_immediately,
    };
    v1::SendMessageRequest {
        tenant,
        message: Some((&send.message).into()),
        configuration: (configuration != v1::SendMessageConfiguration::default()).then_some(configuration),
        metadata: metadata_of(send.metadata.as_ref()),
    }
}

/// Returns the request of a list. 0 is the number of "no filter by state".
fn v1_list(list: &ListTasks, tenant: String) -> Result<v1::ListTasksRequest, Error> {
    let unusable = |filter: &'static str, value: &str| Error::Filter { filter, value: value.to_owned() };
    let status = match list.status.as_deref() {
        None => 0,
        Some(name) => v1::TaskState::from_str_name(name).ok_or_else(|| unusable("status", name))? as i32,
    };
    let after = list.status_timestamp_after.as_deref();
    let after = after.map(|time| time.parse().map_err(|_| unusable("statusTimestampAfter", time)));
    Ok(v1::ListTasksRequest {
        tenant,
        context_id: list.context_id.clone().unwrap_or_default(),
        status,
        page_size: list.page_size.map(length),
        page_token: list.page_token.clone().unwrap_or_default(),
        history_length: list.history_length.map(length),
        status_timestamp_after: after.transpose()?,
        include_artifacts: list.include_artifacts,
    })
}

/// Encodes the message of a 0.3 call: tasks and configurations by their resource names, no tenant, no metadata in
/// `CancelTask`.
fn v03_message(call: &Call) -> Vec<u8> {
    match call {
        Call::SendMessage(send) | Call::SendStreamingMessage(send) => v03_send(send).encode_to_vec(),
        Call::GetTask { id, history_length } => v03::GetTaskRequest {
            name: task_name(id),
            // Zero means all there, as in every binding of 0.3; none cannot be expressed.
            history_length: history_length.map(length).unwrap_or_default(),
        }
        .encode_to_vec(),
        // There is no such method: the call is refused before its message is encoded.
        Call::ListTasks(_) => Vec::new(),
        Call::CancelTask { id, .. } => v03::CancelTaskRequest { name: task_name(id) }.encode_to_vec(),
        Call::SubscribeToTask { id } => v03::TaskSubscriptionRequest { name: task_name(id) }.encode_to_vec(),
        Call::CreatePushConfig(config) => v03::CreateTaskPushNotificationConfigRequest {
            parent: task_name(&config.task_id),
            config_id: config.id.clone(),
            config: Some((&**config).into()),
        }
        .encode_to_vec(),
        Call::GetPushConfig { task_id, id } => {
            v03::GetTaskPushNotificationConfigRequest { name: config_name(task_id, id) }.encode_to_vec()
        }
        Call::DeletePushConfig { task_id, id } => {
            v03::DeleteTaskPushNotificationConfigRequest { name: config_name(task_id, id) }.encode_to_vec()
        }
        Call::ListPushConfigs { task_id } => {
            v03::ListTaskPushNotificationConfigRequest { parent: task_name(task_id), ..Default::default() }
                .encode_to_vec()
        }
        Call::GetExtendedCard => v03::GetAgentCardRequest {}.encode_to_vec(),
    }
}

/// Returns the request of both sending methods. The configuration is always present, because an absent one would
/// mean `blocking: false` to a server of 0.3: proto3 does not distinguish it from the default.
fn v03_send(send: &SendMessage) -> v03::SendMessageRequest {
    v03::SendMessageRequest {
        request: Some((&send.message).into()),
        configuration: Some(v03::SendMessageConfiguration {
            accepted_output_modes: send.accepted_output_modes.clone(),
            push_notification: send.push.as_ref().map(Into::into),
            history_length: send.history_length.map(length).unwrap_or_default(),
            blocking: !send.return_immediately,
        }),
        metadata: metadata_of(send.metadata.as_ref()),
    }
}

/// The tenant is that of the request; the caller sets it where the configuration itself is the request.
impl From<&PushConfig> for v1::TaskPushNotificationConfig {
    fn from(config: &PushConfig) -> Self {
        let authentication = config.authentication.as_ref().map(|(scheme, credentials)| {
            v1::AuthenticationInfo { scheme: scheme.clone(), credentials: credentials.clone() }
        });
        Self {
            tenant: String::new(),
            id: config.id.clone(),
            task_id: config.task_id.clone(),
            url: config.url.clone(),
            token: config.token.clone().unwrap_or_default(),
            authentication,
        }
    }
}

/// 0.3 has a list of schemes for one credential. The task stands beside the configuration, not in it.
impl From<&PushConfig> for v03::PushNotificationConfig {
    fn from(config: &PushConfig) -> Self {
        let authentication = config.authentication.as_ref().map(|(scheme, credentials)| {
            v03::AuthenticationInfo { schemes: vec![scheme.clone()], credentials: credentials.clone() }
        });
        Self {
            id: config.id.clone(),
            url: config.url.clone(),
            token: config.token.clone().unwrap_or_default(),
            authentication,
        }
    }
}

/// The configuration with its resource name, as requests and responses of 0.3 contain it.
impl From<&PushConfig> for v03::TaskPushNotificationConfig {
    fn from(config: &PushConfig) -> Self {
        Self { name: config_name(&config.task_id, &config.id), push_notification_config: Some(config.into()) }
    }
}

/// Converts the metadata of a request into a `Struct`.
fn metadata_of(metadata: Option<&Metadata>) -> Option<prost_types::Struct> {
    metadata.cloned().map(object_from_json)
}

/// Converts a count to the type of protobuf; a larger count saturates, which means all.
fn length(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

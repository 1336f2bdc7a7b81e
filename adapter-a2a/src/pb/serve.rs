//! A2A over gRPC without sockets: decodes a request, calls an [`AgentServer`], and encodes messages or a status.
//!
//! ```text
//! Asked ► handle_grpc: caller identified? ► version matches the package? ► fields valid? ► AgentServer ► GrpcAnswer
//!                           └──────────────────────┴───────────────────────────┴──────────────┴───────► GrpcStatus
//! ```
//!
//! | | 1.0 (`lf.a2a.v1`) | 0.3 (`a2a.v1`) |
//! |---|---|---|
//! | version | metadata `a2a-version`; absent is 1.0, because the package defines it; another is refused | absent or 0.3 |
//! | errors | `google.rpc.ErrorInfo` and `BadRequest` in the details | the name of the error before the message |
//!
//! Both packages can be served at one address: the path of a request names its package. The transport decodes the
//! path, adds the five-byte prefix of gRPC, and writes the status as trailers.

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_core::service::Caller;
use futures_core::Stream;
use prost::Message as _;

use super::card::{v1_card, v03_card};
use super::read::Asked;
use super::status::{
    BAD_REQUEST_TYPE, BadRequest, CLASSES, DOMAIN, ERROR_INFO_TYPE, ErrorInfo, FieldFault, RETRY_INFO_TYPE,
    RetryInfo, RpcStatus,
};
use super::{v1, v03};
use crate::call::{Call, PushConfig};
use crate::server::{
    AgentServer, Answer, CallContext, CardConfig, ServerError, TaskPage, TaskStream, extensions,
};
use crate::version::{VERSION_HEADER, Version};
use crate::wire::{ErrorKind, StreamItem};

/// A response of [`AgentServer::handle_grpc`]: the content of the messages, without their prefix.
#[derive(Debug)]
pub enum GrpcAnswer {
    /// The message of a unary call. Empty bytes are a message too: the empty one, e.g. after a deletion.
    Message(Vec<u8>),
    /// The messages of `SendStreamingMessage` and of a subscription.
    Stream(GrpcEvents),
}

/// A status that is not OK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcStatus {
    /// The gRPC code, never 0 (OK).
    pub code: i32,
    /// The error message for people.
    pub message: String,
    /// The encoded `google.rpc.Status` for `grpc-status-details-bin`; empty in 0.3.
    pub details: Vec<u8>,
}

impl GrpcStatus {
    /// Returns the status of a refusal, for a client of that version.
    ///
    /// ```text
    /// 1.0:  code 5, "there is no task \"t\": …", details [ErrorInfo { reason: "TASK_NOT_FOUND", … }]
    /// 0.3:  code 5, "TaskNotFoundError: there is no task \"t\": …"
    /// ```
    pub fn of(error: &ServerError, version: Version) -> Self {
        let code = error.grpc_code() as i32;
        match version {
            Version::V1 => {
                let details = details(error);
                let status = RpcStatus { code, message: error.message.clone(), details };
                Self { code, message: error.message.clone(), details: status.encode_to_vec() }
            }
            Version::V03 => {
                let class =
                    CLASSES.iter().find(|row| row.1 == error.kind).map_or("InternalError", |row| row.0);
                Self { code, message: format!("{class}: {}", error.message), details: Vec::new() }
            }
        }
    }
}

/// Returns the details of an error, as typed messages: the reason always, the time to wait if a quota was
/// exceeded, and the invalid fields if there are any. The JSON bindings have the same in `ServerError::details`.
fn details(error: &ServerError) -> Vec<prost_types::Any> {
    let limit = error.exceeded.map(|exceeded| ("limit".to_owned(), exceeded.limit.to_owned()));
    let info = ErrorInfo {
        reason: error.reason().to_owned(),
        domain: DOMAIN.to_owned(),
        metadata: limit.into_iter().collect(),
    };
    let mut details =
        vec![prost_types::Any { type_url: ERROR_INFO_TYPE.to_owned(), value: info.encode_to_vec() }];
    if let Some(exceeded) = error.exceeded {
        let seconds = i64::try_from(exceeded.retry_seconds()).unwrap_or(i64::MAX);
        let retry = RetryInfo { retry_delay: Some(prost_types::Duration { seconds, nanos: 0 }) };
        details.push(prost_types::Any { type_url: RETRY_INFO_TYPE.to_owned(), value: retry.encode_to_vec() });
    }
    if !error.violations.is_empty() {
        let field_violations = error.violations.iter().map(|violation| FieldFault {
            field: violation.field.clone(),
            description: violation.description.clone(),
        });
        let request = BadRequest { field_violations: field_violations.collect() };
        details
            .push(prost_types::Any { type_url: BAD_REQUEST_TYPE.to_owned(), value: request.encode_to_vec() });
    }
    details
}

impl AgentServer {
    /// Handles a request of the package of that version. `card` is this agent's card with the addresses that this
    /// client can reach.
    ///
    /// Dropping the future stops nothing that has started: a task continues without its caller. The same holds
    /// for a stream that is dropped.
    ///
    /// # Errors
    ///
    /// Returns the status for the caller, with the details that the version defines.
    pub async fn handle_grpc(
        &self,
        caller: Caller,
        version: Version,
        asked: Asked,
        card: &CardConfig,
    ) -> Result<GrpcAnswer, GrpcStatus> {
        let refuse = |error: ServerError| GrpcStatus::of(&error, version);
        // Unauthenticated callers do not learn what is wrong with their requests.
        self.identify(&caller).map_err(refuse)?;
        check_version(&caller, version).map_err(refuse)?;
        let call = asked.call.map_err(refuse)?;
        let context = CallContext { version, tenant: asked.tenant, extensions: extensions(&caller) };
        if version == Version::V03 && matches!(call, Call::GetExtendedCard) {
            // `GetAgentCard` of this package returns the public card.
            return Ok(GrpcAnswer::Message(v03_card(&card.to_json()).encode_to_vec()));
        }
        let is_send = matches!(call, Call::SendMessage(_));
        let answer = self.handle_with_card(caller, context, call, card).await.map_err(refuse)?;
        Ok(match answer {
            Answer::Stream(items) => GrpcAnswer::Stream(GrpcEvents { items: Some(items), version }),
            answer => GrpcAnswer::Message(match version {
                Version::V1 => v1_answer(answer, is_send),
                Version::V03 => v03_answer(answer, is_send),
            }),
        })
    }
}

/// Checks that the metadata `a2a-version` name the version of the package.
///
/// An absent header is accepted, unlike over HTTP, where it means 0.3: the package in the path already determines
/// the version.
fn check_version(caller: &Caller, written: Version) -> Result<(), ServerError> {
    let Some(said) = caller.header(VERSION_HEADER).map(str::trim).filter(|said| !said.is_empty()) else {
        return Ok(());
    };
    if Version::parse(Some(said)) == Some(written) {
        return Ok(());
    }
    let shown: String = said.chars().take(20).collect();
    let words = format!("this package is A2A {written}, not '{shown}': send `a2a-version: {written}`");
    Err(ServerError::new(ErrorKind::VersionNotSupported, words))
}

/// Encodes a response that is not a stream. The two methods that send a message wrap the task or the message; all
/// others return it bare.
fn v1_answer(answer: Answer, is_send: bool) -> Vec<u8> {
    use v1::send_message_response::Payload;
    let sent = |payload| v1::SendMessageResponse { payload: Some(payload) }.encode_to_vec();
    match answer {
        Answer::Task(task) if is_send => sent(Payload::Task((&*task).into())),
        Answer::Message(message) if is_send => sent(Payload::Message((&*message).into())),
        Answer::Task(task) => v1::Task::from(&*task).encode_to_vec(),
        Answer::Message(message) => v1::Message::from(&*message).encode_to_vec(),
        Answer::Tasks(page) => v1_page(&page).encode_to_vec(),
        Answer::PushConfig(config) => v1::TaskPushNotificationConfig::from(&*config).encode_to_vec(),
        Answer::PushConfigs(configs) => v1::ListTaskPushNotificationConfigsResponse {
            configs: configs.iter().map(Into::into).collect(),
            next_page_token: String::new(),
        }
        .encode_to_vec(),
        Answer::Card(card) => v1_card(&card).encode_to_vec(),
        // `Nothing` is `google.protobuf.Empty`. A stream is handled by the caller.
        Answer::Nothing | Answer::Stream(_) => Vec::new(),
    }
}

/// Encodes a page of tasks. Counts beyond the range of `int32` saturate.
fn v1_page(page: &TaskPage) -> v1::ListTasksResponse {
    let size = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
    v1::ListTasksResponse {
        tasks: page.tasks.iter().map(Into::into).collect(),
        next_page_token: page.next_page_token.clone(),
        page_size: size(page.page_size),
        total_size: size(page.total_size),
    }
}

/// As [`v1_answer`], in the messages of 0.3.
fn v03_answer(answer: Answer, is_send: bool) -> Vec<u8> {
    use v03::send_message_response::Payload;
    let sent = |payload| v03::SendMessageResponse { payload: Some(payload) }.encode_to_vec();
    let config = |config: &PushConfig| v03::TaskPushNotificationConfig::from(config);
    match answer {
        Answer::Task(task) if is_send => sent(Payload::Task((&*task).into())),
        Answer::Message(message) if is_send => sent(Payload::Msg((&*message).into())),
        Answer::Task(task) => v03::Task::from(&*task).encode_to_vec(),
        Answer::Message(message) => v03::Message::from(&*message).encode_to_vec(),
        Answer::PushConfig(own) => config(&own).encode_to_vec(),
        Answer::PushConfigs(configs) => v03::ListTaskPushNotificationConfigResponse {
            configs: configs.iter().map(config).collect(),
            next_page_token: String::new(),
        }
        .encode_to_vec(),
        Answer::Card(card) => v03_card(&card).encode_to_vec(),
        // 0.3 has no request for a page of tasks.
        Answer::Tasks(_) | Answer::Nothing | Answer::Stream(_) => Vec::new(),
    }
}

/// The events of a task's stream, as messages. An error is the last item; after it, the stream is finished and
/// the watcher is dropped.
///
/// Dropping it removes the watcher; the task continues.
pub struct GrpcEvents {
    /// `None` after the end: the watcher holds a cursor in the log until it is dropped.
    items: Option<TaskStream>,
    version: Version,
}

aqueduct_core::debug_fields!(GrpcEvents { version });

impl Stream for GrpcEvents {
    type Item = Result<Vec<u8>, GrpcStatus>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(items) = &mut self.items else { return Poll::Ready(None) };
        let Poll::Ready(item) = Pin::new(items).poll_next(cx) else { return Poll::Pending };
        let version = self.version;
        if !matches!(item, Some(Ok(_))) {
            self.items = None;
        }
        Poll::Ready(item.map(|item| {
            item.map(|item| write_event(&item, version)).map_err(|error| GrpcStatus::of(&error, version))
        }))
    }
}

/// Encodes one event as a message, without the prefix of gRPC.
pub fn write_event(item: &StreamItem<'_>, version: Version) -> Vec<u8> {
    match version {
        Version::V1 => item.to_v1().encode_to_vec(),
        Version::V03 => item.to_v03().encode_to_vec(),
    }
}

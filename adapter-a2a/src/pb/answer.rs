//! Decodes responses of gRPC calls into the wire model.
//!
//! The transport has checked the status: a status that is not OK goes to `WireError::from_grpc` instead.

use prost::Message as _;

use super::{v1, v03};
use crate::call::Call;
use crate::error::Error;
use crate::version::Version;
use crate::wire::StreamItem;

/// Decodes one event of a stream. Returns `None` for an empty message.
///
/// # Errors
///
/// Returns an error if the bytes are not a message of the version.
pub fn read_event(version: Version, message: &[u8]) -> Result<Option<StreamItem<'static>>, Error> {
    Ok(match version {
        Version::V1 => StreamItem::from_v1(v1::StreamResponse::decode(message)?),
        Version::V03 => StreamItem::from_v03(v03::StreamResponse::decode(message)?),
    })
}

/// Decodes the response to a call about one task: the task or the message. Returns `None` if the response contains
/// neither, or the call is about something else.
///
/// # Errors
///
/// Returns an error if the bytes are not a message of the version.
pub fn read_task_answer(
    call: &Call,
    version: Version,
    message: &[u8],
) -> Result<Option<StreamItem<'static>>, Error> {
    match call {
        Call::SendMessage(_) => Ok(match version {
            Version::V1 => v1::SendMessageResponse::decode(message)?.payload.map(|payload| match payload {
                v1::send_message_response::Payload::Task(task) => StreamItem::Task(task.into()),
                v1::send_message_response::Payload::Message(message) => StreamItem::Message(message.into()),
            }),
            Version::V03 => v03::SendMessageResponse::decode(message)?.payload.map(|payload| match payload {
                v03::send_message_response::Payload::Task(task) => StreamItem::Task(task.into()),
                v03::send_message_response::Payload::Msg(message) => StreamItem::Message(message.into()),
            }),
        }),
        Call::GetTask { .. } | Call::CancelTask { .. } => Ok(Some(StreamItem::Task(match version {
            Version::V1 => v1::Task::decode(message)?.into(),
            Version::V03 => v03::Task::decode(message)?.into(),
        }))),
        Call::SendStreamingMessage(_) | Call::SubscribeToTask { .. } => read_event(version, message),
        _ => Ok(None),
    }
}

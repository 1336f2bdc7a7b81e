//! Conversion of enums, both ways. A new value of a core enum is an error until the .proto file has it.
//!
//! Enums of core may grow (`#[non_exhaustive]`): a value without a form is an error when it is written, never a default. Enums of protobuf are
//! open: an unknown number is an error when it is read, because guessing would change the meaning of an event.

use aqueduct_core::event::EndReason;
use aqueduct_core::{Channel, Role, RunOutcome, SpanKind};

use super::ConvertError;
use crate::proto;

/// Returns the role in `aqueduct.v1`.
///
/// # Errors
///
/// Returns [`ConvertError::NoForm`] for a role that a later version of core adds: it must not be sent as another one.
pub(super) fn role_to_proto(role: Role) -> Result<proto::Role, ConvertError> {
    Ok(match role {
        Role::Assistant => proto::Role::Assistant,
        Role::User => proto::Role::User,
        Role::System => proto::Role::System,
        Role::Developer => proto::Role::Developer,
        Role::Tool => proto::Role::Tool,
        _ => return Err(ConvertError::NoForm { what: "role" }),
    })
}

/// Decodes a role. An unknown value is an error that names the field.
pub(super) fn role_from_proto(field: &'static str, value: i32) -> Result<Role, ConvertError> {
    Ok(match proto::Role::try_from(value) {
        Ok(proto::Role::Assistant) => Role::Assistant,
        Ok(proto::Role::User) => Role::User,
        Ok(proto::Role::System) => Role::System,
        Ok(proto::Role::Developer) => Role::Developer,
        Ok(proto::Role::Tool) => Role::Tool,
        Ok(proto::Role::Unspecified) => return Err(ConvertError::Missing { field }),
        Err(_) => return Err(ConvertError::UnknownKind { field, value }),
    })
}

/// Returns the channel in `aqueduct.v1`.
pub(super) fn channel_to_proto(channel: Channel) -> proto::Channel {
    match channel {
        Channel::Answer => proto::Channel::Answer,
        Channel::Intermediate => proto::Channel::Intermediate,
    }
}

/// Converts a channel. Unspecified means the answer, as the .proto file documents.
pub(super) fn channel_from_proto(field: &'static str, value: i32) -> Result<Channel, ConvertError> {
    match proto::Channel::try_from(value) {
        Ok(proto::Channel::Unspecified | proto::Channel::Answer) => Ok(Channel::Answer),
        Ok(proto::Channel::Intermediate) => Ok(Channel::Intermediate),
        Err(_) => Err(ConvertError::UnknownKind { field, value }),
    }
}

/// Returns the kind of a block in `aqueduct.v1`.
pub(super) fn kind_to_proto(kind: SpanKind) -> proto::BlockKind {
    match kind {
        SpanKind::Text => proto::BlockKind::Text,
        SpanKind::Thinking => proto::BlockKind::Thinking,
        SpanKind::ToolUse => proto::BlockKind::ToolUse,
    }
}

/// Decodes the kind of a block. An unknown value is an error, never a default.
pub(super) fn kind_from_proto(value: i32) -> Result<SpanKind, ConvertError> {
    match proto::BlockKind::try_from(value) {
        Ok(proto::BlockKind::Text) => Ok(SpanKind::Text),
        Ok(proto::BlockKind::Thinking) => Ok(SpanKind::Thinking),
        Ok(proto::BlockKind::ToolUse) => Ok(SpanKind::ToolUse),
        Ok(proto::BlockKind::Unspecified) | Err(_) => {
            Err(ConvertError::UnknownKind { field: "block.kind", value })
        }
    }
}

/// Encodes an end reason. A reason that the protocol does not define is an error.
pub(super) fn end_reason_to_proto(reason: EndReason) -> Result<proto::EndReason, ConvertError> {
    Ok(match reason {
        EndReason::Complete => proto::EndReason::Complete,
        EndReason::Interrupted => proto::EndReason::Interrupted,
        EndReason::Closed => proto::EndReason::Closed,
        EndReason::Replaced => proto::EndReason::Replaced,
        _ => return Err(ConvertError::NoForm { what: "end reason" }),
    })
}

/// Decodes an end reason. An unknown value is an error, never a default.
pub(super) fn end_reason_from_proto(value: i32) -> Result<EndReason, ConvertError> {
    Ok(match proto::EndReason::try_from(value) {
        Ok(proto::EndReason::Complete) => EndReason::Complete,
        Ok(proto::EndReason::Interrupted) => EndReason::Interrupted,
        Ok(proto::EndReason::Closed) => EndReason::Closed,
        Ok(proto::EndReason::Replaced) => EndReason::Replaced,
        Ok(proto::EndReason::Unspecified) | Err(_) => {
            return Err(ConvertError::UnknownKind { field: "block_ended.reason", value });
        }
    })
}

/// Encodes an outcome. An outcome that the protocol does not define is an error.
pub(super) fn outcome_to_proto(outcome: RunOutcome) -> Result<proto::RunOutcome, ConvertError> {
    Ok(match outcome {
        RunOutcome::Success => proto::RunOutcome::Success,
        RunOutcome::Interrupted => proto::RunOutcome::Interrupted,
        RunOutcome::Cancelled => proto::RunOutcome::Cancelled,
        _ => return Err(ConvertError::NoForm { what: "run outcome" }),
    })
}

/// Decodes an outcome. An unknown value is an error, never a default.
pub(super) fn outcome_from_proto(value: i32) -> Result<RunOutcome, ConvertError> {
    Ok(match proto::RunOutcome::try_from(value) {
        Ok(proto::RunOutcome::Success) => RunOutcome::Success,
        Ok(proto::RunOutcome::Interrupted) => RunOutcome::Interrupted,
        Ok(proto::RunOutcome::Cancelled) => RunOutcome::Cancelled,
        Ok(proto::RunOutcome::Unspecified) | Err(_) => {
            return Err(ConvertError::UnknownKind { field: "run_finished.outcome", value });
        }
    })
}

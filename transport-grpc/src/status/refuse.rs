//! Creation of statuses on the server.
//!
//! Every status has a code for generic clients, and an `ErrorInfo` with a reason for clients of
//! this crate (`read.rs` decodes it). Facts that a client acts on are metadata of that info: the
//! number after which to resume, the earliest number that is stored, the name of an exceeded limit.
//!
//! | case | code | reason | retry |
//! |---|---|---|---|
//! | a request that cannot be converted | `INVALID_ARGUMENT` | `INVALID` | no |
//! | an event without a form | `INTERNAL` | `INTERNAL` | no |
//! | lost, stalled, stopping | `UNAVAILABLE` | `LOST`, `STALLED`, `STOPPING` | yes, after the number |
//! | requests that end without `finish` | `ABORTED` | `CUT` | no, open the run again |
//! | a late request | `DEADLINE_EXCEEDED` | `DEADLINE` | no |

use std::collections::HashMap;
use std::time::Duration;

use aqueduct_core::service::{RefusalKind, ServiceError};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{AFTER, DOMAIN, EARLIEST, LIMIT};
use crate::convert::ConvertError;

/// Creates statuses, with the time after which a caller may retry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statuses {
    pub(crate) retry_after: Duration,
}

impl Statuses {
    /// Returns the status for a refusal of the service.
    pub(crate) fn refused(self, refusal: ServiceError) -> Status {
        let (code, reason) = code_and_reason(refusal.kind);
        let mut facts = HashMap::new();
        if let RefusalKind::Gone { earliest } = refusal.kind {
            facts.insert(EARLIEST.to_owned(), earliest.to_string());
        }
        if let Some(exceeded) = refusal.exceeded {
            facts.insert(LIMIT.to_owned(), exceeded.limit.to_owned());
            let statuses = Self { retry_after: Duration::from_secs(exceeded.retry_seconds()) };
            return statuses.status(code, reason, refusal.message, facts, true);
        }
        let may_pass = matches!(refusal.kind, RefusalKind::Busy | RefusalKind::Unavailable);
        self.status(code, reason, refusal.message, facts, may_pass)
    }

    /// Returns the status for a request that cannot be converted.
    pub(crate) fn invalid(self, error: &ConvertError) -> Status {
        let message = error.to_string();
        self.status(Code::InvalidArgument, "INVALID", message, HashMap::new(), false)
    }

    /// Returns the status for an event that cannot be converted.
    pub(crate) fn unconvertible(self, number: u64, error: &ConvertError) -> Status {
        let message = format!("event {number} cannot be sent: {error}");
        self.status(Code::Internal, "INTERNAL", message, HashMap::new(), false)
    }

    /// Returns the status for a whole run that cannot be converted.
    pub(crate) fn unwritable(self, error: &ConvertError) -> Status {
        let message = format!("the run cannot be sent as one value: {error}; watch its events instead");
        self.status(Code::Internal, "INTERNAL", message, HashMap::new(), false)
    }

    /// Returns the status for events that ended without a terminal one.
    pub(crate) fn lost(self, after: u64) -> Status {
        let message = "the service lost the run: its events ended without a terminal event; watch it again";
        self.resumable("LOST", message, Some(after))
    }

    /// Returns the status for a stalled reader.
    pub(crate) fn stalled(self, after: Option<u64>) -> Status {
        self.resumable("STALLED", "the stream was not read for too long; continue where it stopped", after)
    }

    /// Returns the status at the shutdown of the server.
    pub(crate) fn stopping(self, after: Option<u64>) -> Status {
        self.resumable("STOPPING", "the server is stopping; continue where the stream stopped", after)
    }

    /// Returns the status for a publisher that ended its requests without `finish`.
    pub(crate) fn cut(self) -> Status {
        let message = "the stream ended without `finish`, which is a cut; open the run again";
        self.status(Code::Aborted, "CUT", message.to_owned(), HashMap::new(), false)
    }

    /// Returns the status after the caller's deadline.
    pub(crate) fn deadline(self) -> Status {
        let message = "the deadline of the call passed".to_owned();
        self.status(Code::DeadlineExceeded, "DEADLINE", message, HashMap::new(), false)
    }

    /// Returns the status for a request that did not arrive in time.
    pub(crate) fn late_request(self) -> Status {
        let message = "the request did not arrive in time; send it at once".to_owned();
        self.status(Code::DeadlineExceeded, "DEADLINE", message, HashMap::new(), false)
    }

    /// Returns `UNAVAILABLE` with a reason and the number after which to resume.
    fn resumable(self, reason: &str, message: &str, after: Option<u64>) -> Status {
        let facts = after.map(|after| (AFTER.to_owned(), after.to_string()));
        self.status(Code::Unavailable, reason, message.to_owned(), facts.into_iter().collect(), true)
    }

    /// Returns a status with machine-readable details: the reason, and the facts about it.
    fn status(
        self,
        code: Code,
        reason: &str,
        message: String,
        facts: HashMap<String, String>,
        may_pass: bool,
    ) -> Status {
        let mut details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
        if may_pass {
            details.set_retry_info(Some(self.retry_after));
        }
        Status::with_error_details(code, message, details)
    }
}

/// Returns the gRPC code and the reason of a refusal.
fn code_and_reason(kind: RefusalKind) -> (Code, &'static str) {
    match kind {
        RefusalKind::NotFound => (Code::NotFound, "NOT_FOUND"),
        RefusalKind::Unauthenticated => (Code::Unauthenticated, "UNAUTHENTICATED"),
        RefusalKind::Invalid => (Code::InvalidArgument, "INVALID"),
        RefusalKind::Conflict => (Code::FailedPrecondition, "CONFLICT"),
        RefusalKind::Gone { .. } => (Code::OutOfRange, "GONE"),
        RefusalKind::Busy => (Code::ResourceExhausted, "BUSY"),
        RefusalKind::Unavailable => (Code::Unavailable, "UNAVAILABLE"),
        RefusalKind::Unsupported => (Code::Unimplemented, "UNSUPPORTED"),
        RefusalKind::Internal => (Code::Internal, "INTERNAL"),
        _ => (Code::Unknown, "UNKNOWN"),
    }
}

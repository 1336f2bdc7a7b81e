//! Conversion of statuses on the client.

use aqueduct_core::service::{RefusalKind, ServiceError};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{DOMAIN, EARLIEST};
use crate::error::ClientError;

/// Converts a status into an error.
#[expect(clippy::needless_pass_by_value, reason = "used as `map_err(to_error)`")]
pub(crate) fn to_error(status: Status) -> ClientError {
    let message = status.message().to_owned();
    let code = status.code();
    let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
    let Some(info) = info else {
        return match code {
            Code::DeadlineExceeded => ClientError::Timeout { what: "the call" },
            // tonic reports a lost connection with these codes.
            Code::Unavailable | Code::Cancelled | Code::Unknown => ClientError::Cut { code, message },
            _ => ClientError::Status { code, message },
        };
    };
    let kind = match info.reason.as_str() {
        "NOT_FOUND" => RefusalKind::NotFound,
        "UNAUTHENTICATED" => RefusalKind::Unauthenticated,
        "INVALID" => RefusalKind::Invalid,
        "CONFLICT" => RefusalKind::Conflict,
        "GONE" => {
            let earliest = info.metadata.get(EARLIEST).and_then(|number| number.parse().ok());
            RefusalKind::Gone { earliest: earliest.unwrap_or_default() }
        }
        "BUSY" => RefusalKind::Busy,
        "UNAVAILABLE" => RefusalKind::Unavailable,
        "UNSUPPORTED" => RefusalKind::Unsupported,
        "INTERNAL" => RefusalKind::Internal,
        "DEADLINE" => return ClientError::Timeout { what: "the call" },
        "LOST" | "STALLED" | "STOPPING" | "CUT" => return ClientError::Cut { code, message },
        _ => return ClientError::Status { code, message },
    };
    ClientError::Refused(ServiceError::new(kind, message))
}

//! Conversion of statuses on the client.
//!
//! | status | becomes |
//! |---|---|
//! | details of the domain `aqueduct`, with a known reason | the refusal of the service, a timeout, or a cut stream |
//! | `UNAVAILABLE`, `CANCELLED`, `UNKNOWN` without details | [`Error::Cut`]: tonic reports a lost connection with these |
//! | any other | [`Error::Status`], with code and message |

use aqueduct_core::service::{RefusalKind, ServiceError};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{DOMAIN, EARLIEST};
use crate::error::Error;

/// Converts a status into an error.
#[expect(clippy::needless_pass_by_value, reason = "used as `map_err(to_error)`")]
pub(crate) fn to_error(status: Status) -> Error {
    let message = status.message().to_owned();
    let code = status.code();
    let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
    let Some(info) = info else {
        return match code {
            Code::DeadlineExceeded => Error::Timeout { what: "the call" },
            // tonic reports a lost connection with these codes.
            Code::Unavailable | Code::Cancelled | Code::Unknown => Error::Cut { code, message },
            _ => Error::Status { code, message },
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
        "DEADLINE" => return Error::Timeout { what: "the call" },
        "LOST" | "STALLED" | "STOPPING" | "CUT" => return Error::Cut { code, message },
        _ => return Error::Status { code, message },
    };
    Error::Refused(ServiceError::new(kind, message))
}

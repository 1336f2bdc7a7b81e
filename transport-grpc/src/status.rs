//! Refusals as gRPC statuses with details, and back.
//!
//! | refusal | code | reason |
//! |---|---|---|
//! | `NotFound` | `NOT_FOUND` | `NOT_FOUND` |
//! | `Unauthenticated` | `UNAUTHENTICATED` | `UNAUTHENTICATED` |
//! | `Invalid` | `INVALID_ARGUMENT` | `INVALID` |
//! | `Conflict` | `FAILED_PRECONDITION` | `CONFLICT` |
//! | `Gone` | `OUT_OF_RANGE` | `GONE`, with `earliest` |
//! | `Busy` | `RESOURCE_EXHAUSTED` | `BUSY`, with `RetryInfo`, and `limit` where a limit was passed |
//! | `Unavailable` | `UNAVAILABLE` | `UNAVAILABLE`, with `RetryInfo` |
//! | `Unsupported` | `UNIMPLEMENTED` | `UNSUPPORTED` |
//! | `Internal` | `INTERNAL` | `INTERNAL` |
//!
//! Beside these, statuses of the transport itself: `LOST`, `STALLED` and `STOPPING` (all `UNAVAILABLE`, with `after`: the
//! number to continue from), `CUT` (`ABORTED`), `DEADLINE` (`DEADLINE_EXCEEDED`), `MALFORMED` (`INVALID_ARGUMENT`).
//! The reason and the rest stand in a `google.rpc.ErrorInfo` of domain [`DOMAIN`].

#[cfg(feature = "client")]
mod read;
#[cfg(feature = "server")]
mod refuse;

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

#[cfg(feature = "client")]
pub(crate) use read::to_error;
#[cfg(feature = "server")]
pub(crate) use refuse::Statuses;

/// The domain of our reasons.
pub const DOMAIN: &str = "aqueduct";

/// In the facts of a status: the number to continue from.
pub const AFTER: &str = "after";

/// In the facts of a status: the earliest number that is still kept.
pub const EARLIEST: &str = "earliest";

/// In the facts of a status: the name of the limit that was passed.
pub const LIMIT: &str = "limit";

/// A message that is not what the method takes.
pub(crate) fn malformed(message: &str) -> Status {
    let details = ErrorDetails::with_error_info("MALFORMED", DOMAIN, HashMap::new());
    Status::with_error_details(Code::InvalidArgument, message, details)
}

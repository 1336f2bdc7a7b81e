//! Conversion between refusals and gRPC statuses with details.
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
//! In addition there are statuses of the transport itself: `LOST`, `STALLED` and `STOPPING` (all `UNAVAILABLE`, with `after`:
//! the number after which to resume), `CUT` (`ABORTED`), `DEADLINE` (`DEADLINE_EXCEEDED`), `MALFORMED`
//! (`INVALID_ARGUMENT`). A `google.rpc.ErrorInfo` of domain [`DOMAIN`] holds the reason and the further data.

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

/// The domain of the reasons.
pub const DOMAIN: &str = "aqueduct";

/// The metadata key of the number after which to resume.
pub const AFTER: &str = "after";

/// The metadata key of the earliest stored number.
pub const EARLIEST: &str = "earliest";

/// In the facts of a status: the name of the limit that was passed.
pub const LIMIT: &str = "limit";

/// A message that is not what the method takes.
pub(crate) fn malformed(message: &str) -> Status {
    let details = ErrorDetails::with_error_info("MALFORMED", DOMAIN, HashMap::new());
    Status::with_error_details(Code::InvalidArgument, message, details)
}

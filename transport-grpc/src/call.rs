//! The context of a call: its caller, the deadline, and the shutdown of the server.
//!
//! ```text
//! grpc-timeout: 5S ──► deadline ─┐
//! server closes ───► closing ────┴─► Bounds: every wait for the service ends at the first of both
//! ```
//!
//! A call with a missing or malformed `grpc-timeout` has no deadline, as in other gRPC servers. Times are tokio's, so that tests can pause them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::service::Caller;
use aqueduct_core::{CancelToken, Cancelled};
use aqueduct_transport_http::{Stopping, caller_from};
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::status::Statuses;

/// The caller of a request and the bounds of its call.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) bounds: Bounds,
}

impl Call {
    /// Reads caller, deadline and shutdown of a request.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let (headers, extensions) = (request.metadata().as_ref(), request.extensions());
        let timeout = headers.get("grpc-timeout").and_then(|value| grpc_timeout(value.to_str().ok()?));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // Without a server of `transport-http` only the connection ends the streams.
        let closing = extensions.get::<Stopping>().map(|stopping| stopping.closing.clone());
        Self {
            caller: caller_from(headers, extensions),
            bounds: Bounds { deadline, closing: closing.unwrap_or_default() },
        }
    }
}

/// The bounds of a call: the deadline of its caller, and the shutdown of the server.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) deadline: Option<Instant>,
    pub(crate) closing: CancelToken,
}

impl Bounds {
    /// Waits for `work` within the bounds.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` if the server closes first, and `DEADLINE_EXCEEDED` if the time elapses. Work that is done wins over both.
    pub(crate) async fn within<T>(
        &self,
        statuses: Statuses,
        work: impl Future<Output = T>,
    ) -> Result<T, Status> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.closing.cancelled() => Err(statuses.stopping(None)),
            () = until(self.deadline) => Err(statuses.deadline()),
        }
    }

    /// Returns the shutdown of the server as a future.
    pub(crate) fn server_end(&self) -> ServerEnd {
        ServerEnd(self.closing.cancelled())
    }
}

/// Completes when streams must end before their runs.
pub(crate) struct ServerEnd(Cancelled);

impl ServerEnd {
    /// Completes when the server ends the call.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Completes at that time; never for `None`.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Parses a timeout: at most eight digits and a unit (gRPC over HTTP/2, "Timeout").
///
/// Returns `None` for more digits, no unit, or another unit: the header is ignored then.
fn grpc_timeout(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit_and_nothing_else_is() {
        assert_eq!(grpc_timeout("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(grpc_timeout("2M"), Some(Duration::from_secs(120)));
        assert_eq!(grpc_timeout("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(grpc_timeout("5m"), Some(Duration::from_millis(5)));
        assert_eq!(grpc_timeout("6u"), Some(Duration::from_micros(6)));
        assert_eq!(grpc_timeout("7n"), Some(Duration::from_nanos(7)));
        for bad in ["", "S", "5", "5s", "123456789S", "-1S", "+1S", "1é", "é"] {
            assert_eq!(grpc_timeout(bad), None, "{bad}");
        }
    }
}

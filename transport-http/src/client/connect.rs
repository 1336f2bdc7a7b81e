//! A connector with one limit of time for all of it: finding the address, the connection, and the TLS handshake.
//!
//! The library's own limit covers only the connection: a resolver that hangs, or a server that accepts and then says
//! nothing, would hold a request until its own limit, which is minutes.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use thiserror::Error as ThisError;
use tower::Service;

type BoxError = Box<dyn Error + Send + Sync>;

/// No connection within the limit `connect`.
#[derive(Debug, ThisError)]
#[error("no connection within the limit `connect` ({limit:?})")]
struct ConnectTimeout {
    limit: Duration,
}

/// Connects in time or not at all.
#[derive(Debug, Clone)]
pub(crate) struct TimedConnector<C> {
    connector: C,
    limit: Duration,
}

impl<C> TimedConnector<C> {
    pub(crate) fn new(connector: C, limit: Duration) -> Self {
        Self { connector, limit }
    }
}

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.connector.call(uri), self.limit);
        Box::pin(async move {
            let connected = tokio::time::timeout(limit, connecting).await;
            connected.map_err(|_| ConnectTimeout { limit })?.map_err(Into::into)
        })
    }
}

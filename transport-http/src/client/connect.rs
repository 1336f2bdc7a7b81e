//! A connector with one time limit for the lookup of the address, the connection and the TLS handshake together. It reuses
//! connections that streams have released ([`parked`](super::parked)) before it connects.
//!
//! The connector of hyper limits only the connection: a resolver that hangs, or a server that accepts and then sends
//! nothing, would block a request until the limit of the response, which is minutes.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Uri;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::TokioIo;
use thiserror::Error as ThisError;
use tower::Service;

use super::dial::Dial;
use super::loan::{IntoDuplex, Loan, Socket};
use super::parked::Parked;
use super::watch::CallWatch;

type BoxError = Box<dyn Error + Send + Sync>;

/// No connection within the limit `connect`.
#[derive(Debug, ThisError)]
#[error("no connection within the limit `connect` ({limit:?})")]
struct ConnectTimeout {
    limit: Duration,
}

/// Connects within the limit, or fails.
#[derive(Debug, Clone)]
pub(crate) struct TimedConnector<C> {
    connector: C,
    limit: Duration,
    parked: Arc<Parked>,
    /// Uses HTTP/2 with prior knowledge.
    is_http2: bool,
    watch: Option<Arc<dyn CallWatch>>,
    /// Opens connections in place of `connector`.
    dial: Option<Arc<dyn Dial>>,
}

impl<C> TimedConnector<C> {
    /// Returns a connector that reuses parked sockets before it opens new ones.
    pub(crate) fn new(connector: C, limit: Duration, parked: Arc<Parked>, is_http2: bool) -> Self {
        Self { connector, limit, parked, is_http2, watch: None, dial: None }
    }

    /// Reports each connection to the watch.
    pub(crate) fn watched(self, watch: Option<Arc<dyn CallWatch>>) -> Self {
        Self { watch, ..self }
    }

    /// Opens connections by `dial`, if it is set.
    pub(crate) fn dialed(self, dial: Option<Arc<dyn Dial>>) -> Self {
        Self { dial, ..self }
    }
}

impl<C> TimedConnector<C>
where
    C: Service<Uri>,
    C::Response: Connection + IntoDuplex + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    /// Opens a connection by `dial`, or by the connector.
    fn open(&mut self, target: Uri) -> Pin<Box<dyn Future<Output = Result<Socket, BoxError>> + Send>> {
        if let Some(dial) = &self.dial {
            let dialing = dial.dial(&target);
            return Box::pin(async move { Ok(Socket { io: dialing.await?, target, is_http2: false }) });
        }
        let connecting = self.connector.call(target.clone());
        Box::pin(async move {
            let io = connecting.await.map_err(Into::into)?;
            let is_http2 = io.connected().is_negotiated_h2();
            Ok(Socket { io: io.into_duplex(), target, is_http2 })
        })
    }
}

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri>,
    C::Response: Connection + IntoDuplex + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = TokioIo<Loan>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Loan>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let is_http2 = self.is_http2;
        if let Some(socket) = self.parked.take(&target) {
            return Box::pin(std::future::ready(Ok(TokioIo::new(Loan::new(socket, is_http2)))));
        }
        let (opening, limit) = (self.open(target), self.limit);
        let watch = self.watch.clone();
        Box::pin(async move {
            let begun_at = Instant::now();
            let opened = tokio::time::timeout(limit, opening).await;
            if let Some(watch) = watch {
                watch.handle_connect(begun_at.elapsed(), matches!(opened, Ok(Ok(_))));
            }
            let socket = opened.map_err(|_| ConnectTimeout { limit })??;
            Ok(TokioIo::new(Loan::new(socket, is_http2)))
        })
    }
}

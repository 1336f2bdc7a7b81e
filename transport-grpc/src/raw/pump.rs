//! [`RawPump`]: sends the payloads of one answer as the messages of one call.
//!
//! Pulled, never pushed: the service is polled for its next payload when the peer has room. The service's stream is dropped
//! as soon as the call ends, for any reason.
//!
//! The call ends with the first of these: the payloads end (`OK`), the service refuses, the
//! deadline of the client passes, or the server shuts down. The state is the field `payloads`:
//! `None` once the call has ended, after which the stream yields nothing more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_transport_http::{Gauge, OpenGuard, Total};
use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Sleep;
use tonic::Status;

use super::server::Payloads;
use crate::call::{Bounds, ServerEnd};
use crate::driver::Shared;
use crate::stall::Stallable;

/// The messages of one answer.
pub(super) struct RawPump {
    payloads: Option<Payloads>,
    shared: Arc<Shared>,
    deadline: Option<Pin<Box<Sleep>>>,
    server_end: ServerEnd,
    _open: OpenGuard,
}

impl RawPump {
    /// Returns the stream of a response, bounded by the deadline of the client and the end of the server.
    pub(super) fn new(payloads: Payloads, bounds: &Bounds, shared: Arc<Shared>) -> Self {
        Self {
            payloads: Some(payloads),
            deadline: bounds.deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline))),
            server_end: bounds.server_end(),
            _open: shared.counters.open(Gauge::Calls),
            shared,
        }
    }

    /// Polls the timers. They are polled with every payload, also if payloads are ready: a service that
    /// is always ready would starve them.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.server_end.poll(cx).is_ready() {
            return Poll::Ready(self.shared.statuses.stopping(None));
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(cx).map(|()| self.shared.statuses.deadline()),
            None => Poll::Pending,
        }
    }
}

impl Stream for RawPump {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(payloads) = &mut this.payloads else { return Poll::Ready(None) };
        // A payload that is ready when the time is up is dropped: the client is no longer waiting for it.
        let polled = payloads.as_mut().poll_next(cx);
        let end = match this.poll_time(cx) {
            Poll::Ready(status) => Some(Err(status)),
            Poll::Pending => match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(payload))) => {
                    this.shared.count_message(1);
                    return Poll::Ready(Some(Ok(payload)));
                }
                Poll::Ready(Some(Err(status))) => Some(Err(status.into())),
                Poll::Ready(None) => None,
            },
        };
        // Drops the stream of the service at once, so that it stops working.
        this.payloads = None;
        Poll::Ready(end)
    }
}

impl Stallable for RawPump {
    fn stalled(&self) -> Status {
        self.shared.counters.count(Total::WriteStalls);
        self.shared.statuses.stalled(None)
    }
}

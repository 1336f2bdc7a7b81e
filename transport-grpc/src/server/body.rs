//! A request body that must arrive in time.
//!
//! The limit is one time for the whole body, not a pause between two chunks: a peer that sends a byte every second would pass any pause. It
//! ends with the body, so a unary call that takes long to answer is not affected. Request streams of publishers have no limit here.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aqueduct_core::service::ServiceError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tonic::codegen::StdError;

use crate::status::Statuses;

/// Returns the status for a body above the quota of its caller. Other errors are returned
/// unchanged.
///
/// The limit is enforced below tonic, by the body of the HTTP server, whose error reaches this
/// layer wrapped; the refusal is found among its causes.
fn refused(statuses: Statuses, error: StdError) -> StdError {
    let first: &(dyn std::error::Error + 'static) = &*error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    match causes.find_map(<dyn std::error::Error>::downcast_ref::<ServiceError>) {
        Some(refusal) => statuses.refused(refusal.clone()).into(),
        None => error,
    }
}

pin_project! {
    /// A body with a time limit for all of it. Without it a peer that sends single bytes could hold a call open.
    pub(crate) struct TimedBody<B> {
        #[pin]
        body: B,
        limit: Option<Pin<Box<Sleep>>>,
        statuses: Statuses,
    }
}

impl<B> TimedBody<B> {
    /// Returns a request body that must arrive within `limit`.
    pub(crate) fn new(body: B, limit: Option<Duration>, statuses: Statuses) -> Self {
        Self { body, limit: limit.map(|limit| Box::pin(tokio::time::sleep(limit))), statuses }
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.project();
        match this.body.poll_frame(cx) {
            Poll::Ready(None) => {
                // The body is complete: the timer must not fire while the call is answered.
                *this.limit = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                Poll::Ready(Some(frame.map_err(|error| refused(*this.statuses, error.into()))))
            }
            Poll::Pending => {
                // The timer is polled only while the body is pending: a frame that has arrived is delivered
                // even if it is late.
                let Some(limit) = this.limit else { return Poll::Pending };
                ready!(limit.as_mut().poll(cx));
                Poll::Ready(Some(Err(this.statuses.late_request().into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

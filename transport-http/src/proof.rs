//! Authentication of callers, once per request and before the body is read. A response ends when the proof of its caller
//! ends.
//!
//! ```text
//! request head ──► RunService::authenticate ──► RunService::quota ──► extension `Proof` ──► route ──► response body
//!                                                    └ used up: 429                                    ├ its own end
//!                                                                                                      └ proof expired
//!                                                                                                        or revoked: cut
//! ```
//!
//! A cut stream ends with an error (HTTP) or with status 16 (gRPC), never with a clean end; its reader resumes from the last
//! position with a new proof. The route decides about a refused proof: some routes are public.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aqueduct_core::Identity;
use aqueduct_core::service::{Caller, Proof, RunService, ServiceError};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::endpoint::caller_from;
use crate::error::Error;
use crate::quota::{BodyCharge, Quotas};
use crate::refusal::{Refusal, is_grpc};

/// Authenticates every request to `router` by `service`.
pub fn authenticated(router: Router, service: Arc<dyn RunService>) -> Router {
    router.layer(from_fn(move |request, next| authenticate(Arc::clone(&service), request, next)))
}

/// Checks the proof of a request once, charges the request to its account, and stores the identity for the route. A
/// stream of the response ends when the proof does.
async fn authenticate(service: Arc<dyn RunService>, mut request: Request, next: Next) -> Response {
    let caller = caller_from(request.headers(), request.extensions());
    if matches!(caller.proof, Proof::Refused(_)) {
        return next.run(request).await;
    }
    let caller = service.authenticate(caller).await;
    let proof = match charge(&*service, &caller, &request) {
        Ok(()) => caller.proof,
        // A gRPC service refuses with its own status, before it reads the body.
        Err(error) if is_grpc(request.headers()) => Proof::Refused(error),
        Err(error) => return Refusal::from(error).into_response(),
    };
    request.extensions_mut().insert(proof.clone());
    let response = next.run(request).await;
    match proof {
        Proof::Verified(identity) if !identity.principal.is_anonymous() => ending(response, identity),
        _ => response,
    }
}

/// Charges a request to the account of its caller, and its body from now on.
fn charge(service: &dyn RunService, caller: &Caller, request: &Request) -> Result<(), ServiceError> {
    let extensions = request.extensions();
    let (Some(quotas), Some(account)) = (extensions.get::<Quotas>(), caller.account()) else { return Ok(()) };
    let quota = service.quota(&account);
    quotas.admit(&account, &quota)?;
    if let Some(charge) = extensions.get::<BodyCharge>() {
        charge.assign(&account, &quota);
    }
    Ok(())
}

/// Lets the body of a response end with the proof. A body that is at hand as a whole is not worth a timer.
fn ending(response: Response, identity: Arc<Identity>) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_grpc = kind.starts_with(b"application/grpc");
    let end = Box::pin(proof_end(identity));
    response.map(|body| Body::new(ProofBody { body: Some(body), is_grpc, end }))
}

/// Completes when the proof of an identity expires or is revoked.
pub async fn proof_end(identity: Arc<Identity>) {
    let expired = async {
        let Some(at) = identity.expires_at else { return std::future::pending().await };
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let at = Duration::from_millis(u64::try_from(at.0).unwrap_or_default());
            let Some(left) = at.checked_sub(now).filter(|left| !left.is_zero()) else { return };
            tokio::time::sleep(left).await;
        }
    };
    tokio::select! {
        biased;
        () = expired => {}
        () = identity.revoked.cancelled() => {}
    }
}

/// A body that ends with the proof of its reader.
struct ProofBody {
    /// `None` once the proof has ended.
    body: Option<Body>,
    is_grpc: bool,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for ProofBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if self.end.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.body = None;
        let ended = Error::ProofEnded;
        let last =
            if self.is_grpc { Ok(Frame::trailers(trailers(&ended))) } else { Err(axum::Error::new(ended)) };
        Poll::Ready(Some(last))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

/// Returns the trailers of status `UNAUTHENTICATED`. The message needs no percent-encoding.
fn trailers(error: &Error) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("16"));
    if let Ok(message) = HeaderValue::from_str(&error.to_string()) {
        trailers.insert("grpc-message", message);
    }
    trailers
}

#[cfg(test)]
mod tests {
    use aqueduct_core::{Principal, Timestamp};
    use futures_util::StreamExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    fn identity() -> Identity {
        Identity::new(Principal::new("", "ann").unwrap())
    }

    fn endless(kind: &'static str) -> Response {
        let chunks = futures_util::stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"one"))]);
        let mut response = Response::new(Body::from_stream(chunks.chain(futures_util::stream::pending())));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    #[tokio::test]
    async fn a_stream_ends_with_an_error_when_its_proof_is_revoked() {
        let identity = Arc::new(identity());
        let mut body = ending(endless("text/event-stream"), Arc::clone(&identity)).into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        identity.revoked.cancel();
        assert!(body.frame().await.unwrap().is_err(), "never as if it were whole");
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_of_grpc_ends_with_a_status_when_its_proof_expires() {
        let mut identity = identity();
        identity.expires_at = Some(Timestamp(0));
        let mut body = ending(endless("application/grpc"), Arc::new(identity)).into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "16");
    }
}

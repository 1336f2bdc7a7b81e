//! The service of one connection: limits request bodies, counts requests, and decides how the response is held.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use aqueduct_core::CancelToken;
use aqueduct_core::service::{Proof, ServiceError};
use axum::response::{IntoResponse as _, Response as AxumResponse};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use tower::ServiceExt as _;

use super::exchange::{Exchange, ResponseBody};
use super::handoff::{Handoff, LentStream};
use super::phase::PhaseWatch;
use super::request_body::{BodyLimitLift, BodyLimits, RequestBody};
use super::{PeerAddr, PeerCertificate, Shared};
use crate::driver::EventStreamMark;
use crate::refusal::{Refusal, is_grpc};

/// Marks a response (as an extension) whose body detects stalled readers itself, so that the server needs no watcher for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallWatched;

/// The peer of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Option<PeerCertificate>,
    pub(crate) refused: Option<RefusedPeer>,
}

/// Why a connection is not served, and the switch that closes it once its first request was answered.
#[derive(Debug, Clone)]
pub(crate) struct RefusedPeer {
    pub(crate) error: ServiceError,
    pub(crate) answered: CancelToken,
}

/// Passes the requests of one connection to the router.
pub(crate) struct ConnectionService {
    shared: Arc<Shared>,
    phase: Arc<PhaseWatch>,
    handoff: Arc<Handoff>,
    peer: Peer,
}

impl ConnectionService {
    pub(crate) fn new(
        shared: Arc<Shared>,
        phase: Arc<PhaseWatch>,
        handoff: Arc<Handoff>,
        peer: Peer,
    ) -> Self {
        Self { shared, phase, handoff, peer }
    }
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let handoff = Arc::clone(&self.handoff);
        let kind = RequestKind::of(&request);
        let is_http2 = kind == RequestKind::Multiplexed;
        let mut exchange = Exchange::open(Arc::clone(&self.phase), &shared.counters, is_http2);
        let limits = BodyLimits::new(&shared.limits, &shared.timeouts);
        let lift = BodyLimitLift::default();
        let charge = shared.quotas.charge();
        let mut request = request.map(|body| {
            RequestBody::new(body, Arc::clone(&handoff), &limits, lift.clone(), charge.clone(), is_http2)
        });
        request.extensions_mut().insert(lift);
        request.extensions_mut().insert(charge.clone());
        request.extensions_mut().insert(shared.quotas.clone());
        request.extensions_mut().insert(PeerAddr(self.peer.address));
        if let Some(certificate) = &self.peer.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        request.extensions_mut().insert(limits);
        request.extensions_mut().insert(shared.stopping.clone());
        let response = self.peer.refused.clone().and_then(|refused| refused.answer(&mut request));
        let answer = shared.router.clone().oneshot(request.map(axum::body::Body::new));
        Box::pin(async move {
            let response = match response {
                Some(refused) => refused,
                None => answer.await?,
            };
            // What is read from now on belongs to a stream, whose messages are bounded one by one.
            charge.end();
            let keeps_connection = kind == RequestKind::Chunked { keeps_connection: true };
            let is_stream = response.extensions().get::<EventStreamMark>().is_some();
            if is_stream {
                exchange.count_stream(&shared.counters);
            }
            let is_lent = is_stream && matches!(kind, RequestKind::Chunked { .. }) && is_chunked(&response);
            let is_watched = is_http2 && response.extensions().get::<StallWatched>().is_none();
            Ok(response.map(|body| {
                if is_watched {
                    let stall = shared.timeouts.write_stall;
                    ResponseBody::watched(body, exchange, stall, shared.counters.clone())
                } else if is_lent {
                    ResponseBody::lent(LentStream { body, _exchange: exchange, keeps_connection }, handoff)
                } else {
                    ResponseBody::alone(body, exchange)
                }
            }))
        })
    }
}

impl RefusedPeer {
    pub(crate) fn new(error: ServiceError) -> Self {
        Self { error, answered: CancelToken::new() }
    }

    /// Returns the answer to a request of the connection, which is closed after it. A service of gRPC answers in its own
    /// words.
    fn answer(self, request: &mut Request<RequestBody>) -> Option<AxumResponse> {
        self.answered.cancel();
        if is_grpc(request.headers()) {
            request.extensions_mut().insert(Proof::Refused(self.error));
            return None;
        }
        Some(Refusal::from(self.error).into_response())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// HTTP/2.
    Multiplexed,
    /// HTTP/1.1, where a body without a length is sent in chunks.
    Chunked { keeps_connection: bool },
    /// Any other request: HTTP/1.0, and methods whose responses have no body or another meaning.
    Other,
}

impl RequestKind {
    fn of(request: &Request<Incoming>) -> Self {
        let has_body = *request.method() != Method::HEAD && *request.method() != Method::CONNECT;
        match request.version() {
            Version::HTTP_2 => Self::Multiplexed,
            Version::HTTP_11 if has_body => {
                Self::Chunked { keeps_connection: !asks_to_close(request.headers()) }
            }
            _ => Self::Other,
        }
    }
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("close"))
}

/// Returns `true` if no layer has set another framing of the response.
fn is_chunked(response: &AxumResponse) -> bool {
    let has = |name| response.headers().contains_key(name);
    response.status() == StatusCode::OK
        && !has(header::CONTENT_LENGTH)
        && !has(header::TRANSFER_ENCODING)
        && !has(header::CONNECTION)
        && !has(header::UPGRADE)
}

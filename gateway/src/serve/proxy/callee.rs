//! The target of a call: an A2A agent, or the gateway's own server of an agent of another kind.
//!
//! Both targets take the same HTTP request and return the same [`Answer`], so that [`Relay`](super::relay::Relay) does
//! not distinguish them. A call to the gateway's own server does not leave the process.

use aqueduct::a2a::{RemoteAgent, Servers};
use aqueduct::remote::failure_of;
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{VERSION_HEADER, Version};
use aqueduct_core::RunFailure;
use aqueduct_core::service::Proof;
use aqueduct_transport_http::{Error as HttpError, sse};
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderValue, Method, Request, header};
use serde_json::json;

use super::answer::{Answer, AnswerBody};
use crate::source::Forwarded;

/// The target of a call, with everything that is needed to cancel its task later. Cheap to clone.
#[derive(Clone)]
pub(super) enum Callee {
    /// A remote agent, at that interface.
    Agent { source: RemoteAgent, door: Endpoint, forwarded: Forwarded },
    /// The gateway's own server, with the headers and the proof of the caller.
    Served { servers: Servers, name: String, headers: Box<HeaderMap>, proof: Proof, version: Version },
}

impl Callee {
    /// Sends a request and returns the response. An error status is a response, not an error.
    ///
    /// # Errors
    ///
    /// Returns a failure if the agent cannot be reached, times out, or cuts the connection before the end of the
    /// response. Dropping the future closes the connection.
    pub(super) async fn ask(&self, request: Request<Bytes>) -> Result<Answer, RunFailure> {
        match self {
            Self::Agent { source, .. } => ask_agent(source, request).await,
            Self::Served { servers, name, .. } => ask_served(servers, name, request).await,
        }
    }

    /// Cancels a task. The response is dropped and a failure is logged: the run that wanted the cancel has ended
    /// already.
    pub(super) async fn cancel(&self, task: String) {
        match self {
            Self::Agent { source, door, forwarded } => source.cancel(door, task, forwarded).await,
            Self::Served { servers, name, headers, proof, version } => {
                let mut request = cancel_request(name, headers, *version, &task);
                request.extensions_mut().insert(proof.clone());
                if let Err(failure) = ask_served(servers, name, request).await {
                    let reason = &*failure.message;
                    tracing::warn!(reason, "a sub-agent of a run that was stopped could not be cancelled");
                }
            }
        }
    }

    /// Cancels a task in the background, while its stream is still read.
    pub(super) fn cancel_later(&self, task: String) {
        let callee = self.clone();
        tokio::spawn(async move { callee.cancel(task).await });
    }
}

/// Sends a request to a remote agent. The body of the response is a stream if its media type is `text/event-stream`,
/// and is read completely otherwise.
///
/// A refused connection drops the cached card: the agent may have moved to another address.
pub(super) async fn ask_agent(source: &RemoteAgent, request: Request<Bytes>) -> Result<Answer, RunFailure> {
    match source.connection().client().open_bytes(request, sse::is_event_stream).await {
        Ok((head, stream)) => Ok(head.map(|()| AnswerBody::Stream(stream.boxed()))),
        Err(HttpError::NotAStream(response)) => Ok(response.map(AnswerBody::Whole)),
        Err(error) => {
            if matches!(error, HttpError::Connect { .. }) {
                source.forget_card();
            }
            Err(failure_of(&error))
        }
    }
}

/// Has the gateway's own server of the agent handle a request, as if it had arrived on a socket.
async fn ask_served(servers: &Servers, name: &str, request: Request<Bytes>) -> Result<Answer, RunFailure> {
    let (head, body) = servers.answer(name, request.map(Body::from)).await.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let cut = |reason: String| HttpError::Cut { upstream: "this gateway".to_owned(), reason };
    let body = if kind.is_some_and(sse::is_event_stream) {
        let chunks = body.into_data_stream().map_err(move |error| cut(error.to_string()));
        AnswerBody::Stream(chunks.boxed())
    } else {
        // The body is in memory already, because the server inside produced it.
        let whole = to_bytes(body, usize::MAX).await.map_err(|error| failure_of(&cut(error.to_string())))?;
        AnswerBody::Whole(whole)
    };
    Ok(Answer::from_parts(head, body))
}

/// Returns a JSON-RPC call that cancels the task, with the headers of the call that started it, so that the same caller
/// is authenticated.
///
/// ```text
/// POST /a2a/{name}   {"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"T"}}      0.3: "tasks/cancel"
/// ```
fn cancel_request(name: &str, headers: &HeaderMap, version: Version, task: &str) -> Request<Bytes> {
    let method = if version == Version::V1 { "CancelTask" } else { "tasks/cancel" };
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": task } });
    let mut request = Request::new(Bytes::from(call.to_string()));
    *request.method_mut() = Method::POST;
    if let Ok(uri) = format!("/a2a/{name}").parse() {
        *request.uri_mut() = uri;
    }
    *request.headers_mut() = headers.clone();
    // The length of the first call's body.
    request.headers_mut().remove(header::CONTENT_LENGTH);
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(version.as_str()));
    request
}

//! For tests of other crates (feature `testing`): parses arbitrary bytes as messages of the protocol, and echoes messages for
//! conformance suites of WebSocket.
#![expect(clippy::expect_used, reason = "a panic is how a check says no")]

use aqueduct_transport_http::Stopping;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::config::Limits;
use crate::handshake;
use crate::message::{self, binary};

/// The depth of JSON that the checks allow.
const DEPTH: usize = 64;

/// Parses a message as text and as binary, and checks the round trip of binary messages.
///
/// # Panics
///
/// Panics if a written message is not read back equal.
pub fn check_message(message: &[u8]) {
    if let Ok(text) = std::str::from_utf8(message) {
        drop(message::Request::parse(text, DEPTH));
    }
    if let Some((reference, number, at)) = binary::read_payload(message) {
        let mut out = Vec::new();
        binary::write_payload(reference, number, &mut out);
        let again = binary::read_payload(&out).expect("what was written is read");
        assert!((again.0, again.1) == (reference, number) && at <= message.len());
    }
    if let Some((run, number, k, is_last, at)) = binary::read_event(message) {
        let mut out = Vec::new();
        binary::write_event(run, number, k, &mut out);
        let again = binary::read_event(&out).expect("what was written is read");
        assert!((again.0, again.1, again.2) == (run, number, k) && at <= message.len(), "{is_last}");
    }
}

/// Returns a route at `/echo` that sends every message back, for conformance suites of WebSocket: the upgrade, the codec and
/// its limits are those of the endpoint.
pub fn echo_router(limits: Limits) -> Router {
    Router::new().route("/echo", get(async move |request: Request| echo(request, limits)))
}

/// Upgrades a request and echoes on the connection.
fn echo(mut request: Request, limits: Limits) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let upgrade = match handshake::accept(&parts, Some("echo"), Stopping::default()) {
        Ok(upgrade) => upgrade,
        Err(refusal) => return refusal.into_response(),
    };
    tokio::spawn(async move {
        let Ok(io) = upgraded.await else { return };
        let io = TokioIo::new(io);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(limits.codec())).await;
        let (mut sink, mut messages) = socket.split();
        // The codec answers pings and closes by itself, and fails on everything that breaks the protocol.
        while let Some(Ok(message)) = messages.next().await {
            if (message.is_text() || message.is_binary()) && sink.send(message).await.is_err() {
                return;
            }
        }
        sink.close().await.ok();
    });
    upgrade.response().map(|()| Body::empty())
}

//! Sends A2A push notifications: resolves names, and connects to the address that was checked.

use std::net::IpAddr;
use std::time::Duration;

use aqueduct_adapter_a2a::server::{PushRequest, PushSender};
use aqueduct_core::service::BoxFuture;
use aqueduct_transport_http::{Client, ClientConfig, ClientLimits, ClientTimeouts};
use bytes::Bytes;
use http::Request;

/// The response timeout of a receiver (spec 4.3.3 asks for 10 to 30 seconds).
const RECEIVER: Duration = Duration::from_secs(10);
/// Bytes of a receiver's response that are read; only its status counts.
const ANSWER_BYTES: usize = 64 * 1024;

/// A sender of push notifications without connection pool, because every request is pinned to one address.
#[derive(Debug, Clone, Copy)]
pub struct Courier;

impl PushSender for Courier {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::time::timeout(RECEIVER, tokio::net::lookup_host((host, port))).await;
            let found = found.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    fn deliver(&self, request: PushRequest) -> BoxFuture<'static, Result<u16, String>> {
        Box::pin(async move {
            let client = Client::new(ClientConfig {
                limits: ClientLimits {
                    body_bytes: ANSWER_BYTES,
                    idle_connections: 0,
                    ..ClientLimits::default()
                },
                timeouts: ClientTimeouts { response: RECEIVER, body: RECEIVER, ..ClientTimeouts::default() },
                pinned: Some(request.address.ip()),
                ..ClientConfig::default()
            });
            let client = client.map_err(|error| error.to_string())?;
            let mut sent = Request::post(&request.url);
            for (name, value) in &request.headers {
                sent = sent.header(*name, value);
            }
            let sent = sent.body(Bytes::from(request.body)).map_err(|error| error.to_string())?;
            let answered = client.request(sent).await;
            if let Err(error) = &answered {
                tracing::debug!(%error, "a push notification was not taken");
            }
            answered.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
        })
    }
}

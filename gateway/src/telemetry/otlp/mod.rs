//! OTLP: exports spans and metrics to a collector, over gRPC or HTTP, with the clients of this workspace.
//!
//! ```text
//! spans (trace::spans) ────────────────────────────────┐
//! /metrics text ── openmetrics ──► metrics (messages) ──┴──► OtlpSender ──► collector
//! ```
//!
//! A message that cannot be sent is retried once and then dropped: telemetry must not delay the gateway.
//!
//! | `telemetry.protocol` | address | connection |
//! |---|---|---|
//! | gRPC | `telemetry.otlp` itself | one per message |
//! | HTTP | `/v1/traces` or `/v1/metrics` appended | pooled by the client |

mod metrics;
mod openmetrics;

use std::time::Duration;

use aqueduct::remote::Secret;
use aqueduct_transport_grpc::ClientConfig as GrpcConfig;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;
use http::Request;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use crate::config::{OtlpProtocol, Telemetry};
pub(crate) use metrics::MetricsExport;

/// The response timeout of the collector: as long as the OTLP specification's default for exporters.
const ANSWER: Duration = Duration::from_secs(10);

/// Attempts per message. More would delay the next batch, whose spans wait in a bounded queue.
const TRIES: u32 = 2;
/// The pause between two attempts: a collector that restarts may be back by then.
const PAUSE: Duration = Duration::from_millis(500);

/// The kind of data, which determines the path at the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Returns the path of the gRPC method.
    const fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// Returns the default path of OTLP over HTTP.
    const fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    /// Returns the address of this signal at a collector. A path that names another signal is replaced. One
    /// configured address serves both signals, and people often copy the one of traces.
    fn url(self, base: &str) -> String {
        let base = base.trim_end_matches('/');
        let signals = [Self::Traces, Self::Metrics];
        let base = signals.iter().find_map(|signal| base.strip_suffix(signal.http_path())).unwrap_or(base);
        format!("{base}{}", self.http_path())
    }
}

/// Sends messages of one signal to a collector. Cheap to clone: an HTTP client shares its connections.
#[derive(Clone)]
pub(super) struct OtlpSender {
    signal: Signal,
    way: Way,
    url: String,
    /// Sent as a bearer token. Never printed: `Debug` shows the address only.
    token: Option<Secret>,
}

/// The transport. The gRPC variant has no client, because a connection is made per message.
#[derive(Clone)]
enum Way {
    Http(Box<Client>),
    Grpc,
}

aqueduct_core::debug_fields!(OtlpSender { url });

impl OtlpSender {
    /// Returns a sender to the collector at `url`. Nothing is connected yet, so a collector that is down does
    /// not prevent the start of the gateway.
    pub(super) fn new(signal: Signal, url: &str, settings: &Telemetry) -> anyhow::Result<Self> {
        let (way, url) = match settings.protocol {
            OtlpProtocol::Grpc => (Way::Grpc, url.trim_end_matches('/').to_owned()),
            OtlpProtocol::Http => {
                let timeouts = ClientTimeouts { response: ANSWER, ..ClientTimeouts::default() };
                let client = Client::new(ClientConfig { timeouts, ..ClientConfig::default() })?;
                (Way::Http(Box::new(client)), signal.url(url))
            }
        };
        Ok(Self { signal, way, url, token: settings.token.clone() })
    }

    /// Returns the address of the collector.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends an encoded export request, with one retry.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt: no connection, no response in time, or a status other than
    /// success.
    pub(super) async fn send(&self, message: Bytes) -> anyhow::Result<()> {
        let mut tried = 1;
        loop {
            match self.send_once(message.clone()).await {
                Err(_) if tried < TRIES => tokio::time::sleep(PAUSE).await,
                sent => return sent,
            }
            tried += 1;
        }
    }

    /// Sends the message once. A partial success in the body of the response is not examined.
    async fn send_once(&self, message: Bytes) -> anyhow::Result<()> {
        let credentials = self.token.as_ref().map(|token| format!("Bearer {}", token.reveal()));
        match &self.way {
            Way::Http(client) => {
                let mut request = Request::post(&self.url).header("content-type", "application/x-protobuf");
                if let Some(credentials) = credentials {
                    request = request.header("authorization", credentials);
                }
                let response = client.request(request.body(message)?).await?;
                anyhow::ensure!(
                    response.status().is_success(),
                    "the collector responded with {}: check `telemetry.otlp` and `telemetry.protocol`",
                    response.status()
                );
            }
            Way::Grpc => {
                // Messages are seconds apart: a new connection for each is cheaper than one that is kept and monitored.
                let client = RawClient::connect(&self.url, GrpcConfig::default()).await?;
                let metadata = credentials.map(|value| ("authorization".to_owned(), value));
                let metadata = metadata.into_iter().collect();
                let request = RawRequest { path: self.signal.grpc_path().to_owned(), metadata, message };
                tokio::time::timeout(ANSWER, client.unary(request)).await??;
            }
        }
        Ok(())
    }
}

/// Returns the resource attributes of this process. `OTEL_RESOURCE_ATTRIBUTES` adds to them.
pub(super) fn resource(settings: &Telemetry) -> Resource {
    Resource::builder()
        .with_service_name(settings.service.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_an_address_per_signal() {
        assert_eq!(Signal::Metrics.url("http://c:4318"), "http://c:4318/v1/metrics");
        assert_eq!(Signal::Metrics.url("http://c/otlp/"), "http://c/otlp/v1/metrics");
        assert_eq!(Signal::Metrics.url("http://c/otlp/v1/traces"), "http://c/otlp/v1/metrics");
        assert_eq!(Signal::Traces.url("http://c:4318/v1/traces"), "http://c:4318/v1/traces");
    }
}

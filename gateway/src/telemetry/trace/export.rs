//! [`OtlpExporter`]: spans as OTLP, over gRPC or HTTP, by the clients of this workspace.
//!
//! The SDK calls it from a thread of its own; the bytes are sent by the gateway's runtime. A batch that cannot be sent is
//! tried once more and then dropped, with a line in the log: traces must not hold the gateway up.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct::remote::Secret;
use aqueduct_transport_grpc::ClientConfig as GrpcConfig;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;
use http::Request;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message as _;
use tokio::runtime::Handle;

use crate::config::{OtlpProtocol, Telemetry};

/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Tries of a batch, and the pause between them.
const TRIES: u32 = 2;
const PAUSE: Duration = Duration::from_millis(500);

const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const HTTP_PATH: &str = "/v1/traces";

/// Sends spans to a collector.
pub(super) struct OtlpExporter {
    resource: ResourceAttributesWithSchema,
    sender: Sender,
    runtime: Handle,
}

#[derive(Clone)]
struct Sender {
    way: Way,
    url: String,
    token: Option<Secret>,
}

#[derive(Clone)]
enum Way {
    Http(Box<Client>),
    Grpc,
}

impl fmt::Debug for OtlpExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpExporter").field("url", &self.sender.url).finish_non_exhaustive()
    }
}

impl OtlpExporter {
    pub(super) fn new(url: &str, settings: &Telemetry) -> anyhow::Result<Self> {
        let url = url.trim_end_matches('/');
        let (way, url) = match settings.protocol {
            OtlpProtocol::Grpc => (Way::Grpc, url.to_owned()),
            OtlpProtocol::Http => {
                let timeouts = ClientTimeouts { response: ANSWER, ..ClientTimeouts::default() };
                let client = Client::new(ClientConfig { timeouts, ..ClientConfig::default() })?;
                let url = if url.ends_with(HTTP_PATH) { url.to_owned() } else { format!("{url}{HTTP_PATH}") };
                (Way::Http(Box::new(client)), url)
            }
        };
        let sender = Sender { way, url, token: settings.token.clone() };
        let runtime = Handle::try_current().context("traces are exported by a runtime")?;
        Ok(Self { resource: ResourceAttributesWithSchema::default(), sender, runtime })
    }
}

impl SpanExporter for OtlpExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let message = Bytes::from(ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        let sender = self.sender.clone();
        let sent = self.runtime.spawn(async move { sender.send(message).await }).await;
        let failed = match sent {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "the runtime has stopped".to_owned(),
        };
        tracing::warn!(
            spans = count,
            collector = self.sender.url,
            reason = failed,
            "spans were not exported"
        );
        Err(OTelSdkError::InternalFailure(failed))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

impl Sender {
    async fn send(&self, message: Bytes) -> anyhow::Result<()> {
        let mut tried = 1;
        loop {
            match self.send_once(message.clone()).await {
                Err(_) if tried < TRIES => tokio::time::sleep(PAUSE).await,
                sent => return sent,
            }
            tried += 1;
        }
    }

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
                    "the collector answered {}",
                    response.status()
                );
            }
            Way::Grpc => {
                // Batches are seconds apart: a connection each is cheaper than one that is kept and watched.
                let client = RawClient::connect(&self.url, GrpcConfig::default()).await?;
                let metadata = credentials.map(|value| ("authorization".to_owned(), value));
                let metadata = metadata.into_iter().collect();
                let request = RawRequest { path: GRPC_PATH.to_owned(), metadata, message };
                tokio::time::timeout(ANSWER, client.unary(request)).await??;
            }
        }
        Ok(())
    }
}

//! [`SpanExport`]: exports spans as OTLP.
//!
//! ```text
//! span ends ──► queue of the SDK ──► thread of the SDK: export(batch)
//!                                      └──► runtime of the gateway: OtlpSender ──► collector
//! ```
//!
//! The SDK batches on a thread of its own, outside the runtime; sockets belong to the runtime, so the bytes are
//! sent by a task there. A batch that cannot be sent is dropped and logged. A full queue drops spans in the
//! SDK.

use anyhow::Context as _;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message as _;
use tokio::runtime::Handle;

use crate::config::Telemetry;
use crate::telemetry::otlp::{OtlpSender, Signal};

/// Sends spans to a collector.
#[derive(Debug)]
pub(super) struct SpanExport {
    /// Attributes of the process. The SDK sets them after construction.
    resource: ResourceAttributesWithSchema,
    sender: OtlpSender,
    /// The runtime that sends. It outlives the provider, because `Tracing::stop` is awaited before the runtime
    /// ends.
    runtime: Handle,
}

impl SpanExport {
    /// Returns an exporter to the collector at `url`.
    ///
    /// # Errors
    ///
    /// The address is not valid, or the function was called outside a runtime.
    pub(super) fn new(url: &str, settings: &Telemetry) -> anyhow::Result<Self> {
        let sender = OtlpSender::new(Signal::Traces, url, settings)?;
        let runtime = Handle::try_current().context("traces are exported by a runtime")?;
        Ok(Self { resource: ResourceAttributesWithSchema::default(), sender, runtime })
    }
}

impl SpanExporter for SpanExport {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let message = Bytes::from(ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        let sender = self.sender.clone();
        // Awaiting a task of another runtime is allowed from any thread; a runtime that has stopped cancels it.
        let sent = self.runtime.spawn(async move { sender.send(message).await }).await;
        let failed = match sent {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "the runtime has stopped".to_owned(),
        };
        let collector = self.sender.url();
        tracing::warn!(spans = count, collector, reason = failed, "spans were not exported");
        Err(OTelSdkError::InternalFailure(failed))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

//! Traces: a span per run, below it one per lane, tool call, interrupt and upstream call, exported over OTLP.
//!
//! ```text
//! caller's traceparent ──► run (invoke_agent AGENT, server) ──┬── upstream call (invoke_agent AGENT, client) ──► traceparent
//!                               │                             ├── lane (invoke_agent SUB-AGENT) ──► the same for its calls
//!                               │                             ├── tool call (execute_tool NAME) ──► lanes that it opened
//!                               │                             └── interrupt
//!                               └ link ── run at the replica that took it over
//! ```
//!
//! Names and attributes follow the semantic conventions for generative AI. Spans are built from the canonical events of
//! a run ([`run`]) and from the calls of its agents ([`upstream`](super::upstream)); no other code handles spans.
//! Without `telemetry.otlp`, or with `telemetry.traces = false`, there is no [`Tracing`], and tracing costs nothing.
//!
//! Not here: queue, sampling and ids (`opentelemetry_sdk`), the wire format (`opentelemetry-proto`) and sending
//! ([`otlp`](super::otlp)).

mod call;
mod content;
mod context;
mod run;
mod spans;

use std::sync::Arc;

use aqueduct_core::service::Caller;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{
    Link, SpanBuilder, SpanContext, SpanKind, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};

use super::SCOPE;
use super::otlp::resource;
use crate::config::Telemetry;
pub(crate) use call::CallTrace;
pub(crate) use context::TracedContext;
pub(crate) use run::RunTrace;
use spans::SpanExport;

/// Creates spans, and exports them. One value exists per process, behind an `Arc`.
#[derive(Debug)]
pub(crate) struct Tracing {
    /// Owns the queue and the exporting thread.
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Set if messages, arguments and results are recorded.
    has_content: bool,
}

impl Tracing {
    /// Starts the configured export. Returns `None` if none is configured.
    ///
    /// Sampling follows the caller: a request with a sampled `traceparent` is always traced, one without is
    /// traced with the ratio `telemetry.sample`. Must be called inside a runtime.
    ///
    /// # Errors
    ///
    /// The address of the collector is not valid, or there is no runtime.
    pub(crate) fn start(settings: &Telemetry) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(url) = settings.otlp.as_ref().filter(|_| settings.traces) else { return Ok(None) };
        let exporter = SpanExport::new(url, settings)?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample.as_f64())));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_resource(resource(settings))
            .build();
        let tracer = provider.tracer(SCOPE);
        Ok(Some(Arc::new(Self { provider, tracer, has_content: settings.content })))
    }

    /// Exports the remaining spans. Spans that end afterwards are dropped. Called once, after all runs have
    /// ended or were handed over.
    pub(crate) async fn stop(&self) {
        let provider = self.provider.clone();
        // `shutdown` blocks until the thread of the SDK has ended.
        let stopped = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = stopped {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }

    /// Starts a span below `parent`, or a new trace without one.
    ///
    /// The current context of the thread is never used as parent: spans of one run are created by several
    /// tasks.
    pub(crate) fn begin(
        &self,
        (name, kind): (String, SpanKind),
        parent: Option<&SpanContext>,
        links: Vec<Link>,
        attributes: Vec<KeyValue>,
    ) -> Span {
        let parent = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent.clone()),
            None => Context::new(),
        };
        let mut builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        if !links.is_empty() {
            builder = builder.with_links(links);
        }
        self.tracer.build_with_context(builder, &parent)
    }
}

/// Reads a trace context from the headers of a request.
struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Reads a trace context from the headers of a caller, as the run service receives them.
struct CallerHeaders<'c>(&'c Caller);

impl Extractor for CallerHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.header(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.headers.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// Writes a trace context into the headers of a request. Values that are not valid in a header are left out.
struct HeadersMut<'h>(&'h mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

/// Returns the trace context of W3C headers, or `None` if it is absent or malformed: the run then starts a new
/// trace.
fn extract(from: &dyn Extractor) -> Option<SpanContext> {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), from);
    let span = context.span().span_context().clone();
    span.is_valid().then_some(span)
}

/// Returns the trace context of request headers.
pub(crate) fn of_headers(headers: &HeaderMap) -> Option<SpanContext> {
    extract(&Headers(headers))
}

/// Returns the trace context of a caller.
fn of_caller(caller: &Caller) -> Option<SpanContext> {
    extract(&CallerHeaders(caller))
}

/// Writes a trace context into request headers. Existing values are replaced.
pub(crate) fn write_headers(context: &SpanContext, headers: &mut HeaderMap) {
    let context = Context::new().with_remote_span_context(context.clone());
    TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
}

/// Returns the trace context as headers. An empty `tracestate` is left out.
fn pairs(context: &SpanContext) -> Vec<(String, String)> {
    let mut headers = HeaderMap::new();
    write_headers(context, &mut headers);
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            .filter(|(_, value)| !value.is_empty())
    };
    headers.iter().filter_map(text).collect()
}

/// Replaces the trace context among headers. Both headers of the caller are removed, because a `tracestate`
/// belongs to its `traceparent`.
fn replace(headers: &mut Vec<(String, String)>, context: &SpanContext) {
    headers.retain(|(name, _)| name != "traceparent" && name != "tracestate");
    headers.extend(pairs(context));
}

//! [`UpstreamWatch`]: the calls to one remote agent, measured and traced.
//!
//! ```text
//! begin ──► lookup, connect (new connections only) ──► head ──► stream ──► dropped: counted once
//!   └ span starts, traceparent replaced                └ time to head        └ span ends
//! ```
//!
//! The HTTP client of an agent calls these functions; A2A and AG-UI agents share them. A call is counted when
//! its guard is dropped, so a call that is cancelled is counted too, as `given_up`. This module never refuses a
//! call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct::remote::failure_code;
use aqueduct_core::service::BoxFuture;
use aqueduct_transport_http::{CallGuard, CallRefused, CallWatch, Error as HttpError};
use http::StatusCode;
use http::request::Parts;
use prometheus_client::metrics::histogram::Histogram;

use super::metrics::{AgentLabels, Metrics, OutcomeLabels};
use super::trace::{CallTrace, Tracing};

/// Observes the calls to one agent.
///
/// One value exists per configured agent and lives as long as its client.
#[derive(Debug)]
pub(crate) struct UpstreamWatch {
    agent: String,
    metrics: Arc<Metrics>,
    /// The histogram of this agent, looked up once: connects are timed inside the connector.
    connect: Histogram,
    /// `None` if no export of spans is configured: calls are measured but not traced.
    tracing: Option<Arc<Tracing>>,
}

impl UpstreamWatch {
    /// Returns the observer of the agent of that name.
    pub(crate) fn new(agent: &str, metrics: &Arc<Metrics>, tracing: Option<&Arc<Tracing>>) -> Self {
        let connect = metrics.upstream_connect.get_or_create_owned(&AgentLabels { agent: agent.to_owned() });
        Self { agent: agent.to_owned(), metrics: Arc::clone(metrics), connect, tracing: tracing.cloned() }
    }
}

impl CallWatch for UpstreamWatch {
    fn begin<'a>(&'a self, head: &'a mut Parts) -> BoxFuture<'a, Result<Box<dyn CallGuard>, CallRefused>> {
        // The span must exist before the request is sent, because its id is written into `traceparent`.
        let trace = self.tracing.as_ref().map(|tracing| CallTrace::begin(tracing, &self.agent, head));
        let guard = UpstreamCall {
            agent: self.agent.clone(),
            metrics: Arc::clone(&self.metrics),
            begun_at: Instant::now(),
            // Replaced by the head or by a failure. A call that is dropped before either keeps this outcome.
            outcome: "given_up",
            trace,
        };
        Box::pin(std::future::ready(Ok(Box::new(guard) as Box<dyn CallGuard>)))
    }

    fn handle_lookup(&self, took: Duration, is_found: bool) {
        let agent = self.agent.clone();
        // Failed look-ups are counted, but not timed: a time-out of the resolver would distort the histogram.
        if is_found {
            let labels = AgentLabels { agent: agent.clone() };
            self.metrics.upstream_lookup.get_or_create(&labels).observe(took.as_secs_f64());
        }
        let outcome = if is_found { "found" } else { "failed" };
        self.metrics.upstream_lookups.get_or_create(&OutcomeLabels { agent, outcome }).inc();
    }

    fn handle_connect(&self, took: Duration, is_made: bool) {
        if is_made {
            self.connect.observe(took.as_secs_f64());
        }
    }
}

/// A call that was sent. It is counted by `upstream_calls` when it is dropped.
///
/// ```text
/// given_up ── head ──► answered | refused | failed ── failure ──► code of the failure
///     └──────────────────── failure ─────────────────────────────────▲
/// ```
#[derive(Debug)]
struct UpstreamCall {
    agent: String,
    metrics: Arc<Metrics>,
    begun_at: Instant,
    /// The label of the counter: one of the constants above or a code of `failure_code`, never text of the
    /// agent.
    outcome: &'static str,
    trace: Option<CallTrace>,
}

impl CallGuard for UpstreamCall {
    fn handle_head(&mut self, status: StatusCode) {
        self.outcome = match status.as_u16() {
            // 4xx is the agent's refusal of this request; everything from 500 on is a failure of the agent.
            0..400 => "answered",
            400..500 => "refused",
            _ => "failed",
        };
        let labels = AgentLabels { agent: self.agent.clone() };
        let took = self.begun_at.elapsed().as_secs_f64();
        self.metrics.upstream_answer.get_or_create(&labels).observe(took);
        if let Some(trace) = &mut self.trace {
            trace.handle_head(status.as_u16());
        }
    }

    fn handle_failure(&mut self, error: &HttpError) {
        self.outcome = failure_code(error);
        if let Some(trace) = &mut self.trace {
            trace.handle_failure(self.outcome, &error.to_string());
        }
    }
}

impl Drop for UpstreamCall {
    fn drop(&mut self) {
        let labels = OutcomeLabels { agent: std::mem::take(&mut self.agent), outcome: self.outcome };
        self.metrics.upstream_calls.get_or_create(&labels).inc();
    }
}

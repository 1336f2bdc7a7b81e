//! [`UpstreamWatch`]: the calls to one remote agent, measured and traced.

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
#[derive(Debug)]
pub(crate) struct UpstreamWatch {
    agent: String,
    metrics: Arc<Metrics>,
    connect: Histogram,
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
        let trace = self.tracing.as_ref().map(|tracing| CallTrace::begin(tracing, &self.agent, head));
        let guard = UpstreamCall {
            agent: self.agent.clone(),
            metrics: Arc::clone(&self.metrics),
            begun_at: Instant::now(),
            outcome: "given_up",
            is_answered: false,
            trace,
        };
        Box::pin(std::future::ready(Ok(Box::new(guard) as Box<dyn CallGuard>)))
    }

    fn handle_lookup(&self, took: Duration, is_found: bool) {
        let agent = self.agent.clone();
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

/// A call that was sent; counted when it is dropped.
#[derive(Debug)]
struct UpstreamCall {
    agent: String,
    metrics: Arc<Metrics>,
    begun_at: Instant,
    outcome: &'static str,
    is_answered: bool,
    trace: Option<CallTrace>,
}

impl CallGuard for UpstreamCall {
    fn handle_head(&mut self, status: StatusCode) {
        self.is_answered = true;
        self.outcome = match status.as_u16() {
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

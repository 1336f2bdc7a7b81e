//! Replaces [`trace`](super::trace) and the export of metrics in a program that is built without the feature
//! `otel`.
//!
//! Its types have no values, so every method of a value is `match self.0 {}` and compiles to nothing; callers
//! need no `cfg`. The signatures must be those of the real module.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::Caller;
use aqueduct_core::{BlockEvent, RunInput, SourceEvent};
use aqueduct_runs::RunOrigin;
use http::request::Parts;
use serde_json::Value;

use crate::config::Telemetry;

/// Stands for the tracer. `Option<Arc<Tracing>>` is always `None`.
#[derive(Debug)]
pub(crate) struct Tracing(Infallible);

impl Tracing {
    /// Returns `None`, or an error if the configuration requests an export: ignoring the key would lose
    /// telemetry silently.
    pub(crate) fn start(settings: &Telemetry) -> anyhow::Result<Option<Arc<Self>>> {
        anyhow::ensure!(
            settings.otlp.is_none(),
            "telemetry.otlp: this program was built without the feature `otel`: build it with that feature, or remove the key"
        );
        Ok(None)
    }

    /// Has nothing to export.
    pub(crate) async fn stop(&self) {
        match self.0 {}
    }
}

/// Stands for the export of metrics, which is never created.
#[derive(Debug)]
pub(crate) struct MetricsExport(Infallible);

impl MetricsExport {
    /// Returns `None`: [`Tracing::start`] has refused settings that need the feature.
    pub(crate) fn new(_: &Telemetry) -> anyhow::Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) const fn every(&self) -> Duration {
        match self.0 {}
    }

    pub(crate) async fn send(&self, _: &str) {
        match self.0 {}
    }
}

/// Stands for the spans of a run, which need a [`Tracing`].
#[derive(Debug)]
pub(crate) struct RunTrace(Infallible);

impl RunTrace {
    /// Cannot be called: the first argument has no value.
    pub(crate) fn new(tracing: &Arc<Tracing>, _: &str, _: &RunOrigin<'_>, _: &'static str) -> Self {
        match tracing.0 {}
    }

    pub(crate) fn begin(&self, _: &Caller, _: &RunInput) -> Caller {
        match self.0 {}
    }

    pub(crate) fn checkpoint(&self) -> Option<Value> {
        match self.0 {}
    }

    pub(crate) fn handle_source(&self, _: &SourceEvent) {
        match self.0 {}
    }

    pub(crate) fn handle_events(&self, _: &[BlockEvent]) {
        match self.0 {}
    }

    pub(crate) fn handle_end(&self) {
        match self.0 {}
    }
}

/// Stands for the traced context, which needs a [`RunTrace`].
pub(crate) enum TracedContext {}

impl TracedContext {
    pub(crate) fn of_run(_: Arc<dyn CallContext>, trace: &Arc<RunTrace>) -> Arc<dyn CallContext> {
        match trace.0 {}
    }
}

/// Stands for the span of a call, which needs a [`Tracing`].
#[derive(Debug)]
pub(crate) struct CallTrace(Infallible);

impl CallTrace {
    pub(crate) fn begin(tracing: &Tracing, _: &str, _: &mut Parts) -> Self {
        match tracing.0 {}
    }

    pub(crate) fn handle_head(&mut self, _: u16) {
        match self.0 {}
    }

    pub(crate) fn handle_failure(&mut self, _: &'static str, _: &str) {
        match self.0 {}
    }
}

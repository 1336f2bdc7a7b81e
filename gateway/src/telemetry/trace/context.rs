//! [`TracedContext`]: a context of calls that carries the trace context of the run or of a lane.
//!
//! ```text
//! TeeContext (run token, headers of the caller)
//!   └ TracedContext ──► headers(): the same, with `traceparent` and `tracestate` of the span
//!         └ for_lane(source) ──► the same below the span of that lane
//! ```
//!
//! Everything but the trace context is passed to the inner context.

use std::sync::Arc;

use aqueduct_core::Source;
use aqueduct_core::agent::CallContext;
use opentelemetry::trace::SpanContext;

use super::{RunTrace, replace};

/// A context whose calls are traced below a span: that of the run, or that of a lane.
#[derive(Debug)]
pub(crate) struct TracedContext {
    inner: Arc<dyn CallContext>,
    trace: Arc<RunTrace>,
    span: SpanContext,
}

impl TracedContext {
    /// Returns the context of the agent of a run. Returns `inner` unchanged if the trace has no span yet.
    pub(crate) fn of_run(inner: Arc<dyn CallContext>, trace: &Arc<RunTrace>) -> Arc<dyn CallContext> {
        match trace.context() {
            Some(span) => Arc::new(Self { inner, trace: Arc::clone(trace), span }),
            None => inner,
        }
    }
}

impl CallContext for TracedContext {
    fn headers(&self) -> Vec<(String, String)> {
        let mut headers = self.inner.headers();
        replace(&mut headers, &self.span);
        headers
    }

    fn run_token(&self) -> Option<&str> {
        self.inner.run_token()
    }

    fn learn_conversation(&self, id: &str) {
        self.inner.learn_conversation(id);
    }

    fn for_lane(&self, source: &Source) -> Option<Arc<dyn CallContext>> {
        // A source that distinguishes no lanes uses the context of the run below the span of the lane.
        let inner = self.inner.for_lane(source).unwrap_or_else(|| Arc::clone(&self.inner));
        let span = self.trace.lane_context(source)?;
        Some(Arc::new(Self { inner, trace: Arc::clone(&self.trace), span }))
    }
}

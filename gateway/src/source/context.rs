//! What the gateway adds to calls to remote agents: headers of the caller, and what relates the agent's own calls to
//! its run.

use std::sync::Arc;

use aqueduct_core::Source;
use aqueduct_core::agent::CallContext;
use aqueduct_core::service::Caller;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::tee::Trail;

/// Headers that are always passed on: the trace context of W3C.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Headers of the caller that the agent gets too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forwarded(HeaderMap);

impl Forwarded {
    pub(crate) fn of(caller: &Caller, names: &[String]) -> Self {
        let wanted = TRACE_HEADERS.iter().copied().chain(names.iter().map(String::as_str));
        let found = wanted.filter_map(|name| {
            let value = HeaderValue::from_str(caller.header(name)?).ok()?;
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        Self(found.collect())
    }

    /// Returns `true` if a header of that name is among them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds the baggage of a call that passes through.
    pub(crate) fn with_baggage(mut self, headers: &HeaderMap) -> Self {
        for value in
            headers.get_all("baggage").iter().filter(|_| !self.has("baggage")).cloned().collect::<Vec<_>>()
        {
            self.0.append("baggage", value);
        }
        self
    }

    /// Adds what relates the agent's own calls to its run.
    pub(crate) fn marked(mut self, trail: &Trail) -> Self {
        trail.mark(&mut self.0);
        self
    }
}

impl CallContext for Forwarded {
    fn headers(&self) -> Vec<(String, String)> {
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            let value = std::str::from_utf8(value.as_bytes()).ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        };
        self.0.iter().filter_map(text).collect()
    }
}

/// The context of a run of this gateway.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunContext {
    /// Marked with the trail.
    pub(crate) forwarded: Forwarded,
    pub(crate) trail: Trail,
}

impl CallContext for RunContext {
    fn headers(&self) -> Vec<(String, String)> {
        self.forwarded.headers()
    }

    fn run_token(&self) -> Option<&str> {
        self.trail.token()
    }

    fn learn_conversation(&self, id: &str) {
        self.trail.learn_context(id);
    }

    fn for_lane(&self, source: &Source) -> Option<Arc<dyn CallContext>> {
        let trail = self.trail.child(source);
        Some(Arc::new(Self { forwarded: self.forwarded.clone().marked(&trail), trail }))
    }
}

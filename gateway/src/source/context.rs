//! [`Forwarded`]: headers of the caller that are forwarded to agents.
//!
//! Only the trace context and the headers of `forward_headers` are forwarded. All other headers of a caller, its
//! credentials first of all, are meant for the gateway.

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::Caller;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::tee::RunContext;

/// Headers that are always forwarded: the W3C trace context.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Headers of the caller that are forwarded to the agent. A list: a run holds them to its end, and a map of three headers takes
/// 600 bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forwarded(Box<[(HeaderName, HeaderValue)]>);

impl Forwarded {
    /// Returns the trace context of the caller and the named headers. Of a repeated header the first value is used; a
    /// value that is not a valid header is omitted.
    pub(crate) fn of(caller: &Caller, names: &[String]) -> Self {
        let wanted = TRACE_HEADERS.iter().copied().chain(names.iter().map(String::as_str));
        let found = wanted.filter_map(|name| {
            let value = HeaderValue::from_str(caller.header(name)?).ok()?;
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        Self(found.collect())
    }

    /// Builds headers from stored pairs. Invalid pairs are omitted.
    pub(crate) fn from_pairs(pairs: Vec<(String, String)>) -> Self {
        let header = |(name, value): (String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        Self(pairs.into_iter().filter_map(header).collect())
    }

    /// Returns `true` if a header of that name is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Adds the `baggage` header of a forwarded call.
    pub(crate) fn with_baggage(self, headers: &HeaderMap) -> Self {
        if self.has("baggage") {
            return self;
        }
        let baggage = headers.get_all("baggage").iter().cloned();
        let baggage = baggage.map(|value| (HeaderName::from_static("baggage"), value));
        Self(self.0.into_iter().chain(baggage).collect())
    }

    /// Adds the headers that relate the agent's own calls to its run.
    pub(crate) fn marked(self, run_context: &RunContext) -> Self {
        let mut headers: HeaderMap = self.0.into_iter().collect();
        run_context.mark(&mut headers);
        Self(headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

impl CallContext for Forwarded {
    /// Values that are not UTF-8 are omitted: a context consists of text.
    fn headers(&self) -> Vec<(String, String)> {
        let text = |(name, value): &(HeaderName, HeaderValue)| {
            let value = std::str::from_utf8(value.as_bytes()).ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        };
        self.0.iter().filter_map(text).collect()
    }
}

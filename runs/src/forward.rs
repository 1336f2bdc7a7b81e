//! The headers of a caller that an agent receives, for runs without an extension of the host.

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::Caller;

use crate::settings::AgentOptions;

/// Headers that an agent always receives: the trace context and the baggage of W3C.
const TRACE_HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Headers of a caller that an agent receives.
#[derive(Debug)]
pub(crate) struct Forwarded(pub(crate) Vec<(String, String)>);

impl CallContext for Forwarded {
    fn headers(&self) -> Vec<(String, String)> {
        self.0.clone()
    }
}

/// Returns the headers of the caller that the agent receives: trace context, and those of its options.
pub(crate) fn forwarded(caller: &Caller, options: &AgentOptions) -> Vec<(String, String)> {
    let names = TRACE_HEADERS.iter().copied().chain(options.forward_headers.iter().map(String::as_str));
    names.filter_map(|name| Some((name.to_owned(), caller.header(name)?.to_owned()))).collect()
}

//! [`CallTrace`]: the span of one call to a remote agent, from the request to the end of its stream.
//!
//! | attribute | value |
//! |---|---|
//! | `gen_ai.operation.name` | `invoke_agent`; absent for `GET`, which reads a card or a task |
//! | `gen_ai.agent.name` | the key of the agent in the configuration |
//! | `http.request.method`, `url.path`, `server.address`, `server.port` | the request, without its query |
//! | `http.response.status_code` | the head of the response |
//! | `error.type` | the status from 400 on, or the code of the failure |

use http::request::Parts;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, Status};
use opentelemetry_sdk::trace::Span;

use super::{Tracing, of_headers, write_headers};

/// An open call. The span ends when the value is dropped, so a cancelled call is ended too.
#[derive(Debug)]
pub(crate) struct CallTrace(Span);

impl CallTrace {
    /// Starts the span below the trace context in the headers of the request, and writes its own context in its
    /// place, so that the agent's spans are below this call.
    ///
    /// A context that is not valid (a tracer without ids) leaves the headers unchanged.
    pub(crate) fn begin(tracing: &Tracing, agent: &str, head: &mut Parts) -> Self {
        let parent = of_headers(&head.headers);
        let is_question = head.method == http::Method::GET;
        let name = if is_question { format!("GET {agent}") } else { format!("invoke_agent {agent}") };
        let mut attributes = vec![
            KeyValue::new("gen_ai.agent.name", agent.to_owned()),
            KeyValue::new("http.request.method", head.method.to_string()),
            KeyValue::new("url.path", head.uri.path().to_owned()),
        ];
        if !is_question {
            attributes.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
        }
        if let Some(host) = head.uri.host() {
            attributes.push(KeyValue::new("server.address", host.to_owned()));
        }
        if let Some(port) = head.uri.port_u16() {
            attributes.push(KeyValue::new("server.port", i64::from(port)));
        }
        let span = tracing.begin((name, SpanKind::Client), parent.as_ref(), Vec::new(), attributes);
        if span.span_context().is_valid() {
            write_headers(span.span_context(), &mut head.headers);
        }
        Self(span)
    }

    /// Records the status of the response head.
    pub(crate) fn handle_head(&mut self, status: u16) {
        self.0.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        if status >= 400 {
            self.0.set_attribute(KeyValue::new("error.type", status.to_string()));
            self.0.set_status(Status::error(format!("the agent answered {status}")));
        }
    }

    /// Records a failure of the call, before or after the head. The reason is the text of the transport error,
    /// which contains no payload.
    pub(crate) fn handle_failure(&mut self, code: &'static str, reason: &str) {
        self.0.set_attribute(KeyValue::new("error.type", code));
        self.0.set_status(Status::error(reason.to_owned()));
    }
}

impl Drop for CallTrace {
    fn drop(&mut self) {
        self.0.end();
    }
}

//! The methods: requests to the [`RunService`], its answers to responses.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::service::{Caller, EventStream, PublishRequest, RunService, ServiceError};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::convert::{ConvertError, input_from_proto, optional_text, text};
use crate::driver::{EventPump, Shared};
use crate::proto;
use crate::proto::agent_stream_server::AgentStream;
use crate::publish::{Answers, until};
use crate::stall::{StallWatch, WatchedStream};
use crate::status::malformed;

/// The address of the peer, in the extensions of a request; for mounted services too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// The certificate (DER) of the peer, verified, as an extension of every call of a connection that showed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub bytes::Bytes);

/// Implements the generated trait.
pub(super) struct Handler {
    pub(super) service: Arc<dyn RunService>,
    pub(super) shared: Arc<Shared>,
    pub(super) stalls: Arc<StallWatch>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("shared", &self.shared).finish_non_exhaustive()
    }
}

#[async_trait]
impl AgentStream for Handler {
    type RunStream = WatchedStream<EventPump>;
    type WatchStream = WatchedStream<EventPump>;
    type PublishStream = WatchedStream<Answers>;

    async fn run(&self, request: Request<proto::RunRequest>) -> Result<Response<Self::RunStream>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let request = request.into_inner();
            let agent = self.valid(text("agent", request.agent))?;
            let input = request.input.ok_or(ConvertError::Missing { field: "input" });
            let depth = self.shared.limits.json_depth;
            let input = self.valid(input.and_then(|input| input_from_proto(input, depth)))?;
            let started = self.asked(&call, self.service.start(&call.caller, &agent, input)).await?;
            Ok(self.stream(&started.run_id, 0, started.events, &call))
        })
        .await
    }

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let request = request.into_inner();
            let run = self.run_id(request.run_id)?;
            let events = self.asked(&call, self.service.watch(&call.caller, &run, request.after)).await?;
            Ok(self.stream(&run, request.after, events, &call))
        })
        .await
    }

    async fn cancel(
        &self,
        request: Request<proto::CancelRequest>,
    ) -> Result<Response<proto::CancelResponse>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let run = self.run_id(request.into_inner().run_id)?;
            let was_running = self.asked(&call, self.service.cancel(&call.caller, &run)).await?;
            Ok(Response::new(proto::CancelResponse { was_running }))
        })
        .await
    }

    async fn list_agents(
        &self,
        request: Request<proto::ListAgentsRequest>,
    ) -> Result<Response<proto::ListAgentsResponse>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let agents = self.asked(&call, self.service.list_agents(&call.caller)).await?.into_iter();
            let agents = agents.map(|agent| proto::AgentInfo {
                name: agent.name.into(),
                description: agent.description.into(),
            });
            Ok(Response::new(proto::ListAgentsResponse { agents: agents.collect() }))
        })
        .await
    }

    async fn publish(
        &self,
        request: Request<Streaming<proto::PublishRequest>>,
    ) -> Result<Response<Self::PublishStream>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let mut requests = request.into_inner();
            let open = self.opening(&mut requests).await?;
            let ingest = self.asked(&call, self.service.publish(&call.caller, open)).await?;
            let answers = Answers::new(ingest, requests, call.deadline, Arc::clone(&self.shared));
            Ok(Response::new(self.stalls.watch(answers)))
        })
        .await
    }
}

impl Handler {
    fn stream(
        &self,
        run: &RunId,
        after: u64,
        events: EventStream,
        call: &Call,
    ) -> Response<WatchedStream<EventPump>> {
        let pump = EventPump::new(run, after, events, call.deadline, Arc::clone(&self.shared));
        Response::new(self.stalls.watch(pump))
    }

    /// The first request of a publisher.
    async fn opening(
        &self,
        requests: &mut Streaming<proto::PublishRequest>,
    ) -> Result<PublishRequest, Status> {
        use proto::publish_request::Request;
        let statuses = self.shared.statuses;
        let first = tokio::time::timeout(self.shared.timeouts.request, requests.message())
            .await
            .map_err(|_| statuses.late_request())??;
        let Some(Some(Request::Open(open))) = first.map(|first| first.request) else {
            return Err(malformed("the first publish request must be `open`"));
        };
        self.valid(opening(open))
    }

    fn run_id(&self, id: bytes::Bytes) -> Result<RunId, Status> {
        if id.is_empty() {
            return self.valid(Err(ConvertError::Missing { field: "run_id" }));
        }
        self.valid(text("run_id", id)).map(RunId::new)
    }

    fn valid<T>(&self, converted: Result<T, ConvertError>) -> Result<T, Status> {
        converted.map_err(|error| self.shared.statuses.invalid(&error))
    }

    /// Asks the service, but waits no longer than the caller does.
    async fn asked<T>(
        &self,
        call: &Call,
        question: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, Status> {
        let statuses = self.shared.statuses;
        tokio::select! {
            biased;
            answer = question => answer.map_err(|refusal| statuses.refused(refusal)),
            () = self.shared.stop.cancelled() => Err(statuses.stopping(None)),
            () = until(call.deadline) => Err(statuses.deadline()),
        }
    }

    async fn counted<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let answer = work.await;
        if answer.is_err() {
            self.shared.counters.call_refused();
        }
        answer
    }
}

fn opening(open: proto::PublishOpen) -> Result<PublishRequest, ConvertError> {
    Ok(PublishRequest {
        agent: text("open.agent", open.agent)?.to_string(),
        thread_id: optional_text("open.thread_id", open.thread_id)?,
        run_id: optional_text("open.run_id", open.run_id)?.map(RunId::new),
        format: text("open.format", open.format)?.to_string(),
    })
}

/// What stands around a request.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) deadline: Option<Instant>,
}

impl Call {
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let headers = request.metadata().as_ref();
        let readable = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let caller = Caller {
            token: headers.get(http::header::AUTHORIZATION).and_then(bearer),
            headers: headers.iter().filter_map(readable).collect(),
            peer: request.extensions().get::<PeerAddress>().map(|peer| peer.0.to_string()),
            certificate: request.extensions().get::<PeerCertificate>().map(|peer| peer.0.clone()),
        };
        let timeout = headers.get("grpc-timeout").and_then(|value| grpc_timeout(value.to_str().ok()?));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { caller, deadline }
    }
}

/// The token of `Bearer <token>`; the word is not case-sensitive (RFC 9110, section 11.1).
fn bearer(value: &http::HeaderValue) -> Option<String> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// At most eight digits and a unit (gRPC over HTTP/2, "Timeout").
fn grpc_timeout(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit_and_nothing_else_is() {
        assert_eq!(grpc_timeout("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(grpc_timeout("2M"), Some(Duration::from_secs(120)));
        assert_eq!(grpc_timeout("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(grpc_timeout("5m"), Some(Duration::from_millis(5)));
        assert_eq!(grpc_timeout("6u"), Some(Duration::from_micros(6)));
        assert_eq!(grpc_timeout("7n"), Some(Duration::from_nanos(7)));
        for bad in ["", "S", "5", "5s", "123456789S", "-1S", "+1S", "1é", "é"] {
            assert_eq!(grpc_timeout(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_bearer_tokens_are_tokens() {
        let token = |value: &'static str| bearer(&http::HeaderValue::from_static(value));
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer"), None);
    }
}

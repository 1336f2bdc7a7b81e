//! [`Handler`]: implements the methods of `aqueduct.v1` by calls of a [`RunService`].
//!
//! | method | calls of the service | response |
//! |---|---|---|
//! | `Run` | `start` | the events of the new run, the run id first |
//! | `Complete` | `start`, then all events | one [`CompletedRun`](aqueduct_core::CompletedRun) |
//! | `Watch` | `watch` | the events after a number |
//! | `Cancel` | `cancel` | whether the run was running |
//! | `ListAgents` | `list_agents` | names and descriptions, as the caller may see them |
//! | `Publish` | `publish` | acknowledgements and replies ([`publish`](crate::publish)) |
//!
//! Invariants: a call of the service is dropped at the deadline of the client and when the server stops; a refused call is
//! counted once; a request that cannot be converted never reaches the service.

use std::future::Future;
use std::sync::Arc;

use aqueduct_core::service::{EventStream, PublishRequest, RunService, ServiceError, complete};
use aqueduct_core::{ByteString, RunId, RunInput};
use aqueduct_transport_http::Total;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::call::Call;
use crate::convert::{ConvertError, completed_to_proto, input_from_proto, optional_text, text};
use crate::driver::{EventPump, Shared};
use crate::proto;
use crate::proto::agent_stream_server::AgentStream;
use crate::publish::Answers;
use crate::stall::{StallWatch, WatchedStream};
use crate::status::malformed;

/// The generated service trait over a [`RunService`].
pub(super) struct Handler {
    pub(super) service: Arc<dyn RunService>,
    pub(super) shared: Arc<Shared>,
    pub(super) stalls: Arc<StallWatch>,
}

aqueduct_core::debug_fields!(Handler { shared });

#[async_trait]
impl AgentStream for Handler {
    type RunStream = WatchedStream<EventPump>;
    type WatchStream = WatchedStream<EventPump>;
    type PublishStream = WatchedStream<Answers>;

    /// Starts a run. The stream is returned after the service has accepted the run, so a refusal is a status without messages.
    async fn run(&self, request: Request<proto::RunRequest>) -> Result<Response<Self::RunStream>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let (agent, input) = self.run_request(request.into_inner())?;
            let started = self.call_service(&call, self.service.start(&call.caller, &agent, input)).await?;
            Ok(self.stream(&started.run_id, 0, started.events, &call))
        })
        .await
    }

    async fn complete(
        &self,
        request: Request<proto::RunRequest>,
    ) -> Result<Response<proto::CompletedRun>, Status> {
        self.counted(async {
            let call = Call::of(&request);
            let (agent, input) = self.run_request(request.into_inner())?;
            // tonic drops this future if the client disconnects. The run then loses a watcher, and the service decides whether
            // it continues.
            let run = self.call_service(&call, complete(&*self.service, &call.caller, &agent, input)).await?;
            let statuses = self.shared.statuses;
            let run = completed_to_proto(&run).map_err(|error| statuses.unwritable(&error))?;
            Ok(Response::new(run))
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
            let events =
                self.call_service(&call, self.service.watch(&call.caller, &run, request.after)).await?;
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
            let was_running = self.call_service(&call, self.service.cancel(&call.caller, &run)).await?;
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
            let agents = self.call_service(&call, self.service.list_agents(&call.caller)).await?.into_iter();
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
            let open = self.read_open(&mut requests).await?;
            let ingest = self.call_service(&call, self.service.publish(&call.caller, open)).await?;
            let answers = Answers::new(ingest, requests, call.bounds, Arc::clone(&self.shared));
            Ok(Response::new(self.stalls.watch(answers)))
        })
        .await
    }
}

impl Handler {
    /// Returns the response stream of a run, which `stalls` drops if the client stops reading.
    fn stream(
        &self,
        run: &RunId,
        after: u64,
        events: EventStream,
        call: &Call,
    ) -> Response<WatchedStream<EventPump>> {
        let pump = EventPump::new(run, after, events, call.bounds.clone(), Arc::clone(&self.shared));
        Response::new(self.stalls.watch(pump))
    }

    /// Decodes the agent and the input of a run to start.
    fn run_request(&self, request: proto::RunRequest) -> Result<(ByteString, RunInput), Status> {
        let agent = self.valid(text("agent", request.agent))?;
        let input = request.input.ok_or(ConvertError::Missing { field: "input" });
        let depth = self.shared.limits.json_depth;
        Ok((agent, self.valid(input.and_then(|input| input_from_proto(input, depth)))?))
    }

    /// Reads the first message of a publisher.
    ///
    /// # Errors
    ///
    /// Returns `DEADLINE_EXCEEDED` if the message does not arrive within `timeouts.request`, and `INVALID_ARGUMENT` if it is
    /// not `open`.
    async fn read_open(
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
        self.valid(publish_request(open))
    }

    /// Decodes a run id, which must not be empty.
    fn run_id(&self, id: bytes::Bytes) -> Result<RunId, Status> {
        if id.is_empty() {
            return self.valid(Err(ConvertError::Missing { field: "run_id" }));
        }
        self.valid(text("run_id", id)).map(RunId::new)
    }

    /// Converts a conversion error into `INVALID_ARGUMENT`.
    fn valid<T>(&self, converted: Result<T, ConvertError>) -> Result<T, Status> {
        converted.map_err(|error| self.shared.statuses.invalid(&error))
    }

    /// Waits for a response of the service, until the deadline of the client or the stop of the server. A refusal of the
    /// service becomes a status.
    async fn call_service<T>(
        &self,
        call: &Call,
        response: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, Status> {
        let statuses = self.shared.statuses;
        let response = call.bounds.within(statuses, response).await?;
        response.map_err(|refusal| statuses.refused(refusal))
    }

    /// Awaits `work`, and counts the call as refused if it fails.
    async fn counted<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let response = work.await;
        if response.is_err() {
            self.shared.counters.count(Total::Refusals);
        }
        response
    }
}

/// Decodes the first message of a publisher.
fn publish_request(open: proto::PublishOpen) -> Result<PublishRequest, ConvertError> {
    Ok(PublishRequest {
        agent: text("open.agent", open.agent)?.to_string(),
        thread_id: optional_text("open.thread_id", open.thread_id)?,
        run_id: optional_text("open.run_id", open.run_id)?.map(RunId::new),
        format: text("open.format", open.format)?.to_string(),
    })
}

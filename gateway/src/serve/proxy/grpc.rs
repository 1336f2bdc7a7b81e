//! A2A calls over gRPC: served by the gateway's own server of the agent, and copied to the lane of the related run.
//!
//! ```text
//! call ──► agent, related run? ──┬ unrelated ──► server ──► response
//!                                └ related ──► lane ──► server ──► each message as JSON to the lane, then the message
//!                                                                to the caller
//! ```
//!
//! A call is related as over HTTP: by token, trace or context, within one principal. The metadata of the call are its
//! headers. Not here: how a call is served, which is done by the inner service.

use std::sync::Arc;

use aqueduct::a2a::Servers;
use aqueduct::grpc::{A2aV1, A2aV03, Payloads, RawAnswer, RawCall, RawService, RawStatus, Services};
use aqueduct::remote::REFUSED;
use aqueduct_adapter_a2a::Envelope;
use aqueduct_adapter_a2a::call::Call;
use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::pb::answer::read_task_answer;
use aqueduct_adapter_a2a::pb::read::Asked;
use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_adapter_a2a::version::{Binding, EXTENSIONS_HEADER, Version};
use aqueduct_core::RunFailure;
use aqueduct_core::service::Caller;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::callee::Callee;
use super::relay::{CHUNKS, answered, caller_gone, finish, relayed};
use super::tap;
use crate::service::Gateway;
use crate::tee::relation::LANE_HEADER;
use crate::tee::{Step, Tapped};

/// The status code `UNAVAILABLE`.
const UNAVAILABLE: i32 = 14;

/// Mounts both A2A services, for the same agents and tasks as the other bindings of `servers`.
pub(in crate::serve) fn mount_grpc(
    services: Services,
    gateway: &Arc<Gateway>,
    servers: &Servers,
) -> Services {
    let of = |version| Around { gateway: Arc::clone(gateway), servers: servers.clone(), version };
    let v1 = Teed { inner: Arc::new(A2aV1(servers.clone())), around: of(Version::V1) };
    let v03 = Teed { inner: Arc::new(A2aV03(servers.clone())), around: of(Version::V03) };
    services.mount_raw(Arc::new(v1)).mount_raw(Arc::new(v03))
}

/// A service whose responses are copied to the lanes of their calls. `S` is the service of one A2A version; it handles
/// every call, related or not.
struct Teed<S> {
    inner: Arc<S>,
    around: Around,
}

/// What [`Teed`] needs to relate a call to a run. It is separate from the inner service, whose type differs per
/// version.
struct Around {
    gateway: Arc<Gateway>,
    servers: Servers,
    version: Version,
}

impl<S: RawService> RawService for Teed<S> {
    const NAME: &'static str = S::NAME;

    /// Handles a call. The inner call runs in a spawned relay if the call is related to a run, and in this future
    /// otherwise.
    async fn call(&self, mut call: RawCall) -> Result<RawAnswer, RawStatus> {
        let Some(relay) = self.around.relay(&call).await else { return self.inner.call(call).await };
        // The lane needs the content of the extension, and copy and response are one stream.
        for (name, value) in [(EXTENSIONS_HEADER, EXTENSION), (LANE_HEADER, "1")] {
            call.caller.headers.push((name.to_owned(), value.to_owned()));
        }
        let (to, answer) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        tokio::spawn(relay.run(async move { inner.call(call).await }, to));
        // The relay always responds, unless the process ended its task.
        answer.await.unwrap_or_else(|_| Err(RawStatus::new(UNAVAILABLE, "the gateway is stopping")))
    }
}

impl Around {
    /// Returns the relay of a call that is related to a run. Calls that the inner service refuses are unrelated.
    ///
    /// A call without a readable message, a known agent or a valid proof returns `None`: the inner service then refuses
    /// it with the right status. The second authentication is cheap: the proof was verified when the request arrived.
    async fn relay(&self, call: &RawCall) -> Option<Relay> {
        let asked = Asked::read(self.version, &call.method, &call.message);
        let written = written(asked.call.as_ref().ok()?)?.to_string();
        let name = self.servers.agent_of_call(&call.caller, &asked.tenant)?;
        let agent = self.gateway.agent(&name)?;
        let owner = self.gateway.authenticate(&agent, &call.caller).ok()?;
        let (headers, passing) = (headers(&call.caller), PassingCall::of_jsonrpc(&written));
        // The lane reads the messages as REST would send them: bare JSON, without the envelope of JSON-RPC.
        let dialect = Binding::HttpJson.dialect(self.version);
        let lane = tap(&self.gateway, (&agent, &owner), &headers, &passing, dialect).await?;
        let callee = Callee::Served {
            servers: self.servers.clone(),
            name,
            headers: Box::new(headers),
            proof: call.caller.proof.clone(),
            version: self.version,
        };
        Some(Relay { callee, lane, call: asked.call.ok()?, version: self.version })
    }
}

/// Returns the fields that relate a call, in the form of JSON-RPC, or `None` for calls that no lane shows.
///
/// Only ids and metadata are written, because no other member decides which run a call belongs to:
///
/// ```text
/// SendMessage   {"method":"SendMessage","params":{"message":{"messageId":…,"taskId":…,"contextId":…,"metadata":…},…}}
/// GetTask       {"method":"GetTask","params":{"id":"T"}}
/// ```
fn written(call: &Call) -> Option<Value> {
    let (method, params) = match call {
        Call::SendMessage(send) | Call::SendStreamingMessage(send) => {
            let message = &send.message;
            let metadata = message.metadata.as_ref();
            let metadata = metadata.and_then(|raw| serde_json::from_str::<Value>(raw.as_str()).ok());
            let message = json!({
                "messageId": &*message.message_id, "taskId": &*message.task_id, "contextId": &*message.context_id,
                "metadata": metadata,
            });
            ("SendMessage", json!({ "message": message, "metadata": send.metadata }))
        }
        Call::SubscribeToTask { id } => ("SubscribeToTask", json!({ "id": id })),
        Call::GetTask { id, .. } => ("GetTask", json!({ "id": id })),
        Call::CancelTask { id, .. } => ("CancelTask", json!({ "id": id })),
        _ => return None,
    };
    Some(json!({ "method": method, "params": params }))
}

/// Returns the metadata of a call as headers. Entries that are not valid headers, such as binary metadata, are omitted:
/// no relation key is one of them.
fn headers(caller: &Caller) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &caller.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// The result of the inner call: one message, a stream of messages, or a gRPC status.
type Answered = Result<RawAnswer, RawStatus>;

/// Relays one call. The relay is a spawned task, so that it can close its lane when the caller disconnects.
///
/// It differs from the relay of HTTP calls in three points: the response is decoded messages instead of bytes, so
/// nothing can be compressed; interrupts are forwarded to the caller and never raised; the callee is always in this
/// process.
struct Relay {
    /// The inner server, to cancel the task together with its run.
    callee: Callee,
    lane: Tapped,
    call: Call,
    version: Version,
}

impl Relay {
    /// Runs the relay until the response is complete and the lane is retired. The steps and their order are those of
    /// the relay of HTTP calls.
    async fn run(
        mut self,
        answering: impl Future<Output = Answered> + Send,
        mut to: oneshot::Sender<Answered>,
    ) {
        let whole = match answered(&mut self.lane, answering, &mut to).await {
            None => {
                self.lane.handle(Step::Failure(caller_gone())).await;
                None
            }
            Some(Ok(RawAnswer::Stream(messages))) => {
                let (sender, chunks) = mpsc::channel(CHUNKS);
                to.send(Ok(RawAnswer::Stream(relayed(chunks)))).ok();
                self.carry(messages, sender).await;
                None
            }
            Some(Ok(RawAnswer::Message(message))) => {
                self.lane.handle(Step::Body { status: 200, body: self.json(&message) }).await;
                Some((to, Ok(RawAnswer::Message(message))))
            }
            Some(Err(status)) => {
                self.lane.handle(Step::Failure(failure(&status))).await;
                Some((to, Err(status)))
            }
        };
        finish(&self.callee, self.lane, whole).await;
    }

    /// Forwards a stream to the caller, each message after its copy was sent to the lane.
    ///
    /// Each message is framed as a server-sent event for the lane, which reads streams in that form. A cancelled run
    /// cancels the task once; the stream continues until the inner server ends it.
    async fn carry(&mut self, mut messages: Payloads, to: mpsc::Sender<Result<Bytes, RawStatus>>) {
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                biased;
                () = to.closed() => return self.lane.handle(Step::Failure(caller_gone())).await,
                task = self.lane.cancel_wanted(), if !is_cancelled => {
                    is_cancelled = true;
                    self.callee.cancel_later(task);
                }
                message = messages.next() => match message {
                    Some(Ok(message)) => {
                        let copy = [&b"data: "[..], &self.json(&message), b"\n\n"].concat();
                        self.lane.handle(Step::Chunk(copy.into())).await;
                        // A disconnected caller is detected above.
                        to.send(Ok(message)).await.ok();
                    }
                    Some(Err(status)) => {
                        self.lane.handle(Step::Failure(failure(&status))).await;
                        to.send(Err(status)).await.ok();
                        return;
                    }
                    None => return self.lane.handle(Step::End).await,
                },
            }
        }
    }

    /// Returns a message of the response as JSON for the lane.
    ///
    /// A message that is not about a task yields no bytes, and the lane shows nothing.
    fn json(&self, message: &[u8]) -> Bytes {
        let mut written = Vec::new();
        // The inner server encoded the message, so it can be decoded.
        if let Ok(Some(item)) = read_task_answer(&self.call, self.version, message) {
            Envelope::Bare.write(&item, Binding::HttpJson.dialect(self.version), &mut written);
        }
        written.into()
    }
}

/// Returns the failure that the lane shows for a refused call.
fn failure(status: &RawStatus) -> RunFailure {
    RunFailure::new(REFUSED, status.message.clone())
}

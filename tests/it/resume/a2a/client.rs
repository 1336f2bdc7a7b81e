//! An A2A client of three bindings, which activates the extension: the stream with all marks is the one that resumes
//! without loss.

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::pb::answer::read_event;
use aqueduct_adapter_a2a::version::{Binding, EXTENSIONS_HEADER, Version};
use aqueduct_adapter_a2a::wire::{Dialect, Part};
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::Request;
use serde_json::Value;

use super::super::stage::Stage;

pub(super) const BINDINGS: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

/// The payloads of a stream.
pub(super) type Payloads = BoxStream<'static, Bytes>;

/// Returns the item of a payload: an object whose only member names its kind.
pub(super) fn item(payload: &Bytes, binding: Binding) -> Value {
    if binding == Binding::Grpc {
        return read_event(Version::V1, payload).unwrap().unwrap().to_json(Dialect::V1);
    }
    let mut payload: Value = serde_json::from_slice(payload).unwrap();
    if binding == Binding::JsonRpc { payload["result"].take() } else { payload }
}

/// A client of one task.
pub(super) struct TaskReader {
    base: String,
    http: Client,
    grpc: Option<RawClient>,
}

impl TaskReader {
    pub(super) fn new(stage: &Stage) -> Self {
        let base = format!("http://{}/a2a/a", stage.address);
        Self { base, http: Client::new(ClientConfig::default()).unwrap(), grpc: None }
    }

    /// The same, able to speak gRPC.
    pub(super) async fn connected(mut self, stage: &Stage) -> Self {
        let address = format!("http://{}", stage.address);
        let config = aqueduct_transport_grpc::ClientConfig::default();
        self.grpc = Some(RawClient::connect(&address, config).await.unwrap());
        self
    }

    /// Sends a message in a context of that name.
    pub(super) async fn send(&self, context: &str) -> Payloads {
        let mut message = user_message("m", None, vec![Part::text("go on")]);
        message.context_id = context.to_owned().into();
        let call = Call::SendStreamingMessage(Box::new(SendMessage::new(message)));
        self.over_http(&call, Binding::JsonRpc).await
    }

    pub(super) async fn subscribe(&self, task: &str, binding: Binding) -> Payloads {
        let call = Call::SubscribeToTask { id: task.to_owned() };
        match binding {
            Binding::Grpc => self.over_grpc(&call).await,
            other => self.over_http(&call, other).await,
        }
    }

    async fn over_http(&self, call: &Call, binding: Binding) -> Payloads {
        let stream = self.http.open_stream(self.http_request(call, binding)).await.unwrap();
        Box::pin(stream.map(|event| event.unwrap().data.into_bytes()))
    }

    async fn over_grpc(&self, call: &Call) -> Payloads {
        let request = Endpoint::new("", Binding::Grpc, Version::V1).grpc_request(call).unwrap();
        let extension = (EXTENSIONS_HEADER.to_owned(), EXTENSION.to_owned());
        let metadata = request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
        let metadata = metadata.chain([extension]).collect();
        let request = RawRequest { path: request.path, metadata, message: request.message.into() };
        let stream = self.grpc.as_ref().unwrap().stream(request).await.unwrap();
        Box::pin(stream.map(Result::unwrap))
    }

    /// The whole answer to a call.
    pub(super) async fn ask(&self, call: &Call) -> Value {
        let request = self.http_request(call, Binding::JsonRpc);
        let response = self.http.request(request).await.unwrap();
        serde_json::from_slice(response.body()).unwrap()
    }

    fn http_request(&self, call: &Call, binding: Binding) -> Request<Bytes> {
        let asked = Endpoint::new(self.base.clone(), binding, Version::V1).http_request(call, 1).unwrap();
        let mut request = Request::builder().method(asked.method).uri(&asked.url);
        request = request.header(EXTENSIONS_HEADER, EXTENSION);
        for (name, value) in &asked.headers {
            request = request.header(*name, value.as_str());
        }
        request.body(Bytes::from(asked.body)).unwrap()
    }
}

//! A second client of a task, without the gateway: the library's calls over the transports, item by item.

use std::time::Duration;

use aqueduct_adapter_a2a::call::{Call, SendMessage, card_request, user_message};
use aqueduct_adapter_a2a::card::{self, Endpoint};
use aqueduct_adapter_a2a::pb::answer::read_event;
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::{Frame, FrameContent, Part, StreamItem};
use aqueduct_transport_grpc::raw::{RawClient, RawRequest, RawStream};
use aqueduct_transport_http::{Client, ClientConfig, SseStream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;

use super::modes::Peer;

/// One way to an agent.
struct Line {
    endpoint: Endpoint,
    http: Client,
}

enum Items {
    Sse(Box<SseStream>, aqueduct_adapter_a2a::wire::Dialect),
    Grpc(Box<RawStream>, aqueduct_adapter_a2a::version::Version),
}

impl Line {
    async fn to(url: &str, binding: Binding) -> Self {
        let http = Client::new(ClientConfig::default()).unwrap();
        let wanted = card_request(format!("{url}/.well-known/agent-card.json"));
        let mut request = Request::get(&wanted.url);
        for (name, value) in &wanted.headers {
            request = request.header(*name, value);
        }
        let response = http.request(request.body(Bytes::new()).unwrap()).await.unwrap();
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        let endpoint = card::choose(&card::parse(&text).unwrap(), &[binding]).unwrap();
        assert_eq!(endpoint.binding, binding);
        Self { endpoint, http }
    }

    async fn open(&self, call: &Call) -> Items {
        if self.endpoint.binding == Binding::Grpc {
            let request = self.endpoint.grpc_request(call).unwrap();
            let address = format!("http://{}", self.endpoint.url.trim_start_matches("http://"));
            let client =
                RawClient::connect(&address, aqueduct_transport_grpc::ClientConfig::default()).await.unwrap();
            let metadata =
                request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let raw = RawRequest { path: request.path, metadata, message: request.message.into() };
            return Items::Grpc(Box::new(client.stream(raw).await.unwrap()), self.endpoint.version);
        }
        let request = self.endpoint.http_request(call, 1).unwrap();
        let mut built = Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        let stream = self.http.open_stream(built.body(Bytes::from(request.body)).unwrap()).await.unwrap();
        Items::Sse(Box::new(stream), self.endpoint.binding.dialect(self.endpoint.version))
    }

    async fn say(&self, id: &str, text: &str) -> Items {
        let message = user_message(id, None, vec![Part::text(text.to_owned())]);
        self.open(&Call::SendStreamingMessage(Box::new(SendMessage::new(message)))).await
    }
}

/// What a watcher of a task has read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    task_id: String,
    text: String,
    state: String,
    started_with_task: Option<bool>,
}

impl Read {
    fn take(&mut self, item: &StreamItem<'_>) {
        self.started_with_task.get_or_insert(matches!(item, StreamItem::Task(_)));
        if self.task_id.is_empty() {
            item.task_id().clone_into(&mut self.task_id);
        }
        match item {
            StreamItem::Task(task) => {
                self.text = task.artifacts.iter().map(aqueduct_adapter_a2a::wire::Artifact::text).collect();
                self.state = task.status.state.to_string();
            }
            StreamItem::Artifact(update) => self.text.push_str(&update.artifact.text()),
            StreamItem::Status(update) => self.state = update.status.state.to_string(),
            _ => {}
        }
    }
}

impl Items {
    /// Takes the next item; false at the end.
    async fn next(&mut self, read: &mut Read) -> bool {
        match self {
            Self::Sse(stream, dialect) => {
                let Some(event) = stream.next().await else { return false };
                let event = event.unwrap();
                match (Frame { event: event.event.as_deref(), data: &event.data }).parse(*dialect).unwrap() {
                    FrameContent::Item(item) => read.take(&item),
                    other => panic!("{other:?}"),
                }
            }
            Self::Grpc(stream, version) => {
                let Some(message) = stream.next().await else { return false };
                read.take(&read_event(*version, &message.unwrap()).unwrap().unwrap());
            }
        }
        true
    }
}

/// A task is watched by two; what one of them missed is in its first item, and both end with the same.
async fn two_watch_one_task(peer: Peer, binding: Binding) {
    let server = peer.serve();
    let line = Line::to(&server.address, binding).await;
    let (mut first, mut second) = (Read::default(), Read::default());
    let mut watched = line.say("m1", "hold").await;
    while first.text != "before " {
        assert!(watched.next(&mut first).await, "the stream ended early: {first:?}");
    }
    let subscribe = Call::SubscribeToTask { id: first.task_id.clone() };
    // 0.3 gives no snapshot, and its gRPC server does not even begin the stream before there is something to say.
    let is_old = peer == Peer::Python0_3;
    let watching = async {
        let mut late = line.open(&subscribe).await;
        while second.text != "before after" && late.next(&mut second).await {}
        while late.next(&mut second).await {}
    };
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(if is_old { 1500 } else { 300 })).await;
        let mut released = line.say("m2", "release").await;
        while released.next(&mut Read::default()).await {}
        while watched.next(&mut first).await {}
    };
    tokio::join!(watching, releasing);
    assert_eq!((&*first.text, &*first.state), ("before after", "completed"), "{peer:?} {binding}");
    assert_eq!((&second.task_id, second.started_with_task), (&first.task_id, Some(!is_old)));
    if is_old {
        // Its server may end the stream of a late watcher before the last status: that is looked up (client rule 4).
        assert_eq!(second.text, "after", "{peer:?} {binding}");
    } else {
        assert_eq!((&second.text, &second.state), (&first.text, &first.state), "{peer:?} {binding}");
    }
}

const BINDINGS: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_watch_one_task_of_python_1_3() {
    for binding in BINDINGS {
        two_watch_one_task(Peer::Python1_3, binding).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_watch_one_task_of_python_0_3() {
    for binding in BINDINGS {
        two_watch_one_task(Peer::Python0_3, binding).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_watch_one_task_of_js_1_3() {
    for binding in BINDINGS {
        two_watch_one_task(Peer::Js1_3, binding).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_watch_one_task_of_rust() {
    for binding in BINDINGS {
        two_watch_one_task(Peer::Rust, binding).await;
    }
}

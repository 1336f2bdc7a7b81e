//! The service of all our servers: bursts, silence, and a relay of another stream.

use std::sync::Arc;
use std::task::{Poll, ready};

use aqueduct_core::event::{BlockHead, Lane, Origin, RunFinished};
use aqueduct_core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventEncoder, EventStream, Ingest, NumberedEvent, PayloadSink,
    PublishRequest, RefusalKind, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{
    BlockEvent, BlockId, ByteString, Channel, LaneId, Message, Role, RunId, RunInfo, RunInput, RunOutcome,
    Source, SpanKind,
};
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

/// Bytes of one message.
pub(crate) const MESSAGE_BYTES: usize = 100;

/// Selects runs by their prompt: `<messages> <batch>` sends messages in batches; `0 0` sends one and waits. With an upstream,
/// every run relays it.
pub(crate) struct BenchService {
    upstream: Option<(Client, String)>,
}

impl BenchService {
    pub(crate) fn new(upstream: Option<&str>) -> Arc<Self> {
        let client = |address: &str| (Client::new(ClientConfig::default()).unwrap(), address.to_owned());
        Arc::new(Self { upstream: upstream.map(client) })
    }
}

impl RunService for BenchService {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        refused()
    }

    fn start(&self, _: &Caller, _: &str, input: RunInput) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        Box::pin(async move {
            let prompt = input.latest_user_message().map(Message::text).unwrap_or_default();
            let events = match &self.upstream {
                None => burst(&prompt),
                Some((client, address)) => relay(client, address).await,
            };
            Ok(StartedRun::new(input.run_id, events))
        })
    }

    fn watch(&self, _: &Caller, _: &RunId, _: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        refused()
    }

    fn cancel(&self, _: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        refused()
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        refused()
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T, ServiceError>> {
    Box::pin(async { Err(ServiceError::new(RefusalKind::Unsupported, "not here")) })
}

/// Returns events in batches. The next batch comes from another task, so a transport cannot take two batches in one poll, and
/// has to write each of them.
fn burst(prompt: &str) -> EventStream {
    let mut numbers = prompt.split(' ').map(|number| number.parse::<u64>().unwrap());
    let (messages, batch) = (numbers.next().unwrap(), numbers.next().unwrap());
    let (head, text) = (head(), message());
    if messages == 0 {
        let first = NumberedEvent { number: 1, event: delta(head, text) };
        return Box::pin(stream::iter([first]).chain(stream::pending()));
    }
    let (turns, mut turn) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move { while turns.send(batch).await.is_ok() {} });
    let (mut sent, mut left) = (0, 0);
    Box::pin(stream::poll_fn(move |cx| {
        if left == 0 {
            left = ready!(turn.poll_recv(cx)).unwrap();
        }
        left -= 1;
        sent += 1;
        let event = if sent <= messages { delta(Arc::clone(&head), text.clone()) } else { finished() };
        Poll::Ready((sent <= messages + 1).then_some(NumberedEvent { number: sent, event }))
    }))
}

/// Relays the events of another server.
async fn relay(client: &Client, address: &str) -> EventStream {
    let request = http::Request::get(format!("http://{address}/")).body(Bytes::new()).unwrap();
    let events = client.open_stream(request).await.unwrap();
    let (head, mut number) = (head(), 0);
    Box::pin(events.map(move |event| {
        number += 1;
        NumberedEvent { number, event: delta(Arc::clone(&head), event.unwrap().data) }
    }))
}

/// Returns a message of [`MESSAGE_BYTES`].
pub(crate) fn message() -> ByteString {
    ByteString::from("m".repeat(MESSAGE_BYTES))
}

fn delta(block: Arc<BlockHead>, delta: ByteString) -> BlockEvent {
    BlockEvent::BlockDelta { block, delta }
}

fn head() -> Arc<BlockHead> {
    let lane = Lane { id: LaneId::from("root"), source: Source::root(), parent: None, parent_call: None };
    Arc::new(BlockHead {
        id: BlockId::from("run/1"),
        kind: SpanKind::Text,
        lane: Arc::new(lane),
        channel: Channel::Answer,
        role: Role::Assistant,
        tool_name: ByteString::new(),
        parent: None,
        continues: None,
        replaces: None,
        origin: Origin::default(),
    })
}

fn finished() -> BlockEvent {
    let run = Arc::new(RunInfo::new("thread", "run"));
    BlockEvent::RunFinished(Box::new(RunFinished::new(run, RunOutcome::Success)))
}

/// Writes the text of a delta and nothing else: the cost of an adapter is measured elsewhere.
pub(crate) struct Texts;

impl EventEncoder for Texts {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        if let BlockEvent::BlockDelta { delta, .. } = event {
            sink.push(&mut |out| out.extend_from_slice(delta.as_bytes()));
        }
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }
}

/// Parses an input as a prompt.
pub(crate) struct Prompts;

impl Protocol for Prompts {
    fn read_input(&self, _: &str, input: &[u8], _: Encoding) -> Result<ReadInput, ServiceError> {
        Ok(ReadInput::new(prompt(std::str::from_utf8(input).unwrap()), Box::new(Texts)))
    }

    fn encoder(&self, _: &str, _: Option<&str>, _: Encoding) -> Box<dyn EventEncoder> {
        Box::new(Texts)
    }
}

pub(crate) fn prompt(text: &str) -> RunInput {
    RunInput::prompt("thread", "run", text)
}

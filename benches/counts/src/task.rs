//! One A2A task on a server in memory, and its watchers: what both `counts` and the bench `a2a_server` drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::Envelope;
use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::server::{
    AgentServer, Answer, CallContext, CallHandler as _, Host, ItemPayloads, ServerConfig, TaskStream,
};
use aqueduct_adapter_a2a::version::Version;
use aqueduct_adapter_a2a::wire::{Part, StreamItem};
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, NumberedEvent, PayloadSink, PayloadStream as _,
    PublishRequest, RefusalKind, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{BlockEvent, RunId, RunInput, Timestamp};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;

use crate::Failure;

/// Events before the watchers connect: the run, its first block, its first text.
const OPENING: usize = 3;

/// A task whose watchers are connected, before its events go on.
#[derive(Debug)]
pub struct Task {
    gate: watch::Sender<bool>,
    streams: Vec<TaskStream>,
}

impl Task {
    /// Starts a task whose run has these events, and connects its watchers.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses a watcher.
    pub async fn start(events: Arc<[BlockEvent]>, watchers: usize) -> Result<Self, Failure> {
        let (gate, opened) = watch::channel(false);
        let service = Arc::new(Runs { events, opened });
        let server = AgentServer::new("agent", service, Arc::new(World::default()), ServerConfig::default());
        Ok(Self { gate, streams: streams(&server, watchers).await? })
    }

    /// Lets the events go on, and writes all payloads of all watchers. Returns the number of payloads of each.
    pub async fn play(self) -> Vec<usize> {
        self.gate.send_replace(true);
        join_all(self.streams.into_iter().map(read)).await
    }
}

/// Connects all watchers of the task.
async fn streams(server: &AgentServer, watchers: usize) -> Result<Vec<TaskStream>, Failure> {
    let message = user_message("m1", None, vec![Part::text("go")]);
    let mut first = open(server, Call::SendStreamingMessage(Box::new(SendMessage::new(message)))).await?;
    let Some(Ok(StreamItem::Task(task))) = first.next().await else {
        return Err("no task came first".into());
    };
    let mut streams = vec![first];
    for _ in 1..watchers {
        streams.push(open(server, Call::SubscribeToTask { id: task.id.to_string() }).await?);
    }
    Ok(streams)
}

async fn open(server: &AgentServer, call: Call) -> Result<TaskStream, Failure> {
    match server.handle_call(Caller::default(), CallContext::new(Version::V1), call).await {
        Ok(Answer::Stream(stream)) => Ok(stream),
        other => Err(format!("no stream: {other:?}").into()),
    }
}

/// Writes all payloads of a stream, as a transport does, and returns their number.
async fn read(items: TaskStream) -> usize {
    let mut payloads = ItemPayloads::new(items, Version::V1, Envelope::JsonRpc(1.into()));
    let mut sink = Counted { buffer: Vec::new(), count: 0 };
    while std::future::poll_fn(|cx| payloads.poll_payload(cx, &mut sink)).await {
        sink.buffer.clear();
    }
    sink.count
}

struct Counted {
    buffer: Vec<u8>,
    count: usize,
}

impl PayloadSink for Counted {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        write(&mut self.buffer);
        self.count += 1;
    }
}

/// One run in memory, which continues when all watchers are connected.
struct Runs {
    events: Arc<[BlockEvent]>,
    opened: watch::Receiver<bool>,
}

impl Runs {
    fn follow(&self, after: usize) -> EventStream {
        let (events, mut opened) = (Arc::clone(&self.events), self.opened.clone());
        let gate = stream::once(async move {
            opened.wait_for(|opened| *opened).await.ok();
        });
        let numbered = move |at: usize| {
            let event = events.get(at).cloned();
            std::future::ready(event.map(|event| NumberedEvent { number: at as u64 + 1, event }))
        };
        let count = self.events.len();
        let opening = stream::iter(after..OPENING.max(after)).filter_map(numbered.clone());
        let rest = stream::iter(OPENING.max(after)..count).filter_map(numbered);
        Box::pin(opening.chain(gate.flat_map(|()| stream::empty())).chain(rest))
    }
}

impl RunService for Runs {
    fn list_agents(&self, _: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn start(&self, _: &Caller, _: &str, input: RunInput) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let events = self.follow(0);
        Box::pin(async move { Ok(StartedRun::new(input.run_id, events)) })
    }

    fn watch(&self, _: &Caller, _: &RunId, after: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let events = self.follow(usize::try_from(after).unwrap_or(usize::MAX));
        Box::pin(async move { Ok(events) })
    }

    fn cancel(&self, _: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        Box::pin(async { Ok(false) })
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(async { Err(ServiceError::new(RefusalKind::Unsupported, "no")) })
    }
}

#[derive(Default)]
struct World(AtomicU64);

impl Host for World {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn new_id(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn identify(&self, _: &Caller) -> Result<String, ServiceError> {
        Ok(String::new())
    }
}

//! [`Link`]: one connection of a client, with a writer task, a reader task, and the table of pending requests.
//!
//! ```text
//! handles ──► queue ──► writer task ──► socket ──► reader task ──► table ──► handles
//! ```
//!
//! The handles are [`Link`] itself, [`RunEvents`] and [`Publisher`]. The lock of the table is held for a lookup, never across
//! an await. A full queue of a run or publisher stops the reader task, which is the back-pressure to the server.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::AgentInfo;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::Outgoing;
use super::connect::{ConnectOptions, Socket};
use super::incoming::Incoming;
use super::publisher::{Progress, Publisher};
use super::run::{Item, RunEvents};
use crate::close::CloseReason;
use crate::error::Error;

/// The channel that delivers the answer to a waiting request.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// The kind of answer that a request waits for, and its channel.
#[derive(Debug)]
pub(crate) enum Expected {
    Agents(Answer<Vec<AgentInfo>>),
    Run(Answer<RunEvents>),
    Cancelled(Answer<bool>),
    Publisher(Answer<Publisher>),
}

/// A connection. Clones share it; dropping the last one closes it.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    queue: mpsc::Sender<Message>,
    shared: Arc<Table>,
}

/// The state shared by the handles and the two tasks.
#[derive(Debug)]
struct Table {
    next_reference: AtomicU64,
    /// The capacity of the queue of each run.
    queued_events: usize,
    /// The close reason, if the server sent one or the client found a violation of the protocol.
    end: OnceLock<CloseReason>,
    open: Mutex<Open>,
}

/// Pending requests, watched runs and publishers.
#[derive(Debug, Default)]
struct Open {
    /// Pending requests by reference.
    expected: HashMap<String, Expected>,
    /// The queues of watched runs by run id.
    runs: HashMap<String, mpsc::Sender<Item>>,
    /// The queues of publishers by reference.
    publishers: HashMap<String, PublisherQueues>,
    /// Set once the reader task has ended: no more answers arrive.
    ended: bool,
}

/// The channels to one publisher.
#[derive(Debug)]
struct PublisherQueues {
    progress: watch::Sender<Progress>,
    replies: mpsc::Sender<InterruptReply>,
}

impl Link {
    /// Starts the tasks of a connection.
    pub(crate) fn open(socket: Socket, options: &ConnectOptions) -> Self {
        let (sink, stream) = socket.split();
        let (queue, waiting) = mpsc::channel(options.queued_requests.max(1));
        let shared = Arc::new(Table {
            next_reference: AtomicU64::new(1),
            queued_events: options.queued_events.max(1),
            end: OnceLock::new(),
            open: Mutex::default(),
        });
        tokio::spawn(write_all(sink, waiting, options.ping));
        let reader = Reader { shared: Arc::clone(&shared), queue: queue.downgrade() };
        tokio::spawn(reader.read_all(stream, options.ping.saturating_mul(3)));
        Self { queue, shared }
    }

    /// Sends a request under a new reference and waits for its answer.
    pub(crate) async fn request<T>(
        &self,
        message: &Outgoing<'_>,
        expected: fn(Answer<T>) -> Expected,
    ) -> Result<T, Error> {
        let reference = self.shared.next_reference.fetch_add(1, Ordering::Relaxed).to_string();
        let text = Outgoing { reference: Some(&reference), ..*message }.to_text()?;
        let (answer, waiting) = oneshot::channel();
        // The entry is made once the queue has room: a request that is dropped before is not sent, and gets no answer that
        // removes its entry.
        let room = self.queue.reserve().await.map_err(|_| self.end())?;
        {
            let mut open = self.shared.open();
            if open.ended {
                return Err(self.end());
            }
            open.expected.insert(reference, expected(answer));
        }
        room.send(Message::text(text));
        waiting.await.unwrap_or_else(|_| Err(self.end()))
    }

    /// Queues a message for the writer task. Waits while the queue is full.
    pub(crate) async fn send(&self, message: Message) -> Result<(), Error> {
        self.queue.send(message).await.map_err(|_| self.end())
    }

    /// Reserves room for one message in the queue, so that sending it does not wait.
    pub(crate) async fn reserve(&self) -> Result<mpsc::OwnedPermit<Message>, Error> {
        self.queue.clone().reserve_owned().await.map_err(|_| self.end())
    }

    /// Stops watching a run. Its later events are dropped here; the server stops sending them if the queue has room for the
    /// request.
    pub(crate) fn unwatch(&self, run: &str) {
        self.shared.open().runs.remove(run);
        if let Ok(text) = (Outgoing { run: Some(run), ..Outgoing::of("unwatch") }).to_text() {
            self.queue.try_send(Message::text(text)).unwrap_or_default();
        }
    }

    /// Abandons a publisher without finishing its run. The server is notified if the queue has room for the request.
    pub(crate) fn abandon(&self, reference: &str) {
        let queues = self.shared.open().publishers.remove(reference);
        let message = Outgoing { reference: Some(reference), ..Outgoing::of("abandon") };
        if let (Some(_), Ok(text)) = (queues, message.to_text()) {
            self.queue.try_send(Message::text(text)).unwrap_or_default();
        }
    }

    /// Sends a close frame, without waiting for that of the server.
    pub(crate) async fn close(&self) {
        // An error means that the connection has already ended.
        self.send(Message::Close(Some(CloseFrame { code: 1000.into(), reason: "".into() })))
            .await
            .unwrap_or_default();
    }

    /// Returns the error of a request on a connection that has ended: its close reason, or [`Error::Cut`] without one.
    pub(crate) fn end(&self) -> Error {
        self.shared.end.get().map_or(Error::Cut, |reason| Error::Closed(reason.clone()))
    }
}

impl Table {
    fn open(&self) -> MutexGuard<'_, Open> {
        // No code panics while the lock is held, and the table would still be consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer task: sends queued messages, and pings at the interval.
async fn write_all(
    mut sink: SplitSink<Socket, Message>,
    mut waiting: mpsc::Receiver<Message>,
    ping: Duration,
) {
    // The first tick completes at once and is skipped: no ping is needed right after the handshake.
    let mut ticks = time::interval(ping);
    ticks.tick().await;
    loop {
        let mut next = tokio::select! {
            biased;
            _ = ticks.tick() => Some(Message::Ping(Bytes::new())),
            next = waiting.recv() => next,
        };
        // All waiting messages are sent with one flush.
        while let Some(message) = next {
            let closing = message.is_close();
            for frame in fragments(message) {
                if sink.feed(frame).await.is_err() {
                    return;
                }
            }
            if closing {
                drop(sink.flush().await);
                return;
            }
            next = waiting.try_recv().ok();
        }
        if sink.flush().await.is_err() {
            return;
        }
        if waiting.is_closed() && waiting.is_empty() {
            drop(sink.close().await);
            return;
        }
    }
}

/// The most payload bytes of one frame: half of a server's default limit.
const FRAGMENT: usize = 128 * 1024;

/// Splits a long message into frames of at most [`FRAGMENT`] bytes. A shorter one is returned unchanged.
fn fragments(message: Message) -> Vec<Message> {
    let (kind, mut rest) = match message {
        Message::Text(text) if text.len() > FRAGMENT => (Data::Text, Bytes::from(text)),
        Message::Binary(data) if data.len() > FRAGMENT => (Data::Binary, data),
        other => return vec![other],
    };
    let mut frames = Vec::with_capacity(rest.len() / FRAGMENT + 1);
    let mut opcode = OpCode::Data(kind);
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(FRAGMENT));
        frames.push(Message::Frame(Frame::message(part, opcode, rest.is_empty())));
        opcode = OpCode::Data(Data::Continue);
    }
    frames
}

/// The reader task: delivers messages to the handles, and drops all their channels when the connection ends.
struct Reader {
    shared: Arc<Table>,
    /// Weak, so that the reader does not keep the connection open.
    queue: mpsc::WeakSender<Message>,
}

impl Reader {
    /// Reads until the connection ends or is silent for `silence`, then drops the table, which fails everything pending.
    async fn read_all(self, mut stream: SplitStream<Socket>, silence: Duration) {
        loop {
            let Ok(Some(Ok(message))) = time::timeout(silence, stream.next()).await else { break };
            let parsed = match &message {
                Message::Text(text) => Incoming::parse_text(text, text.as_ref()),
                Message::Binary(data) => Incoming::parse_binary(data),
                Message::Close(frame) => {
                    if let Some(frame) = frame {
                        let reason = CloseReason::new(frame.code.into(), frame.reason.to_string());
                        self.shared.end.set(reason).unwrap_or_default();
                    }
                    continue;
                }
                _ => continue,
            };
            match parsed {
                Ok(incoming) => self.deliver(incoming).await,
                Err(error) => {
                    self.shared
                        .end
                        .set(CloseReason::new(CloseReason::PROTOCOL, error.to_string()))
                        .unwrap_or_default();
                    break;
                }
            }
        }
        let mut open = self.shared.open();
        *open = Open { ended: true, ..Open::default() };
    }

    /// Delivers one message to the request, run or publisher it belongs to.
    async fn deliver(&self, incoming: Incoming) {
        match incoming {
            Incoming::Event { run, event } => self.enqueue(&run, Item::Event(event)).await,
            Incoming::Ended { run } => self.end_run(&run, Item::Ended).await,
            Incoming::Ack { reference, number } => {
                if let Some(queues) = self.shared.open().publishers.get(&reference) {
                    queues
                        .progress
                        .send_modify(|progress| progress.acknowledged = progress.acknowledged.max(number));
                }
            }
            Incoming::Finished { reference } => {
                if let Some(queues) = self.shared.open().publishers.remove(&reference) {
                    queues.progress.send_modify(|progress| progress.finished = true);
                }
            }
            Incoming::Reply { reference, reply } => {
                let replies =
                    self.shared.open().publishers.get(&reference).map(|queues| queues.replies.clone());
                if let Some(replies) = replies {
                    replies.send(reply).await.unwrap_or_default();
                }
            }
            Incoming::Failed { reference, run, error } => self.fail(reference, run, error).await,
            Incoming::Other => {}
            answer => self.answer(answer),
        }
    }

    /// Adds an item to the queue of a run. Waits while the queue is full, which stops reading from the socket.
    async fn enqueue(&self, run: &str, item: Item) {
        // Events that were in flight when the run was unwatched are dropped.
        let queue = self.shared.open().runs.get(run).cloned();
        if let Some(queue) = queue {
            queue.send(item).await.unwrap_or_default();
        }
    }

    /// Adds the last item to the queue of a run, and removes the run.
    async fn end_run(&self, run: &str, item: Item) {
        let queue = self.shared.open().runs.remove(run);
        if let Some(queue) = queue {
            queue.send(item).await.unwrap_or_default();
        }
    }

    /// Fails the request, run or publisher that an error message names.
    async fn fail(&self, reference: Option<String>, run: Option<String>, error: Error) {
        let (expected, queues) = match reference {
            Some(reference) => {
                let mut open = self.shared.open();
                (open.expected.remove(&reference), open.publishers.remove(&reference))
            }
            None => (None, None),
        };
        match (expected, queues, run) {
            (Some(expected), ..) => expected.fail(error),
            (None, Some(queues), _) => {
                queues.progress.send_modify(|progress| progress.refused = Some(error.to_string()));
            }
            (None, None, Some(run)) => self.end_run(&run, Item::Failed(error)).await,
            (None, None, None) => {}
        }
    }

    /// Delivers an answer to its waiting request. If the request was dropped, sending fails and the answer is dropped too.
    fn answer(&self, answer: Incoming) {
        let mut open = self.shared.open();
        let reference = match &answer {
            Incoming::Agents { reference, .. }
            | Incoming::Opened { reference, .. }
            | Incoming::Cancelled { reference, .. }
            | Incoming::Publishing { reference, .. } => reference.clone(),
            _ => return,
        };
        let Some(expected) = open.expected.remove(&reference) else { return };
        let Some(queue) = self.queue.upgrade() else { return };
        let link = Link { queue, shared: Arc::clone(&self.shared) };
        match (expected, answer) {
            (Expected::Agents(to), Incoming::Agents { agents, .. }) => drop(to.send(Ok(agents))),
            (Expected::Cancelled(to), Incoming::Cancelled { running, .. }) => drop(to.send(Ok(running))),
            (Expected::Run(to), Incoming::Opened { run, .. }) => {
                let (items, queue) = mpsc::channel(self.shared.queued_events);
                open.runs.insert(run.clone(), items);
                // Unlocked first: if the request was dropped, so is the handle, which locks the table to unwatch the run.
                drop(open);
                drop(to.send(Ok(RunEvents::new(run, queue, link))));
            }
            (
                Expected::Publisher(to),
                Incoming::Publishing { run, acknowledged, window, window_bytes, .. },
            ) => {
                let (progress, followed) = watch::channel(Progress { acknowledged, ..Progress::default() });
                let (replies, inbox) = mpsc::channel(self.shared.queued_events);
                open.publishers.insert(reference.clone(), PublisherQueues { progress, replies });
                drop(open);
                drop(to.send(Ok(Publisher {
                    link,
                    reference,
                    run,
                    next: acknowledged + 1,
                    window,
                    window_bytes,
                    waiting: VecDeque::new(),
                    progress: followed,
                    replies: inbox,
                })));
            }
            (expected, _) => {
                expected.fail(Error::Protocol("the answer does not belong to the request".to_owned()));
            }
        }
    }
}

impl Expected {
    /// Completes the request with an error.
    fn fail(self, error: Error) {
        // Sending fails if the request was dropped.
        match self {
            Self::Agents(to) => drop(to.send(Err(error))),
            Self::Run(to) => drop(to.send(Err(error))),
            Self::Cancelled(to) => drop(to.send(Err(error))),
            Self::Publisher(to) => drop(to.send(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_request_that_is_dropped_while_the_queue_is_full_leaves_no_entry() {
        let (queue, mut waiting) = mpsc::channel(1);
        let shared = Arc::new(Table {
            next_reference: AtomicU64::new(1),
            queued_events: 1,
            end: OnceLock::new(),
            open: Mutex::default(),
        });
        let link = Link { queue, shared };
        let list = Outgoing::of("list");
        let mut first = Box::pin(link.request(&list, Expected::Agents));
        assert!((&mut first).now_or_never().is_none(), "it is queued and waits for its answer");
        let mut second = Box::pin(link.request(&list, Expected::Agents));
        assert!((&mut second).now_or_never().is_none(), "the queue is full");
        drop(second);
        assert_eq!(link.shared.open().expected.len(), 1);
        waiting.recv().await.unwrap();
        assert!(waiting.try_recv().is_err());
    }
}

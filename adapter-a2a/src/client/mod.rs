//! [`TaskClient`]: the client of one task, from the message that starts the task to its end, over lost streams and
//! reconnects. A state machine without I/O: it returns the requests to send and the pauses before them; the driver sends
//! the requests, waits, and passes the responses in.
//!
//! ```text
//!          poll_request: send          first frame                 settled (state, interrupt, message)
//!   ready ───────────────────► sending ───────────► streaming ───────────────────────────► settled
//!                                 │                   │   ▲                                   ▲ ▲
//!                    error, or    │       end, error, │   │ frames                  settled   │ │
//!                    end without  │       cut         ▼   │                        (as above)  │ │
//!                    a task       │              subscribing ── refused ──► getting ──────────┘ │
//!                                 │                │   ▲                    │  │               │
//!                                 │     no answer, │   └───── task works ───┘  │ no answer,    │
//!                                 │     attempts   │                           │ attempts      │
//!                                 └──── used up ───┴───────────────────────────┴─ used up ─────┘  (failed)
//! ```
//!
//! The rules (observed in real servers; numbers in `docs/a2a.md`):
//! * the end of a stream does not settle the task; only a state, an interrupt or a message does;
//! * a message is sent once: after a lost response its task is *looked up*, the message is never sent again;
//! * of a snapshot only content that was not emitted before is emitted;
//! * a stream that starts with a snapshot may repeat content of the snapshot in its chunks; repeated chunks are
//!   suppressed, and if any chunk was suppressed, the task is read before its end is accepted;
//! * attempts are bounded; only attempts without new content count;
//! * dropping the client does not cancel the task; [`handle_cancel`](TaskClient::handle_cancel) does.
//!
//! A client that [attaches](TaskClient::attaching) to a task of another client reads the task first. If the response to the
//! message was lost before it named a task, the task is found by the id of the message ([`SentMessage`]).
//!
//! Poll order: `poll_event` until empty, then `poll_request` until empty, then `poll_timeout`. For a driver that never
//! calls `handle_timeout`, some notices are emitted only with the next event. Once [`is_settled`](TaskClient::is_settled)
//! returns `Some`, streams can be dropped.

mod answer;
mod attach;
mod overlap;
mod plan;
mod recovery;
mod sent;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use aqueduct_core::{ByteString, SourceEvent};

use crate::call::{Call, SendMessage, TaskRef};
use crate::config::{ClientConfig, Retry};
use crate::decode::{Decoder, Settled, TaskMemory};
use crate::version::Version;
use crate::wire::{Dialect, Frame, FrameContent, StateClass, StreamItem, WireError};
pub use attach::{Attachment, is_made_id};
use overlap::{Overlap, Verdict};
pub use plan::{Planned, Purpose};
pub use sent::{SentMessage, SentPage, TasksPage};

/// The queue of events keeps room for so many; the room of a burst is freed once it is polled. Small, because a silent run
/// holds it for hours (152 bytes per event).
const KEPT_EVENTS: usize = 8;

/// The request or stream that the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The client waits for the response to its message, or reads the task's stream.
    Streaming,
    /// The client waits for the first frame of a new subscription to the task.
    Subscribing,
    /// The client waits for the response to a read of the task.
    Getting,
}

/// The progress of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    /// No cancel was requested.
    NotRequested,
    /// A cancel was requested; the task is not known yet, or the cancel has to be sent again.
    Requested,
    /// The cancel is planned or sent. Its response, or the stream, reports the end of the task.
    Sent,
}

/// The settings of a client without those of its decoder, which the decoder holds.
#[derive(Debug)]
struct Settings {
    streaming: bool,
    version: Option<Version>,
    dialect: Dialect,
    retry: Retry,
    hold: Duration,
}

/// The client of one turn of a task, over any number of streams.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::call::{SendMessage, user_message};
/// use aqueduct_adapter_a2a::client::Purpose;
/// use aqueduct_adapter_a2a::wire::{Frame, Part};
/// use aqueduct_adapter_a2a::{ClientConfig, Settled, TaskClient};
/// use aqueduct_core::ByteString;
///
/// let message = user_message("m-1", None, vec![Part::text("Hi")]);
/// let mut client = TaskClient::new(ClientConfig::default(), SendMessage::new(message));
/// let request = client.poll_request().expect("the message");
/// assert_eq!(request.purpose, Purpose::Send);
///
/// // The driver has sent the request, and passes in what the agent streams.
/// let answer = r#"{"message":{"messageId":"m-2","role":"ROLE_AGENT","parts":[{"text":"Hello"}]}}"#;
/// client.handle_frame(Frame::data(&ByteString::from(answer)));
/// assert!(client.poll_event().is_some());
/// assert_eq!(client.is_settled(), Some(Settled::Completed));
/// ```
#[derive(Debug)]
pub struct TaskClient {
    settings: Settings,
    decoder: Decoder,
    /// The message of the turn, for the repetitions that a refusal allows; `None` once the agent has sent anything about the
    /// task. A silent turn would hold its parts for hours.
    message: Option<Box<SendMessage>>,
    state: State,
    cancel: Cancel,
    /// Unset if the agent does not stream or has refused a subscription, or if the attempts are used up.
    can_subscribe: bool,
    /// The end of the snapshot with which the stream began, which the stream may repeat.
    overlap: Overlap,
    /// Set if a chunk was suppressed that may have been new content.
    is_unsure: bool,
    /// Consecutive attempts without new content.
    attempts: u32,
    /// Subscriptions of this turn.
    streams: u32,
    /// Consecutive reads without new content.
    polls: u32,
    /// The limit of consecutive reads without new content.
    patience: u32,
    /// Cancels that were refused with a temporary error and planned again.
    cancel_attempts: u32,
    /// The protocol version in use, if it is not that of the endpoint.
    version: Option<Version>,
    /// Set once the other protocol version was tried.
    tried_other: bool,
    /// The first error of a series. Later errors are consequences and do not replace it.
    first_error: Option<WireError>,
    /// Requests that the driver has not polled; at most one per purpose.
    planned: VecDeque<Planned>,
    /// Events that the driver has not polled.
    events: VecDeque<SourceEvent>,
}

impl TaskClient {
    /// Returns a client for the turn that this message starts.
    pub fn new(config: ClientConfig, message: SendMessage) -> Self {
        Self::resuming(config, message, TaskMemory::default())
    }

    /// Returns a client for a further turn of a task whose earlier turns left `memory`.
    pub fn resuming(mut config: ClientConfig, message: SendMessage, mut memory: TaskMemory) -> Self {
        memory.expect_task(&message.message);
        config.decode.follow_up = !message.message.task_id.is_empty();
        let send = send_call(&message, config.streaming);
        let mut client = Self::waiting(config, message, memory);
        client.plan(Purpose::Send, send, Duration::ZERO);
        client
    }

    /// Returns a client that waits for its first stream, without a planned request.
    fn waiting(mut config: ClientConfig, message: SendMessage, memory: TaskMemory) -> Self {
        config.decode.sent_message_id = message.message.message_id.set().map(str::to_owned);
        let ClientConfig { decode, streaming, version, retry, hold } = config;
        let settings = Settings { streaming, version, dialect: decode.dialect, retry, hold };
        Self {
            can_subscribe: streaming,
            overlap: Overlap::default(),
            is_unsure: false,
            patience: settings.retry.polls,
            settings,
            decoder: Decoder::resuming(decode, memory),
            message: Some(Box::new(message)),
            state: State::Streaming,
            cancel: Cancel::NotRequested,
            attempts: 0,
            streams: 0,
            polls: 0,
            cancel_attempts: 0,
            version: None,
            tried_other: false,
            first_error: None,
            planned: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the next event of the task.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > KEPT_EVENTS {
            self.events = VecDeque::new();
        }
        event
    }

    /// Returns the next request to send. A new stream replaces the old stream, which must be dropped before
    /// [`Purpose::Subscribe`] is sent: the client would attribute frames and the end of the old stream to the new one.
    pub fn poll_request(&mut self) -> Option<Planned> {
        let next = self.planned.pop_front();
        if self.planned.is_empty() {
            // A turn sends few requests: the room of the queue would be held for nothing.
            self.planned = VecDeque::new();
        }
        next
    }

    /// Returns how long to wait for input before [`handle_timeout`](Self::handle_timeout). Returns `None` if no text is
    /// held. Any input restarts the wait.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (self.is_settled().is_none() && self.decoder.holds_text()).then_some(self.settings.hold)
    }

    /// Handles the expiry of [`poll_timeout`](Self::poll_timeout): status texts that were held because they might be the
    /// answer are emitted as notices.
    pub fn handle_timeout(&mut self) {
        self.decode(Decoder::release_held);
    }

    /// Returns how the task ended or was interrupted. Returns `None` while the task works.
    pub fn is_settled(&self) -> Option<Settled> {
        self.decoder.settled()
    }

    /// Returns the task, once it is known.
    pub fn task_ref(&self) -> Option<TaskRef> {
        self.decoder.task_ref()
    }

    /// Returns the state that the next turn of the same task needs.
    pub fn into_memory(self) -> TaskMemory {
        self.decoder.into_memory()
    }

    /// Handles one event of the stream.
    pub fn handle_frame(&mut self, frame: Frame<'_>) {
        if self.is_settled().is_some() {
            return;
        }
        let before = self.events.len();
        // While the overlap of a snapshot is checked, artifact chunks must be parsed and compared with it. Status texts
        // (`handle_known`) are never part of the overlap.
        let may_be_chunk = self.overlap.is_empty();
        let is_handled = self.decode(|decoder, out| {
            (may_be_chunk && decoder.handle_chunk(frame, out)) || decoder.handle_known(frame, out)
        });
        if is_handled {
            self.state = State::Streaming;
            return self.handle_progress(before);
        }
        // The decoder counts frames that cannot be decoded. If the stream was cut in the middle of a frame, the end of the
        // stream follows.
        match self.decoder.parse(frame) {
            Some(FrameContent::Item(item)) => self.handle_streamed(item, frame.data),
            Some(content) => self.handle_content(content, frame.data),
            None => {}
        }
    }

    /// Handles one decoded item of the stream, for bindings without text frames (gRPC).
    pub fn handle_item(&mut self, item: StreamItem<'_>) {
        if self.is_settled().is_none() {
            self.handle_streamed(item, &ByteString::new());
        }
    }

    /// Handles an item of the stream. The first item of a new subscription is a snapshot that later chunks may overlap.
    fn handle_streamed(&mut self, item: StreamItem<'_>, frame: &ByteString) {
        let is_new_stream = mem::replace(&mut self.state, State::Streaming) == State::Subscribing;
        match &item {
            StreamItem::Task(task) if is_new_stream => self.overlap = Overlap::of(task),
            StreamItem::Artifact(update) if !self.overlap.is_empty() => match self.overlap.judge(update) {
                Verdict::New => {
                    if let Some(kept) = self.overlap.release(update) {
                        self.handle_content(
                            FrameContent::Item(StreamItem::Artifact(kept)),
                            &ByteString::new(),
                        );
                    }
                }
                Verdict::Other => {}
                Verdict::Held => return,
                Verdict::Repeated => {
                    self.is_unsure = true;
                    return self.handle_repeated(item);
                }
            },
            StreamItem::Status(update) if update.status.state.class() != StateClass::Active => {
                let is_unsure = mem::take(&mut self.is_unsure) || self.overlap.holds_any();
                self.overlap = Overlap::default();
                if is_unsure {
                    return self.plan_get(Duration::ZERO);
                }
            }
            _ => {}
        }
        self.handle_content(FrameContent::Item(item), frame);
    }

    /// Handles a chunk that repeats emitted content: only its `last_chunk` mark has an effect.
    fn handle_repeated(&mut self, item: StreamItem<'_>) {
        if let StreamItem::Artifact(mut update) = item
            && update.last_chunk
        {
            update.artifact.parts.clear();
            self.handle_content(FrameContent::Item(StreamItem::Artifact(update)), &ByteString::new());
        }
    }

    /// Handles an error that ended the stream, for bindings that report it outside of frames (a gRPC status).
    pub fn handle_stream_error(&mut self, error: WireError) {
        if self.is_settled().is_none() {
            self.handle_error_frame(error);
        }
    }

    /// Handles the end of the stream. A clean end and a cut are treated alike.
    pub fn handle_stream_end(&mut self) {
        // The end of a stream has no effect if a planned request replaces the stream.
        let replaced =
            self.planned.iter().any(|planned| matches!(planned.purpose, Purpose::Subscribe | Purpose::Get));
        if self.is_settled().is_some() || replaced || self.state == State::Getting {
            return;
        }
        if self.decoder.rests_at_end() {
            return self.decode(Decoder::handle_end);
        }
        self.recover();
    }

    /// Handles a response that is not a stream: to a blocking call, to a read of the task, or an error.
    pub fn handle_response(&mut self, purpose: Purpose, status: u16, body: &ByteString) {
        if self.is_settled().is_some() {
            return;
        }
        if let Some(error) = WireError::from_response(status, body.as_bytes()) {
            return self.handle_response_error(purpose, error);
        }
        match self.decoder.parse(Frame::data(body)) {
            Some(FrameContent::Item(item)) => self.handle_task(purpose, item, body),
            _ => self.handle_empty_answer(purpose),
        }
    }

    /// Handles a decoded response. `item` is `None` if the response contained neither a task nor a message.
    pub fn handle_answer(&mut self, purpose: Purpose, item: Option<StreamItem<'_>>) {
        if self.is_settled().is_some() {
            return;
        }
        match item {
            Some(item) => self.handle_task(purpose, item, &ByteString::new()),
            None => self.handle_empty_answer(purpose),
        }
    }

    /// Handles the task or message of a response.
    fn handle_task(&mut self, purpose: Purpose, item: StreamItem<'_>, body: &ByteString) {
        self.handle_content(FrameContent::Item(item), body);
        if self.is_settled().is_none() {
            self.handle_active(purpose);
        }
    }

    /// Handles a response without task or message, as a transport error.
    fn handle_empty_answer(&mut self, purpose: Purpose) {
        let error = WireError::transport("the agent's response contains neither a task nor a message");
        self.handle_response_error(purpose, error);
    }

    /// Handles an error response, or a missing response ([`WireError::transport`]).
    pub fn handle_response_error(&mut self, purpose: Purpose, error: WireError) {
        if self.is_settled().is_some() {
            return;
        }
        match purpose {
            Purpose::Send => self.handle_refused_message(&error),
            Purpose::Subscribe => self.handle_refused_stream(error),
            Purpose::Get => self.handle_refused_get(error),
            Purpose::Cancel => self.handle_refused_cancel(&error),
        }
    }

    /// Requests that the task be cancelled. A message that was not polled yet is dropped, and the turn ends at once;
    /// otherwise `CancelTask` is planned as soon as the task is known, and the turn ends with the agent's
    /// confirmation. Further calls have no effect.
    pub fn handle_cancel(&mut self) {
        if self.is_settled().is_some() || self.cancel != Cancel::NotRequested {
            return;
        }
        self.cancel = Cancel::Requested;
        let unsent = self.planned.iter().any(|planned| planned.purpose == Purpose::Send);
        if unsent {
            self.planned.clear();
            return self.decode(Decoder::cancelled);
        }
        self.plan_cancel();
    }

    /// Handles the content of a frame: decodes an item and records progress, or handles an error.
    fn handle_content(&mut self, content: FrameContent<'_>, frame: &ByteString) {
        match content {
            FrameContent::Item(item) => {
                let before = self.events.len();
                self.decode(|decoder, out| decoder.handle_item(item, frame, out));
                self.handle_progress(before);
            }
            FrameContent::Unknown(raw) => {
                self.decode(|decoder, out| decoder.handle_unknown(&raw, frame, out));
            }
            FrameContent::Error(error) => self.handle_error_frame(error),
        }
    }

    /// Resets the attempts if an item added events, because the stream works again. `before` is the number of events before
    /// the item.
    fn handle_progress(&mut self, before: usize) {
        if self.message.is_some() && self.decoder.has_heard() {
            self.message = None;
        }
        if self.events.len() > before {
            self.first_error = None;
            self.attempts = 0;
            self.polls = 0;
            if self.state == State::Streaming {
                self.patience = self.settings.retry.polls;
            }
        }
        self.plan_cancel();
    }

    /// Runs a step of the decoder and queues its events. A settled turn has no planned requests.
    fn decode<R>(&mut self, step: impl FnOnce(&mut Decoder, &mut Vec<SourceEvent>) -> R) -> R {
        // Both conversions keep the buffer: the decoder appends to the queue itself.
        let mut queue = Vec::from(mem::take(&mut self.events));
        let result = step(&mut self.decoder, &mut queue);
        self.events = queue.into();
        if self.is_settled().is_some() {
            self.planned.clear();
        }
        result
    }
}

/// Returns the call that starts a turn.
fn send_call(message: &SendMessage, streaming: bool) -> Call {
    let send = Box::new(message.clone());
    if streaming { Call::SendStreamingMessage(send) } else { Call::SendMessage(send) }
}

#[cfg(test)]
mod tests;

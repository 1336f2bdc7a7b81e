//! [`TaskClient`]: one task, from the message that starts it to its end, over cuts and reconnects. A pure machine:
//! it says what to send and after which pause; whoever drives it sends, waits, and tells what came back.
//!
//! ```text
//!          poll_request: send          first frame                 settled (state, question, message)
//!   ready ───────────────────► sending ───────────► streaming ───────────────────────────► settled
//!                                 │                   │   ▲                                   ▲ ▲
//!                    error, or    │       end, error, │   │ frames                            │ │
//!                    end without  │       broken off  ▼   │                                   │ │
//!                    a task       │              subscribing ── refused ──► getting ── rest ──┘ │
//!                                 │                │   ▲                    │  │               │
//!                                 │     no answer, │   └───── task works ───┘  │ no answer,    │
//!                                 │     attempts   │                           │ attempts      │
//!                                 └──── used up ───┴───────────────────────────┴─ used up ─────┘  (failed)
//! ```
//!
//! The rules it keeps (facts of the field; numbers in `docs/a2a.md`):
//! * the end of a stream means nothing; only a state, a question or a message does;
//! * a message is sent once: after an answer got lost it is *looked for*, never sent again;
//! * what a snapshot repeats is not shown again; what it adds is;
//! * what a stream repeats of the snapshot it began with is not shown again; if anything was left out for that, the task is
//!   looked at before its end is believed;
//! * attempts are bounded, and only those count that bring nothing new;
//! * leaving does not cancel; [`handle_cancel`](TaskClient::handle_cancel) does.
//!
//! A client that [takes up](TaskClient::attaching) a task that another one began starts by getting it. Where the answer to the
//! message was lost before it named a task, the task is found by the id of the message ([`SentMessage`]).
//!
//! Poll order: `poll_event` until empty, then `poll_request` until empty, then `poll_timeout`: a driver that never calls
//! `handle_timeout` shows some notices only with the next event. Once [`is_settled`](TaskClient::is_settled),
//! streams can be dropped.

mod answer;
mod attach;
mod overlap;
mod plan;
mod recovery;
mod sent;

use std::collections::VecDeque;
use std::time::Duration;

use aqueduct_core::{ByteString, SourceEvent};

use crate::call::{Call, SendMessage, TaskRef};
use crate::config::ClientConfig;
use crate::decode::{Decoder, Settled, TaskMemory};
use crate::version::Version;
use crate::wire::{Frame, FrameContent, StateClass, StreamItem, WireError};
pub use attach::{Attachment, is_made_id};
use overlap::{Overlap, Verdict};
pub use plan::{Planned, Purpose};
pub use sent::{SentMessage, SentPage, TasksPage};

/// What the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For the answer to its message, or for the task's stream.
    Streaming,
    /// For the stream to be taken up again.
    Subscribing,
    /// For a look at the task.
    Getting,
}

/// How far a wish to stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    NotAsked,
    Asked,
    Sent,
}

/// One task.
#[derive(Debug)]
pub struct TaskClient {
    config: ClientConfig,
    decoder: Decoder,
    message: SendMessage,
    state: State,
    cancel: Cancel,
    can_subscribe: bool,
    /// What the stream may repeat.
    overlap: Overlap,
    /// True if something was left out that may have been new.
    is_unsure: bool,
    /// Attempts in a row that brought nothing new.
    attempts: u32,
    /// Streams that were taken up again.
    streams: u32,
    polls: u32,
    /// How many looks in a row may bring nothing new.
    patience: u32,
    cancel_attempts: u32,
    /// The version that is spoken, if not the endpoint's.
    version: Option<Version>,
    /// True once the other version was tried.
    tried_other: bool,
    /// The error that the trouble began with; what follows from it does not hide it.
    first_error: Option<WireError>,
    planned: VecDeque<Planned>,
    events: VecDeque<SourceEvent>,
    scratch: Vec<SourceEvent>,
}

impl TaskClient {
    /// A turn that this message starts.
    pub fn new(config: ClientConfig, message: SendMessage) -> Self {
        Self::resuming(config, message, TaskMemory::default())
    }

    /// A further turn of a task whose earlier turns were read here.
    pub fn resuming(mut config: ClientConfig, message: SendMessage, mut memory: TaskMemory) -> Self {
        memory.expect_task(&message.message);
        config.decode.follow_up = !message.message.task_id.is_empty();
        let mut client = Self::waiting(config, message, memory);
        let send = client.send_call(client.config.streaming);
        client.plan(Purpose::Send, send, Duration::ZERO);
        client
    }

    /// A client that has planned nothing yet.
    fn waiting(mut config: ClientConfig, message: SendMessage, memory: TaskMemory) -> Self {
        config.decode.sent_message_id = message.message.message_id.set().map(str::to_owned);
        let decoder = Decoder::resuming(config.decode.clone(), memory);
        Self {
            can_subscribe: config.streaming,
            overlap: Overlap::default(),
            is_unsure: false,
            patience: config.retry.polls,
            config,
            decoder,
            message,
            state: State::Streaming,
            cancel: Cancel::NotAsked,
            attempts: 0,
            streams: 0,
            polls: 0,
            cancel_attempts: 0,
            version: None,
            tried_other: false,
            first_error: None,
            planned: VecDeque::new(),
            events: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// The next event of the task.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    /// The next request to send. A new stream takes the place of the old one, which is to be dropped before
    /// [`Purpose::Subscribe`] is sent: what it still told, its end too, would be taken for what the new one tells.
    pub fn poll_request(&mut self) -> Option<Planned> {
        self.planned.pop_front()
    }

    /// How long to wait for more before [`handle_timeout`](Self::handle_timeout); `None` if nothing waits. Anything that
    /// arrives first starts the wait again.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (self.is_settled().is_none() && self.decoder.holds_text()).then_some(self.config.hold)
    }

    /// Nothing arrived for as long as [`poll_timeout`](Self::poll_timeout) says: a status text that may have been the
    /// answer is shown as a notice.
    pub fn handle_timeout(&mut self) {
        self.decode(Decoder::release_held);
    }

    /// How the task came to rest, if it has.
    pub fn is_settled(&self) -> Option<Settled> {
        self.decoder.settled()
    }

    /// The task, once it is known.
    pub fn task_ref(&self) -> Option<TaskRef> {
        self.decoder.task_ref()
    }

    /// What the next turn of the same task needs to know.
    pub fn into_memory(self) -> TaskMemory {
        self.decoder.into_memory()
    }

    /// One event of the stream.
    pub fn handle_frame(&mut self, frame: Frame<'_>) {
        if self.is_settled().is_some() {
            return;
        }
        let before = self.events.len();
        if self.overlap.is_empty() && self.decode(|decoder, out| decoder.handle_chunk(frame, out)) {
            return self.handle_progress(before);
        }
        // What cannot be read is counted by the decoder; if it was cut in the middle, the end follows.
        match self.decoder.parse(frame) {
            Some(FrameContent::Item(item)) => self.handle_streamed(item, frame.data),
            Some(content) => self.handle_content(content, frame.data),
            None => {}
        }
    }

    /// One event of the stream that is read already: gRPC sends no text.
    pub fn handle_item(&mut self, item: StreamItem<'_>) {
        if self.is_settled().is_none() {
            self.handle_streamed(item, &ByteString::new());
        }
    }

    fn handle_streamed(&mut self, item: StreamItem<'_>, frame: &ByteString) {
        let is_new_stream = std::mem::replace(&mut self.state, State::Streaming) == State::Subscribing;
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
                let is_unsure = std::mem::take(&mut self.is_unsure) || self.overlap.holds_any();
                self.overlap = Overlap::default();
                if is_unsure {
                    return self.look(Duration::ZERO);
                }
            }
            _ => {}
        }
        self.handle_content(FrameContent::Item(item), frame);
    }

    /// Of a repeated chunk only counts that it was the last.
    fn handle_repeated(&mut self, item: StreamItem<'_>) {
        if let StreamItem::Artifact(mut update) = item
            && update.last_chunk
        {
            update.artifact.parts.clear();
            self.handle_content(FrameContent::Item(StreamItem::Artifact(update)), &ByteString::new());
        }
    }

    /// An error that ended the stream, where the binding tells it apart from the stream: a gRPC status.
    pub fn handle_stream_error(&mut self, error: WireError) {
        if self.is_settled().is_none() {
            self.handle_error_frame(error);
        }
    }

    /// The stream ended or broke off; which of the two is not worth knowing.
    pub fn handle_stream_end(&mut self) {
        // The end of a stream whose place another request is about to take says nothing new.
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

    /// A response that is no stream: the answer to a blocking call, a look at the task, or an error.
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

    /// The same for an answer that is read already; nothing if it held neither a task nor a message.
    pub fn handle_answer(&mut self, purpose: Purpose, item: Option<StreamItem<'_>>) {
        if self.is_settled().is_some() {
            return;
        }
        match item {
            Some(item) => self.handle_task(purpose, item, &ByteString::new()),
            None => self.handle_empty_answer(purpose),
        }
    }

    fn handle_task(&mut self, purpose: Purpose, item: StreamItem<'_>, body: &ByteString) {
        self.handle_content(FrameContent::Item(item), body);
        if self.is_settled().is_none() {
            self.handle_active(purpose);
        }
    }

    fn handle_empty_answer(&mut self, purpose: Purpose) {
        let error = WireError::transport("the agent's answer holds neither a task nor a message");
        self.handle_response_error(purpose, error);
    }

    /// A request was answered with an error, or not at all ([`WireError::transport`]).
    pub fn handle_response_error(&mut self, purpose: Purpose, error: WireError) {
        if self.is_settled().is_some() {
            return;
        }
        match purpose {
            Purpose::Send => self.handle_refused_message(&error),
            Purpose::Subscribe => self.handle_refused_stream(error),
            Purpose::Get => self.handle_refused_look(error),
            Purpose::Cancel => self.handle_refused_cancel(&error),
        }
    }

    /// Somebody wants the task stopped.
    pub fn handle_cancel(&mut self) {
        if self.is_settled().is_some() || self.cancel != Cancel::NotAsked {
            return;
        }
        self.cancel = Cancel::Asked;
        let unsent = self.planned.iter().any(|planned| planned.purpose == Purpose::Send);
        if unsent {
            self.planned.clear();
            return self.decode(Decoder::cancelled);
        }
        self.plan_cancel();
    }

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

    /// An item was read; if it told anything new, what was lost is found again.
    fn handle_progress(&mut self, before: usize) {
        if self.events.len() > before {
            self.first_error = None;
            self.attempts = 0;
            self.polls = 0;
            if self.state == State::Streaming {
                self.patience = self.config.retry.polls;
            }
        }
        self.plan_cancel();
    }

    fn send_call(&self, streaming: bool) -> Call {
        let send = Box::new(self.message.clone());
        if streaming { Call::SendStreamingMessage(send) } else { Call::SendMessage(send) }
    }

    fn plan_cancel(&mut self) {
        if self.cancel == Cancel::Asked
            && self.is_settled().is_none()
            && let Some(task) = self.task_ref()
        {
            self.cancel = Cancel::Sent;
            let pause = self.config.retry.pause(self.cancel_attempts);
            self.plan(Purpose::Cancel, Call::CancelTask { id: task.task_id, metadata: None }, pause);
        }
    }

    /// There is never more than one request of a purpose under way that nobody has sent yet.
    fn plan(&mut self, purpose: Purpose, call: Call, after: Duration) {
        self.planned.retain(|planned| planned.purpose != purpose);
        self.planned.push_back(Planned { purpose, call, after, version: self.version });
    }

    fn decode<R>(&mut self, step: impl FnOnce(&mut Decoder, &mut Vec<SourceEvent>) -> R) -> R {
        let result = step(&mut self.decoder, &mut self.scratch);
        self.events.extend(self.scratch.drain(..));
        if self.is_settled().is_some() {
            self.planned.clear();
        }
        result
    }
}

#[cfg(test)]
mod tests;

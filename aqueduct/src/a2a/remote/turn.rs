//! One turn with an A2A agent: sends the requests that the adapter's client plans, and passes the responses to it.
//!
//! ```text
//! poll_next ──► decoded events ──────────────────────────────────► returned one by one
//!    ▲              └ none: planned requests are sent; then the first of
//!    │                cancellation │ a response │ input of the stream ──► TaskClient
//!    └───────────────────────────────────────────────────────────────────────┘
//! settled ──► the thread is cached ──► last events ──► end
//! ```
//!
//! The thread is cached before the last events are returned: a frontend that has read the end may send its next message
//! at once.

mod exchange;
mod lost;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_adapter_a2a::call::SendMessage;
use aqueduct_adapter_a2a::client::{Attachment, Purpose, SentMessage, is_made_id};
use aqueduct_adapter_a2a::frontend;
use aqueduct_adapter_a2a::input::{Recipient, answering, message};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::Raw;
use aqueduct_adapter_a2a::{ClientConfig, Settled, TaskClient};
use aqueduct_core::history::{CallAliases, History};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{AgentRequest, Cancelled, Checkpoint, SourceEvent};
use futures_core::Stream as FuturesStream;
use serde_json::Value;

use super::connection::{Answer, Stream};
use super::endpoint::ResolvedCard;
use super::{Shared, Thread, find};
use crate::a2a::RUN_TOKEN_METADATA;
use crate::remote::work_lost;
use lost::LostAnswer;

/// Frames of one read that are decoded before events are returned. More would gain little and delay a cancel.
const FRAMES_TOGETHER: usize = 128;

/// How a turn starts.
pub(super) enum Start {
    /// With a message, in the context of the thread.
    Send(Box<Thread>),
    /// By reading the task of a run that was taken over.
    Attach {
        at: Attachment,
        history: Box<History>,
        /// Set if the log already contains a checkpoint with the task.
        is_kept: bool,
    },
}

/// The events of one turn.
pub(super) struct Turn {
    events: VecDeque<SourceEvent>,
    /// The open turn, or `None` once its last events are in `events`.
    active: Option<Box<Active>>,
}

/// An open turn.
struct Active {
    shared: Arc<Shared>,
    card: Arc<ResolvedCard>,
    request: AgentRequest,
    client: TaskClient,
    context_id: String,
    is_unreachable: bool,
    /// The message of the turn.
    sent: SentMessage,
    /// How the response to the message was lost, unless its task is found.
    lost_answer: Option<LostAnswer>,
    dedup: Dedup,
    /// Set once the checkpoint was sent, or if the host stores none.
    is_checkpointed: bool,
    stream: Option<Box<Stream>>,
    /// Requests without an answer so far: at most one for each purpose, and mostly none.
    requests: Vec<BoxFuture<'static, (Purpose, Answer)>>,
    /// Created once, because each wait registers a listener. `None` after the cancellation.
    cancelled: Option<Cancelled>,
    /// The timer of a text that the client holds until the next input decides its role.
    hold: Option<BoxFuture<'static, ()>>,
}

/// The suppression of output that the log already contains.
enum Dedup {
    /// All output is new; tool calls keep the ids that the log contains.
    Done(CallAliases),
    /// The history of a takeover whose task was not read yet.
    Pending(Box<History>),
}

impl Turn {
    /// Starts a turn. The request is sent on the first poll.
    pub(super) fn new(
        shared: Arc<Shared>,
        card: Arc<ResolvedCard>,
        request: AgentRequest,
        start: Start,
    ) -> Self {
        let mut config = client_config(&shared.client, &card);
        config.decode.frontend_tools = frontend::offered_tools(&request.input);
        shared.note_given(&request.input, &card);
        let message_id = format!("{}-input", request.input.run_id);
        let sent = SentMessage { message_id: message_id.clone(), context_id: String::new() };
        let mut events = VecDeque::new();
        let (client, context_id, dedup, is_checkpointed) = match start {
            Start::Send(thread) => {
                let context_id = thread.context_id.clone();
                // A reply goes to a task that the log already names.
                if thread.waiting.is_none() && request.keeps_checkpoints && find::can_find(&card) {
                    let announced = SentMessage { context_id: context_id.clone(), ..sent.clone() };
                    events.push_back(SourceEvent::Checkpoint(Checkpoint(announced.to_value())));
                }
                let client = sending(config, &request, message_id, *thread);
                (client, context_id, Dedup::Done(CallAliases::default()), !request.keeps_checkpoints)
            }
            Start::Attach { at, history, is_kept } => {
                let is_checkpointed = is_kept || !request.keeps_checkpoints;
                let context_id = at.task.context_id.clone();
                // The message is not sent again; its id separates earlier turns of the task from this one.
                let to = Recipient::Task(at.task.clone());
                let sent = SendMessage::new(message(&request.input, message_id, &to));
                let client = TaskClient::attaching(config, sent, at);
                (client, context_id, Dedup::Pending(history), is_checkpointed)
            }
        };
        request.context.learn_conversation(&context_id);
        let cancelled = request.cancel.cancelled();
        let active = Active {
            shared,
            card,
            request,
            client,
            context_id,
            is_unreachable: false,
            sent,
            lost_answer: None,
            dedup,
            is_checkpointed,
            stream: None,
            requests: Vec::new(),
            cancelled: Some(cancelled),
            hold: None,
        };
        Self { events, active: Some(Box::new(active)) }
    }
}

/// Returns a client that sends the message of the run: as a reply, in the context of the thread, or in a new context.
fn sending(config: ClientConfig, request: &AgentRequest, message_id: String, thread: Thread) -> TaskClient {
    let to = match &thread.waiting {
        Some(waiting) => Recipient::Task(waiting.0.clone()),
        None if thread.context_id.is_empty() => Recipient::New,
        None => Recipient::Context(thread.context_id.clone()),
    };
    let interrupts = thread.waiting.as_ref().map(|waiting| waiting.1.interrupts()).unwrap_or_default();
    let mut message = answering(&request.input, message_id, &to, interrupts);
    let given = frontend::outgoing_metadata(&request.input);
    if !given.is_empty() {
        message.metadata = Some(Raw::from_value(&Value::Object(given.clone())));
    }
    let mut send = SendMessage::new(message);
    // Frameworks pass an agent the metadata of the request or of the message, and seldom both.
    let mut metadata = given;
    if let Some(token) = request.context.run_token() {
        // In the request, not in the message: agents store and show messages.
        metadata.insert(RUN_TOKEN_METADATA.to_owned(), token.into());
    }
    send.metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
    match thread.waiting {
        Some(waiting) => TaskClient::resuming(config, send, waiting.1),
        None => TaskClient::new(config, send),
    }
}

/// Returns the settings of the client for the endpoint.
fn client_config(base: &ClientConfig, card: &ResolvedCard) -> ClientConfig {
    let mut config = base.clone();
    config.decode.dialect = card.endpoint.binding.dialect(card.endpoint.version);
    config.streaming = card.streaming;
    let is_json_rpc = card.endpoint.binding == Binding::JsonRpc;
    config.version = is_json_rpc.then_some(card.endpoint.version);
    config
}

impl FuturesStream for Turn {
    type Item = SourceEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            // Filled by a checkpoint or a takeover, seldom after the start of the turn: four events have 600 bytes.
            this.events = VecDeque::new();
            let Some(active) = &mut this.active else { return Poll::Ready(None) };
            let mut is_over = active.client.is_settled().is_some();
            if !is_over {
                if let Some(event) = active.next_event(&mut this.events) {
                    return Poll::Ready(Some(event));
                }
                active.send_planned();
                is_over = !ready!(active.poll_input(cx));
            }
            if is_over && let Some(active) = this.active.take() {
                active.finish(&mut this.events);
            }
        }
    }
}

impl Active {
    /// Waits for input of the client: a cancel, a response, an event or the end of a hold, in this order. Returns
    /// `false` if nothing is left to wait for.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let received = self.poll_received(cx);
        if received.is_ready() {
            self.hold = None;
            return received;
        }
        if self.hold.is_none() {
            let hold = self.client.poll_timeout();
            self.hold = hold.map(|hold| Box::pin(tokio::time::sleep(hold)) as BoxFuture<'static, ()>);
        }
        let Some(hold) = &mut self.hold else { return Poll::Pending };
        ready!(hold.as_mut().poll(cx));
        self.hold = None;
        self.client.handle_timeout();
        Poll::Ready(true)
    }

    /// Polls cancellation, responses and the stream, without the timer of a held text.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Some(cancelled) = &mut self.cancelled
            && Pin::new(cancelled).poll(cx).is_ready()
        {
            self.cancelled = None;
            self.client.handle_cancel();
            return Poll::Ready(true);
        }
        if let Poll::Ready((purpose, answer)) = self.poll_requests(cx) {
            self.handle_answer(purpose, answer);
            return Poll::Ready(true);
        }
        match &mut self.stream {
            Some(stream) => {
                let Poll::Ready(incoming) = stream.poll_next(cx) else { return Poll::Pending };
                self.handle_incoming(incoming);
                self.handle_ready();
                Poll::Ready(true)
            }
            None if self.requests.is_empty() => {
                self.client.handle_stream_end();
                self.send_planned();
                Poll::Ready(!self.requests.is_empty())
            }
            None => Poll::Pending,
        }
    }

    /// Polls the requests without an answer. Returns the first answer.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<(Purpose, Answer)> {
        for place in 0..self.requests.len() {
            if let Some(Poll::Ready(answered)) =
                self.requests.get_mut(place).map(|request| request.as_mut().poll(cx))
            {
                drop(self.requests.remove(place));
                if self.requests.is_empty() {
                    // A turn sends few requests, and is silent for long.
                    self.requests = Vec::new();
                }
                return Poll::Ready(answered);
            }
        }
        Poll::Pending
    }

    /// Returns the next decoded event. Events that a checkpoint or a takeover reorders pass through `events`.
    fn next_event(&mut self, events: &mut VecDeque<SourceEvent>) -> Option<SourceEvent> {
        if let (true, Dedup::Done(aliases)) = (self.is_checkpointed, &self.dedup) {
            let mut event = self.client.poll_event()?;
            aliases.rewrite(&mut event);
            return Some(event);
        }
        self.take_events(events);
        events.pop_front()
    }

    /// Moves decoded events to `events`. The first events of a takeover are all content of the task so far.
    fn take_events(&mut self, events: &mut VecDeque<SourceEvent>) {
        if !self.is_checkpointed
            && let Some(at) = self.client.attachment()
        {
            self.is_checkpointed = true;
            events.push_back(SourceEvent::Checkpoint(Checkpoint(at.to_value())));
        }
        let Dedup::Pending(history) = &mut self.dedup else {
            let Dedup::Done(aliases) = &self.dedup else { return };
            while let Some(mut event) = self.client.poll_event() {
                aliases.rewrite(&mut event);
                events.push_back(event);
            }
            return;
        };
        if self.client.poll_timeout().is_some() {
            // A held text belongs to the content so far: if it were released later, it would not be deduplicated.
            self.client.handle_timeout();
        }
        let mut decoded: Vec<SourceEvent> = std::iter::from_fn(|| self.client.poll_event()).collect();
        match decoded.as_mut_slice() {
            [] => {}
            // The task could not be read.
            [SourceEvent::Failed(failure)] if !self.client.has_heard() => {
                *failure = work_lost(failure);
                events.extend(decoded);
            }
            _ => {
                let (rest, aliases) = std::mem::take(&mut **history).deduplicate(decoded, is_made_id);
                self.dedup = Dedup::Done(aliases);
                events.extend(rest);
            }
        }
    }

    /// Caches the thread, and moves the last events to `events`.
    fn finish(mut self: Box<Self>, events: &mut VecDeque<SourceEvent>) {
        if self.is_unreachable {
            // The agent may return at another address.
            self.shared.directory.forget();
        }
        self.take_events(events);
        let settled = self.client.is_settled();
        let task = self.client.task_ref();
        let context_id = task.as_ref().map(|task| task.context_id.clone());
        let context_id = context_id.filter(|id| !id.is_empty()).unwrap_or(self.context_id);
        if context_id.is_empty() {
            return;
        }
        let waiting = match (settled, task) {
            (Some(Settled::Interrupted | Settled::CalledFrontend), Some(task)) => {
                Some(Box::new((task, self.client.into_memory())))
            }
            _ => None,
        };
        let run = Some(self.request.input.run_id.detached());
        self.shared.keep_thread(&self.request, Thread { context_id, waiting, run });
    }
}

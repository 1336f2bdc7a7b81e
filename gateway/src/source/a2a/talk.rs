//! One turn with an A2A agent: sends what the adapter's client plans, tells it what came back.

use std::pin::Pin;

use aqueduct_adapter_a2a::call::SendMessage;
use aqueduct_adapter_a2a::client::{Attachment, Planned, Purpose, is_made_id};
use aqueduct_adapter_a2a::input::{Recipient, answering, message};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::{Frame, Raw, WireError};
use aqueduct_adapter_a2a::{ClientConfig, DecodeConfig, Settled, TaskClient};
use aqueduct_core::{ByteString, ContentBlock, SourceEvent, Update, wellknown};
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use http::Response;
use serde_json::json;

use super::super::said::{Renamed, Said};
use super::super::upstream::{REFUSED, UNREACHABLE, Upstream, is_json, refusal_words};
use super::super::{Ask, EVENTS_TOGETHER, EventSender};
use super::Thread;
use super::endpoint::Known;
use super::line::{Answer, Heard, Stream, send};
use super::not_found_again;
use crate::tee::clue::TOKEN_METADATA;

type Answered<'t> = Pin<Box<dyn Future<Output = (Purpose, Answer)> + Send + 't>>;

/// One turn.
pub(super) struct Talk<'t> {
    upstream: &'t Upstream,
    known: &'t Known,
    ask: &'t Ask,
    client: TaskClient,
    context_id: String,
    unreachable: bool,
    taking_up: TakingUp,
    /// True once the log knows where the task is found again.
    is_noted: bool,
}

/// How far a task that another gateway began is taken up.
enum TakingUp {
    /// This gateway began it, or it was told from the start.
    Not(Renamed),
    /// The task has not been seen yet.
    Looking(Box<Said>),
}

impl<'t> Talk<'t> {
    pub(super) fn new(upstream: &'t Upstream, known: &'t Known, ask: &'t Ask, thread: Thread) -> Self {
        let config = config(known);
        let to = match &thread.waiting {
            Some((task, _)) => Recipient::Task(task.clone()),
            None if thread.context_id.is_empty() => Recipient::New,
            None => Recipient::Context(thread.context_id.clone()),
        };
        let interrupts = thread.waiting.as_ref().map(|(_, memory)| memory.interrupts()).unwrap_or_default();
        let mut message = answering(&ask.input, message_id(ask), &to, interrupts);
        if let Some(token) = ask.trail.token() {
            message.metadata = Some(Raw::from_value(&json!({ TOKEN_METADATA: token })));
        }
        let send = SendMessage::new(message);
        let context_id = thread.context_id.clone();
        ask.trail.learn_context(&context_id);
        let client = match thread.waiting {
            Some((_, memory)) => TaskClient::resuming(config, send, memory),
            None => TaskClient::new(config, send),
        };
        let taking_up = TakingUp::Not(Renamed::default());
        Self {
            upstream,
            known,
            ask,
            client,
            context_id,
            unreachable: false,
            taking_up,
            is_noted: !ask.is_logged,
        }
    }

    /// A turn that another gateway began.
    pub(super) fn going_on(
        upstream: &'t Upstream,
        known: &'t Known,
        ask: &'t Ask,
        at: Attachment,
        said: Said,
    ) -> Self {
        let context_id = at.task.context_id.clone();
        ask.trail.learn_context(&context_id);
        // Nothing of it is sent again.
        let sent = SendMessage::new(message(&ask.input, message_id(ask), &Recipient::Task(at.task.clone())));
        let client = TaskClient::attaching(config(known), sent, at);
        let taking_up = TakingUp::Looking(Box::new(said));
        Self { upstream, known, ask, client, context_id, unreachable: false, taking_up, is_noted: true }
    }

    /// True if the agent was not to be had at its address.
    pub(super) fn was_unreachable(&self) -> bool {
        self.unreachable
    }

    /// What the end of the turn has left to say.
    pub(super) fn last_words(&mut self) -> Vec<SourceEvent> {
        self.take_events()
    }

    /// What the agent said since the last time. The first that is heard of a task that was begun elsewhere is the whole
    /// of it.
    fn take_events(&mut self) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        if !self.is_noted
            && let Some(at) = self.client.attachment()
        {
            self.is_noted = true;
            let note = ContentBlock::custom(ByteString::from_static(wellknown::UPSTREAM), at.to_value());
            events.push(Update::new(note).into());
        }
        events.extend(std::iter::from_fn(|| self.client.poll_event()));
        match &mut self.taking_up {
            TakingUp::Not(renamed) => events.iter_mut().for_each(|event| renamed.lead_back(event)),
            TakingUp::Looking(_) if events.is_empty() => {}
            TakingUp::Looking(said) => match events.as_mut_slice() {
                // It was not to be had.
                [SourceEvent::Failed(failure)] if !self.client.has_heard() => {
                    *failure = not_found_again(failure);
                }
                _ => {
                    let (rest, renamed) = std::mem::take(&mut **said).leave_out(events, is_made_id);
                    self.taking_up = TakingUp::Not(renamed);
                    return rest;
                }
            },
        }
        events
    }

    /// What the next run of the thread needs to know.
    pub(super) fn into_thread(self) -> Option<Thread> {
        let settled = self.client.is_settled();
        let task = self.client.task_ref();
        let context_id = task.as_ref().map(|task| task.context_id.clone());
        let context_id = context_id.filter(|id| !id.is_empty()).unwrap_or(self.context_id);
        let waiting = match (settled, task) {
            (Some(Settled::Interrupted), Some(task)) => Some((task, self.client.into_memory())),
            _ => None,
        };
        let run = Some(self.ask.input.run_id.detached());
        (!context_id.is_empty()).then_some(Thread { context_id, waiting, run })
    }

    /// Talks until the task has come to rest, or nobody listens any more. The last words are still to be said.
    pub(super) async fn run(&mut self, out: &EventSender) {
        let mut stream: Option<Box<Stream>> = None;
        let mut requests: FuturesUnordered<Answered<'t>> = FuturesUnordered::new();
        let stopped = self.ask.stop.triggered().fuse();
        let mut stopped = std::pin::pin!(stopped);
        let mut is_stopped = false;
        loop {
            // What is left to say then is said once the thread knows of it: a frontend that has read the end may send
            // its next message at once.
            if self.client.is_settled().is_some() || !out.send_all(self.take_events()).await {
                return;
            }
            self.send_planned(&requests, &mut stream);
            let hold = self.client.poll_timeout();
            tokio::select! {
                biased;
                () = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    self.client.handle_cancel();
                }
                Some((purpose, answer)) = requests.next() => self.handle_answer(purpose, answer, &mut stream),
                heard = hear(&mut stream), if stream.is_some() => {
                    self.handle_heard(heard, &mut stream);
                    self.hear_more(&requests, &mut stream);
                }
                () = tokio::time::sleep(hold.unwrap_or_default()), if hold.is_some() => self.client.handle_timeout(),
                else => return self.client.handle_stream_end(),
            }
        }
    }

    fn send_planned(&mut self, requests: &FuturesUnordered<Answered<'t>>, stream: &mut Option<Box<Stream>>) {
        while let Some(planned) = self.client.poll_request() {
            if planned.purpose == Purpose::Subscribe {
                // Lost, although it may not have ended yet: its end would be taken for that of the new one.
                *stream = None;
            }
            requests.push(self.send(planned));
        }
    }

    /// What was read together is told together. Not while a task that was begun elsewhere is looked for: what is heard of
    /// it first is the whole of it, and what follows is not part of that.
    fn hear_more(&mut self, requests: &FuturesUnordered<Answered<'t>>, stream: &mut Option<Box<Stream>>) {
        if matches!(self.taking_up, TakingUp::Looking(_)) {
            return;
        }
        for _ in 1..EVENTS_TOGETHER {
            self.send_planned(requests, stream);
            if self.client.is_settled().is_some() {
                return;
            }
            let Some(heard) = stream.as_mut().and_then(|stream| stream.ready()) else { return };
            self.handle_heard(heard, stream);
        }
    }

    fn send(&self, planned: Planned) -> Answered<'t> {
        let (upstream, known, ask) = (self.upstream, self.known, self.ask);
        Box::pin(async move {
            if !planned.after.is_zero() {
                tokio::time::sleep(planned.after).await;
            }
            (planned.purpose, send(upstream, known, ask, &planned).await)
        })
    }

    fn handle_answer(&mut self, purpose: Purpose, answer: Answer, stream: &mut Option<Box<Stream>>) {
        match answer {
            Answer::Stream(opened) => *stream = Some(opened),
            Answer::Whole(response) => self.handle_response(purpose, &response),
            Answer::Item(item) => self.client.handle_answer(purpose, item.map(|item| *item)),
            Answer::Refused(error) => self.client.handle_response_error(purpose, error),
            Answer::Failed { what, unreachable } => {
                self.unreachable |= unreachable;
                let error = if unreachable {
                    WireError::transport(self.known.explain(&what)).failing_as(UNREACHABLE)
                } else {
                    WireError::transport(what)
                };
                self.client.handle_response_error(purpose, error);
            }
        }
    }

    /// The agent may hand its conversation on to the agents that it calls.
    fn learn_context(&mut self) {
        if self.context_id.is_empty()
            && let Some(task) = self.client.task_ref()
        {
            self.ask.trail.learn_context(&task.context_id);
            self.context_id = task.context_id;
        }
    }

    /// A page, a redirect or the like is told with its status; JSON is the adapter's to read.
    fn handle_response(&mut self, purpose: Purpose, response: &Response<Bytes>) {
        let status = response.status().as_u16();
        match ByteString::try_from(response.body().clone()) {
            Ok(body) if is_json(response) => self.client.handle_response(purpose, status, &body),
            _ => {
                let is_error = !response.status().is_success();
                let error = WireError {
                    http_status: Some(status).filter(|_| is_error),
                    message: refusal_words(response),
                    failure: (!matches!(status, 401 | 403)).then_some(REFUSED),
                    ..WireError::default()
                };
                self.client.handle_response_error(purpose, error);
            }
        }
    }

    /// What the stream says; once it is over it is dropped.
    fn handle_heard(&mut self, heard: Heard, stream: &mut Option<Box<Stream>>) {
        // A status instead of the first event is the answer to the request.
        let answers = stream.as_ref().filter(|stream| stream.is_fresh).map(|stream| stream.purpose);
        match heard {
            Heard::Frame(event) => {
                self.client.handle_frame(Frame { event: event.event.as_deref(), data: &event.data });
                self.learn_context();
            }
            Heard::Item(item) => {
                self.client.handle_item(*item);
                self.learn_context();
            }
            Heard::Nothing => {}
            ended => {
                *stream = None;
                return self.handle_ended(ended, answers);
            }
        }
        if let Some(stream) = stream {
            stream.is_fresh = false;
        }
    }

    fn handle_ended(&mut self, ended: Heard, answers: Option<Purpose>) {
        match (ended, answers) {
            (Heard::Status(error), Some(purpose)) => self.client.handle_response_error(purpose, error),
            (Heard::Status(error), None) => self.client.handle_stream_error(error),
            (Heard::Cut(what), _) if self.client.task_ref().is_none() => {
                self.client.handle_response_error(Purpose::Send, WireError::transport(what));
            }
            _ => self.client.handle_stream_end(),
        }
    }
}

fn config(known: &Known) -> ClientConfig {
    let dialect = known.endpoint.binding.dialect(known.endpoint.version);
    let decode = DecodeConfig { dialect, ..DecodeConfig::root() };
    let is_json_rpc = known.endpoint.binding == Binding::JsonRpc;
    let version = is_json_rpc.then_some(known.endpoint.version);
    ClientConfig { decode, streaming: known.streaming, version, ..ClientConfig::default() }
}

/// The same for whoever drives the run: the agent's history tells what came before it from what came after.
fn message_id(ask: &Ask) -> String {
    format!("{}-input", ask.input.run_id)
}

async fn hear(stream: &mut Option<Box<Stream>>) -> Heard {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

//! One turn with an A2A agent: sends what the adapter's client plans, tells it what came back.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_adapter_a2a::call::{Call, HttpRequest, SendMessage};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::input::{Recipient, message};
use aqueduct_adapter_a2a::wire::{Frame, Raw, WireError};
use aqueduct_adapter_a2a::{ClientConfig, DecodeConfig, Settled, TaskClient};
use aqueduct_core::ByteString;
use aqueduct_transport_http::{ClientError, SseStream};
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use http::Response;
use serde_json::json;

use super::super::upstream::{Forwarded, Upstream, is_json, refusal_words};
use super::super::{Ask, EventSender};
use super::Thread;
use super::endpoint::Known;
use crate::tee::relate::TOKEN_METADATA;

/// JSON-RPC ids, unique in the process: some servers take a repeated one for a repetition.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

type Answered<'t> = Pin<Box<dyn Future<Output = (Purpose, Answer)> + Send + 't>>;

/// What came of a request.
pub(super) enum Answer {
    Stream(Box<SseStream>),
    Whole(Response<Bytes>),
    Error(ClientError),
    /// It could not even be written.
    Unsent(String),
}

/// One turn.
pub(super) struct Talk<'t> {
    upstream: &'t Upstream,
    known: &'t Known,
    ask: &'t Ask,
    client: TaskClient,
    context_id: String,
    unreachable: bool,
}

impl<'t> Talk<'t> {
    pub(super) fn new(upstream: &'t Upstream, known: &'t Known, ask: &'t Ask, thread: Thread) -> Self {
        let dialect = known.endpoint.binding.dialect(known.endpoint.version);
        let decode = DecodeConfig { dialect, ..DecodeConfig::root() };
        let config = ClientConfig { decode, streaming: known.streaming, ..ClientConfig::default() };
        let to = match &thread.waiting {
            Some((task, _)) => Recipient::Task(task.clone()),
            None if thread.context_id.is_empty() => Recipient::New,
            None => Recipient::Context(thread.context_id.clone()),
        };
        let mut message = message(&ask.input, format!("{}-input", ask.input.run_id), &to);
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
        Self { upstream, known, ask, client, context_id, unreachable: false }
    }

    /// True if the agent was not to be had at its address.
    pub(super) fn was_unreachable(&self) -> bool {
        self.unreachable
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
        (!context_id.is_empty()).then_some(Thread { context_id, waiting })
    }

    /// Talks until the task has come to rest, or nobody listens any more.
    pub(super) async fn run(&mut self, out: &EventSender) {
        let mut stream: Option<Box<SseStream>> = None;
        let mut requests: FuturesUnordered<Answered<'t>> = FuturesUnordered::new();
        let stopped = self.ask.stop.triggered().fuse();
        let mut stopped = std::pin::pin!(stopped);
        let mut is_stopped = false;
        loop {
            while let Some(event) = self.client.poll_event() {
                if !out.send(event).await {
                    return;
                }
            }
            if self.client.is_settled().is_some() {
                return;
            }
            while let Some(planned) = self.client.poll_request() {
                requests.push(self.send(planned));
            }
            tokio::select! {
                biased;
                () = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    self.client.handle_cancel();
                }
                Some((purpose, answer)) = requests.next() => self.handle_answer(purpose, answer, &mut stream),
                event = next_event(&mut stream), if stream.is_some() => {
                    if self.handle_event(event) {
                        stream = None;
                    }
                }
                else => return self.client.handle_stream_end(),
            }
        }
    }

    fn send(&self, planned: Planned) -> Answered<'t> {
        let Planned { purpose, call, after } = planned;
        let (upstream, known, ask) = (self.upstream, self.known, self.ask);
        Box::pin(async move {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            (purpose, request(upstream, &known.endpoint, &ask.forwarded, &call).await)
        })
    }

    fn handle_answer(&mut self, purpose: Purpose, answer: Answer, stream: &mut Option<Box<SseStream>>) {
        match answer {
            Answer::Stream(opened) => *stream = Some(opened),
            Answer::Whole(response) => self.handle_response(purpose, &response),
            Answer::Error(error) => {
                self.unreachable |= matches!(error, ClientError::Connect { .. });
                self.client.handle_response_error(purpose, WireError::transport(error.to_string()));
            }
            Answer::Unsent(what) => {
                self.client.handle_response_error(purpose, WireError::transport(what));
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
                    ..WireError::default()
                };
                self.client.handle_response_error(purpose, error);
            }
        }
    }

    /// True if the stream is over.
    fn handle_event(
        &mut self,
        event: Option<Result<aqueduct_transport_http::sse::Event, ClientError>>,
    ) -> bool {
        match event {
            Some(Ok(event)) => {
                self.client.handle_frame(Frame { event: event.event.as_deref(), data: &event.data });
                self.learn_context();
                false
            }
            Some(Err(error)) if self.client.task_ref().is_none() => {
                self.client.handle_response_error(Purpose::Send, WireError::transport(error.to_string()));
                true
            }
            Some(Err(_)) | None => {
                self.client.handle_stream_end();
                true
            }
        }
    }
}

async fn next_event(
    stream: &mut Option<Box<SseStream>>,
) -> Option<Result<aqueduct_transport_http::sse::Event, ClientError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn request(
    upstream: &Upstream,
    endpoint: &Endpoint,
    forwarded: &Forwarded,
    call: &Call,
) -> Answer {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let HttpRequest { method, url, headers, body, streaming } = match endpoint.http_request(call, id) {
        Ok(request) => request,
        Err(error) => return Answer::Unsent(error.to_string()),
    };
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let request = match upstream.request(method, &url, &headers, forwarded, body.into()) {
        Ok(request) => request,
        Err(what) => return Answer::Unsent(what),
    };
    if streaming {
        return match upstream.client.open_stream(request).await {
            Ok(stream) => Answer::Stream(Box::new(stream)),
            Err(ClientError::NotAStream(response)) => Answer::Whole(*response),
            Err(error) => Answer::Error(error),
        };
    }
    match upstream.client.request(request).await {
        Ok(response) => Answer::Whole(response),
        Err(error) => Answer::Error(error),
    }
}

//! Drives a [`TaskClient`] over HTTP: sends what it plans, and tells it what comes back.

use std::sync::Arc;

use aqueduct_adapter_a2a::call::{Call, HttpRequest};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::wire::{Frame, WireError};
use aqueduct_adapter_a2a::{Settled, TaskClient};
use aqueduct_core::{ByteString, SourceEvent, ThreadId};
use aqueduct_transport_http::{Client, ClientError, SseStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{Request, Response};

use crate::threads::Threads;

/// One task, and the stream it is read from.
pub(crate) struct TaskRun {
    task: TaskClient,
    http: Client,
    endpoint: Endpoint,
    frames: Option<SseStream>,
    requests: u64,
    thread: ThreadId,
    threads: Arc<Threads>,
}

impl TaskRun {
    pub(crate) fn new(
        task: TaskClient,
        http: Client,
        endpoint: Endpoint,
        thread: ThreadId,
        threads: &Arc<Threads>,
    ) -> Self {
        Self { task, http, endpoint, frames: None, requests: 0, thread, threads: Arc::clone(threads) }
    }

    /// What the task says, to its end. Dropping it stops the task.
    pub(crate) fn into_events(self) -> impl Stream<Item = SourceEvent> + Send {
        stream::unfold(self, async |mut run| Some((run.next().await?, run)))
    }

    async fn next(&mut self) -> Option<SourceEvent> {
        loop {
            // Before the last event leaves: the reader may answer a question at once.
            self.remember();
            if let Some(event) = self.task.poll_event() {
                return Some(event);
            }
            if self.task.is_settled().is_some() {
                return None;
            }
            match self.task.poll_request() {
                Some(planned) => self.send(planned).await,
                None => self.read().await?,
            }
        }
    }

    fn remember(&self) {
        if let (Some(settled), Some(task)) = (self.task.is_settled(), self.task.task_ref()) {
            self.threads.remember(&self.thread, task, settled == Settled::Interrupted);
        }
    }

    /// One event of the stream. None if there is no stream: then the task cannot go on.
    async fn read(&mut self) -> Option<()> {
        if let Some(Ok(event)) = self.frames.as_mut()?.next().await {
            self.task.handle_frame(Frame { event: event.event.as_deref(), data: &event.data });
        } else {
            // Whether the stream ended or broke off, the task is where it was.
            self.frames = None;
            self.task.handle_stream_end();
        }
        Some(())
    }

    async fn send(&mut self, Planned { purpose, call, after, .. }: Planned) {
        tokio::time::sleep(after).await;
        let request = match self.request(&call) {
            Ok(request) => request,
            Err(error) => return self.task.handle_response_error(purpose, WireError::transport(error)),
        };
        let answer = if call.is_streaming() {
            match self.http.open_stream(request).await {
                Ok(frames) => return self.frames = Some(frames),
                // An answer all the same: an error, or an agent that does not stream.
                Err(ClientError::NotAStream(response)) => Ok(*response),
                Err(error) => Err(error),
            }
        } else {
            self.http.request(request).await
        };
        self.handle_answer(purpose, answer);
    }

    fn handle_answer(&mut self, purpose: Purpose, answer: Result<Response<Bytes>, ClientError>) {
        let answer = answer.map_err(|error| error.to_string()).and_then(|response| {
            let body = ByteString::try_from(response.body().clone());
            Ok((response.status().as_u16(), body.map_err(|_| "the agent's answer is not UTF-8".to_owned())?))
        });
        match answer {
            Ok((status, body)) => self.task.handle_response(purpose, status, &body),
            Err(error) => self.task.handle_response_error(purpose, WireError::transport(error)),
        }
    }

    fn request(&mut self, call: &Call) -> Result<Request<Bytes>, String> {
        self.requests += 1;
        let request = self.endpoint.http_request(call, self.requests).map_err(|error| error.to_string())?;
        http_request(request).map_err(|error| error.to_string())
    }
}

/// The reader has gone: nobody will hear what the agent still has to say, so it is asked to stop.
impl Drop for TaskRun {
    fn drop(&mut self) {
        self.task.handle_cancel();
        while let Some(planned) = self.task.poll_request() {
            if planned.purpose == Purpose::Cancel
                && let Ok(request) = self.request(&planned.call)
            {
                let http = self.http.clone();
                tokio::spawn(async move { http.request(request).await });
            }
        }
    }
}

/// A request of the adapter, for the transport.
pub(crate) fn http_request(request: HttpRequest) -> Result<Request<Bytes>, http::Error> {
    let HttpRequest { method, url, headers, body, .. } = request;
    let builder =
        headers.into_iter().fold(Request::builder(), |builder, (name, value)| builder.header(name, value));
    builder.method(method).uri(url).body(Bytes::from(body))
}

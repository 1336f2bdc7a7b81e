//! The requests of a turn and their answers: sends what the task client plans, and hands it what arrives.
//!
//! The module decides nothing about the task: [`TaskClient`] does.
//!
//! | arrives | becomes |
//! |---|---|
//! | a message of the stream | a frame or an item of the task client |
//! | the end of the stream, an idle timeout, a lost connection | the end of the stream: the client plans to subscribe or to read the task |
//! | a response | the answer to the request with its purpose |

use std::sync::Arc;

use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::wire::{Frame, WireError};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{ByteString, RunFailure};
use bytes::Bytes;
use http::Response;

use super::super::connection::{Answer, Incoming, send};
use super::lost::LostAnswer;
use super::{Active, Dedup, FRAMES_TOGETHER};
use crate::remote::{REFUSED, UNREACHABLE, describe_refusal, is_json};

impl Active {
    /// Sends all requests that the client has planned.
    pub(super) fn send_planned(&mut self) {
        while let Some(planned) = self.client.poll_request() {
            if planned.purpose == Purpose::Subscribe {
                // The old stream is lost, although its end may be unread: that end would be attributed to the new
                // stream.
                self.stream = None;
            }
            let request = self.send(planned);
            self.requests.push(request);
        }
    }

    /// Sends one request after its pause.
    pub(super) fn send(&self, planned: Planned) -> BoxFuture<'static, (Purpose, Answer)> {
        let (shared, card) = (Arc::clone(&self.shared), Arc::clone(&self.card));
        let context = Arc::clone(&self.request.context);
        Box::pin(async move {
            if !planned.after.is_zero() {
                tokio::time::sleep(planned.after).await;
            }
            (planned.purpose, send(&shared.connection, &card, &*context, &planned).await)
        })
    }

    /// Passes on the events that were read together. Not while the task of a takeover is awaited: the first event
    /// contains all of its content so far, which is deduplicated separately.
    pub(super) fn handle_ready(&mut self) {
        if matches!(self.dedup, Dedup::Pending(_)) {
            return;
        }
        for _ in 1..FRAMES_TOGETHER {
            self.send_planned();
            if self.client.is_settled().is_some() {
                return;
            }
            let Some(incoming) = self.stream.as_mut().and_then(|stream| stream.ready()) else { return };
            self.handle_incoming(incoming);
        }
    }

    /// Passes a response to the client. A failure before the agent named a task starts a search for the task.
    pub(super) fn handle_answer(&mut self, purpose: Purpose, answer: Answer) {
        match answer {
            Answer::Stream(opened) => self.stream = Some(opened),
            Answer::Whole(response) => self.handle_response(purpose, &response),
            #[cfg(feature = "grpc")]
            Answer::Item(item) => self.client.handle_answer(purpose, item.map(|item| *item)),
            #[cfg(feature = "grpc")]
            Answer::Refused(error) => self.client.handle_response_error(purpose, error),
            Answer::Found(found) => self.handle_found(found),
            Answer::Failed { reason, code } => {
                let is_unreachable = code == UNREACHABLE;
                self.is_unreachable |= is_unreachable;
                let reason = if is_unreachable { self.card.explain(&reason) } else { reason };
                let error = WireError::transport(reason).failing_as(code);
                // An agent that was not reached did not receive the message.
                if purpose == Purpose::Send && code == RunFailure::UPSTREAM_ENDED && self.can_search() {
                    return self.search(LostAnswer::Cut(error));
                }
                self.client.handle_response_error(purpose, error);
            }
        }
    }

    /// Reports the context id to the host: the agent may forward it to the agents that it calls.
    pub(super) fn learn_context(&mut self) {
        if self.context_id.is_empty()
            && let Some(task) = self.client.task_ref()
        {
            self.request.context.learn_conversation(&task.context_id);
            self.context_id = task.context_id;
        }
    }

    /// Passes JSON to the adapter; a page, a redirect or the like is an error with its status.
    pub(super) fn handle_response(&mut self, purpose: Purpose, response: &Response<Bytes>) {
        let status = response.status().as_u16();
        match ByteString::try_from(response.body().clone()) {
            Ok(body) if is_json(response) => self.client.handle_response(purpose, status, &body),
            _ => {
                let is_error = !response.status().is_success();
                let error = WireError {
                    http_status: Some(status).filter(|_| is_error),
                    message: describe_refusal(response),
                    failure: (!matches!(status, 401 | 403)).then_some(REFUSED),
                    ..WireError::default()
                };
                self.client.handle_response_error(purpose, error);
            }
        }
    }

    /// Passes input of the stream to the client. A stream that has ended is dropped.
    pub(super) fn handle_incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Frame(event) => {
                self.client.handle_frame(Frame { event: event.event.as_deref(), data: &event.data });
                self.learn_context();
            }
            Incoming::Item(item) => {
                self.client.handle_item(*item);
                self.learn_context();
            }
            Incoming::Nothing => {}
            ended => {
                // A status instead of the first event is the response to the request.
                let opened_by = self.stream.take().filter(|stream| stream.is_fresh);
                return self.handle_ended(ended, opened_by.map(|stream| stream.purpose));
            }
        }
        if let Some(stream) = &mut self.stream {
            stream.is_fresh = false;
        }
    }

    /// Handles the end of the stream that `opened_by` requested, if it had no event yet.
    pub(super) fn handle_ended(&mut self, ended: Incoming, opened_by: Option<Purpose>) {
        if let Some(lost) = LostAnswer::of(&ended)
            && self.can_search()
        {
            return self.search(lost);
        }
        match (ended, opened_by) {
            (Incoming::Status(error), Some(purpose)) => self.client.handle_response_error(purpose, error),
            (Incoming::Status(error), None) => self.client.handle_stream_error(error),
            (Incoming::Cut(reason, code), _) if self.client.task_ref().is_none() => {
                let error = WireError::transport(reason).failing_as(code);
                self.client.handle_response_error(Purpose::Send, error);
            }
            _ => self.client.handle_stream_end(),
        }
    }
}

//! [`Publisher`]: a run that the client publishes.
//!
//! It keeps unacknowledged payloads, at most a window of them, so that they can be sent again after a lost connection.

use std::collections::VecDeque;
use std::pin::Pin;

use aqueduct_core::service::PublishRequest;
use aqueduct_core::{InterruptReply, RunId};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::{Stream, poll_fn};
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::config::ClientConfig;
use crate::convert::{JsonDepth, reply_from_proto, text, to_bytes};
use crate::error::Error;
use crate::proto;
use crate::proto::agent_stream_client::AgentStreamClient;
use crate::status::to_error;
use proto::publish_request::Request as Kind;
use proto::publish_response::Response;

/// Requests that wait for the connection. The window bounds a publisher; this queue only decouples two tasks.
const QUEUE: usize = 4;

/// Replies that wait to be read. A run never has more open interrupts.
const MOST_REPLIES: usize = 1024;

/// The requests to the service.
pub(super) type Requests = Pin<Box<dyn Stream<Item = proto::PublishRequest> + Send>>;

/// Publishes a run. It numbers the payloads, from the number at which the service continues.
#[derive(Debug)]
pub struct Publisher {
    requests: mpsc::Sender<proto::PublishRequest>,
    responses: Streaming<proto::PublishResponse>,
    run: RunId,
    window: usize,
    next: u64,
    acknowledged: u64,
    unacknowledged: VecDeque<(u64, Bytes)>,
    replies: VecDeque<InterruptReply>,
    is_finished: bool,
}

impl Publisher {
    /// Opens the call. `around` creates a request from the stream, with the caller's metadata.
    pub(super) async fn open(
        mut client: AgentStreamClient<Channel>,
        around: impl FnOnce(Requests) -> Request<Requests>,
        config: &ClientConfig,
        open: PublishRequest,
    ) -> Result<Self, Error> {
        let (requests, mut receiver) = mpsc::channel(QUEUE);
        let open = proto::PublishOpen {
            agent: open.agent.into(),
            thread_id: open.thread_id.as_ref().map(to_bytes),
            run_id: open.run_id.as_ref().map(|id| to_bytes(id.as_bytes())),
            format: open.format.into(),
        };
        let opening = requests.send(request_of(Kind::Open(open)));
        opening.await.map_err(|_| Error::Protocol("the request queue is gone"))?;
        let responses = client
            .publish(around(Box::pin(poll_fn(move |cx| receiver.poll_recv(cx)))))
            .await
            .map_err(to_error)?;
        let mut responses = responses.into_inner();
        let first = responses.message().await.map_err(to_error)?;
        let Some(Some(Response::Opened(opened))) = first.map(|first| first.response) else {
            return Err(Error::Protocol("the first answer to a publisher is not `opened`"));
        };
        Ok(Self {
            requests,
            responses,
            run: RunId::new(text("opened.run_id", opened.run_id)?).detached(),
            window: opened.window.clamp(1, config.limits.window_payloads.max(1)) as usize,
            next: opened.acknowledged.saturating_add(1),
            acknowledged: opened.acknowledged,
            unacknowledged: VecDeque::new(),
            replies: VecDeque::new(),
            is_finished: false,
        })
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Returns the highest payload number that the service is known to have stored.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the number of payloads that may be unacknowledged.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Sends a payload and returns its number. Waits while the window is full.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the call is cut: see [`resume`](Self::resume).
    pub async fn send(&mut self, payload: impl Into<Bytes>) -> Result<u64, Error> {
        let payload = payload.into();
        while let Some(answered) = self.responses.message().now_or_never() {
            self.take(answered.map_err(to_error)?)?;
        }
        while self.unacknowledged.len() >= self.window {
            self.receive().await?;
        }
        let number = self.next;
        self.next += 1;
        self.unacknowledged.push_back((number, payload.clone()));
        self.submit(Kind::Payload(proto::PublishPayload { number, data: payload })).await?;
        Ok(number)
    }

    /// Waits until all sent payloads are stored.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn flush(&mut self) -> Result<u64, Error> {
        while !self.unacknowledged.is_empty() {
            self.receive().await?;
        }
        Ok(self.acknowledged)
    }

    /// Waits for the next reply to an interrupt.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn reply(&mut self) -> Result<InterruptReply, Error> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Ok(reply);
            }
            self.receive().await?;
        }
    }

    /// Finishes the run and waits until the service has stored all payloads. Returns the highest number.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn finish(&mut self) -> Result<u64, Error> {
        self.submit(Kind::Finish(proto::PublishFinish {})).await?;
        while !self.is_finished {
            self.receive().await?;
        }
        Ok(self.acknowledged)
    }

    /// Continues a publisher whose call was cut: sends the payloads that the service does not have yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn resume(&mut self, cut: Self) -> Result<(), Error> {
        for (number, payload) in cut.unacknowledged {
            if number < self.next {
                continue;
            }
            if number > self.next {
                return Err(Error::Protocol("the service lost payloads that it had acknowledged"));
            }
            self.send(payload).await?;
        }
        Ok(())
    }

    /// Queues a request and reads answers meanwhile: a service that waits for its answers to be read does not read requests.
    async fn submit(&mut self, kind: Kind) -> Result<(), Error> {
        loop {
            let answered = tokio::select! {
                biased;
                room = self.requests.reserve() => match room {
                    Ok(room) => {
                        room.send(request_of(kind));
                        return Ok(());
                    }
                    // The call is over; its status holds the reason.
                    Err(_) => None,
                },
                answered = self.responses.message() => Some(answered),
            };
            match answered {
                Some(answered) => self.take(answered.map_err(to_error)?)?,
                None => self.receive().await?,
            }
        }
    }

    /// Waits for the next response and applies it.
    async fn receive(&mut self) -> Result<(), Error> {
        let answered = self.responses.message().await.map_err(to_error)?;
        self.take(answered)
    }

    /// Handles an answer: acknowledgement, reply or end.
    fn take(&mut self, answer: Option<proto::PublishResponse>) -> Result<(), Error> {
        let Some(answer) = answer else {
            let message = "the service ended the stream before all was finished".to_owned();
            return Err(Error::Cut { code: tonic::Code::Ok, message });
        };
        match answer.response {
            Some(Response::Acknowledged(safe)) => self.forget(safe.number),
            Some(Response::Finished(safe)) => {
                self.forget(safe.acknowledged);
                self.is_finished = true;
            }
            Some(Response::Reply(reply)) => {
                if self.replies.len() >= MOST_REPLIES {
                    return Err(Error::Protocol("more replies wait than interrupts can be open"));
                }
                self.replies.push_back(reply_from_proto(reply, JsonDepth::MOST)?);
            }
            Some(Response::Opened(_)) => return Err(Error::Protocol("`opened` came twice")),
            // A message of a newer service.
            None => {}
        }
        Ok(())
    }

    /// Drops the payloads up to an acknowledged number.
    fn forget(&mut self, acknowledged: u64) {
        self.acknowledged = self.acknowledged.max(acknowledged);
        let safe = self.unacknowledged.partition_point(|(number, _)| *number <= acknowledged);
        self.unacknowledged.drain(..safe);
    }
}

/// Wraps one message of the request stream.
fn request_of(kind: Kind) -> proto::PublishRequest {
    proto::PublishRequest { request: Some(kind) }
}

//! The multiplexed mode: the protocol `aqueduct.v1` on one connection.
//!
//! Requests become futures that are polled in the connection's own task: no task is spawned, so no request outlives the
//! connection. Their replies wait in a bounded queue, which is written before events.
//!
//! Invariants: a connection watches a run at most once; a reference identifies at most one publisher; the reply that opens a
//! subscription precedes its events, and the reply that ends it follows them.
//!
//! ```text
//! message ──► Request ── limits, quota ──► future in `work` ──► Outcome ──► reply, subscription or publisher
//!                          └ refused ──► reply                        (outcomes.rs)
//! writing:  replies first, then events of the subscriptions, up to `batch_bytes`
//! ```
//!
//! An invalid request is answered with an error, and the connection stays open. The connection is closed after a message that
//! cannot be answered because it is not of this protocol, without a token in time where one is required, and if the client
//! exceeds the window of a publisher.

mod outcomes;
mod requests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::protocol::Encoding;
use aqueduct_core::service::{BoxFuture, Caller, EventEncoder, EventStream, PublishRequest, ServiceError};
use aqueduct_transport_http::Quotas;
use bytes::Bytes;
use bytestring::ByteString;
use futures_util::stream::{FuturesUnordered, Stream};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use self::requests::unknown_publisher;
use super::batch::Batch;
use super::publisher::{Feeder, Publisher, Step};
use super::session::{Session, Shared, refusal_of};
use super::subscriptions::{Ending, Subscriptions};
use crate::close::CloseReason;
use crate::message::request::{RequestError, cut_out};
use crate::message::{Reply, Request, binary};

/// A multiplexed connection.
pub(crate) struct MuxSession {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    /// The agent that the path of the connection names: the default of `start`.
    agent: Option<String>,
    encoding: Encoding,
    /// Set until the first message, the only one that may be `auth`.
    is_fresh: bool,
    /// Set until a token arrives, if one is required.
    awaits_token: bool,
    /// Set while the service verifies a token: no message is read meanwhile.
    is_checking: bool,
    /// The requests in progress.
    work: FuturesUnordered<BoxFuture<'static, Outcome>>,
    /// The number of starts and watches in progress, which count as subscriptions.
    opening: usize,
    subscriptions: Subscriptions,
    /// The publishers by reference.
    publishers: HashMap<String, Publisher>,
    /// Replies that are not written yet.
    replies: VecDeque<Reply>,
    quotas: Quotas,
}

/// The outcome of a request.
enum Outcome {
    Answered(Reply),
    /// A token was verified: the caller with its proof.
    Authenticated(Box<Caller>),
    /// A run was started, or a watch was accepted.
    Opened {
        reference: String,
        run: String,
        events: EventStream,
        encoder: Box<dyn EventEncoder>,
        /// The number after which the events start; `None` for a run that was just started.
        after: Option<u64>,
    },
    /// A start or watch was refused.
    NotOpened(Reply),
    /// A publisher was accepted.
    Publishing {
        reference: String,
        feeder: Feeder,
    },
    /// A publisher was refused.
    NotPublishing {
        reference: String,
        error: ServiceError,
    },
    /// A publisher has made one step.
    Stepped {
        reference: String,
        step: Step,
        feeder: Feeder,
    },
}

impl MuxSession {
    /// Returns the state of a connection with several runs. `agent` is the agent of the path, if it names one.
    pub(crate) fn new(
        shared: Arc<Shared>,
        caller: Arc<Caller>,
        agent: Option<String>,
        encoding: Encoding,
        quotas: Quotas,
    ) -> Self {
        Self {
            awaits_token: shared.requires_token(&caller, agent.as_deref()),
            shared,
            caller,
            agent,
            encoding,
            is_fresh: true,
            is_checking: false,
            work: FuturesUnordered::new(),
            opening: 0,
            subscriptions: Subscriptions::default(),
            publishers: HashMap::new(),
            replies: VecDeque::new(),
            quotas,
        }
    }

    /// Dispatches a request, if a required token precedes it and the caller's quota admits it.
    fn handle_request(&mut self, request: Request<'_>, message: &Bytes) -> Result<(), CloseReason> {
        let is_first = std::mem::replace(&mut self.is_fresh, false);
        if let Request::Auth { token } = request {
            if !is_first {
                return Err(CloseReason::new(
                    CloseReason::BAD_MESSAGE,
                    "`auth` must be the first message: connect again",
                ));
            }
            self.awaits_token = false;
            self.authenticate(token);
            return Ok(());
        }
        if self.awaits_token {
            let reason =
                "a token is required: send it in the upgrade request, or in `auth` as the first message";
            return Err(CloseReason::new(CloseReason::UNAUTHENTICATED, reason));
        }
        // The quota is checked before the service is called, so a refused request has no effect.
        if let Err(error) = self.admit(&request) {
            let (reference, run) = request.about();
            self.replies.push_back(Reply::refusal(reference, run, error));
            return Ok(());
        }
        match request {
            Request::Auth { .. } => {}
            Request::List { reference } => self.list(reference),
            Request::Start { reference, agent, input } => self.start(reference, agent, input),
            Request::Watch { reference, run, after, options } => self.watch(reference, run, after, options),
            Request::Unwatch { run } => self.unwatch(run),
            Request::Cancel { reference, run } => self.cancel(reference, run),
            Request::Publish { reference, agent, run, thread, format } => {
                let request = PublishRequest {
                    agent,
                    thread_id: thread.map(ByteString::from),
                    run_id: run.map(RunId::from),
                    format,
                };
                self.publish(reference, request);
            }
            Request::Payload { reference, number, data } => {
                return self.payload(&reference, number, cut_out(message, data));
            }
            Request::Finish { reference } => match self.publisher(&reference) {
                Some(publisher) => publisher.handle_finish(),
                None => self.replies.push_back(unknown_publisher(&reference)),
            },
            Request::Abandon { reference } => match self.publisher(&reference) {
                Some(publisher) => publisher.handle_abandon(),
                None => self.replies.push_back(unknown_publisher(&reference)),
            },
        }
        Ok(())
    }
}

impl Session for MuxSession {
    fn handle_text(&mut self, text: &Utf8Bytes) -> Result<(), CloseReason> {
        match Request::parse(text, self.shared.config.limits.json_depth) {
            Ok(request) => self.handle_request(request, text.as_ref()),
            Err(RequestError::Foreign(problem)) => Err(CloseReason::new(CloseReason::BAD_MESSAGE, problem)),
            Err(RequestError::Refused { .. }) if self.awaits_token => {
                Err(CloseReason::new(CloseReason::UNAUTHENTICATED, "send a token in `auth` first"))
            }
            Err(RequestError::Refused { reference, message, known }) => {
                self.is_fresh = false;
                let code = if known { "invalid" } else { "unsupported" };
                self.replies.push_back(Reply::error(reference, code, message));
                Ok(())
            }
        }
    }

    fn handle_binary(&mut self, data: &Bytes) -> Result<(), CloseReason> {
        self.is_fresh = false;
        if self.awaits_token {
            return Err(CloseReason::new(CloseReason::UNAUTHENTICATED, "send a token in `auth` first"));
        }
        let Some((reference, number, at)) = binary::read_payload(data) else {
            let reason = "a binary message must be a payload (docs/websocket.md, binary messages)";
            return Err(CloseReason::new(CloseReason::UNSUPPORTED_DATA, reason));
        };
        self.payload(reference, number, data.slice(at.min(data.len())..))
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        // Bounded by the queue of replies: requests of a client that does not read its replies are not polled.
        while self.replies.len() < self.shared.config.limits.replies {
            match std::pin::Pin::new(&mut self.work).poll_next(cx) {
                Poll::Ready(Some(outcome)) => self.handle_outcome(outcome),
                Poll::Ready(None) | Poll::Pending => break,
            }
            progress = true;
        }
        progress
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let limits = &self.shared.config.limits;
        while batch.len() < limits.batch_bytes
            && let Some(reply) = self.replies.pop_front()
        {
            write_reply(batch, &reply);
        }
        if batch.len() < limits.batch_bytes {
            self.subscriptions
                .poll_fill(cx, limits, batch, |batch, ending| write_reply(batch, &final_reply(ending)));
        }
    }

    fn is_idle(&self) -> bool {
        self.work.is_empty()
            && self.subscriptions.len() == 0
            && self.publishers.is_empty()
            && self.replies.is_empty()
    }

    fn is_backlogged(&self) -> bool {
        self.is_checking || self.replies.len() >= self.shared.config.limits.replies
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn awaits_token(&self) -> bool {
        self.awaits_token
    }

    fn close_reason(&self) -> Option<CloseReason> {
        refusal_of(&self.caller)
    }

    fn first_message_limit(&self) -> Option<(Duration, CloseReason)> {
        let reason = || CloseReason::new(CloseReason::UNAUTHENTICATED, "no token in time");
        self.awaits_token.then(|| (self.shared.config.timeouts.token, reason()))
    }
}

/// Encodes a reply as a text message.
fn write_reply(batch: &mut Batch, reply: &Reply) {
    reply.write(batch.bytes());
    batch.end_message(false);
}

/// Returns the reply that follows the last event of a run.
fn final_reply(ending: Ending) -> Reply {
    let Ending { reference, run, number, complete } = ending;
    if complete {
        return Reply::Ended { reference, run, number };
    }
    let message = format!("the run was lost after event {number}: watch it again, or start it again");
    Reply::Error { reference: Some(reference), run: Some(run), code: "lost", message }
}

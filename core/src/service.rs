//! The seams between transports and runs: a transport depends on these traits and on no agent protocol; a service that
//! produces runs implements these traits and knows no socket.
//!
//! ```text
//!   RunService ── EventStream (numbered canonical events) ──► transport ── frames ──► peer
//!                                                              │   ▲
//!                                                 BlockEvent   ▼   │ payload bytes
//!                                                            EventEncoder (an adapter's)
//! ```
//!
//! * [`RunService`] starts, watches, cancels and publishes runs. The run engine implements it once for all transports; a
//!   developer with one agent can implement it for that agent.
//! * [`EventEncoder`] writes canonical events as payloads of one protocol, directly into the transport's buffer.
//! * [`PayloadStream`] produces payloads where a protocol's stream is more than the events of one run.
//!
//! This module reads no clock, spawns no task and holds no lock: the implementor creates futures and streams, and the
//! transport drives them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use bytestring::ByteString;
use futures_core::Stream;

use crate::error::Error;
use crate::event::BlockEvent;
use crate::id::RunId;
use crate::merge::{CompletedRun, RunMerger};
use crate::message::RunInput;
use crate::principal::{Identity, Principal};
use crate::quota::{Account, Exceeded, Quota};
use crate::run::InterruptReply;

/// A future returned by a [`RunService`].
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The future of a [`RunService`] that can be refused.
pub type ServiceFuture<'a, T> = BoxFuture<'a, Result<T, ServiceError>>;

/// The events of one run, in order. The stream ends after the terminal event; an earlier end means that the service lost
/// the run. A stream that starts after the number of the terminal event is empty, which is a regular end.
/// Dropping the stream ends the watch.
pub type EventStream = Pin<Box<dyn Stream<Item = NumberedEvent> + Send>>;

/// An event and its number in its run. Numbers start at 1 and increase. A run log may also number entries of its own, which
/// no watcher receives, so a watcher may see gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedEvent {
    /// The position of the event in its run.
    pub number: u64,
    /// The canonical event.
    pub event: BlockEvent,
}

/// The caller of a service, as the transport received it. The service decides whether to trust it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The bearer token, without the word `Bearer`.
    pub token: Option<String>,
    /// Headers or metadata, names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    /// The address of the peer, for logs.
    pub peer: Option<String>,
    /// The client certificate (DER) that the transport verified, where TLS requests one.
    pub certificate: Option<Bytes>,
    /// The host's name for the surface of the request, for metrics; empty if the host has none.
    pub surface: &'static str,
    /// The result of authentication.
    pub proof: Proof,
}

/// The result of authentication, once per request ([`RunService::authenticate`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proof {
    /// The caller has not been authenticated yet.
    #[default]
    Unchecked,
    /// The caller is authenticated.
    Verified(Arc<Identity>),
    /// Authentication failed with this refusal.
    Refused(ServiceError),
}

impl Caller {
    /// Returns the account to which the request is charged. Returns `None` if the caller is not authenticated and the
    /// address of the peer is unknown.
    pub fn account(&self) -> Option<Account> {
        let principal = match &self.proof {
            Proof::Verified(identity) => identity.principal.clone(),
            Proof::Unchecked | Proof::Refused(_) => Principal::anonymous(),
        };
        Account::of(&principal, self.peer.as_deref())
    }

    /// Returns the first header of that name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Omits secrets: of the token only its presence is printed, of headers the names, of the certificate the length.
impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Caller")
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("headers", &names)
            .field("peer", &self.peer)
            .field("certificate", &self.certificate.as_ref().map(Bytes::len))
            .field("surface", &self.surface)
            .field("proof", &self.proof)
            .finish()
    }
}

/// An agent that the service can run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentInfo {
    /// The name of the agent in requests.
    pub name: String,
    /// A description for people.
    pub description: String,
}

/// A run that has started.
pub struct StartedRun {
    /// The id of the run.
    pub run_id: RunId,
    /// The events of the run, from the first.
    pub events: EventStream,
    /// `true` if an earlier request started the run, and this request repeats the earlier one's reply to an interrupt.
    pub is_repeat: bool,
}

impl StartedRun {
    /// Returns a run that has just started.
    pub fn new(run_id: RunId, events: EventStream) -> Self {
        Self { run_id, events, is_repeat: false }
    }
}

crate::debug_fields!(StartedRun { run_id });

/// Starts, watches, cancels and publishes runs.
pub trait RunService: Send + Sync + 'static {
    /// Returns the agents that `caller` may run.
    fn list_agents(&self, caller: &Caller) -> ServiceFuture<'_, Vec<AgentInfo>>;

    /// Authenticates the caller and returns it with its [`Proof`]. A host whose checks take time (keys that are fetched)
    /// does them here. Transports call it once per request, before they read the body. After a failed authentication the
    /// other operations return its refusal.
    fn authenticate(&self, caller: Caller) -> BoxFuture<'_, Caller> {
        Box::pin(std::future::ready(caller))
    }

    /// Returns how much the account may use at once. Transports call it once per request, and count the use themselves.
    fn quota(&self, _account: &Account) -> Quota {
        Quota::default()
    }

    /// Checks whether `caller` may start runs of `agent`, or of any agent if `agent` is `None`. Transports call it before
    /// they read the body of a request, so that a refused body is not read. [`start`](Self::start) checks again.
    ///
    /// # Errors
    ///
    /// Returns the refusal that `start` would return for every input.
    fn admit(&self, _caller: &Caller, _agent: Option<&str>) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Starts a run of `agent` for `caller`.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] if the agent does not exist or the caller may not run it,
    /// [`RefusalKind::Conflict`] if the run id is in use, [`RefusalKind::Busy`] at a limit of concurrent runs, and
    /// [`RefusalKind::Invalid`] if the input cannot be run.
    fn start(&self, caller: &Caller, agent: &str, input: RunInput) -> ServiceFuture<'_, StartedRun>;

    /// Watches a run: returns the stored events with numbers above `after`, then events as they are appended.
    ///
    /// A stream that ends without a terminal event can be resumed after its last number. A stream that ends without any
    /// event belongs to a run that has ended, and `after` is the number of its last event.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] if the caller has no such run, and [`RefusalKind::Gone`] with the earliest stored
    /// number if events after `after` are no longer stored.
    fn watch(&self, caller: &Caller, run: &RunId, after: u64) -> ServiceFuture<'_, EventStream>;

    /// Cancels a run. Returns `true` if the run was running; cancelling an ended run is not an error.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] if the caller has no such run.
    fn cancel(&self, caller: &Caller, run: &RunId) -> ServiceFuture<'_, bool>;

    /// Returns the agent of a run of the caller. Returns `None` if the service does not store the agent. A protocol may
    /// encode the runs of different agents differently, so a transport must not encode a run for which this call fails.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::NotFound`] if the caller has no such run, and [`RefusalKind::Unavailable`] if the lookup
    /// fails.
    fn agent_of<'a>(&'a self, _caller: &'a Caller, _run: &'a RunId) -> ServiceFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the protocol version that the caller declared when it started a run. Returns `None` if it declared none, or if
    /// the service does not store the version.
    ///
    /// # Errors
    ///
    /// As [`agent_of`](Self::agent_of).
    fn version_of<'a>(&'a self, _caller: &'a Caller, _run: &'a RunId) -> ServiceFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Opens a run whose events the caller publishes.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Unsupported`] or [`RefusalKind::Invalid`] if the agent or the format cannot be published, and
    /// [`RefusalKind::Conflict`] if the run id belongs to another run.
    fn publish(&self, caller: &Caller, request: PublishRequest) -> ServiceFuture<'_, Box<dyn Ingest>>;
}

/// Runs an agent and returns the whole run as one value. Dropping the future ends the watch, not the run.
///
/// # Errors
///
/// Returns the refusal of [`RunService::start`]; [`RefusalKind::Unavailable`] if the service lost the run;
/// [`RefusalKind::Unsupported`] if the run is too long to be merged. A run that failed is not an error:
/// [`CompletedRun::outcome`] holds its failure.
pub async fn complete(
    service: &dyn RunService,
    caller: &Caller,
    agent: &str,
    input: RunInput,
) -> Result<CompletedRun, ServiceError> {
    let StartedRun { run_id, mut events, .. } = service.start(caller, agent, input).await?;
    let mut merger = RunMerger::default();
    while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
        let too_long = |error: Error| ServiceError::new(RefusalKind::Unsupported, error.to_string());
        merger.handle_event(&event.event).map_err(too_long)?;
    }
    if merger.is_ended() {
        return Ok(merger.finish());
    }
    let message = format!("run {run_id} was lost before its end: watch it again");
    Err(ServiceError::new(RefusalKind::Unavailable, message))
}

/// A request to open an [`Ingest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRequest {
    /// The agent under whose name the run is stored.
    pub agent: String,
    /// The thread; chosen by the service if absent.
    pub thread_id: Option<ByteString>,
    /// The run; chosen by the service if absent. A publisher that reconnects continues its run by sending the same id.
    pub run_id: Option<RunId>,
    /// The format of the payloads, e.g. `magentic`.
    pub format: String,
}

/// A run whose events a publisher sends in.
pub trait Ingest: Send {
    /// Returns the id of the run.
    fn run_id(&self) -> &RunId;

    /// Returns the highest payload number that the service has stored. A publisher that reconnects continues after it.
    fn acknowledged(&self) -> u64;

    /// Stores payload `number` and returns the highest stored number. Numbers are contiguous from 1; a payload that is
    /// already stored is acknowledged again. Back-pressure: the future is pending until the payload is stored, and the
    /// transport reads no further payload meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Conflict`] if a number is skipped, and [`RefusalKind::Invalid`] if the payload cannot be decoded.
    fn accept(&mut self, number: u64, payload: Bytes) -> ServiceFuture<'_, u64>;

    /// Returns the next reply to an interrupt. The future is pending until a reply arrives, and cancel safe: dropping it
    /// loses no reply. A transport drops it whenever a payload arrives.
    fn reply(&mut self) -> BoxFuture<'_, InterruptReply>;

    /// Ends the run after the last payload. Dropping an ingest without this call counts as a lost connection.
    fn finish(&mut self) -> ServiceFuture<'_, ()>;
}

/// A refusal: an error answer to a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// A message for the caller: what happened, where, and what to do.
    pub message: String,
    /// The limit that the request exceeded, if that is why it was refused.
    pub exceeded: Option<Exceeded>,
}

impl ServiceError {
    /// Returns a refusal with a message.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), exceeded: None }
    }
}

/// Kinds of refusal. A transport maps them to its own status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The agent or run does not exist or belongs to another principal. The caller cannot distinguish the two.
    NotFound,
    /// The caller has no valid credentials.
    Unauthenticated,
    /// The request is malformed.
    Invalid,
    /// The request conflicts with stored state: a run id in use, a payload number out of order.
    Conflict,
    /// The requested events are no longer stored.
    Gone {
        /// The earliest number that is still stored.
        earliest: u64,
    },
    /// A limit of concurrent work is reached; a retry may succeed.
    Busy,
    /// The agent or the run log cannot be reached, the run was lost, or the service is stopping.
    Unavailable,
    /// The service does not support the operation.
    Unsupported,
    /// The service failed.
    Internal,
}

/// The destination of an [`EventEncoder`] or a [`PayloadStream`].
pub trait PayloadSink {
    /// Adds one payload: `write` appends it to the transport's buffer, and the transport adds the framing.
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// Adds one payload under a name of one word, where the framing names payloads (`event: error` of server-sent events).
    /// Other framings ignore the name.
    fn push_named(&mut self, name: &str, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let _ = name;
        self.push(write);
    }
}

/// A stream of encoded payloads of one protocol, for one reader. The transport that sends them knows neither the protocol
/// nor its events. Protocols whose stream is the events of one run use an [`EventStream`] with an [`EventEncoder`] instead.
///
/// The transport polls it only while the reader accepts more, and drops it when the reader disconnects.
pub trait PayloadStream: Send {
    /// Writes at least one payload. Returns `Ready(false)` at the end of the stream, after which it is not polled again.
    fn poll_payload(&mut self, cx: &mut Context<'_>, sink: &mut dyn PayloadSink) -> Poll<bool>;

    /// Returns the media type of the stream.
    fn media_type(&self) -> &'static str;
}

/// Writes canonical events as payloads of one protocol, for one watcher.
pub trait EventEncoder: Send {
    /// Writes the payloads of `event`: none, one or several.
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink);

    /// Returns the media type of a stream of these payloads.
    fn media_type(&self) -> &'static str;

    /// Returns `true` if payloads are bytes with their own framing, `false` if they are text without line breaks.
    fn is_binary(&self) -> bool;

    /// Returns `true` if the payloads of an event depend on earlier events of the run. For a watcher that starts in the middle
    /// of a run, the transport then passes the earlier events to [`skip`](Self::skip).
    fn has_state(&self) -> bool {
        false
    }

    /// Updates the encoder's state with an event that the watcher already received over an earlier connection.
    fn skip(&mut self, _event: &BlockEvent) {}

    /// Returns `true` if the transport may encode `merged`, the joined text of several deltas of one block, instead of the
    /// deltas. If the encoder writes several payloads for `merged`, the transport discards them and encodes the deltas.
    ///
    /// An encoder with state returns `true` only if it writes at most one payload for `merged`, and if later payloads do not
    /// depend on where the text was divided: an event is encoded once, and a watcher that resumes skips the deltas unmerged.
    fn can_merge(&self, _merged: &BlockEvent) -> bool {
        !self.has_state()
    }
}

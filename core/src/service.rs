//! The seams at which transports meet the rest: what carries bytes knows these traits and no agent protocol; what
//! produces runs knows these traits and no socket.
//!
//! ```text
//!   RunService ── EventStream (numbered canonical events) ──► transport ── frames ──► peer
//!                                                              │   ▲
//!                                                 BlockEvent   ▼   │ payload bytes
//!                                                            EventEncoder (an adapter's)
//! ```
//!
//! * [`RunService`] starts, watches, stops and feeds runs. A gateway implements it once for all its transports; a
//!   developer with one agent implements it for that agent.
//! * [`EventEncoder`] writes canonical events as payloads of one protocol, straight into the transport's buffer.
//! * [`PayloadStream`] gives such payloads where a protocol's stream is more than the events of one run.
//!
//! Nothing here reads a clock, spawns or locks: futures and streams are made by the implementor and driven by the
//! transport.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use bytestring::ByteString;
use futures_core::Stream;
use thiserror::Error;

use crate::event::BlockEvent;
use crate::id::RunId;
use crate::merge::{CompletedRun, MergeError, RunMerger};
use crate::message::RunInput;
use crate::principal::{Identity, Principal};
use crate::quota::{Account, Exceeded, Quota};
use crate::run::InterruptReply;

/// A future made by a [`RunService`].
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Events of one run, in order, without gaps. It ends after the terminal event; an end before that means that the
/// service lost the run. Watching after the terminal event gives a stream that is empty and has ended well. Dropping it tells the service that this watcher has gone.
pub type EventStream = Pin<Box<dyn Stream<Item = NumberedEvent> + Send>>;

/// An event and its number in its run. Numbers are contiguous and start at 1.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedEvent {
    /// Its number.
    pub number: u64,
    /// The event.
    pub event: BlockEvent,
}

/// Who asks, as the transport saw it. The service decides what that is worth.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The bearer token, without the word `Bearer`.
    pub token: Option<String>,
    /// Headers or metadata, names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    /// The address of the peer, for logs.
    pub peer: Option<String>,
    /// The certificate (DER) that the caller showed and the transport verified, where TLS asks for one.
    pub certificate: Option<Bytes>,
    /// The surface by which the caller came, a word of the host, for metrics; empty if the host names none.
    pub surface: &'static str,
    /// What the host made of token and certificate.
    pub proof: Proof,
}

/// What a host made of the proof of a caller, once per request ([`RunService::authenticate`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proof {
    /// Nothing yet.
    #[default]
    Unchecked,
    /// The caller is known.
    Verified(Arc<Identity>),
    /// The caller is not; this is the refusal.
    Refused(ServiceError),
}

impl Caller {
    /// Returns the account to which the request is charged; `None` if the caller proved nothing and has no address.
    pub fn account(&self) -> Option<Account> {
        let principal = match &self.proof {
            Proof::Verified(identity) => identity.principal.clone(),
            Proof::Unchecked | Proof::Refused(_) => Principal::anonymous(),
        };
        Account::of(&principal, self.peer.as_deref())
    }

    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Secrets stay out of logs: only names and the peer are shown.
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

/// An agent that can be run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentInfo {
    /// Its name in requests.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// A run that has started.
pub struct StartedRun {
    /// Its id.
    pub run_id: RunId,
    /// Its events, from the first.
    pub events: EventStream,
    /// `true` if an earlier request started the run, and this one repeats its reply to an interrupt.
    pub is_repeat: bool,
}

impl StartedRun {
    /// Returns a run that has just started.
    pub fn new(run_id: RunId, events: EventStream) -> Self {
        Self { run_id, events, is_repeat: false }
    }
}

impl fmt::Debug for StartedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedRun").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

/// Starts, watches, stops and feeds runs.
pub trait RunService: Send + Sync + 'static {
    /// The agents that this caller may run.
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>>;

    /// Decides who the caller is, and returns it with its [`Proof`]. Hosts whose proofs take time to check (keys that are
    /// fetched) do so here; transports call it once per request, before they read a body. A proof that fails refuses the
    /// operations that follow.
    fn authenticate(&self, caller: Caller) -> BoxFuture<'_, Caller> {
        Box::pin(std::future::ready(caller))
    }

    /// Returns how much the account may use at once. Transports ask once per request, and count.
    fn quota(&self, _account: &Account) -> Quota {
        Quota::default()
    }

    /// Decides whether `caller` may start runs of `agent`, or of any agent. Transports ask before they read the body of a
    /// request, and again implicitly with [`start`](Self::start), which decides.
    ///
    /// # Errors
    ///
    /// Returns the refusal that `start` would return whatever the input.
    fn admit(&self, _caller: &Caller, _agent: Option<&str>) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Starts a run.
    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>>;

    /// Watches a run: its events with numbers above `after`, then the live ones.
    ///
    /// A stream that ends without a terminal event can be resumed after its last number, unless it is over when it is first
    /// polled: then the run has ended, and `after` is the number of its last event.
    fn watch(
        &self,
        caller: &Caller,
        run: &RunId,
        after: u64,
    ) -> BoxFuture<'_, Result<EventStream, ServiceError>>;

    /// Stops a run. Stopping a run that has ended is no error; the answer says whether it was running.
    fn cancel(&self, caller: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>>;

    /// Returns the agent of a run of the caller; `None` if there is no such run, or the service does not tell. A protocol
    /// may show the runs of agents in different ways.
    fn agent_of<'a>(&'a self, _caller: &'a Caller, _run: &'a RunId) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Opens a run that the caller feeds itself.
    fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>>;
}

/// Runs an agent to the end of its run, and returns all of it as one value. Dropping the future stops watching the run.
///
/// # Errors
///
/// The run could not be started, the service lost it ([`RefusalKind::Unavailable`]), or it is too long to be merged
/// ([`RefusalKind::Unsupported`]). A run that failed is no error: [`CompletedRun::outcome`] says so.
pub async fn complete(
    service: &dyn RunService,
    caller: &Caller,
    agent: &str,
    input: RunInput,
) -> Result<CompletedRun, ServiceError> {
    let StartedRun { run_id, mut events, .. } = service.start(caller, agent, input).await?;
    let mut merger = RunMerger::default();
    while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
        let too_long = |error: MergeError| ServiceError::new(RefusalKind::Unsupported, error.to_string());
        merger.handle_event(&event.event).map_err(too_long)?;
    }
    if merger.is_ended() {
        return Ok(merger.finish());
    }
    let message = format!("run {run_id} was lost before its end: watch it again");
    Err(ServiceError::new(RefusalKind::Unavailable, message))
}

/// Opens an [`Ingest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRequest {
    /// The agent under whose name the run is shown.
    pub agent: String,
    /// The conversation; chosen by the service if absent.
    pub thread_id: Option<ByteString>,
    /// The run; chosen by the service if absent. The same run again continues after a cut.
    pub run_id: Option<RunId>,
    /// The dialect of the payloads, e.g. `magentic`.
    pub format: String,
}

/// A run that a framework feeds with payloads of its own.
pub trait Ingest: Send {
    /// The run.
    fn run_id(&self) -> &RunId;

    /// The highest payload number that is safe with the service: where a framework continues after a cut.
    fn acknowledged(&self) -> u64;

    /// Takes payload `number` (contiguous, from 1; one that was taken before is acknowledged again) and gives the
    /// highest number that is safe. Not answering is the back-pressure.
    fn accept(&mut self, number: u64, payload: Bytes) -> BoxFuture<'_, Result<u64, ServiceError>>;

    /// The next answer of a human, for the framework; never if there is none. The future may be dropped and asked for
    /// again without losing an answer: a transport drops it whenever a payload arrives.
    fn reply(&mut self) -> BoxFuture<'_, InterruptReply>;

    /// The framework has sent all it had. Dropping an ingest without this is a cut.
    fn finish(&mut self) -> BoxFuture<'_, Result<(), ServiceError>>;
}

/// Why a service refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ServiceError {
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// A sentence for the caller: what, where, and what to do.
    pub message: String,
    /// The limit that refused the request, where that is the reason.
    pub exceeded: Option<Exceeded>,
}

impl ServiceError {
    /// A refusal with a sentence.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), exceeded: None }
    }
}

/// Kinds of refusal, for a transport to put into its own codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// No such agent or run, or not this caller's: nobody can tell which.
    NotFound,
    /// The caller did not say who it is, or lied.
    Unauthenticated,
    /// The request makes no sense.
    Invalid,
    /// It contradicts what is there: a run id that is taken, a number out of order.
    Conflict,
    /// The events asked for are no longer kept; this is the earliest number left.
    Gone {
        /// The earliest number left.
        earliest: u64,
    },
    /// Too much at once; later it may work.
    Busy,
    /// The agent cannot be reached, or the service is stopping.
    Unavailable,
    /// The service does not do this.
    Unsupported,
    /// A fault of the service.
    Internal,
}

/// Where an [`EventEncoder`] or a [`PayloadStream`] writes.
pub trait PayloadSink {
    /// Takes one payload: `write` appends it to the transport's own buffer, between its framing.
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// The same under a name, where the framing has names for payloads (`event: error` of server-sent events); the name
    /// is one word. Other framings leave it out.
    fn push_named(&mut self, name: &str, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let _ = name;
        self.push(write);
    }
}

/// Payloads of one protocol, already written, for one reader: what a transport streams that knows neither the protocol
/// nor its events. An [`EventStream`] with an [`EventEncoder`] is for protocols whose stream is one run; this is for those
/// that make their own of it.
///
/// It is pulled only when the reader wants more, and dropped when the reader goes away.
pub trait PayloadStream: Send {
    /// Writes at least one payload that is ready; ready and false at the end, after which it is not asked again.
    fn poll_payload(&mut self, cx: &mut Context<'_>, sink: &mut dyn PayloadSink) -> Poll<bool>;

    /// The media type of a stream of such payloads.
    fn media_type(&self) -> &'static str;
}

/// Writes canonical events as payloads of one protocol, for one watcher.
pub trait EventEncoder: Send {
    /// Writes what `event` looks like: no payload, one or several.
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink);

    /// The media type of a stream of such payloads.
    fn media_type(&self) -> &'static str;

    /// True if payloads are bytes with their own framing instead of text without line breaks.
    fn is_binary(&self) -> bool;

    /// True if what an event looks like depends on earlier events of the run: a watcher that begins in the middle must then be
    /// told of those by [`skip`](Self::skip).
    fn has_state(&self) -> bool {
        false
    }

    /// Takes an event that the watcher has seen already, over an earlier connection.
    fn skip(&mut self, _event: &BlockEvent) {}
}

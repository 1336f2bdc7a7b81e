//! A remote A2A agent, over JSON-RPC, HTTP+JSON or gRPC.
//!
//! The adapter's [`TaskClient`](aqueduct_adapter_a2a::TaskClient) plans requests and decodes responses; this module
//! sends, waits and returns the events:
//!
//! ```text
//! card? ──► endpoint ──► Turn: TaskClient ◄── frames, responses, errors, cancellation
//!                                   └──────► requests (after their pauses), events
//! ```
//!
//! A message is announced in a checkpoint before it is sent: if its response is lost before it names the task, the task
//! is found by the id of the message (`find`), here or by another replica. A takeover finds the task by its checkpoint:
//! it reads the task, suppresses the content that the history contains, and continues the stream. A thread keeps its
//! context id, and an interrupted task its memory, so that the next run of the thread continues at the agent.
//!
//! Nothing is spawned: the turn is a stream, which the driver of the run polls.

mod builder;
mod connection;
mod endpoint;
mod find;
#[cfg(feature = "grpc")]
mod grpc;
mod raw;
mod turn;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::TaskMemory;
use aqueduct_adapter_a2a::call::{Call, TaskRef};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Attachment, SentMessage};
use aqueduct_adapter_a2a::config::ClientConfig;
use aqueduct_adapter_a2a::frontend;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_core::agent::{CallContext, PreviousRun};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{
    Agent, AgentRequest, Checkpoint, Principal, RunFailure, RunId, RunInput, SourceEvent, SourceStream,
    Takeover, ThreadId,
};
use futures_util::future::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};

use crate::error::Error;
use crate::remote::{
    AgentHealth, CIRCUIT_OPEN, Connection, TIMEOUT, ThreadMemory, UNREACHABLE, describe_refusal, work_lost,
};
pub use builder::{Address, RemoteBuilder};
use endpoint::{Directory, ResolvedCard};
pub use raw::RawAnswer;
use turn::{Start, Turn};

/// Threads whose context is cached. The next run of a dropped thread uses the previous run in the log, and otherwise
/// starts a new context; each thread costs its ids and, while its task is interrupted, some KiB.
const THREADS: usize = 10_000;

/// The timeout of [`RemoteAgent::cancel`].
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before an agent that is away is called again for a takeover; it doubles with each attempt.
const TAKEOVER_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: after it the takeover gives up, 31 s in all, longer than the circuit of an agent stays open.
const TAKEOVER_LAST_PAUSE: Duration = Duration::from_secs(16);
/// How long a takeover looks for the agent's work in all, however slowly the agent answers.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(40);

/// Codes of failures after which another attempt may succeed.
const PASSING: [&str; 3] = [UNREACHABLE, TIMEOUT, CIRCUIT_OPEN];

/// An A2A agent at another address, as an [`Agent`].
///
/// Clones share connections, the card and the memory of threads.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), aqueduct::Error> {
/// use aqueduct::a2a::RemoteAgent;
///
/// let by_card = RemoteAgent::new("https://agents.example/research")?;
/// # drop(by_card);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RemoteAgent {
    shared: Arc<Shared>,
}

/// The state that clones of a [`RemoteAgent`] share.
#[derive(Debug)]
struct Shared {
    connection: Connection,
    directory: Directory,
    client: ClientConfig,
    threads: ThreadMemory<(Principal, ThreadId), Thread>,
    /// The tasks of the agent, shared by takeovers that search for theirs.
    listing: find::Listing,
    /// Set once a warning is logged that the agent may ignore the data of frontends.
    warned: AtomicBool,
}

/// The state of a thread at the agent.
#[derive(Debug, Clone, Default)]
struct Thread {
    context_id: String,
    /// The interrupted task, which waits for a reply. Boxed: the cache holds many threads, and few of them wait.
    waiting: Option<Box<(TaskRef, TaskMemory)>>,
    /// The run that stored this state.
    run: Option<RunId>,
}

impl Thread {
    /// Returns the state of a thread whose last run another replica drove. The content of its task counts as shown.
    fn of(previous: &PreviousRun, input: &RunInput) -> Self {
        let Some(Attachment { task, .. }) = Attachment::from_value(&previous.checkpoint.0) else {
            // The agent named no task: it responded with a message, in this context.
            let sent = SentMessage::from_value(&previous.checkpoint.0);
            let context_id = sent.map(|sent| sent.context_id).unwrap_or_default();
            return Self { context_id, waiting: None, run: Some(previous.run.clone()) };
        };
        let context_id = task.context_id.clone();
        let is_waiting = previous.is_waiting || !frontend::tool_results(input).is_empty();
        let waiting = is_waiting.then(|| Box::new((task, TaskMemory::default())));
        Self { context_id, waiting, run: Some(previous.run.clone()) }
    }
}

impl RemoteAgent {
    /// Returns the agent at `url`. Its card is read on the first run, and determines how the agent is called.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RemoteBuilder::build`].
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(Address::Agent(url.into())).build()
    }

    /// Returns a builder for the agent at `address`.
    pub fn builder(address: Address) -> RemoteBuilder {
        RemoteBuilder::new(address)
    }

    /// Returns the agent's interface with `binding` and `version`, for calls that a proxy forwards. Returns `None` if
    /// the agent has none.
    ///
    /// # Errors
    ///
    /// Returns a failure if the card cannot be read.
    pub async fn interface(
        &self,
        binding: Binding,
        version: Version,
        context: &dyn CallContext,
    ) -> Result<Option<Endpoint>, RunFailure> {
        let resolved = self.shared.resolve(context).await?;
        Ok(resolved.interface(binding, version).cloned())
    }

    /// Returns the results of the last calls to the agent.
    pub fn health(&self) -> AgentHealth {
        self.shared.connection.health()
    }

    /// Returns `true` if address and binding are configured: such an agent needs no card.
    pub fn is_card_optional(&self) -> bool {
        self.shared.directory.is_fixed()
    }

    /// Returns the text of the agent's card for clients of `version`.
    ///
    /// # Errors
    ///
    /// Returns a failure if there is no card at any of the well-known paths.
    pub async fn card(&self, context: &dyn CallContext, version: Option<&str>) -> Result<String, RunFailure> {
        self.shared.directory.card(&self.shared.connection, context, version).await
    }

    /// Returns the connection, for callers that send their own requests.
    pub fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// Drops the cached card: the next run reads it again, because the agent may have moved.
    pub fn forget_card(&self) {
        self.shared.directory.forget();
    }

    /// Cancels a task at the agent. A failure is only logged: the caller cannot handle it.
    pub async fn cancel(&self, endpoint: &Endpoint, task: String, context: &dyn CallContext) {
        let call = Call::CancelTask { id: task, metadata: None };
        let connection = &self.shared.connection;
        let request = connection::http_request(connection, endpoint, context, &call);
        let answered = match request {
            Err(reason) => Ok(Err(reason)),
            Ok((request, _)) => {
                let answer = connection.client().request(request);
                let answer = answer.map(|answered| answered.map_err(|error| error.to_string()));
                tokio::time::timeout(CANCEL_TIMEOUT, answer).await
            }
        };
        let reason = match answered {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => describe_refusal(&response),
            Ok(Err(reason)) => reason,
            Err(_) => format!("no answer within {CANCEL_TIMEOUT:?}"),
        };
        tracing::warn!(reason, "a task of a remote agent could not be cancelled");
    }
}

impl Shared {
    /// Returns the endpoint of the agent; reads its card on the first call.
    async fn resolve(&self, context: &dyn CallContext) -> Result<Arc<ResolvedCard>, RunFailure> {
        self.directory.resolve(&self.connection, context).await
    }

    /// As [`find_work`](Self::find_work), with retries while the agent is away: a replica and its agent often go down
    /// together.
    async fn find_work_patiently(
        &self,
        request: &AgentRequest,
        checkpoint: &Checkpoint,
    ) -> Result<(Arc<ResolvedCard>, Attachment, bool), RunFailure> {
        let search = self.find_work_again(request, checkpoint);
        if let Ok(found) = tokio::time::timeout(TAKEOVER_LIMIT, search).await {
            return found;
        }
        let message = format!("the agent's work was not found within {TAKEOVER_LIMIT:?}");
        Err(RunFailure::new(TIMEOUT, message))
    }

    async fn find_work_again(
        &self,
        request: &AgentRequest,
        checkpoint: &Checkpoint,
    ) -> Result<(Arc<ResolvedCard>, Attachment, bool), RunFailure> {
        let mut pause = TAKEOVER_PAUSE;
        loop {
            let found = self.find_work(&*request.context, checkpoint).await;
            let is_passing = |failure: &RunFailure| PASSING.contains(&&*failure.code);
            if found.as_ref().err().is_none_or(|failure| !is_passing(failure)) || pause > TAKEOVER_LAST_PAUSE
            {
                return found;
            }
            tokio::select! {
                biased;
                () = request.cancel.cancelled() => return found,
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
    }

    /// Returns the endpoint, the task of a run, and whether the checkpoint names the task. The task of a message that
    /// was only announced is searched for at the agent.
    async fn find_work(
        &self,
        context: &dyn CallContext,
        checkpoint: &Checkpoint,
    ) -> Result<(Arc<ResolvedCard>, Attachment, bool), RunFailure> {
        let card = self.resolve(context).await?;
        if let Some(at) = Attachment::from_value(&checkpoint.0) {
            return Ok((card, at, true));
        }
        let lost = |reason| RunFailure::new(RunFailure::UPSTREAM_ENDED, reason);
        let Some(sent) = SentMessage::from_value(&checkpoint.0) else {
            return Err(lost("the checkpoint names neither a task nor a message".to_owned()));
        };
        let listing = Some(&self.listing);
        let task = find::find(&self.connection, &card, context, &sent, listing).await.map_err(lost)?;
        Ok((card, Attachment { task, earlier: Vec::new() }, false))
    }

    /// Warns once if a frontend sends data that the agent does not declare to read.
    fn note_given(&self, input: &RunInput, card: &ResolvedCard) {
        let given = frontend::given_names(input);
        if given.is_empty() || card.reads_frontend() || self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            agent = card.endpoint.url,
            given = given.join(", "),
            extension = frontend::EXTENSION,
            "the agent's card does not say that it reads what the frontend gives: it may be ignored"
        );
    }

    /// Returns the state that the previous run of the thread left, whichever replica drove it.
    fn thread_of(&self, request: &AgentRequest) -> Thread {
        let key = (request.principal.clone(), request.input.thread_id.detached());
        // The context stays, the interrupted task is taken: of two concurrent runs of a thread only one sends the
        // reply.
        let take = |thread: &mut Thread| Thread { waiting: thread.waiting.take(), ..thread.clone() };
        let own = self.threads.change(&key, take).unwrap_or_default();
        match &request.previous {
            Some(previous) if own.run.as_ref() != Some(&previous.run) => Thread::of(previous, &request.input),
            _ => own,
        }
    }

    /// Caches the state of a thread for its next run.
    fn keep_thread(&self, request: &AgentRequest, thread: Thread) {
        self.threads.insert((request.principal.clone(), request.input.thread_id.detached()), thread);
    }
}

/// Returns the events of a turn that `opening` opens. The future is boxed by itself: it is larger than the turn, and a run
/// waits for its agent longer than for the turn to open.
fn open_turn<S>(opening: BoxFuture<'static, S>) -> SourceStream
where
    S: futures_core::Stream<Item = SourceEvent> + Send + 'static,
{
    Box::pin(opening.flatten_stream())
}

impl Agent for RemoteAgent {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let shared = Arc::clone(&self.shared);
        let turn = async move {
            match shared.resolve(&*request.context).await {
                Ok(card) => {
                    let start = Start::Send(Box::new(shared.thread_of(&request)));
                    Turn::new(shared, card, request, start).left_stream()
                }
                Err(failure) => failed(failure).right_stream(),
            }
        };
        open_turn(Box::pin(turn))
    }

    fn keeps_threads(&self) -> bool {
        true
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        Attachment::from_value(&checkpoint.0).is_some() || SentMessage::from_value(&checkpoint.0).is_some()
    }

    fn can_hand_over(&self, checkpoint: &Checkpoint) -> bool {
        Attachment::from_value(&checkpoint.0).is_some()
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        let shared = Arc::clone(&self.shared);
        let turn = async move {
            match shared.find_work_patiently(&request, &takeover.checkpoint).await {
                Ok((card, at, is_kept)) => {
                    let start = Start::Attach { at, history: Box::new(takeover.history), is_kept };
                    Turn::new(shared, card, request, start).left_stream()
                }
                Err(failure) => failed(work_lost(&failure)).right_stream(),
            }
        };
        open_turn(Box::pin(turn))
    }
}

/// Returns a stream with one failure.
fn failed(failure: RunFailure) -> stream::Once<std::future::Ready<SourceEvent>> {
    stream::once(std::future::ready(SourceEvent::Failed(failure)))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A replica and its agent often go down together: the takeover waits for longer than a circuit stays open.
    #[tokio::test(start_paused = true)]
    async fn a_takeover_waits_for_an_agent_that_is_away_and_not_for_ever() {
        // Nothing listens at a port that was just free.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let agent = RemoteAgent::new(format!("http://{free}")).unwrap();
        let request = AgentRequest::new(RunInput::prompt("t", "r", "hi"));
        let task = TaskRef { task_id: "task".to_owned(), context_id: "c".to_owned() };
        let checkpoint = Checkpoint(Attachment { task, earlier: Vec::new() }.to_value());
        let begun_at = Instant::now();
        let found = agent.shared.find_work_patiently(&request, &checkpoint).await;
        let waited = begun_at.elapsed();
        let failure = found.map(drop).unwrap_err();
        assert!(PASSING.contains(&&*failure.code), "{failure:?}");
        assert!((Duration::from_secs(31)..=TAKEOVER_LIMIT).contains(&waited), "{waited:?}");
        assert_eq!(work_lost(&failure).code, crate::remote::OWNER_LOST);
        request.cancel.cancel();
        let begun_at = Instant::now();
        agent.shared.find_work_patiently(&request, &checkpoint).await.map(drop).unwrap_err();
        assert!(begun_at.elapsed() < Duration::from_secs(31), "a cancelled run waits no longer");
    }
}

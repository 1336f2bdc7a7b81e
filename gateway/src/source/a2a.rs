//! An A2A agent upstream, over JSON-RPC, HTTP+JSON or gRPC.
//!
//! The adapter's [`TaskClient`] says what to send and what came of it; here it is sent, waited for and told back.
//!
//! ```text
//! card? ──► endpoint ──► TaskClient ◄── frames, answers, errors, stop
//!                            └──────► requests (after their pauses), events
//! ```
//!
//! A run that another gateway began is found again by its task: it is got, what the log has of it is left out, and its
//! stream is taken up.
//!
//! A thread keeps its context, and a task that waits for an answer its memory, so that the next run of the thread
//! goes on with it.

mod endpoint;
mod line;
mod raw;
mod talk;

use aqueduct_adapter_a2a::TaskMemory;
use aqueduct_adapter_a2a::call::{Call, TaskRef};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::Attachment;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_core::agent::PreviousRun;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{Checkpoint, RunFailure, RunId, Takeover, ThreadId};
use serde_json::json;

use super::remembered::Remembered;
use super::upstream::{Forwarded, Upstream, refusal_words};
use super::{Ask, EventSender, GATEWAY_LOST, GOODBYE, RunSource};
use crate::config::{A2aAddress, A2aBinding, A2aVersion};
use endpoint::Directory;
pub(crate) use line::GrpcSettings;
pub(crate) use raw::RawAnswer;
use talk::Talk;

/// Threads whose context is remembered. The next run of one that was forgotten goes by what the log says of the run before
/// it, and else begins a new conversation; each costs the ids and, while its task waits, some KiB.
const REMEMBERED_THREADS: usize = 10_000;

/// One agent.
pub(crate) struct A2aSource {
    upstream: Upstream,
    directory: Directory,
    threads: Remembered<ThreadId, Thread>,
}

/// What is known of a thread's conversation with the agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) context_id: String,
    /// The task that waits for an answer.
    pub(super) waiting: Option<(TaskRef, TaskMemory)>,
    /// The run that left this.
    pub(super) run: Option<RunId>,
}

impl Thread {
    /// What a run that another gateway drove has left: what its task has shown is not known here, and taken for known.
    fn of(earlier: &PreviousRun) -> Self {
        let Some(Attachment { task, .. }) = Attachment::from_value(&earlier.checkpoint.0) else {
            return Self::default();
        };
        let context_id = task.context_id.clone();
        let waiting = earlier.is_waiting.then(|| (task, TaskMemory::default()));
        Self { context_id, waiting, run: Some(earlier.run.clone()) }
    }
}

impl A2aSource {
    pub(crate) fn new(
        upstream: Upstream,
        grpc: GrpcSettings,
        address: A2aAddress,
        binding: Option<A2aBinding>,
        version: A2aVersion,
    ) -> Self {
        let directory = Directory::new(address, binding, version, grpc);
        Self { upstream, directory, threads: Remembered::new(REMEMBERED_THREADS) }
    }

    /// The interface for calls of that binding and version that pass through; none if the agent has none.
    pub(crate) async fn door(
        &self,
        binding: Binding,
        version: Version,
        forwarded: &Forwarded,
    ) -> Result<Option<Endpoint>, RunFailure> {
        let known = self.directory.endpoint(&self.upstream, forwarded).await?;
        Ok(known.interface(binding, version).cloned())
    }

    /// True if the configuration says how the agent is called: it may have no card.
    pub(crate) fn is_told(&self) -> bool {
        self.directory.is_told()
    }

    /// The text of the agent's card, as it shows it to a client of that version.
    pub(crate) async fn card(
        &self,
        forwarded: &Forwarded,
        version: Option<&str>,
    ) -> Result<String, RunFailure> {
        self.directory.card(&self.upstream, forwarded, version).await
    }

    /// The way to the agent.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The agent may be elsewhere: its card is asked again.
    pub(crate) fn forget_address(&self) {
        self.directory.forget();
    }

    /// Asks the agent to stop a task; what it answers concerns nobody any more.
    pub(crate) async fn cancel(&self, endpoint: &Endpoint, task: String, forwarded: &Forwarded) {
        let call = Call::CancelTask { id: task, metadata: None };
        let request =
            line::http_request(&self.upstream, endpoint, forwarded, &call).map(|(request, _)| request);
        let answered = match request {
            Err(what) => Ok(Err(what)),
            Ok(request) => {
                let answer =
                    async { self.upstream.client.request(request).await.map_err(|error| error.to_string()) };
                tokio::time::timeout(GOODBYE, answer).await
            }
        };
        let failed = match answered {
            Ok(Ok(response)) if response.status().is_success() => None,
            Ok(Ok(response)) => Some(refusal_words(&response)),
            Ok(Err(what)) => Some(what),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if let Some(reason) = failed {
            tracing::warn!(reason, "a sub-agent of a run that was stopped could not be told");
        }
    }

    /// What the last run of the thread has left, wherever it was driven.
    fn thread_of(&self, ask: &Ask) -> Thread {
        let own = self.take_thread(&ask.input.thread_id);
        match &ask.previous {
            Some(earlier) if own.run.as_ref() != Some(&earlier.run) => Thread::of(earlier),
            _ => own,
        }
    }

    /// The context stays, what waits is taken: of two runs of one thread at once one has the answer.
    fn take_thread(&self, id: &ThreadId) -> Thread {
        let take = |thread: &mut Thread| Thread { waiting: thread.waiting.take(), ..thread.clone() };
        self.threads.change(id, take).unwrap_or_default()
    }

    fn keep_thread(&self, id: &ThreadId, thread: Thread) {
        self.threads.insert(id.detached(), thread);
    }
}

impl A2aSource {
    /// One turn, to its end. In a box: a future holds what is moved into another one once more.
    async fn converse(&self, thread_id: &ThreadId, mut talk: Box<Talk<'_>>, out: &EventSender) {
        talk.run(out).await;
        if talk.was_unreachable() {
            // The agent may come back elsewhere: its card is asked again.
            self.directory.forget();
        }
        let last_words = talk.last_words();
        if let Some(thread) = talk.into_thread() {
            self.keep_thread(thread_id, thread);
        }
        out.send_all(last_words).await;
    }
}

impl RunSource for A2aSource {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let thread_id = &ask.input.thread_id;
            let endpoint = match self.directory.endpoint(&self.upstream, &ask.forwarded).await {
                Ok(endpoint) => endpoint,
                Err(failure) => return out.fail(failure).await,
            };
            let thread = self.thread_of(&ask);
            let talk = Box::new(Talk::new(&self.upstream, &endpoint, &ask, thread));
            self.converse(thread_id, talk, &out).await;
        })
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn finds(&self, checkpoint: &Checkpoint) -> bool {
        Attachment::from_value(&checkpoint.0).is_some()
    }

    fn go_on(&self, ask: Ask, takeover: Takeover, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(at) = Attachment::from_value(&takeover.checkpoint.0) else { return };
            let endpoint = match self.directory.endpoint(&self.upstream, &ask.forwarded).await {
                Ok(endpoint) => endpoint,
                Err(failure) => return out.fail(not_found_again(&failure)).await,
            };
            let talk = Box::new(Talk::going_on(&self.upstream, &endpoint, &ask, at, takeover.history));
            self.converse(&ask.input.thread_id, talk, &out).await;
        })
    }
}

/// The agent's work is there no more, or cannot be seen.
fn not_found_again(failure: &RunFailure) -> RunFailure {
    let message = format!(
        "the gateway that ran this is gone, and the agent could not be asked to go on ({}): run it again",
        &*failure.message
    );
    let mut lost = RunFailure::new(GATEWAY_LOST, message);
    lost.details = Some(json!({ "reason": &*failure.code }));
    lost
}

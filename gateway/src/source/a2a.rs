//! An A2A agent upstream, over JSON-RPC, HTTP+JSON or gRPC.
//!
//! The adapter's [`TaskClient`] says what to send and what came of it; here it is sent, waited for and told back.
//!
//! ```text
//! card? ──► endpoint ──► TaskClient ◄── frames, answers, errors, stop
//!                            └──────► requests (after their pauses), events
//! ```
//!
//! A thread keeps its context, and a task that waits for an answer its memory, so that the next run of the thread
//! goes on with it.

mod endpoint;
mod line;
mod raw;
mod talk;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aqueduct_adapter_a2a::TaskMemory;
use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_core::ThreadId;
use aqueduct_core::service::BoxFuture;

use super::upstream::Upstream;
use super::{Ask, EventSender, RunSource};
use crate::config::{A2aAddress, A2aBinding, A2aVersion};
use endpoint::Directory;
pub(crate) use line::GrpcSettings;
pub(crate) use raw::RawAnswer;
use talk::Talk;

/// Threads whose context is remembered. Past it all are forgotten, and their next runs start new conversations; each
/// costs the ids and, while its task waits, some KiB.
const REMEMBERED_THREADS: usize = 10_000;

/// One agent.
pub(crate) struct A2aSource {
    upstream: Upstream,
    directory: Directory,
    threads: Mutex<HashMap<ThreadId, Thread>>,
}

/// What is known of a thread's conversation with the agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) context_id: String,
    /// The task that waits for an answer.
    pub(super) waiting: Option<(TaskRef, TaskMemory)>,
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
        Self { upstream, directory, threads: Mutex::default() }
    }

    fn take_thread(&self, id: &ThreadId) -> Thread {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = threads.get_mut(id) else { return Thread::default() };
        let waiting = thread.waiting.take();
        Thread { context_id: thread.context_id.clone(), waiting }
    }

    fn keep_thread(&self, id: &ThreadId, thread: Thread) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= REMEMBERED_THREADS && !threads.contains_key(id) {
            threads.clear();
        }
        threads.insert(id.detached(), thread);
    }
}

impl RunSource for A2aSource {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let thread_id = ask.input.thread_id.clone();
            let endpoint = match self.directory.endpoint(&self.upstream, &ask.forwarded).await {
                Ok(endpoint) => endpoint,
                Err(failure) => return out.fail(failure).await,
            };
            let thread = self.take_thread(&thread_id);
            let mut talk = Talk::new(&self.upstream, &endpoint, &ask, thread);
            talk.run(&out).await;
            if talk.was_unreachable() {
                // The agent may come back elsewhere: its card is asked again.
                self.directory.forget();
            }
            let last_words = talk.last_words();
            if let Some(thread) = talk.into_thread() {
                self.keep_thread(&thread_id, thread);
            }
            for event in last_words {
                if !out.send(event).await {
                    return;
                }
            }
        })
    }
}

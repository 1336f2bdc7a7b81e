//! [`TeeRun`]: the state of the tee for a run that is driven here, as an extension of the run.
//!
//! It relates the run to the calls of its agents ([`RunContext`]), attributes lanes to tool calls ([`OpenCalls`]) and holds
//! the state of sub-agents' tasks for later calls ([`Tasks`]). The engine drives the run itself ([`RunHandle`]).
//!
//! ```text
//! engine ── begin ──► anchor, published keys ──► context of the agent's calls
//!        ── observe ──► open tool calls          ── place_lane ──► lane with its tool call
//!        ── catch_up ──► pieces of other replicas ── handle_message ──► a follower
//!        ── handle_replies ──► held calls         ── handle_end ──► held calls and task states are dropped
//! ```
//!
//! Lifetime: lanes hold the run strongly, and the task states hold lanes; `handle_end` breaks that cycle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{ContentBlock, Interrupt, InterruptId, InterruptReply, Source, SourceEvent};
use aqueduct_runlog::RunMeta;
use aqueduct_runs::{RunExtension, RunHandle, RunStart, raised_id};
use serde_json::Value;
use tokio::sync::oneshot;

use super::calls::OpenCalls;
use super::lane::Tasks;
use super::relate::Tee;
use super::remote::{RemoteCalls, take_message};
use super::run_context::RunContext;
use crate::source::Forwarded;

/// A run that is driven here. All methods are called from several tasks, hence the locks; none is held across
/// an await.
#[derive(Debug)]
pub(crate) struct TeeRun {
    /// The run in the engine: its id, its cancel token, its end, and the sender of lane events.
    pub(crate) handle: Arc<RunHandle>,
    pub(super) tee: Arc<Tee>,
    /// The state of sub-agents' tasks for later calls.
    pub(super) tasks: Tasks,
    /// The number of the next lane: two calls of one agent are two lanes.
    next_lane: AtomicU64,
    /// Calls of sub-agents that other replicas forward.
    pub(super) remote: RemoteCalls,
    /// Open tool calls to which lanes of sub-agents may be attributed.
    calls: Mutex<OpenCalls>,
    /// Senders of replies to calls that are held until the user of the run replies, by interrupt.
    questions: Mutex<HashMap<InterruptId, oneshot::Sender<InterruptReply>>>,
    /// The number of the next raised interrupt, which makes its id unique in the run.
    next_question: AtomicU64,
}

impl TeeRun {
    /// Returns the state of a run without calls. The run is related to calls only after `begin`.
    pub(crate) fn new(tee: &Arc<Tee>, handle: &Arc<RunHandle>) -> Self {
        Self {
            handle: Arc::clone(handle),
            tee: Arc::clone(tee),
            tasks: Tasks::default(),
            next_lane: AtomicU64::new(1),
            remote: RemoteCalls::default(),
            calls: Mutex::default(),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
        }
    }

    /// Returns a number that no lane of the run has yet.
    pub(super) fn next_lane(&self) -> u64 {
        self.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    /// Converts an interrupt of a sub-agent into an interrupt of the run. Returns it with the receiver of the
    /// reply, which closes without one if the run ends before. The id is replaced, because ids of sub-agents
    /// are unique only within the sub-agent.
    pub(super) fn raise(&self, question: &Interrupt) -> (Interrupt, oneshot::Receiver<InterruptReply>) {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        let id = raised_id(&RunMeta::id_in(self.handle.id()), number);
        let (sender, reply) = oneshot::channel();
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
        (Interrupt { id, ..question.clone() }, reply)
    }
}

impl RunExtension for TeeRun {
    fn begin(self: Arc<Self>, start: RunStart<'_>) -> BoxFuture<'_, Arc<dyn CallContext>> {
        Box::pin(async move {
            let run_context =
                RunContext::begin(&self.tee, &self, start.input, (start.caller, start.principal));
            // The keys are in the shared log before the agent has them: its first call may arrive at another
            // replica.
            run_context.publish().await;
            Arc::new(TeeContext::new(&Forwarded::from_pairs(start.headers), run_context))
                as Arc<dyn CallContext>
        })
    }

    fn observe(&self, event: &SourceEvent) {
        // Most events are neither; those take no lock.
        if let SourceEvent::Update(update) = event
            && matches!(update.block, ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_))
        {
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).observe(event);
        }
    }

    fn place_lane(&self, event: SourceEvent) -> SourceEvent {
        match event {
            SourceEvent::LaneOpened(source) => {
                let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                SourceEvent::LaneOpened(calls.attribute(source))
            }
            event => event,
        }
    }

    fn catch_up(&self) -> Option<BoxFuture<'_, ()>> {
        (!self.remote.is_empty()).then(|| Box::pin(self.remote.catch_up(self.tee.log())) as BoxFuture<'_, ()>)
    }

    fn handle_message(self: Arc<Self>, message: Value) {
        take_message(&self, message);
    }

    fn handle_lane_dropped(&self) {
        self.tee.metrics().lane_event_dropped();
    }

    fn handle_replies(&self, replies: &[InterruptReply]) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        for reply in replies {
            // A caller that has disconnected needs no reply.
            if let Some(sender) = questions.remove(&reply.id) {
                sender.send(reply.clone()).ok();
            }
        }
    }

    fn handle_end(&self) {
        // Dropping the senders wakes the held calls, whose supervisors then answer.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tasks.close();
    }
}

/// The context of the calls of one agent of a run. Dropping it removes the anchor of the agent once no lane
/// uses it.
#[derive(Debug)]
struct TeeContext {
    /// Headers of the caller, and those that relate the agent's own calls to the run.
    forwarded: Forwarded,
    run_context: RunContext,
}

impl TeeContext {
    /// Returns a context whose headers contain the run context. The inherited headers of another agent's token
    /// are replaced.
    fn new(forwarded: &Forwarded, run_context: RunContext) -> Self {
        Self { forwarded: forwarded.clone().marked(&run_context), run_context }
    }
}

impl CallContext for TeeContext {
    fn headers(&self) -> Vec<(String, String)> {
        self.forwarded.headers()
    }

    fn run_token(&self) -> Option<&str> {
        self.run_context.token()
    }

    fn learn_conversation(&self, id: &str) {
        self.run_context.learn_context(id);
    }

    fn for_lane(&self, source: &Source) -> Option<Arc<dyn CallContext>> {
        Some(Arc::new(Self::new(&self.forwarded, self.run_context.child(source))))
    }
}

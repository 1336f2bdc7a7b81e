//! The lane of a forwarded call: sends its events to the run, and keeps the state that later calls of the task need.
//!
//! Back-pressure: an event is sent to the run's channel before the supervisor receives the bytes it was decoded from. A
//! run whose log is slow thereby slows the call, like any slow reader, for at most [`PATIENCE`]: then the lane is
//! closed as lost (reported once the run accepts events again), and only the supervisor receives the bytes.
//!
//! ```text
//! begin ──┬─ new task ───────────────► open ── handle_* ──► events ──► run
//!         ├─ task that still works ──► the open lane of the earlier call
//!         └─ task with kept state ───► open again, without repeating what was emitted
//! retire ─┬─ task works ──► Rest::Working: the lane stays open for the next call
//!         └─ else ────────► Rest::Closed: source and decoder state
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aqueduct_adapter_a2a::TaskMemory;
use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_core::{Interrupt, InterruptReply, LaneOutcome, RunFailure, Source, SourceEvent, ToolCallId};
use aqueduct_runs::{LaneRefused, LaneSender};
use aqueduct_transport_http::sse;
use bytes::Bytes;

use super::call::{CallKind, LaneCall};
use super::relate::Anchor;
use super::run_context::RunContext;
use super::tap::{Tap, TapConfig};
use crate::telemetry::Metrics;

/// How long a run may delay a call whose events it does not accept. Logs respond within milliseconds; one that takes
/// longer is broken, and must not break the supervisor.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Tasks of one run whose state is kept for a further call. Beyond this limit, the next call of a task starts a lane
/// without the earlier state.
const TASKS: usize = 256;

/// The code of a lane whose supervisor disconnected in the middle of a response.
pub(crate) const CALLER_GONE: &str = "caller_gone";
/// The code of a lane whose events the run did not accept in time.
pub(super) const LANE_LOST: &str = "lane_lost";

/// The state of tasks in a run that further calls may continue. `None` once the run has ended.
#[derive(Debug)]
pub(crate) struct Tasks(Mutex<Option<HashMap<TaskKey, Rest>>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

/// An agent's name and its id for a task: two agents may use the same id.
type TaskKey = (String, String);

/// The state that a call leaves for the next call of its task.
#[derive(Debug)]
enum Rest {
    /// The task has ended or is interrupted, or its stream was cut; the lane is closed.
    Closed { source: Source, memory: Box<TaskMemory> },
    /// The task still works; the lane is open.
    Working(Box<Lane>),
}

impl Tasks {
    /// Removes and returns the state of a task. Two calls at the same time cannot both continue one lane.
    fn take(&self, task: &TaskKey) -> Option<Rest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(task)
    }

    /// Drops all state and accepts no more, because the run has ended. The state holds references to the run.
    pub(crate) fn close(&self) {
        // Dropped after the lock is released: dropping a lane drops its anchor, which locks the index of the
        // tee.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(all);
    }

    /// Stores the state, unless the run has ended or [`TASKS`] is reached.
    fn keep(&self, task: TaskKey, rest: Rest) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks.as_mut().filter(|tasks| tasks.len() < TASKS) {
            tasks.insert(task, rest);
        }
    }
}

/// The lane of one call.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The sub-agent's own anchor: lanes of its calls are attached below this lane.
    anchor: Arc<Anchor>,
    /// The sender to the run, or `None` if the run has ended.
    events: Option<LaneSender>,
    /// Kept to create a new tap for the same lane after a reply.
    config: TapConfig,
    tap: Tap,
    metrics: Arc<Metrics>,
    /// Set once the run did not accept an event within [`PATIENCE`].
    is_lost: bool,
    /// Set once a call waits for the run's cancel on behalf of the task, so that only one call cancels it.
    is_watched: bool,
}

impl Lane {
    /// Returns the lane of a call by `caller`, or `None` for a read of a task without an open lane.
    pub(crate) fn begin(caller: &Arc<Anchor>, call: &LaneCall, metrics: &Arc<Metrics>) -> Option<Self> {
        let task = (call.agent.clone(), call.task_id.clone());
        let rest = caller.run.tasks.take(&task);
        let (source, memory) = match (rest, call.kind) {
            (Some(Rest::Working(mut lane)), kind) => {
                if kind != CallKind::Send {
                    // The call has no message that the reply could replace.
                    lane.tap.decline(&[]);
                }
                return Some(*lane);
            }
            // A read of a task that has ended or waits shows nothing new; the state stays for the next message.
            (Some(closed), CallKind::Look) => {
                caller.run.tasks.keep(task, closed);
                return None;
            }
            (Some(Rest::Closed { source, memory }), _) => (source, *memory),
            (None, CallKind::Send | CallKind::Subscribe) => (new_source(caller, call), TaskMemory::default()),
            (None, CallKind::Look) => return None,
        };
        let config = TapConfig {
            source: source.clone(),
            dialect: call.dialect(),
            limits: sse::DecodeLimits { line: call.frame, event: call.frame },
            message_id: Some(call.message_id.clone()).filter(|id| !id.is_empty()),
            follow_up: !call.task_id.is_empty() && call.kind == CallKind::Send,
            raises: call.raises,
        };
        let anchor = caller.child(source)?;
        let (tap, events) = (Tap::new(config.clone(), memory), anchor.run.handle.lanes());
        let metrics = Arc::clone(metrics);
        Some(Self { anchor, events, config, tap, metrics, is_lost: false, is_watched: false })
    }

    /// Returns the run context for the sub-agent.
    pub(crate) fn run_context(&self) -> RunContext {
        RunContext::Here(Arc::clone(&self.anchor))
    }

    /// Waits until the run is cancelled. Returns the task to cancel.
    pub(crate) async fn cancel_wanted(&self) -> String {
        match self.working_task() {
            Some(task) => {
                self.anchor.run.handle.cancel_token().cancelled().await;
                task
            }
            None => std::future::pending().await,
        }
    }

    /// Returns the task while it works and can be cancelled.
    fn working_task(&self) -> Option<String> {
        self.tap.task().filter(|_| self.tap.is_working()).map(|task| task.task_id)
    }

    /// Shows that the agent has received the request and has not responded yet.
    pub(crate) async fn handle_wait(&mut self) {
        self.tap.handle_wait();
        self.tell().await;
    }

    /// Handles a chunk of an event stream.
    pub(crate) async fn handle_chunk(&mut self, chunk: Bytes) {
        self.tap.handle_chunk(chunk);
        if let Some(task) = self.tap.task() {
            self.anchor.learn_context(&task.context_id);
        }
        self.tell().await;
    }

    /// Handles a response that is not a stream.
    pub(crate) async fn handle_body(&mut self, status: u16, body: &Bytes) {
        self.tap.handle_body(status, body);
        self.tell().await;
    }

    /// Emits a notice about the response for watchers.
    pub(crate) async fn handle_note(&mut self, text: &str) {
        self.tap.handle_note(text);
        self.tell().await;
    }

    /// Handles the end of the event stream.
    pub(crate) async fn handle_end(&mut self) {
        self.tap.handle_end();
        self.tell().await;
    }

    /// Handles a failed call or a cut stream.
    pub(crate) async fn handle_failure(&mut self, failure: RunFailure) {
        self.tap.handle_failure(failure);
        self.tell().await;
    }

    /// Returns `true` if interrupts of the sub-agent are raised to the user of the run.
    pub(crate) fn raises(&self) -> bool {
        self.config.raises && !self.is_lost
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn asks(&self) -> bool {
        self.tap.asks()
    }

    /// Returns `true` if only the next events show whether the sub-agent asks again.
    pub(crate) fn restates(&self) -> bool {
        self.tap.restates()
    }

    /// Returns the task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.tap.task()
    }

    /// Raises the interrupts of the sub-agent as interrupts of the run, and waits for the replies. Returns `None`
    /// without a reply: the run has ended, or the time is over. The supervisor answers then.
    pub(crate) async fn raise(&mut self) -> Option<Vec<InterruptReply>> {
        let questions = self.tap.take_questions();
        // A lane that is lost, or whose run has ended, cannot emit the interrupt.
        let replies = match self.events.clone().filter(|_| !self.is_lost) {
            Some(events) => self.replies(&events, &questions).await,
            None => None,
        };
        if replies.is_none() {
            self.tap.decline(&questions);
            self.tell().await;
        }
        replies
    }

    /// Sends the interrupts to the run and waits for all replies. Ids are translated back to those of the
    /// sub-agent.
    async fn replies(&self, events: &LaneSender, questions: &[Interrupt]) -> Option<Vec<InterruptReply>> {
        // All interrupts are requested before the first reply is awaited: the run ends with all of them.
        let mut waiting = Vec::new();
        for question in questions {
            let (interrupt, reply) = self.anchor.run.raise(question);
            let source = self.anchor.source.clone();
            events
                .send(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) }, PATIENCE)
                .await
                .ok()?;
            waiting.push((question.id.clone(), reply));
        }
        let mut replies = Vec::new();
        for (id, reply) in waiting {
            replies.push(InterruptReply { id, ..reply.await.ok()? });
        }
        Some(replies)
    }

    /// Continues the task with the user's reply: further events belong to the same lane, in the run that replied.
    pub(crate) fn go_on(&mut self, message_id: &str) {
        let config =
            TapConfig { message_id: Some(message_id.to_owned()), follow_up: true, ..self.config.clone() };
        let fresh = Tap::new(config.clone(), TaskMemory::default());
        if let Some(memory) = std::mem::replace(&mut self.tap, fresh).into_memory() {
            self.tap = Tap::new(config, memory);
        }
    }

    /// Stores the state that a further call of the task needs. For a task that works without a stream, the future
    /// returns its id once the run is cancelled and the task is to be cancelled too. Later calls report its progress.
    pub(crate) fn retire(mut self) -> impl Future<Output = Option<String>> + Send + 'static {
        let task = self.working_task();
        let is_first = !std::mem::replace(&mut self.is_watched, true);
        let run = Arc::clone(&self.anchor.run);
        self.leave();
        async move {
            let is_stopped = task.is_some() && is_first && run.handle.was_cancelled().await;
            task.filter(|_| is_stopped)
        }
    }

    /// Stores the state under the name of the agent and the id of the task. A response without a task leaves
    /// nothing.
    fn leave(self) {
        let run = Arc::clone(&self.anchor.run);
        let Some(task) = self.tap.task() else { return };
        let task = (self.anchor.source.name().to_owned(), task.task_id);
        if self.tap.is_working() && !self.is_lost {
            return run.tasks.keep(task, Rest::Working(Box::new(self)));
        }
        let source = self.anchor.source.clone();
        if let Some(memory) = self.tap.into_memory() {
            run.tasks.keep(task, Rest::Closed { source, memory: Box::new(memory) });
        }
    }

    /// Sends the decoded events to the run. An event that the run does not accept is counted; after a time-out
    /// all later ones are.
    async fn tell(&mut self) {
        while let Some(event) = self.tap.poll_event() {
            if self.is_lost {
                self.metrics.lane_event_dropped();
                continue;
            }
            let sent = match &self.events {
                Some(events) => events.send(event, PATIENCE).await,
                None => Err(LaneRefused::Ended),
            };
            match sent {
                Ok(()) => {}
                Err(LaneRefused::Ended) => self.metrics.lane_event_dropped(),
                Err(LaneRefused::Slow(event)) => self.lose(*event),
            }
        }
    }

    /// Sends the event that found no room, and the end of the lane after it, once the run accepts them.
    fn lose(&mut self, event: SourceEvent) {
        self.is_lost = true;
        let source = self.anchor.source.clone();
        tracing::warn!(lane = source.name(), "the run takes no events: a sub-agent is not shown any further");
        let outcome = LaneOutcome::Failed(log_too_slow());
        let Some(events) = self.events.clone() else { return };
        tokio::spawn(async move {
            for event in [event, SourceEvent::LaneClosed { source, outcome }] {
                events.send_slowly(event).await;
            }
        });
    }
}

/// Returns the failure of a lane whose run does not accept its events in time.
pub(super) fn log_too_slow() -> RunFailure {
    let message = "the run's log was too slow to show any more of this agent's work; the agent goes on";
    RunFailure::new(LANE_LOST, message)
}

/// Returns a new source for each call: two calls of one agent are two lanes.
fn new_source(caller: &Arc<Anchor>, call: &LaneCall) -> Source {
    let key = format!("{}#{}", call.agent, caller.run.next_lane());
    let mut source = caller.source.child(key).named(call.agent.clone());
    if !call.description.is_empty() {
        source = source.described(call.description.clone());
    }
    match &call.tool_call {
        Some(id) if !id.is_empty() => source.called_by(ToolCallId::new(id.clone())),
        _ => source,
    }
}

//! [`Lane`]: the lane of a forwarded call. Sends the decoded events to the run, and stores the state that the next call of the
//! same task needs.
//!
//! Back-pressure: an event is sent to the run's channel before the supervisor receives the bytes it was decoded from. So a
//! run whose log is slow delays the call, but at most by [`PATIENCE`]: then the lane is lost. It is closed as failed once the
//! run accepts events again, and the supervisor still receives all bytes.
//!
//! ```text
//! begin ──┬─ new task ──────────────────► new lane ─────────────────────┬── handle ────► events ──► run
//!         ├─ KeptState::Working ────────► the open lane of the last call┤
//!         ├─ KeptState::Closed ─────────► the same lane, opened again ──┘ (emitted content is not repeated)
//!         └─ read of a task without an open lane ──► no lane
//! retire ─┬─ the task still works ──► KeptState::Working: the lane stays open for the next call
//!         └─ otherwise ─────────────► KeptState::Closed: source and decoder state
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aqueduct_adapter_a2a::TaskMemory;
use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_core::{Interrupt, InterruptReply, LaneOutcome, RunFailure, Source, SourceEvent, ToolCallId};
use aqueduct_runs::{LaneRefused, LaneSender};
use aqueduct_transport_http::sse;

use super::call::{CallKind, LaneCall};
use super::relate::Anchor;
use super::run_context::RunContext;
use super::tap::{Step, Tap, TapConfig};
use crate::telemetry::Metrics;

/// How long a call waits for a run to accept an event. Logs respond within milliseconds; a log that takes longer than this is
/// broken, and must not delay the supervisor any further.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The most tasks of one run whose state is kept. The next call of a further task opens a new lane, without the earlier state.
const TASKS: usize = 256;

/// The failure code of a lane whose supervisor disconnected before the end of the response.
pub(crate) const CALLER_GONE: &str = "caller_gone";
/// The failure code of a lane whose events the run did not accept within [`PATIENCE`].
pub(super) const LANE_LOST: &str = "lane_lost";

/// The kept states of the tasks of one run, by task. `None` once the run has ended.
#[derive(Debug)]
pub(crate) struct Tasks(Mutex<Option<HashMap<TaskKey, KeptState>>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

/// The name of an agent and its id of a task: two agents may use the same task id.
type TaskKey = (String, String);

/// The state of a task between two calls.
#[derive(Debug)]
enum KeptState {
    /// The task has ended or is interrupted, or its stream was cut; the lane is closed.
    Closed { source: Source, memory: Box<TaskMemory> },
    /// The task still works; the lane is open.
    Working(Box<Lane>),
}

impl Tasks {
    /// Removes and returns the state of a task, so that of two concurrent calls only one continues the lane.
    fn take(&self, task: &TaskKey) -> Option<KeptState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(task)
    }

    /// Drops all state and accepts no more, because the run has ended. The state holds references to the run.
    pub(crate) fn close(&self) {
        // Dropped after the lock is released, because dropping a lane drops its anchor, which locks the index of the tee.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(all);
    }

    /// Stores the state of a task, unless the run has ended or [`TASKS`] is reached.
    fn keep(&self, task: TaskKey, state: KeptState) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks.as_mut().filter(|tasks| tasks.len() < TASKS) {
            tasks.insert(task, state);
        }
    }
}

/// The lane of one call.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The sub-agent's anchor: the lanes of agents that the sub-agent calls are attached below this lane.
    anchor: Arc<Anchor>,
    /// The sender to the run, or `None` if the run has ended.
    events: Option<LaneSender>,
    /// The configuration of the tap, to create a new one for the same lane after a reply.
    config: TapConfig,
    tap: Tap,
    metrics: Arc<Metrics>,
    /// Set once the run did not accept an event within [`PATIENCE`].
    is_lost: bool,
    /// Set once a retired call waits for the cancel of the run, so that the task is cancelled only once.
    is_watched: bool,
}

impl Lane {
    /// Returns the lane of a call by `caller`. Returns `None` for a read or cancel of a task without an open lane, and if the tee
    /// is gone.
    pub(crate) fn begin(caller: &Arc<Anchor>, call: &LaneCall, metrics: &Arc<Metrics>) -> Option<Self> {
        let task = (call.agent.clone(), call.task_id.clone());
        let kept = caller.run.tasks.take(&task);
        let (source, memory) = match (kept, call.kind) {
            (Some(KeptState::Working(mut lane)), kind) => {
                if kind != CallKind::Send {
                    // A reply of the user is sent in place of the call's message, and this call has none.
                    lane.tap.decline(&[]);
                }
                return Some(*lane);
            }
            // A read of a task that has ended or is interrupted has no new content. The state is kept for the next message.
            (Some(closed), CallKind::Look) => {
                caller.run.tasks.keep(task, closed);
                return None;
            }
            (Some(KeptState::Closed { source, memory }), _) => (source, *memory),
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

    /// Waits until the run is cancelled, and returns the id of the task to cancel. Pending without end if no task works.
    pub(crate) async fn cancel_wanted(&self) -> String {
        match self.working_task() {
            Some(task) => {
                self.anchor.run.handle.cancel_token().cancelled().await;
                task
            }
            None => std::future::pending().await,
        }
    }

    /// Returns the id of the task while it works and can be cancelled.
    fn working_task(&self) -> Option<String> {
        self.tap.task().filter(|_| self.tap.is_working()).map(|task| task.task_id)
    }

    /// Handles a step of the response, and sends the events of it to the run.
    pub(crate) async fn handle(&mut self, step: Step) {
        match step {
            Step::Wait => self.tap.handle_wait(),
            Step::Chunk(chunk) => {
                self.tap.handle_chunk(chunk);
                if let Some(task) = self.tap.task() {
                    self.anchor.learn_context(&task.context_id);
                }
            }
            Step::Body { status, body } => self.tap.handle_body(status, &body),
            Step::Notice(text) => self.tap.handle_notice(&text),
            Step::End => self.tap.handle_end(),
            Step::Failure(failure) => self.tap.handle_failure(failure),
        }
        self.send_events().await;
    }

    /// Returns `true` if interrupts of the sub-agent are raised to the user of the run.
    pub(crate) fn raises(&self) -> bool {
        self.config.raises && !self.is_lost
    }

    /// Returns `true` if the sub-agent has raised interrupts for the user of the run.
    pub(crate) fn waits_for_reply(&self) -> bool {
        self.tap.waits_for_reply()
    }

    /// Returns `true` if the sub-agent has repeated an interrupt that was answered: the next events show whether it waits again.
    pub(crate) fn restates(&self) -> bool {
        self.tap.restates()
    }

    /// Returns the task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.tap.task()
    }

    /// Raises the interrupts of the sub-agent as interrupts of the run, and waits for the replies. Returns `None` if the run ends
    /// or does not accept an interrupt in time: the interrupts then become notices, and the supervisor answers them.
    pub(crate) async fn raise(&mut self) -> Option<Vec<InterruptReply>> {
        let interrupts = self.tap.take_interrupts();
        // A lane that is lost, or whose run has ended, cannot emit interrupts.
        let replies = match self.events.clone().filter(|_| !self.is_lost) {
            Some(events) => self.replies(&events, &interrupts).await,
            None => None,
        };
        if replies.is_none() {
            self.tap.decline(&interrupts);
            self.send_events().await;
        }
        replies
    }

    /// Sends the interrupts to the run and waits for all replies. The replies have the sub-agent's own ids of the interrupts.
    async fn replies(&self, events: &LaneSender, interrupts: &[Interrupt]) -> Option<Vec<InterruptReply>> {
        // All interrupts are emitted before the first reply is awaited: the run suspends with all of them at once.
        let mut waiting = Vec::new();
        for own in interrupts {
            let (interrupt, reply) = self.anchor.run.raise(own);
            let source = self.anchor.source.clone();
            let requested = SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) };
            events.send(requested, PATIENCE).await.ok()?;
            waiting.push((own.id.clone(), reply));
        }
        let mut replies = Vec::new();
        for (id, reply) in waiting {
            replies.push(InterruptReply { id, ..reply.await.ok()? });
        }
        Some(replies)
    }

    /// Continues the task with the user's reply, sent as the message `message_id`: later events belong to the same lane, in the
    /// run of the reply.
    pub(crate) fn continue_with_reply(&mut self, message_id: &str) {
        let config =
            TapConfig { message_id: Some(message_id.to_owned()), follow_up: true, ..self.config.clone() };
        let fresh = Tap::new(config.clone(), TaskMemory::default());
        if let Some(memory) = std::mem::replace(&mut self.tap, fresh).into_memory() {
            self.tap = Tap::new(config, memory);
        }
    }

    /// Ends the call, and stores the state that the next call of the task needs. If the task still works, the returned future
    /// waits for the end of the run, and returns the id of the task if the run was cancelled: the task must be cancelled too.
    pub(crate) fn retire(mut self) -> impl Future<Output = Option<String>> + Send + 'static {
        let task = self.working_task();
        let is_first = !std::mem::replace(&mut self.is_watched, true);
        let run = Arc::clone(&self.anchor.run);
        self.store();
        async move {
            let is_stopped = task.is_some() && is_first && run.handle.was_cancelled().await;
            task.filter(|_| is_stopped)
        }
    }

    /// Stores the state under the name of the agent and the id of the task. Nothing is stored after a response without a task.
    fn store(self) {
        let run = Arc::clone(&self.anchor.run);
        let Some(task) = self.tap.task() else { return };
        let task = (self.anchor.source.name().to_owned(), task.task_id);
        if self.tap.is_working() && !self.is_lost {
            return run.tasks.keep(task, KeptState::Working(Box::new(self)));
        }
        let source = self.anchor.source.clone();
        if let Some(memory) = self.tap.into_memory() {
            run.tasks.keep(task, KeptState::Closed { source, memory: Box::new(memory) });
        }
    }

    /// Sends the decoded events to the run. An event that the run does not accept is dropped and counted; after a timeout of
    /// [`PATIENCE`] so are all later events of the lane.
    async fn send_events(&mut self) {
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

    /// Marks the lane as lost. A background task sends the event that timed out, and the end of the lane after it, as soon as the
    /// run accepts them.
    fn lose(&mut self, event: SourceEvent) {
        self.is_lost = true;
        let source = self.anchor.source.clone();
        tracing::warn!(
            lane = source.name(),
            "the run does not accept events in time: the lane of a sub-agent is closed"
        );
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
    let message =
        "the log of the run was too slow to show the rest of this agent's work; the agent continues";
    RunFailure::new(LANE_LOST, message)
}

/// Returns a source with a new key: two tasks of one agent are two lanes.
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

//! A tapped call: its events to the run, and what is left of it when it ends.
//!
//! Back-pressure: an event goes into the run's channel before the supervisor gets the bytes it was read from. A run
//! whose log is slow so holds the call back, as any slow reader would; but not for ever: after [`PATIENCE`] the lane is
//! given up (and says so once the run takes events again), and the supervisor gets its bytes alone.

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
use super::tap::{Tap, TapConfig};
use super::trail::Trail;
use crate::telemetry::Metrics;

/// How long a run may hold back a call whose events it does not take. Logs answer within milliseconds; one that takes
/// longer than this is broken, and the supervisor must not break with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Tasks of one run that may go on with a further call. Past it, a task's next call has a lane that knows nothing of
/// those before.
const TASKS: usize = 256;

/// The supervisor went away in the middle of an answer.
pub(crate) const CALLER_GONE: &str = "caller_gone";
/// The run did not take what the lane said.
pub(super) const LANE_LOST: &str = "lane_lost";

/// The tasks of a run that further calls may go on with.
#[derive(Debug)]
pub(crate) struct Tasks(Mutex<Option<HashMap<TaskKey, Rest>>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

/// An agent's name and its id for a task: two agents may have one id.
type TaskKey = (String, String);

/// What is left of a call.
#[derive(Debug)]
enum Rest {
    /// Its task came to rest, or its stream broke off; the lane is closed.
    Closed { source: Source, memory: Box<TaskMemory> },
    /// Its task works on; the lane is open.
    Working(Box<Lane>),
}

impl Tasks {
    fn take(&self, task: &TaskKey) -> Option<Rest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(task)
    }

    /// Forgets all, and keeps no more: the run has ended. What is kept holds the run.
    pub(crate) fn close(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(all);
    }

    fn keep(&self, task: TaskKey, rest: Rest) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks.as_mut().filter(|tasks| tasks.len() < TASKS) {
            tasks.insert(task, rest);
        }
    }
}

/// One call's lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The sub-agent's own anchor: its calls belong below this lane.
    anchor: Arc<Anchor>,
    /// The way into the run; none if the run had ended.
    events: Option<LaneSender>,
    config: TapConfig,
    tap: Tap,
    metrics: Arc<Metrics>,
    is_lost: bool,
    is_watched: bool,
}

impl Lane {
    /// The lane of a call that `caller` makes; none for a look at a task of which nothing is known.
    pub(crate) fn begin(caller: &Arc<Anchor>, call: &LaneCall, metrics: &Arc<Metrics>) -> Option<Self> {
        let task = (call.agent.clone(), call.task_id.clone());
        let rest = caller.run.tasks.take(&task);
        let (source, memory) = match (rest, call.kind) {
            (Some(Rest::Working(mut lane)), kind) => {
                if kind != CallKind::Send {
                    // There is no message that the reply could take the place of.
                    lane.tap.decline(&[]);
                }
                return Some(*lane);
            }
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

    /// What the sub-agent is handed.
    pub(crate) fn trail(&self) -> Trail {
        Trail::Here(Arc::clone(&self.anchor))
    }

    /// Waits until the task is to be cancelled, because its run is stopped, and names it.
    pub(crate) async fn cancel_wanted(&self) -> String {
        match self.working_task() {
            Some(task) => {
                self.anchor.run.handle.cancel_token().cancelled().await;
                task
            }
            None => std::future::pending().await,
        }
    }

    /// The task, while it works and can be cancelled.
    fn working_task(&self) -> Option<String> {
        self.tap.task().filter(|_| self.tap.is_working()).map(|task| task.task_id)
    }

    /// The agent was asked, and takes its time.
    pub(crate) async fn handle_wait(&mut self) {
        self.tap.handle_wait();
        self.tell().await;
    }

    /// Takes a piece of an event stream.
    pub(crate) async fn handle_chunk(&mut self, chunk: Bytes) {
        self.tap.handle_chunk(chunk);
        if let Some(task) = self.tap.task() {
            self.anchor.learn_context(&task.context_id);
        }
        self.tell().await;
    }

    /// Takes an answer that is no stream.
    pub(crate) async fn handle_body(&mut self, status: u16, body: &Bytes) {
        self.tap.handle_body(status, body);
        self.tell().await;
    }

    /// Something about the answer that whoever watches should know.
    pub(crate) async fn handle_note(&mut self, text: &str) {
        self.tap.handle_note(text);
        self.tell().await;
    }

    /// The event stream is over.
    pub(crate) async fn handle_end(&mut self) {
        self.tap.handle_end();
        self.tell().await;
    }

    /// No answer, or no more of it.
    pub(crate) async fn handle_failure(&mut self, failure: RunFailure) {
        self.tap.handle_failure(failure);
        self.tell().await;
    }

    /// Returns `true` if what the sub-agent asks is for the user of the run.
    pub(crate) fn raises(&self) -> bool {
        self.config.raises && !self.is_lost
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn asks(&self) -> bool {
        self.tap.asks()
    }

    /// Returns `true` if what follows shows whether the sub-agent asks again.
    pub(crate) fn restates(&self) -> bool {
        self.tap.restates()
    }

    /// Returns the task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.tap.task()
    }

    /// Raises what the sub-agent asks as interrupts of the run, and waits for the replies. Returns `None` if there are none:
    /// the run has ended, or no reply came in time. The supervisor answers then.
    pub(crate) async fn raise(&mut self) -> Option<Vec<InterruptReply>> {
        let questions = self.tap.take_questions();
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

    async fn replies(&self, events: &LaneSender, questions: &[Interrupt]) -> Option<Vec<InterruptReply>> {
        let mut waiting = Vec::new();
        for question in questions {
            let (interrupt, reply) = self.anchor.run.raise(question);
            let source = self.anchor.source.clone();
            events.send(SourceEvent::InterruptRequested { source, interrupt }, PATIENCE).await.ok()?;
            waiting.push((question.id.clone(), reply));
        }
        let mut replies = Vec::new();
        for (id, reply) in waiting {
            replies.push(InterruptReply { id, ..reply.await.ok()? });
        }
        Some(replies)
    }

    /// The task goes on with the user's reply: what the sub-agent says then is the same lane, in the run that replied.
    pub(crate) fn go_on(&mut self, message_id: &str) {
        let config =
            TapConfig { message_id: Some(message_id.to_owned()), follow_up: true, ..self.config.clone() };
        let fresh = Tap::new(config.clone(), TaskMemory::default());
        if let Some(memory) = std::mem::replace(&mut self.tap, fresh).into_memory() {
            self.tap = Tap::new(config, memory);
        }
    }

    /// Leaves what a further call of the task needs, at once. A task that works on without a stream is watched over: gives
    /// it once it is to be cancelled, because its run is stopped. What is said of it comes with later calls.
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

    /// The event that found no room still goes, and the end of the lane after it, whenever the run takes them.
    fn lose(&mut self, event: SourceEvent) {
        self.is_lost = true;
        let source = self.anchor.source.clone();
        tracing::warn!(lane = source.name(), "the run takes no events: a sub-agent is not shown any further");
        let message = "the run's log was too slow to show any more of this agent's work; the agent goes on";
        let outcome = LaneOutcome::Failed(RunFailure::new(LANE_LOST, message));
        let Some(events) = self.events.clone() else { return };
        tokio::spawn(async move {
            for event in [event, SourceEvent::LaneClosed { source, outcome }] {
                events.send_slowly(event).await;
            }
        });
    }
}

/// A source of its own for every call: two calls of one agent are two lanes.
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

//! The stream of one watcher: a snapshot, then every event after it, from the run log, at the watcher's own pace.
//!
//! ```text
//! deciding ──► opening ──► live ──► settling ──► done
//!    │            ▲                    │
//!    │ message    │ another turn       │ the turn was interrupted, and the watcher stays
//!    ▼            └──── waiting ◄──────┘
//!   done
//! ```
//!
//! | state | waits for |
//! |---|---|
//! | deciding | the form of the response: a task or a message (streams of a message only) |
//! | opening | the events of the turn's run, after the last one that was sent |
//! | live | the next event; if the events are cut, they are opened again, unless there was no event since the last cut |
//! | settling | the recorder, until it has folded the end of the turn |
//! | waiting | another turn, at this replica or (shared log) at another one |
//!
//! Invariants: every watcher has its own cursor, so no watcher waits for another or loses events; the last status of a
//! turn is sent only after it is folded, so a client that reads the task afterwards finds the status in it; a snapshot
//! contains all items that any watcher was sent; a watcher that misses events ends with an error.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_core::service::{BoxFuture, Caller, EventStream};
use futures_core::Stream;

use super::agent::{AgentServer, Shared};
use super::answer::TaskItems;
use super::chunk::TaskItem;
use super::items::Items;
use super::task::{Reply, TaskEntry, TaskState};
use super::{ServerError, TaskStream};
use crate::wire::{ErrorKind, Message, StateClass, StatusUpdate, StreamItem, Task};

/// The event after which a watcher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The end of the turn.
    Turn,
    /// The end of the task.
    Task,
}

/// The form of a response, once it is known.
pub(super) enum Decided {
    Task,
    Message(Box<Message<'static>>),
}

type Item = Result<StreamItem<'static>, ServerError>;

/// The state of a watcher; see the chart of the module.
enum Step {
    /// Contains the snapshot, which is the first item if the response is a task.
    Deciding(BoxFuture<'static, Result<Decided, ServerError>>, Box<Task<'static>>),
    Opening(BoxFuture<'static, Result<EventStream, ServerError>>),
    Live(EventStream),
    Settling(BoxFuture<'static, Settled>),
    /// Completes with `true` if another turn has started, and with `false` if the task was dropped.
    Waiting(BoxFuture<'static, bool>),
    Done,
}

/// How a turn ended.
struct Settled {
    /// The last status of the turn. `None` if the task was dropped or the events were cut.
    end: Option<Box<StatusUpdate<'static>>>,
    /// The number of the last event that is folded.
    last: u64,
    /// Set if the events were cut: the run continues at another replica, or the log cannot be read.
    is_cut: bool,
}

/// One watcher. Dropping it drops its cursor and nothing else.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    entry: Arc<TaskEntry>,
    caller: Caller,
    /// Converts the events of the turn after the snapshot.
    converter: Items,
    /// A buffer for the items of one event.
    converted: Vec<StreamItem<'static>>,
    /// Items that were not sent yet: the items of one event, or the snapshot.
    queue: VecDeque<StreamItem<'static>>,
    step: Step,
    turn: usize,
    /// The number of the last event that was read in this turn.
    seen: u64,
    /// Set if the events of this turn were cut, until the next event.
    was_cut: bool,
    /// Set from the opening of the events until their first poll is pending or returns an event: events that end before that
    /// are those of a run that has ended.
    is_fresh: bool,
    until: Until,
}

impl Watcher {
    fn new(shared: &Arc<Shared>, entry: &Arc<TaskEntry>, caller: Caller, turn: usize, until: Until) -> Self {
        Self {
            shared: Arc::clone(shared),
            entry: Arc::clone(entry),
            caller,
            converter: Items::new(&shared.config, &entry.id, &entry.context_id),
            converted: Vec::new(),
            queue: VecDeque::new(),
            step: Step::Done,
            turn,
            seen: 0,
            was_cut: false,
            is_fresh: false,
            until,
        }
    }

    /// Returns the response to a message: the task when the turn started, and the events of the turn.
    pub(super) fn of_turn(
        shared: &Arc<Shared>,
        entry: &Arc<TaskEntry>,
        caller: Caller,
        turn: usize,
        first: Task<'static>,
    ) -> TaskStream {
        let mut watcher = Self::new(shared, entry, caller, turn, Until::Turn);
        let decision = decide(Arc::clone(shared), Arc::clone(entry));
        watcher.step = Step::Deciding(Box::pin(decision), Box::new(first));
        TaskStream::new(watcher)
    }

    /// Returns a subscription: the current task, and all events until it ends.
    ///
    /// Snapshot, position and converter are taken under one lock, so that the events continue exactly after the
    /// snapshot.
    ///
    /// # Errors
    ///
    /// Returns `UnsupportedOperation` if the task has ended (spec 3.1.6).
    pub(super) fn of_task(
        shared: &Arc<Shared>,
        entry: &Arc<TaskEntry>,
        caller: Caller,
    ) -> Result<TaskStream, ServerError> {
        let mut watcher = Self::new(shared, entry, caller, 0, Until::Task);
        let state = entry.lock();
        if state.class() == StateClass::Terminal {
            return Err(super::agent::has_ended(&state));
        }
        watcher.turn = state.last_turn();
        let turn = state.turns.get(watcher.turn);
        watcher.seen = turn.map_or(0, |turn| turn.folded);
        let is_over = turn.is_none_or(|turn| turn.end.is_some());
        watcher.converter = state.converter.clone();
        watcher.queue.push_back(StreamItem::Task(state.folded.snapshot(None, true)));
        drop(state);
        watcher.step = if is_over { watcher.waiting() } else { watcher.opening() };
        Ok(TaskStream::new(watcher))
    }

    /// Returns the step that opens the events of the turn after the last event that was read.
    fn opening(&self) -> Step {
        let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
        let (caller, turn, after) = (self.caller.clone(), self.turn, self.seen);
        Step::Opening(Box::pin(async move {
            let run = entry.lock().turns.get(turn).and_then(|turn| turn.run.clone());
            match run {
                Some(run) => Ok(shared.service.watch(&caller, &run, after).await?),
                // A turn without a run has only its end.
                None => Ok(Box::pin(Nothing) as EventStream),
            }
        }))
    }

    /// Returns the step that waits until the recorder has folded the end of the turn. The recorder and the watcher read
    /// the same events, and either can be faster.
    fn settling(&self) -> Step {
        let (entry, turn) = (Arc::clone(&self.entry), self.turn);
        Step::Settling(Box::pin(async move { entry.wait(|state| settled(state, turn)).await }))
    }

    /// Returns the step that waits for another turn. A turn that starts at this replica wakes the watcher; for turns of
    /// other replicas a shared log is read every `turn_poll`.
    fn waiting(&self) -> Step {
        let (shared, entry, next) = (Arc::clone(&self.shared), Arc::clone(&self.entry), self.turn + 1);
        let caller = self.caller.clone();
        Step::Waiting(Box::pin(async move {
            let server = AgentServer { shared };
            let log = server.shared.host.task_log().filter(|log| log.is_shared());
            let begun = || {
                entry.wait(|state| {
                    let has_begun = state.turns.len() > next;
                    (has_begun || state.is_removed).then_some(has_begun)
                })
            };
            let Some(log) = log else { return begun().await };
            loop {
                let pause = server.shared.host.sleep(server.shared.config.turn_poll);
                if let Some(has_begun) = within(begun(), pause).await {
                    return has_begun;
                }
                // If the log cannot be read, it is read again after the next pause.
                server.find_turn(&log, &caller, &entry).await.ok();
            }
        }))
    }

    /// Handles the end of the turn: returns its last status, or an error if the stream cannot continue.
    fn handle_settled(&mut self, settled: Settled) -> Item {
        let Some(end) = settled.end else {
            self.step = Step::Done;
            if settled.is_cut {
                return Err(cut());
            }
            return Err(ServerError::task_not_found(&self.entry.id));
        };
        // The turn has events that this watcher did not read.
        if self.seen < settled.last {
            self.step = Step::Done;
            let message = "this stream missed events of the task: subscribe to it again";
            return Err(ServerError::new(ErrorKind::Internal, message));
        }
        let is_over = self.until == Until::Turn || end.status.state.class() == StateClass::Terminal;
        self.step = if is_over { Step::Done } else { self.waiting() };
        Ok(StreamItem::Status(*end))
    }

    /// Handles the end of events without a terminal event. Returns an error if the events were cut twice without an event in between.
    fn handle_end(&mut self) -> Result<(), ServerError> {
        let mut state = self.entry.lock();
        let has_run = state.turns.get(self.turn).is_some_and(|turn| turn.run.is_some());
        let is_end = !has_run || (self.is_fresh && self.seen > 0);
        if is_end || (self.was_cut && settled(&mut state, self.turn).is_some()) {
            drop(state);
            self.step = self.settling();
            return Ok(());
        }
        drop(state);
        if std::mem::replace(&mut self.was_cut, true) {
            self.step = Step::Done;
            return Err(cut());
        }
        self.step = self.opening();
        Ok(())
    }
}

/// Returns the error of a stream that a client can resume.
fn cut() -> ServerError {
    let message = "the events of the task were cut, and the task continues: subscribe to it again";
    ServerError::new(ErrorKind::Unavailable, message)
}

/// Returns how a turn ended. Returns `None` while the turn continues.
fn settled(state: &mut TaskState, turn: usize) -> Option<Settled> {
    let of_turn = state.turns.get(turn);
    let end = of_turn.and_then(|turn| turn.end.clone());
    let last = of_turn.map_or(0, |turn| turn.folded);
    let is_cut = state.is_cut && !state.is_removed;
    (end.is_some() || state.is_removed || is_cut).then_some(Settled { end, last, is_cut })
}

/// Waits until the form of the response is known; for a message, until it is complete.
///
/// If the agent emits no content within `reply_window`, the response is a task, because the client waits for its first
/// item.
///
/// # Errors
///
/// Returns `TaskNotFound` if the task was dropped, and the error of an agent that did not complete its message.
pub(super) async fn decide(shared: Arc<Shared>, entry: Arc<TaskEntry>) -> Result<Decided, ServerError> {
    let window = shared.host.sleep(shared.config.reply_window);
    if let Some(decided) = within(entry.wait(decision), window).await {
        return decided;
    }
    entry.lock().close_window();
    entry.wait(decision).await
}

/// Returns the form of the response. Returns `None` if it is not known yet, or the message is not complete.
fn decision(state: &mut TaskState) -> Option<Result<Decided, ServerError>> {
    match &state.reply {
        Reply::Undecided if state.is_removed => Some(Err(ServerError::task_not_found(&state.folded.task.id))),
        Reply::Undecided => None,
        Reply::Task => Some(Ok(Decided::Task)),
        Reply::Message(draft) => {
            let outcome = draft.outcome.clone()?;
            Some(outcome.map(|()| Decided::Message(Box::new(draft.message.clone()))))
        }
    }
}

/// Returns the result of `work`. Returns `None` if `window` elapses first.
pub(super) async fn within<T>(
    work: impl Future<Output = T>,
    mut window: BoxFuture<'static, ()>,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(found) => Poll::Ready(Some(found)),
        Poll::Pending => window.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// A stream without events.
struct Nothing;

impl Stream for Nothing {
    type Item = aqueduct_core::service::NumberedEvent;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(None)
    }
}

/// Wraps an item that is not a chunk.
fn whole(item: Item) -> Poll<Option<Result<TaskItem, ServerError>>> {
    Poll::Ready(Some(item.map(|item| TaskItem::Item(Box::new(item)))))
}

impl TaskItems for Watcher {
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TaskItem, ServerError>>> {
        let this = self;
        loop {
            if let Some(item) = this.queue.pop_front() {
                return whole(Ok(item));
            }
            match &mut this.step {
                Step::Done => return Poll::Ready(None),
                Step::Deciding(decision, first) => {
                    let decided = ready!(decision.as_mut().poll(cx));
                    let first = std::mem::take(&mut **first);
                    match decided {
                        Ok(Decided::Task) => {
                            this.step = this.opening();
                            return whole(Ok(StreamItem::Task(first)));
                        }
                        Ok(Decided::Message(message)) => {
                            this.step = Step::Done;
                            return whole(Ok(StreamItem::Message(*message)));
                        }
                        Err(error) => {
                            this.step = Step::Done;
                            return whole(Err(error));
                        }
                    }
                }
                Step::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(events) => {
                        this.is_fresh = true;
                        this.step = Step::Live(events);
                    }
                    Err(error) => {
                        this.step = Step::Done;
                        return whole(Err(error));
                    }
                },
                Step::Live(events) => match events.as_mut().poll_next(cx) {
                    Poll::Pending => {
                        this.is_fresh = false;
                        return Poll::Pending;
                    }
                    Poll::Ready(None) => {
                        if let Err(error) = this.handle_end() {
                            return whole(Err(error));
                        }
                    }
                    Poll::Ready(Some(event)) => {
                        (this.is_fresh, this.was_cut) = (false, false);
                        this.seen = event.number;
                        this.entry.note_sent(this.turn, event.number);
                        if let Some(chunk) = this.converter.chunk(&event.event) {
                            return Poll::Ready(Some(Ok(TaskItem::Chunk(chunk))));
                        }
                        this.converter.convert(&event.event, &mut this.converted);
                        // The last status is sent by `handle_settled`, as it was folded, with its time.
                        let is_end = |item: &StreamItem<'_>| matches!(item, StreamItem::Status(update) if update.is_final);
                        this.queue.extend(this.converted.drain(..).filter(|item| !is_end(item)));
                        if event.event.is_terminal() {
                            this.step = this.settling();
                        }
                    }
                },
                Step::Settling(settling) => {
                    let settled = ready!(settling.as_mut().poll(cx));
                    return whole(this.handle_settled(settled));
                }
                Step::Waiting(waiting) => {
                    if !ready!(waiting.as_mut().poll(cx)) {
                        this.step = Step::Done;
                        continue;
                    }
                    this.turn += 1;
                    this.converter = Items::new(&this.shared.config, &this.entry.id, &this.entry.context_id);
                    (this.seen, this.was_cut) = (0, false);
                    this.step = this.opening();
                }
            }
        }
    }
}

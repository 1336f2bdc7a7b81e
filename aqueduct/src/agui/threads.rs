//! `GET /threads/{thread}`: the messages and the state of a thread, for a page that was loaded again or a second
//! reader.
//!
//! ```text
//! ended runs ──► fold ──► MESSAGES_SNAPSHOT, STATE_SNAPSHOT ─┐
//!                                                            ▼
//! no open run:  RUN_STARTED of the last run, the snapshots, its end               ids <run>/history.1.<k>
//! an open run:  its RUN_STARTED, the snapshots, then its events as they arrive    ids <run>.<number>.<k>
//! ```
//!
//! Both are one run to a client, from its start to its end, so its rules hold. The ids are those of the stream that is
//! sent: a reader that is cut reconnects to this address with its last id and continues after it. Snapshots are built
//! per reader, in its dialect and with each agent's settings, so what an agent hides is not in them.
//!
//! Not included: steps, the lifecycle of sub-agents and custom events of ended runs, which a fold does not hold.

use std::sync::{Arc, OnceLock};

use aqueduct_adapter_agui::convert::View;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::fold::Fold;
use aqueduct_adapter_agui::version::negotiate;
use aqueduct_core::event::{CustomEvent, Lane, Origin};
use aqueduct_core::service::{
    Caller, EventEncoder, NumberedEvent, PayloadSink, RefusalKind, RunService as _, ServiceError,
};
use aqueduct_core::{BlockEvent, Channel, RunId, RunInfo, Source, ThreadId, wellknown};
use aqueduct_runlog::{LogError, RunState, is_log_metadata};
use aqueduct_transport_http::{EventPosition, Refusal, caller, stream_response};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use http::request::Parts;

use super::router::{Shared, accept};

/// The suffix of the run id in event ids of a stream that repeats an ended run.
const HISTORY: &str = "/history";

/// The largest text in the snapshots. Clients accept 10 MiB in one event, and escaping lengthens text. The oldest
/// messages are omitted.
const HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Events of a log that are read at once.
const PAGE: usize = 256;

/// Handles the request.
pub(super) async fn restate(
    shared: &Shared,
    thread: &ThreadId,
    declared: Option<&str>,
    parts: &Parts,
) -> Result<Response, Refusal> {
    let caller = caller(parts);
    let runs = shared.runs.thread_runs(&caller, thread).await?;
    let plan = Plan::new(&runs, last_position(parts)?).ok_or_else(foreign_id)?;
    let reader = Reader { shared, declared };
    let encoding = negotiate(accept(&parts.headers), declared);
    let mut inner = shared.protocol.watcher(&plan.run.meta.agent, declared, encoding);
    let mut held = Fold::new();
    for run in plan.before {
        reader.fold(run, &mut held, false).await?;
    }
    if plan.is_ended {
        let end = reader.fold(plan.run, &mut held, true).await?.ok_or_else(foreign_id)?;
        let mut first = vec![BlockEvent::RunStarted(run_of(&end).ok_or_else(foreign_id)?)];
        first.extend(reader.snapshots(&held, plan.run));
        let encoder = Restating { inner: Box::new(inner), first: Some(First::Before(first)) };
        let events = Box::pin(stream::iter([NumberedEvent { number: 1, event: end }]));
        return Ok(stream_response(&plan.position, events, Box::new(encoder), &shared.options));
    }
    reader.fold_asked(plan.run, &mut held).await?;
    catch_up(shared, plan.run, plan.position.after(), &mut inner).await?;
    let first = (plan.position.number <= 1).then(|| First::After(reader.snapshots(&held, plan.run)));
    let events = shared.runs.watch(&caller, &plan.run.meta.public_id(), plan.position.after()).await?;
    let encoder = Restating { inner: Box::new(inner), first };
    let options = shared.options.for_query(parts.uri.query());
    Ok(stream_response(&plan.position, events, Box::new(encoder), &options))
}

/// Handles a reply that was sent before: returns the thread after the run that took the reply has ended. A client that
/// received the events of that run sees nothing twice, and one that lost them sees all.
pub(super) async fn repeat(
    shared: &Shared,
    caller: &Caller,
    (thread, run): (&ThreadId, RunId),
    declared: Option<String>,
    encoder: Box<dyn EventEncoder>,
) -> Result<Response, Refusal> {
    let mut runs = shared.runs.thread_runs(caller, thread).await?;
    let at = runs.iter().position(|state| state.meta.public_id() == run).ok_or_else(foreign_id)?;
    runs.truncate(at + 1);
    let key = runs.last().map(|state| state.meta.run_id.clone()).ok_or_else(foreign_id)?;
    let position = EventPosition::start(RunId::from(format!("{run}{HISTORY}")));
    let first = Arc::new(OnceLock::new());
    let encoder = Restating { inner: encoder, first: Some(First::Later(Arc::clone(&first))) };
    let (owned, options) = (shared.clone(), shared.options.clone());
    let end = stream::once(async move {
        owned.runs.run_log().changed(&key, u64::MAX).await.ok()?;
        let reader = Reader { shared: &owned, declared: declared.as_deref() };
        let (last, before) = runs.split_last()?;
        let mut held = Fold::new();
        for run in before.iter().filter(|run| run.closed_at.is_some()) {
            reader.fold(run, &mut held, false).await.ok()?;
        }
        let end = reader.fold(last, &mut held, true).await.ok()??;
        let mut events = vec![BlockEvent::RunStarted(run_of(&end)?)];
        events.extend(reader.snapshots(&held, last));
        first.set(events).ok();
        Some(NumberedEvent { number: 1, event: end })
    });
    let events = Box::pin(end.filter_map(std::future::ready));
    Ok(stream_response(&position, events, Box::new(encoder), &options))
}

/// Applies the events up to this number to an encoder with state: its reader has seen them. If the log no longer
/// contains the first events of the run, the encoder lacks them.
///
/// # Errors
///
/// Returns a refusal if the log cannot be read: the reader would get other events than before.
pub(super) async fn catch_up(
    shared: &Shared,
    run: &RunState,
    after: u64,
    encoder: &mut WatcherEncoder,
) -> Result<(), Refusal> {
    let mut at = run.earliest.saturating_sub(1);
    while encoder.has_state() && at < after {
        let page = shared.runs.run_log().read(&run.meta.run_id, at, PAGE).await;
        let page = page.map_err(|error| lost(&error))?;
        let Some(last) = page.events.last().map(|event| event.number) else { return Ok(()) };
        page.events.iter().filter(|event| event.number <= after).for_each(|event| encoder.skip(&event.event));
        at = last;
    }
    Ok(())
}

/// The run to send, and the position to start from.
struct Plan<'r> {
    /// The run that the client sees.
    run: &'r RunState,
    /// Ended runs before it.
    before: Vec<&'r RunState>,
    /// Set if the run is part of the snapshots; unset if its own events follow.
    is_ended: bool,
    position: EventPosition,
}

impl<'r> Plan<'r> {
    /// Plans the response: the open run, else the last one; or the run of the reader's last position. Returns `None` if
    /// that run does not belong to the thread.
    fn new(runs: &'r [RunState], last: Option<EventPosition>) -> Option<Self> {
        let at = |id: &str| runs.iter().position(|run| run.meta.public_id().as_str() == id);
        let (at, is_ended, position) = match last {
            None => match runs.iter().rposition(|run| run.closed_at.is_none()) {
                Some(at) => (at, false, None),
                None => (runs.len().checked_sub(1)?, true, None),
            },
            Some(position) => match at(position.run.as_str()) {
                Some(at) => (at, false, Some(position)),
                None => (at(position.run.as_str().strip_suffix(HISTORY)?)?, true, Some(position)),
            },
        };
        let run = runs.get(at)?;
        let before = runs.iter().take(at).filter(|run| run.closed_at.is_some()).collect();
        let id = run.meta.public_id();
        let start = if is_ended { RunId::from(format!("{id}{HISTORY}")) } else { id };
        Some(Self {
            run,
            before,
            is_ended,
            position: position.unwrap_or_else(|| EventPosition::start(start)),
        })
    }
}

/// Parses `Last-Event-ID`.
fn last_position(parts: &Parts) -> Result<Option<EventPosition>, Refusal> {
    let Some(id) = parts.headers.get("last-event-id") else { return Ok(None) };
    let position = id.to_str().ok().and_then(EventPosition::parse);
    let message = "`Last-Event-ID` is not an id of this server: send the id of the last event unchanged";
    position.map(Some).ok_or_else(|| Refusal::invalid(message))
}

/// Returns the refusal for an id of a run outside of the thread, which must not reveal whether the run exists.
fn foreign_id() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such thread: check its id and the token")
}

/// Returns the identity of a run from its terminal event.
fn run_of(end: &BlockEvent) -> Option<Arc<RunInfo>> {
    match end {
        BlockEvent::RunFinished(end) => Some(Arc::clone(&end.run)),
        BlockEvent::RunFailed(end) => Some(Arc::clone(&end.run)),
        _ => None,
    }
}

/// Reads the log for one reader.
struct Reader<'r> {
    shared: &'r Shared,
    declared: Option<&'r str>,
}

impl Reader<'_> {
    /// Folds a run with the settings of its agent. With `keeps_end`, returns the terminal event instead of folding it:
    /// it may contain text (an interrupt), which must not be in the snapshot if it is sent too.
    async fn fold(
        &self,
        run: &RunState,
        held: &mut Fold,
        keeps_end: bool,
    ) -> Result<Option<BlockEvent>, Refusal> {
        let (log, id) = (self.shared.runs.run_log(), &run.meta.run_id);
        let mut view = View::new(&self.shared.protocol.settings(&run.meta.agent, self.declared));
        // A trimmed run cannot be restated: the log no longer holds its first events.
        let (mut after, mut out) = (run.earliest.saturating_sub(1), Vec::new());
        self.fold_asked(run, held).await?;
        loop {
            let page = log.read(id, after, PAGE).await.map_err(|error| lost(&error))?;
            let Some(last) = page.events.last().map(|event| event.number) else { return Ok(None) };
            for NumberedEvent { event, .. } in page.events {
                match &event {
                    end if keeps_end && end.is_terminal() => return Ok(Some(event)),
                    event if is_log_metadata(event) => {}
                    event => view.convert(event, &mut out),
                }
                out.drain(..).for_each(|event| held.handle_event(&event));
            }
            held.shorten(HISTORY_BYTES);
            after = last;
        }
    }

    /// Folds the input of a run.
    async fn fold_asked(&self, run: &RunState, held: &mut Fold) -> Result<(), Refusal> {
        let (log, id) = (self.shared.runs.run_log(), &run.meta.run_id);
        // The input is noted before the first event.
        log.changed(id, 0).await.map_err(|error| lost(&error))?;
        if let Some(asked) = log.input(id).await.map_err(|error| lost(&error))? {
            held.handle_asked(&asked);
        }
        held.shorten(HISTORY_BYTES);
        Ok(())
    }

    /// Returns the folded thread as events that the encoder writes as snapshots.
    fn snapshots(&self, held: &Fold, run: &RunState) -> Vec<BlockEvent> {
        let dialect = self.shared.protocol.settings(&run.meta.agent, self.declared).dialect;
        let source = Source::root();
        let lane = Arc::new(Lane { id: "history".into(), source, parent: None, parent_call: None });
        let messages = CustomEvent {
            id: "history".into(),
            lane: Arc::clone(&lane),
            name: wellknown::MESSAGES.into(),
            // Messages are made of texts and JSON: writing them cannot fail.
            value: serde_json::to_value(held.messages(dialect)).unwrap_or_default(),
            channel: Channel::Answer,
            origin: Origin::default(),
        };
        let state = held.state().clone();
        vec![BlockEvent::Custom(Box::new(messages)), BlockEvent::StateSnapshot { lane, state }]
    }
}

/// Returns the refusal for a run that expired while it was read.
fn lost(error: &LogError) -> Refusal {
    ServiceError::new(RefusalKind::Unavailable, error.to_string()).into()
}

/// An encoder that writes the snapshots together with the first event, as its payloads.
struct Restating {
    inner: Box<dyn EventEncoder>,
    first: Option<First>,
}

/// The snapshots, and their place relative to the first event.
enum First {
    /// Before the first event; computed when that event is ready.
    Later(Arc<OnceLock<Vec<BlockEvent>>>),
    Before(Vec<BlockEvent>),
    After(Vec<BlockEvent>),
}

impl EventEncoder for Restating {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        let (before, after) = match self.first.take() {
            None => (Vec::new(), Vec::new()),
            Some(First::Later(events)) => (events.get().cloned().unwrap_or_default(), Vec::new()),
            Some(First::Before(events)) => (events, Vec::new()),
            Some(First::After(events)) => (Vec::new(), events),
        };
        for event in before.iter().chain([event]).chain(&after) {
            self.inner.encode(event, sink);
        }
    }

    fn media_type(&self) -> &'static str {
        self.inner.media_type()
    }

    fn is_binary(&self) -> bool {
        self.inner.is_binary()
    }

    fn has_state(&self) -> bool {
        self.inner.has_state()
    }

    fn skip(&mut self, event: &BlockEvent) {
        self.inner.skip(event);
    }

    fn can_merge(&self, merged: &BlockEvent) -> bool {
        self.first.is_none() && self.inner.can_merge(merged)
    }
}

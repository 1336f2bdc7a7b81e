//! `GET /threads/{thread}`: a thread restated, for a page that was loaded again or a second reader.
//!
//! ```text
//! ended runs ──► fold ──► MESSAGES_SNAPSHOT, STATE_SNAPSHOT ─┐
//!                                                            ▼
//! nothing runs:  RUN_STARTED of the last run, the snapshots, its end               ids <run>/history.1.<k>
//! a run is live: its RUN_STARTED, the snapshots, then its events as they come      ids <run>.<number>.<k>
//! ```
//!
//! Either is one run to a client, from its start to its end, so its rules hold. The ids are those of the stream that is
//! sent: a reader that is cut comes back to this address with its last one and goes on behind it. Snapshots are made per
//! reader, in its dialect and by each agent's settings, so what an agent hides is not in them.
//!
//! What a fold does not hold (steps, the life of sub-agents, custom events of ended runs) is not restated.

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

/// Behind the run's id in ids of a stream that restates an ended run.
const HISTORY: &str = "/history";

/// Text that is restated at most. Clients take 10 MiB in one event, and escaping makes text longer. The oldest messages
/// are left out.
const HISTORY_BYTES: usize = 4 * 1024 * 1024;

/// Events of a log that are read at once.
const PAGE: usize = 256;

/// Answers the request.
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
    catch_up(shared, &plan.run.meta.run_id, plan.position.after(), &mut inner).await;
    let first = (plan.position.number <= 1).then(|| First::After(reader.snapshots(&held, plan.run)));
    let events = shared.runs.watch(&caller, &plan.run.meta.public_id(), plan.position.after()).await?;
    let encoder = Restating { inner: Box::new(inner), first };
    let options = shared.options.for_query(parts.uri.query());
    Ok(stream_response(&plan.position, events, Box::new(encoder), &options))
}

/// Answers a reply that was sent before: with the thread as it stands once the run that took the reply has ended. A
/// client that has received the events of that run sees nothing twice, and one that lost them sees all.
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

/// Tells an encoder with state what its reader has seen already, up to the event of this number. A log that no longer holds the
/// run's first events leaves the encoder without them.
pub(super) async fn catch_up(shared: &Shared, run: &RunId, after: u64, encoder: &mut WatcherEncoder) {
    let mut at = 0;
    while encoder.has_state() && at < after {
        let Ok(page) = shared.runs.run_log().read(run, at, PAGE).await else { return };
        let Some(last) = page.events.last().map(|event| event.number) else { return };
        page.events.iter().filter(|event| event.number <= after).for_each(|event| encoder.skip(&event.event));
        at = last;
    }
}

/// What is sent, and from where.
struct Plan<'r> {
    /// The run that the client sees.
    run: &'r RunState,
    /// Ended runs before it.
    before: Vec<&'r RunState>,
    /// True if the run is restated too; false if its own events follow.
    is_ended: bool,
    position: EventPosition,
}

impl<'r> Plan<'r> {
    /// The run that is under way, else the last one; or the one that the reader was at. None if that is not of the thread.
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

fn last_position(parts: &Parts) -> Result<Option<EventPosition>, Refusal> {
    let Some(id) = parts.headers.get("last-event-id") else { return Ok(None) };
    let position = id.to_str().ok().and_then(EventPosition::parse);
    let message = "`Last-Event-ID` is not an id of this server: send the id of the last event unchanged";
    position.map(Some).ok_or_else(|| Refusal::invalid(message))
}

/// An id of a run that is not of the thread is no way to ask about runs.
fn foreign_id() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such thread: check its id and the token")
}

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
    /// Folds a run as its agent is shown. Its end is folded or given back, as `keeps_end` says: an end may have words too
    /// (a question), and those that are sent must not stand in the snapshot.
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

    /// What is held, as events that the reader's encoder writes as snapshots.
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

/// A run whose time ended while it was read.
fn lost(error: &LogError) -> Refusal {
    ServiceError::new(RefusalKind::Unavailable, error.to_string()).into()
}

/// Writes the snapshots with the first event, as payloads of it.
struct Restating {
    inner: Box<dyn EventEncoder>,
    first: Option<First>,
}

enum First {
    /// Known when the first event is written.
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
}

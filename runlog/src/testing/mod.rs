//! The conformance suite of all engines (feature `testing`). An engine's tests call [`conform`] with a function that creates
//! an empty log; a panic names the violated rule.
//!
//! | module | rules about |
//! |---|---|
//! | `events` | numbers, reading, ends, limits, trimming, expiry |
//! | `leases` | opening, taking over, renewing, lists of runs |
//! | `notes` | values of a run beside its events |
//! | `controls` | messages to the lease holder |
//! | `claims` | keys that exactly one of several callers obtains |
//! | `relations` | keys related to runs |
//! | `watchers` | following a run |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::future_not_send,
    reason = "a panic is how a test says no"
)]

mod claims;
mod controls;
mod events;
mod leases;
mod notes;
mod relations;
mod watchers;

use std::sync::Arc;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunOutcome, SourceEvent, StreamContext, Timestamp, Update};

use crate::error::LogError;
use crate::limits::LogLimits;
use crate::log::{Lease, RunLog, RunMeta};

/// The end of the leases of the suite, unless a rule is about it.
const UNTIL: Timestamp = Timestamp(1_000);

/// Checks all rules, each on an empty log.
pub async fn conform(make: impl AsyncFn(LogLimits) -> Arc<dyn RunLog>) {
    let plain = async || make(LogLimits::default()).await;
    events::check(&make).await;
    leases::check(&plain).await;
    notes::check(&make).await;
    controls::check(&make).await;
    claims::check(&*plain().await).await;
    watchers::check(&plain).await;
}

/// Checks the rules of relations, which only engines that several processes share must implement.
pub async fn conform_shared(make: impl AsyncFn(LogLimits) -> Arc<dyn RunLog>) {
    relations::check(&*make(LogLimits::default()).await).await;
}

/// Returns the events of a small run, the last one terminal.
pub fn events(texts: usize) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for n in 0..texts {
        context.handle_update(Update::text(format!("text {n} "))).unwrap();
    }
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).unwrap();
    std::iter::from_fn(|| context.poll_event()).collect()
}

/// Returns the properties of a run of thread `thread`, agent `agent` and owner `owner`.
pub fn meta(id: &str) -> RunMeta {
    RunMeta {
        run_id: RunId::from(id),
        thread_id: "thread".into(),
        agent: "agent".to_owned(),
        owner: "owner".to_owned(),
        opened_at: Timestamp(1),
    }
}

fn numbered(events: &[BlockEvent]) -> Vec<NumberedEvent> {
    (1..).zip(events).map(|(number, event)| NumberedEvent { number, event: event.clone() }).collect()
}

async fn open(log: &dyn RunLog, id: &str) -> Lease {
    log.open(meta(id), UNTIL).await.unwrap()
}

async fn append(log: &dyn RunLog, lease: &Lease, events: &[BlockEvent], at: i64) -> Result<u64, LogError> {
    log.append(lease, events.to_vec(), Timestamp(at)).await.map_err(LogError::from)
}

/// Returns the properties of an event's agents, which the comparison of events ignores.
pub fn agents(event: &BlockEvent) -> Vec<String> {
    let lanes = std::iter::successors(event.lane(), |lane| lane.parent.as_ref());
    let sources = lanes.flat_map(|lane| std::iter::successors(Some(&lane.source), |source| source.parent()));
    sources
        .map(|source| {
            let (key, name, call) = (source.key(), source.name(), source.parent_call());
            format!("{key:?} {name:?} {call:?} {:?} {:?}", source.description(), source.metadata())
        })
        .collect()
}

//! A service whose runs never end and are always ready: what is taken from it is what a transport holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, NumberedEvent, PublishRequest, RefusalKind,
    RunService, ServiceError, StartedRun,
};
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunInput, StreamContext, Update};

/// Bytes of each event's text.
pub(crate) const TEXT_BYTES: usize = 1_000;

/// Counts what is taken, and remembers who asked for a list.
#[derive(Debug, Default)]
pub(crate) struct Endless {
    pub(crate) taken: Arc<AtomicU64>,
    pub(crate) callers: Arc<Mutex<Vec<Caller>>>,
}

impl RunService for Endless {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        self.callers.lock().unwrap().push(caller.clone());
        refused()
    }

    fn start(&self, _: &Caller, _: &str, input: RunInput) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        let taken = Arc::clone(&self.taken);
        let delta = delta();
        let events = (1..).map(move |number| {
            taken.fetch_add(1, Ordering::SeqCst);
            NumberedEvent { number, event: delta.clone() }
        });
        let events: EventStream = Box::pin(futures_util::stream::iter(events));
        Box::pin(async move { Ok(StartedRun::new(input.run_id, events)) })
    }

    fn watch(&self, _: &Caller, _: &RunId, _: u64) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        refused()
    }

    fn cancel(&self, _: &Caller, _: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        refused()
    }

    fn publish(&self, _: &Caller, _: PublishRequest) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        refused()
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T, ServiceError>> {
    Box::pin(async { Err(ServiceError::new(RefusalKind::Unsupported, "not here")) })
}

fn delta() -> BlockEvent {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    context.handle_update(Update::text("x".repeat(TEXT_BYTES))).unwrap();
    let events = std::iter::from_fn(|| context.poll_event());
    events.into_iter().find(|event| matches!(event, BlockEvent::BlockDelta { .. })).unwrap()
}

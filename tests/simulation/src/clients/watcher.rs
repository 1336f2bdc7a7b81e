//! A watcher that loses its connection often, and comes back where it stopped, to any replica.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{EventStream, NumberedEvent, RefusalKind, RunService as _};
use aqueduct_core::testing::trace_line;
use aqueduct_core::{BlockEvent, RunId, RunOutcome};
use futures_util::StreamExt as _;

use super::answer;
use crate::random::Random;
use crate::record::{Seen, View};
use crate::trace::locked;
use crate::world::{Replica, World, caller};

/// How often a run may be unknown before its watcher believes it: a failover may bring it back, a takeover does not.
const UNKNOWN: usize = 4;

/// How long a watcher waits without events before it connects elsewhere.
const SILENCE: Duration = Duration::from_secs(10);

/// Connections of one watcher. A world does not last as long as they do.
const CONNECTIONS: usize = 400;

/// A watcher of a run.
pub struct Watcher {
    world: Arc<World>,
    view: View,
    token: &'static str,
    random: Random,
    /// How the run ended, as far as it was seen.
    pub outcome: Option<RunOutcome>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Returns a watcher that has seen nothing.
    pub fn new(world: &Arc<World>, name: &str, run: &RunId, token: &'static str) -> Self {
        let random = Random::new(world.plan.seed, &format!("{name} of {run}"));
        let view = View { watcher: name.to_owned(), run: run.clone(), events: Vec::new(), seen: Seen::NoEnd };
        Self { world: Arc::clone(world), view, token, random, outcome: None }
    }

    /// Watches the run to its end, over as many connections as that takes. Returns how it ended, if with an outcome.
    pub async fn follow(mut self, mut first: Option<(Replica, EventStream)>) -> Option<RunOutcome> {
        let mut unknown = 0;
        for _ in 0..CONNECTIONS {
            match first.take() {
                Some((replica, events)) => self.read(&replica, events).await,
                None => match self.connect().await {
                    Ok((replica, events)) => {
                        unknown = 0;
                        self.read(&replica, events).await;
                    }
                    Err(is_unknown) => unknown += usize::from(is_unknown),
                },
            }
            if self.view.seen == Seen::End {
                break;
            }
            if unknown >= UNKNOWN {
                self.view.seen = Seen::Gone;
                break;
            }
            let pause = self.random.millis(50, 1_500);
            tokio::time::sleep(pause).await;
        }
        let outcome = self.outcome;
        locked(&self.world.record).views.push(self.view);
        outcome
    }

    /// Connects to some replica; an error says whether the run is unknown there.
    async fn connect(&mut self) -> Result<(Replica, EventStream), bool> {
        let replica = self.world.any_replica(&mut self.random);
        let after = self.view.events.last().map_or(0, |(number, _)| *number);
        let caller = caller(self.token);
        let watched = answer(&replica.node, replica.runs.watch(&caller, &self.view.run, after)).await;
        match watched {
            Some(Ok(events)) => Ok((replica, events)),
            Some(Err(error)) => Err(error.kind == RefusalKind::NotFound),
            None => Err(false),
        }
    }

    /// Reads until the end, a cut, or silence.
    async fn read(&mut self, replica: &Replica, mut events: EventStream) {
        let most = if self.random.below(3) == 0 { u64::MAX } else { 1 + self.random.below(12) };
        for _ in 0..most {
            let next = tokio::select! {
                biased;
                () = replica.node.crashed() => return,
                next = tokio::time::timeout(SILENCE, events.next()) => next,
            };
            let Ok(Some(event)) = next else { return };
            self.see(&event);
            if self.view.seen == Seen::End {
                return;
            }
        }
    }

    fn see(&mut self, event: &NumberedEvent) {
        let line = trace_line(&event.event);
        self.world.trace.note("watcher", || {
            format!("{} of {} sees {} {line}", self.view.watcher, self.view.run, event.number)
        });
        self.view.events.push((event.number, line));
        if event.event.is_terminal() {
            self.view.seen = Seen::End;
        }
        if let BlockEvent::RunFinished(end) = &event.event {
            self.outcome = Some(end.outcome);
        }
    }
}

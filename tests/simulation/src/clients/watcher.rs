//! A watcher that loses its connection often, and comes back where it stopped, to any replica.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{RunId, RunOutcome};
use futures_util::StreamExt as _;

use super::answer;
use crate::random::Random;
use crate::record::{Seen, View};
use crate::surface::{Feed, Place, Refused, Shown, Surface};
use crate::trace::locked;
use crate::world::{Replica, World};

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
    place: Place,
    /// How the run ended, as far as it was seen.
    pub outcome: Option<RunOutcome>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Returns a watcher at the engine that has seen nothing.
    pub fn new(world: &Arc<World>, name: &str, run: &RunId, token: &'static str) -> Self {
        let random = Random::new(world.plan.seed, &format!("{name} of {run}"));
        let view = View {
            watcher: name.to_owned(),
            run: run.clone(),
            surface: Surface::Engine,
            events: Vec::new(),
            seen: Seen::NoEnd,
        };
        Self { world: Arc::clone(world), view, token, random, place: Place::default(), outcome: None }
    }

    /// Returns the same watcher at another surface.
    pub fn at(mut self, surface: Surface) -> Self {
        self.view.surface = surface;
        self
    }

    /// Watches the run to its end, over as many connections as that takes. Returns how it ended, if with an outcome.
    pub async fn follow(mut self, mut first: Option<(Replica, Feed)>) -> Option<RunOutcome> {
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
    async fn connect(&mut self) -> Result<(Replica, Feed), bool> {
        let replica = self.world.any_replica(&mut self.random);
        let watching = self.view.surface.watch(&replica, self.token, &self.view.run, &self.place);
        match answer(&replica.node, watching).await {
            Some(Ok(events)) => Ok((replica, events)),
            Some(Err(refused)) => Err(refused == Refused::Unknown),
            None => Err(false),
        }
    }

    /// Reads until the end, a cut, or silence.
    async fn read(&mut self, replica: &Replica, mut events: Feed) {
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

    fn see(&mut self, shown: &Shown) {
        let View { watcher, run, surface, events, seen } = &mut self.view;
        let Shown { number, line, is_end, outcome, place } = shown;
        self.world
            .trace
            .note("watcher", || format!("{watcher} of {run} at {surface:?} sees {number} {line}"));
        events.push((*number, line.clone()));
        self.place.clone_from(place);
        if *is_end {
            *seen = Seen::End;
        }
        self.outcome = self.outcome.or(*outcome);
    }
}

//! [`SharedLog`]: the log of a world, in one of two engines, and what a world does to it.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId};
use aqueduct_runlog::{LogError, LogLimits, RunLog, RunState};

use crate::facts::LogFacts;
use crate::memory::server::Server;
use crate::memory::{Shared, SimulatedLog};
use crate::node::Node;
use crate::planted::Planted;
use crate::redis::Redis;
use crate::trace::Trace;

/// The log that all replicas of a world share.
#[derive(Debug, Clone)]
pub enum SharedLog {
    /// The engine in memory, behind a server with faults.
    Memory(Shared),
    /// The engine on Redis, on a simulated server.
    Redis(Redis),
}

impl SharedLog {
    /// Returns a log in memory.
    pub fn memory(planted: Option<Planted>) -> Self {
        Self::Memory(Shared::new(Server::new(LogLimits::default(), planted)))
    }

    /// Returns a log on a simulated Redis, in a world that begins at `epoch`.
    pub fn redis(epoch: i64, trace: Trace, planted: Option<Planted>) -> Self {
        Self::Redis(Redis::new(epoch, trace, planted))
    }

    /// Returns the log as a replica reaches it.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine refuses its configuration.
    pub fn of(&self, node: &Arc<Node>) -> Result<Arc<dyn RunLog>, LogError> {
        match self {
            Self::Memory(shared) => Ok(Arc::new(SimulatedLog::new(Arc::clone(node), shared.clone()))),
            Self::Redis(redis) => Ok(Arc::new(redis.log(node, LogLimits::default())?)),
        }
    }

    /// Loses everything after a time in the world.
    pub fn fail_over(&self, to: i64) {
        match self {
            Self::Memory(shared) => shared.with(|server| server.fail_over(to)),
            Self::Redis(redis) => redis.fail_over(to),
        }
    }

    /// Loses the keys of a run.
    pub fn vanish(&self, run: &RunId) {
        match self {
            Self::Memory(shared) => shared.with(|server| server.vanish(run)),
            Self::Redis(redis) => redis.vanish(run),
        }
    }

    /// Returns the runs that have not ended.
    pub fn open_runs(&self) -> Vec<RunId> {
        match self {
            Self::Memory(shared) => {
                let all = shared.with(|server| server.all());
                let is_open = all.into_iter().filter(|(state, _)| state.closed_at.is_none());
                is_open.map(|(state, _)| state.meta.run_id).collect()
            }
            Self::Redis(redis) => redis.open_runs(),
        }
    }

    /// Returns all runs with their events.
    pub async fn all(&self) -> Vec<(RunState, Arc<[BlockEvent]>)> {
        match self {
            Self::Memory(shared) => shared.with(|server| server.all()),
            Self::Redis(redis) => redis.all().await,
        }
    }

    /// Returns what the log notes about its runs.
    pub fn facts(&self) -> LogFacts {
        match self {
            Self::Memory(shared) => shared.with(|server| server.facts.clone()),
            Self::Redis(redis) => redis.facts(),
        }
    }
}

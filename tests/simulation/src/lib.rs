//! Worlds of Aqueduct that replay from a seed.
//!
//! A world has three replicas of the run engine, one log with faults, agents (also behind A2A and AG-UI), publishers, watchers
//! that come back on every surface, cancels, replies and two principals, all on one thread and tokio's paused clock. In one of
//! sixteen worlds the replicas are gateways, and supervisors call a sub-agent through them. Its seed decides everything that
//! happens in it, so a world that breaks a rule can be lived again, line by line.
//!
//! | module | what |
//! |---|---|
//! | [`plan`], [`script`], [`random`] | what a seed means: faults, clients, agents |
//! | [`world`], [`clients`], [`agents`], [`lines`], [`team`] | who lives in it |
//! | [`surface`], [`net`], [`upstream`] | how clients reach replicas, and replicas reach agents: the real routers and clients, over connections in memory |
//! | [`log`], [`memory`], [`redis`], [`facts`] | the log in two engines |
//! | [`node`], [`news`], [`planted`] | what goes wrong with replicas and their calls |
//! | [`record`], [`check`], [`trace`], [`panics`] | what was seen, what must hold, what happened |
//!
//! What is *not* here: sockets of the operating system, TLS, and a real Redis. Trials with processes and a real server are in
//! `tests/it/interop/runlog`.

pub mod agents;
pub mod check;
pub mod clients;
pub mod facts;
pub mod lines;
pub mod log;
pub mod memory;
pub mod net;
pub mod news;
pub mod node;
pub mod panics;
pub mod plan;
pub mod planted;
pub mod random;
pub mod record;
pub mod redis;
pub mod script;
pub mod surface;
pub mod team;
pub mod trace;
pub mod upstream;
pub mod world;

use check::{Runs, Violation};
use plan::Plan;
use planted::Planted;
use trace::{Trace, locked};
use world::World;

/// What came of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The rules that it broke.
    pub violations: Vec<Violation>,
    /// What happened, if it was traced.
    pub trace: Vec<String>,
    /// How much happened.
    pub counts: Counts,
}

/// How much happened in a world, or in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Runs in the log at the end.
    pub runs: usize,
    /// Events in the log at the end.
    pub events: usize,
    /// Events that watchers saw.
    pub seen: usize,
    /// Leases that were taken over.
    pub takeovers: usize,
    /// Faults of replicas and of the log.
    pub incidents: usize,
    /// Replies that reached a workflow.
    pub replies: usize,
    /// Milliseconds that passed in the world.
    pub millis: u64,
}

impl Counts {
    /// Adds what happened in another world.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.seen += other.seen;
        self.takeovers += other.takeovers;
        self.incidents += other.incidents;
        self.replies += other.replies;
        self.millis += other.millis;
    }
}

/// Lives the world of a seed, and checks it.
///
/// # Errors
///
/// The runtime cannot be built.
pub fn simulate(seed: u64, planted: Option<Planted>, is_traced: bool) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let trace = {
        let _clock = runtime.enter();
        Trace::new(is_traced)
    };
    let live = async {
        let world = World::new(Plan::of(seed), planted, trace.clone());
        let open = world.live().await;
        let runs = world.log.all().await;
        let counts = count(&world, &runs);
        (check::check(&world, runs, &open), counts)
    };
    let (lived, panics) = panics::watch(&trace, || runtime.block_on(live));
    let (broken, counts) = lived.unwrap_or_default();
    let panics = panics.into_iter().map(|what| Violation { rule: "panics", what });
    Ok(Outcome { violations: panics.chain(broken).collect(), trace: trace.lines(), counts })
}

/// Lives the world of a seed twice. A world that differs from its repetition breaks the rule `replay`.
///
/// # Errors
///
/// The runtime cannot be built.
pub fn simulate_twice(seed: u64, planted: Option<Planted>) -> std::io::Result<Outcome> {
    let (mut one, other) = (simulate(seed, planted, true)?, simulate(seed, planted, true)?);
    if one != other {
        let lines = one.trace.iter().zip(&other.trace);
        let what = lines
            .filter(|(one, other)| one != other)
            .map(|(one, other)| format!("{one:?} and {other:?}"))
            .next();
        let what = what.unwrap_or_else(|| format!("{:?} and {:?}", one.counts, other.counts));
        one.violations.push(Violation { rule: "replay", what });
    }
    Ok(one)
}

fn count(world: &World, all: &Runs) -> Counts {
    let record = locked(&world.record);
    Counts {
        runs: all.len(),
        events: all.iter().map(|(_, events)| events.len()).sum(),
        seen: record.views.iter().map(|view| view.events.len()).sum(),
        takeovers: world.log.facts().takeovers,
        incidents: world.plan.incidents.len(),
        replies: record.delivered.len(),
        millis: u64::try_from(world.trace.now()).unwrap_or_default(),
    }
}

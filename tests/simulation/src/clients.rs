//! The clients of a world: they start, watch, cancel, publish and reply, lose connections and come back.

mod publisher;
mod task;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{RefusalKind, RunService as _};
use aqueduct_core::{RunId, RunInput};
use tokio::task::JoinSet;

use crate::node::Node;
use crate::random::Random;
use crate::record::Expected;
use crate::surface::{Place, Surface};
use crate::team;
use crate::trace::locked;
use crate::world::{MORTAL, OVER_A2A, OVER_AGUI, OVER_REST, RESUMABLE, World, caller};
pub use task::Content;
pub use watcher::Watcher;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// The two principals.
const PRINCIPALS: [&str; 2] = ["ada", "bob"];

/// The agents that clients run. Those in the process are cheap, and most faults concern them as well.
const AGENTS: [&str; 10] =
    [RESUMABLE, RESUMABLE, RESUMABLE, RESUMABLE, MORTAL, MORTAL, MORTAL, OVER_A2A, OVER_REST, OVER_AGUI];

/// The surfaces of clients. Those with connections cost most of a world's time.
const SURFACES: [Surface; 8] = [
    Surface::Engine,
    Surface::Engine,
    Surface::Engine,
    Surface::Engine,
    Surface::Sse,
    Surface::Sse,
    Surface::WebSocket,
    Surface::Grpc,
];

/// Waits for an answer of a replica; `None` if the replica is gone or silent.
pub(crate) async fn answer<T>(node: &Node, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = node.crashed() => None,
        answer = tokio::time::timeout(PATIENCE, future) => answer.ok(),
    }
}

/// Starts all clients of a world.
pub fn spawn(world: &Arc<World>, clients: &mut JoinSet<()>) {
    if world.plan.is_team {
        return team::spawn(world, clients);
    }
    for n in 0..world.plan.runs {
        clients.spawn(run_agent(Arc::clone(world), n));
    }
    for n in 0..world.plan.tasks {
        clients.spawn(task::run(Arc::clone(world), n));
    }
    for n in 0..world.plan.published {
        publisher::spawn(world, n, clients);
    }
}

/// One run of an agent, with all that clients do to it.
async fn run_agent(world: Arc<World>, n: u64) {
    let mut random = Random::new(world.plan.seed, &format!("client {n}"));
    let token = random.pick(PRINCIPALS);
    let agent = random.pick(AGENTS);
    let surface = random.pick(SURFACES);
    tokio::time::sleep(random.millis(0, 12_000)).await;
    for attempt in 0..4 {
        let run = RunId::from(format!("r{n}x{attempt}"));
        let replica = world.any_replica(&mut random);
        let input = RunInput::prompt(format!("t{n}"), run.as_bytes().clone(), run.as_str());
        world
            .trace
            .note("client", || format!("start {run} of {agent} over {surface:?} at {}", replica.node.name()));
        let reply = answer(&replica.node, Box::pin(surface.start(&replica, token, agent, input))).await;
        let refused = reply.as_ref().map(|started| started.as_ref().err().copied());
        world.trace.note("client", || format!("start {run}: {refused:?}"));
        if let Some(Ok(events)) = reply {
            locked(&world.record).expected.insert(run.clone(), Expected::Script);
            let others = accompany(&world, &run, token, &mut random);
            let starter = Watcher::new(&world, "starter", &run, token).at(surface);
            starter.follow(Some((replica, events))).await;
            others.join_all().await;
            return;
        }
        locked(&world.record).refusals += 1;
        tokio::time::sleep(random.millis(200, 2_000)).await;
    }
}

/// Watchers beside the one that started a run, a client that cancels it, and one that may not see it.
fn accompany(world: &Arc<World>, run: &RunId, token: &'static str, random: &mut Random) -> JoinSet<()> {
    let mut others = JoinSet::new();
    for n in 0..random.below(3) {
        let (world, run, wait) = (Arc::clone(world), run.clone(), random.millis(0, 9_000));
        let surface = random.pick(SURFACES);
        others.spawn(async move {
            tokio::time::sleep(wait).await;
            Watcher::new(&world, &format!("watcher {n}"), &run, token).at(surface).follow(None).await;
        });
    }
    if random.below(4) == 0 {
        others.spawn(cancel(Arc::clone(world), run.clone(), token, random.millis(0, 9_000)));
    }
    let wait = random.millis(0, 6_000);
    others.spawn(intrude(Arc::clone(world), run.clone(), token, wait));
    others
}

async fn cancel(world: Arc<World>, run: RunId, token: &'static str, wait: Duration) {
    let mut random = Random::new(world.plan.seed, &format!("cancel {run}"));
    tokio::time::sleep(wait).await;
    locked(&world.record).cancelled.push(run.clone());
    for _ in 0..20 {
        let replica = world.any_replica(&mut random);
        let answered = answer(&replica.node, replica.runs.cancel(&caller(token), &run)).await;
        world.trace.note("client", || format!("cancel {run} at {}: {answered:?}", replica.node.name()));
        match answered {
            Some(Ok(_)) => return,
            Some(Err(error)) if error.kind == RefusalKind::NotFound => return,
            _ => tokio::time::sleep(random.millis(200, 1_000)).await,
        }
    }
}

/// The other principal tries everything with a run whose id it knows.
async fn intrude(world: Arc<World>, run: RunId, token: &'static str, wait: Duration) {
    let mut random = Random::new(world.plan.seed, &format!("intruder {run}"));
    tokio::time::sleep(wait).await;
    let name = PRINCIPALS.into_iter().find(|name| *name != token).unwrap_or_default();
    let other = caller(name);
    let surface = random.pick(SURFACES);
    let replica = world.any_replica(&mut random);
    let leak = |what: String| locked(&world.record).leaks.push(what);
    let start = Place::default();
    let watching = surface.watch(&replica, name, &run, &start);
    if let Some(Ok(_)) = answer(&replica.node, watching).await {
        leak(format!("{run} of {token} was watched by another principal over {surface:?}"));
    }
    if let Some(Ok(_)) = answer(&replica.node, replica.runs.cancel(&other, &run)).await {
        leak(format!("{run} of {token} was cancelled by another principal"));
    }
    if let Some(Ok(runs)) = answer(&replica.node, replica.runs.list_runs(&other, 100)).await
        && runs.iter().any(|state| state.meta.public_id() == run)
    {
        leak(format!("{run} of {token} was listed to another principal"));
    }
}

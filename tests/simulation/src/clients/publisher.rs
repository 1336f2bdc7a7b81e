//! Workflows that publish their runs, ask humans, and the humans that reply from any replica.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{Ingest, PublishRequest, RunService as _};
use aqueduct_core::{InterruptReply, RunId, RunInput, RunOutcome};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{PRINCIPALS, Watcher, answer};
use crate::lines;
use crate::random::Random;
use crate::record::Expected;
use crate::surface::{Surface, numbered};
use crate::trace::locked;
use crate::world::{PUBLISHED, Replica, World, caller};

/// How long a workflow waits for a human.
const HUMAN: Duration = Duration::from_secs(60);

/// When a workflow that has not begun by then, in milliseconds, never will.
const GIVEN_UP: i64 = 60_000;

/// Starts a workflow, and the humans that answer it.
pub(super) fn spawn(world: &Arc<World>, n: u64, clients: &mut JoinSet<()>) {
    let mut random = Random::new(world.plan.seed, &format!("publisher {n}"));
    let token = random.pick(PRINCIPALS);
    let run = RunId::from(format!("p{n}"));
    let asks = random.below(3) > 0;
    let workflow = Workflow { world: Arc::clone(world), run: run.clone(), token, random, asks };
    clients.spawn(workflow.work());
    clients.spawn(humans(Arc::clone(world), run, token, asks));
}

struct Workflow {
    world: Arc<World>,
    run: RunId,
    token: &'static str,
    random: Random,
    asks: bool,
}

impl Workflow {
    async fn work(mut self) {
        let wait = self.random.millis(0, 8_000);
        tokio::time::sleep(wait).await;
        let replica = self.world.any_replica(&mut self.random);
        let before = self.texts("a");
        let text: String = before.iter().filter_map(|line| line.get("text")?.as_str()).collect();
        let Some(mut ingest) = self.connect(&replica).await else { return };
        locked(&self.world.record).expected.insert(self.run.clone(), Expected::Text(text));
        let question = format!("{}-q", self.run);
        let mut lines = before;
        if self.asks {
            lines.push(lines::ask(&question));
        }
        let mut sent = 0;
        if !self.send(&replica, &mut ingest, &lines, &mut sent).await {
            return;
        }
        if self.asks {
            locked(&self.world.record).asked.push(question.clone());
            let Some(answered) = self.reply(&replica, &mut ingest, &question).await else { return };
            lines.push(lines::taken(&question));
            let after = self.texts("b");
            let text: String = after.iter().filter_map(|line| line.get("text")?.as_str()).collect();
            locked(&self.world.record).expected.insert(RunId::from(answered), Expected::Text(text));
            lines.extend(after);
            if !self.send(&replica, &mut ingest, &lines, &mut sent).await {
                return;
            }
        }
        let finished = answer(&replica.node, ingest.finish()).await;
        self.world.trace.note("publisher", || format!("{} finishes: {finished:?}", self.run));
    }

    fn texts(&mut self, mark: &str) -> Vec<Value> {
        let count = 1 + self.random.below(5);
        (0..count).map(|n| lines::text(&format!("{}{mark}{n} ", self.run))).collect()
    }

    async fn connect(&mut self, replica: &Replica) -> Option<Box<dyn Ingest>> {
        for _ in 0..4 {
            let request = PublishRequest {
                agent: PUBLISHED.to_owned(),
                thread_id: Some(format!("t-{}", self.run).into()),
                run_id: Some(self.run.clone()),
                format: lines::FORMAT.to_owned(),
            };
            let opened = answer(&replica.node, replica.runs.publish(&caller(self.token), request)).await;
            let what = opened.as_ref().map(|opened| opened.as_ref().map(|ingest| ingest.acknowledged()));
            self.world
                .trace
                .note("publisher", || format!("{} connects to {}: {what:?}", self.run, replica.node.name()));
            if let Some(Ok(ingest)) = opened {
                return Some(ingest);
            }
            locked(&self.world.record).refusals += 1;
            let pause = self.random.millis(200, 1_500);
            tokio::time::sleep(pause).await;
        }
        None
    }

    /// Sends lines from where the last call stopped. Returns `false` if the replica is gone.
    async fn send(
        &mut self,
        replica: &Replica,
        ingest: &mut Box<dyn Ingest>,
        lines: &[Value],
        sent: &mut usize,
    ) -> bool {
        let mut tries = 0;
        while let Some(line) = lines.get(*sent) {
            if self.random.below(8) == 0 {
                // The connection breaks; what was not acknowledged is sent again.
                let pause = self.random.millis(10, 2_000);
                let cut = std::mem::replace(ingest, Box::new(Closed(self.run.clone())));
                drop(cut);
                tokio::time::sleep(pause).await;
                let Some(again) = self.connect(replica).await else { return false };
                *sent = usize::try_from(again.acknowledged()).unwrap_or_default();
                *ingest = again;
                continue;
            }
            let number = u64::try_from(*sent).unwrap_or_default() + 1;
            match answer(&replica.node, ingest.accept(number, Bytes::from(line.to_string()))).await {
                Some(Ok(acknowledged)) => *sent = usize::try_from(acknowledged).unwrap_or_default(),
                _ if tries < 5 => tries += 1,
                _ => return false,
            }
            let pause = self.random.millis(0, 600);
            tokio::time::sleep(pause).await;
        }
        true
    }

    /// Waits for a reply; returns the run that brought it.
    async fn reply(
        &mut self,
        replica: &Replica,
        ingest: &mut Box<dyn Ingest>,
        question: &str,
    ) -> Option<String> {
        let reply = tokio::select! {
            biased;
            () = replica.node.crashed() => None,
            reply = tokio::time::timeout(HUMAN, ingest.reply()) => reply.ok(),
        };
        let by = reply.as_ref().and_then(|reply| reply.payload.as_ref()?.as_str()).map(str::to_owned);
        self.world.trace.note("publisher", || format!("{} gets the reply of {by:?}", self.run));
        let by = by?;
        locked(&self.world.record).delivered.push((question.to_owned(), by.clone()));
        Some(by)
    }
}

/// A publisher without a connection.
struct Closed(RunId);

impl Ingest for Closed {
    fn run_id(&self) -> &RunId {
        &self.0
    }

    fn acknowledged(&self) -> u64 {
        0
    }

    fn accept(
        &mut self,
        _number: u64,
        _payload: Bytes,
    ) -> aqueduct_core::service::BoxFuture<'_, Result<u64, aqueduct_core::service::ServiceError>> {
        Box::pin(std::future::pending())
    }

    fn reply(&mut self) -> aqueduct_core::service::BoxFuture<'_, InterruptReply> {
        Box::pin(std::future::pending())
    }

    fn finish(
        &mut self,
    ) -> aqueduct_core::service::BoxFuture<'_, Result<(), aqueduct_core::service::ServiceError>> {
        Box::pin(std::future::pending())
    }
}

/// Watches a published run, and replies if it asks: one human, or two at once.
async fn humans(world: Arc<World>, run: RunId, token: &'static str, asks: bool) {
    let mut random = Random::new(world.plan.seed, &format!("humans of {run}"));
    while !locked(&world.record).expected.contains_key(&run) {
        if world.trace.now() > GIVEN_UP {
            return;
        }
        tokio::time::sleep(random.millis(100, 900)).await;
    }
    let surface = random.pick([Surface::Engine, Surface::Grpc]);
    let outcome = Watcher::new(&world, "human", &run, token).at(surface).follow(None).await;
    if !asks || outcome != Some(RunOutcome::Interrupted) {
        return;
    }
    let mut racing = JoinSet::new();
    for n in 0..=random.below(2) {
        racing.spawn(human(Arc::clone(&world), run.clone(), token, n));
    }
    racing.join_all().await;
}

async fn human(world: Arc<World>, asked: RunId, token: &'static str, n: u64) {
    let mut random = Random::new(world.plan.seed, &format!("human {n} of {asked}"));
    for attempt in 0..4 {
        tokio::time::sleep(random.millis(0, 300)).await;
        let run = RunId::from(format!("{asked}-{n}x{attempt}"));
        let replica = world.any_replica(&mut random);
        let mut input = RunInput::prompt(format!("t-{asked}"), run.as_bytes().clone(), "");
        input.messages.clear();
        let payload = Some(json!(run.as_str()));
        input.resume = vec![InterruptReply { id: format!("{asked}-q").into(), resolved: true, payload }];
        let started = answer(&replica.node, replica.runs.start(&caller(token), PUBLISHED, input)).await;
        world.trace.note("human", || format!("replies by {run} at {}: {started:?}", replica.node.name()));
        match started {
            Some(Ok(started)) => {
                locked(&world.record).expected.entry(run.clone()).or_insert(Expected::Any);
                Watcher::new(&world, "human", &run, token)
                    .follow(Some((replica, numbered(started.events))))
                    .await;
                return;
            }
            Some(Err(error)) if error.kind == aqueduct_core::service::RefusalKind::Conflict => return,
            _ => locked(&world.record).refusals += 1,
        }
    }
}

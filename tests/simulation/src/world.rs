//! [`World`]: the parts of a simulation together, from its first moment to its last.
//!
//! ```text
//!   clients ──► surfaces ──► three replicas (Runs) ──► Node (faults) ──► Server (one log)
//!                                 ├ agents: scripts with a remote side that survives replicas
//!                                 └ Wires (cuts) ──► A2A, AG-UI ──► the same scripts at a host of their own
//! ```
//!
//! One thread, tokio's paused clock: tasks run in the order in which they were woken, and time jumps to the next timer
//! when all of them wait. So a world is a function of its seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct::a2a::server::OwnCards;
use aqueduct::a2a::{Binding, Card};
use aqueduct_core::service::{Caller, RefusalKind, ServiceError};
use aqueduct_core::{Identity, Principal, RunId, Timestamp};
use aqueduct_gateway::serve;
use aqueduct_gateway::service::Surroundings;
use aqueduct_runlog::RunLog;
use aqueduct_runs::{AccessPolicy, AgentOptions, Clock, Runs, Settings};
use aqueduct_transport_http::Dial;
use axum::Router;
use tokio::task::{AbortHandle, JoinSet};

use crate::agents::{Remote, Scripted};
use crate::clients;
use crate::lines;
use crate::log::SharedLog;
use crate::net::Wires;
use crate::node::{Node, Status, Weather};
use crate::plan::{Fault, Incident, LEASE, Plan, REPLICAS};
use crate::planted::Planted;
use crate::random::Random;
use crate::record::Record;
use crate::surface;
use crate::team::{self, Replicas};
use crate::trace::{Trace, locked};
use crate::upstream;

/// The time at which worlds begin, as their logs count it.
const EPOCH: i64 = 1_800_000_000_000;

/// The name of the host of remote agents, as replicas have names.
pub const HOST: &str = "host";

/// How long clients may take. Nothing goes wrong after the first twenty-six seconds.
const CLIENTS: Duration = Duration::from_secs(300);

/// How long the replicas may take to end what clients have left.
const SETTLE: Duration = Duration::from_secs(120);

/// The name of the agent whose runs go on elsewhere.
pub const RESUMABLE: &str = "resumable";
/// The name of the agent whose runs do not.
pub const MORTAL: &str = "mortal";
/// The name of the agent that is reached over A2A (JSON-RPC).
pub const OVER_A2A: &str = "over-a2a";
/// The name of the agent that is reached over A2A (HTTP+JSON).
pub const OVER_REST: &str = "over-rest";
/// The name of the agent that is reached over AG-UI.
pub const OVER_AGUI: &str = "over-agui";
/// The name of the agent that publishers feed.
pub const PUBLISHED: &str = "published";

/// A replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Its way to the log.
    pub node: Arc<Node>,
    /// Its engine.
    pub runs: Runs,
    /// Its surfaces.
    pub router: Router,
    housekeeping: AbortHandle,
}

/// A simulation.
#[derive(Debug)]
pub struct World {
    /// What it consists of.
    pub plan: Plan,
    /// What happens.
    pub trace: Trace,
    /// What clients and agents saw.
    pub record: Arc<Mutex<Record>>,
    /// The log.
    pub log: SharedLog,
    remote: Remote,
    /// The agents behind A2A and AG-UI.
    upstream: Router,
    planted: Option<Planted>,
    replicas: Replicas,
    generations: Mutex<u64>,
}

/// Tokens are the names of principals.
#[derive(Debug)]
struct Tokens {
    is_shared: bool,
}

impl AccessPolicy for Tokens {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let named = caller.token.clone().and_then(|token| {
            Principal::new("tenant", if self.is_shared { "all".to_owned() } else { token })
        });
        let refused = || ServiceError::new(RefusalKind::Unauthenticated, "send a token");
        named.map(|principal| Arc::new(Identity::new(principal))).ok_or_else(refused)
    }
}

/// Returns a caller with that token.
pub fn caller(token: &str) -> Caller {
    Caller { token: Some(token.to_owned()), ..Caller::default() }
}

impl World {
    /// Returns the world of a plan, with its replicas.
    pub fn new(plan: Plan, planted: Option<Planted>, trace: Trace) -> Arc<Self> {
        let log = if plan.is_redis {
            SharedLog::redis(EPOCH, trace.clone(), planted)
        } else {
            SharedLog::memory(planted)
        };
        let (record, remote) = (Arc::default(), Remote::default());
        let host = Scripted {
            seed: plan.seed,
            node: Arc::new(Node::new(
                HOST.to_owned(),
                trace.clone(),
                Weather::default(),
                Random::new(plan.seed, HOST),
            )),
            remote: remote.clone(),
            record: Arc::clone(&record),
            is_resumable: false,
            is_told: true,
            is_remote: true,
        };
        let replicas = Replicas::default();
        let clock = upstream::clock(trace.clone(), EPOCH);
        let agents = if plan.is_team {
            // What sub-agents do is not the work of a run.
            let sub = Scripted { record: Arc::default(), ..host };
            let lead = team::Lead::new(plan.seed, &replicas, &record);
            lead.map(|lead| team::upstream(plan.seed, sub, lead, clock)).unwrap_or_default()
        } else {
            upstream::router(host, clock)
        };
        let world = Arc::new(Self {
            upstream: agents,
            trace,
            record,
            log,
            remote,
            planted,
            replicas,
            generations: Mutex::default(),
            plan,
        });
        let booted = (0..REPLICAS).map(|slot| world.boot(slot)).collect();
        *locked(&world.replicas) = booted;
        world
    }

    /// Starts a replica.
    fn boot(&self, slot: usize) -> Replica {
        let generation = {
            let mut generations = locked(&self.generations);
            *generations += 1;
            *generations
        };
        let name = format!("{}{generation}", ["a", "b", "c"].get(slot).unwrap_or(&"x"));
        let random = Random::new(self.plan.seed, &name);
        let node = Node::new(name, self.trace.clone(), self.plan.weather, random);
        let node = Arc::new(node);
        let skew = self.plan.skews.get(slot).copied().unwrap_or_default();
        let trace = self.trace.clone();
        let clock: Clock = Arc::new(move || Timestamp(EPOCH + trace.now() + skew));
        let started = self.log.of(&node).map_err(anyhow::Error::from).and_then(|log| {
            if self.plan.is_team {
                self.gateway(&node, log, clock)
            } else {
                Ok(self.engine(&node, log, clock))
            }
        });
        let (runs, router) = started.unwrap_or_default();
        let housekeeping = tokio::spawn(runs.clone().run_housekeeping()).abort_handle();
        Replica { node, runs, router, housekeeping }
    }

    /// Returns the connections of a replica to its agents.
    fn wires(&self, node: &Arc<Node>) -> Arc<dyn Dial> {
        let random = Random::new(self.plan.seed, &format!("wires of {}", node.name()));
        Arc::new(Wires::new(Arc::clone(node), self.upstream.clone(), self.plan.cuts, random))
    }

    /// Returns the engine and the routes of a gateway.
    fn gateway(
        &self,
        node: &Arc<Node>,
        log: Arc<dyn RunLog>,
        clock: Clock,
    ) -> anyhow::Result<(Runs, Router)> {
        let random = Mutex::new(Random::new(self.plan.seed, &format!("side runs of {}", node.name())));
        let surroundings = Surroundings {
            log,
            clock,
            dial: Some(self.wires(node)),
            unique_bits: Arc::new(move || Ok(u128::from(locked(&random).number()))),
        };
        let gateway = team::gateway(surroundings, self.planted)?;
        Ok((gateway.runs().clone(), serve::router(&gateway)?))
    }

    /// Returns the engine and the routes of a replica with all kinds of agents.
    fn engine(&self, node: &Arc<Node>, log: Arc<dyn RunLog>, clock: Clock) -> (Runs, Router) {
        let agent = |is_resumable| Scripted {
            seed: self.plan.seed,
            node: Arc::clone(node),
            remote: self.remote.clone(),
            record: Arc::clone(&self.record),
            is_resumable,
            is_told: self.planted != Some(Planted::DropGoodbye),
            is_remote: false,
        };
        let options = AgentOptions::default()
            .with_grace(Duration::from_secs(20))
            .with_run_timeout(Duration::from_secs(60));
        let wires = self.wires(node);
        let mut builder = Runs::builder();
        for (name, binding) in [(OVER_A2A, Binding::JsonRpc), (OVER_REST, Binding::HttpJson)] {
            if let Ok(remote) = upstream::over_a2a(&wires, binding) {
                builder = builder.agent_with(name, remote, options.clone());
            }
        }
        if let Ok(remote) = upstream::over_agui(&wires) {
            builder = builder.agent_with(OVER_AGUI, remote, options.clone());
        }
        let runs = builder
            .agent_with(RESUMABLE, agent(true), options.clone())
            .agent_with(MORTAL, agent(false), options.clone())
            .published(PUBLISHED, options.with_grace(Duration::from_secs(8)))
            .ingest_format(lines::FORMAT, lines::decoder)
            .settings(Settings::default().with_lease(LEASE))
            .access(Arc::new(Tokens { is_shared: self.planted == Some(Planted::ShareRuns) }))
            .clock(clock)
            .shared_log(log)
            .build();
        let cards = [RESUMABLE, MORTAL].map(|name| Card::new(name).with_bearer());
        let cards = OwnCards::new(&runs, cards.into());
        let a2a = upstream::servers(&runs, cards, &format!("task-{}", node.name()));
        let router = surface::router(&runs, a2a.router(), self.planted);
        (runs, router)
    }

    /// Returns the replica in that slot.
    pub fn replica(&self, slot: usize) -> Replica {
        let replicas = locked(&self.replicas);
        replicas.get(slot % REPLICAS).or_else(|| replicas.first()).cloned().unwrap_or_else(|| self.boot(0))
    }

    /// Returns a replica that is not gone, as a balancer chooses one.
    pub fn any_replica(&self, random: &mut Random) -> Replica {
        let first = random.place(REPLICAS);
        let all = (0..REPLICAS).map(|n| self.replica(first + n));
        all.into_iter()
            .find(|one| one.node.status() != Status::Crashed)
            .unwrap_or_else(|| self.replica(first))
    }

    /// Lives to the end. Returns runs that had not ended by then.
    pub async fn live(self: &Arc<Self>) -> Vec<RunId> {
        let mut clients = JoinSet::new();
        clients::spawn(self, &mut clients);
        let faults = tokio::spawn({
            let world = Arc::clone(self);
            async move { world.suffer().await }
        });
        let all = async { while clients.join_next().await.is_some() {} };
        let is_over = tokio::time::timeout(CLIENTS, all).await.is_ok();
        self.trace.note("world", || format!("clients are done: {is_over}"));
        faults.await.ok();
        let settled = tokio::time::timeout(SETTLE, async {
            while !self.log.open_runs().is_empty() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            // Agents of runs that have ended get ten seconds to leave.
            tokio::time::sleep(Duration::from_secs(15)).await;
        });
        settled.await.ok();
        self.log.open_runs()
    }

    async fn suffer(self: &Arc<Self>) {
        let begun = tokio::time::Instant::now();
        let mut under_way = JoinSet::new();
        for incident in self.plan.incidents.clone() {
            tokio::time::sleep_until(begun + incident.at).await;
            self.trace.note("world", || format!("{incident:?}"));
            let world = Arc::clone(self);
            under_way.spawn(async move { world.happen(incident).await });
        }
        while under_way.join_next().await.is_some() {}
    }

    async fn happen(&self, incident: Incident) {
        let Incident { fault, replica: slot, lasts, .. } = incident;
        let replica = self.replica(slot);
        match fault {
            Fault::Crash => self.restart(slot, &replica, lasts).await,
            Fault::Pause | Fault::Cut => {
                replica.node.set(if fault == Fault::Cut { Status::Cut } else { Status::Paused });
                tokio::time::sleep(lasts).await;
                replica.node.set(Status::Up);
            }
            Fault::Drain => {
                replica.runs.drain();
                tokio::time::sleep(lasts.min(Duration::from_secs(2))).await;
                self.restart(slot, &replica, Duration::from_millis(500)).await;
            }
            Fault::FailOver => {
                let lag = i64::try_from(lasts.as_millis() / 8).unwrap_or_default();
                let to = self.trace.now() - lag;
                self.log.fail_over(to);
            }
            Fault::Vanish => {
                let mut random = Random::new(self.plan.seed, &format!("vanish {:?}", incident.at));
                let open = self.log.open_runs();
                if let Some(run) = open.get(random.place(open.len())) {
                    self.trace.note("world", || format!("{run} vanishes"));
                    self.log.vanish(run);
                }
            }
        }
    }

    async fn restart(&self, slot: usize, replica: &Replica, after: Duration) {
        if replica.node.status() == Status::Crashed {
            return;
        }
        replica.node.set(Status::Crashed);
        replica.housekeeping.abort();
        tokio::time::sleep(after).await;
        let new = self.boot(slot);
        if let Some(place) = locked(&self.replicas).get_mut(slot) {
            *place = new;
        }
    }
}

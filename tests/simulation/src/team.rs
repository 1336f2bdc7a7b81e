//! Worlds of gateways: supervisors call a sub-agent through any gateway, and its work is shown in the supervisor's run.
//!
//! ```text
//!   client ──► gateway ──A2A──► lead ──► any gateway, /a2a/sub ──► sub
//!                 ▲ the lane of the call ◄──── tap ────┘
//! ```
//!
//! A lead calls with the proof of its own principal and the token of its run. Some calls are stolen: the token of the run, and
//! the proof of the other principal. What must hold of them is in [`check`](crate::check).

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::anyhow;
use aqueduct::a2a::Card;
use aqueduct::a2a::server::OwnCards;
use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::Part;
use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{Agent, RunId, RunInput, SourceEvent, SourceStream, Update};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::{Gateway, Surroundings};
use aqueduct_runs::{AgentOptions, Clock};
use aqueduct_transport_http::{Client, ClientConfig, Dial, Dialing};
use async_stream::stream;
use axum::Router;
use futures_util::StreamExt as _;
use http::Uri;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::agents::Scripted;
use crate::clients::{Content, Watcher, answer};
use crate::net;
use crate::node::Status;
use crate::planted::Planted;
use crate::random::Random;
use crate::record::{Expected, Record, TeamCall};
use crate::surface::Surface;
use crate::trace::locked;
use crate::upstream;
use crate::world::{Replica, World};

/// The header with the token of a run.
const TOKEN: &str = "x-aqueduct-run";

/// Runs of such a world at most: each is several runs, and passes several gateways.
const RUNS: u64 = 3;

/// The supervisor.
const LEAD: &str = "lead";
/// The sub-agent.
const SUB: &str = "sub";

/// The proofs of the two principals.
const PROOFS: [&str; 2] = ["ada-0123456789abcdef", "bob-0123456789abcdef"];

/// All replicas of a world.
pub type Replicas = Arc<Mutex<Vec<Replica>>>;

/// Returns the gateway of a replica.
///
/// # Errors
///
/// Returns an error if the configuration of this module is wrong.
pub fn gateway(surroundings: Surroundings, planted: Option<Planted>) -> anyhow::Result<Arc<Gateway>> {
    let principals = if planted == Some(Planted::ShareRuns) {
        "[principals.all]\ntokens = [\"env:ADA\", \"env:BOB\"]\n"
    } else {
        "[principals.ada]\ntoken = \"env:ADA\"\n[principals.bob]\ntoken = \"env:BOB\"\n"
    };
    let agent = |name: &str| {
        format!(
            "[agents.{name}]\na2a = {{ url = \"http://agents/a2a/{name}\", binding = \"jsonrpc\" }}\n\
             timeouts.run = \"60s\"\ngrace = \"20s\"\n"
        )
    };
    let toml = format!("[runs]\nlease = \"3s\"\n{principals}{}{}", agent(LEAD), agent(SUB));
    let [ada, bob] = PROOFS.map(str::to_owned);
    let environment = [("ADA".to_owned(), ada), ("BOB".to_owned(), bob)];
    let config = load(Path::new("team.toml"), &toml, environment).map_err(|errors| anyhow!("{errors:?}"))?;
    Gateway::with_surroundings(config, surroundings)
}

/// Returns the routes of the agents of such a world.
pub fn upstream(seed: u64, sub: Scripted, lead: Lead, clock: Clock) -> Router {
    let options = AgentOptions::default().with_run_timeout(Duration::from_secs(3_600));
    let told = options.clone().with_forward_headers([TOKEN.to_owned()]);
    let runs =
        aqueduct::builder().agent_with(LEAD, lead, told).agent_with(SUB, sub, options).clock(clock).build();
    let cards = OwnCards::new(&runs, vec![Card::new(LEAD), Card::new(SUB)]);
    upstream::servers(&runs, cards, &format!("team-{seed}")).router()
}

/// Opens the connections of agents to gateways, as a balancer would.
struct Doors {
    replicas: Replicas,
    random: Mutex<Random>,
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doors").finish_non_exhaustive()
    }
}

impl Dial for Doors {
    fn dial(&self, _target: &Uri) -> Dialing {
        let replicas = locked(&self.replicas).clone();
        let up: Vec<&Replica> = replicas.iter().filter(|one| one.node.status() != Status::Crashed).collect();
        let place = locked(&self.random).place(up.len());
        let io = up.get(place).map(|replica| net::connect(&replica.node, replica.router.clone()));
        let io = io.ok_or_else(|| std::io::ErrorKind::ConnectionRefused.into());
        Box::pin(std::future::ready(io.map(|io| Box::new(io) as _)))
    }
}

/// The supervisor of all runs. The prompt names the principal and the run.
#[derive(Debug, Clone)]
pub struct Lead {
    seed: u64,
    client: Client,
    record: Arc<Mutex<Record>>,
}

impl Lead {
    /// Returns a supervisor that reaches its sub-agent through any of the gateways.
    ///
    /// # Errors
    ///
    /// Returns an error if the client cannot be made.
    pub fn new(seed: u64, replicas: &Replicas, record: &Arc<Mutex<Record>>) -> anyhow::Result<Self> {
        let random = Mutex::new(Random::new(seed, "doors"));
        let dial: Arc<dyn Dial> = Arc::new(Doors { replicas: Arc::clone(replicas), random });
        let client = Client::new(ClientConfig { dial: Some(dial), ..ClientConfig::default() })?;
        Ok(Self { seed, client, record: Arc::clone(record) })
    }

    /// Calls the sub-agent through a gateway. Returns what it said, and whether it was done.
    async fn call(&self, name: &str, proof: &str, token: &str) -> (String, bool) {
        let message = user_message(format!("m-{name}"), None, vec![Part::text(name.to_owned())]);
        let call = Call::SendStreamingMessage(Box::new(SendMessage::new(message)));
        let endpoint = Endpoint::new("http://gateways/a2a/sub", Binding::JsonRpc, Version::V1);
        let mut content = Content::default();
        let Ok(asked) = endpoint.http_request(&call, 1) else { return (content.text(), false) };
        let mut request = http::Request::builder().method(asked.method).uri(&asked.url);
        request = request.header("authorization", format!("Bearer {proof}")).header(TOKEN, token);
        for (header, value) in &asked.headers {
            request = request.header(*header, value.as_str());
        }
        let Ok(request) = request.body(asked.body.into()) else { return (content.text(), false) };
        let Ok(mut events) = self.client.open_stream(request).await else { return (content.text(), false) };
        while let Some(Ok(event)) = events.next().await {
            let item: Value = serde_json::from_str(&event.data).unwrap_or_default();
            content.apply(item.get("result").unwrap_or(&item));
        }
        (content.text(), content.is_completed())
    }
}

impl Agent for Lead {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let (lead, prompt) = (self.clone(), request.input.text());
        let (proof, run) = prompt.split_once(' ').unwrap_or_default();
        let (proof, run) = (proof.to_owned(), run.to_owned());
        let headers = request.context.headers();
        let token = headers.into_iter().find(|(name, _)| name == TOKEN).map(|(_, token)| token);
        let mut random = Random::new(self.seed, &format!("lead of {run}"));
        Box::pin(stream! {
            yield Update::text("begin ").in_message("lead").into();
            for n in 0..=random.below(2) {
                tokio::time::sleep(random.millis(0, 500)).await;
                let is_stolen = random.below(4) == 0;
                let name = format!("{}{run}/{n}", if is_stolen { "stolen-" } else { "" });
                let other = PROOFS.into_iter().find(|other| *other != proof).unwrap_or_default();
                let proof = if is_stolen { other } else { proof.as_str() };
                let (text, is_whole) = lead.call(&name, proof, token.as_deref().unwrap_or_default()).await;
                let call = TeamCall { run: RunId::from(run.as_str()), name, text, is_whole, is_stolen };
                locked(&lead.record).calls.push(call);
                yield Update::text(format!("heard {n} ")).in_message("lead").into();
            }
            yield SourceEvent::finished();
        })
    }
}

/// Starts all clients of such a world.
pub fn spawn(world: &Arc<World>, clients: &mut JoinSet<()>) {
    for n in 0..world.plan.runs.min(RUNS) {
        clients.spawn(run_lead(Arc::clone(world), n));
    }
}

/// One run of the supervisor, with its watchers.
async fn run_lead(world: Arc<World>, n: u64) {
    let mut random = Random::new(world.plan.seed, &format!("client {n}"));
    let proof = random.pick(PROOFS);
    tokio::time::sleep(random.millis(0, 12_000)).await;
    for attempt in 0..4 {
        let run = RunId::from(format!("r{n}x{attempt}"));
        let replica = world.any_replica(&mut random);
        let input = RunInput::prompt(format!("t{n}"), run.as_bytes().clone(), &format!("{proof} {run}"));
        world.trace.note("client", || format!("start {run} at {}", replica.node.name()));
        if let Some(Ok(events)) =
            answer(&replica.node, Box::pin(Surface::Grpc.start(&replica, proof, LEAD, input))).await
        {
            locked(&world.record).expected.insert(run.clone(), Expected::Any);
            let starter = Watcher::new(&world, "starter", &run, proof).at(Surface::Grpc);
            let beside = Watcher::new(&world, "watcher", &run, proof);
            tokio::join!(starter.follow(Some((replica, events))), beside.follow(None));
            return;
        }
        locked(&world.record).refusals += 1;
        tokio::time::sleep(random.millis(200, 2_000)).await;
    }
}

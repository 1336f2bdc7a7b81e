//! The agents that replicas reach over A2A and AG-UI: an engine of its own that no fault befalls, behind the real routers.
//!
//! Its scripts are those of the other agents, and the prompt names the run whose script is played. So a run of a remote agent
//! has the same content as one of an agent in the process, however often the connection to it is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct::a2a::server::OwnCards;
use aqueduct::a2a::{Address, Binding, Card, RemoteAgent, Servers};
use aqueduct::remote::RemoteSettings;
use aqueduct::{Error, agui};
use aqueduct_core::Timestamp;
use aqueduct_runs::{AgentOptions, Clock, OnDisconnect, Runs};
use aqueduct_transport_http::Dial;
use axum::Router;

use crate::agents::Scripted;

/// The name of the agent at its own host.
const AGENT: &str = "agent";

/// Runs of these agents end by their scripts, and by cancels.
const LONG: Duration = Duration::from_secs(3_600);

/// Returns the routes of the agents of a world, over A2A and AG-UI.
pub fn router(agent: Scripted, clock: Clock) -> Router {
    // AG-UI has no cancel: the end of the connection is one, but for a moment in which the caller may come back.
    let options = AgentOptions::default().with_run_timeout(LONG).with_grace(Duration::from_secs(6));
    let options = options.with_on_disconnect(OnDisconnect::Continue);
    let runs = aqueduct::builder().agent_with(AGENT, agent, options).clock(clock).build();
    let cards = OwnCards::new(&runs, vec![Card::new(AGENT)]);
    agui::router(&runs).merge(servers(&runs, cards, "task").router())
}

/// Returns A2A servers whose ids are numbers: a seed must give the same ids each time.
pub fn servers(runs: &Runs, cards: OwnCards, prefix: &str) -> Servers {
    let (prefix, count) = (prefix.to_owned(), AtomicU64::new(0));
    let ids = move || format!("{prefix}-{}", count.fetch_add(1, Ordering::Relaxed));
    Servers::of_runs(runs, Arc::new(cards)).with_ids(ids)
}

/// Returns the agent over A2A, as one replica reaches it.
///
/// # Errors
///
/// Returns the errors of [`RemoteAgent::builder`].
pub fn over_a2a(wires: &Arc<dyn Dial>, binding: Binding) -> Result<RemoteAgent, Error> {
    let settings = RemoteSettings::default().with_dial(Arc::clone(wires));
    RemoteAgent::builder(Address::Agent(format!("http://agents/a2a/{AGENT}")))
        .binding(binding)
        .settings(settings)
        .build()
}

/// Returns the agent over AG-UI, as one replica reaches it.
///
/// # Errors
///
/// Returns the errors of [`agui::RemoteAgent::with_settings`].
pub fn over_agui(wires: &Arc<dyn Dial>) -> Result<agui::RemoteAgent, Error> {
    let settings = RemoteSettings::default().with_dial(Arc::clone(wires));
    agui::RemoteAgent::with_settings(format!("http://agents/agents/{AGENT}"), &settings)
}

/// Returns the clock of the host of the agents, which is never wrong.
pub fn clock(trace: crate::trace::Trace, epoch: i64) -> Clock {
    Arc::new(move || Timestamp(epoch + trace.now()))
}

//! A2A: agents of one's own behind it, and remote agents.

#[cfg(feature = "http")]
pub mod remote;
#[cfg(feature = "http")]
pub mod server;
pub mod signing;

#[cfg(feature = "http")]
pub use aqueduct_adapter_a2a::server::{CardConfig, PushPolicy, ServerConfig, TaskLimits};
#[cfg(feature = "http")]
pub use remote::{Address, RemoteAgent, RemoteBuilder};
#[cfg(feature = "http")]
pub use server::{Card, Cards, Servers, WELL_KNOWN, look_up_uri, several_agents};

pub use signing::{CardKey, CardSigner};

pub use aqueduct_adapter_a2a::config::DecodeConfig;
pub use aqueduct_adapter_a2a::version::{Binding, Version};

/// The metadata of a message under which an agent finds the token of the run it works for.
pub const RUN_TOKEN_METADATA: &str = "aqueduct/run";

/// Returns the servers of the agents that have a card.
#[cfg(feature = "http")]
pub fn servers(runs: &aqueduct_runs::Runs, cards: impl IntoIterator<Item = Card>) -> Servers {
    use std::sync::Arc;

    let cards = server::OwnCards::new(runs, cards.into_iter().collect());
    Servers::of_runs(runs, Arc::new(cards))
}

/// Returns the routes of one agent: `/a2a/{name}` with its card, JSON-RPC and HTTP+JSON. Where gRPC is to serve the same
/// tasks, use [`servers`].
#[cfg(feature = "http")]
pub fn router(runs: &aqueduct_runs::Runs, card: Card) -> axum::Router {
    servers(runs, [card]).router()
}

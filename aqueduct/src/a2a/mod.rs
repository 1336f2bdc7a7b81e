//! A2A: serves agents of a [`Runs`](aqueduct_runs::Runs) over it, and calls remote agents.

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

/// The metadata key of a message under which an agent receives the token of the run it works for.
pub const RUN_TOKEN_METADATA: &str = "aqueduct/run";

/// Returns the servers of the agents that have a card.
#[cfg(feature = "http")]
pub fn servers(runs: &aqueduct_runs::Runs, cards: impl IntoIterator<Item = Card>) -> Servers {
    use std::sync::Arc;

    let cards = server::OwnCards::new(runs, cards.into_iter().collect());
    Servers::of_runs(runs, Arc::new(cards))
}

/// Returns the routes of one agent: `/a2a/{name}` with its card, JSON-RPC and HTTP+JSON. To serve the same tasks over
/// gRPC too, use [`servers`].
///
/// # Examples
///
/// ```
/// use aqueduct::prelude::*;
///
/// fn echo(input: RunInput) -> impl Stream<Item = Update> {
///     stream! { yield Update::text(input.text()) }
/// }
///
/// let runs = Runs::new().agent("echo", echo);
/// let router = a2a::router(&runs, Card::new("echo").described("Repeats the prompt."));
/// # drop(router);
/// ```
#[cfg(feature = "http")]
pub fn router(runs: &aqueduct_runs::Runs, card: Card) -> axum::Router {
    servers(runs, [card]).router()
}

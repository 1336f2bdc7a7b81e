//! WebSocket: several runs on one socket, with cancel, resume, replies and ingest.
//!
//! | route | what |
//! |---|---|
//! | `GET /ws` | requests name their agent |
//! | `GET /agents/{name}/ws` | requests are for that agent unless they name another |

use std::sync::Arc;

use aqueduct_core::protocol::Protocol;
use aqueduct_runs::Runs;
use axum::Router;

pub use aqueduct_transport_ws::{Config, Endpoint, Limits};

/// Returns the routes for the agents of `runs`, in AG-UI.
///
/// # Examples
///
/// ```
/// use aqueduct::prelude::*;
///
/// let runs = Runs::new();
/// // AG-UI over HTTP and over WebSocket, on one socket.
/// # #[cfg(feature = "http")]
/// let router: Router = agui::router(&runs).merge(ws::router(&runs));
/// # #[cfg(feature = "http")]
/// # drop(router);
/// ```
#[cfg(feature = "agui")]
pub fn router(runs: &Runs) -> Router {
    router_with(runs, Arc::new(crate::agui::AguiProtocol::default()), Config::default())
}

/// Returns the routes for the agents of `runs`, in the given protocol.
pub fn router_with(runs: &Runs, protocol: Arc<dyn Protocol>, config: Config) -> Router {
    endpoint(runs, protocol, config).router()
}

/// Returns the endpoint behind the routes, for hosts that export its counters.
pub fn endpoint(runs: &Runs, protocol: Arc<dyn Protocol>, config: Config) -> Endpoint {
    Endpoint::new(Arc::new(runs.clone()), protocol, config)
}

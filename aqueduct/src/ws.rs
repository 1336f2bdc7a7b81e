//! WebSocket: several runs on one socket, with cancel, resume, replies and ingest.
//!
//! | route | what |
//! |---|---|
//! | `GET /ws` | requests name their agent |
//! | `GET /agents/{name}/ws` | requests are for that agent unless they name another |

use std::sync::Arc;

use aqueduct_core::protocol::Protocol;
use aqueduct_runs::Runs;
use aqueduct_transport_ws::{Config, Endpoint};
use axum::Router;

/// Returns the routes for the agents of `runs`, in AG-UI.
#[cfg(feature = "agui")]
pub fn router(runs: &Runs) -> Router {
    router_with(runs, Arc::new(crate::agui::AguiProtocol::default()), Config::default())
}

/// Returns the routes for the agents of `runs`, in the protocol of one's choice.
pub fn router_with(runs: &Runs, protocol: Arc<dyn Protocol>, config: Config) -> Router {
    Endpoint::new(Arc::new(runs.clone()), protocol, config).router()
}

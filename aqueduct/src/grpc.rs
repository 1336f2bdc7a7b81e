//! gRPC: `aqueduct.v1.AgentStream` with health and reflection, and A2A's services for agents that have a card.

use std::sync::Arc;

use aqueduct_runs::Runs;
use axum::Router;

pub use aqueduct_transport_grpc::raw::{Payloads, RawAnswer, RawCall, RawService, RawStatus};
pub use aqueduct_transport_grpc::{Config, Limits, Services, Timeouts, unimplemented};

#[cfg(feature = "a2a")]
pub use crate::a2a::server::grpc::{A2aV1, A2aV03};

/// Returns the routes of `aqueduct.v1.AgentStream` for the agents of `runs`, with health and reflection.
pub fn router(runs: &Runs) -> Router {
    // The only error is an invalid descriptor, and a test parses those of this crate.
    services(runs, Config::default()).router().unwrap_or_default()
}

/// Returns the services for the agents of `runs`, for hosts that set limits or mount other services.
pub fn services(runs: &Runs, config: Config) -> Services {
    Services::new(Arc::new(runs.clone()), config)
}

/// Mounts both A2A services, for the same agents and tasks as the other bindings of `servers`.
#[cfg(feature = "a2a")]
pub fn mount_a2a(services: Services, servers: &crate::a2a::Servers) -> Services {
    services.mount_raw(Arc::new(A2aV1(servers.clone()))).mount_raw(Arc::new(A2aV03(servers.clone())))
}

/// Returns the routes of both A2A services, for the same agents and tasks as the other bindings of `servers`.
#[cfg(feature = "a2a")]
pub fn a2a_router(runs: &Runs, servers: &crate::a2a::Servers) -> Router {
    use aqueduct_transport_grpc::AgentStreamServer;
    use axum::routing::post_service;

    let beside = AgentStreamServer::new(Arc::new(runs.clone()), &Config::default());
    let (v1, v03) = (A2aV1(servers.clone()), A2aV03(servers.clone()));
    Router::new()
        .route("/lf.a2a.v1.A2AService/{method}", post_service(beside.beside(Arc::new(v1))))
        .route("/a2a.v1.A2AService/{method}", post_service(beside.beside(Arc::new(v03))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflection_reads_the_descriptions() {
        assert!(Services::new(Arc::new(Runs::new()), Config::default()).router().is_ok());
    }
}

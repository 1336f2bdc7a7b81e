//! gRPC: `aqueduct.v1.AgentStream`, and A2A's services for agents that have a card.

use std::sync::Arc;

use aqueduct_runs::Runs;
use aqueduct_transport_grpc::{AgentStreamServer, ServerConfig};
use aqueduct_transport_http::BodyLimitLift;
use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use axum::routing::post_service;

/// Returns the routes of `aqueduct.v1.AgentStream` for the agents of `runs`.
pub fn router(runs: &Runs) -> Router {
    let service = AgentStreamServer::new(Arc::new(runs.clone()), &ServerConfig::default());
    let service = post_service(service).layer(map_request(lift_body_limits));
    Router::new().route("/aqueduct.v1.AgentStream/{method}", service)
}

/// Returns the routes of both A2A services, for the same agents and tasks as the other bindings of `servers`.
#[cfg(feature = "a2a")]
pub fn a2a_router(runs: &Runs, servers: &crate::a2a::Servers) -> Router {
    use crate::a2a::server::grpc::{A2aV1, A2aV03};

    let beside = AgentStreamServer::new(Arc::new(runs.clone()), &ServerConfig::default());
    let (v1, v03) = (A2aV1(servers.clone()), A2aV03(servers.clone()));
    Router::new()
        .route("/lf.a2a.v1.A2AService/{method}", post_service(beside.beside(Arc::new(v1))))
        .route("/a2a.v1.A2AService/{method}", post_service(beside.beside(Arc::new(v03))))
}

/// A publisher streams for as long as its run takes; the service bounds each message, and the time to the first.
async fn lift_body_limits(request: Request) -> Request {
    if let Some(limits) = request.extensions().get::<BodyLimitLift>() {
        limits.lift();
    }
    request
}

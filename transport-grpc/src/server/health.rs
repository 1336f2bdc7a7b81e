//! `grpc.health.v1.Health`, for the server and each service by name.
//!
//! ```text
//! SERVING ──the server drains──► NOT_SERVING
//! ```
//!
//! The state is that of the server that received the request ([`Stopping`]), so no component has to report it.

use std::pin::{Pin, pin};

use aqueduct_transport_http::Stopping;
use futures_core::Stream;
use futures_util::StreamExt as _;
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Answers for a list of services; the empty name is the server.
#[derive(Debug)]
pub(super) struct Health {
    names: Vec<&'static str>,
}

impl Health {
    /// Returns the service for these names. The empty name, the whole server, is always known.
    pub(super) fn new(names: Vec<&'static str>) -> Self {
        Self { names }
    }

    /// Returns `true` for the names of mounted services, and for the empty name of the whole server.
    fn knows(&self, name: &str) -> bool {
        name.is_empty() || self.names.contains(&name)
    }
}

#[async_trait]
impl health_server::Health for Health {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let stopping = stopping(&request);
        if !self.knows(&request.get_ref().service) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(state(&stopping)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let stopping = stopping(&request);
        if !self.knows(&request.get_ref().service) {
            // The protocol requires a state here: the service may be mounted later.
            let unknown = futures_util::stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(Box::pin(unknown.chain(futures_util::stream::pending()))));
        }
        let now = state(&stopping);
        let is_serving = !is_stopping(&stopping);
        let later = futures_util::stream::once(async move {
            if is_serving {
                let (leaving, draining) = (stopping.leaving.cancelled(), stopping.draining.cancelled());
                futures_util::future::select(pin!(leaving), pin!(draining)).await;
                Ok(response(ServingStatus::NotServing))
            } else {
                std::future::pending().await
            }
        });
        // A watch does not end by itself.
        let states =
            futures_util::stream::iter([Ok(now)]).chain(later).chain(futures_util::stream::pending());
        Ok(Response::new(Box::pin(states)))
    }
}

/// Returns the shutdown signal of the server that received the request.
fn stopping<T>(request: &Request<T>) -> Stopping {
    request.extensions().get::<Stopping>().cloned().unwrap_or_default()
}

/// Returns `true` once the server drains or is about to.
fn is_stopping(stopping: &Stopping) -> bool {
    stopping.leaving.is_cancelled() || stopping.draining.is_cancelled()
}

/// Returns the serving status for the stage of the server.
fn state(stopping: &Stopping) -> HealthCheckResponse {
    response(if is_stopping(stopping) { ServingStatus::NotServing } else { ServingStatus::Serving })
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

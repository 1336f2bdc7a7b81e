//! `grpc.health.v1.Health` for the server and each service by name.
//!
//! ```text
//! SERVING ──the server drains──► NOT_SERVING
//! ```
//!
//! The state is that of the server that the request came through ([`Stopping`]), so nothing has to report it.

use std::pin::Pin;

use aqueduct_core::CancelToken;
use aqueduct_transport_http::Stopping;
use futures_core::Stream;
use futures_util::StreamExt as _;
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Answers for a list of services; the empty name stands for the server.
#[derive(Debug)]
pub(super) struct Health {
    names: Vec<&'static str>,
}

impl Health {
    pub(super) fn new(names: Vec<&'static str>) -> Self {
        Self { names }
    }

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
        let draining = draining(&request);
        if !self.knows(&request.get_ref().service) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(state(&draining)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let draining = draining(&request);
        if !self.knows(&request.get_ref().service) {
            // The protocol wants this as a state: the service may come later.
            let unknown = futures_util::stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(Box::pin(unknown.chain(futures_util::stream::pending()))));
        }
        let now = state(&draining);
        let is_serving = !draining.is_cancelled();
        let later = futures_util::stream::once(async move {
            if is_serving {
                draining.cancelled().await;
                Ok(response(ServingStatus::NotServing))
            } else {
                std::future::pending().await
            }
        });
        // A watch has no end of its own.
        let states =
            futures_util::stream::iter([Ok(now)]).chain(later).chain(futures_util::stream::pending());
        Ok(Response::new(Box::pin(states)))
    }
}

fn draining<T>(request: &Request<T>) -> CancelToken {
    request.extensions().get::<Stopping>().map(|stopping| stopping.draining.clone()).unwrap_or_default()
}

fn state(draining: &CancelToken) -> HealthCheckResponse {
    response(if draining.is_cancelled() { ServingStatus::NotServing } else { ServingStatus::Serving })
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

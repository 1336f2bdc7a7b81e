//! WebSocket on the gateway's port: AG-UI as the protocol of its connections.

use std::sync::Arc;

use aqueduct_core::service::RunService;
use aqueduct_transport_ws::{Config as WsConfig, Endpoint, Limits};

use super::agui;
use crate::service::Gateway;

/// Returns an endpoint for the gateway's runs.
pub(super) fn endpoint(service: Arc<dyn RunService>, gateway: &Arc<Gateway>) -> Endpoint {
    let limits = Limits { merge_bytes: gateway.config().server.merge, ..Limits::default() };
    let config = WsConfig { limits, ..WsConfig::default() };
    Endpoint::new(service, Arc::new(agui::protocol(gateway)), config)
}

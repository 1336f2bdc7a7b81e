//! WebSocket on the gateway's port: AG-UI as the protocol of its connections.

use std::sync::Arc;

use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::version::Encoding as AguiEncoding;
use aqueduct_core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct_core::service::{EventEncoder, RefusalKind, RunService, ServiceError};
use aqueduct_transport_ws::{Config as WsConfig, Endpoint, Limits};

use super::agui::settings_for;
use crate::config::Agent;
use crate::service::Gateway;

/// Returns an endpoint for the gateway's runs.
pub(super) fn endpoint(service: Arc<dyn RunService>, gateway: &Arc<Gateway>) -> Endpoint {
    let limits = Limits { merge_bytes: gateway.config().server.merge, ..Limits::default() };
    let config = WsConfig { limits, ..WsConfig::default() };
    Endpoint::new(service, Arc::new(Agui(Arc::clone(gateway))), config)
}

/// AG-UI as the protocol of connections: each agent is shown as its configuration says.
struct Agui(Arc<Gateway>);

fn encoder_for(agent: &Agent, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
    let is_binary = encoding == Encoding::Binary;
    // The binary form is read by 1.0 alone.
    let declared = declared.or_else(|| is_binary.then_some("1.0"));
    let encoding = if is_binary { AguiEncoding::Proto } else { AguiEncoding::Sse };
    Box::new(WatcherEncoder::for_settings(&settings_for(agent, declared), encoding))
}

impl Protocol for Agui {
    fn read_input(&self, agent: &str, bytes: &[u8], encoding: Encoding) -> Result<ReadInput, ServiceError> {
        let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
        let input = read_input(bytes).map_err(|error| invalid(error.to_string()))?;
        if input.thread_id.is_empty() || input.run_id.is_empty() {
            return Err(invalid("threadId and runId must not be empty: choose ids of your own".to_owned()));
        }
        // An unknown agent is refused by the service.
        let agent = self.0.agent(agent).map(|agent| agent.config.clone()).unwrap_or_default();
        let encoder = encoder_for(&agent, input.protocol_version.as_deref(), encoding);
        Ok(ReadInput::new(run_input(input), encoder))
    }

    fn encoder(&self, agent: &str, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
        encoder_for(&self.0.agent_config(agent).unwrap_or_default(), declared, encoding)
    }
}

//! Agents of one's own over WebSocket, in AG-UI. `cargo run -p aqueduct-examples-ws-endpoint [port]`

use std::error::Error;
use std::sync::Arc;

use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::{Settings, version};
use aqueduct_core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct_core::service::{EventEncoder, RefusalKind, ServiceError};
use aqueduct_examples_logged_agent::LoggedAgents;
use aqueduct_transport_http::{Admission, CancelToken, Server, ServerConfig};
use aqueduct_transport_ws::{Config, Endpoint};

/// AG-UI as JSON: a run input says which version its sender reads; a watcher gets the newest.
struct Agui;

impl Protocol for Agui {
    fn read_input(&self, _: &str, bytes: &[u8], _: Encoding) -> Result<ReadInput, ServiceError> {
        let input =
            read_input(bytes).map_err(|error| ServiceError::new(RefusalKind::Invalid, error.to_string()))?;
        let encoder = encoder(input.protocol_version.as_deref());
        Ok(ReadInput::new(run_input(input), encoder))
    }

    fn encoder(&self, _: &str, declared: Option<&str>, _: Encoding) -> Box<dyn EventEncoder> {
        encoder(declared.or(Some(version::PROTOCOL_VERSION)))
    }
}

fn encoder(version: Option<&str>) -> Box<dyn EventEncoder> {
    Box::new(WatcherEncoder::new(converters(&Settings::for_declared(version)), version::Encoding::Sse))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(8001), |port| port.parse())?;
    let endpoint = Endpoint::new(Arc::new(LoggedAgents::scripted()), Arc::new(Agui), Config::default());
    let server = Server::bind(("127.0.0.1", port), ServerConfig::default()).await?;
    println!("ws://{}/ws", server.local_addr()?);
    server.serve(Admission::default().apply(endpoint.router()), CancelToken::new()).await;
    Ok(())
}

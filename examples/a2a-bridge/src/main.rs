//! Serves a remote A2A agent over AG-UI. `cargo run -p aqueduct-examples-a2a-bridge <address of the A2A agent> [port]`
use aqueduct::prelude::*;

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let mut args = std::env::args().skip(1);
    let agent = a2a::RemoteAgent::new(args.next().unwrap_or_default())?;
    let options = AgentOptions::default().with_on_disconnect(OnDisconnect::Cancel);
    let runs = Runs::new().agent_with("remote", agent, options);
    let port = args.next().unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), agui::router(&runs)).await
}

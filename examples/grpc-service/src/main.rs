//! Agents of one's own as a gRPC stream service, with health and reflection.
//! `cargo run -p aqueduct-examples-grpc-service [port]`

use std::error::Error;
use std::sync::Arc;

use aqueduct_examples_logged_agent::LoggedAgents;
use aqueduct_transport_grpc::{Server, ServerConfig};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(50051), |port| port.parse())?;
    let agents = Arc::new(LoggedAgents::scripted());
    let server = Server::new(agents, ServerConfig::default()).bind(("127.0.0.1", port)).await?;
    println!("{}", server.address());
    server.serve().await;
    Ok(())
}

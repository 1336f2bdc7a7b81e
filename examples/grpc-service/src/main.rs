//! Agents of one's own as a gRPC stream service, with health and reflection.
//! `cargo run -p aqueduct-examples-grpc-service [port]`

use std::error::Error;
use std::sync::Arc;

use aqueduct_examples_logged_agent::LoggedAgents;
use aqueduct_transport_grpc::{Config, Services, unimplemented};
use aqueduct_transport_http::{CancelToken, Server, ServerConfig};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(50051), |port| port.parse())?;
    let services = Services::new(Arc::new(LoggedAgents::scripted()), Config::default());
    let server = Server::bind(("127.0.0.1", port), ServerConfig::http2_only()).await?;
    println!("{}", server.local_addr()?);
    server.serve(services.router()?.fallback(unimplemented), CancelToken::new()).await;
    Ok(())
}

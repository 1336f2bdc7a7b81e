//! The bridge as a program: `cargo run -p aqueduct-examples-a2a-bridge <address of the A2A agent> [port]`

use std::error::Error;

use aqueduct_examples_a2a_bridge::Bridge;
use aqueduct_transport_http::{Admission, CancelToken, Server, ServerConfig};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let agent = args.next().ok_or("say where the A2A agent is, e.g. http://127.0.0.1:9000")?;
    let port: u16 = args.next().map_or(Ok(8000), |port| port.parse())?;
    let bridge = Bridge::to_agent(&agent).await?;
    let server = Server::bind(("127.0.0.1", port), ServerConfig::default()).await?;
    println!("http://{}/", server.local_addr()?);
    server.serve(Admission::default().apply(bridge.into_router()), CancelToken::new()).await;
    Ok(())
}

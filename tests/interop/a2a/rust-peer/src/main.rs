//! The official A2A crates for Rust as a peer of the interop tests.
//!
//! ```text
//! rust-peer serve
//! rust-peer URL --binding JSONRPC|HTTP+JSON|GRPC --modes MODE,MODE…
//! ```
//!
//! The server prints its address and serves until it is ended; the client prints one line of JSON per turn. Both do
//! what the other peers' scripts do.

mod client;
mod modes;
mod seen;
mod server;

use std::error::Error;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => server::run().await,
        [url, "--binding", binding, "--modes", modes] => client::run(url, binding, modes).await,
        _ => Err("usage: serve | URL --binding BINDING --modes MODE,MODE".into()),
    }
}

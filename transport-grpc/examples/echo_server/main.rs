//! A gRPC stream service with scripted agents, for trying out clients in other languages.
//!
//! `cargo run -p aqueduct-transport-grpc --example echo_server [address]` prints `listening on <address>` and serves
//! until its standard input ends.
//!
//! | agent | what it does |
//! |---|---|
//! | `echo` | sends thinking, a tool call, and the user's text, word by word |
//! | `wait` | sends `waiting` and nothing more, until it is cancelled |
//! | `ask` | requests a name by an interrupt; with the reply in `resume` it greets |
//!
//! `Publish` takes payloads of format `text`: each becomes a fragment of the answer. A payload `ask:<id>` becomes an
//! interrupt; its reply is sent to the publisher when any run is started with it in `resume`.

mod service;

use std::error::Error;
use std::sync::Arc;

use aqueduct_transport_grpc::{Config, Services, unimplemented};
use aqueduct_transport_http::{CancelToken, Server, ServerConfig};
use service::MemoryService;
use tokio::io::AsyncReadExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let services = Services::new(Arc::new(MemoryService::with_examples()), Config::default());
    let server = Server::bind(address, ServerConfig::http2_only()).await?;
    say(&format!("listening on {}", server.local_addr()?));
    let stop = CancelToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        // Standard input is discarded; its end ends the program.
        let mut input = tokio::io::stdin();
        let mut ignored = [0; 1024];
        while input.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
        stop.cancel();
    });
    server.serve(services.router()?.fallback(unimplemented), stopped).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the program that started this one reads the address")]
fn say(line: &str) {
    println!("{line}");
}

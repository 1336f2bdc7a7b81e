//! Serves your own agent over your own protocol. `cargo run -p aqueduct-examples-custom-protocol [port]`
mod plain;

use std::sync::Arc;

use aqueduct::prelude::*;

fn agent(input: RunInput) -> impl Stream<Item = Update> {
    stream! {
        yield Update::thinking("Hm.");
        yield Update::text(format!("You said: {}", input.text()));
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let runs = Runs::new().agent("echo", agent);
    let app = aqueduct::router(&runs, Arc::new(plain::Plain));
    let port = std::env::args().nth(1).unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), app).await
}

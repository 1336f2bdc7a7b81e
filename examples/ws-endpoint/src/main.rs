//! Serves your own agents over WebSocket, in AG-UI. `cargo run -p aqueduct-examples-ws-endpoint [port]`
use std::time::Duration;

use aqueduct::prelude::*;

fn echo(input: RunInput) -> impl Stream<Item = Update> {
    stream! {
        for word in input.text().split_inclusive(' ') {
            yield Update::text(word.to_owned());
        }
    }
}

fn slow(_: RunInput) -> impl Stream<Item = Update> {
    stream! {
        for number in 0.. {
            yield Update::text(format!("{number} "));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let runs = Runs::builder().agent("echo", echo).agent("slow", slow);
    let runs = runs.published("mine", AgentOptions::default()).build();
    let port = std::env::args().nth(1).unwrap_or_else(|| "8001".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), ws::router(&runs)).await
}

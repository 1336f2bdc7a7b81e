//! Serves your own agent over AG-UI. `cargo run -p aqueduct-examples-agui-endpoint [port]`
use std::time::Duration;

use aqueduct::prelude::*;

fn agent(input: RunInput) -> impl Stream<Item = Update> {
    stream! {
        yield Update::thinking("Let me look that up.");
        yield Update::tool_use("call_1", "search", json!({ "query": "answer" }));
        yield Update::tool_result("call_1", "42");
        for word in format!("You asked: {} The answer is 42.", input.text()).split_inclusive(' ') {
            tokio::time::sleep(Duration::from_millis(20)).await;
            yield Update::text(word.to_owned());
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let runs = Runs::new().agent("oracle", agent);
    let port = std::env::args().nth(1).unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), agui::router(&runs)).await
}

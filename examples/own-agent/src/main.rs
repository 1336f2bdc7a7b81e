//! Serves your own agent over AG-UI, A2A, WebSocket and gRPC. `cargo run -p aqueduct-examples-own-agent [port]`
use aqueduct::prelude::*;

fn agent(input: RunInput) -> impl Stream<Item = Update> {
    stream! {
        yield Update::thinking("Let me look that up.");
        yield Update::tool_use("call_1", "search", json!({ "query": input.text() }));
        yield Update::tool_result("call_1", "42");
        for word in ["The ", "answer ", "is ", "42."] {
            yield Update::text(word);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let runs = Runs::new().agent("oracle", agent);
    let a2a = a2a::servers(&runs, [Card::new("oracle")]);
    let app = Router::new()
        .merge(agui::router(&runs))
        .merge(a2a.router())
        .merge(ws::router(&runs))
        .merge(grpc::router(&runs))
        .merge(grpc::a2a_router(&runs, &a2a));
    let port = std::env::args().nth(1).unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), app).await
}

//! Serves your own agent over A2A. `cargo run -p aqueduct-examples-a2a-endpoint [port]`
use aqueduct::prelude::*;

/// Requests the city by an interrupt, if the message is a question.
fn agent(input: RunInput) -> impl Stream<Item = SourceEvent> {
    stream! {
        if input.text().ends_with('?') {
            let mut interrupt = Interrupt::new(format!("{}/city", input.run_id), "input_required");
            interrupt.message = Some("Which city?".into());
            yield SourceEvent::interrupt(interrupt);
            yield SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            return;
        }
        yield Update::thinking("Looking out of the window.").into();
        yield Update::text(format!("It rains in {}.", input.text())).into();
        yield SourceEvent::finished();
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let runs = Runs::new().agent("weather", agent);
    let card =
        Card::new("weather").described("Says what the weather is.").with_skill("forecast", "Forecasts");
    let port = std::env::args().nth(1).unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), a2a::router(&runs, card)).await
}

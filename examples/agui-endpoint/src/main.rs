//! An AG-UI endpoint for an agent of one's own. `cargo run -p aqueduct-examples-agui-endpoint [port]`
use std::{error::Error, time::Duration, vec};

use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::{Settings, convert::converters, encode::WatcherEncoder, version::Encoding};
use aqueduct_core::{CancelToken, ContentBlock, Message, RunId, RunInfo, RunInput, RunOutcome, SourceEvent};
use aqueduct_core::{SourceStreamExt as _, StreamContext, Update, service::NumberedEvent};
use aqueduct_transport_http::{Admission, EventPosition, Refusal, Server, ServerConfig, StreamOptions};
use axum::{Router, extract::Request, response::Response, routing::post};
use futures_util::{Stream, StreamExt as _, stream};

/// The agent. It says what it has to say; what opens and closes is not its business.
fn agent(input: &RunInput) -> impl Stream<Item = SourceEvent> + Send + use<> {
    let asked = input.latest_user_message().map(Message::text).unwrap_or_default();
    let answer = format!("You asked: {asked} The answer is 42.");
    let mut script = vec![
        SourceEvent::from(Update::new(ContentBlock::thinking("Let me look that up."))),
        Update::new(ContentBlock::tool_use("call_1", "search", r#"{"query":"answer"}"#)).into(),
        Update::new(ContentBlock::tool_result("call_1", "42")).into(),
    ];
    script.extend(answer.split_inclusive(' ').map(|word| Update::text(word.to_owned()).into()));
    script.push(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
    stream::unfold(Work(input.run_id.clone(), script.into_iter()), async |mut work| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((work.1.next()?, work))
    })
}

/// Dropped when the run is over, or its reader has gone: the place to stop a model, say.
struct Work(RunId, vec::IntoIter<SourceEvent>);
impl Drop for Work {
    #[expect(clippy::print_stderr, reason = "the log of an example")]
    fn drop(&mut self) {
        eprintln!("run {}: {} updates left", self.0, self.1.len());
    }
}

async fn run(request: Request) -> Result<Response, Refusal> {
    let (_, body) = aqueduct_transport_http::read_json(request).await?;
    let input = read_input(&body).map_err(|error| Refusal::invalid(error.to_string()))?;
    let settings = Settings::for_declared(input.protocol_version.as_deref());
    let encoder = Box::new(WatcherEncoder::new(converters(&settings), Encoding::Sse));
    let input = run_input(input);
    let context = StreamContext::new(RunInfo::new(input.thread_id.as_str(), input.run_id.as_str()));
    let events = agent(&input).through(context).zip(stream::iter(1..));
    let events = Box::pin(events.map(|(event, number)| NumberedEvent { number, event }));
    let (start, options) = (EventPosition::start(input.run_id), StreamOptions::default());
    Ok(aqueduct_transport_http::stream_response(&start, events, encoder, &options))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(8000), |port| port.parse())?;
    let server = Server::bind(("127.0.0.1", port), ServerConfig::default()).await?;
    println!("http://{}/", server.local_addr()?);
    server.serve(Admission::default().apply(Router::new().route("/", post(run))), CancelToken::new()).await;
    Ok(())
}

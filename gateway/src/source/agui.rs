//! An AG-UI agent upstream.
//!
//! What the agent says is decoded by the adapter; a stream that ends without a terminal event is simply at its end here,
//! and the run's machine says that it was cut. AG-UI has no way to tell an agent to stop but to hang up.

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::decode::Decoder;
use aqueduct_adapter_agui::input::run_agent_input;
use aqueduct_adapter_agui::wire::RunAgentInput;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{RunFailure, RunInput, RunOutcome, SourceEvent};
use aqueduct_transport_http::sse::Event;
use aqueduct_transport_http::{ClientError, SseStream};
use futures_util::StreamExt as _;

use super::upstream::{Upstream, failure_of, unsent};
use super::{Ask, EVENTS_TOGETHER, EventSender, RunSource};

#[derive(Debug)]
pub(crate) struct AguiSource {
    pub(crate) upstream: Upstream,
    pub(crate) url: String,
}

impl RunSource for AguiSource {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let stop = ask.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => out.finish(RunOutcome::Cancelled).await,
                result = self.talk(&ask, &out) => {
                    if let Err(failure) = result {
                        out.fail(failure).await;
                    }
                }
            }
        })
    }
}

impl AguiSource {
    /// Asks, and gives the stream that comes back, with what was asked.
    pub(crate) async fn open(&self, ask: &Ask) -> Result<(RunAgentInput, SseStream), RunFailure> {
        let forwarded = ask.trail.forwarded(&ask.input.forwarded);
        let input = run_agent_input(&RunInput { forwarded, ..(*ask.input).clone() }, Dialect::V1_0);
        let body = serde_json::to_vec(&input).map_err(|error| {
            RunFailure::new(RunFailure::UPSTREAM_INVALID, format!("the input cannot be written: {error}"))
        })?;
        let headers = [("content-type", "application/json"), ("accept", "text/event-stream")];
        let request = self.upstream.request("POST", &self.url, &headers, &ask.forwarded, body.into());
        let request = request.map_err(unsent)?;
        let stream = self.upstream.client.open_stream(request).await.map_err(|error| failure_of(&error))?;
        Ok((input, stream))
    }

    async fn talk(&self, ask: &Ask, out: &EventSender) -> Result<(), RunFailure> {
        let (input, mut stream) = self.open(ask).await?;
        let mut decoder = Decoder::new().with_input(&input);
        while let Some(event) = stream.next().await {
            let mut said = Vec::new();
            let read = hear(event, &mut stream, &mut decoder, &mut said);
            // What was said before a failure is told before it.
            if !out.send_all(said).await || read.map_err(|failure| *failure)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What was read together is told together. True if nothing more is to come.
fn hear(
    first: Result<Event, ClientError>,
    stream: &mut SseStream,
    decoder: &mut Decoder,
    said: &mut Vec<SourceEvent>,
) -> Result<bool, Box<RunFailure>> {
    let mut next = Some(first);
    while let Some(event) = next {
        let event = event.map_err(|error| Box::new(failure_of(&error)))?;
        let read = decoder.handle_payload(&event.data);
        said.extend(std::iter::from_fn(|| decoder.poll_event()));
        // A payload cut by the end of the stream is the trace of the cut, which the run's machine tells.
        match read {
            Err(_) if !event.terminated => return Ok(true),
            Err(error) => {
                return Err(Box::new(RunFailure::new(RunFailure::UPSTREAM_INVALID, error.to_string())));
            }
            Ok(()) if decoder.is_ended() => return Ok(true),
            Ok(()) => {}
        }
        next = if said.len() < EVENTS_TOGETHER { stream.ready_event() } else { None };
    }
    Ok(false)
}

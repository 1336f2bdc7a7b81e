//! `aqueduct record`: writes the frames of an agent with their timing to a file.
//!
//! The request to an A2A or AG-UI agent is the one that the gateway would send. Frames are written as they arrive,
//! before they are decoded. For any other agent the command writes the AG-UI 1.0 events that the gateway emits.
//!
//! Ctrl-C cancels the request at the agent, and the frames after that are recorded too; a second Ctrl-C exits at once.
//!
//! ```text
//! ask ──┬─ A2A, AG-UI ──► SSE stream or complete body ──┐
//!       └─ other agents (and A2A over gRPC) ──► run ────┴──► copy ──► recording::Writer ──► file or stdout
//!                      Ctrl-C ──► Stop::tell ──► frames until the end
//! ```
//!
//! Invariants: every frame that arrived is in the file, also frames that no decoder accepts; the last line
//! describes how the stream ended, also after Ctrl-C. The format is defined in [`recording`](crate::recording).

mod stop;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use aqueduct::a2a::remote::RawAnswer;
use aqueduct_adapter_agui::config::{Dialect as AguiDialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::version::Encoding;
use aqueduct_core::service::{EventEncoder as _, EventStream, PayloadSink, RunService as _};
use aqueduct_core::{AgentRequest, RunInput};
use aqueduct_transport_http::SseStream;
use futures_util::StreamExt as _;

use crate::cli::RecordArgs;
use crate::config::{AgentSource, Config};
use crate::progress::{Progress, count};
use crate::recording::{Dialect, Head, Writer};
use crate::service::{Gateway, now};
use crate::source::Forwarded;
use crate::{chat, exit, remote};
use stop::Stop;

/// Runs `aqueduct record`.
///
/// Returns `exit::USAGE` if the agent cannot be resolved, `exit::FAILED` if the agent does not respond or the
/// file cannot be written, and `exit::OK` otherwise, whatever the outcome of the recorded run: a recording of a
/// failure is a good recording.
pub fn command(
    args: &RecordArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let environment = environment.into_iter().collect();
    let work = async {
        let found = chat::resolve(&args.target, &args.reach, environment);
        Progress::new().during("looking for the agent", found).await
    };
    let (config, name) = match chat::block_on(work) {
        Ok(found) => found,
        Err(error) => return exit::USAGE.report(notes, "record", &error),
    };
    let recorded = chat::block_on(record(args, config, &name, out, notes));
    exit::finish("record", recorded, notes)
}

/// Sends the request, copies all frames, and writes a summary line to `notes`.
async fn record(
    args: &RecordArgs,
    config: Config,
    name: &str,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let asked = Progress::new().during("waiting for the agent", ask(args, config, name)).await?;
    let Asked { dialect, incoming, stop } = asked;
    let head = Head::new(dialect, args.target.as_str(), args.prompt.as_str());
    // The file is created once the agent has responded, so that a typing error in its address leaves no empty
    // file behind.
    let mut file = match &args.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    // A file is buffered; standard output is written line by line, so that a pipe receives frames as they
    // arrive.
    let to: &mut dyn Write = match &mut file {
        Some(file) => file,
        None => out,
    };
    let mut writer = Writer::new(to, &head)?;
    let cut = copy(incoming, stop, begun, &mut writer).await?;
    writer.end(begun.elapsed(), cut.as_deref())?;
    let (frames, bytes) = (writer.frames, writer.bytes);
    let how = cut.map_or_else(|| "closed".to_owned(), |reason| format!("cut: {reason}"));
    let (frames, bytes) = (count(frames, "frame"), count(bytes, "byte"));
    writeln!(notes, "{frames}, {bytes} in {:.1} s; {how}", begun.elapsed().as_secs_f64()).ok();
    Ok(())
}

/// The response of an agent: a stream of its frames, a complete body, or events of a run.
enum Incoming {
    /// Server-sent events of the agent. Boxed, because the other variants are small.
    Stream(Box<SseStream>),
    /// A response without a stream, recorded as one frame. Taken by the first `next`, so an empty string means
    /// the end.
    Whole(String),
    /// Canonical events of a run in this process, encoded as AG-UI 1.0.
    Events(EventStream, Box<WatcherEncoder>),
}

/// A request that was sent to an agent.
struct Asked {
    /// The dialect of the head line; readers of the file choose their decoder by it.
    dialect: Dialect,
    incoming: Incoming,
    stop: Stop,
}

/// Sends the prompt to the agent and returns its response.
///
/// # Errors
///
/// The agent is not configured, cannot be reached, or refuses the request. The message ends with the code of
/// the failure, such as `(upstream_unauthorized)`.
async fn ask(args: &RecordArgs, config: Config, name: &str) -> anyhow::Result<Asked> {
    let thread = format!("record-{}", now().0);
    let input = RunInput::prompt(thread.clone(), format!("{thread}-1"), &args.prompt);
    let agent = config
        .agents
        .get(name)
        .with_context(|| format!("there is no agent {name}: name one of the configuration, or give a URL"))?;
    let mut request = AgentRequest::new(input);
    request.context = Arc::new(Forwarded::from_pairs(args.reach.caller.headers.clone()));
    let failed =
        |failure: aqueduct_core::RunFailure| anyhow::anyhow!("{} ({})", failure.message, failure.code);
    match agent.source.clone() {
        AgentSource::A2a { .. } => {
            let source = remote::a2a(agent, remote::Way::default())?;
            // `None`: the agent is called over gRPC, whose frames are protobuf and cannot be recorded as text.
            let Some((dialect, answer)) = source.open_raw(&request).await.map_err(failed)? else {
                return as_events(args, config, name, request).await;
            };
            let (incoming, stop) = match answer {
                RawAnswer::Stream(stream) => {
                    let stop = Stop::Task { source: Box::new(source), dialect, task: None };
                    (Incoming::Stream(stream), stop)
                }
                RawAnswer::Whole(response) => {
                    let text = String::from_utf8_lossy(response.body()).into_owned();
                    (Incoming::Whole(text), Stop::HangUp)
                }
            };
            Ok(Asked { dialect: Dialect::of_a2a(dialect), incoming, stop })
        }
        AgentSource::Agui { .. } => {
            let (_, stream) =
                remote::agui(agent, remote::Way::default())?.open(&request).await.map_err(failed)?;
            let incoming = Incoming::Stream(Box::new(stream));
            Ok(Asked { dialect: Dialect::Agui, incoming, stop: Stop::HangUp })
        }
        _ => as_events(args, config, name, request).await,
    }
}

/// Returns the AG-UI events of an agent whose own frames are not available.
///
/// Sources without text frames are scripts, fan-outs and A2A agents over gRPC. They run in a gateway inside
/// this process.
async fn as_events(
    args: &RecordArgs,
    config: Config,
    name: &str,
    request: AgentRequest,
) -> anyhow::Result<Asked> {
    let service = Gateway::new(config)?;
    let input = Arc::unwrap_or_clone(request.input);
    let started = service.runs().start(&chat::caller(&args.reach.caller), name, input).await?;
    let encoder = WatcherEncoder::new(converters(&Settings::new(AguiDialect::V1_0)), Encoding::Json);
    let stop = Stop::Run { service, run: started.run_id };
    let incoming = Incoming::Events(started.events, Box::new(encoder));
    Ok(Asked { dialect: Dialect::Agui, incoming, stop })
}

/// Writes all frames. Returns the error that cut the stream, if there was one.
///
/// Each frame is written and flushed with the time of its arrival since `begun`. The select is biased towards
/// Ctrl-C, so that an agent that streams without pause cannot delay it; `Incoming::next` is cancel-safe, so no
/// frame is lost by that.
async fn copy(
    mut incoming: Incoming,
    mut stop: Stop,
    begun: Instant,
    writer: &mut Writer<'_>,
) -> anyhow::Result<Option<String>> {
    let mut progress = Progress::new();
    let mut interrupts = chat::Interrupts::new()?;
    let mut is_told = false;
    loop {
        let next = tokio::select! {
            biased;
            () = interrupts.next() => {
                // The first Ctrl-C cancels at the agent and recording continues. The second one, or a request
                // that cannot be cancelled, ends the recording as cut.
                if !is_told && stop.tell().await {
                    is_told = true;
                    continue;
                }
                Next::End(Some("the recorder was stopped".to_owned()))
            }
            next = incoming.next() => next,
        };
        let at = begun.elapsed();
        match next {
            Next::Frames(frames) => {
                for (event, data) in frames {
                    stop.note(&data);
                    writer.frame(at, event.as_deref(), &data)?;
                }
                progress.tell(&format!("{}, {} bytes", count(writer.frames, "frame"), writer.bytes));
            }
            Next::End(cut) => return Ok(cut),
        }
    }
}

/// The result of one wait for the agent.
enum Next {
    /// SSE event names and data. One canonical event may be encoded as several frames or none.
    Frames(Vec<(Option<String>, String)>),
    /// The end of the stream, with the reason if it was cut.
    End(Option<String>),
}

impl Incoming {
    /// Waits for the next frames. Cancel-safe: no frame is taken before this returns.
    async fn next(&mut self) -> Next {
        match self {
            Self::Stream(stream) => match stream.next().await {
                Some(Ok(event)) => {
                    let name = event.event.map(|name| name.to_string());
                    Next::Frames(vec![(name, event.data.to_string())])
                }
                Some(Err(error)) => Next::End(Some(error.to_string())),
                None => Next::End(None),
            },
            Self::Whole(text) if text.is_empty() => Next::End(None),
            Self::Whole(text) => Next::Frames(vec![(None, std::mem::take(text))]),
            Self::Events(events, encoder) => match events.next().await {
                Some(numbered) => {
                    let mut payloads = Payloads(Vec::new());
                    encoder.encode(&numbered.event, &mut payloads);
                    Next::Frames(payloads.0.into_iter().map(|payload| (None, payload)).collect())
                }
                None => Next::End(None),
            },
        }
    }
}

/// Collects encoded payloads as text.
struct Payloads(Vec<String>);

impl PayloadSink for Payloads {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        write(&mut payload);
        self.0.push(String::from_utf8_lossy(&payload).into_owned());
    }
}

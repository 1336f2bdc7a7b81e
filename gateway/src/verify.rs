//! `aqueduct verify`: the strict AG-UI verifier of the adapter, as a report for people or programs.
//!
//! ```text
//! file, stdin ──► lines ──► framing, from the first line
//!                             ├─ SSE ────────► bytes of the line ──┐
//!                             ├─ JSON lines ─► the line ───────────┼──► TextVerifier ──► Findings
//!                             └─ recording ──► data of the frame ──┤
//! URL ──► one run ──► bytes of the response ───────────────────────┘
//! ```
//!
//! The rules are those of the adapter; this module reads the stream. `report` writes the findings. A stream of
//! another protocol is refused with the command that converts it, instead of being reported as a stream with
//! many violations.

mod report;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

use anyhow::Context as _;
use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::input::run_agent_input;
use aqueduct_adapter_agui::verify::{Level, TextVerifier, Verifier};
use aqueduct_core::RunInput;
use aqueduct_transport_http::{Client, ClientConfig, sse};
use bytes::Bytes;
use futures_util::StreamExt as _;

use crate::cli::{ClientDialect, FromDialect, ReportFormat, VerifyArgs};
use crate::convert::detect;
use crate::input::{self, MAX_BYTES};
use crate::progress::Progress;
use crate::recording::RecordedLine;
use crate::{config, exit, recording, tls};
pub(crate) use report::{Findings, to_json};

/// Runs `aqueduct verify`.
///
/// Returns `exit::OK` without findings, `exit::FAILED` with at least one, and `exit::USAGE` if the stream
/// cannot be read or is not AG-UI. `notes` receives the reason in the last case.
pub fn command(
    args: &VerifyArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    match findings(args, input) {
        Ok(found) => {
            // A reader that has closed the output does not change the findings.
            let format = if args.json { ReportFormat::Json } else { args.format };
            report::write(&found, format, out).ok();
            if found.found.is_empty() { exit::OK } else { exit::FAILED }
        }
        Err(error) => exit::USAGE.report(notes, "verify", &error),
    }
}

/// Reads the stream of the argument: `-` is standard input, a URL is an agent, anything else is a file.
fn findings(args: &VerifyArgs, input: &mut dyn Read) -> anyhow::Result<Findings> {
    let target = args.target.clone();
    if target == "-" {
        let found = judge(verifier(args), &mut BufReader::new(input)).context("standard input")?;
        return Ok(Findings { target: "stdin".to_owned(), ..found });
    }
    if target.starts_with("http://") || target.starts_with("https://") {
        return crate::runtime()?.block_on(verify_url(args));
    }
    let file = File::open(&target).with_context(|| format!("{target} cannot be opened"))?;
    let found = judge(verifier(args), &mut BufReader::new(file)).with_context(|| target.clone())?;
    Ok(Findings { target, ..found })
}

/// Runs the agent once and verifies its response. The framing is verified too, so the bytes are passed on unchanged.
async fn verify_url(args: &VerifyArgs) -> anyhow::Result<Findings> {
    let dialect = dialect(args.dialect);
    let input = run_agent_input(&RunInput::prompt("verify-thread", "verify-run", &args.prompt), dialect);
    let mut request = http::Request::post(&args.target)
        .header("content-type", "application/json")
        .header("accept", sse::MEDIA_TYPE);
    if let Some(token) = args.caller.token()? {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in &args.caller.headers {
        request = request.header(name, value);
    }
    let request = request.body(Bytes::from(serde_json::to_vec(&input)?))?;
    let files = config::ClientTls { ca: args.caller.ca().map(Into::into), identity: None };
    let tls = tls::of_client(Some(&files)).context("--ca")?;
    let client = Client::new(ClientConfig { tls, ..ClientConfig::default() })?;
    let mut progress = Progress::new();
    let opened = client.open_bytes(request, sse::is_event_stream);
    let (_, mut bytes) = progress.during("waiting for the agent", opened).await?;
    let mut verifier = verifier(args);
    let (mut events, mut decoder) = (0, sse::Decoder::new(sse::DecodeLimits::default()));
    while let Some(chunk) = progress.during("the agent streams", bytes.next()).await {
        match chunk {
            Ok(chunk) => {
                verifier.handle_bytes(&chunk);
                decoder.handle_chunk(chunk);
                events += complete_events(&mut decoder);
            }
            // A broken connection is a stream without an end, which the verifier reports.
            Err(_) => break,
        }
    }
    decoder.handle_eof();
    events += complete_events(&mut decoder);
    Ok(Findings { target: args.target.clone(), found: verifier.handle_end(), lines: Vec::new(), events })
}

/// Returns the number of events that are complete by now. A chunk may begin and end anywhere in an event.
fn complete_events(decoder: &mut sse::Decoder) -> usize {
    std::iter::from_fn(|| decoder.poll_event()).flatten().count()
}

/// Converts the dialect of the command line into the one of the adapter.
fn dialect(dialect: ClientDialect) -> Dialect {
    match dialect {
        ClientDialect::V1_0 => Dialect::V1_0,
        ClientDialect::V0_0_59 => Dialect::V0_0_59,
    }
}

/// Returns a verifier that behaves like the client of the arguments. `--client` reports only what that client
/// rejects; the default also reports what it loses without an error.
fn verifier(args: &VerifyArgs) -> TextVerifier {
    let dialect = dialect(args.dialect);
    let level = if args.client { Level::Client } else { Level::Strict };
    TextVerifier::new(Verifier::new(dialect, level))
}

/// The framing of a stream, detected from its first line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Lines of server-sent events. The verifier receives the bytes and checks the framing too.
    Sse,
    /// One event per line.
    Lines,
    /// A file of `aqueduct record`. The verifier receives the data of the frames; time stamps are not checked.
    Recording,
}

/// Verifies a stream. The bytes are passed on unchanged, because the verifier also checks the framing.
///
/// `lines` of the result holds the line on which each event begins, so that findings can be printed with their
/// line. The inspector calls this too.
///
/// # Errors
///
/// A line is longer than `MAX_BYTES`, the input cannot be read, or the stream is not AG-UI. Invalid events are
/// findings and not errors.
pub(crate) fn judge(mut verifier: TextVerifier, input: &mut dyn BufRead) -> anyhow::Result<Findings> {
    let mut framing = None;
    let mut line = Vec::new();
    let mut lines = Vec::new();
    let mut in_event = false;
    for number in 1.. {
        line.clear();
        let limit = MAX_BYTES as u64 + 1;
        // Reading stops one byte after the limit, so a file without line breaks is not read into memory.
        input.take(limit).read_until(b'\n', &mut line)?;
        anyhow::ensure!(line.len() <= MAX_BYTES, "line {number} is longer than {MAX_BYTES} bytes");
        if line.is_empty() {
            break;
        }
        let text = line.trim_ascii();
        if framing.is_none() {
            framing = framing_of(&line, number)?;
            if framing == Some(Framing::Recording) {
                continue;
            }
        }
        match framing {
            None => {}
            Some(Framing::Sse) => {
                // Only the first `data` line of an event is noted: an event may have several.
                if text.starts_with(b"data") && !std::mem::replace(&mut in_event, true) {
                    refuse_others(text.strip_prefix(b"data:").unwrap_or(text), lines.is_empty())?;
                    lines.push(number);
                }
                in_event &= !text.is_empty();
                verifier.handle_bytes(&line);
            }
            Some(_) if text.is_empty() => {}
            Some(Framing::Lines) => {
                refuse_others(text, lines.is_empty())?;
                lines.push(number);
                verifier.handle_payload(&String::from_utf8_lossy(text));
            }
            Some(Framing::Recording) => {
                // The end line of the recording, and lines that are not of its format, contain no event.
                if let Some(RecordedLine::Frame((_, data))) =
                    recording::line_of(&String::from_utf8_lossy(text))
                {
                    lines.push(number);
                    verifier.handle_payload(&data);
                }
            }
        }
    }
    let found = verifier.handle_end();
    Ok(Findings { target: String::new(), found, events: lines.len(), lines })
}

/// Detects the framing from a first line. Returns `None` if the line is white space. The head line of a
/// recording is JSON too, so it is examined before the stream is taken for JSON lines.
fn framing_of(line: &[u8], number: usize) -> anyhow::Result<Option<Framing>> {
    let Some(is_sse) = input::is_sse(line, number)? else { return Ok(None) };
    if is_sse {
        return Ok(Some(Framing::Sse));
    }
    match recording::head_of(&String::from_utf8_lossy(line)) {
        None => Ok(Some(Framing::Lines)),
        Some(recording::Dialect::Agui) => Ok(Some(Framing::Recording)),
        Some(_) => anyhow::bail!("this is a recording of A2A: {CONVERT_FIRST}"),
    }
}

/// The remedy in every refusal of another protocol.
const CONVERT_FIRST: &str = "convert it first, `aqueduct convert FILE --to agui | aqueduct verify -`";

/// Refuses a stream in another dialect, which would otherwise be reported as AG-UI with many violations. Only
/// the first payload is examined: a later one that looks different is a violation, which the verifier reports.
fn refuse_others(payload: &[u8], is_first: bool) -> anyhow::Result<()> {
    match is_first.then(|| detect(payload)).flatten() {
        None | Some(FromDialect::Agui | FromDialect::Auto) => Ok(()),
        Some(FromDialect::Magentic) if !is_workflow(payload) => Ok(()),
        Some(FromDialect::Magentic) => {
            anyhow::bail!("this is a stream of Microsoft Agent Framework: {CONVERT_FIRST}")
        }
        Some(_) => anyhow::bail!("this is a stream of A2A: {CONVERT_FIRST}"),
    }
}

/// Returns `true` if the members of an event belong to workflows only. An unknown `type` alone may be a mistaken AG-UI
/// event.
fn is_workflow(payload: &[u8]) -> bool {
    ["\"event_class\"", "\"executor_id\"", "\"update\""]
        .iter()
        .any(|member| memchr::memmem::find(payload, member.as_bytes()).is_some())
}

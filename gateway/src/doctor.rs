//! `aqueduct doctor`: reports the protocol of an agent, how it streams, what would not work, and the
//! configuration for it.
//!
//! ```text
//! URL ──► card? ── yes ──► A2A: versions, bindings, capabilities, security ──┐
//!              └── no ───► AG-UI ────────────────────────────────────────────┴──► one run: frames, shape, end ──► report
//! ```
//!
//! The command sends one prompt to the agent, which `--no-run` omits, and changes nothing else there. It uses
//! the clients of the gateway (`remote`), so an agent that passes is reached in the same way by `serve`.
//!
//! Each finding is one line: `✓` works, `·` is information, `✗` would not work. Only `✗` changes the exit code.
//! The module reads frames as untyped JSON, because it has to describe frames that the adapters would refuse.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct::a2a::remote::RawAnswer;
use aqueduct_adapter_a2a::card;
use aqueduct_adapter_a2a::wire::AgentCard;
use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, TextVerifier, Verifier};
use aqueduct_core::{AgentRequest, RunFailure, RunInput};
use aqueduct_transport_http::SseStream;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::cli::{DoctorArgs, UrlProtocol};
use crate::config::{Agent, AgentSource};
use crate::progress::{Progress, count};
use crate::source::Forwarded;
use crate::{chat, exit, remote};

/// The longest time of one answer that is examined. An agent that streams longer is reported with what it sent
/// until then.
const LOOK: Duration = Duration::from_secs(30);
/// The largest number of frames of one answer that are examined: enough to see the shape, and a bound for
/// memory.
const FRAMES: usize = 2_000;

/// Runs `aqueduct doctor`.
///
/// Returns `exit::OK` without a `✗`, `exit::FAILED` with at least one, and `exit::USAGE` if the argument is not
/// a URL. The report is written to `out` in both of the first two cases: an unreachable agent is a finding.
pub fn command(args: &DoctorArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    if !args.url.starts_with("http://") && !args.url.starts_with("https://") {
        writeln!(notes, "aqueduct doctor: {} is no URL: it must begin with http:// or https://", args.url)
            .ok();
        return exit::USAGE;
    }
    let looked = chat::block_on(async {
        let mut report = Report::default();
        look(args, &mut report).await?;
        Ok(report)
    });
    match looked {
        Ok(report) => {
            report.write(args, out).ok();
            if report.wrong == 0 { exit::OK } else { exit::FAILED }
        }
        Err(error) => {
            writeln!(notes, "aqueduct doctor: {error:#}").ok();
            exit::FAILED
        }
    }
}

/// The findings, and the configuration derived from them.
#[derive(Debug, Default)]
struct Report {
    /// The sign and the text of each finding, in the order in which they were made.
    lines: Vec<(char, String)>,
    /// The number of `✗` lines.
    wrong: usize,
    is_a2a: bool,
    /// The name in the card, or empty: it becomes the key of the agent in the configuration.
    name: String,
    /// Set if the card lists security schemes or the agent refused the call: the configuration gets a
    /// `credentials` line.
    wants_token: bool,
}

impl Report {
    /// Adds a finding that works.
    fn good(&mut self, words: impl Into<String>) {
        self.lines.push(('✓', words.into()));
    }

    /// Adds information that neither works nor fails.
    fn note(&mut self, words: impl Into<String>) {
        self.lines.push(('·', words.into()));
    }

    /// Adds a finding that would not work, and makes the command fail.
    fn bad(&mut self, words: impl Into<String>) {
        self.wrong += 1;
        self.lines.push(('✗', words.into()));
    }

    /// Writes the findings and the lines for the configuration, which are complete also if something would not
    /// work:
    ///
    /// ```text
    /// [agents.weather]
    /// a2a.url = "https://weather.example.org"
    /// credentials = "env:WEATHER_TOKEN"
    /// ```
    fn write(&self, args: &DoctorArgs, out: &mut dyn Write) -> std::io::Result<()> {
        for (sign, words) in &self.lines {
            writeln!(out, "{sign} {words}")?;
        }
        let verdict = match self.wrong {
            0 => "It works. The lines for the configuration:".to_owned(),
            n => format!(
                "{} would not work (✗). The lines for the configuration, once they do:",
                count(n as u64, "thing")
            ),
        };
        writeln!(out, "\n{verdict}\n")?;
        let name = args.name.clone().unwrap_or_else(|| key_of(&self.name));
        let kind = if self.is_a2a { "a2a" } else { "agui" };
        writeln!(out, "[agents.{name}]\n{kind}.url = {}", Value::from(args.url.as_str()))?;
        if self.wants_token || args.caller.token.is_some() {
            writeln!(out, "credentials = \"env:{}_TOKEN\"", name.to_ascii_uppercase().replace('-', "_"))?;
        }
        if let Some(ca) = args.caller.ca() {
            writeln!(out, "tls.ca = {}", Value::from(ca.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Converts the name of a card into a valid key of the configuration. Names without an ASCII letter or digit
/// become `agent`.
fn key_of(name: &str) -> String {
    let letters = name.to_lowercase();
    let words = letters.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let key = words.collect::<Vec<_>>().join("-");
    if key.is_empty() { "agent".to_owned() } else { key }
}

/// Examines the agent: its card first, then one answer.
///
/// Without a card the agent is taken for AG-UI, which has no discovery document. An agent that cannot be
/// reached ends the examination, because a run would fail for the same reason.
async fn look(args: &DoctorArgs, report: &mut Report) -> anyhow::Result<()> {
    let mut progress = Progress::new();
    let found = match args.protocol {
        UrlProtocol::Agui => Ok(None),
        _ => progress.during("reading the card", chat::find_card(&args.url, &args.caller)).await,
    };
    match found {
        Ok(Some((url, text))) => {
            report.is_a2a = true;
            report.good(format!("A2A: the card is at {url}"));
            look_at_card(&text, &args.url, report);
        }
        Ok(None) if args.protocol == UrlProtocol::A2a => {
            report.bad("A2A: no card where cards are (/.well-known/agent-card.json)");
        }
        Ok(None) => report.note("no A2A card, so it is taken for AG-UI"),
        Err(error) => {
            report.is_a2a = args.protocol == UrlProtocol::A2a;
            report.wants_token = format!("{error:#}").contains("--token");
            report.bad(format!("it cannot be reached: {error:#}"));
            return Ok(());
        }
    }
    if args.no_run {
        report.note("no run was started (--no-run)");
        return Ok(());
    }
    let asked = progress.during("waiting for the agent", ask(args, report.is_a2a)).await;
    match asked {
        Ok(seen) => look_at_answer(&seen, report),
        Err(failure) => {
            // The one failure that the user can repair on the command line.
            let is_refused = &*failure.code == "upstream_unauthorized";
            report.wants_token |= is_refused;
            let hint = if is_refused { ": give a token with `--token`" } else { "" };
            report.bad(format!("it does not answer: {} ({}){hint}", failure.message, failure.code));
        }
    }
    Ok(())
}

/// Reports what the card offers and which interface the gateway would choose.
///
/// A card that was written on the agent's own machine often names `localhost`. It works there and nowhere else,
/// so it is reported if the agent was reached under another host.
fn look_at_card(text: &str, url: &str, report: &mut Report) {
    let Ok(found) = card::parse(text) else { return report.bad("the card cannot be read") };
    report.name = found.name.to_string();
    report.note(format!("it is called {:?}, version {:?}", &*found.name, &*found.version));
    let endpoints = card::endpoints(&found);
    for endpoint in &endpoints {
        report.note(format!("offers {:?} {:?} at {}", endpoint.binding, endpoint.version, endpoint.url));
    }
    let bindings =
        [aqueduct::a2a::Binding::JsonRpc, aqueduct::a2a::Binding::HttpJson, aqueduct::a2a::Binding::Grpc];
    match card::choose_by_card(&found, &bindings) {
        Ok(endpoint) => {
            report.good(format!(
                "the gateway uses {:?} {:?} at {}",
                endpoint.binding, endpoint.version, endpoint.url
            ));
            if let (Some(asked), Some(named)) = (host_of(url), host_of(&endpoint.url))
                && is_local(&named)
                && !is_local(&asked)
            {
                report.bad(format!("the card names {named}, which leads nowhere from other machines: configure the public address of the agent"));
            }
        }
        Err(error) => report.bad(format!("no interface that the gateway speaks: {error}")),
    }
    look_at_capabilities(&found, text, report);
}

/// Reports streaming, required extensions, security schemes and skills.
///
/// The security schemes are read from the text of the card, where 0.3 and 1.0 use the same member. Schemes are
/// reported, not tried: only the run shows whether the token is accepted.
fn look_at_capabilities(found: &AgentCard<'_>, text: &str, report: &mut Report) {
    if found.capabilities.streaming {
        report.good("it streams");
    } else {
        report.note("it does not stream: answers come whole");
    }
    let missing = card::missing_extensions(found, &[]);
    if !missing.is_empty() {
        report.bad(format!("it refuses clients without the extensions {}", missing.join(", ")));
    }
    let raw: Value = serde_json::from_str(text).unwrap_or_default();
    let schemes = raw.get("securitySchemes").and_then(Value::as_object);
    if let Some(schemes) = schemes.filter(|schemes| !schemes.is_empty()) {
        let names: Vec<&str> = schemes.keys().map(String::as_str).collect();
        report.wants_token = true;
        report.note(format!(
            "it names {}: {}",
            count(names.len() as u64, "security scheme"),
            names.join(", ")
        ));
    } else {
        report.note("its card asks for no credentials");
    }
    report.note(count(found.skills.len() as u64, "skill"));
}

/// Returns the host of a URL, or `None` if the text is not a URL with a host.
fn host_of(url: &str) -> Option<String> {
    let url: http::Uri = url.parse().ok()?;
    url.host().map(str::to_owned)
}

/// Returns `true` for hosts that mean the machine of the reader: loopback and unspecified addresses.
fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "0.0.0.0" | "[::]" | "[::1]") || host.starts_with("127.")
}

/// The response to one prompt.
#[derive(Debug, Default)]
struct Seen {
    is_a2a: bool,
    /// Set if the response was an event stream, `false` for one complete body.
    is_stream: bool,
    /// The data of each frame, or the complete body as the only frame.
    frames: Vec<String>,
    /// From the request to the first frame.
    first: Duration,
    /// From the request to the end of the response, or to the limit.
    took: Duration,
    /// Why the answer is incomplete, if it is.
    cut: Option<String>,
}

/// Sends the prompt and collects the response.
///
/// # Errors
///
/// Returns the failure that a run would have: the agent cannot be reached, refuses the call, or responds with
/// something that is not its protocol. Arguments that cannot be used (a token, a CA file) are
/// `UPSTREAM_INVALID`.
async fn ask(args: &DoctorArgs, is_a2a: bool) -> Result<Seen, RunFailure> {
    let invalid = |error: anyhow::Error| RunFailure::new(RunFailure::UPSTREAM_INVALID, format!("{error:#}"));
    let source =
        if is_a2a { chat::a2a(&args.url) } else { AgentSource::Agui { url: args.url.clone(), resume: true } };
    let mut agent = Agent { source, ..Agent::default() };
    chat::dress(&mut agent, &args.caller).map_err(invalid)?;
    let mut request = AgentRequest::new(RunInput::prompt("doctor-thread", "doctor-run", &args.prompt));
    request.context = Arc::new(Forwarded::from_pairs(args.caller.headers.clone()));
    let begun = Instant::now();
    let mut seen = Seen { is_a2a, ..Seen::default() };
    if !is_a2a {
        let (_, stream) =
            remote::agui(&agent, remote::Way::default()).map_err(invalid)?.open(&request).await?;
        read(stream, begun, &mut seen).await;
        return Ok(seen);
    }
    match remote::a2a(&agent, remote::Way::default()).map_err(invalid)?.open_raw(&request).await? {
        Some((_, RawAnswer::Stream(stream))) => read(*stream, begun, &mut seen).await,
        Some((_, RawAnswer::Whole(response))) => {
            seen.frames.push(String::from_utf8_lossy(response.body()).into_owned());
            (seen.first, seen.took) = (begun.elapsed(), begun.elapsed());
        }
        None => seen.cut = Some("gRPC frames are not text: use `aqueduct run` to try it".to_owned()),
    }
    Ok(seen)
}

/// Reads frames until the end, an error, [`LOOK`] or [`FRAMES`]. An error of the stream is recorded in
/// `seen.cut`.
async fn read(mut stream: SseStream, begun: Instant, seen: &mut Seen) {
    seen.is_stream = true;
    let all = async {
        while let Some(frame) = stream.next().await {
            match frame {
                Ok(frame) => seen.frames.push(frame.data.to_string()),
                Err(error) => {
                    seen.cut = Some(error.to_string());
                    return;
                }
            }
            if seen.frames.len() == 1 {
                seen.first = begun.elapsed();
            }
            if seen.frames.len() >= FRAMES {
                return;
            }
        }
    };
    let is_late = tokio::time::timeout(LOOK, all).await.is_err();
    seen.took = begun.elapsed();
    if is_late {
        seen.cut = Some(format!("it still streams after {} s", LOOK.as_secs()));
    }
}

/// Reports number and time of the frames, then what the protocol requires of them.
fn look_at_answer(seen: &Seen, report: &mut Report) {
    let (frames, took) = (count(seen.frames.len() as u64, "frame"), seen.took.as_secs_f64());
    let first = seen.first.as_secs_f64();
    if seen.is_stream {
        report.good(format!("it answers: {frames} in {took:.1} s, the first after {first:.1} s"));
    } else if !seen.frames.is_empty() {
        report.good(format!("it answers whole, after {took:.1} s"));
    }
    if let Some(cut) = &seen.cut {
        report.note(cut.clone());
    }
    if seen.is_a2a { look_at_a2a(seen, report) } else { look_at_agui(seen, report) }
}

/// Verifies AG-UI frames strictly. Violations are information and not failures, because the gateway repairs
/// them for its own clients; a client that talks to the agent directly would see them.
fn look_at_agui(seen: &Seen, report: &mut Report) {
    let mut verifier = TextVerifier::new(Verifier::new(Dialect::V1_0, Level::Strict));
    seen.frames.iter().for_each(|frame| verifier.handle_payload(frame));
    let found = verifier.handle_end();
    if seen.frames.is_empty() {
        report.bad("it sent no event");
    } else if found.is_empty() {
        report.good("AG-UI: clients take the stream, and lose nothing");
    } else {
        let rules: std::collections::BTreeSet<&str> =
            found.iter().map(|violation| violation.rule.id()).collect();
        let rules: Vec<&str> = rules.into_iter().collect();
        report.note(format!(
            "AG-UI: {} ({}), which the gateway repairs; `aqueduct verify URL` tells more",
            count(found.len() as u64, "violation"),
            rules.join(", ")
        ));
    }
}

/// Reports the shape in which an A2A agent streams, derived from its frames.
///
/// The shape decides how the gateway finds the answer: in artifact chunks, in complete artifacts, in status
/// texts or in a bare message. Both versions are recognised, with or without the JSON-RPC envelope:
///
/// ```text
/// 0.3  {"kind":"artifact-update","append":true,"artifact":{…}}
/// 1.0  {"artifactUpdate":{"append":true,"artifact":{…}}}
/// ```
///
/// A stream without a final or interrupted state is reported as `✗`, because runs of the gateway end as failed
/// then.
fn look_at_a2a(seen: &Seen, report: &mut Report) {
    let (mut texts, mut chunks, mut appended, mut messages, mut is_over) = (0, 0, 0, 0, false);
    for frame in &seen.frames {
        let value: Value = serde_json::from_str(frame).unwrap_or_default();
        if let Some(error) = value.get("error") {
            report.bad(format!("it answers with an error: {error}"));
            return;
        }
        let item = value.get("result").unwrap_or(&value);
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or_default();
        // 0.3 names the kind in a member of the item; 1.0 names it by the member that contains the item.
        let part = |old: &str, new: &str| if kind == old { Some(item) } else { item.get(new) };
        if let Some(update) = part("artifact-update", "artifactUpdate") {
            chunks += 1;
            appended += usize::from(update.get("append") == Some(&Value::Bool(true)));
        }
        messages += usize::from(part("message", "message").is_some());
        for state in [part("status-update", "statusUpdate"), part("task", "task")].into_iter().flatten() {
            let status = state.get("status");
            texts += usize::from(status.and_then(|status| status.get("message")).is_some());
            let state = status.and_then(|status| status.get("state")?.as_str()).unwrap_or_default();
            // States of both versions, as in `completed`, `TASK_STATE_COMPLETED`, `input-required`.
            let ends = ["completed", "failed", "canceled", "rejected", "input", "auth"];
            is_over |= ends.iter().any(|end| state.to_ascii_lowercase().contains(end));
        }
    }
    let shape = match (chunks, texts, messages) {
        (0, 0, 0) => return report.bad("nothing in its answer is A2A"),
        (0, 0, _) => "a bare message, without a task".to_owned(),
        (0, n, _) => {
            format!("status texts alone ({n}): the gateway tells notices from the answer by their shape")
        }
        (n, _, _) if appended > 0 => format!("its answer as artifact chunks ({n}, {appended} appended)"),
        (n, _, _) => format!("whole artifacts ({n})"),
    };
    report.good(format!("it sends {shape}"));
    if !is_over && messages == 0 && seen.cut.is_none() {
        report.bad("its stream ends without a final state: runs will end as failed (upstream_ended)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_key() {
        assert_eq!(key_of("Weather Agent 2.0"), "weather-agent-2-0");
        assert_eq!(key_of("天気"), "agent");
    }

    fn report_of(frames: &[&str]) -> Report {
        let frames = frames.iter().map(|frame| (*frame).to_owned()).collect();
        let mut report = Report::default();
        look_at_a2a(&Seen { is_a2a: true, is_stream: true, frames, ..Seen::default() }, &mut report);
        report
    }

    #[test]
    fn the_shape_of_a_stream_is_told() {
        let chunk = r#"{"result":{"kind":"artifact-update","append":true,"artifact":{}}}"#;
        let done = r#"{"result":{"statusUpdate":{"status":{"state":"TASK_STATE_COMPLETED"}}}}"#;
        let report = report_of(&[chunk, chunk, done]);
        assert_eq!(report.wrong, 0, "{report:?}");
        assert!(report.lines[0].1.contains("artifact chunks (2, 2 appended)"), "{report:?}");
        assert_eq!(report_of(&[chunk]).wrong, 1, "it never ends");
        assert_eq!(report_of(&[r#"{"error":{"code":-32603}}"#]).wrong, 1);
        assert_eq!(report_of(&["{}"]).wrong, 1);
    }
}

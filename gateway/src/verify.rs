//! `aqueduct verify`: the strict AG-UI verifier of the adapter, as a report for people or programs.
//!
//! The rules are the adapter's; here is only where the stream comes from and how findings are written.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

use anyhow::Context as _;
use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::input::run_agent_input;
use aqueduct_adapter_agui::verify::{Level, Severity, TextVerifier, Verifier, Violation};
use aqueduct_core::RunInput;
use aqueduct_transport_http::{Client, ClientConfig, sse};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::cli::{ClientDialect, VerifyArgs};
use crate::exit;
use crate::input::{self, MAX_BYTES};

/// Runs the command.
pub fn command(
    args: &VerifyArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    match findings(args, input) {
        Ok(found) => {
            // A reader that has gone does not change what was found.
            report(&found, args.json, out).ok();
            if found.is_empty() { exit::OK } else { exit::FAILED }
        }
        Err(error) => {
            writeln!(notes, "aqueduct verify: {error:#}").ok();
            exit::USAGE
        }
    }
}

fn findings(args: &VerifyArgs, input: &mut dyn Read) -> anyhow::Result<Vec<Violation>> {
    if args.target == "-" {
        return judge(verifier(args), &mut BufReader::new(input)).context("standard input");
    }
    if args.target.starts_with("http://") || args.target.starts_with("https://") {
        return crate::runtime()?.block_on(verify_url(args));
    }
    let file = File::open(&args.target).with_context(|| format!("{} cannot be opened", args.target))?;
    judge(verifier(args), &mut BufReader::new(file)).with_context(|| args.target.clone())
}

/// Runs the agent once and judges its answer. The answer's framing is judged too, so its bytes are taken as they come.
async fn verify_url(args: &VerifyArgs) -> anyhow::Result<Vec<Violation>> {
    let dialect = dialect(args.dialect);
    let input = run_agent_input(&RunInput::prompt("verify-thread", "verify-run", &args.prompt), dialect);
    let request = http::Request::post(&args.target)
        .header("content-type", "application/json")
        .header("accept", sse::MEDIA_TYPE)
        .body(Bytes::from(serde_json::to_vec(&input)?))?;
    let client = Client::new(ClientConfig::default())?;
    let (_, mut bytes) = client.open_bytes(request, sse::is_event_stream).await?;
    let mut verifier = verifier(args);
    while let Some(chunk) = bytes.next().await {
        match chunk {
            Ok(chunk) => verifier.handle_bytes(&chunk),
            // A broken connection is a stream without its end, which the verifier reports.
            Err(_) => break,
        }
    }
    Ok(verifier.handle_end())
}

fn dialect(dialect: ClientDialect) -> Dialect {
    match dialect {
        ClientDialect::V1_0 => Dialect::V1_0,
        ClientDialect::V0_0_59 => Dialect::V0_0_59,
    }
}

/// A verifier that stands in for the client of the arguments.
fn verifier(args: &VerifyArgs) -> TextVerifier {
    let dialect = dialect(args.dialect);
    let level = if args.client { Level::Client } else { Level::Strict };
    TextVerifier::new(Verifier::new(dialect, level))
}

/// Bytes go to the verifier as they are: it also judges the framing.
pub(crate) fn judge(mut verifier: TextVerifier, input: &mut dyn BufRead) -> anyhow::Result<Vec<Violation>> {
    let mut is_sse = None;
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        number += 1;
        let limit = MAX_BYTES as u64 + 1;
        input.take(limit).read_until(b'\n', &mut line)?;
        anyhow::ensure!(line.len() <= MAX_BYTES, "line {number} is longer than {MAX_BYTES} bytes");
        if line.is_empty() {
            return Ok(verifier.handle_end());
        }
        if is_sse.is_none() {
            is_sse = input::is_sse(&line, number)?;
        }
        match is_sse {
            None => {}
            Some(true) => verifier.handle_bytes(&line),
            Some(false) if line.trim_ascii().is_empty() => {}
            Some(false) => verifier.handle_payload(&String::from_utf8_lossy(line.trim_ascii())),
        }
    }
}

/// Writes findings.
fn report(found: &[Violation], as_json: bool, out: &mut dyn Write) -> std::io::Result<()> {
    for violation in found {
        let Violation { index, event, rule, severity, what } = violation;
        if as_json {
            let line = to_json(violation);
            writeln!(out, "{line}")?;
            continue;
        }
        let event = if event.is_empty() { "(no event)" } else { event };
        writeln!(out, "event {index} {event}: {} ({})", rule.id(), word(*severity))?;
        writeln!(out, "    {what}")?;
        writeln!(out, "    fix: {}", rule.fix())?;
    }
    if !as_json {
        writeln!(out, "{}", summary(found))?;
    }
    Ok(())
}

/// A finding for programs.
pub(crate) fn to_json(violation: &Violation) -> serde_json::Value {
    let Violation { index, event, rule, severity, what } = violation;
    json!({
        "index": index, "event": event, "rule": rule.id(), "severity": word(*severity),
        "what": what, "fix": rule.fix(),
    })
}

fn summary(found: &[Violation]) -> String {
    if found.is_empty() {
        return "nothing found".to_owned();
    }
    let rejected = found.iter().filter(|violation| violation.severity == Severity::Rejected).count();
    let unnoticed = found.len() - rejected;
    format!("{} found: {rejected} that clients reject, {unnoticed} that they do not notice", found.len())
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Rejected => "rejected",
        Severity::Unnoticed => "unnoticed",
    }
}

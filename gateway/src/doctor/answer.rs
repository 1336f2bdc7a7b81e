//! One answer of an agent: read within limits, and described by its frames.
//!
//! Frames are read as untyped JSON, because the module has to describe frames that the adapters would refuse.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct::a2a::remote::RawAnswer;
use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, TextVerifier, Verifier};
use aqueduct_core::{AgentRequest, RunFailure, RunInput};
use aqueduct_transport_http::SseStream;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::Report;
use crate::cli::DoctorArgs;
use crate::config::{Agent, AgentSource};
use crate::progress::count;
use crate::source::Forwarded;
use crate::{chat, remote};

/// The longest time of one answer that is examined. An agent that streams longer is reported with what it sent
/// until then.
const LOOK: Duration = Duration::from_secs(30);
/// The largest number of frames of one answer that are examined: enough to see the shape, and a bound for
/// memory.
const FRAMES: usize = 2_000;

/// The response to one prompt.
#[derive(Debug, Default)]
pub(super) struct Seen {
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
    /// Set if [`LOOK`] or [`FRAMES`] ended the examination before the end of the stream.
    is_limited: bool,
}

impl Seen {
    /// Records the limit that ended the examination.
    fn limit(&mut self, words: String) {
        (self.cut, self.is_limited) = (Some(words), true);
    }
}

/// Sends the prompt and collects the response.
///
/// # Errors
///
/// Returns the failure that a run would have: the agent cannot be reached, refuses the call, or responds with
/// something that is not its protocol. Arguments that cannot be used (a token, a CA file) are
/// `UPSTREAM_INVALID`.
pub(super) async fn ask(args: &DoctorArgs, is_a2a: bool) -> Result<Seen, RunFailure> {
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
            if seen.frames.len() == FRAMES {
                seen.limit(format!("it sends more than {FRAMES} frames: the rest was not examined"));
                return;
            }
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
        }
    };
    let is_late = tokio::time::timeout(LOOK, all).await.is_err();
    seen.took = begun.elapsed();
    if is_late {
        seen.limit(format!("it still streams after {} s: the rest was not examined", LOOK.as_secs()));
    }
}

/// Reports number and time of the frames, then what the protocol requires of them.
pub(super) fn look_at_answer(seen: &Seen, report: &mut Report) {
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
    let mut found = verifier.handle_end();
    if seen.is_limited {
        // The end of the stream was not read. Violations of the end have the index after the last frame.
        found.retain(|violation| violation.index < seen.frames.len());
    }
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

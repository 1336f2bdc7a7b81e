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

mod answer;
mod card;

use std::io::Write;

use serde_json::Value;

use crate::cli::{DoctorArgs, UrlProtocol};
use crate::progress::{Progress, count};
use crate::{chat, exit};

/// Runs `aqueduct doctor`.
///
/// Returns `exit::OK` without a `✗`, `exit::FAILED` with at least one, and `exit::USAGE` if the argument is not
/// a URL. The report is written to `out` in both of the first two cases: an unreachable agent is a finding.
pub fn command(args: &DoctorArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    if !args.url.starts_with("http://") && !args.url.starts_with("https://") {
        let why = format!("{} is no URL: it must begin with http:// or https://", args.url);
        return exit::USAGE.report(notes, "doctor", &why);
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
        Err(error) => exit::FAILED.report(notes, "doctor", &error),
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
            card::look_at_card(&text, &args.url, report);
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
    let asked = progress.during("waiting for the agent", answer::ask(args, report.is_a2a)).await;
    match asked {
        Ok(seen) => answer::look_at_answer(&seen, report),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_key() {
        assert_eq!(key_of("Weather Agent 2.0"), "weather-agent-2-0");
        assert_eq!(key_of("天気"), "agent");
    }
}

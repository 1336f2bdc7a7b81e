//! Writes findings as text, JSON lines, SARIF 2.1.0 or `JUnit` XML. Each names the rule, the place and the
//! remedy.
//!
//! ```text
//! text   rain.sse:12: event 5 TEXT_MESSAGE_CONTENT: RULE (rejected)
//!            what is wrong
//!            fix: what to do
//! JSON   {"index":5,"event":"TEXT_MESSAGE_CONTENT","rule":"RULE","severity":"rejected","what":"…","fix":"…"}
//! ```
//!
//! SARIF and `JUnit` exist for code scanning and CI servers, which show findings beside the line of the file.

use std::io::{Result, Write};

use aqueduct_adapter_agui::verify::{Severity, Violation};
use serde_json::{Value, json};

use crate::cli::ReportFormat;

/// The name of the stream, the findings, and the line of each event if the stream was text.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The file, URL or `stdin`, as it is printed before the line.
    pub(super) target: String,
    /// The violations, in the order of the stream.
    pub(crate) found: Vec<Violation>,
    /// The line on which each event begins, from 1; empty if the stream was not a file.
    pub(super) lines: Vec<usize>,
    /// The number of events in the stream, for the passed test case of `JUnit`.
    pub(super) events: usize,
}

impl Findings {
    /// Returns the line of a finding. A finding about the end of the stream is on the last line.
    fn line(&self, violation: &Violation) -> Option<usize> {
        self.lines.get(violation.index).or_else(|| self.lines.last()).copied()
    }

    /// Returns the place of a finding in the form that compilers use. Editors and terminals make `file:line`
    /// clickable. The index counts events from 0.
    fn place(&self, violation: &Violation) -> String {
        let line = self.line(violation).map(|line| format!("{}:{line}: ", self.target));
        let event = if violation.event.is_empty() { "(end of stream)" } else { &violation.event };
        format!("{}event {} {event}", line.unwrap_or_default(), violation.index)
    }
}

/// Writes the findings in that format. An empty report is valid in every format: JSON lines write nothing, the
/// others a document without results.
pub(super) fn write(findings: &Findings, format: ReportFormat, out: &mut dyn Write) -> Result<()> {
    match format {
        ReportFormat::Text => text(findings, out),
        ReportFormat::Json => {
            findings.found.iter().try_for_each(|violation| writeln!(out, "{}", to_json(violation)))
        }
        ReportFormat::Sarif => writeln!(out, "{:#}", sarif(findings)),
        ReportFormat::Junit => junit(findings, out),
    }
}

/// Writes three lines per finding, and a summary.
fn text(findings: &Findings, out: &mut dyn Write) -> Result<()> {
    for violation in &findings.found {
        let Violation { rule, severity, what, .. } = violation;
        writeln!(out, "{}: {} ({})", findings.place(violation), rule.id(), word(*severity))?;
        writeln!(out, "    {what}")?;
        writeln!(out, "    fix: {}", rule.fix())?;
    }
    writeln!(out, "{}", summary(&findings.found))
}

/// Returns a finding as JSON. The inspector uses the same form.
pub(crate) fn to_json(violation: &Violation) -> Value {
    let Violation { index, event, rule, severity, what } = violation;
    json!({
        "index": index, "event": event, "rule": rule.id(), "severity": word(*severity),
        "what": what, "fix": rule.fix(),
    })
}

/// Returns a SARIF log with one run. Each rule is listed once, with its remedy as help text.
///
/// The location has no region if the stream was not a file: a line number of a response would point nowhere.
fn sarif(findings: &Findings) -> Value {
    let mut rules: Vec<_> =
        findings.found.iter().map(|violation| (violation.rule.id(), violation.rule.fix())).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> =
        rules.iter().map(|(id, fix)| json!({ "id": id, "help": { "text": fix } })).collect();
    let results: Vec<Value> = findings
        .found
        .iter()
        .map(|violation| {
            // What a client rejects is an error; what it loses without noticing is a warning.
            let level = if violation.severity == Severity::Rejected { "error" } else { "warning" };
            let message = format!("{}. Fix: {}", violation.what, violation.rule.fix());
            let file = json!({ "uri": findings.target });
            let location = match findings.line(violation) {
                Some(line) => json!({ "artifactLocation": file, "region": { "startLine": line } }),
                None => json!({ "artifactLocation": file }),
            };
            json!({
                "ruleId": violation.rule.id(), "level": level, "message": { "text": message },
                "locations": [{ "physicalLocation": location }],
                "properties": { "event": violation.index, "type": violation.event },
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "aqueduct verify", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}

/// Writes one passed test case if there are no findings, else one failure per finding.
fn junit(findings: &Findings, out: &mut dyn Write) -> Result<()> {
    let (tests, failures) = (findings.found.len().max(1), findings.found.len());
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{failures}\">")?;
    let target = escaped(&findings.target);
    writeln!(out, "  <testsuite name=\"aqueduct verify\" tests=\"{tests}\" failures=\"{failures}\">")?;
    if findings.found.is_empty() {
        writeln!(out, "    <testcase classname=\"{target}\" name=\"{} events\"/>", findings.events)?;
    }
    for violation in &findings.found {
        let (rule, place) = (violation.rule.id(), escaped(&findings.place(violation)));
        writeln!(out, "    <testcase classname=\"{target}\" name=\"{place}: {rule}\">")?;
        let (what, fix) = (escaped(&violation.what), escaped(violation.rule.fix()));
        writeln!(out, "      <failure type=\"{rule}\" message=\"{what}\">{what}\nfix: {fix}</failure>")?;
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

/// Escapes text for XML. Characters that XML 1.0 does not allow are removed.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' => safe.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

/// Returns the last line of the text report: how many findings a client rejects, and how many it does not
/// notice.
fn summary(found: &[Violation]) -> String {
    if found.is_empty() {
        return "nothing found".to_owned();
    }
    let rejected = found.iter().filter(|violation| violation.severity == Severity::Rejected).count();
    let unnoticed = found.len() - rejected;
    format!("{} found: {rejected} that clients reject, {unnoticed} that they do not notice", found.len())
}

/// Returns the severity as it is written in the text and JSON reports.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Rejected => "rejected",
        Severity::Unnoticed => "unnoticed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_xml_has_no_markup_and_no_control_characters() {
        assert_eq!(escaped("<a b=\"&\u{1}\u{b}\">\n"), "&lt;a b=&quot;&amp;&quot;&gt; ");
    }
}

//! Tool notices in status texts: `🔧 Calling tool: **x**`, `✅ Tool **x** completed`, `❌ … failed`, `📄 Tool output: …`.
//!
//! ```text
//! "🔧 Argocd: Calling tool: List Apps"    start of "List Apps", agent "Argocd"
//! "✅ Argocd: Tool List Apps completed"   end of "List Apps"
//! "✅ Deployment completed"               end of "Deployment", uncertain: counts only if such a call is open
//! "✅ All good"                           text
//! ```
//!
//! A text counts only if *every* line of it that has words is a notice; otherwise it is a text that contains such
//! signs. Metadata `{"tool_name", "status"}` beside the text is more exact, and takes precedence.

use aqueduct_core::Metadata;
use serde_json::Value;

use super::{Recogniser, Sign, ToolEnd, ToolStart};

/// Recognises tool notices in status texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatusNotices;

impl Recogniser for StatusNotices {
    fn status_text(&self, text: &str, metadata: Option<&Metadata>) -> Vec<Sign> {
        if let Some(sign) = metadata.and_then(from_metadata) {
            return vec![sign];
        }
        // Every notice begins with a pictograph, and most texts are words.
        if text.trim_start().starts_with(|first: char| first.is_ascii()) {
            return Vec::new();
        }
        if let Some(output) = tool_output(text) {
            return vec![Sign::ToolOutput(output.to_owned())];
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(notice).collect::<Option<Vec<_>>>().unwrap_or_default()
    }
}

/// Returns the notice in metadata: the tool's name and one of the known words for its status. The alternatives are
/// the names that agents use. Returns `None` without a name or with another status, so that other metadata do not
/// turn a text into a notice.
fn from_metadata(metadata: &Metadata) -> Option<Sign> {
    let field = |keys: &[&str]| keys.iter().find_map(|key| metadata.get(*key)?.as_str().map(str::to_owned));
    let name = field(&["tool_name", "toolName"]).filter(|name| !name.is_empty())?;
    let call_id = field(&["tool_call_id", "toolCallId", "call_id"]);
    let agent = field(&["agent", "sourceAgent", "agent_name"]);
    match field(&["status", "tool_status"])?.as_str() {
        "started" | "start" | "running" | "calling" => {
            let arguments = ["args", "arguments", "tool_args"].iter().find_map(|key| metadata.get(*key));
            let arguments = arguments.map(json_text).unwrap_or_default();
            Some(Sign::ToolStarted(ToolStart { name, agent, call_id, arguments }))
        }
        status @ ("completed" | "complete" | "finished" | "success" | "failed" | "error") => {
            let failed = matches!(status, "failed" | "error");
            Some(Sign::ToolEnded(ToolEnd { name: Some(name), agent, call_id, failed, ..ToolEnd::default() }))
        }
        _ => None,
    }
}

/// Returns arguments as JSON text: a string is taken to be JSON text already.
fn json_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses one line as a notice.
pub(super) fn notice(line: &str) -> Option<Sign> {
    started(line).map(Sign::ToolStarted).or_else(|| ended(line).map(Sign::ToolEnded))
}

/// Returns the output in `📄 Agent: Tool output:\n…`. Unlike other notices it has any number of lines, so it is looked
/// for first.
pub(super) fn tool_output(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix('📄')?;
    let (_, output) = rest.split_once("Tool output:")?;
    Some(output.trim_start_matches(['\n', ' ']))
}

/// Parses `🔧 Agent: Calling tool: **name**` and `🔧 Supervisor: Calling Agent Name...`.
fn started(line: &str) -> Option<ToolStart> {
    let rest = line.strip_prefix('🔧').or_else(|| line.strip_prefix('🔍'))?;
    let (before, after) = rest.split_once("Calling")?;
    let after = after.trim_start();
    let after = ["tool:", "Tool:", "tool ", "Agent ", "agent "]
        .iter()
        .find_map(|word| after.strip_prefix(word))
        .unwrap_or(after);
    let name = bare_name(after);
    let agent = before.trim().trim_end_matches(':').trim();
    let agent = (!agent.is_empty()).then(|| agent.to_owned());
    (!name.is_empty()).then(|| ToolStart { name: name.to_owned(), agent, ..ToolStart::default() })
}

/// Parses `✅ Agent: Tool **name** completed`, `❌ … failed` and `✅ Supervisor: Agent task Name completed`.
fn ended(line: &str) -> Option<ToolEnd> {
    let (crossed, rest) = match line.strip_prefix('✅') {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix('❌')?),
    };
    let rest = rest.trim().trim_end_matches(['.', '!']);
    let (rest, failed) = match (rest.strip_suffix("completed"), rest.strip_suffix("failed")) {
        (Some(rest), _) => (rest, crossed),
        (None, Some(rest)) => (rest, true),
        (None, None) => return None,
    };
    let rest = rest.strip_suffix([' ', '*'])?.trim_end();
    let (agent, rest) = match rest.split_once(": ") {
        Some((agent, rest)) => (Some(agent.trim().to_owned()), rest),
        None => (None, rest),
    };
    let words = ["Tool ", "tool ", "Agent task ", "Agent "];
    let stripped = words.iter().find_map(|word| rest.trim_start().strip_prefix(word));
    let name = bare_name(stripped.unwrap_or(rest));
    if name.is_empty() {
        return None;
    }
    // "✅ Deployment completed" resembles a notice and may not be one.
    let uncertain = stripped.is_none() && !rest.contains("**");
    Some(ToolEnd { name: Some(name.to_owned()), agent, failed, uncertain, ..ToolEnd::default() })
}

/// Returns a name without decoration: the text between `**`, or the text up to the trailing dots.
pub(super) fn bare_name(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
        Some((name, _)) => name.trim(),
        None => text.trim_end_matches(['.', '…', '\n']).trim_matches('*').trim(),
    }
}

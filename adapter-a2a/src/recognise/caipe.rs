//! Artifact names of CAIPE agents and supervisors, which denote kinds of events.
//!
//! | name | what it is |
//! |---|---|
//! | `tool_notification_start`, `tool_notification_end`, `tool_output` | tool calls |
//! | `complete_result`, `final_result`, `partial_result` | the complete answer once more |
//! | `error_result` | the failure, although the task will be `completed` |
//! | `status_update`, and any with `is_narration` | intermediate text |
//! | `execution_plan_update`, `execution_plan_status_update`, `execution_plan_streaming` | the plan |
//! | `UserInputMetaData` | the form of the next interrupt |
//!
//! `streaming_result` needs no rule: it is an answer like any other artifact.

use serde_json::{Value, json};

use super::notice::{bare_name, notice, tool_output};
use super::{Recogniser, Sign, ToolEnd, ToolStart};
use crate::wire::{Artifact, Part};

/// Recognises CAIPE's artifact names.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaipeArtifacts;

impl Recogniser for CaipeArtifacts {
    fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
        match artifact.name.as_str() {
            "tool_notification_start" => Some(Sign::ToolStarted(tool_start(artifact))),
            "tool_notification_end" => Some(Sign::ToolEnded(tool_end(artifact))),
            "tool_output" => {
                let text = artifact.text();
                Some(Sign::ToolOutput(tool_output(&text).unwrap_or(&text).to_owned()))
            }
            "complete_result" | "final_result" | "partial_result" => Some(Sign::Final),
            "error_result" => Some(Sign::Failure(artifact.text())),
            "status_update" => Some(Sign::Intermediate),
            "execution_plan_update" | "execution_plan_status_update" | "execution_plan_streaming" => {
                Some(Sign::Plan(plan(artifact)))
            }
            "UserInputMetaData" => {
                let form = artifact.parts.iter().find_map(Part::data_value);
                Some(Sign::InputForm(form.unwrap_or_else(|| artifact.text().into())))
            }
            _ if metadata_flag(artifact, "is_narration") => Some(Sign::Intermediate),
            _ => None,
        }
    }

    fn sub_agent(&self, artifact: &Artifact<'_>) -> Option<String> {
        let metadata = artifact.metadata.as_ref()?.to_object()?;
        let is_sub_agent = metadata.get("agentType").and_then(Value::as_str) == Some("sub-agent");
        metadata.get("sourceAgent").filter(|_| is_sub_agent)?.as_str().map(str::to_owned)
    }
}

/// Returns `true` if a member of the metadata is `true`. The JSON text is searched first: this runs for every
/// artifact.
fn metadata_flag(artifact: &Artifact<'_>, key: &str) -> bool {
    let metadata = artifact.metadata.as_ref().filter(|raw| raw.as_str().contains(key));
    metadata.is_some_and(|raw| raw.to_value().get(key) == Some(&Value::Bool(true)))
}

/// Returns the agent that the metadata name. It takes precedence over the agent in the text, which is written for
/// people.
fn source_agent(artifact: &Artifact<'_>) -> Option<String> {
    artifact.metadata.as_ref()?.to_value().get("sourceAgent")?.as_str().map(str::to_owned)
}

/// Returns the tool that the description names; the text has it in title case and with an agent before it.
fn described_tool<'d>(artifact: &'d Artifact<'_>, words: &[&str]) -> Option<&'d str> {
    let rest = words.iter().find_map(|words| artifact.description.strip_prefix(words))?;
    Some(rest.trim()).filter(|name| !name.is_empty())
}

/// Returns the call of a `tool_notification_start`: name from the description, else from the notice, else the text
/// itself ("Fetching versions").
///
/// ```text
/// description "Tool call started: list_apps", text "🔧 Argocd: Calling tool: List Apps"  ──►  list_apps, agent Argocd
/// ```
fn tool_start(artifact: &Artifact<'_>) -> ToolStart {
    let text = artifact.text();
    let mut start = match notice(text.trim()) {
        Some(Sign::ToolStarted(start)) => start,
        _ => ToolStart { name: phrase(&text, &artifact.description), ..ToolStart::default() },
    };
    if let Some(name) = described_tool(artifact, &["Tool call started:"]) {
        name.clone_into(&mut start.name);
    }
    start.agent = source_agent(artifact).or(start.agent);
    start
}

/// Returns the end of a `tool_notification_end`. The artifact's name makes it certain, so an end whose text names no
/// tool ("✅ Versions there") has no name, and is matched by its agent.
fn tool_end(artifact: &Artifact<'_>) -> ToolEnd {
    let text = artifact.text();
    let line = text.trim();
    let mut end = match notice(line) {
        Some(Sign::ToolEnded(end)) => end,
        // A line without a sign is still an end, because of the artifact's name.
        _ => match notice(&format!("✅ {line}")) {
            Some(Sign::ToolEnded(end)) => end,
            _ => ToolEnd::default(),
        },
    };
    if let Some(name) = described_tool(artifact, &["Tool call completed:", "Tool call failed:"]) {
        end.name = Some(name.to_owned());
    }
    end.failed |= line.starts_with('❌') || artifact.description.starts_with("Tool call failed:");
    end.agent = source_agent(artifact).or(end.agent);
    end.uncertain = false;
    end
}

/// Returns the text of an unusual notice, without signs and dots.
fn phrase(text: &str, description: &str) -> String {
    let words = text.trim().trim_start_matches(|c: char| !c.is_alphanumeric());
    let words = words.strip_prefix("Calling ").unwrap_or(words);
    let words = bare_name(words.lines().next().unwrap_or_default());
    let words = words.strip_prefix("Agent ").unwrap_or(words);
    if words.is_empty() { description.to_owned() } else { words.to_owned() }
}

/// Returns the plan: the steps of a data part, or of lines such as `⏳ [Agent] title`, `- [x] title`. Text is kept as
/// `text` in either case, without the brackets `⟦ ⟧` of the streamed form.
fn plan(artifact: &Artifact<'_>) -> Value {
    let data = artifact.parts.iter().find_map(Part::data_value);
    let steps = data.as_ref().and_then(|data| data.get("steps")).and_then(Value::as_array);
    let mut plan = match steps {
        Some(steps) => json!({"steps": steps.iter().enumerate().map(step).collect::<Vec<_>>()}),
        None => json!({"steps": []}),
    };
    let text = artifact.text();
    let text = text.trim().trim_start_matches('⟦').trim_end_matches('⟧').trim();
    if !text.is_empty() {
        if steps.is_none() {
            let lines = text.lines().filter_map(step_line).enumerate();
            let steps: Vec<Value> = lines.map(|(at, line)| line.into_step(at)).collect();
            plan = json!({"steps": steps});
        }
        if let Some(object) = plan.as_object_mut() {
            object.insert("text".to_owned(), text.into());
        }
    }
    plan
}

/// Returns a step with the member names of the canonical plan: `step_id` is `id`, which is the position if it is
/// missing. Other members stay; a step that is not an object is the title.
fn step((at, step): (usize, &Value)) -> Value {
    let Some(source) = step.as_object() else { return json!({"id": at.to_string(), "title": step}) };
    let mut out = serde_json::Map::new();
    for (key, value) in source {
        let key = if key == "step_id" { "id" } else { key };
        out.insert(key.to_owned(), value.clone());
    }
    out.entry("id").or_insert_with(|| at.to_string().into());
    Value::Object(out)
}

/// A line of a plan in text form.
struct StepLine<'t> {
    status: &'static str,
    agent: Option<&'t str>,
    title: &'t str,
}

impl StepLine<'_> {
    /// Returns the step as JSON, with its position as id.
    fn into_step(self, at: usize) -> Value {
        let mut step = json!({"id": at.to_string(), "title": self.title, "status": self.status});
        if let (Some(agent), Some(object)) = (self.agent, step.as_object_mut()) {
            object.insert("agent".to_owned(), agent.into());
        }
        step
    }
}

/// Parses a line of a plan. Returns `None` for a line without one of the signs, or without a title: such lines are
/// prose.
fn step_line(line: &str) -> Option<StepLine<'_>> {
    let line = line.trim().trim_start_matches("- ").trim_start();
    let marks = [
        ("⏳", "pending"),
        ("📋", "pending"),
        ("🔄", "in_progress"),
        ("✅", "completed"),
        ("❌", "failed"),
        ("[ ]", "pending"),
        ("[x]", "completed"),
        ("[X]", "completed"),
    ];
    let (rest, status) =
        marks.iter().find_map(|(mark, status)| Some((line.strip_prefix(mark)?.trim(), *status)))?;
    let (agent, title) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((agent, title)) => (Some(agent.trim()), title.trim()),
        None => (None, rest),
    };
    (!title.is_empty()).then_some(StepLine { status, agent, title })
}

//! What a reader holds of sub-agents that are shown as tool calls ([`Subagents::Tool`]).
//!
//! This is the oracle of the adapter's own view, written from the rules of `docs/frontends.md` and not from its code: one call per
//! sub-agent under its name, its work behind that name, its texts or its failure as the result of the call.

use std::collections::BTreeMap;

use aqueduct_adapter_agui::config::{Errors, Settings, Subagents};
use aqueduct_core::{BlockEvent, BlockHead, Channel, Lane, LaneOutcome, SpanKind};
use serde_json::{Value, json};

use super::View;

/// The texts of each open sub-agent, in order, with the block that each belongs to.
#[derive(Default)]
pub(super) struct Team(BTreeMap<String, Vec<(String, String)>>);

impl Team {
    /// Adds the calls and results that stand for sub-agents.
    pub(super) fn show(&mut self, event: &BlockEvent, settings: Settings, view: &mut View) {
        match event {
            BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Text => {
                self.keep(block, delta);
            }
            BlockEvent::LaneOpened(lane) if is_call(lane) => {
                view.calls.insert(lane.id.to_string(), (label(lane), asked(lane).to_string()));
            }
            BlockEvent::LaneClosed { lane, outcome } => {
                let texts = self.0.remove(lane.id.as_str()).unwrap_or_default();
                let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
                if is_call(lane) {
                    view.results.entry(lane.id.to_string()).or_default().push(result(&texts, outcome));
                }
                if let LaneOutcome::Failed(failure) = &**outcome {
                    view.fail(lane.id.as_str(), &label(lane), &failure.message, settings);
                }
            }
            BlockEvent::ToolResult(result) if result.is_error => {
                let tool = match label(&result.lane) {
                    label if label.is_empty() => result.tool_name.to_string(),
                    label => format!("{label} › {}", result.tool_name),
                };
                view.fail(result.id.as_str(), &tool, &result.output.to_text(), settings);
            }
            BlockEvent::RunFailed(failed) if settings.errors == Errors::Text => {
                let failure = &failed.failure;
                let text = match &*failure.message {
                    "" => format!("The run failed ({}).", failure.code),
                    message => message.to_owned(),
                };
                view.texts.insert(format!("error/{}", failed.run.run_id), ("assistant".to_owned(), text));
            }
            _ => {}
        }
    }

    fn keep(&mut self, block: &BlockHead, delta: &str) {
        let texts = self.0.entry(block.lane.id.to_string()).or_default();
        match texts.last_mut() {
            Some((id, text)) if id == block.id.as_str() => text.push_str(delta),
            _ => texts.push((block.id.to_string(), delta.to_owned())),
        }
    }
}

impl View {
    /// The text that names a failure, where failures are shown as texts.
    fn fail(&mut self, id: &str, name: &str, message: &str, settings: Settings) {
        if settings.errors != Errors::Text {
            return;
        }
        let name = if name.is_empty() { "The tool" } else { name };
        assert!(message.len() <= 500, "the oracle does not cut long messages");
        let text = format!("⚠ {name} failed: {message}");
        let text = text.trim_end_matches([' ', ':']).to_owned();
        self.texts.insert(format!("error/{id}"), ("assistant".to_owned(), text));
    }
}

/// True if a text of a sub-agent stands in the result of its call alone.
pub(super) fn is_inside(block: &BlockHead, settings: Settings) -> bool {
    let is_tool = settings.subagents == Subagents::Tool && !block.lane.is_root();
    is_tool && block.kind == SpanKind::Text && block.channel != Channel::Answer
}

/// What stands before the content of a block.
pub(super) fn prefix(block: &BlockHead, settings: Settings) -> String {
    if settings.subagents != Subagents::Tool || block.lane.is_root() {
        return String::new();
    }
    match block.kind {
        SpanKind::Text if settings.labels => format!("**{}:** ", label(&block.lane)),
        SpanKind::Thinking => format!("{}: ", label(&block.lane)),
        _ => String::new(),
    }
}

/// The name of a tool, behind that of its sub-agent.
pub(super) fn tool(block: &BlockHead, settings: Settings) -> String {
    if settings.subagents != Subagents::Tool || block.lane.is_root() {
        return block.tool_name.to_string();
    }
    format!("{} › {}", label(&block.lane), block.tool_name)
}

fn is_call(lane: &Lane) -> bool {
    !lane.is_root() && lane.parent_call.is_none()
}

/// The names of the sub-agents from the outermost to that of the lane; empty for the root.
fn label(lane: &Lane) -> String {
    let mut names = Vec::new();
    let mut lane = lane;
    while let Some(parent) = &lane.parent {
        names.push(if lane.name().is_empty() { "agent" } else { lane.name() });
        lane = parent;
    }
    names.reverse();
    names.join(" › ")
}

fn asked(lane: &Lane) -> Value {
    let of_metadata = lane.source.metadata().and_then(|metadata| {
        let names = ["input", "task", "prompt", "query", "instructions", "message"];
        names.iter().find_map(|name| metadata.get(*name).cloned())
    });
    let described = || lane.source.description().map(|text| Value::from(text.to_string()));
    of_metadata.or_else(described).map_or_else(|| json!({}), |input| json!({ "input": input }))
}

fn result(texts: &[String], outcome: &LaneOutcome) -> String {
    let failed = |message: &str| {
        let lines: Vec<&str> = texts.iter().map(String::as_str).chain([message]).collect();
        lines.join("\n\n")
    };
    match outcome {
        LaneOutcome::Success(Some(Value::String(value))) if !value.is_empty() => value.clone(),
        LaneOutcome::Success(Some(value)) if !value.is_null() && !value.is_string() => value.to_string(),
        LaneOutcome::Success(_) => texts.join("\n\n"),
        LaneOutcome::Suspended => "waits for a reply".to_owned(),
        LaneOutcome::Failed(failure) => failed(&failure.message),
        _ => failed("the sub-agent was cancelled"),
    }
}

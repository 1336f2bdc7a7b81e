//! A run as text for people: sub-agents by name, tools, thinking dimmed.
//!
//! Several blocks may be written to at the same time. A line belongs to one block: when another one speaks, a new line
//! begins with the name of its agent.

use std::io::{Result, Write};

use aqueduct_core::{BlockEvent, Channel, Lane, LaneOutcome, RunOutcome, SpanKind, wellknown};

const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
const CYAN: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// Writes events. Colours only where the reader is a terminal.
#[derive(Debug)]
pub(super) struct Screen {
    colours: bool,
    /// The block that the current line belongs to.
    line: Option<String>,
}

impl Screen {
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, line: None }
    }

    pub(super) fn show(&mut self, event: &BlockEvent, out: &mut dyn Write) -> Result<()> {
        match event {
            BlockEvent::BlockDelta { block, delta } => {
                if self.line.as_deref() != Some(block.id.as_str()) {
                    self.end_line(out)?;
                    self.begin(&block.lane, out)?;
                    if block.kind == SpanKind::ToolUse {
                        self.paint(CYAN, &format!("→ {} ", &*block.tool_name), out)?;
                    }
                    self.line = Some(block.id.to_string());
                }
                let is_aside = block.kind != SpanKind::Text || block.channel == Channel::Intermediate;
                if is_aside {
                    self.paint(DIM, &printable(delta), out)
                } else {
                    write!(out, "{}", printable(delta))
                }
            }
            BlockEvent::ToolResult(result) => {
                self.end_line(out)?;
                self.begin(&result.lane, out)?;
                let colour = if result.is_error { RED } else { CYAN };
                self.paint(colour, &format!("← {}\n", printable(&result.output.to_text())), out)
            }
            BlockEvent::LaneOpened(lane) => self.note(lane, DIM, "begins", out),
            BlockEvent::LaneClosed { lane, outcome } => match &**outcome {
                LaneOutcome::Success(_) => self.note(lane, DIM, "is done", out),
                LaneOutcome::Suspended => self.note(lane, DIM, "waits", out),
                LaneOutcome::Cancelled => self.note(lane, DIM, "was cancelled", out),
                LaneOutcome::Failed(failure) => {
                    self.note(lane, RED, &format!("failed: {}", printable(&failure.message)), out)
                }
                _ => Ok(()),
            },
            BlockEvent::Custom(custom) if custom.name == wellknown::FILE => {
                let name = custom.value.get("name").or_else(|| custom.value.get("url"));
                let name = name.and_then(serde_json::Value::as_str).unwrap_or("without a name");
                self.note(&custom.lane, CYAN, &format!("file {}", printable(name)), out)
            }
            BlockEvent::InterruptRequested(pending) => {
                let question =
                    pending.interrupt.message.as_deref().unwrap_or("The agent waits for your answer.");
                self.note(&pending.lane, CYAN, &format!("? {}", printable(question)), out)
            }
            BlockEvent::RunFinished(end) => {
                self.end_line(out)?;
                if end.outcome == RunOutcome::Cancelled {
                    self.paint(RED, "cancelled\n", out)
                } else {
                    Ok(())
                }
            }
            BlockEvent::RunFailed(end) => {
                self.end_line(out)?;
                let failure = &end.failure;
                let words =
                    format!("failed ({}): {}\n", printable(&failure.code), printable(&failure.message));
                self.paint(RED, &words, out)
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, lane: &Lane, colour: &str, words: &str, out: &mut dyn Write) -> Result<()> {
        self.end_line(out)?;
        self.begin(lane, out)?;
        self.paint(colour, &format!("{words}\n"), out)
    }

    fn begin(&mut self, lane: &Lane, out: &mut dyn Write) -> Result<()> {
        if lane.is_root() { Ok(()) } else { self.paint(DIM, &format!("[{}] ", printable(lane.name())), out) }
    }

    fn end_line(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.line.take().is_some() { writeln!(out) } else { Ok(()) }
    }

    fn paint(&self, colour: &str, text: &str, out: &mut dyn Write) -> Result<()> {
        if !self.colours {
            return write!(out, "{text}");
        }
        // The colour ends before the line does, or it would reach into the prompt of a shell.
        let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
        write!(out, "{colour}{body}{PLAIN}{end}")
    }
}

/// An agent's text must not steer the terminal: no control characters but line breaks and tabs.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

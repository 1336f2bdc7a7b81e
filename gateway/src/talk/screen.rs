//! A run as text for people: sub-agents by name, tools, thinking dimmed.
//!
//! Several blocks may be written to at the same time, and a terminal has one line at a time. So one block speaks, word
//! by word as it comes; what others say meanwhile waits until it is a line, until they are done, or until the speaker
//! pauses.
//!
//! ```text
//!            delta of B: a line of it is full                  B is the speaker
//! A speaks ───────────────────────────────────► B's line ──► (nobody speaks) ──► whoever comes next speaks
//!    │ A ends, or says nothing for `PAUSE`                          ▲
//!    └──────────────────────────────────────► all that waits ───────┘
//! ```
//!
//! Invariants: a line belongs to one block and begins with the name of its agent; what a block says comes out whole and
//! in order, and before anything else that its agent does.

use std::io::{Result, Write};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, BlockHead, Channel, Lane, LaneOutcome, RunOutcome, SpanKind, wellknown};
use tokio::time::Instant;

const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
const CYAN: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// Characters of a line that waits. Most terminals show it without wrapping, with the agent's name before it.
const LINE: usize = 72;
/// How long the speaker may be silent while others wait. Models pause less between words; people notice more.
const PAUSE: Duration = Duration::from_millis(300);

/// Writes events. Colours only where the reader is a terminal.
#[derive(Debug)]
pub(super) struct Screen {
    colours: bool,
    /// The block that the unfinished line belongs to, and when it last said something.
    speaker: Option<(Arc<BlockHead>, Instant)>,
    /// What other blocks said meanwhile, in the order in which they began.
    waiting: Vec<(Arc<BlockHead>, String)>,
}

impl Screen {
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, speaker: None, waiting: Vec::new() }
    }

    /// When the speaker has been silent for too long; none if nobody waits.
    pub(super) fn due(&self) -> Option<Instant> {
        let (_, spoke) = self.speaker.as_ref().filter(|_| !self.waiting.is_empty())?;
        Some(*spoke + PAUSE)
    }

    /// The speaker has been silent: those who wait are heard.
    pub(super) fn handle_pause(&mut self, now: Instant, out: &mut dyn Write) -> Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.end_line(out)?;
            self.flush_waiting(|_| true, out)?;
        }
        Ok(())
    }

    pub(super) fn show(&mut self, event: &BlockEvent, now: Instant, out: &mut dyn Write) -> Result<()> {
        match event {
            BlockEvent::BlockDelta { block, delta } => self.hear(block, &printable(delta), now, out),
            BlockEvent::BlockEnded { block, .. } => self.end_block(block, now, out),
            BlockEvent::ToolResult(result) => {
                let colour = if result.is_error { RED } else { CYAN };
                self.note(&result.lane, colour, &format!("← {}", printable(&result.output.to_text())), out)
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
            BlockEvent::Custom(custom) if custom.name == wellknown::NOTICE => {
                let text = custom.value.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
                self.note(&custom.lane, DIM, &printable(text), out)
            }
            BlockEvent::InterruptRequested(pending) => {
                let question =
                    pending.interrupt.message.as_deref().unwrap_or("The agent waits for your answer.");
                self.note(&pending.lane, CYAN, &format!("? {}", printable(question)), out)
            }
            BlockEvent::RunFinished(end) => {
                self.flush_all(out)?;
                if end.outcome == RunOutcome::Cancelled {
                    self.paint(RED, "cancelled\n", out)
                } else {
                    Ok(())
                }
            }
            BlockEvent::RunFailed(end) => {
                self.flush_all(out)?;
                let failure = &end.failure;
                let words =
                    format!("failed ({}): {}\n", printable(&failure.code), printable(&failure.message));
                self.paint(RED, &words, out)
            }
            _ => Ok(()),
        }
    }

    /// Takes what a block says: at once if it speaks or nobody does, else until it is a line.
    fn hear(&mut self, block: &Arc<BlockHead>, text: &str, now: Instant, out: &mut dyn Write) -> Result<()> {
        match &mut self.speaker {
            Some((speaker, spoke)) if speaker.id == block.id => {
                *spoke = now;
                return self.say(block, text, out);
            }
            None => {
                let before = self.take_waiting(block);
                self.begin(block, out)?;
                self.speaker = Some((Arc::clone(block), now));
                return self.say(block, &format!("{before}{text}"), out);
            }
            Some(_) => {}
        }
        let waits = self.waiting.iter().position(|(waits, _)| waits.id == block.id);
        let index = waits.unwrap_or(self.waiting.len());
        if waits.is_none() {
            self.waiting.push((Arc::clone(block), String::new()));
        }
        let Some((_, buffer)) = self.waiting.get_mut(index) else { return Ok(()) };
        buffer.push_str(text);
        let Some(end) = line_end(buffer) else { return Ok(()) };
        let rest = buffer.split_off(end);
        let line = std::mem::replace(buffer, rest);
        self.end_line(out)?;
        self.whole_line(block, &line, out)
    }

    fn end_block(&mut self, block: &Arc<BlockHead>, now: Instant, out: &mut dyn Write) -> Result<()> {
        if self.speaker.as_ref().is_some_and(|(speaker, _)| speaker.id == block.id) {
            self.end_line(out)?;
            // Whoever has waited longest speaks next.
            if let Some((next, _)) = self.waiting.first() {
                let next = Arc::clone(next);
                return self.hear(&next, "", now, out);
            }
            return Ok(());
        }
        let text = self.take_waiting(block);
        if text.is_empty() {
            return Ok(());
        }
        self.end_line(out)?;
        self.whole_line(block, &text, out)
    }

    fn take_waiting(&mut self, block: &BlockHead) -> String {
        let index = self.waiting.iter().position(|(waits, _)| waits.id == block.id);
        index.map(|index| self.waiting.remove(index).1).unwrap_or_default()
    }

    fn flush_waiting(&mut self, whose: impl Fn(&BlockHead) -> bool, out: &mut dyn Write) -> Result<()> {
        let (now, later) = std::mem::take(&mut self.waiting).into_iter().partition(|(block, _)| whose(block));
        self.waiting = later;
        let now: Vec<(Arc<BlockHead>, String)> = now;
        for (block, text) in now.iter().filter(|(_, text)| !text.is_empty()) {
            self.whole_line(block, text, out)?;
        }
        Ok(())
    }

    fn flush_all(&mut self, out: &mut dyn Write) -> Result<()> {
        self.end_line(out)?;
        self.flush_waiting(|_| true, out)
    }

    fn whole_line(&mut self, block: &BlockHead, text: &str, out: &mut dyn Write) -> Result<()> {
        self.begin(block, out)?;
        self.say(block, text.trim_end_matches(['\n', ' ']), out)?;
        writeln!(out)
    }

    /// The beginning of a line: whose it is, and the tool's name if it is a call.
    fn begin(&mut self, block: &BlockHead, out: &mut dyn Write) -> Result<()> {
        self.name(&block.lane, out)?;
        if block.kind == SpanKind::ToolUse {
            self.paint(CYAN, &format!("→ {} ", printable(&block.tool_name)), out)?;
        }
        Ok(())
    }

    fn say(&self, block: &BlockHead, text: &str, out: &mut dyn Write) -> Result<()> {
        let is_aside = block.kind != SpanKind::Text || block.channel == Channel::Intermediate;
        if is_aside { self.paint(DIM, text, out) } else { write!(out, "{text}") }
    }

    /// Something that an agent does, after all that it said.
    fn note(&mut self, lane: &Lane, colour: &str, words: &str, out: &mut dyn Write) -> Result<()> {
        self.end_line(out)?;
        self.flush_waiting(|block| block.lane.id == lane.id, out)?;
        self.name(lane, out)?;
        self.paint(colour, &format!("{words}\n"), out)
    }

    fn name(&self, lane: &Lane, out: &mut dyn Write) -> Result<()> {
        if lane.is_root() { Ok(()) } else { self.paint(DIM, &format!("[{}] ", printable(lane.name())), out) }
    }

    fn end_line(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.speaker.take().is_some() { writeln!(out) } else { Ok(()) }
    }

    fn paint(&self, colour: &str, text: &str, out: &mut dyn Write) -> Result<()> {
        if !self.colours || text.is_empty() {
            return write!(out, "{text}");
        }
        // The colour ends before the line does, or it would reach into the prompt of a shell.
        let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
        write!(out, "{colour}{body}{PLAIN}{end}")
    }
}

/// Where a line of the text ends: after a line break, or after a word once it is long enough.
fn line_end(text: &str) -> Option<usize> {
    if let Some(end) = text.rfind('\n') {
        return Some(end + 1);
    }
    let is_long = text.chars().nth(LINE).is_some();
    is_long.then(|| text.rfind(' ').map_or(text.len(), |space| space + 1))
}

/// An agent's text must not steer the terminal: no control characters but line breaks and tabs.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests;

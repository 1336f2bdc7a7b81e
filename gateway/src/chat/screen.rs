//! A run as text for people: sub-agents by name, tools, thinking dimmed, artifacts and files named.
//!
//! Several blocks may stream at the same time, and a terminal has one line at a time. So one block, the speaker, is
//! written word by word as it arrives; the output of other blocks waits until the speaker has ended a line, has ended,
//! or pauses.
//!
//! ```text
//!            the speaker ends a line                     the speaker continues
//! A speaks ────────────────────────► all complete lines ────────────────────► A speaks
//!    │ A ends, or emits nothing for `PAUSE`
//!    └──────────────────────────────► all that waits ──► the next block with content becomes the speaker
//! ```
//!
//! Invariants: a line belongs to one block and begins with the name of its agent; no line is interrupted by another
//! agent unless its block pauses; the output of each agent is complete and in order.

mod custom;

use std::collections::HashSet;
use std::io::{Result, Write};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, BlockHead, Channel, Lane, LaneId, LaneOutcome, RunOutcome, SpanKind};
use tokio::time::Instant;

use super::markdown::Markdown;
use super::style::{CYAN, DIM, RED, Style};
use custom::{about, printable};

/// How long the speaker may pause while other blocks wait. Models pause for less between words; people notice more.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest structured value, in characters.
const VALUE: usize = 200;
/// The metadata key of an A2A artifact's name, in its first chunk.
const ARTIFACT_NAME: &str = "a2a.artifactName";

/// Writes events as text. Pure but for the writer: times are arguments, so that tests control the pauses.
#[derive(Debug)]
pub(super) struct Screen {
    style: Style,
    /// The block whose line is unfinished, or `None` if the cursor is at the beginning of a line.
    speaker: Option<Speaker>,
    /// Output of other blocks, in the order in which it began.
    waiting: Vec<Waiting>,
}

/// The block to which the unfinished line belongs.
#[derive(Debug)]
struct Speaker {
    block: Arc<BlockHead>,
    /// When the block last emitted text, for [`PAUSE`].
    spoke: Instant,
    /// The state of wrapping and styles in the current line.
    text: Markdown,
}

/// Output of a block or an agent that is not the speaker.
///
/// `Text` is unformatted: its indent is known only when it is written. `is_over` is set once the block has
/// ended.
#[derive(Debug)]
enum Waiting {
    Text { block: Arc<BlockHead>, text: String, is_over: bool },
    Note { lane: Arc<Lane>, colour: &'static str, words: String },
}

impl Waiting {
    /// Returns the lane of the output. Order is kept per lane.
    fn lane(&self) -> &LaneId {
        match self {
            Self::Text { block, .. } => &block.lane.id,
            Self::Note { lane, .. } => &lane.id,
        }
    }
}

impl Screen {
    /// Returns a screen at the beginning of a line.
    pub(super) fn new(style: Style) -> Self {
        Self { style, speaker: None, waiting: Vec::new() }
    }

    /// Returns `true` if no line is unfinished.
    pub(super) fn is_quiet(&self) -> bool {
        self.speaker.is_none()
    }

    /// Returns the time at which the speaker has paused too long, or `None` if nothing waits or there is no
    /// speaker.
    pub(super) fn due(&self) -> Option<Instant> {
        let speaker = self.speaker.as_ref().filter(|_| !self.waiting.is_empty())?;
        Some(speaker.spoke + PAUSE)
    }

    /// Writes the waiting output, because the speaker has paused. Does nothing before the time of
    /// [`due`](Self::due). The unfinished line is ended; text that follows begins a new one.
    pub(super) fn handle_pause(&mut self, now: Instant, out: &mut dyn Write) -> Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.flush_all(out)?;
        }
        Ok(())
    }

    /// Shows one event. Events must arrive in the order of the run. Events without a text for people (state,
    /// usage, unknown custom content) are not shown.
    pub(super) fn show(&mut self, event: &BlockEvent, now: Instant, out: &mut dyn Write) -> Result<()> {
        match event {
            // A tool call is shown even before, or without, its arguments.
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::ToolUse => {
                self.hear(block, "", now, out)
            }
            BlockEvent::BlockDelta { block, delta } => self.hear(block, &printable(delta), now, out),
            BlockEvent::BlockEnded { block, .. } => self.end_block(block, now, out),
            BlockEvent::ToolResult(result) => {
                let colour = if result.is_error { RED } else { CYAN };
                self.note(&result.lane, colour, format!("← {}", printable(&result.output.to_text())), out)
            }
            BlockEvent::LaneOpened(lane) => self.note(lane, DIM, "begins".to_owned(), out),
            BlockEvent::LaneClosed { lane, outcome } => match &**outcome {
                LaneOutcome::Success(_) => self.note(lane, DIM, "is done".to_owned(), out),
                LaneOutcome::Suspended => self.note(lane, DIM, "waits".to_owned(), out),
                LaneOutcome::Cancelled => self.note(lane, DIM, "was cancelled".to_owned(), out),
                LaneOutcome::Failed(failure) => {
                    self.note(lane, RED, format!("failed: {}", printable(&failure.message)), out)
                }
                _ => Ok(()),
            },
            BlockEvent::Custom(custom) => match about(&custom.name, &custom.value) {
                Some((colour, words)) => self.note(&custom.lane, colour, words, out),
                None => Ok(()),
            },
            BlockEvent::InterruptRequested(pending) => {
                // An interrupt is shown directly above the prompt for its reply: all waiting output is written
                // before it.
                let question =
                    pending.interrupt.message.as_deref().unwrap_or("The agent waits for your answer.");
                self.flush_all(out)?;
                self.note(&pending.lane, CYAN, format!("? {}", printable(question)), out)
            }
            BlockEvent::RunFinished(end) => {
                self.flush_all(out)?;
                if end.outcome == RunOutcome::Cancelled {
                    self.style.paint(RED, "cancelled\n", out)
                } else {
                    Ok(())
                }
            }
            BlockEvent::RunFailed(end) => {
                self.flush_all(out)?;
                let failure = &end.failure;
                let words =
                    format!("failed ({}): {}\n", printable(&failure.code), printable(&failure.message));
                self.style.paint(RED, &words, out)
            }
            _ => Ok(()),
        }
    }

    /// Handles text of a block: writes it if the block is the speaker or no block is; else it waits.
    fn hear(&mut self, block: &Arc<BlockHead>, text: &str, now: Instant, out: &mut dyn Write) -> Result<()> {
        match &mut self.speaker {
            Some(speaker) if speaker.block.id == block.id => {
                speaker.spoke = now;
                let written = speaker.text.push(text);
                self.say(block, &written, out)?;
                // The end of a line is the place to switch: no sentence of the speaker is interrupted.
                if text.ends_with('\n') && self.has_whole() {
                    self.end_line(out)?;
                    return self.flush_whole(out);
                }
                Ok(())
            }
            None => {
                // Text that waited comes before the text that has just arrived.
                let before = self.take_waiting(block);
                self.speak(block, &format!("{before}{text}"), now, out)
            }
            Some(_) => {
                let waits = self.waiting.iter_mut().find_map(|waits| match waits {
                    Waiting::Text { block: other, text, .. } if other.id == block.id => Some(text),
                    _ => None,
                });
                match waits {
                    Some(waits) => waits.push_str(text),
                    None => self.waiting.push(Waiting::Text {
                        block: Arc::clone(block),
                        text: text.to_owned(),
                        is_over: false,
                    }),
                }
                Ok(())
            }
        }
    }

    /// Begins a line for a block, which becomes the speaker.
    fn speak(&mut self, block: &Arc<BlockHead>, text: &str, now: Instant, out: &mut dyn Write) -> Result<()> {
        let indent = self.begin(block, out)?;
        let mut speaker =
            Speaker { block: Arc::clone(block), spoke: now, text: self.markdown(block, indent) };
        let written = speaker.text.push(text);
        self.speaker = Some(speaker);
        self.say(block, &written, out)
    }

    /// Returns the formatter of a block. Only answers are styled: tool arguments and thinking contain `*` and
    /// `_` that are not Markdown.
    fn markdown(&self, block: &BlockHead, indent: usize) -> Markdown {
        let is_styled =
            self.style.colours && block.kind == SpanKind::Text && block.channel == Channel::Answer;
        Markdown::new(self.style.width, indent, is_styled)
    }

    /// Handles the end of a block. If it was the speaker, complete lines are written and the next block becomes
    /// the speaker; a waiting block is marked as complete.
    fn end_block(&mut self, block: &Arc<BlockHead>, now: Instant, out: &mut dyn Write) -> Result<()> {
        if self.speaker.as_ref().is_some_and(|speaker| speaker.block.id == block.id) {
            self.end_line(out)?;
            self.flush_whole(out)?;
            // The block that has waited longest becomes the speaker.
            let next = self.waiting.iter().find_map(|waits| match waits {
                Waiting::Text { block, is_over: false, .. } => Some(Arc::clone(block)),
                _ => None,
            });
            return next.map_or(Ok(()), |next| self.hear(&next, "", now, out));
        }
        for waits in &mut self.waiting {
            if let Waiting::Text { block: other, is_over, .. } = waits
                && other.id == block.id
            {
                *is_over = true;
            }
        }
        Ok(())
    }

    /// Removes and returns the text of a block that waited; empty if none did.
    fn take_waiting(&mut self, block: &BlockHead) -> String {
        let place = self
            .waiting
            .iter()
            .position(|waits| matches!(waits, Waiting::Text { block: other, .. } if other.id == block.id));
        match place.map(|place| self.waiting.remove(place)) {
            Some(Waiting::Text { text, .. }) => text,
            _ => String::new(),
        }
    }

    /// Returns `true` if complete lines wait.
    fn has_whole(&self) -> bool {
        self.waiting.iter().any(|waits| match waits {
            Waiting::Text { text, is_over, .. } => *is_over || text.contains('\n'),
            Waiting::Note { .. } => true,
        })
    }

    /// Writes complete lines that wait. An unfinished line of an agent holds back the agent's later output.
    fn flush_whole(&mut self, out: &mut dyn Write) -> Result<()> {
        let mut held = HashSet::new();
        let mut later = Vec::new();
        for waits in std::mem::take(&mut self.waiting) {
            if held.contains(waits.lane()) {
                later.push(waits);
                continue;
            }
            match waits {
                Waiting::Text { block, mut text, is_over: false } => {
                    // The rest of this block, and everything later of its agent, waits until the line is
                    // complete.
                    held.insert(block.lane.id.clone());
                    let rest = text.split_off(text.rfind('\n').map_or(0, |end| end + 1));
                    self.whole(&block, &text, out)?;
                    later.push(Waiting::Text { block, text: rest, is_over: false });
                }
                waits => self.write(waits, out)?,
            }
        }
        self.waiting = later;
        Ok(())
    }

    /// Ends the unfinished line and writes everything that waits, complete or not.
    fn flush_all(&mut self, out: &mut dyn Write) -> Result<()> {
        self.end_line(out)?;
        std::mem::take(&mut self.waiting).into_iter().try_for_each(|waits| self.write(waits, out))
    }

    /// Writes waiting output on lines of its own.
    fn write(&mut self, waits: Waiting, out: &mut dyn Write) -> Result<()> {
        match waits {
            Waiting::Text { block, text, .. } => {
                // A call without arguments is a line too.
                if text.is_empty() && block.kind == SpanKind::ToolUse {
                    self.begin(&block, out)?;
                    return writeln!(out);
                }
                self.whole(&block, &text, out)
            }
            Waiting::Note { lane, colour, words } => self.write_note(&lane, colour, &words, out),
        }
    }

    /// Writes text at once, on lines of its own.
    fn whole(&mut self, block: &BlockHead, text: &str, out: &mut dyn Write) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let indent = self.begin(block, out)?;
        let mut markdown = self.markdown(block, indent);
        let written = format!("{}{}", markdown.push(text.trim_end_matches(['\n', ' '])), markdown.finish());
        self.say(block, &written, out)?;
        writeln!(out)
    }

    /// Writes the beginning of a line: the agent, the artifact that begins, the name of a called tool. Returns
    /// the columns to indent further lines by.
    ///
    /// A block that continues another one does not repeat the name of the artifact.
    fn begin(&mut self, block: &BlockHead, out: &mut dyn Write) -> Result<usize> {
        let name = block.origin.metadata.as_ref().and_then(|metadata| metadata.get(ARTIFACT_NAME)?.as_str());
        if let Some(name) = name.filter(|_| block.continues.is_none()) {
            self.name(&block.lane, out)?;
            self.style.paint(CYAN, &format!("artifact {}\n", printable(name)), out)?;
        }
        let indent = self.name(&block.lane, out)?;
        if block.kind == SpanKind::ToolUse {
            self.style.paint(CYAN, &format!("→ {} ", printable(&block.tool_name)), out)?;
        }
        Ok(indent)
    }

    /// Writes text of a block, dimmed if it is not part of the answer.
    fn say(&self, block: &BlockHead, text: &str, out: &mut dyn Write) -> Result<()> {
        let is_aside = block.kind != SpanKind::Text || block.channel == Channel::Intermediate;
        if is_aside { self.style.paint(DIM, text, out) } else { write!(out, "{text}") }
    }

    /// Writes a notice about an agent after the agent's text; at once if no other agent has an unfinished line.
    fn note(
        &mut self,
        lane: &Arc<Lane>,
        colour: &'static str,
        words: String,
        out: &mut dyn Write,
    ) -> Result<()> {
        let is_other = self.speaker.as_ref().is_some_and(|speaker| speaker.block.lane.id != lane.id);
        if is_other {
            self.waiting.push(Waiting::Note { lane: Arc::clone(lane), colour, words });
            return Ok(());
        }
        self.end_line(out)?;
        let (own, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waits| *waits.lane() == lane.id);
        self.waiting = others;
        let own: Vec<Waiting> = own;
        own.into_iter().try_for_each(|waits| self.write(waits, out))?;
        self.write_note(lane, colour, &words, out)
    }

    /// Writes a notice on a line of its own, wrapped and without Markdown.
    fn write_note(&self, lane: &Lane, colour: &str, words: &str, out: &mut dyn Write) -> Result<()> {
        let indent = self.name(lane, out)?;
        let mut text = Markdown::new(self.style.width, indent, false);
        let written = format!("{}{}", text.push(words), text.finish());
        self.style.paint(colour, &format!("{written}\n"), out)
    }

    /// Writes the name of the agent and returns its columns. The run's own agent has no name on the screen.
    fn name(&self, lane: &Lane, out: &mut dyn Write) -> Result<usize> {
        if lane.is_root() {
            return Ok(0);
        }
        let name = format!("[{}] ", printable(lane.name()));
        self.style.paint(DIM, &name, out)?;
        // A name that takes half of the line is not used as indent.
        let columns = name.chars().count();
        Ok(if columns * 2 < self.style.width { columns } else { 0 })
    }

    /// Ends the unfinished line. The block is the speaker no longer; its next text begins a line with its name.
    fn end_line(&mut self, out: &mut dyn Write) -> Result<()> {
        let Some(mut speaker) = self.speaker.take() else { return Ok(()) };
        let rest = speaker.text.finish();
        self.say(&speaker.block, &rest, out)?;
        writeln!(out)
    }
}

#[cfg(test)]
mod tests;

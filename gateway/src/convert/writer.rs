//! The output dialects: canonical events to lines or frames in one buffer.
//!
//! ```text
//!             ┌─ Agui:     View ──► 0..n events ──► encode::json ─┐
//! BlockEvent ─┼─ A2a:      ItemWriter ──► 0..n items ────────────┼──► frame (line or SSE) ──► buffer
//!             ├─ Blocks:   canonical::to_json ───────────────────┤
//!             └─ Response: RunMerger, one value per run at its end┘
//! ```
//!
//! The writer performs no IO: `Runs::write_to` writes the buffer and clears it. An event that cannot be encoded
//! is left out and reported by [`Writer::notes`]; the rest of the stream is converted.

use aqueduct_adapter_a2a::ItemWriter;
use aqueduct_adapter_a2a::wire::{Dialect as A2aDialect, StreamItem};
use aqueduct_adapter_agui::config::{Dialect, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::View;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, IntermediateView, RunInfo, RunMerger, canonical};

use crate::cli::{ConvertArgs, QuestionView, SubagentView, TextView, ToDialect};

/// Converts the canonical events of all runs of one input into one output.
#[derive(Debug)]
pub(super) struct Writer {
    target: Target,
    sse: bool,
    /// Complete frames that have not been written to the output yet.
    buffer: Vec<u8>,
    /// One sentence per event that could not be encoded or merged.
    refused: Vec<String>,
}

/// The state of one output dialect. `scratch` vectors are reused between events and are empty between two
/// calls.
///
/// `Agui` is AG-UI 1.0 or 0.0.59, as the settings of its view say.
#[derive(Debug)]
enum Target {
    Agui {
        view: Box<View>,
        scratch: Vec<Event>,
    },
    /// A2A 1.0. The writer is created when a run starts, because every item of a task contains the id of the
    /// task. Events before the first `RunStarted` produce no item.
    A2a {
        writer: Option<Box<ItemWriter>>,
        scratch: Vec<StreamItem<'static>>,
        /// Set by `--intermediate hidden`: text on the way to the answer produces no item.
        hides_work: bool,
    },
    /// Canonical events, one JSON object each. Stateless.
    Blocks,
    /// Merges the events of the open run; boxed, because the other variants are small.
    Response(Box<RunMerger>),
}

impl Writer {
    /// Returns the writer for `--to` and the options that select views.
    pub(super) fn new(args: &ConvertArgs) -> Self {
        let target = match args.to {
            ToDialect::Agui => agui(args, Dialect::V1_0),
            ToDialect::Agui0059 => agui(args, Dialect::V0_0_59),
            ToDialect::A2a => {
                let hides_work = matches!(args.intermediate, TextView::Hidden);
                Target::A2a { writer: None, scratch: Vec::new(), hides_work }
            }
            ToDialect::Blocks => Target::Blocks,
            ToDialect::Response => Target::Response(Box::default()),
        };
        Self { target, sse: args.sse, buffer: Vec::new(), refused: Vec::new() }
    }

    /// Converts one event and appends its frames to the buffer. Events must arrive in the order of the stream.
    pub(super) fn write(&mut self, event: &BlockEvent) {
        let Self { target, sse, buffer, refused } = self;
        match target {
            Target::Blocks => {
                let line = canonical::to_json(event).to_string();
                frame(*sse, buffer, |out| out.extend_from_slice(line.as_bytes()));
            }
            Target::Response(merger) => {
                if let Err(error) = merger.handle_event(event) {
                    refused.push(error.to_string());
                }
                // One line per run. Taking the merger leaves an empty one for the next run of the input.
                if merger.is_ended() {
                    let line = std::mem::take(&mut **merger).finish().to_json().to_string();
                    frame(*sse, buffer, |out| out.extend_from_slice(line.as_bytes()));
                }
            }
            Target::A2a { writer, scratch, hides_work } => {
                // A second run in the input is a second task, with a writer of its own.
                if let BlockEvent::RunStarted(run) = event {
                    *writer = Some(a2a(run, *hides_work));
                }
                if let Some(writer) = writer {
                    writer.handle_event(event, scratch);
                }
                for item in scratch.drain(..) {
                    let line = item.to_json(A2aDialect::V1).to_string();
                    frame(*sse, buffer, |out| out.extend_from_slice(line.as_bytes()));
                }
            }
            Target::Agui { view, scratch } => {
                view.convert(event, scratch);
                for event in scratch.drain(..) {
                    // The prefix of the frame is in the buffer before encoding can fail, so a failure removes
                    // it again.
                    let start = buffer.len();
                    let mut written = Ok(());
                    frame(*sse, buffer, |out| written = encode::json(&event, out));
                    if let Err(error) = written {
                        buffer.truncate(start);
                        refused.push(format!("an event of type {} was left out: {error}", event.kind()));
                    }
                }
            }
        }
    }

    /// Returns the buffer with complete frames. The caller clears it after writing.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Returns one sentence per event that was left out, in the order of the stream.
    pub(super) fn notes(&self) -> Vec<String> {
        self.refused.clone()
    }
}

/// Writes one payload. No payload contains a line break, so both framings are a prefix and a suffix.
///
/// ```text
/// lines:  {"type":"RUN_STARTED"}\n
/// SSE:    data: {"type":"RUN_STARTED"}\n\n
/// ```
fn frame(sse: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if sse {
        out.extend_from_slice(b"data: ");
    }
    write(out);
    out.extend_from_slice(if sse { b"\n\n" } else { b"\n" });
}

/// Returns the writer of one task, with the converters for the thread and run ids of `run`.
fn a2a(run: &RunInfo, hides_work: bool) -> Box<ItemWriter> {
    let mut settings = aqueduct_adapter_a2a::Settings::of_run(run);
    if hides_work {
        settings.intermediate = IntermediateView::Hidden;
    }
    Box::new(ItemWriter::new(aqueduct_adapter_a2a::converters(&settings), settings.notes))
}

/// Returns the AG-UI target. Options that are absent keep the default of the dialect: 1.0 and 0.0.59 differ in
/// how they show sub-agents and interrupts.
fn agui(args: &ConvertArgs, dialect: Dialect) -> Target {
    let mut settings = Settings::new(dialect).with_intermediate(match args.intermediate {
        TextView::Reasoning => IntermediateView::Reasoning,
        TextView::Text => IntermediateView::Text,
        TextView::Hidden => IntermediateView::Hidden,
    });
    if let Some(view) = args.subagents {
        settings = settings.with_subagents(match view {
            SubagentView::Attributed => Subagents::Attributed,
            SubagentView::Inline => Subagents::Inline,
            SubagentView::Tool => Subagents::Tool,
            SubagentView::Hidden => Subagents::Hidden,
        });
    }
    if let Some(view) = args.interrupts {
        settings = settings.with_interrupts(match view {
            QuestionView::Interrupt => Interrupts::Interrupt,
            QuestionView::Text => Interrupts::Text,
        });
    }
    Target::Agui { view: Box::new(View::new(&settings)), scratch: Vec::new() }
}

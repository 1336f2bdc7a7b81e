//! The output dialects: canonical events to lines or frames in one buffer.

use aqueduct_adapter_a2a::ItemWriter;
use aqueduct_adapter_a2a::wire::{Dialect as A2aDialect, StreamItem};
use aqueduct_adapter_agui::config::{Dialect, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::View;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, IntermediateView, RunInfo, RunMerger, canonical};

use crate::cli::{ConvertArgs, QuestionView, SubagentView, TextView, ToDialect};

#[derive(Debug)]
pub(super) struct Writer {
    target: Target,
    sse: bool,
    buffer: Vec<u8>,
    refused: Vec<String>,
}

#[derive(Debug)]
enum Target {
    Agui {
        view: Box<View>,
        scratch: Vec<Event>,
    },
    /// Created when a run starts: every item of a task contains its id.
    A2a {
        writer: Option<Box<ItemWriter>>,
        scratch: Vec<StreamItem<'static>>,
        hides_work: bool,
    },
    Blocks,
    /// Merges the events of the open run; boxed, because the other variants are small.
    Response(Box<RunMerger>),
}

impl Writer {
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
                if merger.is_ended() {
                    let line = std::mem::take(&mut **merger).finish().to_json().to_string();
                    frame(*sse, buffer, |out| out.extend_from_slice(line.as_bytes()));
                }
            }
            Target::A2a { writer, scratch, hides_work } => {
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

    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.refused.clone()
    }
}

/// Writes one payload. No payload contains a line break, so both framings are a prefix and a suffix.
fn frame(sse: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if sse {
        out.extend_from_slice(b"data: ");
    }
    write(out);
    out.extend_from_slice(if sse { b"\n\n" } else { b"\n" });
}

fn a2a(run: &RunInfo, hides_work: bool) -> Box<ItemWriter> {
    let mut settings = aqueduct_adapter_a2a::Settings::of_run(run);
    if hides_work {
        settings.intermediate = IntermediateView::Hidden;
    }
    Box::new(ItemWriter::new(aqueduct_adapter_a2a::converters(&settings), settings.notes))
}

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

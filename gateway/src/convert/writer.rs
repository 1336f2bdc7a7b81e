//! The output dialects: canonical events to lines or frames in one buffer.

use aqueduct_adapter_agui::config::{Dialect, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, ConverterSet, IntermediateView};

use super::blocks;
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
    Agui { set: Box<ConverterSet<Event>>, scratch: Vec<Event> },
    Blocks,
}

impl Writer {
    pub(super) fn new(args: &ConvertArgs) -> Self {
        let target = match args.to {
            ToDialect::Agui => agui(args, Dialect::V1_0),
            ToDialect::Agui0059 => agui(args, Dialect::V0_0_59),
            ToDialect::Blocks | ToDialect::A2a => Target::Blocks,
        };
        Self { target, sse: args.sse, buffer: Vec::new(), refused: Vec::new() }
    }

    pub(super) fn write(&mut self, event: &BlockEvent) {
        let Self { target, sse, buffer, refused } = self;
        match target {
            Target::Blocks => {
                let line = blocks::to_json(event).to_string();
                frame(*sse, buffer, |out| out.extend_from_slice(line.as_bytes()));
            }
            Target::Agui { set, scratch } => {
                set.convert(event, scratch);
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

/// No payload has a line break, so both framings are a prefix and a suffix.
fn frame(sse: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if sse {
        out.extend_from_slice(b"data: ");
    }
    write(out);
    out.extend_from_slice(if sse { b"\n\n" } else { b"\n" });
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
            SubagentView::Hidden => Subagents::Hidden,
        });
    }
    if let Some(view) = args.interrupts {
        settings = settings.with_interrupts(match view {
            QuestionView::Interrupt => Interrupts::Interrupt,
            QuestionView::Text => Interrupts::Text,
        });
    }
    Target::Agui { set: Box::new(converters(&settings)), scratch: Vec::new() }
}

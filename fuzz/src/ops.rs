//! Decoding of bytes as operations on the stream machine.

use aqueduct_core::block::{ToolOutput, ToolResult, ToolUse};
use aqueduct_core::{
    BlockEvent, ContentBlock, Interrupt, LaneOutcome, Mode, RunInfo, RunOutcome, Source, SourceEvent,
    StreamContext, ToolCallId, Update,
};
use arbitrary::{Arbitrary, Unstructured};

/// An operation. Ids are small numbers, so that they collide often.
#[derive(Debug, Arbitrary)]
enum Op {
    Text { lane: u8, text: String, shape: Shape },
    Think { lane: u8, text: String, shape: Shape },
    Call { lane: u8, id: Option<u8>, name: Option<u8>, arguments: String, shape: Shape },
    Answer { lane: u8, id: Option<u8>, output: String, progress: bool, shape: Shape },
    Custom { lane: u8, shape: Shape },
    Open { lane: u8 },
    Close { lane: u8, cancelled: bool },
    Step { lane: u8, name: u8, ends: bool },
    Ask { lane: u8, id: u8 },
    Poll,
    Finish { interrupted: bool },
    Cancel,
    Eof,
}

#[derive(Debug, Arbitrary)]
struct Shape {
    mode: u8,
    message: Option<u8>,
    track: u8,
    last: bool,
    intermediate: bool,
}

fn source(lane: u8) -> Source {
    let research = Source::root().child("research");
    match lane % 4 {
        0 => Source::root(),
        1 => research,
        2 => research.child("search").called_by(ToolCallId::from("c1")),
        _ => Source::root().child("write"),
    }
}

fn update(lane: u8, block: ContentBlock, shape: &Shape) -> SourceEvent {
    let mut update = Update::new(block).from_source(&source(lane)).on_track(match shape.track % 3 {
        0 => "",
        1 => "x",
        _ => "y",
    });
    update.mode = match shape.mode % 4 {
        0 | 1 => Mode::Append,
        2 => Mode::Snapshot,
        _ => Mode::Replace,
    };
    update.last = shape.last;
    if let Some(id) = shape.message {
        update = update.in_message(format!("m{}", id % 4));
    }
    if shape.intermediate {
        update = update.intermediate();
    }
    update.into()
}

fn event(op: Op) -> Option<SourceEvent> {
    let call = |id: Option<u8>| id.map(|id| ToolCallId::from(format!("c{}", id % 4)));
    Some(match op {
        Op::Text { lane, text, shape } => update(lane, ContentBlock::text(text), &shape),
        Op::Think { lane, text, shape } => update(lane, ContentBlock::thinking(text), &shape),
        Op::Call { lane, id, name, arguments, shape } => {
            let name = name.map(|name| format!("tool{}", name % 2).into());
            let tool = ToolUse { id: call(id), name, arguments: arguments.into() };
            update(lane, ContentBlock::from(tool), &shape)
        }
        Op::Answer { lane, id, output, progress, shape } => {
            let output =
                if progress { ToolOutput::Progress(output.into()) } else { ToolOutput::Text(output.into()) };
            let result = ToolResult { id: call(id), output, ..ToolResult::default() };
            update(lane, ContentBlock::from(result), &shape)
        }
        Op::Custom { lane, shape } => update(lane, ContentBlock::custom("chart", true.into()), &shape),
        Op::Open { lane } => SourceEvent::LaneOpened(source(lane)),
        Op::Close { lane, cancelled } => {
            let outcome = if cancelled { LaneOutcome::Cancelled } else { LaneOutcome::Success(None) };
            SourceEvent::LaneClosed { source: source(lane), outcome }
        }
        Op::Step { lane, name, ends } => {
            let (source, name) = (source(lane), format!("s{}", name % 3).into());
            if ends {
                SourceEvent::StepFinished { source, name }
            } else {
                SourceEvent::StepStarted { source, name }
            }
        }
        Op::Ask { lane, id } => {
            let interrupt = Interrupt::new(format!("i{}", id % 3), "input_required");
            SourceEvent::InterruptRequested { source: source(lane), interrupt: Box::new(interrupt) }
        }
        Op::Finish { interrupted } => {
            let outcome = if interrupted { RunOutcome::Interrupted } else { RunOutcome::Success };
            SourceEvent::Finished { outcome, result: None }
        }
        Op::Poll | Op::Cancel | Op::Eof => return None,
    })
}

/// The most operations of one input.
const MOST: usize = 256;

fn ops(data: &[u8]) -> impl Iterator<Item = Op> {
    let mut data = Unstructured::new(data);
    std::iter::from_fn(move || if data.is_empty() { None } else { Op::arbitrary(&mut data).ok() }).take(MOST)
}

/// Returns the source events among the operations.
pub fn source_events(data: &[u8]) -> Vec<SourceEvent> {
    ops(data).filter_map(event).collect()
}

/// Runs all operations on a stream machine, and returns the emitted events.
pub fn run(data: &[u8]) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    let mut events = Vec::new();
    for op in ops(data) {
        match op {
            Op::Poll => events.extend(context.poll_event()),
            Op::Cancel => context.handle_cancel(),
            Op::Eof => context.handle_eof(),
            // An error is a valid result; the machine must stay consistent.
            op => {
                if let Some(event) = event(op) {
                    context.handle_event(event).ok();
                }
            }
        }
    }
    context.handle_eof();
    events.extend(std::iter::from_fn(|| context.poll_event()));
    events
}

//! The stream machine alone: cost per event over 10 to 1,000,000 events, with 1 and 100 lanes.
//!
//! Every case has three properties: the time per event stays flat for any length and number of lanes, a text delta allocates
//! nothing in steady state, and a realistic mix with tools costs little more.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

use aqueduct_benches::{measure, print_figure, print_head};
use aqueduct_core::{BlockEvent, ByteString, ContentBlock, RunInfo, Source, StreamContext, Update};

const LENGTHS: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

fn main() {
    print_head("StreamContext, text deltas of 20 bytes");
    for lanes in [1, 100] {
        for events in LENGTHS {
            let figure =
                measure(events, || deltas(events, lanes), |(context, updates)| drain(context, updates));
            print_figure(&format!("{lanes} lane(s), updates ready"), &figure);
        }
    }
    print_head("StreamContext, 90 % text deltas, 10 % tool calls and results");
    for lanes in [1, 100] {
        for events in LENGTHS {
            let figure =
                measure(events, || mixed(events, lanes), |(context, updates)| drain(context, updates));
            print_figure(&format!("{lanes} lane(s), mixed"), &figure);
        }
    }
    println!(
        "\nallocations of the text cases are those of opening the run, its lanes and blocks: they do not grow"
    );
}

/// Polls after each update, as a transport does, and counts the events.
fn drain(mut context: StreamContext, updates: Vec<Update>) -> usize {
    let mut polled = 0;
    for update in updates {
        if context.handle_update(update).is_ok() {
            while let Some(event) = context.poll_event() {
                polled += usize::from(!matches!(event, BlockEvent::RunFailed(_)));
            }
        }
    }
    polled
}

fn sources(lanes: usize) -> Vec<Source> {
    if lanes == 1 {
        return vec![Source::root()];
    }
    (0..lanes).map(|n| Source::root().child(format!("agent-{n}"))).collect()
}

fn context() -> StreamContext {
    StreamContext::new(RunInfo::new("thread", "run"))
}

fn deltas(events: usize, lanes: usize) -> (StreamContext, Vec<Update>) {
    let text = ByteString::from("some twenty bytes, ok");
    let sources = sources(lanes);
    let message = ByteString::from("message-1");
    let update = |source: &Source| Update::text(text.clone()).in_message(message.clone()).from_source(source);
    (context(), sources.iter().cycle().take(events).map(update).collect())
}

fn mixed(events: usize, lanes: usize) -> (StreamContext, Vec<Update>) {
    let text = ByteString::from("some twenty bytes, ok");
    let sources = sources(lanes);
    let update = |(n, source): (usize, &Source)| {
        let call = format!("call-{}", n / 20);
        let block = match n % 20 {
            18 => ContentBlock::tool_use(call, "search", r#"{"query":"rust"}"#),
            19 => ContentBlock::tool_result(call, "found"),
            _ => ContentBlock::text(text.clone()),
        };
        Update::new(block).from_source(source)
    };
    (context(), sources.iter().cycle().take(events).enumerate().map(update).collect())
}

//! Workflow lines carried through the stream machine, one run of the conversation after the other.

use aqueduct_adapter_magentic::Decoder;
use aqueduct_core::{BlockEvent, ByteString, RunInfo, StreamContext};

/// The runs of a recording.
pub fn runs(text: &str) -> Vec<Vec<BlockEvent>> {
    let mut decoder = Decoder::default();
    let mut runs = Vec::new();
    let mut context: Option<StreamContext> = None;
    for line in text.lines() {
        decoder.handle_line(&ByteString::from(line)).unwrap();
        pump(&mut decoder, &mut context, &mut runs);
    }
    decoder.handle_eof().unwrap();
    pump(&mut decoder, &mut context, &mut runs);
    if let Some(mut cut) = context {
        cut.handle_eof();
        runs.push(std::iter::from_fn(|| cut.poll_event()).collect());
    }
    runs
}

fn pump(decoder: &mut Decoder, context: &mut Option<StreamContext>, runs: &mut Vec<Vec<BlockEvent>>) {
    while let Some(event) = decoder.poll_event() {
        let run = format!("run-{}", runs.len() + 1);
        let current = context.get_or_insert_with(|| {
            StreamContext::new(RunInfo::new("thread", run)).with_known_calls(decoder.waiting_calls())
        });
        current.handle_event(event).unwrap();
        if current.is_ended() {
            runs.push(std::iter::from_fn(|| current.poll_event()).collect());
            *context = None;
        }
    }
}

//! A stream that is cut at any byte ends as a well-formed run that says so.

use aqueduct_adapter_a2a::wire::{Dialect, Frame};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder};
use aqueduct_core::{BlockEvent, RunFailure, SourceEvent};

use crate::support::{Event, Splitter, balanced, streams};

/// What a decoder says at the end, apart from details that name the unread rest.
fn ending(decoder: &Decoder, rest: &[Event]) -> Vec<SourceEvent> {
    let (mut decoder, mut out) = (decoder.clone(), Vec::new());
    for event in rest {
        decoder.handle_frame(Frame { event: event.name.as_deref(), data: &event.data }, &mut out);
    }
    decoder.handle_end(&mut out);
    if let Some(SourceEvent::Failed(failure)) = out.last_mut() {
        failure.details = None;
    }
    out
}

fn is_cut(event: &BlockEvent) -> bool {
    matches!(event, BlockEvent::RunFailed(failed) if *failed.failure.code == *RunFailure::UPSTREAM_ENDED)
}

/// Cuts a stream at every byte. The decoder goes on from cut to cut; the run behind it is made and checked for every
/// event that is whole, for the first of the unreadable rests of each, and for every rest that can be read.
fn cut_everywhere(name: &str, bytes: &[u8]) {
    let mut decoder = Decoder::new(DecodeConfig::root());
    let (mut splitter, mut so_far) = (Splitter::default(), Vec::new());
    let mut checked = None;
    for at in 0..bytes.len() {
        let mut rest = Vec::new();
        splitter.clone().end(&mut rest);
        let readable = rest.iter().any(|event| Frame::data(&event.data).parse(Dialect::V1).is_ok());
        let case = (so_far.len(), rest.len(), readable);
        if checked.replace(case) != Some(case) {
            let ending = ending(&decoder, &rest);
            let run = balanced(so_far.iter().chain(&ending).cloned().collect());
            let cut = is_cut(run.last().unwrap());
            assert!(!cut || decoder.settled().is_none(), "{name} cut at {at}: it had come to rest");
            assert!(
                cut || decoder.settled().is_some() || readable,
                "{name} cut at {at}: a cut is no success"
            );
        }
        let mut events = Vec::new();
        splitter.feed(&bytes[at..=at], &mut events);
        for event in events {
            decoder.handle_frame(Frame { event: event.name.as_deref(), data: &event.data }, &mut so_far);
        }
    }
    let mut rest = Vec::new();
    splitter.end(&mut rest);
    assert!(
        decoder.settled().is_some() || !is_cut(balanced(ending(&decoder, &rest)).last().unwrap()),
        "{name}"
    );
}

#[test]
fn a_cut_at_any_byte_is_told_as_a_cut() {
    for (name, bytes) in streams() {
        cut_everywhere(&name, &bytes);
    }
}

//! The recorded turns of a real server: blocking answers, subscriptions, follow-ups, cancel, refusals.

use std::fmt::Write as _;

use aqueduct_adapter_a2a::wire::{Frame, WireError};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder};
use aqueduct_core::ByteString;

use crate::support::{assert_golden, fixture_dir, traced};

/// One request and what came back for it.
struct Turn<'t> {
    title: &'t str,
    request: &'t str,
    answers: Vec<&'t str>,
}

fn turns(recorded: &str) -> Vec<Turn<'_>> {
    let (mut turns, mut title): (Vec<Turn<'_>>, &str) = (Vec::new(), "");
    for line in recorded.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            title = text;
        } else if let Some(request) = line.strip_prefix(">> ") {
            turns.push(Turn { title, request, answers: Vec::new() });
        } else if let Some(answer) = line.strip_prefix("<< ") {
            let from_stream = answer.contains(" data: ");
            // Other calls were made while a stream was open: what comes as an event belongs to the stream.
            let owner =
                turns.iter_mut().rev().find(|turn| turn.request.starts_with("STREAM") || !from_stream);
            if let (Some(turn), Some(at)) = (owner, answer.find('{')) {
                turn.answers.push(&answer[at..]);
            }
        }
    }
    turns
}

#[test]
fn every_recorded_turn_has_its_trace() {
    let recorded = std::fs::read_to_string(fixture_dir().join("v1-turns.txt")).unwrap();
    let mut report = String::new();
    for turn in turns(&recorded) {
        let method =
            turn.request.split(' ').take_while(|word| !word.starts_with('{')).collect::<Vec<_>>().join(" ");
        if method.contains("PushNotification") || method == "ListTasks" {
            continue;
        }
        let mut decoder = Decoder::new(DecodeConfig::root());
        let mut events = Vec::new();
        for answer in turn.answers {
            let data = ByteString::from(answer);
            match WireError::from_response(200, data.as_bytes()) {
                Some(error) => decoder.handle_error(&error, &mut events),
                None => decoder.handle_frame(Frame::data(&data), &mut events),
            }
        }
        decoder.handle_end(&mut events);
        writeln!(report, "# {}: {method}\n{}", turn.title, traced(events)).unwrap();
    }
    assert_golden("v1-turns", &report);
}

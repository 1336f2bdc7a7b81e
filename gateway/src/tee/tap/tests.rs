//! Lanes that a tap decodes from responses.

use aqueduct_core::ContentBlock;

use super::*;

fn tap() -> Tap {
    let source = Source::root().child("a#1").named("a");
    let limits = sse::DecodeLimits { line: 4096, event: 4096 };
    let config =
        TapConfig { source, dialect: Dialect::V1, limits, message_id: None, follow_up: false, raises: false };
    Tap::new(config, TaskMemory::default())
}

fn frame(result: &Value) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result })))
}

fn status(state: &str, text: &str) -> Bytes {
    let message = json!({ "messageId": text, "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    let status = json!({ "state": format!("TASK_STATE_{state}"), "message": message });
    frame(&json!({ "statusUpdate": { "taskId": "T", "contextId": "C", "status": status } }))
}

fn artifact(text: &str) -> Bytes {
    let artifact = json!({ "artifactId": "A", "parts": [{ "text": text }] });
    frame(&json!({ "artifactUpdate": { "taskId": "T", "contextId": "C", "artifact": artifact } }))
}

fn events(tap: &mut Tap) -> Vec<SourceEvent> {
    std::iter::from_fn(|| tap.poll_event()).collect()
}

fn outcome(events: &[SourceEvent]) -> &LaneOutcome {
    match events.last() {
        Some(SourceEvent::LaneClosed { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_said_is_on_the_way() {
    let mut tap = tap();
    // Byte by byte: a network may split anywhere.
    for byte in [status("WORKING", "looking"), artifact("the answer"), status("COMPLETED", "done")].concat() {
        tap.handle_chunk(Bytes::copy_from_slice(&[byte]));
    }
    tap.handle_end();
    let events = events(&mut tap);
    assert!(matches!(&events[0], SourceEvent::LaneOpened(source) if source.name() == "a"), "{events:?}");
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            SourceEvent::Update(update) => {
                assert_eq!(update.channel, Channel::Intermediate);
                match &update.block {
                    ContentBlock::Text(text) => Some(&*text.text),
                    _ => None,
                }
            }
            _ => None,
        })
        .collect();
    assert_eq!(texts.concat(), "lookingthe answerdone");
    assert_eq!(*outcome(&events), LaneOutcome::Success(None));
    assert!(tap.into_memory().is_none(), "there is no more to come of it");
}

#[test]
fn a_question_is_a_notice_and_its_answer_goes_on() {
    let mut tap = tap();
    tap.handle_chunk(status("INPUT_REQUIRED", "which?"));
    tap.handle_end();
    let events = events(&mut tap);
    assert!(!events.iter().any(|event| matches!(event, SourceEvent::InterruptRequested { .. })));
    let told = format!("{events:?}");
    assert!(told.contains(wellknown::NOTICE) && told.contains("which?"), "{told}");
    assert_eq!(*outcome(&events), LaneOutcome::Suspended);
    assert!(tap.into_memory().is_some());
}

#[test]
fn every_bad_end_closes_the_lane_once() {
    let closing = |change: fn(&mut Tap)| {
        let mut tap = tap();
        change(&mut tap);
        tap.handle_end();
        tap.handle_failure(RunFailure::new("late", "late"));
        let events = events(&mut tap);
        let opened = events.iter().filter(|event| matches!(event, SourceEvent::LaneOpened(_))).count();
        let closed = events.iter().filter(|event| matches!(event, SourceEvent::LaneClosed { .. })).count();
        assert_eq!((opened, closed), (1, 1), "{events:?}");
        match outcome(&events) {
            LaneOutcome::Failed(failure) => failure.code.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(closing(|_| ()), RunFailure::UPSTREAM_ENDED);
    assert_eq!(closing(|tap| tap.handle_chunk(status("WORKING", "half"))), RunFailure::UPSTREAM_ENDED);
    assert_eq!(closing(|tap| tap.handle_failure(RunFailure::new("gone", "gone"))), "gone");
    assert_eq!(closing(|tap| tap.handle_chunk(Bytes::from_static(b"data: nonsense\n\n"))), "upstream_ended");
    let long = |tap: &mut Tap| tap.handle_chunk(Bytes::from(format!("data: {}\n\n", "x".repeat(9000))));
    assert_eq!(closing(long), RunFailure::UPSTREAM_INVALID);
    assert_eq!(closing(|tap| tap.handle_body(503, &Bytes::from_static(b"busy"))), "upstream_error");
    assert_eq!(closing(|tap| tap.handle_body(200, &Bytes::from_static(b"<html>"))), "upstream_ended");
}

#[test]
fn a_body_may_be_all_or_the_beginning() {
    let body = |state: &str| {
        let status = json!({ "state": format!("TASK_STATE_{state}") });
        let artifact = json!({ "artifactId": "A", "parts": [{ "text": "the answer" }] });
        let task = json!({ "id": "T", "contextId": "C", "status": status, "artifacts": [artifact] });
        Bytes::from(json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task } }).to_string())
    };
    let mut tap = tap();
    tap.handle_body(200, &body("WORKING"));
    assert!(tap.is_working());
    let first = events(&mut tap);
    assert!(format!("{first:?}").contains("the answer"));
    tap.handle_body(200, &body("COMPLETED"));
    let second = events(&mut tap);
    assert!(!format!("{second:?}").contains("the answer"), "told once: {second:?}");
    assert_eq!(*outcome(&second), LaneOutcome::Success(None));
}

mod apart {
    use std::collections::BTreeMap;

    use aqueduct_core::testing::InvariantChecker;
    use aqueduct_core::{BlockEvent, RunInfo, RunOutcome, StreamContext};
    use proptest::prelude::*;

    use super::*;

    /// Returns the frames of an agent with these texts, split into chunks of that size.
    fn spoken(words: &[String], size: usize) -> VecDeque<Bytes> {
        let artifact = |index: usize, text: &String| {
            let artifact = json!({ "artifactId": "A", "parts": [{ "text": text }] });
            let update =
                json!({ "taskId": "T", "contextId": "C", "artifact": artifact, "append": index > 0 });
            frame(&json!({ "artifactUpdate": update }))
        };
        let frames = words.iter().enumerate().map(|(index, text)| artifact(index, text));
        let whole = frames.chain([status("COMPLETED", "")]).collect::<Vec<_>>().concat();
        whole.chunks(size).map(Bytes::copy_from_slice).collect()
    }

    fn lane_tap(parent: &Source, key: usize) -> (Source, Tap) {
        let source = parent.child(format!("a#{key}")).named(format!("agent {key}"));
        let limits = sse::DecodeLimits { line: 4096, event: 4096 };
        let config = TapConfig {
            source: source.clone(),
            dialect: Dialect::V1,
            limits,
            message_id: None,
            follow_up: false,
            raises: false,
        };
        (source, Tap::new(config, TaskMemory::default()))
    }

    proptest! {
        /// However the chunks of several agents interleave, three levels deep, the text of each agent is in its own
        /// lane, complete and in order; and the supervisor's answer contains only its own text.
        #[test]
        fn lanes_stay_apart(
            words in prop::collection::vec(prop::collection::vec("[a-z]{1,6}", 1..6), 2..6),
            size in 1_usize..200,
            turns in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let mut parent = Source::root();
            let mut agents = Vec::new();
            for (key, words) in words.iter().enumerate() {
                let (source, tap) = lane_tap(&parent, key);
                // Agents 0 and 1 are called by the supervisor, 2 by 1, 3 by 2, …
                parent = if key == 0 { Source::root() } else { source };
                agents.push((tap, spoken(words, size)));
            }
            let mut context = StreamContext::new(RunInfo::new("t", "r"));
            let mut tell = |tap: &mut Tap| {
                while let Some(event) = tap.poll_event() {
                    context.handle_event(event).unwrap();
                }
            };
            // The innermost agent ends first, as callers wait for the agents they call.
            let mut speak = |index: usize| {
                let (tap, pieces) = &mut agents[index];
                match pieces.pop_front() {
                    Some(piece) => tap.handle_chunk(piece),
                    None => tap.handle_end(),
                }
                tell(tap);
            };
            let left: Vec<usize> = words.iter().map(|words| spoken(words, size).len() - 1).collect();
            let mut said = vec![0; left.len()];
            for turn in turns {
                let index = turn.index(left.len());
                if said[index] < left[index] {
                    said[index] += 1;
                    speak(index);
                }
            }
            for index in (0..left.len()).rev() {
                for _ in said[index]..left[index] + 2 {
                    speak(index);
                }
            }
            context.handle_update(Update::text("the answer")).unwrap();
            context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).unwrap();
            let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
            prop_assert!(InvariantChecker::check_all(&events).is_ok());
            let mut heard: BTreeMap<String, String> = BTreeMap::new();
            for event in &events {
                if let BlockEvent::BlockDelta { block, delta } = event {
                    heard.entry(block.lane.source.name().to_owned()).or_default().push_str(delta);
                }
            }
            let mut expected: BTreeMap<String, String> = words
                .iter()
                .enumerate()
                .map(|(key, words)| (format!("agent {key}"), words.concat()))
                .collect();
            expected.insert(String::new(), "the answer".to_owned());
            prop_assert_eq!(heard, expected);
        }
    }
}

//! A machine that goes on from events alone does what the first one would have done.

use proptest::prelude::*;

use super::{result, text, thinking, tool};
use crate::RunInfo;
use crate::block::{ContentBlock, Thinking};
use crate::event::BlockEvent;
use crate::run::RunOutcome;
use crate::source::Source;
use crate::stream::{Limits, StreamContext};
use crate::testing::{InvariantChecker, arb_ending, arb_source_events, scenarios};
use crate::update::{SourceEvent, Update};

fn info() -> RunInfo {
    RunInfo::new("thread", "run")
}

fn drain(context: &mut StreamContext) -> Vec<BlockEvent> {
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn tell(context: &mut StreamContext, events: &[SourceEvent]) {
    for event in events {
        context.handle_event(event.clone()).ok();
    }
}

/// What left before the cut; what follows from the machine itself; what follows from one that read the events.
fn cut(
    source: &[SourceEvent],
    at: usize,
    keeps_ids: bool,
) -> (Vec<BlockEvent>, Vec<BlockEvent>, Vec<BlockEvent>) {
    let (before, after) = source.split_at(at);
    let mut first = StreamContext::new(info());
    let mut second = StreamContext::resuming(info(), Limits::default());
    if keeps_ids {
        (first, second) = (first.with_kept_ids([]), second.with_kept_ids([]));
    }
    tell(&mut first, before);
    let past = drain(&mut first);
    for event in &past {
        second.handle_past(event);
    }
    assert!(second.poll_event().is_none(), "nothing leaves twice");
    let mut rests = [&mut first, &mut second].map(|context| {
        tell(context, after);
        context.handle_eof();
        drain(context)
    });
    (past, std::mem::take(&mut rests[0]), std::mem::take(&mut rests[1]))
}

#[test]
fn a_run_of_which_no_event_left_begins() {
    let mut context = StreamContext::resuming(info(), Limits::default());
    context.handle_eof();
    InvariantChecker::check_all(&drain(&mut context)).unwrap();
}

#[test]
fn every_scenario_goes_on_as_if_nothing_had_been() {
    for (name, source) in scenarios() {
        for at in 0..=source.len() {
            for keeps_ids in [false, true] {
                let (_, whole, resumed) = cut(&source, at, keeps_ids);
                assert_eq!(resumed, whole, "{name}, cut after {at}, ids kept: {keeps_ids}");
            }
        }
    }
}

/// Sources whose later updates depend on what the first machine emitted: repeats, corrections, and messages of several blocks.
fn repeats() -> Vec<Vec<Update>> {
    let seal = || {
        let thought = Thinking { text: "".into(), encrypted: Some(Box::new("s".into())) };
        Update::new(ContentBlock::Thinking(thought)).in_message("m")
    };
    let corrected = || tool("c", "look", "{\"b\":2}").last().replace();
    vec![
        vec![thinking("m", "a"), seal(), seal()],
        vec![text("m", "a").last(), tool("c", "look", "").in_message("m").last(), text("m", "b").last()],
        vec![
            tool("c", "look", "{}").last(),
            result("c", "half"),
            result("c", "whole"),
            tool("c", "look", "{}").snapshot().last(),
            result("c", "whole"),
        ],
        vec![tool("c", "look", "{\"a\":1}").last(), result("c", "r"), corrected(), corrected()],
    ]
}

#[test]
fn repeats_and_corrections_go_on_as_if_nothing_had_been() {
    for (n, source) in repeats().into_iter().enumerate() {
        let source: Vec<SourceEvent> = source.into_iter().map(SourceEvent::Update).collect();
        for at in 0..=source.len() {
            for keeps_ids in [false, true] {
                let (_, whole, resumed) = cut(&source, at, keeps_ids);
                assert_eq!(resumed, whole, "source {n}, cut after {at}, ids kept: {keeps_ids}");
            }
        }
    }
}

/// An append may be cut between any two events: a correction of a call that has ended is two or three of them.
#[test]
fn a_correction_that_was_cut_is_ended() {
    let corrected = || tool("c", "look", "{\"b\":2}").last().replace();
    let calls = [
        vec![tool("c", "look", "{\"a\":1}"), tool("c", "look", "{\"b\":2}").replace()],
        vec![tool("c", "look", "{\"a\":1}").last(), corrected()],
        vec![tool("c", "look", "{\"a\":1}").last(), result("c", "r"), corrected()],
    ];
    let nexts = [vec![], vec![corrected()], vec![result("c", "other")], vec![tool("d", "look", "{}")]];
    for (calls, next) in calls.iter().flat_map(|calls| nexts.iter().map(move |next| (calls, next))) {
        let mut first = StreamContext::new(info());
        tell(&mut first, &calls.iter().cloned().map(SourceEvent::Update).collect::<Vec<_>>());
        let emitted = drain(&mut first);
        for at in 0..=emitted.len() {
            let mut second = StreamContext::resuming(info(), Limits::default());
            let mut whole = emitted[..at].to_vec();
            for event in &whole {
                second.handle_past(event);
            }
            tell(&mut second, &next.iter().cloned().map(SourceEvent::Update).collect::<Vec<_>>());
            second.handle_eof();
            whole.extend(drain(&mut second));
            if let Err(violation) = InvariantChecker::check_all(&whole) {
                panic!("cut after {at}: {violation:?}\n{whole:#?}");
            }
        }
    }
}

#[test]
fn a_text_without_id_belongs_to_the_message_that_it_continues_after_a_restart() {
    let source: Vec<SourceEvent> = [
        text("m1", "one").last(),
        text("m2", "two").last(),
        Update::text("two more").snapshot(),
        text("m2", "two more still").snapshot(),
    ]
    .map(SourceEvent::Update)
    .into();
    for at in 0..=source.len() {
        let (_, whole, resumed) = cut(&source, at, false);
        assert_eq!(resumed, whole, "cut after {at}");
    }
}

/// The block after a replaced one may belong to another call, if the machine between two others started it.
#[test]
fn the_next_call_is_not_taken_for_one_that_was_replaced() {
    let mut first = StreamContext::new(info());
    let replaced = [tool("c", "look", "{\"a\":1}"), tool("c", "look", "{\"b\":2}").replace()];
    tell(&mut first, &replaced.map(SourceEvent::Update));
    let mut past = drain(&mut first);
    let is_replaced = |event: &BlockEvent| matches!(event, BlockEvent::BlockEnded { .. });
    past.truncate(past.iter().position(is_replaced).unwrap() + 1);
    let mut machines = [(); 2].map(|()| StreamContext::resuming(info(), Limits::default()));
    let [second, third] = &mut machines;
    for event in &past {
        second.handle_past(event);
        third.handle_past(event);
    }
    tell(second, &[SourceEvent::Update(tool("d", "find", "{}"))]);
    for event in drain(second) {
        third.handle_past(&event);
    }
    let rests = machines.map(|mut machine| {
        tell(&mut machine, &[result("d", "found"), result("c", "seen")].map(SourceEvent::Update));
        machine.handle_eof();
        drain(&mut machine)
    });
    assert_eq!(rests[0], rests[1]);
}

/// A machine that reads how another one replaced a call, or continued it after a takeover in between, has the same open and
/// pending calls in the same order.
#[test]
fn a_replaced_call_keeps_its_place() {
    let corrected = || SourceEvent::Update(tool("c", "look", "{\"b\":2}").replace());
    let calls = [tool("c", "look", "{\"a\":1}"), tool("d", "find", "{")].map(SourceEvent::Update);
    for is_cut in [false, true] {
        let mut first = StreamContext::new(info());
        tell(&mut first, &calls);
        tell(&mut first, &[corrected()]);
        let mut past = drain(&mut first);
        if is_cut {
            let is_replaced = |event: &BlockEvent| matches!(event, BlockEvent::BlockEnded { .. });
            past.truncate(past.iter().position(is_replaced).unwrap() + 1);
            first = StreamContext::resuming(info(), Limits::default());
            for event in &past {
                first.handle_past(event);
            }
            tell(&mut first, &[corrected()]);
            past.extend(drain(&mut first));
        }
        let mut second = StreamContext::resuming(info(), Limits::default());
        for event in &past {
            second.handle_past(event);
        }
        let rests = [first, second].map(|mut machine| {
            tell(&mut machine, &[SourceEvent::Finished { outcome: RunOutcome::Success, result: None }]);
            drain(&mut machine)
        });
        assert_eq!(rests[0], rests[1], "cut: {is_cut}");
        assert!(
            matches!(rests[0].last(), Some(BlockEvent::RunFinished(end)) if end.pending_calls.len() == 2)
        );
    }
}

/// A correction of an answered call that was cut before its end is complete: it ends before the next call starts.
#[test]
fn a_correction_that_was_cut_ends_before_the_next_call() {
    let mut first = StreamContext::new(info());
    let corrected = tool("c", "look", "{\"b\":2}").last().replace();
    let calls = [tool("c", "look", "{\"a\":1}").last(), result("c", "r"), corrected];
    tell(&mut first, &calls.map(SourceEvent::Update));
    let past = drain(&mut first);
    let (end, past) = past.split_last().unwrap();
    let mut second = StreamContext::resuming(info(), Limits::default());
    for event in past {
        second.handle_past(event);
    }
    tell(&mut second, &[SourceEvent::Update(tool("d", "find", "{}"))]);
    assert_eq!(drain(&mut second).first(), Some(end));
}

#[test]
fn calls_that_ended_in_the_past_take_no_room() {
    let limits = Limits { open_blocks: 1, ..Limits::default() };
    let mut first = StreamContext::with_limits(info(), limits.clone());
    first.handle_update(tool("c1", "look", "").last()).unwrap();
    let mut second = StreamContext::resuming(info(), limits);
    for event in drain(&mut first) {
        second.handle_past(&event);
    }
    second.handle_update(tool("c2", "look", "")).unwrap();
    assert!(second.handle_update(tool("c3", "look", "")).is_err(), "an open one does");
}

#[test]
fn a_run_goes_on_under_the_id_that_it_was_shown_under() {
    let mut first = StreamContext::new(info()).with_shown_id("shown".into());
    let mut second = StreamContext::resuming(info(), Limits::default());
    for event in drain(&mut first) {
        second.handle_past(&event);
    }
    second.handle_eof();
    let Some(BlockEvent::RunFailed(end)) = drain(&mut second).pop() else { panic!("no end") };
    assert_eq!(end.run.run_id.as_str(), "shown");
}

#[test]
fn the_innermost_of_two_steps_of_one_name_ends_first_after_a_restart() {
    let source = Source::root;
    let started = || SourceEvent::StepStarted { source: source(), name: "a".into() };
    let ended = || SourceEvent::StepFinished { source: source(), name: "a".into() };
    let (_, whole, resumed) = cut(&[started(), started(), ended(), ended()], 2, false);
    assert_eq!(resumed, whole);
}

#[test]
fn the_id_of_a_minted_interrupt_is_not_used_again() {
    let mut first = StreamContext::new(info());
    first.handle_event(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None }).unwrap();
    let mut second = StreamContext::resuming(info(), Limits::default());
    let mut asked = None;
    // The replica stops before the terminal event is stored.
    for event in drain(&mut first) {
        if let BlockEvent::InterruptRequested(pending) = &event {
            second.handle_past(&event);
            asked = Some(pending.interrupt.id.to_string());
        }
    }
    second.handle_update(Update::text("x")).unwrap();
    let Some(BlockEvent::BlockStarted(head)) = second.poll_event() else { panic!("no block") };
    assert_eq!((asked.as_deref(), head.id.as_str()), (Some("run/2"), "run/3"));
}

#[test]
fn minted_ids_of_the_past_leave_room_for_ids_of_the_source() {
    let mut first = StreamContext::new(info()).with_kept_ids([]);
    let mut second = StreamContext::resuming(info(), Limits::default()).with_kept_ids([]);
    for _ in 0..=1 << 16 {
        first.handle_update(Update::custom("note", serde_json::Value::Null)).unwrap();
    }
    for event in drain(&mut first) {
        second.handle_past(&event);
    }
    second.handle_update(Update::text("x").in_message("m")).unwrap();
    let Some(BlockEvent::BlockStarted(head)) = second.poll_event() else { panic!("no block") };
    assert_eq!(head.id.as_str(), "m");
}

proptest! {
    #[test]
    fn whatever_was_said_before_the_whole_is_balanced(
        mut source in arb_source_events(40),
        end in arb_ending(),
        at in 0_usize..40,
        keeps_ids in any::<bool>(),
    ) {
        source.extend(end);
        let (mut all, _, resumed) = cut(&source, at.min(source.len()), keeps_ids);
        all.extend(resumed);
        if let Err(violation) = InvariantChecker::check_all(&all) {
            panic!("{violation:?}\n{all:#?}");
        }
    }
}

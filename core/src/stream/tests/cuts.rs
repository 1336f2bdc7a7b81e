//! A cut, an error or a cancel at every position of a stream that has every kind of block open somewhere.

use super::*;
use crate::run::{RunFailure, RunInfo};
use crate::source::Source;
use crate::stream::StreamContext;

fn busy_stream() -> Vec<SourceEvent> {
    let sub = Source::root().child("sub");
    let deep = sub.child("deep");
    let updates = [
        thinking("m", "Hm"),
        text("m", "Let me ask"),
        tool("c1", "ask", "{\"q\""),
        tool("c2", "ask", "{"),
        arguments("c1", ":1}"),
        thinking("s", "thinking").from_source(&sub),
        text("s", "working").from_source(&sub),
        tool("c1", "dig", "{}").from_source(&deep),
        text("d", "found").from_source(&deep),
        result("c1", "gold").from_source(&deep),
        arguments("c2", "}").last(),
        result("c1", "one"),
        result("c2", "two"),
        text("m", "Answer"),
    ];
    let mut events: Vec<SourceEvent> = updates.into_iter().map(SourceEvent::Update).collect();
    events.insert(6, SourceEvent::StepStarted { source: sub, name: "search".into() });
    events
}

#[test]
fn a_cut_at_every_position_ends_everything_and_says_so() {
    let events = busy_stream();
    for at in 0..=events.len() {
        let out = run_events(events[..at].to_vec());
        assert!(matches!(out.last(), Some(BlockEvent::RunFailed(_))), "cut at {at}");
    }
}

#[test]
fn an_error_at_every_position_ends_everything_with_that_error() {
    let events = busy_stream();
    for at in 0..=events.len() {
        let mut cut = events[..at].to_vec();
        cut.push(SourceEvent::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "model overloaded")));
        let out = run_events(cut);
        let Some(BlockEvent::RunFailed(end)) = out.last() else { panic!("error at {at}") };
        assert_eq!(&*end.failure.message, "model overloaded");
    }
}

#[test]
fn a_cancel_at_every_position_ends_everything_as_cancelled() {
    let events = busy_stream();
    for at in 0..=events.len() {
        let mut cut = events[..at].to_vec();
        cut.push(SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None });
        let out = run_events(cut);
        let Some(BlockEvent::RunFinished(end)) = out.last() else { panic!("cancel at {at}") };
        assert_eq!(end.outcome, RunOutcome::Cancelled);
    }
}

#[test]
fn a_context_has_ended_before_its_last_event_is_polled_and_is_finished_after() {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    context.handle_update(text("m", "a")).unwrap();
    assert!(!context.is_ended() && !context.is_finished());
    context.handle_cancel();
    assert!(context.is_ended() && !context.is_finished());
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert!(context.is_finished());
    let Some(BlockEvent::RunFinished(end)) = out.last() else { panic!("{}", trace(&out)) };
    assert_eq!(end.outcome, RunOutcome::Cancelled);
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    while context.poll_event().is_some() {}
    assert!(!context.is_finished(), "all events are polled, but the run has not ended");
}

//! Every limit: the error it gives, and that the machine is whole afterwards.

use super::*;
use crate::error::{Error, Fault};
use crate::id::ToolCallId;
use crate::run::{Interrupt, RunInfo};
use crate::source::Source;
use crate::stream::{Limits, StreamContext};

/// Feeds events until one is refused, checks the refusal, and ends the run.
#[track_caller]
fn refused(limits: Limits, limit: &str, events: impl IntoIterator<Item = SourceEvent>) {
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    let error = events.into_iter().find_map(|event| context.handle_event(event).err());
    let error = error.expect("no event was refused");
    assert!(matches!(&error, Error::LimitExceeded { limit: l, .. } if *l == limit), "{error}");
    assert!(error.to_string().contains(limit) && error.can_continue());
    assert_eq!(error.fault(), Fault::Peer);
    context.handle_failure((&error).into());
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    InvariantChecker::check_all(&out).unwrap();
    assert!(trace(&out).contains("run failed limit_exceeded"), "{}", trace(&out));
}

#[test]
fn open_lanes() {
    let lane = |n: usize| SourceEvent::LaneOpened(Source::root().child(n.to_string()));
    refused(Limits { open_lanes: 3, ..Limits::default() }, "open_lanes", (0..4).map(lane));
}

#[test]
fn lane_depth() {
    let deep = (0..4).fold(Source::root(), |source, n| source.child(n.to_string()));
    let limits = Limits { lane_depth: 3, ..Limits::default() };
    refused(limits, "lane_depth", [SourceEvent::LaneOpened(deep)]);
}

#[test]
fn lane_depth_of_levels_that_open_in_turn() {
    let levels = std::iter::successors(Some(Source::root().child("0")), |source| Some(source.child("x")));
    let limits = Limits { lane_depth: 3, ..Limits::default() };
    refused(limits, "lane_depth", levels.take(4).map(SourceEvent::LaneOpened));
}

#[test]
fn open_lanes_counts_the_ancestors_that_open_with_a_lane() {
    let deep = (0..4).fold(Source::root(), |source, n| source.child(n.to_string()));
    let limits = Limits { open_lanes: 3, ..Limits::default() };
    refused(limits, "open_lanes", [SourceEvent::LaneOpened(deep.clone())]);
    let limits = Limits { open_lanes: 4, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    context.handle_event(SourceEvent::LaneOpened(deep)).unwrap();
}

/// A replica whose limits are lower goes on with the lanes that are open.
#[test]
fn an_open_lane_is_not_checked_again() {
    let deep = Source::root().child("a").child("b");
    let mut first = StreamContext::new(RunInfo::new("t", "r"));
    first.handle_event(SourceEvent::LaneOpened(deep.clone())).unwrap();
    let limits = Limits { open_lanes: 1, lane_depth: 1, ..Limits::default() };
    let mut context = StreamContext::resuming(RunInfo::new("t", "r"), limits);
    std::iter::from_fn(|| first.poll_event()).for_each(|event| context.handle_past(&event));
    context.handle_update(tool("c", "t", "").from_source(&deep)).unwrap();
    assert!(context.handle_event(SourceEvent::LaneOpened(Source::root().child("c"))).is_err());
}

#[test]
fn open_blocks_by_tracks_and_by_calls() {
    let limits = Limits { open_blocks: 3, ..Limits::default() };
    let track = |n: usize| text("m", "x").on_track(n.to_string()).into();
    refused(limits.clone(), "open_blocks", (0..4).map(track));
    let call = |n: usize| tool(&n.to_string(), "t", "").into();
    refused(limits, "open_blocks", (0..4).map(call));
}

#[test]
fn open_blocks_counts_calls_that_wait_for_their_name_and_loses_none() {
    let waiting = |n: usize| arguments(&n.to_string(), "{}").into();
    refused(Limits { open_blocks: 3, ..Limits::default() }, "open_blocks", (0..4).map(waiting));
    let few = Limits { remembered_blocks: 1, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), few);
    for n in 0..3 {
        context.handle_event(waiting(n)).unwrap();
    }
    context.handle_event(finished()).unwrap();
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(call_ids(&out), ["0", "1", "2"], "what is held back is never forgotten");
}

#[test]
fn open_blocks_does_not_count_what_has_ended() {
    let mut context =
        StreamContext::with_limits(RunInfo::new("t", "r"), Limits { open_blocks: 1, ..Limits::default() });
    for n in 0..100 {
        let id = n.to_string();
        context.handle_update(text(&id, "x")).unwrap();
        context.handle_update(tool(&id, "t", "").last()).unwrap();
    }
}

#[test]
fn open_steps() {
    let step = |n: usize| SourceEvent::StepStarted { source: Source::root(), name: n.to_string().into() };
    refused(Limits { open_steps: 3, ..Limits::default() }, "open_steps", (0..4).map(step));
}

#[test]
fn bytes_per_block_of_ids_and_of_arguments_without_name() {
    let limits = Limits { bytes_per_block: 8, ..Limits::default() };
    refused(limits.clone(), "bytes_per_block", [text("an id too long", "x").into()]);
    refused(limits.clone(), "bytes_per_block", [tool("an id too long", "t", "").into()]);
    refused(limits, "bytes_per_block", [arguments("c", "12345").into(), arguments("c", "6789").into()]);
}

#[test]
fn interrupts() {
    let ask = |n: usize| SourceEvent::InterruptRequested {
        source: Source::root(),
        interrupt: Box::new(Interrupt::new(n.to_string(), "input_required")),
    };
    refused(Limits { interrupts: 3, ..Limits::default() }, "interrupts", (0..4).map(ask));
}

#[test]
fn usage_accounts() {
    let spent = |n: usize| SourceEvent::Usage {
        source: Source::root(),
        usage: Box::new(crate::run::Usage { model: Some(n.to_string().into()), ..Default::default() }),
    };
    refused(Limits { usage_accounts: 3, ..Limits::default() }, "usage_accounts", (0..4).map(spent));
}

#[test]
fn remembered_blocks_are_forgotten_oldest_first() {
    let limits = Limits { remembered_blocks: 2, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    for id in ["1", "2", "3"] {
        context.handle_update(text(id, "x").last()).unwrap();
    }
    context.handle_update(text("3", "x").snapshot().last()).unwrap();
    context.handle_update(text("1", "x").snapshot().last()).unwrap();
    context.handle_event(finished()).unwrap();
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(codes(&out).matches("T+").count(), 4, "{}", trace(&out));
}

#[test]
fn arguments_without_a_name_are_held_up_to_the_limit() {
    let limits = Limits { bytes_per_block: 10, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    for fragment in ["12345", "67890"] {
        context.handle_update(arguments("c", fragment)).unwrap();
    }
    assert!(context.handle_update(arguments("c", "1")).is_err());
    context
        .handle_update(arguments("c", "1234567890").snapshot())
        .expect("it takes the place of what is held");
    context.handle_update(arguments("c", "").snapshot()).unwrap();
    context.handle_update(tool("c", "look", "")).unwrap();
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(deltas(&out, SpanKind::ToolUse), ["1234567890"], "an empty one takes no place");
}

/// A whole call is emitted at once: its arguments are not held, however long they are.
#[test]
fn arguments_that_arrive_with_the_name_are_not_limited() {
    let limits = Limits { bytes_per_block: 10, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    context.handle_update(tool("c", "look", "12345678901")).unwrap();
    context.handle_update(arguments("d", "12345")).unwrap();
    context.handle_update(tool("d", "look", "678901")).unwrap();
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(deltas(&out, SpanKind::ToolUse), ["12345678901", "12345678901"]);
}

#[test]
fn a_name_has_64_kib_at_most_by_default() {
    let step =
        |length: usize| SourceEvent::StepStarted { source: Source::root(), name: "x".repeat(length).into() };
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    context.handle_event(step(64 * 1024)).unwrap();
    assert!(context.handle_event(step(64 * 1024 + 1)).is_err());
}

#[test]
fn a_block_that_takes_the_place_of_another_needs_no_room() {
    let limits = Limits { open_blocks: 1, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    for update in [text("m1", "a"), text("m2", "b"), text("m2", "c")] {
        context.handle_update(update).unwrap();
    }
    assert!(context.handle_update(text("m3", "d").on_track("other")).is_err());
}

#[test]
fn open_calls_leave_less_room_for_texts() {
    let limits = Limits { open_blocks: 2, ..Limits::default() };
    let calls = [tool("1", "t", "").into(), tool("2", "t", "").into()];
    refused(limits, "open_blocks", calls.into_iter().chain([text("m", "x").into()]));
}

#[test]
fn a_call_with_a_result_leaves_room_for_the_next() {
    let limits = Limits { open_blocks: 1, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    for id in ["1", "2", "3"] {
        context.handle_update(tool(id, "t", "")).unwrap();
        context.handle_update(result(id, "r")).unwrap();
    }
}

#[test]
fn bytes_per_block_is_the_sum_of_id_and_name() {
    let limits = Limits { bytes_per_block: 8, ..Limits::default() };
    let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits);
    context.handle_update(tool("1234", "5678", "")).unwrap();
    context.handle_update(text("1234", "x").on_track("5678")).unwrap();
    assert!(context.handle_update(tool("12345", "5678", "")).is_err());
    assert!(context.handle_update(text("12345", "x").on_track("5678")).is_err());
}

/// A call that is forgotten is no longer pending, and a late result of it counts as one of an unknown call.
#[test]
fn remembered_blocks_bounds_the_ended_calls_without_result() {
    let limits = Limits { remembered_blocks: 2, ..Limits::default() };
    for (ids, pending) in [(["1", "2"].as_slice(), ["1", "2"]), (&["1", "2", "3"], ["2", "3"])] {
        let mut context = StreamContext::with_limits(RunInfo::new("t", "r"), limits.clone());
        for id in ids {
            context.handle_update(tool(id, "t", "").last()).unwrap();
        }
        context.handle_event(finished()).unwrap();
        let Some(BlockEvent::RunFinished(end)) = std::iter::from_fn(|| context.poll_event()).last() else {
            panic!("no end")
        };
        assert_eq!(end.pending_calls.iter().map(ToolCallId::as_str).collect::<Vec<_>>(), pending);
    }
}

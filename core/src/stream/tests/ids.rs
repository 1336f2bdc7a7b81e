//! Ids of the source that are emitted as they are, and the messages that calls are attached to.

use serde_json::{Value, json};

use super::{finished, result, text, thinking, tool};
use crate::event::{BlockEvent, SpanKind};
use crate::id::ToolCallId;
use crate::run::{Interrupt, LaneOutcome};
use crate::source::Source;
use crate::stream::{Limits, StreamContext};
use crate::testing::InvariantChecker;
use crate::update::{SourceEvent, Update};
use crate::{RunInfo, wellknown};

fn keeping(known: &[&str]) -> StreamContext {
    StreamContext::new(RunInfo::new("thread", "run")).with_kept_ids(known.iter().copied())
}

fn events(mut context: StreamContext, updates: Vec<Update>) -> Vec<BlockEvent> {
    for update in updates {
        context.handle_update(update).unwrap();
    }
    context.handle_event(finished()).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    InvariantChecker::check_all(&events).unwrap();
    events
}

/// Kind, outgoing id and parent of what has an id of its own.
fn ids(events: &[BlockEvent]) -> Vec<String> {
    let line = |event: &BlockEvent| match event {
        BlockEvent::BlockStarted(head) => {
            let kind = match head.kind {
                SpanKind::Text => "text",
                SpanKind::Thinking => "thinking",
                SpanKind::ToolUse => "call",
            };
            let parent = head.parent.as_ref().map_or(String::new(), |parent| format!(" of {parent}"));
            Some(format!("{kind} {}{parent}", head.id))
        }
        BlockEvent::ToolResult(result) => Some(format!("result {} of {}", result.id, result.call_id)),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

fn conversation() -> Vec<Update> {
    vec![
        thinking("think", "Hm.").last(),
        text("m1", "Let me look.").last(),
        tool("c1", "look", "{}").in_message("m1").last(),
        result("c1", "21").in_message("t1"),
        text("m2", "It is 21.").last(),
    ]
}

#[test]
fn unique_ids_are_emitted_as_the_source_spells_them() {
    let kept = ids(&events(keeping(&[]), conversation()));
    assert_eq!(kept, ["thinking think", "text m1", "call c1 of m1", "result t1 of c1", "text m2"]);
    let minted = ids(&events(StreamContext::new(RunInfo::new("thread", "run")), conversation()));
    assert_eq!(
        minted,
        ["thinking run/2", "text run/3", "call c1 of run/3", "result run/4 of c1", "text run/5"]
    );
}

#[test]
fn an_id_that_the_thread_has_is_derived_and_its_origin_stays() {
    let events = events(keeping(&["m1", "t1"]), conversation());
    assert_eq!(
        ids(&events),
        ["thinking think", "text run/2", "call c1 of run/2", "result run/3 of c1", "text m2"]
    );
    let head =
        events.iter().find_map(|event| event.block().filter(|head| head.id.as_str() == "run/2")).unwrap();
    assert_eq!(head.origin.message_id.as_ref().unwrap().as_str(), "m1");
}

#[test]
fn two_things_under_one_id_get_two_ids() {
    let updates = vec![thinking("m", "Hm.").last(), text("m", "Yes.").last(), text("m", "Again.").last()];
    assert_eq!(ids(&events(keeping(&[]), updates)), ["thinking m", "text run/2", "text run/3"]);
    let long = "x".repeat(1000);
    assert_eq!(ids(&events(keeping(&[]), vec![text(&long, "Yes.").last()])), ["text run/2"]);
    assert_eq!(ids(&events(keeping(&[]), vec![text("run/2", "Yes.").last()])), ["text run/2"]);
}

/// Two calls of one message without text are one message of a frontend.
fn parallel() -> Vec<Update> {
    vec![
        tool("c1", "look", "{}").in_message("m"),
        tool("c2", "look", "{}").in_message("m"),
        result("c1", "1"),
        result("c2", "2"),
    ]
}

#[test]
fn parallel_calls_of_a_message_without_text_share_their_parent() {
    let kept = ids(&events(keeping(&[]), parallel()));
    assert_eq!(kept[..2], ["call c1 of m", "call c2 of m"]);
    // Without its own id the message has that of its first call, as frontends call it then.
    let taken = ids(&events(keeping(&["m"]), parallel()));
    assert_eq!(taken[..2], ["call c1", "call c2 of c1"]);
}

#[test]
fn parallel_calls_have_no_parent_where_message_ids_are_not_kept() {
    let minted = ids(&events(StreamContext::new(RunInfo::new("thread", "run")), parallel()));
    assert_eq!(minted[..2], ["call c1", "call c2"]);
}

#[test]
fn a_text_that_follows_its_calls_takes_the_reserved_id() {
    let mut updates = parallel();
    updates.insert(2, text("m", "Done.").last());
    assert_eq!(ids(&events(keeping(&[]), updates))[2], "text m");
    // One that follows an answer is another message, which later calls belong to.
    let mut updates = parallel();
    updates.extend([text("m", "Done.").last(), tool("c3", "look", "{}").in_message("m")]);
    let ids = ids(&events(keeping(&[]), updates));
    assert_eq!(ids[ids.len() - 2..], ["text run/4", "call c3 of run/4"]);
}

#[test]
fn a_message_that_shares_the_id_of_its_call_needs_no_parent() {
    let own = vec![tool("c1", "look", "{}").in_message("c1").last(), text("m", "Done.").last()];
    assert_eq!(ids(&events(keeping(&[]), own)), ["call c1", "text m"]);
}

#[test]
fn a_machine_that_goes_on_gives_the_same_ids() {
    let mut source: Vec<SourceEvent> = conversation().into_iter().map(Into::into).collect();
    source.extend(parallel().into_iter().map(SourceEvent::from));
    source.extend([text("m", "Done.").last().into(), text("m1", "More.").last().into()]);
    for at in 0..=source.len() {
        let (before, after) = source.split_at(at);
        let mut first = keeping(&["old"]);
        for event in before {
            first.handle_event(event.clone()).unwrap();
        }
        let mut second =
            StreamContext::resuming(RunInfo::new("thread", "run"), Limits::default()).with_kept_ids(["old"]);
        for event in std::iter::from_fn(|| first.poll_event()) {
            second.handle_past(&event);
        }
        let [whole, resumed] = [first, second].map(|mut context| {
            for event in after {
                context.handle_event(event.clone()).unwrap();
            }
            context.handle_eof();
            std::iter::from_fn(|| context.poll_event()).collect::<Vec<_>>()
        });
        assert_eq!(resumed, whole, "cut after {at}");
    }
}

#[test]
fn right_arguments_that_come_late_take_the_place_of_the_first_ones() {
    let right = || {
        let mut update = tool("c1", "look", r#"{"city":"Rome"}"#).last();
        update.mode = crate::update::Mode::Replace;
        update
    };
    for answered in [false, true] {
        let mut source = vec![tool("c1", "look", r#"{"ci"#).last()];
        source.extend(answered.then(|| result("c1", "21")));
        source.extend([right(), right()]);
        let events = events(keeping(&[]), source);
        let corrected: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                BlockEvent::BlockStarted(head) => {
                    head.replaces.as_ref().map(|id| (head.id.to_string(), id.to_string()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(corrected.len(), 1, "one correction, answered: {answered}");
        assert_eq!(corrected[0].1, "c1");
        let BlockEvent::RunFinished(end) = events.last().unwrap() else { panic!() };
        let pending: Vec<_> = end.pending_calls.iter().map(ToString::to_string).collect();
        assert_eq!(pending, if answered { vec![] } else { vec![corrected[0].0.clone()] });
    }
}

fn sealed(id: &str) -> Update {
    Update::custom(wellknown::SEALED, json!({ "subtype": "message", "id": id, "value": "x" }))
}

/// Returns lane, name and value of custom content.
fn customs(events: &[BlockEvent]) -> Vec<(String, String, Value)> {
    let custom = |event: &BlockEvent| match event {
        BlockEvent::Custom(custom) => {
            Some((custom.lane.source.path().to_owned(), custom.name.to_string(), custom.value.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(custom).collect()
}

#[test]
fn an_encrypted_form_has_the_emitted_id_and_the_lane_of_its_message() {
    let sub = Source::root().child("sub");
    let of = |id: &str| json!({ "subtype": "message", "id": id, "value": "x" });
    let root = |name: &str, value: Value| (Source::root().path().to_owned(), name.to_owned(), value);
    let updates = vec![text("m1", "a"), sealed("m1"), sealed("m1").from_source(&sub), sealed("m9")];
    let events = events(StreamContext::new(RunInfo::new("thread", "run")), updates);
    assert_eq!(
        customs(&events),
        [
            root(wellknown::SEALED, of("run/2")),
            root(wellknown::SEALED, of("run/2")),
            root(wellknown::RAW, json!({ "event": of("m9") })),
        ]
    );
}

#[test]
fn an_encrypted_form_of_a_call_or_a_result_has_its_emitted_id() {
    let known: ToolCallId = "c1".into();
    let context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls([&known]);
    let updates = vec![
        tool("c1", "look", "{}"),
        sealed("c1"),
        result("c1", "1").in_message("t1"),
        sealed("c1"),
        sealed("t1"),
    ];
    let events = events(context, updates);
    let values: Vec<Value> = customs(&events).into_iter().map(|(_, _, value)| value).collect();
    assert_eq!(
        values.iter().map(|value| value["id"].as_str()).collect::<Vec<_>>(),
        [Some("run/2"), Some("run/2"), Some("run/4")]
    );
    assert!(ids(&events).contains(&"result run/4 of run/2".to_owned()), "{:?}", ids(&events));
}

#[test]
fn an_encrypted_form_of_an_earlier_life_of_a_lane_has_no_emitted_id() {
    let sub = Source::root().child("sub");
    let of = |update: Update| SourceEvent::Update(update.from_source(&sub));
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for event in [
        of(tool("c1", "look", "{}").last()),
        of(result("c1", "1").in_message("t1")),
        SourceEvent::LaneClosed { source: sub.clone(), outcome: LaneOutcome::Success(None) },
        of(text("m", "again")),
        of(sealed("c1")),
        of(sealed("t1")),
        finished(),
    ] {
        context.handle_event(event).unwrap();
    }
    let events: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    let names: Vec<String> = customs(&events).into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, [wellknown::RAW, wellknown::RAW]);
}

#[test]
fn an_interrupt_names_its_call_by_the_emitted_id() {
    let asked = |source: &Source| {
        let mut interrupt = Interrupt::new("i1", "tool_call");
        interrupt.tool_call_id = Some("c1".into());
        SourceEvent::InterruptRequested { source: source.clone(), interrupt: Box::new(interrupt) }
    };
    for source in [Source::root(), Source::root().child("sub")] {
        // The thread has a call of that id already, so this one gets another.
        let known: ToolCallId = "c1".into();
        let mut context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls([&known]);
        context.handle_update(tool("c1", "look", "{}")).unwrap();
        context.handle_event(asked(&source)).unwrap();
        let call = std::iter::from_fn(|| context.poll_event()).find_map(|event| match event {
            BlockEvent::InterruptRequested(pending) => pending.interrupt.tool_call_id,
            _ => None,
        });
        assert_eq!(call, Some("run/2".into()));
    }
}

#[test]
fn a_call_that_is_replaced_stays_in_its_message() {
    let updates = vec![
        text("m1", "Let me look."),
        tool("c1", "look", "{\"a\":1}").in_message("m1"),
        tool("c1", "look", "{\"b\":2}").in_message("m1").replace(),
    ];
    assert_eq!(ids(&events(keeping(&[]), updates)), ["text m1", "call c1 of m1", "call run/2 of m1"]);
}

#[test]
fn an_id_of_256_bytes_is_kept_and_a_longer_one_is_not() {
    let (fits, longer) = ("x".repeat(256), "y".repeat(257));
    let updates = vec![text(&fits, "a").last(), text(&longer, "b").last()];
    assert_eq!(ids(&events(keeping(&[]), updates)), [format!("text {fits}"), "text run/2".to_owned()]);
}

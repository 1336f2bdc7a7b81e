//! The 37 + 10 scenarios of the adapter this design started from, at the canonical level, numbered as in its test
//! list; corrected where that adapter lost content, shared ids, split calls or reported an error as success.

use super::*;
use crate::block::ToolOutput;
use crate::convert::ConverterSet;
use crate::event::EventKind;
use crate::run::{RunFailure, RunInfo};
use crate::stream::{StreamContext, UNKNOWN_TOOL};
use crate::update::Role;

#[test]
fn s01_an_empty_stream_starts_and_finishes() {
    assert_eq!(codes(&run([])), "RS RF");
}

#[test]
fn s02_text_that_is_not_ended_is_ended() {
    assert_eq!(codes(&run([text("m", "Hello")])), "RS T+ T T- RF");
}

#[test]
fn s03_chunks_of_one_message_share_one_block() {
    assert_eq!(codes(&run([text("m", "Hel"), text("m", "lo")])), "RS T+ T T T- RF");
}

#[test]
fn s04_a_last_packet_that_repeats_the_text_adds_nothing() {
    let out = run([text("m", "Summary"), text("m", "Summary").snapshot().last()]);
    assert_eq!((codes(&out).as_str(), said(&out).as_str()), ("RS T+ T T- RF", "Summary"));
}

#[test]
fn s05_an_aggregate_after_streaming_adds_nothing() {
    let out = run([text("m", "Sum"), text("m", "mary"), text("m", "Summary").snapshot().last()]);
    assert_eq!((codes(&out).as_str(), said(&out).as_str()), ("RS T+ T T T- RF", "Summary"));
}

#[test]
fn s06_a_tool_call_that_is_not_ended_is_ended() {
    assert_eq!(codes(&run([tool("c", "add", "{}")])), "RS C+ Ca C- RF");
}

#[test]
fn s07_a_result_follows_the_end_of_its_call() {
    let out = run([tool("c", "add", "").last(), result("c", "4")]);
    assert_eq!(codes(&out), "RS C+ C- Cr RF");
}

#[test]
fn s08_an_error_is_a_failure_not_a_success() {
    let out = run_events(vec![SourceEvent::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "kaput"))]);
    assert_eq!(codes(&out), "RS RE");
}

#[test]
fn s09_empty_updates_make_no_noise() {
    assert_eq!(codes(&run([text("m", ""), thinking("m", "")])), "RS RF");
}

#[test]
fn s10_a_user_can_leave_arguments_out_by_a_converter() {
    let set = ConverterSet::uniform(|event: &BlockEvent, out: &mut Vec<String>| {
        out.push(codes(std::slice::from_ref(event)));
    })
    .with(EventKind::ToolUse, |event: &BlockEvent, out: &mut Vec<String>| {
        if !matches!(event, BlockEvent::BlockDelta { .. }) {
            out.push(codes(std::slice::from_ref(event)));
        }
    });
    let mut shown = Vec::new();
    for event in run([tool("c", "add", "{}")]) {
        set.convert(&event, &mut shown);
    }
    assert_eq!(shown.join(" "), "RS C+ C- RF");
}

#[test]
fn s11_text_and_tool_of_one_message() {
    let out = run([text("m", "Let me see"), tool("c", "look", "").in_message("m")]);
    assert_eq!(codes(&out), "RS T+ T T- C+ C- RF");
}

#[test]
fn s12_a_call_is_started_once() {
    let out = run([tool("c", "add", "{}"), tool("c", "add", "{}").snapshot().last()]);
    assert_eq!(codes(&out), "RS C+ Ca C- RF");
}

#[test]
fn s13_a_stream_is_complete() {
    assert_eq!(codes(&run([text("m", "x")])), "RS T+ T T- RF");
}

#[test]
fn s14_s16_a_call_without_id_gets_one() {
    for id in [None, Some("")] {
        let mut call = nameless(Some("add"), "{}");
        if let ContentBlock::ToolUse(tool) = &mut call.block {
            tool.id = id.map(Into::into);
        }
        let out = run([call]);
        assert_eq!(codes(&out), "RS C+ Ca C- RF");
        assert_eq!(call_ids(&out), ["run/2"]);
    }
}

#[test]
fn s15_an_aggregate_after_an_interruption_adds_nothing() {
    let out = run([text("m", "Wait"), tool("c", "look", ""), text("m", "Wait").snapshot().last()]);
    assert_eq!(codes(&out), "RS T+ T T- C+ C- RF");
}

#[test]
fn s17_a_last_only_message_is_emitted_whole() {
    for update in [text("m", "Hello world").last(), text("m", "Hello world").snapshot().last()] {
        let out = run([update]);
        assert_eq!((codes(&out).as_str(), said(&out).as_str()), ("RS T+ T T- RF", "Hello world"));
    }
}

#[test]
fn s18_an_orphan_result_of_several_lines_is_filled_in() {
    let out = run([result("c", "Line 1\nLine 2\nLine 3")]);
    assert_eq!(codes(&out), "RS C+ C- Cr RF");
    let BlockEvent::BlockStarted(head) = &out[1] else { panic!("{:?}", out[1]) };
    assert_eq!(&*head.tool_name, UNKNOWN_TOOL);
}

#[test]
fn s19_an_orphan_result_without_output_is_a_result() {
    let out = run([result("c", "")]);
    let BlockEvent::ToolResult(result) = &out[3] else { panic!("{:?}", out[3]) };
    assert!(result.output.is_empty());
}

#[test]
fn s20_s30_s32_a_call_without_arguments_has_none() {
    assert_eq!(codes(&run([tool("c", "now", "")])), "RS C+ C- RF");
}

#[test]
fn s21_thinking_can_be_left_out_by_a_converter() {
    let set = ConverterSet::uniform(|event: &BlockEvent, out: &mut Vec<String>| {
        out.push(codes(std::slice::from_ref(event)));
    })
    .with(EventKind::Thinking, |_: &BlockEvent, _: &mut Vec<String>| {});
    let mut shown = Vec::new();
    for event in run([thinking("m", "Hm"), text("m", "Yes")]) {
        set.convert(&event, &mut shown);
    }
    assert_eq!(shown.join(" "), "RS T+ T T- RF");
}

#[test]
fn s22_s26_s34_thinking_is_shown_under_an_id_of_its_own() {
    let out = run([thinking("m", "Hm"), text("m", "Yes")]);
    assert_eq!(codes(&out), "RS R+ R R- T+ T T- RF");
    let ids: Vec<_> = out
        .iter()
        .filter_map(|event| match event {
            BlockEvent::BlockStarted(head) => Some(head.id.clone()),
            _ => None,
        })
        .collect();
    assert_ne!(ids[0], ids[1], "text and thinking of one message must not share an id");
}

#[test]
fn s23_chunks_of_a_thought_share_one_block() {
    assert_eq!(codes(&run([thinking("m", "H"), thinking("m", "m")])), "RS R+ R R R- RF");
}

#[test]
fn s24_two_runs_of_one_source_share_nothing() {
    let updates = || [text("m", "Hello")];
    assert_eq!(codes(&run(updates())), codes(&run(updates())));
}

#[test]
fn s25_an_orphan_result_that_knows_its_tool_names_it() {
    let mut answer = result("c", "sunny");
    if let ContentBlock::ToolResult(result) = &mut answer.block {
        result.name = Some("weather_lookup".into());
    }
    let out = run([answer]);
    let BlockEvent::BlockStarted(head) = &out[1] else { panic!("{:?}", out[1]) };
    assert_eq!(&*head.tool_name, "weather_lookup");
}

#[test]
fn s27_text_ends_the_thought_before_it() {
    assert_eq!(codes(&run([thinking("m", "Hm"), text("m", "Yes")])), "RS R+ R R- T+ T T- RF");
}

#[test]
fn s28_s35_an_empty_thought_is_none() {
    assert_eq!(codes(&run([thinking("m", ""), thinking("m", "").last()])), "RS RF");
}

#[test]
fn s29_a_last_only_thought_is_emitted_whole() {
    let out = run([thinking("m", "Deep").snapshot().last()]);
    assert_eq!(codes(&out), "RS R+ R R- RF");
    assert_eq!(deltas(&out, SpanKind::Thinking), ["Deep"]);
}

#[test]
fn s31_a_tool_call_ends_the_thought_before_it() {
    assert_eq!(codes(&run([thinking("m", "Hm"), tool("c", "look", "")])), "RS R+ R R- C+ C- RF");
}

#[test]
fn s33_a_thought_ends_with_its_last_packet() {
    let out = run([thinking("m", "Hm"), thinking("m", "Hm, yes").snapshot().last(), text("m", "Yes")]);
    assert_eq!(codes(&out), "RS R+ R R R- T+ T T- RF");
}

#[test]
fn s36_an_aggregate_of_thought_and_text_after_a_tool_adds_nothing() {
    let out = run([
        thinking("m", "Hm"),
        text("m", "Let me look"),
        tool("c", "look", "{}").in_message("m").last(),
        thinking("m", "Hm").snapshot().last(),
        text("m", "Let me look").snapshot().last(),
        tool("c", "look", "{}").snapshot().last(),
    ]);
    assert_eq!(codes(&out), "RS R+ R R- T+ T T- C+ Ca C- RF");
}

#[test]
fn s37_a_users_converter_takes_the_place_of_the_built_in_one() {
    let set = ConverterSet::uniform(|event: &BlockEvent, out: &mut Vec<String>| {
        out.push(codes(std::slice::from_ref(event)));
    })
    .with(EventKind::ToolResult, |_: &BlockEvent, out: &mut Vec<String>| out.push("mine".to_owned()));
    let mut shown = Vec::new();
    for event in run([tool("c", "add", ""), result("c", "4")]) {
        set.convert(&event, &mut shown);
    }
    assert_eq!(shown.join(" "), "RS C+ C- mine RF");
}

// The ten of the context itself.

#[test]
fn c01_a_fresh_context_has_only_started() {
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    assert!(matches!(context.poll_event(), Some(BlockEvent::RunStarted(_))));
    assert_eq!(context.poll_event(), None);
    assert!(!context.is_ended());
}

#[test]
fn c02_events_are_polled_once() {
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    context.handle_update(text("m", "x")).unwrap();
    assert_eq!(std::iter::from_fn(|| context.poll_event()).count(), 3);
    assert_eq!(context.poll_event(), None);
}

#[test]
fn c03_an_end_is_deferred_until_something_ends_it() {
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    context.handle_update(text("m", "x")).unwrap();
    let before: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(codes(&before), "RS T+ T");
    context.handle_update(text("m", "").last()).unwrap();
    let after: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(codes(&after), "T-");
}

#[test]
fn c04_ending_what_is_not_open_is_safe() {
    assert_eq!(
        codes(&run([text("m", "").last(), arguments("c", "").last(), text("m", "").last()])),
        "RS C+ C- RF"
    );
}

#[test]
fn c05_all_that_remains_is_ended_in_the_order_of_opening() {
    let out = run([tool("c1", "a", ""), tool("c2", "b", ""), text("m", "x")]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
tool+ c1 \"a\"
tool+ c2 \"b\"
text+ run/2 message=\"m\"
text  run/2 \"x\"
tool- c1 closed
tool- c2 closed
text- run/2 closed
run finished success unanswered=c1 unanswered=c2
"
    );
}

#[test]
fn c06_a_text_is_open_then_finished() {
    let out = run([text("m", "x").last(), text("m", "x").snapshot().last()]);
    assert_eq!(codes(&out), "RS T+ T T- RF");
}

#[test]
fn c07_ending_twice_ends_once() {
    let out = run([text("m", "x").last(), text("m", "").last()]);
    assert_eq!(codes(&out), "RS T+ T T- RF");
}

#[test]
fn c08_finished_tools_are_not_restarted() {
    let out = run([
        tool("c", "add", "{}").last(),
        result("c", "4"),
        tool("c", "add", "{}").snapshot().last(),
        result("c", "4"),
    ]);
    assert_eq!(codes(&out), "RS C+ Ca C- Cr RF");
}

#[test]
fn c09_texts_of_all_tracks_are_ended() {
    let out = run([text("m1", "a").on_track("x"), text("m2", "b").on_track("y")]);
    assert_eq!(codes(&out), "RS T+ T T+ T T- T- RF");
}

#[test]
fn c10_ending_thoughts_leaves_text_alone() {
    let out = run([text("m", "x"), thinking("m", "").last(), text("m", "y")]);
    assert_eq!(codes(&out), "RS T+ T T T- RF");
}

#[test]
fn roles_and_json_results_pass_through() {
    let mut answer = result("c", "");
    if let ContentBlock::ToolResult(result) = &mut answer.block {
        result.output = ToolOutput::Json(serde_json::json!({"n": 4}));
        result.is_error = true;
    }
    let mut quote = text("m", "as you said");
    quote.role = Role::User;
    let out = run([quote, tool("c", "add", "").last(), answer]);
    assert!(trace(&out).contains("role=User"));
    assert!(trace(&out).contains(r#"result run/3 of c ERROR "{\"n\":4}""#), "{}", trace(&out));
}

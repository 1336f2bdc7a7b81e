//! Each row of the table of rules, by name.

use std::sync::Arc;

use super::*;
use crate::block::{Thinking, ToolOutput};
use crate::event::EndReason;
use crate::id::ToolCallId;
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunInfo, Usage};
use crate::source::Source;
use crate::stream::StreamContext;
use crate::testing::run_context;

// lazy start

#[test]
fn lazy_start_text_opens_at_its_first_content() {
    let out = run([text("m", ""), text("m", ""), text("m", "x")]);
    assert_eq!(codes(&out), "RS T+ T T- RF");
}

#[test]
fn lazy_start_tool_use_opens_when_its_name_is_known() {
    let out = run([arguments("c", "{\"a\""), text("m", "meanwhile"), tool("c", "add", ":1}")]);
    assert_eq!(codes(&out), "RS T+ T T- C+ Ca C- RF");
    assert_eq!(deltas(&out, SpanKind::ToolUse), ["{\"a\":1}"]);
}

#[test]
fn lazy_start_tool_use_whose_name_never_comes_is_told_at_the_end() {
    let out = run([arguments("c", "{}")]);
    assert!(trace(&out).contains("tool+ c \"unknown\""), "{}", trace(&out));
    assert_eq!(codes(&out), "RS C+ Ca C- RF");
}

#[test]
fn lazy_start_lane_opens_with_its_first_content() {
    let sub = Source::root().child("sub");
    let out = run([text("m", "").from_source(&sub), text("m", "x").from_source(&sub)]);
    assert_eq!(codes(&out), "RS L+ T+ T T- L- RF");
}

// who closes whom

#[test]
fn who_closes_whom_text_closes_text_and_thinking() {
    assert_eq!(codes(&run([text("m1", "a"), text("m2", "b")])), "RS T+ T T- T+ T T- RF");
    assert_eq!(codes(&run([thinking("m1", "a"), text("m2", "b")])), "RS R+ R R- T+ T T- RF");
}

#[test]
fn who_closes_whom_thinking_closes_thinking_and_text() {
    assert_eq!(codes(&run([thinking("m1", "a"), thinking("m2", "b")])), "RS R+ R R- R+ R R- RF");
    assert_eq!(codes(&run([text("m1", "a"), thinking("m2", "b")])), "RS T+ T T- R+ R R- RF");
}

#[test]
fn who_closes_whom_tool_use_closes_text_and_thinking_but_no_tool_use() {
    let out = run([text("m", "a"), tool("c1", "x", ""), tool("c2", "y", "")]);
    assert_eq!(codes(&out), "RS T+ T T- C+ C+ C- C- RF");
}

#[test]
fn who_closes_whom_a_result_touches_nothing_but_its_call() {
    let out =
        run([tool("c1", "x", ""), tool("c2", "y", ""), text("m", "a"), result("c1", "1"), text("m", "b")]);
    assert_eq!(codes(&out), "RS C+ C+ T+ T C- Cr T C- T- RF");
}

#[test]
fn who_closes_whom_custom_closes_nothing() {
    let chart = || Update::new(ContentBlock::custom("chart", serde_json::json!(1)));
    let out =
        run([text("m", "a"), chart(), text("m", "b"), tool("c", "x", "{"), chart(), arguments("c", "}")]);
    assert_eq!(codes(&out), "RS T+ T X T T- C+ Ca X Ca C- RF");
}

#[test]
fn who_closes_whom_parallel_calls_with_interleaved_arguments_stay_apart() {
    let out = run([
        tool("c1", "x", "{\"a\""),
        tool("c2", "y", "{\"b\""),
        arguments("c1", ":1}"),
        arguments("c2", ":2}"),
        result("c2", "two"),
        result("c1", "one"),
    ]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
tool+ c1 \"x\"
tool  c1 \"{\\\"a\\\"\"
tool+ c2 \"y\"
tool  c2 \"{\\\"b\\\"\"
tool  c1 \":1}\"
tool  c2 \":2}\"
tool- c2 complete
result run/2 of c2 \"two\"
tool- c1 complete
result run/3 of c1 \"one\"
run finished success
"
    );
}

#[test]
fn who_closes_whom_tracks_do_not_interrupt_each_other() {
    let out = run([
        text("a", "1").on_track("a"),
        text("b", "2").on_track("b"),
        text("a", "3").on_track("a"),
        tool("c", "x", "").on_track("b"),
        text("a", "4").on_track("a"),
    ]);
    assert_eq!(codes(&out), "RS T+ T T+ T T T- C+ T T- C- RF");
}

#[test]
fn who_closes_whom_two_lanes_interleaved_fragment_by_fragment() {
    let (a, b) = (Source::root().child("a"), Source::root().child("b"));
    let out = run([
        text("m", "Hel").from_source(&a),
        text("m", "Bon").from_source(&b),
        text("m", "lo").from_source(&a),
        text("m", "jour").from_source(&b),
    ]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
lane+ run/2 \"a\"
text+ run/3 @run/2 message=\"m\"
text  run/3 \"Hel\"
lane+ run/4 \"b\"
text+ run/5 @run/4 message=\"m\"
text  run/5 \"Bon\"
text  run/3 \"lo\"
text  run/5 \"jour\"
text- run/3 closed
lane- run/2 success
text- run/5 closed
lane- run/4 success
run finished success
"
    );
}

// deferred end

#[test]
fn deferred_end_by_its_own_last() {
    let out = run([text("m", "x").last(), tool("c", "t", "")]);
    assert!(matches!(out[3], BlockEvent::BlockEnded { reason: EndReason::Complete, .. }));
}

#[test]
fn deferred_end_when_its_lane_closes_children_first() {
    let parent = Source::root().child("parent");
    let child = parent.child("child");
    let out = run_events(vec![
        text("p", "p").from_source(&parent).into(),
        text("c", "c").from_source(&child).into(),
        SourceEvent::StepStarted { source: child.clone(), name: "dig".into() },
        SourceEvent::LaneClosed { source: parent, outcome: LaneOutcome::Success(None) },
        text("m", "after").into(),
        finished(),
    ]);
    assert_eq!(codes(&out), "RS L+ T+ T L+ T+ T S+ T- S- L- T- L- T+ T T- RF");
}

#[test]
fn deferred_end_when_the_run_ends_in_any_way() {
    let cancelled = SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None };
    let failed = SourceEvent::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "x"));
    for (end, last) in [(Some(finished()), "RF"), (Some(cancelled), "RF"), (Some(failed), "RE"), (None, "RE")]
    {
        let mut events = vec![text("m", "x").into(), tool("c", "t", "").on_track("x").into()];
        events.extend(end);
        assert_eq!(codes(&run_events(events)), format!("RS T+ T C+ T- C- {last}"));
    }
}

#[test]
fn deferred_end_of_lanes_tells_how_the_run_ended() {
    let sub = Source::root().child("sub");
    let ends = |end: Option<SourceEvent>| {
        let mut events = vec![text("m", "x").from_source(&sub).into()];
        events.extend(end);
        let out = trace(&run_events(events));
        out.lines().find(|line| line.starts_with("lane-")).unwrap().to_owned()
    };
    assert_eq!(ends(Some(finished())), "lane- run/2 success");
    let outcome = RunOutcome::Cancelled;
    assert_eq!(ends(Some(SourceEvent::Finished { outcome, result: None })), "lane- run/2 cancelled");
    assert!(ends(None).starts_with("lane- run/2 failed upstream_ended"));
}

// tool use end

#[test]
fn tool_use_end_at_once_when_the_arguments_are_complete() {
    let out = run([tool("c", "t", "{}").last(), text("m", "waiting"), result("c", "r")]);
    assert_eq!(codes(&out), "RS C+ Ca C- T+ T Cr T- RF");
}

#[test]
fn tool_use_end_otherwise_with_the_result_or_the_lane() {
    assert_eq!(codes(&run([tool("c", "t", "{}"), result("c", "r")])), "RS C+ Ca C- Cr RF");
    assert_eq!(codes(&run([tool("c", "t", "{}")])), "RS C+ Ca C- RF");
}

// last packet

#[test]
fn last_packet_append_is_emitted_before_the_end() {
    let out = run([text("m", "Hello"), text("m", " world").last()]);
    assert_eq!((codes(&out).as_str(), said(&out).as_str()), ("RS T+ T T T- RF", "Hello world"));
}

#[test]
fn last_packet_snapshot_adds_only_what_is_missing() {
    let out = run([text("m", "Hello"), text("m", "Hello world").snapshot().last()]);
    assert_eq!(deltas(&out, SpanKind::Text), ["Hello", " world"]);
}

#[test]
fn last_packet_arguments_that_only_it_has_are_emitted() {
    let out = run([tool("c", "t", "").snapshot(), tool("c", "t", "{\"q\":1}").snapshot().last()]);
    assert_eq!(deltas(&out, SpanKind::ToolUse), ["{\"q\":1}"]);
}

#[test]
fn last_packet_snapshot_over_a_tool_call_restates_both_halves() {
    let out = run([
        text("m", "First. "),
        tool("c", "t", "").last(),
        text("m", "Second."),
        text("m", "First. Second.").snapshot().last(),
    ]);
    assert_eq!(said(&out), "First. Second.");
}

// replace

#[test]
fn replace_same_text_adds_nothing() {
    let out = run([text("m", "Hello"), text("m", "Hello").replace()]);
    assert_eq!(said(&out), "Hello");
}

#[test]
fn replace_an_extension_adds_the_missing_suffix() {
    let out = run([text("m", "Hello"), text("m", "Hello world").replace()]);
    assert_eq!(codes(&out), "RS T+ T T T- RF");
    assert_eq!(said(&out), "Hello world");
}

#[test]
fn replace_different_text_ends_the_old_block_and_marks_it() {
    let out = run([text("m", "Helo"), text("m", "Hello").replace(), text("m", " world")]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
text+ run/2 message=\"m\"
text  run/2 \"Helo\"
text- run/2 replaced
text+ run/3 replaces=run/2 message=\"m\"
text  run/3 \"Hello\"
text  run/3 \" world\"
text- run/3 closed
run finished success
"
    );
}

#[test]
fn replace_arguments_that_differ_only_in_spacing_add_nothing() {
    let out = run([tool("c", "t", "{\"a\": 1}"), tool("c", "t", "{\"a\":1}").replace().last()]);
    assert_eq!(codes(&out), "RS C+ Ca C- RF");
}

#[test]
fn replace_different_arguments_start_the_call_anew_and_its_result_finds_it() {
    let out =
        run([tool("c", "t", "{\"a\":1}"), tool("c", "t", "{\"a\":2}").replace().last(), result("c", "r")]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
tool+ c \"t\"
tool  c \"{\\\"a\\\":1}\"
tool- c replaced
tool+ run/2 \"t\" replaces=c
tool  run/2 \"{\\\"a\\\":2}\"
tool- run/2 complete
result run/3 of run/2 \"r\"
run finished success
"
    );
}

#[test]
fn replace_without_id_restates_what_the_agent_said_last() {
    let out = run([
        Update::text("User wants"),
        Update::text(" weather."),
        Update::text("User wants weather.").replace(),
        tool("c", "t", "").last(),
        Update::text("User wants weather.").replace().last(),
    ]);
    assert_eq!(said(&out), "User wants weather.");
}

// re-open

#[test]
fn re_open_after_an_interruption_is_a_new_block_that_continues() {
    let out = run([text("m", "A"), tool("c", "t", "").last(), text("m", "B")]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
text+ run/2 message=\"m\"
text  run/2 \"A\"
text- run/2 interrupted
tool+ c \"t\"
tool- c complete
text+ run/3 continues=run/2 message=\"m\"
text  run/3 \"B\"
text- run/3 closed
run finished success unanswered=c
"
    );
}

#[test]
fn re_open_of_an_id_that_a_source_uses_again_is_a_new_message() {
    let out = run([text("m1", "One").last(), text("m1", "Two").last()]);
    assert_eq!(said(&out), "OneTwo");
    assert!(!trace(&out).contains("continues"), "{}", trace(&out));
}

#[test]
fn re_open_of_a_closed_lane_is_another_lane() {
    let sub = Source::root().child("sub");
    let close = || SourceEvent::LaneClosed { source: sub.clone(), outcome: LaneOutcome::Success(None) };
    let out = run_events(vec![
        text("m", "x").from_source(&sub).into(),
        close(),
        text("m", "x").from_source(&sub).snapshot().last().into(),
        text("n", "y").from_source(&sub).into(),
        finished(),
    ]);
    assert_eq!(codes(&out), "RS L+ T+ T T- L- L+ T+ T T- L- RF");
}

// finished tools

#[test]
fn finished_tools_an_aggregate_adds_nothing() {
    let out = run([
        tool("c", "t", "{\"a\":1}").last(),
        result("c", "r"),
        text("m", "Done"),
        tool("c", "t", "{\"a\": 1}").snapshot().last(),
        result("c", "r"),
    ]);
    assert_eq!(codes(&out), "RS C+ Ca C- Cr T+ T T- RF");
}

#[test]
fn finished_tools_a_second_call_under_the_same_id_gets_its_own() {
    let out = run([
        tool("call_1", "t", "{\"a\":1}").last(),
        result("call_1", "one"),
        tool("call_1", "t", "{\"a\":2}").last(),
        result("call_1", "two"),
    ]);
    assert_eq!(call_ids(&out), ["call_1", "run/3"]);
    assert!(trace(&out).contains("result run/4 of run/3 \"two\""), "{}", trace(&out));
}

#[test]
fn finished_tools_a_result_that_differs_is_not_lost() {
    let out = run([tool("c", "t", "").last(), result("c", "half"), result("c", "whole")]);
    assert_eq!(codes(&out), "RS C+ C- Cr Cr RF");
}

// orphan result

#[test]
fn orphan_result_gets_a_call_filled_in() {
    assert_eq!(codes(&run([result("c", "r")])), "RS C+ C- Cr RF");
}

#[test]
fn orphan_result_of_an_earlier_run_gets_none() {
    let known = [ToolCallId::from("c")];
    let context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls(&known);
    let out = run_context(context, [result("c", "r").into(), finished()]);
    assert_eq!(codes(&out), "RS Cr RF");
    let mut checker = InvariantChecker::new().with_known_calls(known);
    for event in &out {
        checker.check(event).unwrap();
    }
}

#[test]
fn orphan_result_belongs_to_the_parents_call_if_that_made_it() {
    let sub = Source::root().child("sub");
    let out = run([tool("c", "delegate", "").last(), result("c", "r").from_source(&sub)]);
    assert_eq!(codes(&out), "RS C+ C- Cr RF");
}

// id-less tools

#[test]
fn id_less_tools_chunks_stay_one_call() {
    let out = run([nameless(Some("t"), "{\"a\""), nameless(None, ":1"), nameless(Some("t"), "}")]);
    assert_eq!(codes(&out), "RS C+ Ca Ca Ca C- RF");
}

#[test]
fn id_less_tools_another_name_is_another_call() {
    let out = run([nameless(Some("t"), "1"), nameless(Some("u"), "2"), nameless(None, "3")]);
    assert_eq!(call_ids(&out).len(), 2);
}

#[test]
fn id_less_tools_a_result_answers_the_oldest_unanswered() {
    let out = run([
        nameless(Some("t"), "1").last(),
        nameless(Some("t"), "2").last(),
        nameless_result(None, "one"),
        nameless_result(None, "two"),
    ]);
    assert!(trace(&out).contains("result run/4 of run/2 \"one\""), "{}", trace(&out));
    assert!(trace(&out).contains("result run/5 of run/3 \"two\""), "{}", trace(&out));
}

#[test]
fn id_less_tools_a_result_with_a_name_answers_that_tool() {
    let out = run([
        nameless(Some("slow"), "").last(),
        nameless(Some("fast"), "").last(),
        nameless_result(Some("fast"), "f"),
        nameless_result(Some("slow"), "s"),
    ]);
    assert!(trace(&out).contains("of run/3 \"f\""), "{}", trace(&out));
    assert!(trace(&out).contains("of run/2 \"s\""), "{}", trace(&out));
}

#[test]
fn id_less_tools_an_aggregate_adds_nothing() {
    let out = run([
        nameless(Some("t"), "{}").last(),
        nameless_result(Some("t"), "r"),
        nameless(Some("t"), "{}").snapshot().last(),
        nameless_result(Some("t"), "r").snapshot(),
    ]);
    assert_eq!(codes(&out), "RS C+ Ca C- Cr RF");
}

// end of run

#[test]
fn end_of_run_nothing_follows_the_terminal_event() {
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    context.handle_event(finished()).unwrap();
    assert!(context.handle_update(text("m", "late")).is_err());
    context.handle_eof();
    context.handle_cancel();
    context.handle_failure(RunFailure::new("late", "late"));
    let out: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
    assert_eq!(codes(&out), "RS RF");
    assert!(context.is_finished());
}

#[test]
fn end_of_run_an_upstream_that_ends_without_saying_so_has_failed() {
    let out = run_events(vec![text("m", "half a sen").into()]);
    assert!(trace(&out).contains("run failed upstream_ended"), "{}", trace(&out));
}

#[test]
fn end_of_run_with_interrupts_is_interrupted() {
    let mut ask = Interrupt::new("i1", "tool_call");
    ask.tool_call_id = Some("call".into());
    let asked = SourceEvent::InterruptRequested { source: Source::root(), interrupt: Box::new(ask) };
    let out = run_events(vec![tool("call", "a", "").last().into(), asked.clone(), asked, finished()]);
    assert!(trace(&out).ends_with("run finished interrupted waits=i1 unanswered=call\n"), "{}", trace(&out));
    assert_eq!(trace(&out).matches("\ninterrupt i1").count(), 1);
}

#[test]
fn end_of_run_interrupted_without_a_question_asks_one() {
    let out = run_events(vec![SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None }]);
    assert!(trace(&out).contains("run finished interrupted waits=run/2"), "{}", trace(&out));
}

#[test]
fn end_of_run_sums_the_usage_by_model() {
    let usage = |model: &str, input| Usage {
        model: Some(model.to_owned().into()),
        input: Some(input),
        ..Usage::default()
    };
    let spent = |usage| SourceEvent::Usage { source: Source::root(), usage: Box::new(usage) };
    let mut update = text("m", "x").replace();
    update.details_mut().usage = Some(usage("a", 5));
    let out = run_events(vec![
        spent(usage("a", 1)),
        spent(usage("b", 2)),
        spent(usage("a", 3)),
        update.into(),
        finished(),
    ]);
    let Some(BlockEvent::RunFinished(end)) = out.last() else { panic!() };
    assert_eq!(end.usage, [usage("a", 5), usage("b", 2)]);
}

// ids, nesting, steps, seals

#[test]
fn ids_a_call_id_of_an_earlier_run_or_of_our_own_shape_is_not_let_out() {
    let known = [ToolCallId::from("call_1")];
    let context = StreamContext::new(RunInfo::new("thread", "run")).with_known_calls(&known);
    let out = run_context(
        context,
        [tool("call_1", "t", "").last().into(), tool("run/9", "t", "").into(), finished()],
    );
    assert_eq!(call_ids(&out), ["run/2", "run/3"]);
    let BlockEvent::BlockStarted(head) = &out[1] else { panic!() };
    assert_eq!(head.origin.tool_call_id, Some("call_1".into()), "the source's id stays as origin");
}

#[test]
fn ids_a_call_belongs_to_the_text_of_its_message() {
    let out = run([
        text("m", "Let me see"),
        tool("c", "t", "").in_message("m"),
        tool("d", "t", "").in_message("n"),
    ]);
    assert!(trace(&out).contains("tool+ c \"t\" parent=run/2 message=\"m\""), "{}", trace(&out));
    assert!(trace(&out).contains("tool+ d \"t\" message=\"n\""), "{}", trace(&out));
}

#[test]
fn ids_a_call_on_another_track_belongs_to_the_text_of_its_message_too() {
    let out = run([text("m", "Let me see").on_track("t"), tool("c", "t", "").in_message("m")]);
    assert!(trace(&out).contains("tool+ c \"t\" parent=run/2"), "{}", trace(&out));
}

#[test]
fn ids_nothing_of_a_lane_belongs_to_its_earlier_life() {
    let sub = Source::root().child("sub");
    let card = || {
        Update::new(ContentBlock::custom(crate::wellknown::ACTIVITY, serde_json::json!({}))).in_message("p")
    };
    let out = run_events(vec![
        text("m", "x").from_source(&sub).into(),
        card().from_source(&sub).into(),
        SourceEvent::LaneClosed { source: sub.clone(), outcome: LaneOutcome::Success(None) },
        tool("c", "t", "").in_message("m").from_source(&sub).into(),
        card().from_source(&sub).into(),
        finished(),
    ]);
    assert!(!trace(&out).contains("parent="), "{}", trace(&out));
    let cards: Vec<_> = out
        .iter()
        .filter_map(|event| match event {
            BlockEvent::Custom(custom) => Some(custom.id.clone()),
            _ => None,
        })
        .collect();
    assert_ne!(cards[0], cards[1]);
}

#[test]
fn nested_lanes_three_deep_know_their_parents_and_calls() {
    let a = Source::root().child("a").called_by("c".into());
    let b = a.child("b");
    let c = b.child("a").named("Third");
    let out = run([tool("c", "delegate", ""), text("m", "x").from_source(&c)]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
tool+ c \"delegate\"
lane+ run/2 \"a\" for c
lane+ run/3 \"b\" in run/2
lane+ run/4 \"Third\" in run/3
text+ run/5 @run/4 message=\"m\"
text  run/5 \"x\"
text- run/5 closed
lane- run/4 success
lane- run/3 success
lane- run/2 success
tool- c closed
run finished success unanswered=c
"
    );
}

#[test]
fn steps_are_balanced_whatever_the_source_does() {
    let step = |name: &str| SourceEvent::StepStarted { source: Source::root(), name: name.to_owned().into() };
    let end = |name: &str| SourceEvent::StepFinished { source: Source::root(), name: name.to_owned().into() };
    let out = run_events(vec![step("a"), step("a"), end("a"), end("never"), step("b"), finished()]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
step+ \"a\"
step+ \"a (2)\"
step- \"a (2)\"
step+ \"never\"
step- \"never\"
step+ \"b\"
step- \"b\"
step- \"a\"
run finished success
"
    );
}

#[test]
fn seals_open_a_thought_without_words_and_are_told_once() {
    let seal = || {
        let thought = Thinking { text: "".into(), encrypted: Some(Box::new("s".into())) };
        Update::new(ContentBlock::Thinking(thought)).in_message("m")
    };
    let out = run([seal(), text("m", "x"), seal().snapshot().last()]);
    assert_eq!(
        trace(&out),
        "\
run started thread=thread run=run
think+ run/2 message=\"m\"
seal  run/2 \"s\"
think- run/2 interrupted
text+ run/3 message=\"m\"
text  run/3 \"x\"
text- run/3 closed
run finished success
"
    );
}

#[test]
fn seals_after_the_end_of_a_thought_do_not_make_it_be_said_again() {
    let thought = Thinking { text: "".into(), encrypted: Some(Box::new("s".into())) };
    let seal = Update::new(ContentBlock::Thinking(thought)).in_message("m");
    let out = run([thinking("m", "a").last(), seal, thinking("m", "a").snapshot().last()]);
    assert_eq!(deltas(&out, SpanKind::Thinking), ["a"]);
}

#[test]
fn the_end_of_a_message_counts_in_a_closed_lane() {
    let sub = Source::root().child("research");
    let of = |update: Update| SourceEvent::Update(update.from_source(&sub));
    let out = run_to_end([
        of(text("m", "aa")),
        SourceEvent::LaneClosed { source: sub.clone(), outcome: LaneOutcome::Success(None) },
        of(text("m", "").last()),
        of(text("m", "a").snapshot()),
        SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
    ]);
    assert_eq!(deltas(&out, SpanKind::Text), ["aa", "a"]);
    assert!(!trace(&out).contains("replaces="), "{}", trace(&out));
}

#[test]
fn tool_progress_is_shown_at_once_and_is_not_the_result() {
    let mut progress = result("c", "");
    if let ContentBlock::ToolResult(result) = &mut progress.block {
        result.output = ToolOutput::Progress("50 %".into());
    }
    let out = run([tool("c", "t", ""), progress, result("c", "done")]);
    assert_eq!(codes(&out), "RS C+ X C- Cr RF");
    assert!(trace(&out).contains(r#"{"toolCallId":"c","toolName":"t","text":"50 %"}"#), "{}", trace(&out));
}

#[test]
fn answer_and_intermediate_of_one_message_are_two_texts() {
    let out = run([text("m", "draft").intermediate(), text("m", "draft").snapshot().last()]);
    assert_eq!(codes(&out), "RS T+ T T- T+ T T- RF");
}

#[test]
fn progress_cards_keep_their_id() {
    let card =
        |name: &'static str| Update::new(ContentBlock::custom(name, serde_json::json!({}))).in_message("p");
    let out = run([card(crate::wellknown::ACTIVITY), card(crate::wellknown::ACTIVITY_DELTA), card("chart")]);
    let ids: Vec<_> = out
        .iter()
        .filter_map(|event| match event {
            BlockEvent::Custom(custom) => Some(custom.id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["run/2", "run/2", "run/3"]);
}

#[test]
fn shared_values_are_never_mutated() {
    let metadata = Arc::new(crate::Metadata::new());
    let mut update = text("m", "x");
    update.details_mut().metadata = Some(Arc::clone(&metadata));
    run([update]);
    assert!(metadata.is_empty());
}

#[test]
fn a_result_belongs_to_the_lane_that_has_it_and_not_to_those_inside() {
    let (outer, inner) = (Source::root().child("a"), Source::root().child("a").child("b"));
    let result = Some(serde_json::json!(42));
    let events = vec![
        SourceEvent::LaneOpened(inner),
        SourceEvent::LaneClosed { source: outer, outcome: LaneOutcome::Success(result.clone()) },
    ];
    let outcomes: Vec<LaneOutcome> = run_events(events)
        .into_iter()
        .filter_map(|event| match event {
            BlockEvent::LaneClosed { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [LaneOutcome::Success(None), LaneOutcome::Success(result)]);
}

#[test]
fn a_last_fragment_ends_its_block_however_it_is_appended() {
    let out = run([text("m", "a"), text("m", "b").last(), text("m", "c")]);
    assert_eq!(codes(&out), "RS T+ T T T- T+ T T- RF");
}

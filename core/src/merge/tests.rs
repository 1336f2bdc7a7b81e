//! The invariants of a merged turn and its edge cases, by name.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::run::Usage;
use crate::testing::arb_source_events;
use crate::update::{Role, SourceEvent};

#[track_caller]
fn merge(updates: impl IntoIterator<Item = Update>) -> Response {
    merge_with(MergeSettings::default(), updates)
}

#[track_caller]
fn merge_with(settings: MergeSettings, updates: impl IntoIterator<Item = Update>) -> Response {
    let mut merger = MessageMerger::new(settings);
    updates.into_iter().for_each(|update| merger.handle_update(update).unwrap());
    merger.finish(ResponseId::from("turn"))
}

/// Each message as `agent: content`, in order.
fn lines(response: &Response) -> Vec<String> {
    response.messages.iter().map(line).collect()
}

fn line(message: &Message) -> String {
    let content = message.contents.iter().map(|block| match block {
        ContentBlock::Text(part) => part.text.to_string(),
        ContentBlock::Thinking(part) => format!("({})", part.text),
        ContentBlock::ToolUse(call) => {
            format!("call {}{}", call.name.as_deref().unwrap_or("?"), call.arguments)
        }
        ContentBlock::ToolResult(result) => format!("result {}", result.output.to_text()),
        ContentBlock::Custom(custom) => format!("custom {}", custom.name),
    });
    let content: Vec<String> = content.collect();
    match message.source.key() {
        "" => content.join(" | "),
        agent => format!("{agent}: {}", content.join(" | ")),
    }
}

fn agent(name: &str) -> Source {
    Source::root().child(name.to_owned())
}

fn says(agent_name: &str, message: &str, text: &str) -> Update {
    Update::text(text.to_owned()).in_message(message.to_owned()).from_source(&agent(agent_name))
}

fn text(message: &str, text: &str) -> Update {
    Update::text(text.to_owned()).in_message(message.to_owned())
}

fn bare(text: &str) -> Update {
    Update::text(text.to_owned())
}

fn call(id: &str, name: &str) -> Update {
    Update::new(ContentBlock::tool_use(id.to_owned(), name.to_owned(), "{}"))
}

fn result(id: &str, output: &str) -> Update {
    let mut update = Update::new(ContentBlock::tool_result(id.to_owned(), output.to_owned()));
    update.role = Role::Tool;
    update
}

// invariant 1: one response id

#[test]
fn single_response_id_whatever_the_updates_say() {
    let response = merge([text("a", "x").in_response("r1"), text("b", "y").in_response("r2"), bare("z")]);
    assert_eq!(response.id.as_str(), "turn");
}

// invariant 2: arrival order and times

#[test]
fn arrival_order_without_timestamps() {
    let response = merge([text("c", "1"), text("a", "2"), text("b", "3"), text("c", "!")]);
    assert_eq!(lines(&response), ["1!", "2", "3"]);
}

#[test]
fn arrival_order_with_mixed_timestamps_repeated_runs_identical() {
    let updates = || [text("a", "ten").at(10), text("b", "none"), text("c", "five").at(5)];
    let first = merge(updates());
    assert_eq!(lines(&first), ["five", "ten", "none"]);
    for _ in 0..20 {
        assert_eq!(merge(updates()), first);
    }
}

#[test]
fn a_call_precedes_its_result_precedes_the_answer_whatever_the_clocks_say() {
    let response = merge([
        call("c", "look").in_message("m1").at(100),
        result("c", "found").at(5),
        text("m2", "It is there.").at(1),
    ]);
    assert_eq!(lines(&response), ["call look{}", "result found", "It is there."]);
}

#[test]
fn a_result_stands_beside_its_call_even_if_another_agent_reports_it() {
    let executor = agent("executor");
    let response = merge([
        bare("ready").from_source(&executor),
        call("c", "look").from_source(&agent("asker")),
        result("c", "found").from_source(&executor),
        says("asker", "m", "Thanks"),
    ]);
    assert_eq!(
        lines(&response),
        ["executor: ready", "asker: call look{}", "asker: result found", "asker: Thanks"]
    );
}

#[test]
fn a_result_in_an_earlier_response_still_follows_its_call() {
    let response = merge([
        text("a", "first").in_response("r1"),
        call("c", "look").in_message("b").in_response("r2"),
        result("c", "found").in_response("r1"),
    ]);
    assert_eq!(lines(&response), ["first", "call look{}", "result found"]);
}

// invariant 3: grouping

#[test]
fn grouping_of_interleaved_agents() {
    let response = merge([
        says("a", "a1", "Hel"),
        says("b", "b1", "Bon"),
        says("a", "a1", "lo"),
        says("b", "b1", "jour"),
        says("a", "a2", "Bye"),
    ]);
    assert_eq!(lines(&response), ["a: Hello", "a: Bye", "b: Bonjour"]);
}

#[test]
fn grouping_holds_for_different_response_ids_of_one_agent() {
    let response = merge([
        says("a", "1", "one").in_response("r1"),
        says("b", "2", "eins").in_response("q1"),
        says("a", "3", "two").in_response("r2"),
    ]);
    assert_eq!(lines(&response), ["a: one", "a: two", "b: eins"]);
}

#[test]
fn grouping_of_a_hand_off_keeps_the_order_of_agents() {
    let response = merge([
        says("triage", "1", "I pass you on."),
        call("h", "handoff_to_refunds").from_source(&agent("triage")),
        result("h", "handed off").from_source(&agent("triage")),
        says("refunds", "2", "How can I help?"),
    ]);
    let expected = [
        "triage: I pass you on.",
        "triage: call handoff_to_refunds{}",
        "triage: result handed off",
        "refunds: How can I help?",
    ];
    assert_eq!(lines(&response), expected);
}

#[test]
fn grouping_of_concurrent_agents_with_timestamps_is_not_sorted_by_time() {
    let response = merge([
        says("slow", "1", "late start").at(50),
        says("fast", "2", "early").at(10),
        says("slow", "3", "later").at(60),
        says("fast", "4", "earlier").at(5),
    ]);
    assert_eq!(lines(&response), ["slow: late start", "slow: later", "fast: earlier", "fast: early"]);
}

// edge cases

#[test]
fn edge_mixed_timestamps_are_a_total_order() {
    let times = [Some(10), None, Some(5)];
    let orders: Vec<Vec<String>> = permutations(&times)
        .into_iter()
        .map(|order| {
            let updates = order.iter().enumerate().map(|(n, time)| {
                let update = text(&n.to_string(), &time.map_or("none".to_owned(), |t| t.to_string()));
                time.map_or_else(|| update.clone(), |t| update.clone().at(t))
            });
            lines(&merge(updates))
        })
        .collect();
    for order in orders {
        let place = |text: &str| order.iter().position(|line| line == text).unwrap();
        assert!(place("5") < place("10"), "{order:?}");
    }
}

#[test]
fn edge_interleaved_response_ids_stay_contiguous_in_first_seen_order() {
    let response = merge([
        text("a", "1").in_response("r1"),
        text("b", "2").in_response("r2"),
        text("c", "3").in_response("r1"),
        text("d", "4").in_response("r2"),
    ]);
    assert_eq!(lines(&response), ["1", "3", "2", "4"]);
}

#[test]
fn edge_updates_without_response_id_by_arrival_or_after_keyed() {
    let updates = || [text("a", "1").in_response("r1"), text("b", "none"), text("c", "2").in_response("r1")];
    assert_eq!(lines(&merge(updates())), ["1", "none", "2"]);
    let after = MergeSettings { without_response_id: Placement::AfterKeyed, ..MergeSettings::default() };
    assert_eq!(lines(&merge_with(after, updates())), ["1", "2", "none"]);
}

#[test]
fn edge_updates_without_message_id_by_arrival_or_after_keyed() {
    let mut tool = bare("none");
    tool.role = Role::Tool;
    let updates = || [text("a", "1"), tool.clone(), text("b", "2")];
    assert_eq!(lines(&merge(updates())), ["1", "none", "2"]);
    let after = MergeSettings { without_message_id: Placement::AfterKeyed, ..MergeSettings::default() };
    assert_eq!(lines(&merge_with(after, updates())), ["1", "2", "none"]);
}

#[test]
fn edge_each_message_keeps_its_own_created_at() {
    let response = merge([text("a", "1").at(10), text("b", "2").at(20), text("a", "!").at(30)]);
    let times: Vec<_> = response.messages.iter().map(|m| m.created_at).collect();
    assert_eq!(times, [Some(Timestamp(10)), Some(Timestamp(20))]);
}

#[test]
fn edge_finish_reason_usage_agent_and_metadata_of_id_less_updates_reach_the_result() {
    let mut update = bare("").from_source(&agent("a"));
    let details = update.details_mut();
    details.finish_reason = Some("stop".into());
    details.usage = Some(Usage { output: Some(7), ..Usage::default() });
    details.metadata = Some(Arc::new([("k".to_owned(), json!(1))].into_iter().collect()));
    let response = merge([says("a", "m", "Hi").in_response("r1"), update]);
    assert_eq!(response.finish_reason.as_deref(), Some("stop"));
    assert_eq!(response.usage[0].output, Some(7));
    assert_eq!(response.metadata["k"], 1);
    assert_eq!(response.agent, Some(agent("a")));
}

#[test]
fn edge_response_time_is_the_earliest_known() {
    let response = merge([text("a", "1").at(30), bare("x").at(10), text("b", "2").at(20)]);
    assert_eq!(response.created_at, Some(Timestamp(10)));
}

// folding, repeats, contradictions

#[test]
fn an_id_less_fragment_directly_before_a_message_folds_into_it() {
    let thought = Update::new(ContentBlock::thinking("Hm")).at(5);
    let response = merge([thought, text("m", "Yes").at(9)]);
    assert_eq!(lines(&response), ["(Hm) | Yes"]);
    assert_eq!(response.messages[0].id, Some("m".into()));
    assert_eq!(response.messages[0].created_at, Some(Timestamp(5)));
}

#[test]
fn an_id_less_fragment_of_another_role_or_agent_does_not_fold() {
    let response = merge([result("c", "r"), text("m", "Yes")]);
    assert_eq!(lines(&response), ["result r", "Yes"]);
    let response = merge([bare("x").from_source(&agent("a")), says("b", "m", "y")]);
    assert_eq!(lines(&response), ["a: x", "b: y"]);
}

#[test]
fn id_less_segments_around_a_message_stay_apart() {
    let mut aside = bare("X");
    aside.role = Role::Tool;
    let response = merge([text("m", "A"), aside.clone(), text("m", "B"), aside]);
    assert_eq!(lines(&response), ["AB", "X", "X"]);
}

#[test]
fn snapshots_and_replacements_are_not_concatenated() {
    let response = merge([
        text("m", "User wants"),
        text("m", " weather."),
        text("m", "User wants weather.").replace(),
        text("n", "Helo"),
        text("n", "Hello").replace(),
        text("n", "Hello world").snapshot(),
    ]);
    assert_eq!(lines(&response), ["User wants weather.", "Hello world"]);
}

#[test]
fn an_aggregator_that_repeats_its_participants_adds_nothing_twice() {
    let response = merge([
        says("a", "m1", "It rains."),
        says("b", "m1", "It snows."),
        says("a", "m1", "It rains.").snapshot().last(),
        says("b", "m1", "It snows.").snapshot().last(),
        bare("It rains.").from_source(&agent("a")).snapshot().last(),
    ]);
    assert_eq!(lines(&response), ["a: It rains.", "b: It snows."]);
}

#[test]
fn repeated_calls_and_results_are_merged_once() {
    let response = merge([
        call("c", "look").in_message("m"),
        result("c", "r"),
        call("c", "look").in_message("m").snapshot().last(),
        result("c", "r"),
    ]);
    assert_eq!(lines(&response), ["call look{}", "result r"]);
}

#[test]
fn text_after_the_end_of_a_text_is_another_message() {
    let response =
        merge([text("m1", "One").last(), text("m1", "Two").last(), bare("Three").last(), bare("Four")]);
    assert_eq!(lines(&response), ["One", "Two", "Three", "Four"]);
    let response = merge([text("m", "Let me look.").last(), call("c", "look").in_message("m")]);
    assert_eq!(lines(&response), ["Let me look. | call look{}"]);
}

#[test]
fn white_space_and_empty_messages_are_dropped() {
    assert_eq!(lines(&merge([text("a", " \n"), text("b", ""), text("c", "x")])), ["x"]);
}

#[test]
fn contradicting_finish_reasons_are_none() {
    let reason = |why: &str| {
        let mut update = bare("x");
        update.details_mut().finish_reason = Some(why.to_owned().into());
        update
    };
    assert_eq!(merge([reason("stop"), reason("length")]).finish_reason, None);
}

#[test]
fn limits_are_errors_that_name_themselves() {
    let limits = MergeLimits { messages: 1, bytes: 4, usage_accounts: 0 };
    let mut merger = MessageMerger::new(MergeSettings { limits, ..MergeSettings::default() });
    merger.handle_update(text("a", "1234")).unwrap();
    assert_eq!(merger.handle_update(text("a", "5")), Err(Error::TooLong { max: 4 }));
    assert_eq!(merger.handle_update(text("b", "")), Err(Error::TooManyMessages { max: 1 }));
    let mut spent = text("a", "");
    spent.details_mut().usage = Some(Usage::default());
    assert_eq!(merger.handle_update(spent), Err(Error::TooManyAccounts { max: 0 }));
}

proptest! {
    #[test]
    fn the_order_is_total_and_deterministic(times in prop::collection::vec(prop::option::of(0_i64..4), 1..9)) {
        let updates = || times.iter().enumerate().map(|(n, time)| {
            let update = text(&n.to_string(), &format!("{n}@{time:?}"));
            time.map_or_else(|| update.clone(), |t| update.clone().at(t))
        });
        let merged = lines(&merge(updates()));
        prop_assert_eq!(&merged, &lines(&merge(updates())));
        // Messages with times are in the order of their times, and equal times in the order of arrival.
        let timed: Vec<(i64, usize)> = merged
            .iter()
            .map(|line| line.split_once('@').unwrap().0.parse::<usize>().unwrap())
            .filter_map(|n| times[n].map(|t| (t, n)))
            .collect();
        prop_assert!(timed.is_sorted(), "{:?}", timed);
    }

    #[test]
    fn permuting_equal_inputs_changes_nothing(count in 1_usize..6, time in prop::option::of(0_i64..3)) {
        let one = |n: usize| {
            let update = text(&n.to_string(), "same");
            time.map_or_else(|| update.clone(), |t| update.clone().at(t))
        };
        let forward = lines(&merge((0..count).map(one)));
        let backward = lines(&merge((0..count).rev().map(one)));
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn one_agents_messages_are_contiguous(events in arb_source_events(30)) {
        let updates = events.into_iter().filter_map(|event| match event {
            SourceEvent::Update(update) => Some(update),
            _ => None,
        });
        let response = merge(updates);
        let mut sources: Vec<Source> = response.messages.iter().map(|m| m.source.clone()).collect();
        sources.dedup();
        let mut distinct = sources.clone();
        distinct.sort_by(|a, b| a.path().cmp(b.path()));
        distinct.dedup();
        prop_assert_eq!(distinct.len(), sources.len());
    }
}

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, first.clone());
            all.push(tail);
        }
    }
    all
}

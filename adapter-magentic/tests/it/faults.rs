//! Inputs that are cut, repeated, reordered or broken: every run ends well-formed, and the failure is said.

use aqueduct_adapter_magentic::{Config, Decoder, EndOfInput, Limits, Lines, Numbering};
use aqueduct_core::testing::trace;
use aqueduct_core::{BlockEvent, ByteString, Channel};
use bytes::Bytes;
use serde_json::json;

use crate::support::{
    Driver, Run, customs, fixture, fixture_names, fixtures, lines, outcome, run_of, runs, runs_with, status,
    text, texts, update,
};

fn traces(runs: &[Run]) -> Vec<String> {
    runs.iter().map(|run| trace(&run.events)).collect()
}

/// Lines that carry a number are those a reconnect can repeat.
fn is_numbered(lines: &[ByteString]) -> bool {
    lines.iter().all(|line| line.contains("\"seq\""))
}

#[test]
fn an_input_that_is_cut_after_any_line_fails_and_says_so() {
    for name in fixture_names().into_iter().filter(|name| !name.contains("-run")) {
        let lines = fixture(&name);
        let whole = runs(&lines);
        for at in 1..lines.len() {
            let cut = runs(&lines[..at]);
            let Some(last) = cut.last() else { continue };
            let ended_before = whole.get(cut.len() - 1).is_some_and(|run| run.said == last.said);
            let failed = matches!(last.events.last(), Some(BlockEvent::RunFailed(_)));
            assert!(failed || ended_before, "{name} cut after {at} lines: {}", outcome(last));
        }
    }
}

#[test]
fn lines_that_a_reconnect_sends_again_change_nothing() {
    for name in fixture_names() {
        let lines = fixture(&name);
        if !is_numbered(&lines) {
            continue;
        }
        let whole = traces(&runs(&lines));
        for window in [1, 5] {
            // A reconnect after every line.
            let resent = (1..=lines.len()).flat_map(|at| &lines[at.saturating_sub(window)..at]);
            let again: Vec<ByteString> = resent.cloned().collect();
            assert_eq!(traces(&runs(&again)), whole, "{name}: the last {window} lines again after each line");
        }
        let twice: Vec<ByteString> = lines.iter().chain(&lines).cloned().collect();
        assert_eq!(traces(&runs(&twice)), whole, "{name}: everything again at the end");
    }
}

#[test]
fn lines_that_overtake_others_are_put_in_order() {
    for name in fixture_names() {
        let lines = fixture(&name);
        if !is_numbered(&lines) {
            continue;
        }
        let whole = traces(&runs(&lines));
        for turn in 1..4 {
            let mut mixed = lines.clone();
            for group in mixed.chunks_mut(4) {
                group.rotate_left(turn % group.len());
            }
            assert_eq!(traces(&runs(&mixed)), whole, "{name}: groups of four turned by {turn}");
        }
    }
}

#[test]
fn lines_that_arrive_early_count_once() {
    let mut lines = fixture("seq_intermediate.events.jsonl");
    lines[3..7].rotate_left(1);
    let mut driver = Driver::new(Config::default());
    for line in &lines {
        driver.decoder.handle_line(line).unwrap();
        driver.pump();
    }
    assert_eq!(driver.decoder.counts().lines, lines.len() as u64);
}

#[test]
fn lines_that_never_arrive_are_told_as_lost() {
    let all = fixture("seq_intermediate.events.jsonl");
    let mut lines = all.clone();
    lines.drain(9..11);
    let run = &runs(&lines)[0];
    let notices = customs(run, "aqueduct.notice");
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0]["level"], "error");
    assert!(
        notices[0]["text"]
            .as_str()
            .unwrap()
            .starts_with("lines 9 to 10 of the workflow's events never arrived")
    );
    assert_eq!(texts(&run.events, Channel::Answer), texts(&runs(&all)[0].events, Channel::Answer));
}

#[test]
fn a_forwarder_that_filters_after_numbering_is_heard_to_the_end() {
    let mut lines = fixture("conc_intermediate.events.jsonl");
    lines.retain(|line| !line.contains("\"type\": \"executor_"));
    let config = Config { limits: Limits { held_lines: 2, ..Default::default() }, ..Config::default() };
    let runs = runs_with(config, &lines);
    assert_eq!(outcome(&runs[0]), "Success");
    assert_eq!(texts(&runs[0].events, Channel::Answer).len(), 3);
}

#[test]
fn bytes_may_be_cut_anywhere() {
    for name in fixture_names().iter().filter(|name| name.ends_with("jsonl")) {
        let bytes = std::fs::read(fixtures().join(name)).unwrap();
        let mut splitter = Lines::new(1 << 20);
        for byte in &bytes {
            splitter.handle_bytes(Bytes::copy_from_slice(&[*byte]));
        }
        splitter.handle_eof();
        let split: Vec<ByteString> =
            std::iter::from_fn(|| splitter.poll_line()).map(Result::unwrap).collect();
        assert_eq!(split, fixture(name), "{name}");
    }
    let bytes = Bytes::from(std::fs::read(fixtures().join("tool_only_turn.events.jsonl")).unwrap());
    for at in 0..bytes.len() {
        let mut splitter = Lines::new(1 << 20);
        splitter.handle_bytes(bytes.slice(..at));
        splitter.handle_bytes(bytes.slice(at..));
        splitter.handle_eof();
        let split: Vec<ByteString> =
            std::iter::from_fn(|| splitter.poll_line()).map(Result::unwrap).collect();
        assert_eq!(split, fixture("tool_only_turn.events.jsonl"), "cut at {at}");
    }
}

#[test]
fn a_line_that_is_no_object_is_an_error_and_the_next_is_read() {
    let mut driver = Driver::new(Config::default());
    for broken in ["{", "7", "\"x\"", "[]", "nonsense"] {
        let error = driver.decoder.handle_line(&ByteString::from(broken)).unwrap_err();
        assert!(error.can_continue(), "{error}");
    }
    assert_eq!(driver.decoder.counts().unreadable, 5);
    driver.decoder.handle_line(&lines(&[status("IDLE")])[0]).unwrap();
    driver.pump();
    assert_eq!(outcome(&driver.finish()[0]), "Success");
}

#[test]
fn what_no_rule_knows_is_passed_on_as_it_is() {
    let run = run_of(&[
        json!({"type": "brand_new", "executor_id": "a", "data": {"x": 1}}),
        json!({"type": "output", "iteration": "not a number", "data": "lost?"}),
        json!({"type": "status", "state": "HIBERNATING"}),
        json!({"hello": "world"}),
        json!({"type": "group_chat", "data": {"__class__": "GroupChatSomethingElse"}}),
        status("IDLE"),
    ]);
    let raw = customs(&run, "aqueduct.raw");
    assert_eq!(raw.len(), 5);
    assert_eq!(raw[0]["event"]["data"], json!({"x": 1}));
    assert_eq!(raw[1]["event"]["data"], "lost?");
    assert_eq!(raw[3]["event"]["hello"], "world");
}

#[test]
fn a_failure_waits_for_its_reason_and_comes_without_it_at_the_end() {
    let failed = json!({"type": "failed", "details": {"error_type": "ValueError", "message": "ValueError"}});
    let events = [failed.clone(), status("FAILED")];
    assert_eq!(
        outcome(&run_of(&events)),
        "Failed: the workflow failed: ValueError (the framework reveals no more)"
    );
    let exception = json!({"exception": "ValueError", "message": "no such city"});
    let events = [failed.clone(), status("FAILED"), exception.clone()];
    assert_eq!(outcome(&run_of(&events)), "Failed: the workflow failed: ValueError: no such city");
    let told = json!({"type": "failed", "details": {"error_type": "ValueError", "message": "told", "traceback": "line 1"}});
    let run = run_of(&[told, status("FAILED"), json!({"type": "warning", "data": "late"})]);
    assert_eq!(outcome(&run), "Failed: the workflow failed: ValueError: told");
    let Some(BlockEvent::RunFailed(end)) = run.events.last() else { panic!("not failed") };
    assert_eq!(end.failure.details.as_ref().unwrap()["traceback"], "line 1");
    // An exception without any event before it (a run without streaming) fails the run, too.
    assert_eq!(outcome(&run_of(&[exception])), "Failed: the workflow failed: ValueError: no such city");
}

#[test]
fn lines_after_the_end_start_no_run() {
    let mut decoder = Decoder::default();
    let events =
        [status("IDLE"), status("IDLE"), update("output", "a", &json!({"contents": [text("late")]}))];
    for line in lines(&events) {
        decoder.handle_line(&line).unwrap();
    }
    assert_eq!(decoder.counts().late, 2);
}

#[test]
fn recordings_that_count_anew_can_be_read_one_after_the_other() {
    let first = fixture("seq_default.events.jsonl");
    let both: Vec<ByteString> = first.iter().chain(&first).cloned().collect();
    let config = Config { numbering: Numbering::Run, ..Config::default() };
    let runs = runs_with(config, &both);
    assert_eq!(runs.len(), 2);
    assert_eq!(texts(&runs[0].events, Channel::Answer), texts(&runs[1].events, Channel::Answer));
}

#[test]
fn bare_updates_end_as_the_caller_says() {
    let bare = ByteString::from(
        json!({"type": "agent_response_update", "role": "assistant", "author_name": "a", "contents": [text("hi")]})
            .to_string(),
    );
    assert!(outcome(&runs(std::slice::from_ref(&bare))[0]).starts_with("Failed"));
    let config = Config { end_of_input: EndOfInput::Finished, ..Config::default() };
    let run = &runs_with(config, &[bare])[0];
    assert_eq!(outcome(run), "Success");
    assert_eq!(texts(&run.events, Channel::Answer), [("a".to_owned(), "hi".to_owned())]);
}

#[test]
fn a_run_that_starts_after_a_failure_without_reason_is_a_run() {
    let failed = json!({"type": "failed", "details": {"error_type": "ValueError", "message": "ValueError"}});
    let events = [
        failed,
        status("FAILED"),
        json!({"type": "started"}),
        update("output", "a", &json!({"contents": [text("hi")]})),
        status("IDLE"),
    ];
    let outcomes: Vec<String> = runs(&lines(&events)).iter().map(outcome).collect();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes[0].starts_with("Failed: the workflow failed: ValueError"));
    assert_eq!(outcomes[1], "Success");
}

#[test]
fn a_source_of_endless_executors_costs_a_bounded_number_of_lanes() {
    let limits = Limits { sources: 4, ..Limits::default() };
    let mut events: Vec<serde_json::Value> = (0..20)
        .flat_map(|n| {
            let name = format!("agent-{n}");
            [
                crate::support::invoked(&name),
                update("output", &name, &json!({"contents": [text(&format!("{n};"))]})),
            ]
        })
        .collect();
    events.push(status("IDLE"));
    let run = &runs_with(Config { limits, ..Config::default() }, &lines(&events))[0];
    let opened = run.events.iter().filter(|event| matches!(event, BlockEvent::LaneOpened(_))).count();
    assert_eq!(opened, 4);
    let said: String = texts(&run.events, Channel::Answer).into_iter().map(|(_, text)| text).collect();
    assert_eq!(said.matches(';').count(), 20, "nobody's words are lost: {said}");
}

#[test]
fn a_turn_too_long_to_hold_is_told_all_the_same() {
    let limits = Limits { turn_bytes: 4, ..Limits::default() };
    let delta =
        |words: &str| json!({"event_class": "MagenticAgentDeltaEvent", "agent_id": "a", "text": words});
    let events = [
        delta("one "),
        delta("two three"),
        json!({"event_class": "MagenticAgentMessageEvent", "agent_id": "a", "message": {"contents": [text("one two three")]}}),
        json!({"event_class": "WorkflowStatusEvent", "state": "IDLE"}),
    ];
    let run = &runs_with(Config { limits, ..Config::default() }, &lines(&events))[0];
    assert_eq!(texts(&run.events, Channel::Intermediate), [("a".to_owned(), "one two three".to_owned())]);
}

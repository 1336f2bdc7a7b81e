//! Texts, seals and calls that are sent again: which of them add content, and to which block.

use super::*;
use crate::block::Thinking;

fn seal(value: &str) -> Update {
    let thought = Thinking { text: "".into(), encrypted: Some(Box::new(value.to_owned().into())) };
    Update::new(ContentBlock::Thinking(thought)).in_message("m")
}

/// Returns the lines of the trace but those of the run.
fn lines(updates: impl IntoIterator<Item = Update>) -> Vec<String> {
    let out = run(updates);
    trace(&out).lines().filter(|line| !line.starts_with("run ")).map(str::to_owned).collect()
}

/// Returns the number of tool calls that a run has.
fn calls(updates: impl IntoIterator<Item = Update>) -> usize {
    call_ids(&run(updates)).len()
}

#[test]
fn a_seal_of_an_open_thought_is_emitted_once_and_another_one_too() {
    let out = lines([thinking("m", "a"), seal("s"), seal("s"), seal(""), seal("t"), seal("t").snapshot()]);
    assert_eq!(
        out,
        [
            "think+ run/2 message=\"m\"",
            "think run/2 \"a\"",
            "seal  run/2 \"s\"",
            "seal  run/2 \"t\"",
            "think- run/2 closed"
        ]
    );
}

#[test]
fn a_thought_that_ended_takes_seals_but_no_more_words() {
    let out = lines([thinking("m", "a").last(), seal("s"), seal("t"), thinking("m", "b")]);
    assert_eq!(
        out,
        [
            "think+ run/2 message=\"m\"",
            "think run/2 \"a\"",
            "think- run/2 complete",
            "think+ run/3 continues=run/2 message=\"m\"",
            "seal  run/3 \"s\"",
            "seal  run/3 \"t\"",
            "think- run/3 interrupted",
            "think+ run/4 message=\"m\"",
            "think run/4 \"b\"",
            "think- run/4 closed"
        ]
    );
}

#[test]
fn an_empty_text_opens_no_block_however_it_is_sent() {
    assert_eq!(
        codes(&run([text("m", "").snapshot(), text("m", "").replace(), text("m", "").last()])),
        "RS RF"
    );
}

#[test]
fn white_space_extends_an_open_text_and_opens_none() {
    assert_eq!(deltas(&run([text("m", "a"), text("m", "a ").snapshot()]), SpanKind::Text), ["a", " "]);
    let ended = [text("m", "a"), tool("c", "t", "").last(), text("m", "a ").snapshot()];
    assert_eq!(codes(&run(ended)), "RS T+ T T- C+ C- RF");
    let continued = [text("m", "a"), tool("c", "t", "").last(), text("m", "a b").snapshot()];
    assert_eq!(deltas(&run(continued), SpanKind::Text), ["a", " b"]);
}

#[test]
fn a_whole_text_without_id_restates_the_open_text_of_its_kind_channel_and_track() {
    let whole = || Update::text("Hello world").snapshot();
    assert_eq!(said(&run([text("m", "Hello"), whole()])), "Hello world");
    assert_eq!(said(&run([text("m", "Hello").last(), whole()])), "Hello world");
    assert_eq!(said(&run([text("m", "Hello"), whole().intermediate()])), "HelloHello world");
    assert_eq!(said(&run([text("m", "Hello"), whole().on_track("x")])), "HelloHello world");
    assert_eq!(said(&run([text("m", "Hello").on_track("x").last(), whole()])), "HelloHello world");
    assert_eq!(said(&run([thinking("m", "Hello"), whole()])), "Hello world");
    let thought = Update::new(ContentBlock::thinking("Hello world")).snapshot();
    assert_eq!(deltas(&run([text("m", "Hello"), thought]), SpanKind::Thinking), ["Hello world"]);
}

#[test]
fn a_whole_text_without_id_that_differs_from_a_complete_one_is_a_message_of_its_own() {
    let out = lines([
        text("m", "Hello").last(),
        Update::text("Other").snapshot().last(),
        text("m", "Hello").snapshot().last(),
    ]);
    assert_eq!(
        out,
        [
            "text+ run/2 message=\"m\"",
            "text  run/2 \"Hello\"",
            "text- run/2 complete",
            "text+ run/3",
            "text  run/3 \"Other\"",
            "text- run/3 complete"
        ]
    );
}

#[test]
fn a_block_that_replaces_one_has_the_origin_of_its_own_update() {
    let out = lines([text("m", "Hello"), Update::text("Other").replace()]);
    assert_eq!(out[2..4], ["text- run/2 replaced", "text+ run/3 replaces=run/2"]);
}

#[test]
fn a_replaced_text_that_had_ended_interrupts_the_one_that_is_open() {
    let out = lines([text("m1", "a"), text("m2", "b"), text("m1", "x").replace()]);
    let ends: Vec<&String> = out.iter().filter(|line| line.starts_with("text-")).collect();
    assert_eq!(ends, ["text- run/2 interrupted", "text- run/3 interrupted", "text- run/4 closed"]);
}

#[test]
fn a_complete_call_is_restated_by_a_last_fragment_or_a_whole_one() {
    let call = || tool("c", "t", "{}").last();
    assert_eq!(calls([call(), call()]), 1);
    assert_eq!(calls([call(), tool("c", "t", "{}").snapshot()]), 1);
    assert_eq!(calls([call(), tool("c", "t", "{}")]), 2, "an appended fragment begins another call");
    assert_eq!(calls([call(), tool("c", "t", "")]), 1, "a name alone adds nothing");
}

#[test]
fn a_whole_call_without_id_restates_one_without_id_of_its_name_and_arguments() {
    for answered in [false, true] {
        let after = |call: Update, again: Update| {
            calls([call].into_iter().chain(answered.then(|| nameless_result(None, "r"))).chain([again]))
        };
        let ended = || nameless(Some("t"), "1").last();
        let whole = |name, arguments| nameless(Some(name), arguments).snapshot().last();
        assert_eq!(after(ended(), whole("t", "1")), 1, "answered: {answered}");
        assert_eq!(after(ended(), whole("t", "")), 1, "answered: {answered}");
        assert_eq!(after(ended(), whole("u", "1")), 2, "answered: {answered}");
        assert_eq!(after(ended(), whole("t", "2")), 2, "answered: {answered}");
        let with_id = || tool("c", "t", "1").last();
        assert_eq!(after(with_id(), whole("t", "1")), 2, "answered: {answered}");
    }
}

#[test]
fn a_whole_call_without_id_ends_the_open_one() {
    let out = lines([nameless(Some("t"), "1"), nameless(Some("t"), "1").snapshot().last()]);
    assert_eq!(out, ["tool+ run/2 \"t\"", "tool  run/2 \"1\"", "tool- run/2 complete"]);
}

#[test]
fn an_equal_result_of_an_unknown_call_is_a_result_of_its_own() {
    let codes_after = |second: Update| codes(&run([tool("c1", "t", "").last(), result("c1", "ok"), second]));
    let both = "RS C+ C- Cr C+ C- Cr RF";
    assert_eq!(codes_after(result("c2", "ok")), both);
    assert_eq!(codes_after(result("c2", "ok").snapshot()), both);
    assert_eq!(codes_after(nameless_result(None, "ok")), both);
    assert_eq!(codes_after(nameless_result(None, "ok").snapshot()), "RS C+ C- Cr RF");
}

//! Errors in a script are reported with their place; valid scripts are played.

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::testing::{run_to_end, trace};
use aqueduct_core::{
    Agent as _, BlockEvent, InterruptId, InterruptReply, MessageId, RunInput, RunOutcome, SourceEvent,
};
use futures_util::StreamExt as _;
use serde_json::json;

use super::{Position, Script, ScriptSource};

fn input(text: &str) -> RunInput {
    RunInput::prompt("thread", "run", text)
}

/// Returns the events of a source for one input.
async fn said(source: &ScriptSource, input: RunInput) -> Vec<SourceEvent> {
    source.run(AgentRequest::new(input)).collect().await
}

fn source(script: &str) -> ScriptSource {
    ScriptSource::new(Arc::new(Script::parse(script).unwrap()))
}

/// Returns the balanced stream of a script.
async fn played(script: &str, input: RunInput) -> Vec<BlockEvent> {
    run_to_end(said(&source(script), input).await)
}

async fn text_of(script: &str, input: RunInput) -> String {
    let events = played(script, input).await;
    let deltas = events.iter().filter_map(|event| match event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    });
    deltas.collect()
}

#[test]
fn what_is_wrong_is_told_with_line_and_key() {
    for (script, place, words) in [
        ("[[step]]\n", "1:1: `step[1]`", "expected exactly one of text, thinking"),
        ("[[step]]\ntext = \"a\"\nfail = \"b\"\n", "`step[1]`", "found text and fail"),
        ("[[step]]\ntext = \"a\"\npace = \"soon\"\n", "3:8: `step[1].pace`", "expected a duration"),
        ("[[step]]\ntext = \"a\"\nspeed = 1\n", "3:1: `step[1].speed`", "no such key; expected one of text"),
        (
            "[[step]]\ntext = 1\n",
            "2:8: `step[1].text`",
            "expected text, or a list of texts, found a whole number",
        ),
        ("[[step]]\ntext = [1]\n", "2:9: `step[1].text`", "expected a list of texts, found 1"),
        (
            "[[rule]]\nmatch = { txt = \"a\" }\n",
            "2:11: `rule[1].match.txt`",
            "expected one of text, message_id",
        ),
        ("[[rule]]\nmatch = 1\n", "2:9: `rule[1].match`", "expected a table"),
        ("[[rule]]\n[[rule]]\n", "`rule[2]`", "is never played"),
        ("[[rule]]\n[[rule.step]]\nclose = \"x\"\n", "3:9: `rule[1].step[1].close`", "`success`, `failed`"),
        ("[[step]]\nfile = { name = \"a\" }\n", "2:8: `step[1].file`", "`url` or `data`"),
        ("[[step]]\ncustom = { name = \"a\" }\n", "2:10: `step[1].custom`", "needs `value`"),
        (
            "[[rule]]\n[[rule]]\nmatch.text = \"a\"\n[[rule]]\nmatch.text = \"b\"\n",
            "`rule[3]`",
            "is never played: rule[1] has no `match`",
        ),
        ("[[rule]]\n[[step]]\ntext = \"a\"\n", "`step[1]`", "is never played: rule[1]"),
        (
            "[[step]]\nartifact = \"a\"\ndata = 1\nappend = false\n",
            "`step[1].append`",
            "needs `text` or `burst`",
        ),
        (
            "[[step]]\nartifact = \"a\"\nfile = { url = \"x:y\" }\nlast = false\n",
            "`step[1].last`",
            "needs `text` or `burst`",
        ),
        ("[[step]]\ntext = \"a\"\nlast = true\n", "3:8: `step[1].last`", "needs `artifact`"),
        ("[[step]]\nask = \"a\"\nartifact = \"b\"\n", "`step[1].artifact`", "needs `text` or `file`"),
        ("[[step]]\ntext = \"a\"\nresult = \"b\"\n", "3:10: `step[1].result`", "needs `tool`"),
        ("[[step]]\ntext = \"a\"\n[[step]]\nmessage = \"b\"\n", "`step[2].message`", "as the first step"),
        ("[[step]]\ncut = false\n", "2:7: `step[1].cut`", "expected `true`"),
        ("step = 1\n", "1:8: `step`", "expected tables"),
        ("[[step]\n", "1:8", "not TOML"),
    ] {
        let errors = Script::read(Path::new("x.toml"), script).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let told = told.join("\n");
        assert!(
            told.starts_with("x.toml:") && told.contains(place) && told.contains(words),
            "{script}\n{told}"
        );
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    let script = "colour = 1\n[[step]]\ntext = 1\n[[step]]\nsleep = 2\n";
    assert_eq!(Script::read(Path::new("x"), script).unwrap_err().len(), 3);
}

const RULES: &str = r#"
[[rule]]
match = { text = "rain*oslo" }
[[rule.step]]
text = "wet"

[[rule]]
match = { message_id_prefix = "tck-a" }
[[rule.step]]
text = "by id"

[[step]]
text = "else: {prompt}"
"#;

#[tokio::test]
async fn the_first_rule_that_fits_is_played() {
    assert_eq!(text_of(RULES, input("Rain in Oslo?")).await, "wet");
    assert_eq!(text_of(RULES, input("Sun?")).await, "else: Sun?");
    let mut by_id = input("Sun?");
    by_id.messages[0].id = Some(MessageId::from("tck-a-001"));
    assert_eq!(text_of(RULES, by_id).await, "by id");
}

#[tokio::test]
async fn without_a_rule_that_fits_the_run_fails_and_says_so() {
    let events = played("[[rule]]\nmatch.text = \"x\"\n[[rule.step]]\ntext = \"y\"\n", input("z")).await;
    let Some(BlockEvent::RunFailed(end)) = events.last() else { panic!("{events:?}") };
    assert_eq!(&*end.failure.code, "no_rule");
}

const QUESTION: &str = r#"
[[rule]]
match.text = "book"
[[rule.step]]
text = "Two trains."
[[rule.step]]
ask = "Which?"
[[rule.step]]
text = "Done: {answer}."
[[rule.step]]
auth = "Pay?"
[[rule.step]]
text = "Paid."

[[step]]
text = "no"
"#;

fn asked(events: &[SourceEvent]) -> InterruptReply {
    let id = events.iter().find_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(interrupt.id.clone()),
        _ => None,
    });
    let interrupted = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
    assert_eq!(events.last(), Some(&interrupted));
    InterruptReply { id: id.unwrap(), resolved: true, payload: Some(json!("early")) }
}

fn texts(events: Vec<SourceEvent>) -> String {
    let all = run_to_end(events).into_iter().filter_map(|event| match event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    });
    all.collect()
}

#[tokio::test]
async fn a_follow_up_plays_on_after_the_question() {
    let first = source(QUESTION);
    let reply = asked(&said(&first, input("book a train")).await);
    let mut follow_up = input("book a train");
    follow_up.resume = vec![reply];
    // Another replica can continue, and so can this one.
    for player in [source(QUESTION), first] {
        let events = said(&player, follow_up.clone()).await;
        let mut last = input("");
        last.resume = vec![asked(&events)];
        assert_eq!(texts(events), "Done: early.");
        assert_eq!(texts(said(&player, last).await), "Paid.");
    }
}

#[tokio::test]
async fn a_follow_up_without_the_questions_id_plays_on_too() {
    let player = source(QUESTION);
    asked(&said(&player, input("book a train")).await);
    let events = said(&player, input("the late one")).await;
    assert_eq!(texts(events), "Done: the late one.");
    // A thread without an interrupt begins again.
    let mut other = input("hello");
    other.thread_id = "other".into();
    assert_eq!(texts(said(&player, other).await), "no");
}

#[test]
fn a_position_comes_back_out_of_its_questions_id() {
    let position = Position { rule: 3, step: 12 };
    assert_eq!(Position::of_interrupt(&position.interrupt_id(&"a/b".into())), Some(position));
    for foreign in ["", "x", "run/ask/1/x", "run/asked/1/2", "1/2"] {
        assert_eq!(Position::of_interrupt(&InterruptId::from(foreign)), None, "{foreign}");
    }
}

#[tokio::test(start_paused = true)]
async fn artifacts_interleave_and_are_replaced() {
    let script = r#"
[[step]]
artifact = "a"
text = ["one ", "two "]
last = false
[[step]]
artifact = "b"
text = "other"
[[step]]
artifact = "a"
text = "three"
pace = "10s"
[[step]]
artifact = "b"
text = "instead"
append = false
[[step]]
artifact = "c"
file = { data = "aGk=", mediaType = "text/plain", name = "c.txt" }
"#;
    let events = played(script, input("")).await;
    let shown = trace(&events);
    for part in ["one ", "two ", "three", "other", "instead", "aqueduct.file"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let starts = events.iter().filter(|event| matches!(event, BlockEvent::BlockStarted(_))).count();
    assert_eq!(starts, 3, "a is one block, b and what takes its place are two: {shown}");
}

#[tokio::test]
async fn a_burst_replaces_its_artifact() {
    let first = "[[step]]\nartifact = \"a\"\ntext = \"first\"\nlast = false\n";
    for (append, blocks) in [(true, 1), (false, 2)] {
        let script = format!("{first}[[step]]\nartifact = \"a\"\nburst = 3\nappend = {append}\n");
        let events = played(&script, input("")).await;
        let starts = events.iter().filter(|event| matches!(event, BlockEvent::BlockStarted(_))).count();
        assert_eq!(starts, blocks, "append = {append}: {}", trace(&events));
    }
}

#[tokio::test]
async fn every_end_is_told_as_what_it_is() {
    for (step, code) in [
        ("fail = \"broke\"", "agent_failed"),
        ("reject = \"no\"", "agent_rejected"),
        ("raise = \"KeyError\"", "upstream_ended"),
        ("cut = true", "script_cut"),
    ] {
        let script = format!("[[step]]\ntext = \"half\"\n[[step]]\n{step}\n[[step]]\ntext = \"never\"\n");
        let events = played(&script, input("")).await;
        let Some(BlockEvent::RunFailed(end)) = events.last() else { panic!("{events:?}") };
        assert_eq!(&*end.failure.code, code);
        assert!(!trace(&events).contains("never"));
    }
    for (step, outcome) in
        [("end = \"success\"", RunOutcome::Success), ("end = \"cancelled\"", RunOutcome::Cancelled)]
    {
        let events = played(&format!("[[step]]\n{step}\n"), input("")).await;
        let Some(BlockEvent::RunFinished(end)) = events.last() else { panic!("{events:?}") };
        assert_eq!(end.outcome, outcome);
    }
}

#[tokio::test]
async fn a_burst_loses_nothing_and_calls_are_told_apart() {
    assert_eq!(
        text_of("[[step]]\nburst = 500\ntext = \"{n},\"\n", input("")).await.matches(',').count(),
        500
    );
    let call = "[[step]]\ntool = \"t\"\narguments = \"{}\"\nresult = \"r\"\n";
    let events = played(&call.repeat(2), input("")).await;
    let results = events.iter().filter(|event| matches!(event, BlockEvent::ToolResult(_))).count();
    assert_eq!(results, 2, "the same call twice is two calls");
}

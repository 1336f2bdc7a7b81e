//! What is known, what is new, and what only looks alike.

use crate::block::{ToolResult, ToolUse};
use crate::testing::run_to_end;
use crate::{Channel, Mode, RunOutcome};
use serde_json::json;

use super::*;

fn is_generated(id: &str) -> bool {
    id.contains('#')
}

/// What the log has after these events, while the run goes on.
fn history(events: impl IntoIterator<Item = Update>) -> History {
    let mut log = run_to_end(
        events
            .into_iter()
            .map(SourceEvent::from)
            .chain([SourceEvent::Finished { outcome: RunOutcome::Success, result: None }]),
    );
    log.pop();
    let mut history = History::default();
    for event in &log {
        history.handle_event(event);
    }
    history
}

fn left(known: impl IntoIterator<Item = Update>, restated: impl IntoIterator<Item = Update>) -> Vec<Update> {
    let restated = restated.into_iter().map(SourceEvent::from).collect();
    let (rest, _) = history(known).deduplicate(restated, is_generated);
    let update = |event| match event {
        SourceEvent::Update(update) => update,
        other => panic!("{other:?}"),
    };
    rest.into_iter().map(update).collect()
}

fn text(id: &str, text: &str) -> Update {
    Update::text(text.to_owned()).in_message(id.to_owned())
}

fn call(id: &str, name: &str) -> Update {
    let tool = ToolUse {
        id: Some(ToolCallId::new(id.to_owned())),
        name: Some(name.to_owned().into()),
        arguments: "{}".into(),
    };
    Update::new(ContentBlock::from(tool)).last()
}

fn texts(updates: &[Update]) -> Vec<(String, Mode)> {
    let word = |update: &Update| match &update.block {
        ContentBlock::Text(part) => (part.text.to_string(), update.mode),
        other => panic!("{other:?}"),
    };
    updates.iter().map(word).collect()
}

fn added(text: &str) -> (String, Mode) {
    (text.to_owned(), Mode::Append)
}

#[test]
fn what_is_longer_adds_its_rest_piece_by_piece() {
    let restated = || [text("a", "Hel"), text("a", "lo wo"), text("b", "new"), text("a", "rld")];
    let rest = left([text("a", "Hello"), text("a", " ")], restated());
    assert_eq!(texts(&rest), [added("wo"), added("new"), added("rld")]);
    assert_eq!(left([text("a", "Hello world"), text("b", "new")], restated()), []);
}

#[test]
fn the_end_of_a_message_is_told_also_if_its_words_are_known() {
    let rest = left([text("a", "Hello")], [text("a", "Hello").last()]);
    assert_eq!(texts(&rest), [added("")]);
    assert!(rest[0].last);
}

#[test]
fn what_differs_replaces_and_what_is_behind_adds_nothing() {
    let rest = left([text("a", "Helo")], [text("a", "Hel"), text("a", "lo")]);
    assert_eq!(texts(&rest), [("Hello".to_owned(), Mode::Replace)]);
    assert_eq!(left([text("a", "Hello world")], [text("a", "Hello")]), []);
    let known = [text("a", "draft"), text("a", "final").replace()];
    assert_eq!(left(known, [text("a", "draft"), text("a", "final").replace()]), []);
}

#[test]
fn channels_and_kinds_are_told_apart() {
    let known = [text("a", "x").intermediate()];
    let rest = left(known, [text("a", "x").intermediate(), text("a", "x")]);
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].channel, Channel::Answer);
}

#[test]
fn a_counted_id_is_known_by_its_words_and_only_so_often() {
    let rest =
        left([text("s#1", "Wait.").last()], [text("s#2", "Wait.").last(), text("s#3", "Wait.").last()]);
    let restated: Vec<_> = texts(&rest).into_iter().filter(|(text, _)| !text.is_empty()).collect();
    assert_eq!(restated, [added("Wait.")], "one occurrence is logged, the other is new");
    let rest = left([text("m1", "Wait.").last()], [text("m2", "Wait.").last()]);
    assert_eq!(texts(&rest), [added("Wait.")], "an id of the agent's own is another message");
}

#[test]
fn a_call_with_a_counted_id_is_led_back_with_its_result() {
    let known = history([call("m#1", "search")]);
    let result = Update::new(ContentBlock::from(ToolResult {
        id: Some("m#7".into()),
        name: None,
        output: ToolOutput::Text("found".into()),
        is_error: false,
    }));
    let (rest, renamed) =
        known.deduplicate(vec![call("m#7", "search").into(), result.clone().into()], is_generated);
    let ids = |event: &SourceEvent| match event {
        SourceEvent::Update(Update { block: ContentBlock::ToolUse(tool), .. }) => tool.id.clone(),
        SourceEvent::Update(Update { block: ContentBlock::ToolResult(result), .. }) => result.id.clone(),
        other => panic!("{other:?}"),
    };
    assert!(rest.iter().all(|event| ids(event) == Some("m#1".into())), "{rest:?}");
    let mut later = SourceEvent::from(result);
    renamed.rewrite(&mut later);
    assert_eq!(ids(&later), Some("m#1".into()), "also when it comes later");
}

#[test]
fn content_is_known_as_often_as_it_was_said() {
    let data = |n: u32| Update::new(ContentBlock::custom(wellknown::DATA, json!({ "n": n })));
    let rest = left([data(1), data(2)], [data(1), data(1), data(2), data(3)]);
    assert_eq!(rest, [data(1), data(3)]);
}

//! The text output of runs.

use aqueduct_core::testing::run_context;
use aqueduct_core::{ContentBlock, RunInfo, RunOutcome, Source, SourceEvent, StreamContext, Update};

use super::*;

fn lane(name: &str, block: ContentBlock) -> SourceEvent {
    Update::new(block).from_source(&Source::root().child(name.to_owned())).into()
}

fn text(name: &str, words: &str) -> SourceEvent {
    lane(name, ContentBlock::text(words.to_owned()))
}

fn finished() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

fn shown(events: impl IntoIterator<Item = SourceEvent>, colours: bool) -> String {
    let context = StreamContext::new(RunInfo::new("t", "r"));
    let mut screen = Screen::new(Style { colours, width: 0 });
    let mut out = Vec::new();
    for event in run_context(context, events) {
        screen.show(&event, Instant::now(), &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn lanes_that_speak_at_once_are_read_line_by_line() {
    let words: Vec<String> = (0..60).map(|number| format!("word{number} ")).collect();
    let events = words.iter().flat_map(|word| [text("a", word), text("b", word)]);
    let all = shown(events.chain([finished()]), false);
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines.len() < 25, "{} lines for 120 words:\n{all}", lines.len());
    // No text is lost, and the words of each agent are in order.
    for agent in ["[a] ", "[b] "] {
        let said: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(agent)).collect();
        let said = said
            .join(" ")
            .split_whitespace()
            .filter(|word| word.starts_with("word"))
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(said, words.concat().trim_end(), "{agent}\n{all}");
    }
}

/// No line is interrupted by another agent; the output of others comes between two lines.
#[tokio::test]
async fn no_line_is_cut_for_another_agent() {
    let result = lane("b", ContentBlock::tool_result("c", "found"));
    let call = lane("b", ContentBlock::tool_use("c", "search", "{}"));
    let all = shown(
        [
            text("a", "One sentence "),
            call,
            result,
            text("b", "Other words.\n"),
            text("a", "on one line.\n"),
            text("a", "And a second."),
            finished(),
        ],
        false,
    );
    let lines: Vec<&str> = all.lines().collect();
    let place =
        |line: &str| lines.iter().position(|shown| *shown == line).unwrap_or_else(|| panic!("{line}: {all}"));
    assert!(place("[a] One sentence on one line.") < place("[b] → search {}"), "{all}");
    assert!(
        place("[b] → search {}") < place("[b] ← found") && place("[b] ← found") < place("[b] Other words."),
        "{all}"
    );
    assert!(place("[b] Other words.") < place("[a] And a second."), "{all}");
}

#[tokio::test]
async fn one_who_speaks_alone_is_shown_word_by_word() {
    let context = StreamContext::new(RunInfo::new("t", "r"));
    let mut screen = Screen::new(Style::default());
    let mut seen = Vec::new();
    for event in
        run_context(context, [Update::text("one ").into(), Update::text("two").last().into(), finished()])
    {
        let mut out = Vec::new();
        screen.show(&event, Instant::now(), &mut out).unwrap();
        seen.push(String::from_utf8(out).unwrap());
    }
    assert_eq!(seen.concat(), "one two\n");
    assert!(seen.contains(&"one".to_owned()), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_heard_when_the_speaker_pauses() {
    let context = StreamContext::new(RunInfo::new("t", "r"));
    let mut screen = Screen::new(Style::default());
    let mut out = Vec::new();
    let events = run_context(context, [text("a", "first "), text("b", "second "), finished()]);
    let deltas = events.iter().filter(|event| matches!(event, BlockEvent::BlockDelta { .. }));
    for event in deltas {
        screen.show(event, Instant::now(), &mut out).unwrap();
    }
    let due = screen.due().unwrap();
    screen.handle_pause(Instant::now(), &mut out).unwrap();
    assert!(!String::from_utf8_lossy(&out).contains("second"));
    tokio::time::sleep_until(due).await;
    screen.handle_pause(Instant::now(), &mut out).unwrap();
    assert!(String::from_utf8_lossy(&out).ends_with("[a] first\n[b] second\n"));
    assert_eq!(screen.due(), None);
}

#[tokio::test]
async fn what_an_agent_said_comes_before_what_it_does() {
    let close = |name: &str| SourceEvent::LaneClosed {
        source: Source::root().child(name.to_owned()),
        outcome: LaneOutcome::Success(None),
    };
    let all = shown([text("a", "x"), text("b", "y"), close("b"), close("a"), finished()], false);
    let place = |words: &str| all.find(words).unwrap_or_else(|| panic!("{words}: {all}"));
    assert!(place("[b] y") < place("[b] is done"), "{all}");
    assert!(place("[a] x") < place("[a] is done"), "{all}");
}

#[tokio::test]
async fn a_call_without_arguments_is_shown_whoever_speaks() {
    let call = |name: &str| lane(name, ContentBlock::tool_use("c", "search", ""));
    let alone = shown([call("a"), finished()], false);
    assert!(alone.contains("[a] → search"), "{alone}");
    let beside = shown([text("b", "words "), call("a"), text("b", "more"), finished()], false);
    assert!(beside.contains("[a] → search") && beside.contains("[b] words more"), "{beside}");
}

#[tokio::test]
async fn thinking_is_dimmed_and_tools_are_shown_on_terminals_alone() {
    let events = || {
        [
            Update::new(ContentBlock::thinking("hm")).last().into(),
            Update::new(ContentBlock::tool_use("c", "search", "{}")).last().into(),
            Update::new(ContentBlock::tool_result("c", "found\u{1b}[2J")).into(),
            Update::text("done").last().into(),
            finished(),
        ]
    };
    let coloured = shown(events(), true);
    assert!(coloured.contains("\u{1b}[2mhm\u{1b}[0m"), "{coloured:?}");
    assert!(!coloured.contains("\u{1b}[2J"), "an agent cannot steer the terminal");
    let plain = shown(events(), false);
    assert_eq!(plain, "hm\n→ search {}\n← found[2J\ndone\n");
}

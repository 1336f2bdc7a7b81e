//! Every named scenario of the stream machine in every dialect and setting: no rule is broken, the client ends up with
//! what was said, and what was encoded is read back to the same.

use crate::support::fold::{Client, fold};
use aqueduct_adapter_agui::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::View;
use aqueduct_adapter_agui::decode::Decoder;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::fold::Fold;
use aqueduct_adapter_agui::verify::{Level, verify, verify_sse};
use aqueduct_adapter_agui::wire::{Event, MessagesSnapshot, StateSnapshot};
use aqueduct_core::testing::{run_context, run_to_end, scenarios};
use aqueduct_core::{BlockEvent, IntermediateView, RunInfo, SpanKind, StreamContext};

fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        for subagents in [Subagents::Attributed, Subagents::Inline, Subagents::Tool, Subagents::Hidden] {
            for view in [IntermediateView::Reasoning, IntermediateView::Text, IntermediateView::Hidden] {
                for interrupts in [Interrupts::Interrupt, Interrupts::Text] {
                    let settings = Settings::new(dialect).with_subagents(subagents);
                    all.push(settings.with_intermediate(view).with_interrupts(interrupts));
                }
            }
        }
    }
    all
}

fn converted(events: &[BlockEvent], settings: Settings) -> Vec<Event> {
    let (mut view, mut out) = (View::new(&settings), Vec::new());
    for event in events {
        view.convert(event, &mut out);
    }
    out
}

#[test]
fn no_rule_is_broken_in_any_setting() {
    for (name, events) in scenarios() {
        let balanced = run_to_end(events);
        for settings in all_settings() {
            let out = converted(&balanced, settings);
            let mut bytes = Vec::new();
            for event in &out {
                encode::sse(event, None, &mut bytes).unwrap();
            }
            assert_eq!(verify_sse(&bytes, settings.dialect, Level::Strict), [], "{name} {settings:?}");
            assert_eq!(verify(&out, settings.dialect, Level::Strict), [], "{name} {settings:?}");
        }
    }
}

/// A thread that is restated: the run's first and last event with snapshots in between.
fn restated(out: &[Event], settings: Settings) -> Vec<Event> {
    let mut held = Fold::new();
    for event in out {
        held.handle_event(event);
    }
    let messages = held.messages(settings.dialect);
    let snapshot = held.state().clone();
    vec![
        out.first().unwrap().clone(),
        Event::MessagesSnapshot(MessagesSnapshot { messages, ..MessagesSnapshot::default() }),
        Event::StateSnapshot(StateSnapshot { snapshot, ..StateSnapshot::default() }),
        out.last().unwrap().clone(),
    ]
}

#[test]
fn a_restated_run_breaks_no_rule_and_leaves_the_client_with_the_same() {
    for (name, events) in scenarios() {
        let balanced = run_to_end(events);
        for settings in all_settings() {
            let out = converted(&balanced, settings);
            let short = restated(&out, settings);
            assert_eq!(verify(&short, settings.dialect, Level::Strict), [], "{name} {settings:?}");
            let (whole, folded) = (fold(&out), fold(&short));
            // Names, tags and seals stand in the restated messages, where this reference does not look for them.
            let plain = |client: &Client| -> Vec<_> {
                let messages = client.messages.iter();
                messages
                    .map(|m| {
                        (m.id.clone(), m.role.clone(), m.content.clone(), m.calls.clone(), m.card.clone())
                    })
                    .collect()
            };
            assert_eq!(plain(&folded), plain(&whole), "{name} {settings:?}");
            assert_eq!(
                (folded.state, folded.interrupts),
                (whole.state, whole.interrupts),
                "{name} {settings:?}"
            );
            assert_eq!(restated(&short, settings)[1], short[1], "{name} {settings:?}");
        }
    }
}

#[test]
fn the_oldest_messages_go_first() {
    let (_, events) = scenarios().into_iter().find(|(name, _)| *name == "tool").unwrap();
    let mut held = Fold::new();
    let settings = Settings::new(Dialect::V1_0);
    for event in converted(&run_to_end(events), settings) {
        held.handle_event(&event);
    }
    let whole = held.messages(settings.dialect);
    assert_eq!(held.shorten(usize::MAX), 0);
    assert_eq!(held.shorten(300), whole.len() - held.messages(settings.dialect).len());
    assert!(whole.ends_with(&held.messages(settings.dialect)));
    held.shorten(0);
    assert_eq!(held.messages(settings.dialect), []);
}

/// What was said, by block, in the order of the starts.
fn said(events: &[BlockEvent], kind: SpanKind) -> Vec<String> {
    let mut blocks = Vec::new();
    for event in events {
        match event {
            BlockEvent::BlockStarted(head) if head.kind == kind => {
                blocks.push((head.id.clone(), String::new()));
            }
            BlockEvent::BlockDelta { block, delta } if block.kind == kind => {
                blocks.iter_mut().find(|(id, _)| *id == block.id).unwrap().1.push_str(delta);
            }
            _ => {}
        }
    }
    blocks.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn the_client_ends_up_with_what_was_said() {
    for (name, events) in scenarios() {
        let balanced = run_to_end(events);
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let settings = Settings::new(dialect)
                .with_subagents(Subagents::Attributed)
                .with_errors(Errors::Error)
                .with_intermediate(IntermediateView::Text)
                .with_interrupts(Interrupts::Interrupt);
            let client = fold(&converted(&balanced, settings));
            let texts = |client: &Client| -> Vec<String> {
                let text = |role: &str| ["assistant", "user", "system", "developer"].contains(&role);
                let shown = client.messages.iter().filter(|m| text(&m.role) && !m.content.is_empty());
                shown.map(|message| message.content.clone()).collect()
            };
            let sorted = |mut all: Vec<String>| {
                all.sort();
                all
            };
            assert_eq!(sorted(texts(&client)), sorted(said(&balanced, SpanKind::Text)), "{name}");
            let thoughts = said(&balanced, SpanKind::Thinking).into_iter().filter(|text| !text.is_empty());
            assert_eq!(client.said("reasoning"), thoughts.collect::<Vec<_>>(), "{name}");
            let arguments: Vec<_> = client.called().into_iter().map(|(_, arguments)| arguments).collect();
            assert_eq!(sorted(arguments), sorted(said(&balanced, SpanKind::ToolUse)), "{name}");
        }
    }
}

#[test]
fn our_own_output_is_read_back_to_the_same() {
    for (name, events) in scenarios() {
        let settings = Settings::new(Dialect::V1_0);
        let out = converted(&run_to_end(events), settings);
        let mut decoder = Decoder::new();
        let mut again = Vec::new();
        for event in out.clone() {
            decoder.handle_event(event).unwrap();
            again.extend(std::iter::from_fn(|| decoder.poll_event()));
        }
        let second = run_context(StreamContext::new(RunInfo::new("thread", "again")), again);
        let second = converted(&second, settings);
        assert_eq!(verify(&second, Dialect::V1_0, Level::Strict), [], "{name}");
        let (before, after) = (fold(&out), fold(&second));
        for role in ["assistant", "user", "reasoning", "tool"] {
            assert_eq!(after.said(role), before.said(role), "{name}: {role}");
        }
        assert_eq!(after.called(), before.called(), "{name}");
        assert_eq!(after.cards(), before.cards(), "{name}");
        assert_eq!(after.state, before.state, "{name}");
        assert_eq!(after.error, before.error, "{name}");
        assert_eq!(after.interrupts, before.interrupts, "{name}");
        assert_eq!(after.finished, before.finished, "{name}");
        let sealed =
            |client: &Client| client.messages.iter().filter_map(|m| m.sealed.clone()).collect::<Vec<_>>();
        assert_eq!(sealed(&after), sealed(&before), "{name}");
    }
}

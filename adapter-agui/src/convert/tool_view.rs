//! [`View`]: the converters for one reader, with the state that [`Subagents::Tool`] needs in addition.
//!
//! | of a sub-agent | with [`Subagents::Tool`] |
//! |---|---|
//! | opened by a tool call of its parent | nothing: that call shows its input and its answer |
//! | opened otherwise | a call named after the agent (`a › b` for a sub-agent `b` of `a`), with its input |
//! | text on the answer channel | a text, streamed, after the agent's name |
//! | other text | only in the result |
//! | thinking | thinking that starts with the agent's name |
//! | tool calls | calls named `agent › tool` |
//! | succeeds | the call's result: the agent's value, or all its texts |
//! | waits for a reply | a note in the call's result |
//! | fails | the call's result, marked as an error, after the texts so far; a text if failures are shown as text |
//! | state, cards, other content | the same, without tag |
//!
//! Converters, which keep no state, do all of it except for the texts in results. The view holds those texts: for a reader
//! that starts in the middle of a run the earlier events must be passed to [`View::skip`], otherwise its results contain
//! only the rest.
//!
//! Invariants: the output is balanced if the input is; held text is bounded by [`MAX_HELD`] per open sub-agent.

use std::collections::HashMap;

use aqueduct_core::{BlockEvent, BlockId, ByteString, ConverterSet, LaneId, SpanKind};

use super::converters;
use super::show::META_IS_ERROR;
use crate::config::{Settings, Subagents};
use crate::wire::{Content, Event, ToolCallResult};

/// The most bytes of a sub-agent's texts that are held for its result; the rest is cut off.
const MAX_HELD: usize = 1 << 20;

/// The separator between the texts of a sub-agent.
const GAP: &str = "\n\n";

/// Converts canonical events for one reader.
#[derive(Debug)]
pub struct View {
    converters: ConverterSet<Event>,
    held: Option<Held>,
}

impl View {
    /// Returns a view with these settings.
    pub fn new(settings: &Settings) -> Self {
        let held = (settings.subagents == Subagents::Tool).then(Held::default);
        Self { converters: converters(settings), held }
    }

    /// Returns a view with these converters and without state.
    pub fn from_converters(converters: ConverterSet<Event>) -> Self {
        Self { converters, held: None }
    }

    /// Appends the AG-UI events for `event`.
    pub fn convert(&mut self, event: &BlockEvent, out: &mut Vec<Event>) {
        let start = out.len();
        self.converters.convert(event, out);
        let Some(held) = &mut self.held else { return };
        match (event, out.get_mut(start + 1)) {
            (BlockEvent::LaneClosed { lane, .. }, Some(Event::ToolCallResult(result))) => {
                held.write_result(&lane.id, result);
            }
            _ => held.note(event),
        }
    }

    /// Returns `true` if the output for an event depends on earlier events of the run.
    pub fn has_state(&self) -> bool {
        self.held.is_some()
    }

    /// Updates the state with an event that the reader has already received.
    pub fn skip(&mut self, event: &BlockEvent) {
        if let Some(held) = &mut self.held {
            held.note(event);
        }
    }
}

/// The texts of the open sub-agents, each with the block that is being appended.
#[derive(Debug, Default)]
struct Held(HashMap<LaneId, (Option<BlockId>, String)>);

impl Held {
    /// Collects the text of sub-agents.
    fn note(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::BlockDelta { block, delta }
                if block.kind == SpanKind::Text && !block.lane.is_root() =>
            {
                let (last, text) = self.0.entry(block.lane.id.clone()).or_default();
                if last.as_ref() != Some(&block.id) {
                    *last = Some(block.id.clone());
                    if !text.is_empty() {
                        text.push_str(GAP);
                    }
                }
                let room = MAX_HELD.saturating_sub(text.len()).min(delta.len());
                let room = (0..=room).rev().find(|at| delta.is_char_boundary(*at)).unwrap_or(0);
                text.push_str(delta.get(..room).unwrap_or_default());
            }
            BlockEvent::LaneClosed { lane, .. } => drop(self.0.remove(&lane.id)),
            _ => {}
        }
    }

    /// Fills the collected text of a lane into its empty result.
    fn write_result(&mut self, lane: &LaneId, result: &mut ToolCallResult) {
        let Some((_, text)) = self.0.remove(lane) else { return };
        let is_error = result.base.metadata().is_some_and(|metadata| metadata.contains_key(META_IS_ERROR));
        if let Content::Text(content) = &mut result.content {
            if content.is_empty() {
                *content = ByteString::from(text);
            } else if is_error {
                *content = ByteString::from(format!("{text}{GAP}{content}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::testing::{run_to_end, scenarios};
    use aqueduct_core::{ContentBlock, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent, Update};

    use super::*;
    use crate::config::{Dialect, Settings, Subagents};
    use crate::verify::{Level, verify};

    fn viewed(events: Vec<SourceEvent>, dialect: Dialect) -> Vec<Event> {
        let mut view = View::new(&Settings::new(dialect).with_subagents(Subagents::Tool));
        let mut out = Vec::new();
        for event in &run_to_end(events) {
            view.convert(event, &mut out);
        }
        out
    }

    fn agent() -> Source {
        Source::root().child("a").named("researcher").described("Find it.")
    }

    fn of_agent(block: ContentBlock, message: &str) -> SourceEvent {
        Update::new(block).from_source(&agent()).in_message(message).into()
    }

    fn intermediate(text: &str, message: &str) -> SourceEvent {
        let update = Update::text(text).from_source(&agent()).in_message(message);
        Update { channel: aqueduct_core::Channel::Intermediate, ..update }.into()
    }

    fn kinds(events: &[Event]) -> Vec<&str> {
        events.iter().map(Event::kind).collect()
    }

    #[test]
    fn a_sub_agent_is_a_call_with_its_answer_as_result() {
        let out = viewed(
            vec![
                SourceEvent::LaneOpened(agent()),
                intermediate("Looking.", "m1"),
                intermediate("Found ", "m2"),
                intermediate("it.", "m2"),
                SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
                Update::text("Done.").into(),
                SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
            ],
            Dialect::V0_0_59,
        );
        let call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"];
        assert_eq!(kinds(&out)[1..5], call, "{out:#?}");
        assert!(matches!(&out[1], Event::ToolCallStart(start) if start.tool_call_name == "researcher"));
        assert!(matches!(&out[2], Event::ToolCallArgs(args) if args.delta == r#"{"input":"Find it."}"#));
        let Event::ToolCallResult(result) = &out[4] else { panic!() };
        assert_eq!(result.content, Content::Text("Looking.\n\nFound it.".into()));
        assert!(out.iter().all(|event| event.subagent_run_id().is_none()));
    }

    #[test]
    fn a_failure_is_a_failed_result_and_an_answer_is_never_lost() {
        let failed = LaneOutcome::Failed(RunFailure::new("e", "no way"));
        let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
        let lane = |outcome| {
            let text = of_agent(ContentBlock::text("Found it."), "m");
            vec![text, SourceEvent::LaneClosed { source: agent(), outcome }, end.clone()]
        };
        let out = viewed(lane(failed), Dialect::V1_0);
        let result = out.iter().find_map(|event| match event {
            Event::ToolCallResult(result) => Some(result),
            _ => None,
        });
        let result = result.unwrap();
        assert_eq!(result.content, Content::Text("Found it.\n\nno way".into()));
        assert_eq!(result.base.metadata().unwrap()[META_IS_ERROR], true);
        // What a sub-agent says as the run's answer is shown as it comes, behind its name.
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let out = viewed(lane(LaneOutcome::Success(None)), dialect);
            let said = if dialect == Dialect::V1_0 { "Found it." } else { "**researcher:** Found it." };
            assert_eq!(
                (texts(&out).concat(), results(&out)),
                (said.to_owned(), vec!["Found it.".to_owned()])
            );
        }
    }

    #[test]
    fn the_work_of_a_sub_agent_is_shown_under_its_name() {
        let checker = agent().child("b").named("checker");
        let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
        let out = viewed(
            vec![
                of_agent(ContentBlock::thinking("hm"), "t"),
                of_agent(ContentBlock::tool_use("c", "search", "{}"), "c"),
                of_agent(ContentBlock::tool_result("c", "42"), "r"),
                Update::text("Right.").from_source(&checker).into(),
                SourceEvent::LaneClosed { source: checker, outcome: LaneOutcome::Success(None) },
                SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Suspended },
                Update::text("Done.").into(),
                end,
            ],
            Dialect::V0_0_59,
        );
        let names = out.iter().filter_map(|event| match event {
            Event::ToolCallStart(start) => Some(&*start.tool_call_name),
            _ => None,
        });
        assert_eq!(names.collect::<Vec<_>>(), ["researcher", "researcher › search", "researcher › checker"]);
        let thought = out.iter().filter_map(|event| match event {
            Event::ReasoningMessageContent(said) => Some(&*said.delta),
            _ => None,
        });
        assert_eq!(thought.collect::<String>(), "researcher: hm");
        assert_eq!(results(&out), ["42", "Right.", "waits for a reply"]);
        assert!(out.iter().all(|event| event.subagent_run_id().is_none()));
    }

    #[test]
    fn failures_are_written_as_texts_where_the_settings_say_so() {
        let failed = LaneOutcome::Failed(RunFailure::new("e", "no way"));
        let mut refused = ContentBlock::tool_result("c", "refused");
        if let ContentBlock::ToolResult(result) = &mut refused {
            result.is_error = true;
        }
        let events = vec![
            of_agent(ContentBlock::tool_use("c", "fetch", "{}"), "c"),
            of_agent(refused, "r"),
            intermediate("I began.", "m"),
            SourceEvent::LaneClosed { source: agent(), outcome: failed },
            SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        ];
        let told = |dialect| {
            let out = viewed(events.clone(), dialect);
            assert_eq!(results(&out), ["refused", "I began.\n\nno way"]);
            texts(&out)
        };
        assert_eq!(told(Dialect::V1_0), Vec::<String>::new());
        let both = ["⚠ researcher › fetch failed: refused", "⚠ researcher failed: no way"];
        assert_eq!(told(Dialect::V0_0_59), both);
    }

    /// A client that was cut has seen the call begin: it must see it end as if it had not been cut.
    #[test]
    fn a_reader_that_begins_in_the_middle_sees_the_same_end() {
        let events = run_to_end(vec![
            intermediate("Found ", "m"),
            intermediate("it.", "m"),
            SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
            SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        ]);
        for cut in 0..events.len() {
            let mut view = View::new(&Settings::new(Dialect::V0_0_59));
            let mut out = Vec::new();
            let (seen, rest) = events.split_at(cut);
            for event in seen {
                view.skip(event);
            }
            for event in rest {
                view.convert(event, &mut out);
            }
            let is_closed = seen.iter().any(|event| matches!(event, BlockEvent::LaneClosed { .. }));
            let expected: &[&str] = if is_closed { &[] } else { &["Found it."] };
            assert_eq!(results(&out), expected, "cut before {cut}");
        }
    }

    fn texts(events: &[Event]) -> Vec<String> {
        let text = |event: &Event| match event {
            Event::TextMessageContent(said) => Some(said.delta.to_string()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }

    fn results(events: &[Event]) -> Vec<String> {
        let result = |event: &Event| match event {
            Event::ToolCallResult(result) => match &result.content {
                Content::Text(text) => Some(text.to_string()),
                Content::Parts(_) => None,
            },
            _ => None,
        };
        events.iter().filter_map(result).collect()
    }

    #[test]
    fn every_scenario_is_a_stream_that_clients_take() {
        for (name, events) in scenarios() {
            for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
                let found = verify(&viewed(events.clone(), dialect), dialect, Level::Strict);
                assert!(found.is_empty(), "{name}: {found:#?}");
            }
        }
    }
}

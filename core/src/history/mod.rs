//! [`History`]: the content of a run that its log already holds, and the deduplication of a source that repeats it.
//!
//! A source that is resumed by another replica sends its work from the start again. The log defines how much of it is
//! known; only the rest becomes new events. Both are compared piece by piece, as canonical content:
//!
//! | piece | known if the log holds |
//! |---|---|
//! | text, thinking | the same message (agent, kind, channel, track, id): a longer text adds its suffix, a different one replaces |
//! | … under an id that an adapter generated | the same text under another generated id |
//! | tool calls and results | the same call: the stream machine compares them by id; generated ids are mapped to those of the log |
//! | steps, states, usage, custom content, ends of lanes | an equal piece, counted |
//! | everything else | nothing: it passes, and the stream machine drops repeats |
//!
//! Invariant: a repeated piece is suppressed only as often as the log holds it.
//!
//! The module reads no log itself: the host feeds it with [`History::handle_event`].

mod texts;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::block::ToolOutput;
use crate::event::SpanKind;
use crate::{BlockEvent, ByteString, ContentBlock, Source, SourceEvent, ToolCallId, Update, wellknown};
use serde_json::Value;
use texts::Texts;

/// The content of a run as its log holds it, keyed for comparison with what a source sends again.
#[derive(Debug, Default)]
pub struct History {
    texts: Texts,
    calls: Vec<Call>,
    /// Pieces that are compared as a whole, by kind and path of their source.
    pieces: HashMap<(String, String), Vec<Value>>,
    lanes: HashSet<String>,
    closed: HashMap<String, usize>,
}

/// A logged tool call, for the comparison with repeated ones.
#[derive(Debug)]
struct Call {
    path: String,
    block: ByteString,
    given: ToolCallId,
    name: ByteString,
    arguments: String,
}

/// Generated ids of tool calls, mapped to the ids under which the log holds the same calls.
#[derive(Debug, Default)]
pub struct CallAliases(HashMap<ToolCallId, ToolCallId>);

impl CallAliases {
    /// Replaces generated call ids in `event` by those of the log.
    pub fn rewrite(&self, event: &mut SourceEvent) {
        if self.0.is_empty() {
            return;
        }
        let SourceEvent::Update(update) = event else { return };
        let id = match &mut update.block {
            ContentBlock::ToolUse(tool) => &mut tool.id,
            ContentBlock::ToolResult(result) => &mut result.id,
            _ => return,
        };
        if let Some(known) = id.as_ref().and_then(|id| self.0.get(id)) {
            *id = Some(known.clone());
        }
    }
}

impl History {
    /// Adds the next event of the log.
    pub fn handle_event(&mut self, event: &BlockEvent) {
        let path = event.lane().map_or("", |lane| lane.source.path());
        match event {
            BlockEvent::LaneOpened(_) => drop(self.lanes.insert(path.to_owned())),
            BlockEvent::LaneClosed { .. } => *self.closed.entry(path.to_owned()).or_default() += 1,
            BlockEvent::BlockStarted(head) if head.kind == SpanKind::ToolUse => {
                if let Some(given) = head.origin.tool_call_id.clone() {
                    let (block, name) = (head.id.as_bytes().clone(), head.tool_name.clone());
                    let path = path.to_owned();
                    self.calls.push(Call { path, block, given, name, arguments: String::new() });
                }
            }
            BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::ToolUse => {
                let call = self.calls.iter_mut().rev().find(|call| call.block == *block.id.as_bytes());
                if let Some(call) = call {
                    call.arguments.push_str(delta);
                }
            }
            BlockEvent::BlockStarted(_) | BlockEvent::BlockDelta { .. } => self.texts.handle_event(event),
            BlockEvent::Custom(custom) => self.add_piece(&custom.name, path, custom.value.clone()),
            BlockEvent::StepStarted { name, .. } => self.add_piece("step", path, name.to_string().into()),
            BlockEvent::StepFinished { name, .. } => {
                self.add_piece("step finished", path, name.to_string().into());
            }
            BlockEvent::StateSnapshot { state, .. } => self.add_piece("state", path, state.clone()),
            BlockEvent::StateDelta { patch, .. } => self.add_piece("patch", path, patch.clone().into()),
            BlockEvent::Usage { usage, .. } => self.add_piece("usage", path, format!("{usage:?}").into()),
            _ => {}
        }
    }

    fn add_piece(&mut self, what: &str, path: &str, value: Value) {
        self.pieces.entry((what.to_owned(), path.to_owned())).or_default().push(value);
    }

    /// Removes one equal piece. Returns `false` if the log holds none.
    fn take_piece(&mut self, what: &str, source: &Source, is_equal: impl Fn(&Value) -> bool) -> bool {
        let known = self.pieces.get_mut(&(what.to_owned(), source.path().to_owned()));
        let at = known.as_ref().and_then(|known| known.iter().position(is_equal));
        at.is_some_and(|at| {
            known.map(|known| known.remove(at));
            true
        })
    }

    /// Returns `events` without the content that the log holds, and the aliases for later events of the same source.
    /// `is_generated` returns `true` for ids that the adapter generated.
    pub fn deduplicate(
        mut self,
        mut events: Vec<SourceEvent>,
        is_generated: fn(&str) -> bool,
    ) -> (Vec<SourceEvent>, CallAliases) {
        let aliases = self.aliases(&events, is_generated);
        for event in &mut events {
            aliases.rewrite(event);
        }
        let mut texts = std::mem::take(&mut self.texts).compare(&events, is_generated);
        let events = events.into_iter().filter_map(|event| match event {
            SourceEvent::Update(update) if texts::is_text(&update) => texts.rest(update).map(Into::into),
            event => (!self.is_known(&event)).then_some(event),
        });
        (events.collect(), aliases)
    }

    /// Returns `true` if the log holds an equal piece, and removes one occurrence.
    fn is_known(&mut self, event: &SourceEvent) -> bool {
        match event {
            SourceEvent::LaneOpened(source) => self.lanes.contains(source.path()),
            SourceEvent::LaneClosed { source, .. } => match self.closed.get_mut(source.path()) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            },
            SourceEvent::StepStarted { source, name } => {
                self.take_piece("step", source, |known| *known == **name)
            }
            SourceEvent::StepFinished { source, name } => {
                self.take_piece("step finished", source, |known| *known == **name)
            }
            SourceEvent::StateSnapshot { source, state } => {
                self.take_piece("state", source, |known| known == state)
            }
            SourceEvent::StateDelta { source, patch } => {
                self.take_piece("patch", source, |known| known.as_array() == Some(patch))
            }
            SourceEvent::Usage { source, usage } => {
                let usage = format!("{usage:?}");
                self.take_piece("usage", source, |known| *known == *usage)
            }
            SourceEvent::Update(update) => self.is_known_update(update),
            _ => false,
        }
    }

    fn is_known_update(&mut self, update: &Update) -> bool {
        match &update.block {
            ContentBlock::Custom(custom) => {
                self.take_piece(&custom.name, &update.source, |known| *known == custom.value)
            }
            ContentBlock::ToolResult(result) => match &result.output {
                ToolOutput::Progress(text) => {
                    let is_equal = |known: &Value| known.get("text").is_some_and(|known| *known == **text);
                    self.take_piece(wellknown::TOOL_PROGRESS, &update.source, is_equal)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Maps generated ids of repeated calls to the ids under which the log holds the same calls.
    fn aliases(&self, events: &[SourceEvent], is_generated: fn(&str) -> bool) -> CallAliases {
        let restated = |event: &SourceEvent| match event {
            SourceEvent::Update(update) => match &update.block {
                ContentBlock::ToolUse(tool) => {
                    let id = tool.id.clone()?;
                    let name = tool.name.clone()?;
                    Some((id, (update.source.path().to_owned(), name, tool.arguments.to_string())))
                }
                _ => None,
            },
            _ => None,
        };
        let restated: Vec<_> = events.iter().filter_map(restated).collect();
        let ids: HashSet<&ToolCallId> = restated.iter().map(|(id, _)| id).collect();
        let free = |call: &&Call| is_generated(call.given.as_str()) && !ids.contains(&call.given);
        let mut free: Vec<&Call> = self.calls.iter().filter(free).collect();
        let known: HashSet<&ToolCallId> = self.calls.iter().map(|call| &call.given).collect();
        let mut aliases = HashMap::new();
        for (id, (path, name, arguments)) in &restated {
            let is_equal =
                |call: &&Call| call.path == *path && call.name == *name && call.arguments == *arguments;
            if is_generated(id.as_str())
                && !known.contains(id)
                && let Some(at) = free.iter().position(is_equal)
            {
                aliases.insert(id.detached(), free.remove(at).given.clone());
            }
        }
        CallAliases(aliases)
    }
}

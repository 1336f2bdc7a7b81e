//! [`IdMap`]: maps the ids under which the content of a thread was emitted to the ids of its AG-UI source.
//!
//! A source that stores the conversation itself merges the history of an input by message id. So an input to the source must
//! contain the source's own ids. A block is emitted under another id if the thread already has the source's id, if the block
//! continues a text after an interruption, and if it corrects the arguments of a call.
//!
//! The map is a fold over the thread's events ([`BlockHead::origin`](aqueduct_core::BlockHead) holds the source's ids), so
//! every replica derives the same map from the log, and none is stored. Ids that were emitted unchanged
//! ([`StreamContext::with_kept_ids`](aqueduct_core::StreamContext::with_kept_ids)) have no entry.
//!
//! Invariants: [`apply`](IdMap::apply) changes only mapped ids; an input that already has the source's ids is unchanged. The
//! map holds at most [`MAX_ENTRIES`] entries of each kind; later ones are not mapped.
//!
//! The map reads no log and sends nothing.

mod apply;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use aqueduct_core::event::Origin;
use aqueduct_core::{BlockEvent, BlockHead, ByteString, Lane, LaneOutcome, RunInput, SpanKind, wellknown};
use foldhash::fast::RandomState;
use serde_json::Value;

use crate::convert::{text_prefix, thought_prefix, tool_prefix};

/// The most ids of each kind (messages, calls, lanes, interrupts) in a map, about 10 MB. Further ids are sent to the source as
/// they were emitted.
pub const MAX_ENTRIES: usize = 1 << 16;

/// The prefix of an interrupt's id in the id of the text message that shows it.
pub(crate) const INTERRUPT_PREFIX: &str = "interrupt/";

/// The prefix of the id of a run, a lane or a tool result in the id of the text message that shows its failure.
pub(crate) const FAILURE_PREFIX: &str = "error/";

/// The suffix of a lane's id in the id of the tool message that shows its answer.
pub(crate) const CALL_RESULT: &str = "/result";

/// The value for an emitted id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The source's id.
    source: ByteString,
    /// Set if the block replaces an earlier block with the same source id.
    replaces: bool,
}

/// The emitted ids of the current run with the source's ids, until a [`wellknown::IDS`] block names other source ids for them.
#[derive(Debug, Clone, Default)]
struct Run {
    /// Each text: its emitted id, its source id, and its index among the texts with that source id.
    texts: Vec<(ByteString, ByteString, usize)>,
    /// The number of texts by source id.
    counts: HashMap<ByteString, usize, RandomState>,
    /// Each call: the emitted id of its message, and the source's id of the call.
    calls: Vec<(ByteString, ByteString)>,
    /// Each result: its emitted id, and the source's id of the call.
    results: Vec<(ByteString, ByteString)>,
}

impl Run {
    fn has_room(&self) -> bool {
        self.texts.len() + self.calls.len() + self.results.len() < MAX_ENTRIES
    }

    /// Records a text. A block that continues or replaces another one is part of the same source text.
    fn record_text(&mut self, head: &BlockHead) {
        let Some(source) = head.origin.message_id.as_ref().filter(|_| self.has_room()) else { return };
        let count = self.counts.entry(source.as_bytes().clone()).or_default();
        if head.continues.is_none() && head.replaces.is_none() {
            *count += 1;
        }
        let nth = count.saturating_sub(1);
        self.texts.push((head.id.as_bytes().clone(), source.as_bytes().clone(), nth));
    }

    /// Returns the emitted ids of messages with the ids under which the source restated them in a snapshot.
    fn renamed<'a>(&'a self, aliases: &'a Value) -> impl Iterator<Item = (ByteString, ByteString)> + 'a {
        let get = |kind: &str, id: &str| aliases.get(kind)?.get(id);
        let id = |value: &Value| value.as_str().map(ByteString::from);
        let texts = self.texts.iter().filter_map(move |(emitted, source, nth)| {
            Some((emitted.clone(), get("texts", source)?.get(nth).and_then(id)?))
        });
        let by_call = move |kind: &'static str| {
            move |(emitted, call): &(ByteString, ByteString)| {
                Some((emitted.clone(), get(kind, call).and_then(id)?))
            }
        };
        let calls = self.calls.iter().filter_map(by_call("calls"));
        texts.chain(calls).chain(self.results.iter().filter_map(by_call("results")))
    }
}

type Entries = HashMap<ByteString, Entry, RandomState>;

/// Maps emitted ids of a thread to the ids of its source.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::ids::IdMap;
/// use aqueduct_core::{RunInfo, RunInput, StreamContext, Update};
///
/// // The thread has a message `m1` already, so the source's second `m1` is emitted under another id.
/// let mut context = StreamContext::new(RunInfo::new("thread", "run")).with_kept_ids(["m1"]);
/// context.handle_update(Update::text("Hello").in_message("m1").last())?;
///
/// let mut map = IdMap::default();
/// while let Some(event) = context.poll_event() {
///     map.handle_event(&event);
/// }
/// assert_eq!(map.source_message("run/2"), "m1");
///
/// let mut input = RunInput::prompt("thread", "run-2", "And now?");
/// map.apply(&mut input);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct IdMap {
    messages: Entries,
    calls: Entries,
    lanes: Entries,
    /// Text messages that show interrupts.
    interrupts: HashSet<ByteString, RandomState>,
    /// Text messages that show failures, and tool calls that show sub-agents: they do not exist at the source.
    views: HashSet<ByteString, RandomState>,
    /// By block, the name of its sub-agent in the form in which it may precede the name of a call, a text or thinking.
    labels: HashMap<ByteString, String, RandomState>,
    run: Run,
    /// The ids of all emitted messages.
    emitted: HashSet<ByteString, RandomState>,
}

impl IdMap {
    /// Adds the next event of the thread. Events of all its runs are expected, oldest first.
    pub fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::RunStarted(_) => self.run = Run::default(),
            BlockEvent::BlockStarted(head) if head.kind == SpanKind::ToolUse => {
                self.record_label(head, tool_prefix);
                self.record_call(head);
            }
            BlockEvent::BlockStarted(head) => {
                let is_text = head.kind == SpanKind::Text;
                self.record_label(head, if is_text { text_prefix } else { thought_prefix });
                if head.kind == SpanKind::Text {
                    self.run.record_text(head);
                }
                self.record_message(head.id.as_bytes(), &head.origin, head.replaces.is_some());
            }
            BlockEvent::ToolResult(result) => {
                if result.is_error {
                    self.record_view(ByteString::from(format!("{FAILURE_PREFIX}{}", result.id)));
                }
                self.record_message(result.id.as_bytes(), &result.origin, false);
                if let Some(call) = result.origin.tool_call_id.as_ref().filter(|_| self.run.has_room()) {
                    self.run.results.push((result.id.as_bytes().clone(), call.as_bytes().clone()));
                }
            }
            BlockEvent::Custom(custom) if custom.name == wellknown::IDS => self.record_aliases(&custom.value),
            BlockEvent::Custom(custom) => self.record_message(custom.id.as_bytes(), &custom.origin, false),
            BlockEvent::LaneOpened(lane) => {
                let source = ByteString::from(lane.source.key());
                insert(&mut self.lanes, lane.id.as_bytes(), source, false);
                self.record_view(lane.id.as_bytes().clone());
            }
            BlockEvent::LaneClosed { lane, outcome } if matches!(**outcome, LaneOutcome::Failed(_)) => {
                self.record_view(ByteString::from(format!("{FAILURE_PREFIX}{}", lane.id)));
            }
            BlockEvent::RunFailed(failed) => {
                self.record_view(ByteString::from(format!("{FAILURE_PREFIX}{}", failed.run.run_id)));
            }
            BlockEvent::InterruptRequested(pending) if self.interrupts.len() < MAX_ENTRIES => {
                let id = format!("{INTERRUPT_PREFIX}{}", pending.interrupt.id);
                self.interrupts.insert(ByteString::from(id));
            }
            _ => {}
        }
    }

    /// Returns the source's id of an emitted message, or `id` itself if it is not mapped.
    pub fn source_message<'a>(&'a self, id: &'a str) -> &'a str {
        self.messages.get(id).map_or(id, |entry| &entry.source)
    }

    /// Returns the source's id of an emitted tool call, or `id` itself if it is not mapped.
    pub fn source_call<'a>(&'a self, id: &'a str) -> &'a str {
        self.calls.get(id).map_or(id, |entry| &entry.source)
    }

    /// Returns the emitted ids of a source message, in no particular order: several if it was emitted in several blocks, none if
    /// it was emitted only under its own id.
    pub fn emitted_messages<'a>(&'a self, source: &'a str) -> impl Iterator<Item = &'a str> {
        let is_it = move |(_, entry): &(&ByteString, &Entry)| entry.source == source;
        self.messages.iter().filter(is_it).map(|(id, _)| &**id)
    }

    /// Returns the ids of all emitted messages, in no particular order, for
    /// [`StreamContext::with_kept_ids`](aqueduct_core::StreamContext::with_kept_ids) of the next run.
    pub fn message_ids(&self) -> impl Iterator<Item = &str> {
        self.emitted.iter().map(|id| &**id)
    }

    /// Restores the content of an input to the form of the source:
    ///
    /// - the ids of messages, calls, results and sub-agents become the source's ids;
    /// - messages that are one message of the source are merged, and a corrected text or call replaces the earlier one;
    /// - failures and interrupts that were shown as text are removed, with the user's replies to them:
    ///   [`resume_from_text`](crate::resume::resume_from_text), called before, has converted those replies to `resume`;
    /// - calls that show sub-agents are removed, and so are the names of sub-agents before tools, texts and thinking.
    pub fn apply(&self, input: &mut RunInput) {
        apply::apply(self, input);
    }

    /// Records the id of a message or call that does not exist at the source.
    fn record_view(&mut self, id: ByteString) {
        if self.views.len() < MAX_ENTRIES {
            self.views.insert(id);
        }
    }

    /// Records the sub-agent's name that may precede the content of a block.
    fn record_label(&mut self, head: &BlockHead, prefix: fn(&Lane) -> Option<String>) {
        if let Some(prefix) = prefix(&head.lane).filter(|_| self.labels.len() < MAX_ENTRIES) {
            self.labels.insert(head.id.as_bytes().clone(), prefix);
        }
    }

    /// Records the ids of a call, of its message and of its lane.
    fn record_call(&mut self, head: &BlockHead) {
        let replaces = head.replaces.is_some();
        let own = head.origin.tool_call_id.as_ref().map(|id| id.as_bytes().clone());
        if let Some(own) = &own {
            insert(&mut self.calls, head.id.as_bytes(), own.clone(), replaces);
        }
        if let Some(own) = own.as_ref().filter(|_| self.run.has_room()) {
            let message = head.parent.as_ref().unwrap_or(&head.id);
            self.run.calls.push((message.as_bytes().clone(), own.clone()));
        }
        // A frontend uses the id of a call without parent message as the id of its message.
        if head.parent.is_none() {
            let message = head.origin.message_id.as_ref().map(|id| id.as_bytes().clone());
            self.record_emitted(head.id.as_bytes());
            if let Some(source) = message.or(own) {
                self.record_source(head.id.as_bytes(), source, replaces);
            }
        } else if let Some(parent) = &head.parent {
            self.record_emitted(parent.as_bytes());
            if let Some(message) = head.origin.message_id.as_ref() {
                self.record_source(parent.as_bytes(), message.as_bytes().clone(), false);
            }
        }
    }

    /// Records an emitted message, and maps its id if the source's id differs.
    fn record_message(&mut self, id: &ByteString, origin: &Origin, replaces: bool) {
        self.record_emitted(id);
        if let Some(source) = &origin.message_id {
            self.record_source(id, source.as_bytes().clone(), replaces);
        }
    }

    /// Maps the id of an emitted message, unless it is already mapped.
    fn record_source(&mut self, id: &ByteString, source: ByteString, replaces: bool) {
        if !self.messages.contains_key(id) {
            insert(&mut self.messages, id, source, replaces);
        }
    }

    /// Maps messages of the run to the ids under which the source restated them.
    fn record_aliases(&mut self, aliases: &Value) {
        let renamed: Vec<_> = self.run.renamed(aliases).collect();
        for (id, source) in renamed {
            let replaces = self.messages.remove(&id).is_some_and(|entry| entry.replaces);
            insert(&mut self.messages, &id, source, replaces);
        }
    }

    /// Records the id of an emitted message.
    fn record_emitted(&mut self, id: &ByteString) {
        if self.emitted.len() < MAX_ENTRIES && !self.emitted.contains(id) {
            self.emitted.insert(id.clone());
        }
    }
}

/// Adds an entry, if the ids differ and the map has room.
fn insert(entries: &mut Entries, id: &ByteString, source: ByteString, replaces: bool) {
    if *id != source && entries.len() < MAX_ENTRIES {
        entries.insert(id.clone(), Entry { source, replaces });
    }
}

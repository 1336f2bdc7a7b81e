//! [`ItemWriter`]: converts canonical events into the items of a task's stream, for one watcher.
//!
//! Converters keep no state, and a status cannot be appended to: thinking and intermediate text would become one status
//! message per token. The writer holds their fragments until they form a message:
//!
//! ```text
//!   fragment ──► held ── a line is complete and more follows ──► message with that line
//!                  │ ──── `Notes::HELD` bytes ─────────────────► message up to the last space
//!                  │ ──── another kind of event ───────────────► message with all held text
//!                  └───── the block ends ──────────────────────► message with the rest, marked as the end
//! ```
//!
//! Invariants: no text is lost, repeated or moved to another block; the events of a lane keep their order; the id of a
//! message contains its position in the block (`<block>@<byte>`), so that a reader of histories can deduplicate. A
//! clone continues exactly where the original stood: that is how a watcher starts in the middle of a run.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, BlockHead, BlockId, ByteString, Channel, ConverterSet, SpanKind};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::config::Notes;
use crate::mark::{COMPLETE, END, Mark};
use crate::wire::{Message, StreamItem};

/// Converts events into items for one watcher, and joins the fragments of thinking and intermediate text into
/// messages.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use aqueduct_adapter_a2a::{ItemWriter, Notes, Settings, converters};
/// use aqueduct_core::{BlockEvent, RunInfo};
///
/// let run = RunInfo::new("thread", "run");
/// let settings = Settings::of_run(&run);
/// let mut writer = ItemWriter::new(converters(&settings), Notes::Lines);
/// let mut items = Vec::new();
/// writer.handle_event(&BlockEvent::RunStarted(Arc::new(run)), &mut items);
/// assert_eq!(items.len(), 1); // the task
/// ```
#[derive(Debug, Clone)]
pub struct ItemWriter {
    converters: ConverterSet<StreamItem<'static>>,
    mode: Notes,
    /// Open blocks that are sent as messages: bounded by the stream machine's `open_blocks`.
    open: IndexMap<BlockId, Note, RandomState>,
}

/// A block that is sent as messages.
#[derive(Debug, Clone)]
struct Note {
    head: Arc<BlockHead>,
    /// The number of bytes sent.
    emitted: usize,
    /// The text that was not sent yet.
    held: String,
}

impl ItemWriter {
    /// Returns a writer with these converters.
    pub fn new(converters: ConverterSet<StreamItem<'static>>, mode: Notes) -> Self {
        Self { converters, mode, open: IndexMap::default() }
    }

    /// Appends the items of `event`: none, one or several. Held text is sent before any other event than a delta, so
    /// that the order of a lane is kept.
    pub fn handle_event(&mut self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        match event {
            BlockEvent::BlockDelta { block, delta } if is_note(block) => self.hold(block, delta, out),
            BlockEvent::BlockEnded { block, .. } if is_note(block) => self.end(block, event, out),
            // Deltas of other blocks, and starts without content, do not break a line.
            BlockEvent::BlockDelta { .. } => self.converters.convert(event, out),
            BlockEvent::BlockStarted(block) if is_note(block) => self.converters.convert(event, out),
            _ => {
                self.flush(out);
                self.converters.convert(event, out);
            }
        }
    }

    /// Holds a fragment of a notice: clients show each status text as a line of its own.
    fn hold(&mut self, block: &Arc<BlockHead>, delta: &ByteString, out: &mut Vec<StreamItem<'static>>) {
        let Self { converters, mode, open } = self;
        let note = open.entry(block.id.clone()).or_insert_with(|| Note::new(block));
        note.held.push_str(delta);
        let ready = match mode {
            Notes::Fragments => note.held.len(),
            Notes::Lines => ready(&note.held),
        };
        if ready > 0 {
            note.say(ready, converters, None, out);
        }
    }

    /// Ends a block. The end is marked on the last message, if there is text left.
    fn end(&mut self, block: &BlockHead, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let mut end = Vec::new();
        self.converters.convert(event, &mut end);
        let Some(mut note) = self.open.shift_remove(&block.id) else {
            out.append(&mut end);
            return;
        };
        if note.held.is_empty() {
            note.number(&mut end);
            out.append(&mut end);
        } else {
            let word =
                end.first().and_then(message_of).and_then(|message| Mark::read(message.metadata.as_ref()));
            let word = word.and_then(|mark| mark.text(END).map(str::to_owned));
            note.say(note.held.len(), &self.converters, Some(word.as_deref().unwrap_or(COMPLETE)), out);
        }
    }

    /// Sends the held text of every block.
    fn flush(&mut self, out: &mut Vec<StreamItem<'static>>) {
        for note in self.open.values_mut().filter(|note| !note.held.is_empty()) {
            note.say(note.held.len(), &self.converters, None, out);
        }
    }
}

impl Note {
    /// Returns a block of which nothing was sent.
    fn new(head: &Arc<BlockHead>) -> Self {
        Self { head: Arc::clone(head), emitted: 0, held: String::new() }
    }

    /// Sends the first `len` bytes of the held text.
    fn say(
        &mut self,
        len: usize,
        converters: &ConverterSet<StreamItem<'static>>,
        end: Option<&str>,
        out: &mut Vec<StreamItem<'static>>,
    ) {
        let rest = self.held.split_off(len);
        let delta = ByteString::from(std::mem::replace(&mut self.held, rest));
        let first = out.len();
        converters.convert(&BlockEvent::BlockDelta { block: Arc::clone(&self.head), delta }, out);
        let items = out.get_mut(first..).unwrap_or_default();
        self.number(items);
        if let Some(end) = end
            && let Some(message) = items.last_mut().and_then(message_of_mut)
            && let Some(mut mark) = Mark::read(message.metadata.as_ref())
        {
            mark.put(END, end);
            message.metadata = Some(mark.into_metadata());
        }
        self.emitted += len;
    }

    /// Assigns the ids of messages: a converter cannot count, and uses the id of the block.
    fn number(&self, items: &mut [StreamItem<'static>]) {
        for message in items.iter_mut().filter_map(message_of_mut) {
            if *message.message_id == *self.head.id.as_str() {
                message.message_id = place(self.head.id.as_str(), self.emitted).into();
            }
        }
    }
}

/// Returns the id of a message at that position of its block.
fn place(block: &str, at: usize) -> String {
    format!("{block}@{at}")
}

/// Returns the byte at which the message with that id begins, if this writer assigned the id.
pub(crate) fn begins_at(message_id: &str) -> Option<usize> {
    message_id.rsplit_once('@')?.1.parse().ok()
}

/// Returns how much of a held text to send: all complete lines, if more follows the last of them.
fn ready(held: &str) -> usize {
    let line = held.trim_end().rfind('\n').map_or(0, |at| at + 1);
    if line > 0 || held.len() < Notes::HELD {
        return line;
    }
    held.rfind(' ').map_or(held.len(), |at| at + 1)
}

/// Returns `true` for content that A2A carries in status texts: thinking, and text of the intermediate channel.
fn is_note(block: &BlockHead) -> bool {
    match block.kind {
        SpanKind::Text => block.channel == Channel::Intermediate,
        SpanKind::Thinking => true,
        SpanKind::ToolUse => false,
    }
}

/// Returns the message of a status, if the item is one.
fn message_of<'i>(item: &'i StreamItem<'static>) -> Option<&'i Message<'static>> {
    match item {
        StreamItem::Status(update) => update.status.message.as_ref(),
        _ => None,
    }
}

/// As [`message_of`], for changing it.
fn message_of_mut<'i>(item: &'i mut StreamItem<'static>) -> Option<&'i mut Message<'static>> {
    match item {
        StreamItem::Status(update) => update.status.message.as_mut(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_leaves_when_more_follows() {
        for (held, expected) in
            [("", 0), ("one", 0), ("one\n", 0), ("one\ntwo", 4), ("one\n\n two", 5), ("one\ntwo\nthree", 8)]
        {
            assert_eq!(ready(held), expected, "{held:?}");
        }
    }

    #[test]
    fn a_long_line_leaves_at_a_space() {
        let words = "word ".repeat(Notes::HELD / 5 + 1) + "more";
        assert_eq!(words.get(ready(&words)..), Some("more"));
        let endless = "x".repeat(Notes::HELD);
        assert_eq!(ready(&endless), Notes::HELD);
    }

    #[test]
    fn places_are_read_back() {
        assert_eq!(begins_at(&place("run/2", 17)), Some(17));
        assert_eq!(begins_at("run/2"), None);
    }
}

//! Marked artifacts with a beginning and an end: text, thinking and tool calls.
//!
//! ```text
//! first chunk   mark {"kind": "text", "message"?, "continues"?, "replaces"?, …}            ──► begin_words, begin_call
//! more          no mark; text, or data {"type": "tool-call-arguments", "delta"}             ──► emit_fragment
//! last chunk    mark {"end": "interrupted" | "closed" | "replaced"}, or none: complete      ──► end_block
//! ```
//!
//! Thinking and intermediate text arrive as status messages instead, each with the whole mark and the id
//! `<block>@<byte>`: `marked_note`. Text is compared by length alone, because artifacts of Aqueduct's own server only
//! grow.

use aqueduct_core::block::{Thinking, ToolUse};
use aqueduct_core::fingerprint::{Fingerprint, hash_text};
use aqueduct_core::{
    ByteString, ContentBlock, MessageId, Metadata, Mode, ResponseId, Timestamp, Track, Update,
};
use serde_json::Value;

use super::super::artifact::Arrival;
use super::super::sink::Sink;
use super::super::status::joined_text;
use super::super::{Decoder, metadata};
use super::{Block, Origin, What, data_of};
use crate::encode::begins_at;
use crate::mark::{COMPLETE, END, Mark, kind};
use crate::wire::{Artifact, Message, Part};

/// A fragment of a block, as found in one part.
enum Fragment {
    /// Text, or a piece of a call's arguments.
    Words(ByteString),
    /// The encrypted form of thinking.
    Seal(ByteString),
}

impl Block {
    /// Returns the next fragment with that text, and records it. The block is open again: text after a complete
    /// message begins another message in the stream machine, which then no longer has all text of the block
    /// (`broken`).
    fn say(&mut self, words: ByteString) -> ContentBlock {
        self.text.push(&words);
        self.broken |= self.after_complete;
        self.complete = false;
        match self.what {
            What::Thinking => ContentBlock::thinking(words),
            What::Call => ContentBlock::tool_arguments(self.call.clone(), words),
            What::Text | What::Parts => ContentBlock::text(words),
        }
    }
}

impl Decoder {
    /// Decodes an artifact if it has a mark, or continues one that had. Returns `false` if it is an artifact like
    /// that of any agent; its parts are unchanged then.
    pub(in super::super) fn marked_artifact(
        &mut self,
        artifact: &mut Artifact<'_>,
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) -> bool {
        let mark = Mark::read(artifact.metadata.as_ref()).unwrap_or_default();
        let word = mark.kind();
        let is_known = self.memory.marked.blocks.contains_key(artifact.artifact_id.as_str());
        if word.is_empty() && !is_known {
            return false;
        }
        let id = ByteString::from(artifact.artifact_id.as_str());
        // An earlier turn has shown it, and another client has decoded it.
        if !arrival.live && !is_known && self.memory.artifacts.contains_key(&*id) {
            return true;
        }
        let parts = std::mem::take(&mut artifact.parts);
        match word {
            kind::TEXT | kind::THINKING if !is_known => self.begin_words(&id, &mark),
            kind::TOOL_CALL if !is_known => self.begin_call(&id, &mark, parts.first(), sink),
            kind::TOOL_RESULT | kind::CUSTOM => self.emit_marked_parts(&id, &mark, &parts, arrival, sink),
            "" | kind::TEXT | kind::THINKING | kind::TOOL_CALL => {}
            // A kind of a later version is decoded like an unmarked artifact.
            _ => {
                artifact.parts = parts;
                return false;
            }
        }
        // A snapshot, or an artifact that is sent again: its start is known.
        let is_whole = !arrival.live || (is_known && !arrival.append);
        self.fragments(&id, &parts, is_whole, sink);
        if arrival.live && arrival.last {
            self.end_block(&id, mark.text(END), sink);
        }
        true
    }

    /// Decodes more text of a marked artifact. Returns `false` if the artifact is unknown, or neither text nor
    /// thinking. `words` is called only if the chunk is decoded here.
    ///
    /// The hot path: chunks of text have no mark, so the id is all that is needed.
    pub(in super::super) fn marked_words(
        &mut self,
        id: &str,
        words: impl FnOnce(&Sink<'_>) -> ByteString,
        last: bool,
        sink: &mut Sink<'_>,
    ) -> bool {
        let known = self.memory.marked.blocks.get_full(id);
        let Some((_, id, _)) =
            known.filter(|(_, _, block)| matches!(block.what, What::Text | What::Thinking))
        else {
            return false;
        };
        let id = id.clone();
        self.emit_fragment(&id, Fragment::Words(words(sink)), sink);
        if last {
            self.end_block(&id, None, sink);
        }
        true
    }

    /// Decodes a status message that is a fragment of a block. Its id contains its position in bytes
    /// (`<block>@<byte>`), so a history that repeats it adds nothing, and one that overlaps what is known adds the
    /// rest. A message without a position follows what is known.
    pub(super) fn marked_note(
        &mut self,
        id: &ByteString,
        mark: &Mark,
        message: &Message<'_>,
        sink: &mut Sink<'_>,
    ) {
        if !self.memory.marked.blocks.contains_key(id) {
            self.begin_words(id, mark);
        }
        let Some(block) = self.memory.marked.blocks.get(id) else { return };
        let (what, known) = (block.what, block.text.len());
        let begins = begins_at(&message.message_id).unwrap_or(known);
        let text = joined_text(&message.parts);
        if !text.is_empty() && begins + text.len() <= known {
            return;
        }
        let found: Vec<_> = message.parts.iter().filter_map(|part| fragment(part, what, sink)).collect();
        for fragment in found {
            let fragment = match fragment {
                Fragment::Words(words) => {
                    let new = words.get(known.saturating_sub(begins)..).unwrap_or_default();
                    Fragment::Words(words.slice_ref(new))
                }
                seal @ Fragment::Seal(_) => seal,
            };
            self.emit_fragment(id, fragment, sink);
        }
        if let Some(why) = mark.text(END) {
            self.end_block(id, Some(why).filter(|why| *why != COMPLETE), sink);
        }
    }

    /// Returns the agent that a mark names: the lanes of the mark below the agent of the task.
    fn marked_source(&self, mark: &Mark) -> aqueduct_core::Source {
        mark.source(&self.source, |call| self.memory.marked.call(call))
    }

    /// Returns the state of a marked artifact that begins. Without a message id in the mark the artifact is a message
    /// of its own.
    pub(super) fn new_block(&self, what: What, id: &ByteString, mark: &Mark) -> Block {
        Block {
            what,
            source: self.marked_source(mark),
            channel: mark.channel(),
            role: mark.role(),
            track: mark.bytes("track").map_or(Track::MAIN, Track::new),
            message: mark.bytes("message").unwrap_or_else(|| id.clone()),
            call: id.clone(),
            mode: Mode::Append,
            complete: false,
            after_complete: false,
            broken: false,
            origin: origin(mark),
            text: Fingerprint::default(),
            emitted_parts: 0,
        }
    }

    /// Begins a text or thinking: a message of its own, unless the mark names a block that it continues or replaces.
    ///
    /// Nothing is emitted yet; the first text does that. The stream machine appends text with an equal message id, so
    /// a message id that has begun before on the same lane, track and channel gets the id of the artifact as suffix.
    fn begin_words(&mut self, id: &ByteString, mark: &Mark) {
        let what = if mark.kind() == kind::THINKING { What::Thinking } else { What::Text };
        let mut block = self.new_block(what, id, mark);
        let marked = &mut self.memory.marked;
        let earlier = |key: &str| mark.text(key).and_then(|id| marked.blocks.get(id));
        // A block that the machine does not have completely cannot be replaced there: the new one is a message of its
        // own.
        if let Some(earlier) = earlier("replaces").filter(|earlier| !earlier.broken) {
            block.message = earlier.message.clone();
            block.track = earlier.track.clone();
            block.mode = Mode::Replace;
        } else if let Some(earlier) = earlier("continues") {
            block.message = earlier.message.clone();
            block.track = earlier.track.clone();
            block.broken = earlier.broken;
            block.complete = earlier.complete;
            block.after_complete = earlier.complete;
        } else {
            let key = |message: &str| {
                let place = (block.source.path(), block.track.as_str(), message);
                hash_text(&format!("{what:?} {:?} {place:?}", block.channel))
            };
            if marked.begun.contains(&key(&block.message)) {
                block.message = ByteString::from(format!("{}#{id}", block.message));
            }
            marked.begun.insert_new(key(&block.message), (), self.config.limits.artifacts);
        }
        let path = ByteString::from(block.source.path());
        marked.interrupted.remove(&path);
        marked.open.insert((path, block.track.clone()), id.clone());
        marked.keep(id.clone(), block, self.config.limits.artifacts);
    }

    /// Begins a tool call. The first part has the name: `{"type": "tool-call", "id", "name"}`.
    ///
    /// A call that replaces another one keeps its call id and track, and its arguments replace the earlier ones;
    /// nothing is emitted before they arrive.
    fn begin_call(&mut self, id: &ByteString, mark: &Mark, first: Option<&Part<'_>>, sink: &mut Sink<'_>) {
        let mut block = self.new_block(What::Call, id, mark);
        let marked = &mut self.memory.marked;
        let earlier = |key: &str| mark.text(key).and_then(|id| marked.blocks.get(id));
        if let Some(replaced) = earlier("replaces") {
            block.call = replaced.call.clone();
            block.message = replaced.message.clone();
            block.track = replaced.track.clone();
            block.mode = Mode::Replace;
            marked.keep(id.clone(), block, self.config.limits.artifacts);
            return;
        }
        if let Some(parent) = earlier("parent") {
            block.message = parent.message.clone();
            block.track = parent.track.clone();
        }
        // A call ends the open block of its track. If the original call interrupted a block, it goes to that block's
        // track; otherwise it must end no block, and gets a track of its own if its track has an open one.
        let path = ByteString::from(block.source.path());
        if let Some(track) = marked.interrupted.remove(&path) {
            block.track = track;
        } else if marked.open.contains_key(&(path, block.track.clone())) {
            block.track = Track::new(id.clone());
        }
        let name =
            first.and_then(data_of).and_then(|data| Some(ByteString::from(data.get("name")?.as_str()?)));
        let use_ = ToolUse { id: Some(id.clone().into()), name, arguments: ByteString::new() };
        let mut update = self.block_update(&block, ContentBlock::from(use_));
        // For a call only the message of the parent matters.
        if mark.text("message").is_none() && mark.text("parent").is_none() {
            update.message_id = None;
        }
        attach(&mut update, std::mem::take(&mut block.origin));
        sink.push(update);
        self.memory.marked.keep(id.clone(), block, self.config.limits.artifacts);
    }

    /// Returns an update with the agent, track and channel of a block.
    pub(super) fn block_update(&self, block: &Block, content: ContentBlock) -> Update {
        let mut update = self.update(content, block.channel);
        update.source = block.source.clone();
        update.track = block.track.clone();
        update.message_id = Some(MessageId::new(block.message.clone()));
        update.role = block.role;
        update.mode = block.mode;
        update
    }

    /// Emits the content that a chunk adds to its block; of a complete artifact, the part that is new.
    fn fragments(&mut self, id: &ByteString, parts: &[Part<'_>], is_whole: bool, sink: &mut Sink<'_>) {
        let Some(block) = self.memory.marked.blocks.get(id).filter(|block| block.what != What::Parts) else {
            return;
        };
        let found: Vec<_> = parts.iter().filter_map(|part| fragment(part, block.what, sink)).collect();
        // Artifacts of Aqueduct's own server only grow, so the new part of a complete one begins where the last chunk
        // ended.
        let mut known = if is_whole { block.text.len() } else { 0 };
        for fragment in found {
            let fragment = match fragment {
                Fragment::Words(words) if known > 0 => {
                    let new = words.get(known..).map(|new| words.slice_ref(new)).unwrap_or_default();
                    known = known.saturating_sub(words.len());
                    Fragment::Words(new)
                }
                // The stream machine deduplicates seals.
                other => other,
            };
            self.emit_fragment(id, fragment, sink);
        }
    }

    /// Emits a fragment of a block. The first one carries the metadata of the source, and the mode (`Replace` if the
    /// block replaces another one).
    fn emit_fragment(&mut self, id: &ByteString, fragment: Fragment, sink: &mut Sink<'_>) {
        let Some(block) = self.memory.marked.blocks.get_mut(id) else { return };
        let content = match fragment {
            Fragment::Words(words) if words.is_empty() => return,
            Fragment::Words(words) => block.say(words),
            Fragment::Seal(seal) => {
                ContentBlock::Thinking(Thinking { text: ByteString::new(), encrypted: Some(Box::new(seal)) })
            }
        };
        let origin = std::mem::take(&mut block.origin);
        let mode = std::mem::take(&mut block.mode);
        let Some(block) = self.memory.marked.blocks.get(id) else { return };
        let mut update = self.block_update(block, content);
        update.mode = mode;
        attach(&mut update, origin);
        self.answer_shown = true;
        sink.push(update);
    }

    /// Ends a block for the reason in its mark. Only a complete block is ended here, by an empty fragment with
    /// `last`; the others end by what follows, see the table of the module.
    fn end_block(&mut self, id: &ByteString, why: Option<&str>, sink: &mut Sink<'_>) {
        let Some(mut block) = self.memory.marked.blocks.get(id).filter(|b| b.what != What::Parts).cloned()
        else {
            return;
        };
        let path = ByteString::from(block.source.path());
        let place = (path.clone(), block.track.clone());
        let marked = &mut self.memory.marked;
        let is_open = marked.open.get(&place) == Some(id);
        match why {
            Some("interrupted") => {
                marked.interrupted.insert(path, block.track.clone());
            }
            Some("closed") => {
                marked.closing.insert(path);
                return;
            }
            Some("replaced") => return,
            _ => {}
        }
        if is_open {
            marked.open.remove(&place);
        }
        if why.is_none() {
            let content = match block.what {
                What::Call => ContentBlock::tool_arguments(block.call.clone(), ByteString::new()),
                What::Thinking => ContentBlock::thinking(ByteString::new()),
                _ => ContentBlock::text(ByteString::new()),
            };
            block.mode = Mode::Append;
            block.complete = true;
            let mut update = self.block_update(&block, content);
            update.last = true;
            sink.push(update);
            self.memory.marked.blocks.insert(id.clone(), block);
        }
    }
}

/// Returns the content of a part. Returns `None` if it does not fit the kind of the block, or is of a type that
/// carries no content (`tool-call`, `tool-call-end`, `end`).
fn fragment(part: &Part<'_>, what: What, sink: &Sink<'_>) -> Option<Fragment> {
    if let Some(text) = part.as_text() {
        return (what != What::Call).then(|| Fragment::Words(sink.share_str(text)));
    }
    let data = data_of(part)?;
    let text = |key: &str| data.get(key)?.as_str().map(ByteString::from);
    match data.get("type")?.as_str()? {
        "tool-call-arguments" => text("delta").map(Fragment::Words),
        "sealed-thinking" => text("value").map(Fragment::Seal),
        _ => None,
    }
}

/// Returns the ids and the time of the source in a mark.
fn origin(mark: &Mark) -> Origin {
    Origin {
        response: mark.bytes("response"),
        created_at: mark.get("createdAt").and_then(Value::as_i64),
        metadata: mark.metadata().cloned().unwrap_or_else(Metadata::new),
    }
}

/// Adds the ids and the time of the source to an update.
pub(super) fn attach(update: &mut Update, origin: Origin) {
    if let Some(response) = origin.response {
        update.response_id = Some(ResponseId::new(response));
    }
    update.created_at = origin.created_at.map(Timestamp);
    metadata::attach(update, origin.metadata);
}

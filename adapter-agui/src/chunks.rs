//! Expansion of chunk events: `*_CHUNK` becomes start, content and end.
//!
//! Each lane (the parent agent and each sub-agent tag) has at most one chunk stream open:
//!
//! ```text
//!              chunk with a new id                     chunk with the same id, or none: content
//!   (nothing) ─────────────────────► open ◄──────────────────────────────────────────────────┐
//!       ▲                             │ └─────────────────────────────────────────────────────┘
//!       │  any other event of the     │
//!       │  lane that interrupts,      │ chunk with another id: end, then start
//!       └──── or the end of lane/run ─┘
//! ```
//!
//! Events that do not interrupt: `RAW`, `ACTIVITY_*`, `REASONING_ENCRYPTED_VALUE`, `SUBAGENT_STARTED`. A stream that stops
//! without an end gets none from here: its reader decides what that means.
//!
//! ```text
//! TEXT_MESSAGE_CHUNK m1 "Hel"     TEXT_MESSAGE_START m1, TEXT_MESSAGE_CONTENT m1 "Hel"
//! TEXT_MESSAGE_CHUNK "lo"         TEXT_MESSAGE_CONTENT m1 "lo"
//! TOOL_CALL_CHUNK c1 search "{}"  TEXT_MESSAGE_END m1, TOOL_CALL_START c1, TOOL_CALL_ARGS c1 "{}"
//! RUN_FINISHED                    TOOL_CALL_END c1, RUN_FINISHED
//! ```
//!
//! The decoder and the verifier share this module, so that both read chunks as a client does.

#[cfg(test)]
mod tests;

use aqueduct_core::ByteString;

use crate::config::Dialect;
use crate::error::Error;
use crate::wire::{
    Base, Event, EventType, ReasoningMessageChunk, ReasoningMessageContent, ReasoningMessageEnd,
    ReasoningMessageStart, ReasoningRole, TextMessageChunk, TextMessageContent, TextMessageEnd,
    TextMessageStart, TextRole, ToolCallArgs, ToolCallChunk, ToolCallEnd, ToolCallStart,
};

/// Expands chunk events and passes all other events on.
#[derive(Debug)]
pub struct ChunkExpander {
    dialect: Dialect,
    /// Open streams by lane, in the order of opening. A list is faster than a map for the few there are.
    open: Vec<(Lane, Stream)>,
}

/// The tag of a sub-agent; `None` for the parent agent.
type Lane = Option<ByteString>;

/// An open stream of chunks.
#[derive(Debug, Clone)]
struct Stream {
    kind: Kind,
    id: ByteString,
    tag: Lane,
    role: Option<TextRole>,
    /// The name of the author or of the tool.
    name: Option<ByteString>,
    parent: Option<ByteString>,
}

/// The three kinds of chunk. A chunk continues only a stream of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Tool,
    Reasoning,
}

impl Kind {
    /// Returns the name of the chunk event, for errors.
    fn event(self) -> &'static str {
        match self {
            Self::Text => EventType::TextMessageChunk.as_str(),
            Self::Tool => EventType::ToolCallChunk.as_str(),
            Self::Reasoning => EventType::ReasoningMessageChunk.as_str(),
        }
    }

    /// Returns the name of the member that holds the id, for errors.
    fn id_member(self) -> &'static str {
        if self == Self::Tool { "toolCallId" } else { "messageId" }
    }
}

/// The common members of the three kinds of chunk.
struct Chunk {
    kind: Kind,
    base: Base,
    id: Option<ByteString>,
    tag: Lane,
    role: Option<TextRole>,
    name: Option<ByteString>,
    parent: Option<ByteString>,
    delta: Option<ByteString>,
}

impl ChunkExpander {
    /// Returns an expander without open streams. Only 1.0 rejects chunks that repeat a member with another value.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, open: Vec::new() }
    }

    /// Returns `true` if the event passes unchanged: it is not a chunk, and no stream is open that it
    /// could end. Callers use it to skip the expansion for streams without chunks.
    pub fn passes(&self, event: &Event) -> bool {
        let is_chunk = matches!(
            event,
            Event::TextMessageChunk(_) | Event::ToolCallChunk(_) | Event::ReasoningMessageChunk(_)
        );
        self.open.is_empty() && !is_chunk
    }

    /// Appends the expansion of the event. A chunk with an error changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Error::FirstChunkWithout`] if a chunk starts a stream and lacks its id or tool name,
    /// [`Error::AmbiguousChunk`] if it names no stream and several are open, and
    /// [`Error::ChunkConflict`] if it contradicts its stream. All are faults of the agent; the next
    /// event can be handled.
    pub fn handle_event(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Error> {
        let chunk = match event {
            Event::TextMessageChunk(chunk) => Chunk::from(*chunk),
            Event::ToolCallChunk(chunk) => Chunk::from(*chunk),
            Event::ReasoningMessageChunk(chunk) => Chunk::from(chunk),
            event => {
                self.close_for(&event, out);
                out.push(event);
                return Ok(());
            }
        };
        self.handle_chunk(chunk, out)
    }

    /// Ends the streams that an event of another kind interrupts.
    fn close_for(&mut self, event: &Event, out: &mut Vec<Event>) {
        match event {
            Event::RunStarted(_)
            | Event::RunFinished(_)
            | Event::RunError(_)
            | Event::MessagesSnapshot(_) => {
                out.extend(self.open.drain(..).map(|(_, stream)| stream.end()));
            }
            Event::Raw(_)
            | Event::ActivitySnapshot(_)
            | Event::ActivityDelta(_)
            | Event::ReasoningEncryptedValue(_)
            | Event::SubagentStarted(_) => {}
            Event::Unknown { kind, .. } if !kind.starts_with("THINKING_") => {}
            event => self.close(event.subagent_run_id(), out),
        }
    }

    /// Ends the stream of a lane, if one is open.
    fn close(&mut self, lane: Option<&ByteString>, out: &mut Vec<Event>) {
        if let Some(at) = self.open.iter().position(|(open, _)| open.as_ref() == lane) {
            out.push(self.open.remove(at).1.end());
        }
    }

    /// Continues the open stream of a chunk's lane, or ends it and starts another.
    fn handle_chunk(&mut self, chunk: Chunk, out: &mut Vec<Event>) -> Result<(), Error> {
        let lane = self.lane_of(&chunk)?;
        let open = self.open.iter().find(|(open, _)| *open == lane).map(|(_, stream)| stream);
        let continued = open.filter(|stream| {
            stream.kind == chunk.kind && chunk.id.as_ref().is_none_or(|id| *id == stream.id)
        });
        let (stream, is_new) = if let Some(stream) = continued {
            if self.dialect == Dialect::V1_0 {
                stream.agrees(&chunk)?;
            }
            (stream.clone(), false)
        } else {
            (chunk.begin()?, true)
        };
        // `begin` has succeeded, so an error never ends the stream before it.
        if is_new {
            self.close(lane.as_ref(), out);
            out.push(stream.start(&chunk.base));
            self.open.push((lane, stream.clone()));
        }
        // A later chunk without delta may still carry metadata, which has no event but a content event.
        if chunk.delta.is_some() || chunk.base.rare.is_some() && !is_new {
            out.push(stream.content(chunk));
        }
        Ok(())
    }

    /// Returns the lane of a chunk: the one with its id open, otherwise its tag, otherwise the one with an open stream of its
    /// kind.
    fn lane_of(&self, chunk: &Chunk) -> Result<Lane, Error> {
        let same_kind = || self.open.iter().filter(|(_, stream)| stream.kind == chunk.kind);
        if let Some(id) = &chunk.id {
            let Some((lane, _)) = same_kind().find(|(_, stream)| stream.id == *id) else {
                return Ok(chunk.tag.clone());
            };
            if chunk.tag.is_some() && chunk.tag != *lane {
                return Err(conflict(chunk.kind, "subagentRunId", chunk.tag.as_deref(), lane.as_deref()));
            }
            return Ok(lane.clone());
        }
        if chunk.tag.is_some() || same_kind().any(|(lane, _)| lane.is_none()) {
            return Ok(chunk.tag.clone());
        }
        match same_kind().count() {
            0 => Ok(None),
            1 => Ok(same_kind().next().and_then(|(lane, _)| lane.clone())),
            lanes => Err(Error::AmbiguousChunk { event: chunk.kind.event(), lanes }),
        }
    }
}

/// Returns the error for a member that differs from the one the stream began with.
fn conflict(kind: Kind, member: &'static str, found: Option<&str>, began: Option<&str>) -> Error {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Error::ChunkConflict { event: kind.event(), member, found: owned(found), began: owned(began) }
}

impl Chunk {
    /// Returns the stream that a first chunk starts, or an error if it lacks a member.
    fn begin(&self) -> Result<Stream, Error> {
        let missing = |member| Error::FirstChunkWithout { event: self.kind.event(), member };
        let id = self.id.clone().ok_or_else(|| missing(self.kind.id_member()))?;
        if self.kind == Kind::Tool && self.name.is_none() {
            return Err(missing("toolCallName"));
        }
        Ok(Stream {
            kind: self.kind,
            id,
            tag: self.tag.clone(),
            role: self.role,
            name: self.name.clone(),
            parent: self.parent.clone(),
        })
    }
}

impl Stream {
    /// Checks that the members a chunk repeats equal those of its stream.
    fn agrees(&self, chunk: &Chunk) -> Result<(), Error> {
        let role = |role: Option<TextRole>| role.unwrap_or_default().as_str();
        if chunk.role.is_some_and(|found| role(Some(found)) != role(self.role)) {
            let found = chunk.role.map(TextRole::as_str);
            return Err(conflict(self.kind, "role", found, Some(role(self.role))));
        }
        let name = if self.kind == Kind::Tool { "toolCallName" } else { "name" };
        for (member, found, began) in
            [(name, &chunk.name, &self.name), ("parentMessageId", &chunk.parent, &self.parent)]
        {
            if found.is_some() && found != began {
                return Err(conflict(self.kind, member, found.as_deref(), began.as_deref()));
            }
        }
        Ok(())
    }

    /// Returns the start event, with the metadata of the first chunk.
    fn start(&self, base: &Base) -> Event {
        let mut base = base.clone();
        // Only the content carries the framework's event.
        if let Some(rare) = &mut base.rare {
            rare.raw_event = None;
        }
        let (id, subagent_run_id) = (self.id.clone(), self.tag.clone());
        match self.kind {
            Kind::Text => Event::TextMessageStart(TextMessageStart {
                base,
                message_id: id,
                role: Some(self.role.unwrap_or_default()),
                name: self.name.clone(),
                subagent_run_id,
            }),
            Kind::Tool => Event::ToolCallStart(ToolCallStart {
                base,
                tool_call_id: id,
                tool_call_name: self.name.clone().unwrap_or_default(),
                parent_message_id: self.parent.clone(),
                subagent_run_id,
            }),
            Kind::Reasoning => Event::ReasoningMessageStart(ReasoningMessageStart {
                base,
                subagent_run_id,
                message_id: id,
                role: ReasoningRole::Reasoning,
            }),
        }
    }

    /// Returns the content event of a chunk. A chunk without tag gets the tag of its stream.
    fn content(&self, chunk: Chunk) -> Event {
        let (base, id, delta) = (chunk.base, self.id.clone(), chunk.delta.unwrap_or_default());
        let subagent_run_id = chunk.tag.or_else(|| self.tag.clone());
        match self.kind {
            Kind::Text => {
                Event::TextMessageContent(TextMessageContent { base, message_id: id, delta, subagent_run_id })
            }
            Kind::Tool => {
                Event::ToolCallArgs(ToolCallArgs { base, tool_call_id: id, delta, subagent_run_id })
            }
            Kind::Reasoning => Event::ReasoningMessageContent(ReasoningMessageContent {
                base,
                subagent_run_id,
                message_id: id,
                delta,
            }),
        }
    }

    /// Returns the end event.
    fn end(self) -> Event {
        let (base, subagent_run_id) = (Base::default(), self.tag);
        match self.kind {
            Kind::Text => {
                Event::TextMessageEnd(TextMessageEnd { base, message_id: self.id, subagent_run_id })
            }
            Kind::Tool => Event::ToolCallEnd(ToolCallEnd { base, tool_call_id: self.id, subagent_run_id }),
            Kind::Reasoning => {
                Event::ReasoningMessageEnd(ReasoningMessageEnd { base, subagent_run_id, message_id: self.id })
            }
        }
    }
}

impl From<TextMessageChunk> for Chunk {
    fn from(chunk: TextMessageChunk) -> Self {
        let TextMessageChunk { base, message_id: id, role, delta, name, subagent_run_id: tag } = chunk;
        Self { kind: Kind::Text, base, id, tag, role, name, parent: None, delta }
    }
}

impl From<ToolCallChunk> for Chunk {
    fn from(chunk: ToolCallChunk) -> Self {
        let (base, id, tag) = (chunk.base, chunk.tool_call_id, chunk.subagent_run_id);
        let (name, parent, delta) = (chunk.tool_call_name, chunk.parent_message_id, chunk.delta);
        Self { kind: Kind::Tool, base, id, tag, role: None, name, parent, delta }
    }
}

impl From<ReasoningMessageChunk> for Chunk {
    fn from(chunk: ReasoningMessageChunk) -> Self {
        let ReasoningMessageChunk { base, message_id: id, delta, subagent_run_id: tag } = chunk;
        Self { kind: Kind::Reasoning, base, id, tag, role: None, name: None, parent: None, delta }
    }
}

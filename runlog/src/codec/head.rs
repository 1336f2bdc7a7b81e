//! The encoding of sources, lanes, block heads and origins.
//!
//! ```text
//! metadata  := value*                                       members of an object, in their order
//! source    := (key name description? call? metadata?)*     outermost agent first; none for the root
//! lane      := (id source parent_call?)+                    outermost lane first, the lane itself last
//! origin    := message_id? response_id? tool_call_id? track created_at? metadata?
//! head      := id kind channel role tool_name parent? continues? replaces? origin lane
//! ```
//!
//! Invariant: chains of agents and lanes are at most [`MAX_DEPTH`] long, in both directions, so that reading needs no recursion.

use std::sync::Arc;

use aqueduct_core::event::Origin;
use aqueduct_core::{
    BlockHead, BlockId, Channel, Lane, LaneId, MessageId, Metadata, ResponseId, Role, Source, SpanKind,
    Timestamp, ToolCallId, Track,
};

use super::memory::Memory;
use super::read::Reader;
use super::write::Writer;
use super::{CodecError, MAX_DEPTH, value};

/// Writes a value of a small enum as its index in `all`.
pub(super) fn write_code<T: PartialEq>(
    to: &mut Writer,
    all: &[T],
    value: &T,
    what: &'static str,
) -> Result<(), CodecError> {
    let code = all.iter().position(|known| known == value).and_then(|code| u8::try_from(code).ok());
    to.byte(code.ok_or(CodecError::NoForm(what))?);
    Ok(())
}

/// Reads a value of a small enum. An index outside `all` is an error that names `what`.
pub(super) fn read_code<T: Copy>(from: &mut Reader, all: &[T], what: &'static str) -> Result<T, CodecError> {
    let code = from.byte(what)?;
    all.get(usize::from(code)).copied().ok_or_else(|| CodecError::Invalid { what, found: code.into() })
}

/// The kinds of blocks by their code. The order is part of the format, here and in the next two lists.
pub(super) const KINDS: [SpanKind; 3] = [SpanKind::Text, SpanKind::Thinking, SpanKind::ToolUse];
pub(super) const CHANNELS: [Channel; 2] = [Channel::Answer, Channel::Intermediate];
const ROLES: [Role; 5] = [Role::Assistant, Role::User, Role::System, Role::Developer, Role::Tool];

/// Writes metadata of a source, if there are any.
pub(super) fn write_metadata(to: &mut Writer, metadata: Option<&Arc<Metadata>>) -> Result<(), CodecError> {
    to.try_optional(metadata, |to, metadata| value::write_map(to, metadata))
}

/// Reads metadata of a source.
pub(super) fn read_metadata(from: &mut Reader) -> Result<Option<Arc<Metadata>>, CodecError> {
    from.optional("metadata", |from| value::read_map(from).map(Arc::new))
}

/// Writes the agents from the outermost to `source`; none for the root.
fn write_source(to: &mut Writer, source: &Source) -> Result<(), CodecError> {
    let own = std::iter::successors(Some(source), |source| source.parent());
    let chain: Vec<&Source> = own.filter(|source| !source.is_root()).collect();
    if chain.len() > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    to.length(chain.len());
    for agent in chain.into_iter().rev() {
        to.text(agent.key());
        to.text(agent.name());
        to.optional_text(agent.description().map(|text| &**text));
        to.optional_text(agent.parent_call().map(ToolCallId::as_str));
        write_metadata(to, agent.metadata())?;
    }
    Ok(())
}

/// Reads the path of an agent.
fn read_source(from: &mut Reader) -> Result<Source, CodecError> {
    let length = from.length("agents")?;
    if length > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    let mut source = Source::root();
    for _ in 0..length {
        source = source.child(from.text("the key of an agent")?).named(from.text("the name of an agent")?);
        if let Some(description) = from.optional_text("the description of an agent")? {
            source = source.described(description);
        }
        if let Some(call) = from.optional_text("the call of an agent")? {
            source = source.called_by(ToolCallId::new(call));
        }
        if let Some(metadata) = read_metadata(from)? {
            source = source.with_metadata(Arc::unwrap_or_clone(metadata));
        }
    }
    Ok(source)
}

/// Writes the lane and its ancestors, outermost last.
pub(super) fn write_lane(to: &mut Writer, lane: &Lane) -> Result<(), CodecError> {
    let chain: Vec<&Lane> = std::iter::successors(Some(lane), |lane| lane.parent.as_deref()).collect();
    if chain.len() > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    to.length(chain.len());
    for lane in chain.into_iter().rev() {
        to.text(lane.id.as_str());
        write_source(to, &lane.source)?;
        to.optional_text(lane.parent_call.as_ref().map(ToolCallId::as_str));
    }
    Ok(())
}

/// Reads a lane and its ancestors.
///
/// # Errors
///
/// Returns [`CodecError::TooDeep`] for more than [`MAX_DEPTH`] lanes, and [`CodecError::Invalid`] for none.
pub(super) fn read_lane(from: &mut Reader) -> Result<Lane, CodecError> {
    let length = from.length("lanes")?;
    if length > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    let mut parent: Option<Lane> = None;
    for _ in 0..length {
        let id = LaneId::new(from.text("the id of a lane")?);
        let source = read_source(from)?;
        let parent_call = from.optional_text("the call of a lane")?.map(ToolCallId::new);
        parent = Some(Lane { id, source, parent: parent.map(Arc::new), parent_call });
    }
    parent.ok_or(CodecError::Invalid { what: "the number of lanes", found: 0 })
}

/// Writes the ids that the source gave to a block.
pub(super) fn write_origin(to: &mut Writer, origin: &Origin) -> Result<(), CodecError> {
    to.optional_text(origin.message_id.as_ref().map(MessageId::as_str));
    to.optional_text(origin.response_id.as_ref().map(ResponseId::as_str));
    to.optional_text(origin.tool_call_id.as_ref().map(ToolCallId::as_str));
    to.text(origin.track.as_str());
    to.optional(origin.created_at, |to, at| to.signed(at.0));
    write_metadata(to, origin.metadata.as_ref())
}

/// Reads the ids that the source gave to a block.
pub(super) fn read_origin(from: &mut Reader) -> Result<Origin, CodecError> {
    Ok(Origin {
        message_id: from.optional_text("a message id")?.map(MessageId::new),
        response_id: from.optional_text("a response id")?.map(ResponseId::new),
        tool_call_id: from.optional_text("a tool call id")?.map(ToolCallId::new),
        track: Track::new(from.text("a track")?),
        created_at: from.optional("a time", |from| from.signed("a time").map(Timestamp))?,
        metadata: read_metadata(from)?,
    })
}

/// Writes a head. Its lane is nested, so that the decoder can share it between heads.
pub(super) fn write_head(to: &mut Writer, head: &BlockHead) -> Result<(), CodecError> {
    to.text(head.id.as_str());
    write_code(to, &KINDS, &head.kind, "the kind of a block")?;
    write_code(to, &CHANNELS, &head.channel, "a channel")?;
    write_code(to, &ROLES, &head.role, "a role")?;
    to.text(&head.tool_name);
    for id in [&head.parent, &head.continues, &head.replaces] {
        to.optional_text(id.as_ref().map(BlockId::as_str));
    }
    write_origin(to, &head.origin)?;
    to.nested(|to| write_lane(to, &head.lane))
}

/// Reads a head. `lanes` caches decoded lanes by their bytes: the heads of a lane share one allocation.
pub(super) fn read_head(from: &mut Reader, lanes: &mut Memory<Lane>) -> Result<BlockHead, CodecError> {
    let id = BlockId::new(from.text("the id of a block")?);
    let kind = read_code(from, &KINDS, "the kind of a block")?;
    let channel = read_code(from, &CHANNELS, "a channel")?;
    let role = read_code(from, &ROLES, "a role")?;
    let tool_name = from.text("the name of a tool")?;
    let mut block = || Ok(from.optional_text("the id of another block")?.map(BlockId::new));
    let (parent, continues, replaces) = (block()?, block()?, block()?);
    let origin = read_origin(from)?;
    let lane = lanes.get(&from.slice("a lane")?, read_lane)?;
    Ok(BlockHead { id, kind, lane, channel, role, tool_name, parent, continues, replaces, origin })
}

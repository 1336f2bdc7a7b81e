//! Handles: the lanes and blocks that a stream has declared, for the writer and for the reader.
//!
//! A head has some hundred bytes and is declared once per stream; after that each delta refers to it with one or two bytes.
//! Entries are removed when their block or lane has ended, so both tables are as large as the open state. A lane or block
//! that is referred to after its end (a lane in the list of pending interrupts) is declared again under a new handle.
//!
//! ```text
//! message 1   lanes [{handle 1, id "root"}]  blocks [{handle 1, lane 1, id "b"}]  events [delta(block 1, "Hel")]
//! message 2                                                                       events [delta(block 1, "lo")]
//! ```

use std::sync::Arc;

use aqueduct_core::{BlockHead, BlockId, Lane, LaneId, ToolCallId};
use foldhash::{HashMap, HashMapExt as _};

use super::ConvertError;
use super::kinds::{channel_from_proto, channel_to_proto, kind_from_proto, kind_to_proto};
use super::kinds::{role_from_proto, role_to_proto};
use super::run::{agents_from_proto, agents_to_proto, origin_from_proto, origin_to_proto};
use super::values::{JsonDepth, kept, optional_kept, to_bytes};
use crate::proto;

/// The open declarations of the writer.
#[derive(Debug)]
pub(super) struct Declared {
    lanes: HashMap<LaneId, (u64, Arc<Lane>)>,
    blocks: HashMap<BlockId, (u64, Arc<BlockHead>)>,
    last_block: Option<(u64, Arc<BlockHead>)>,
    next_lane: u64,
    next_block: u64,
}

impl Declared {
    /// Returns an empty table. Handles begin at 1: 0 is the default of protobuf and means none.
    pub(super) fn new() -> Self {
        Self { lanes: HashMap::new(), blocks: HashMap::new(), last_block: None, next_lane: 1, next_block: 1 }
    }

    /// Returns the handle of a block. Adds its declaration to `out` if it is new.
    pub(super) fn block(
        &mut self,
        head: &Arc<BlockHead>,
        out: &mut proto::StreamMessage,
    ) -> Result<u64, ConvertError> {
        // Most events are deltas of the last block.
        if let Some((handle, last)) = &self.last_block
            && Arc::ptr_eq(last, head)
        {
            return Ok(*handle);
        }
        let known = self.blocks.get(&head.id).filter(|(_, known)| Arc::ptr_eq(known, head) || known == head);
        let handle = match known {
            Some((handle, _)) => *handle,
            None => self.declare_block(head, out)?,
        };
        self.last_block = Some((handle, Arc::clone(head)));
        Ok(handle)
    }

    /// Returns the handle of a lane. Adds its declaration and those of its ancestors to `out` if they are new.
    pub(super) fn lane(&mut self, lane: &Arc<Lane>, out: &mut proto::StreamMessage) -> u64 {
        let mut undeclared = Vec::new();
        let mut current = Some(lane);
        let mut handle = 0;
        // A loop instead of recursion, because the source determines the depth.
        while let Some(lane) = current {
            let known =
                self.lanes.get(&lane.id).filter(|(_, known)| Arc::ptr_eq(known, lane) || known == lane);
            if let Some((known, _)) = known {
                handle = *known;
                break;
            }
            undeclared.push(lane);
            current = lane.parent.as_ref();
        }
        for lane in undeclared.into_iter().rev() {
            out.lanes.push(lane_to_proto(self.next_lane, handle, lane));
            handle = self.next_lane;
            self.next_lane += 1;
            self.lanes.insert(lane.id.clone(), (handle, Arc::clone(lane)));
        }
        handle
    }

    /// Removes the declaration of an ended block.
    pub(super) fn forget_block(&mut self, head: &BlockHead) {
        self.blocks.remove(&head.id);
        self.last_block = None;
    }

    /// Removes the declaration of a closed lane.
    pub(super) fn forget_lane(&mut self, lane: &Lane) {
        self.lanes.remove(&lane.id);
    }

    /// Declares a block and its lane before their first use, and returns the handle.
    fn declare_block(
        &mut self,
        head: &Arc<BlockHead>,
        out: &mut proto::StreamMessage,
    ) -> Result<u64, ConvertError> {
        let lane = self.lane(&head.lane, out);
        let handle = self.next_block;
        out.blocks.push(block_to_proto(handle, lane, head)?);
        self.next_block += 1;
        self.blocks.insert(head.id.clone(), (handle, Arc::clone(head)));
        Ok(handle)
    }
}

/// Encodes the declaration of a lane; later events refer to it by its handle.
fn lane_to_proto(handle: u64, parent: u64, lane: &Lane) -> proto::Lane {
    proto::Lane {
        handle,
        id: to_bytes(lane.id.as_bytes()),
        agents: agents_to_proto(&lane.source),
        parent,
        parent_call: lane.parent_call.as_ref().map(|id| to_bytes(id.as_bytes())),
    }
}

/// Encodes the declaration of a block; later events refer to it by its handle.
fn block_to_proto(handle: u64, lane: u64, head: &BlockHead) -> Result<proto::Block, ConvertError> {
    Ok(proto::Block {
        handle,
        id: to_bytes(head.id.as_bytes()),
        kind: kind_to_proto(head.kind).into(),
        lane,
        channel: channel_to_proto(head.channel).into(),
        role: role_to_proto(head.role)?.into(),
        tool_name: to_bytes(&head.tool_name),
        parent: head.parent.as_ref().map(|id| to_bytes(id.as_bytes())),
        continues: head.continues.as_ref().map(|id| to_bytes(id.as_bytes())),
        replaces: head.replaces.as_ref().map(|id| to_bytes(id.as_bytes())),
        origin: origin_to_proto(&head.origin),
    })
}

/// The declarations known to the reader.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    lanes: HashMap<u64, Arc<Lane>>,
    blocks: HashMap<u64, Arc<BlockHead>>,
}

impl Declarations {
    /// Stores the declaration of a lane. Its parent must have been declared.
    pub(super) fn learn_lane(&mut self, lane: proto::Lane) -> Result<(), ConvertError> {
        let parent = match lane.parent {
            0 => None,
            handle => Some(self.lane(handle)?),
        };
        let learned = Lane {
            id: LaneId::new(kept("lane.id", &lane.id)?),
            source: agents_from_proto(lane.agents, JsonDepth::MOST)?,
            parent,
            parent_call: optional_kept("lane.parent_call", lane.parent_call.as_ref())?.map(ToolCallId::new),
        };
        self.lanes.insert(lane.handle, Arc::new(learned));
        Ok(())
    }

    /// Stores the declaration of a block. Its lane must have been declared.
    pub(super) fn learn_block(&mut self, block: proto::Block) -> Result<(), ConvertError> {
        let id = |field, bytes: Option<&bytes::Bytes>| Ok(optional_kept(field, bytes)?.map(BlockId::new));
        let learned = BlockHead {
            id: BlockId::new(kept("block.id", &block.id)?),
            kind: kind_from_proto(block.kind)?,
            lane: self.lane(block.lane)?,
            channel: channel_from_proto("block.channel", block.channel)?,
            role: role_from_proto("block.role", block.role)?,
            tool_name: kept("block.tool_name", &block.tool_name)?,
            parent: id("block.parent", block.parent.as_ref())?,
            continues: id("block.continues", block.continues.as_ref())?,
            replaces: id("block.replaces", block.replaces.as_ref())?,
            origin: origin_from_proto(block.origin)?,
        };
        self.blocks.insert(block.handle, Arc::new(learned));
        Ok(())
    }

    /// Returns the lane of a handle, or an error if the stream has not declared it.
    pub(super) fn lane(&self, handle: u64) -> Result<Arc<Lane>, ConvertError> {
        self.lanes.get(&handle).cloned().ok_or(ConvertError::Undeclared { what: "lane", handle })
    }

    /// Returns the block of a handle, or an error if the stream has not declared it.
    pub(super) fn block(&self, handle: u64) -> Result<Arc<BlockHead>, ConvertError> {
        self.blocks.get(&handle).cloned().ok_or(ConvertError::Undeclared { what: "block", handle })
    }

    /// Removes a lane at its close, and returns it.
    pub(super) fn take_lane(&mut self, handle: u64) -> Result<Arc<Lane>, ConvertError> {
        self.lanes.remove(&handle).ok_or(ConvertError::Undeclared { what: "lane", handle })
    }

    /// Removes a block at its end, and returns it.
    pub(super) fn take_block(&mut self, handle: u64) -> Result<Arc<BlockHead>, ConvertError> {
        self.blocks.remove(&handle).ok_or(ConvertError::Undeclared { what: "block", handle })
    }
}

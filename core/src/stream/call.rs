//! One tool call, from its first fragment to its end.
//!
//! Invariants: a block starts only once the name is known or no more input can bring it; arguments that arrive earlier are
//! held within `bytes_per_block`; the emitted arguments are compared by fingerprint, so a repeated call adds nothing.

use std::sync::Arc;

use bytestring::ByteString;

use super::UNKNOWN_TOOL;
use super::outlet::Outlet;
use crate::error::Error;
use crate::event::{BlockEvent, BlockHead, EndReason, Lane, Origin, SpanKind};
use crate::fingerprint::{JsonFingerprint, Relation};
use crate::id::{BlockId, ToolCallId};
use crate::update::{Channel, Mode, Role, Update};

/// The state of one tool call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: ByteString,
    /// Arguments that arrived before the name did.
    pub(super) held: String,
    pub(super) fingerprint: JsonFingerprint,
    /// Set once the block has started.
    pub(super) head: Option<Arc<BlockHead>>,
    /// The position in the order of opening, while the block is open.
    pub(super) opened: Option<u64>,
    pub(super) origin: Origin,
    pub(super) parent: Option<BlockId>,
    /// The position among the calls without result.
    pub(super) arrival: u64,
}

impl Call {
    /// Returns a call without name, arguments and block.
    pub(super) fn new(origin: Origin, parent: Option<BlockId>, arrival: u64) -> Self {
        Self {
            name: ByteString::new(),
            held: String::new(),
            fingerprint: JsonFingerprint::default(),
            head: None,
            opened: None,
            origin,
            parent,
            arrival,
        }
    }

    /// Emits the new part of the arguments, or holds them until the name is known.
    pub(super) fn take_arguments(
        &mut self,
        arguments: ByteString,
        lane: &Arc<Lane>,
        update: &Update,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        let Some(head) = self.head.clone() else {
            return self.hold(&arguments, update.mode, lane, out);
        };
        let missing = match (update.mode, self.fingerprint.relation(&arguments)) {
            _ if arguments.is_empty() => return Ok(()),
            (Mode::Append, _) | (_, Relation::First) => arguments,
            (_, Relation::Same) => return Ok(()),
            (_, Relation::Extends(rest)) => arguments.slice_ref(rest),
            (_, Relation::Different) => {
                return {
                    self.replace(&head, arguments, out);
                    Ok(())
                };
            }
        };
        self.fingerprint.push(&missing);
        out.emit(BlockEvent::BlockDelta { block: head, delta: missing });
        Ok(())
    }

    /// Holds arguments until the name is known. If it is known, the caller starts the block with them at once.
    fn hold(&mut self, arguments: &str, mode: Mode, lane: &Lane, out: &Outlet) -> Result<(), Error> {
        let held = if mode == Mode::Append { self.held.len() } else { 0 };
        if self.name.is_empty() {
            let max = out.limits.bytes_per_block;
            let what = "bytes of arguments of a tool call without name";
            Outlet::check(held + arguments.len(), max, "bytes_per_block", what, lane.source.path())?;
        }
        if mode != Mode::Append && !arguments.is_empty() {
            self.held.clear();
        }
        self.held.push_str(arguments);
        Ok(())
    }

    /// Ends the block with the outdated arguments and starts one with the new arguments, under a new id.
    fn replace(&mut self, old: &Arc<BlockHead>, arguments: ByteString, out: &mut Outlet) {
        out.emit(BlockEvent::BlockEnded { block: Arc::clone(old), reason: EndReason::Replaced });
        self.fingerprint = JsonFingerprint::default();
        self.fingerprint.push(&arguments);
        self.head = Some(emit_replacing(old, &old.lane, arguments, out));
    }

    /// Emits the corrected arguments of an ended call as a further block, which ends at once.
    pub(super) fn replace_ended(&mut self, lane: &Arc<Lane>, arguments: ByteString, out: &mut Outlet) {
        let Some(old) = &self.head else { return };
        self.fingerprint = JsonFingerprint::default();
        self.fingerprint.push(&arguments);
        let head = emit_replacing(old, lane, arguments, out);
        out.emit(BlockEvent::BlockEnded { block: Arc::clone(&head), reason: EndReason::Complete });
        self.head = Some(head);
    }

    pub(super) fn start(&mut self, lane: &Arc<Lane>, out: &mut Outlet) {
        let head = Arc::new(BlockHead {
            id: out.call_id(self.origin.tool_call_id.as_ref()),
            kind: SpanKind::ToolUse,
            lane: Arc::clone(lane),
            channel: Channel::Answer,
            role: Role::Assistant,
            tool_name: self.name.clone(),
            parent: self.parent.take(),
            continues: None,
            replaces: None,
            origin: self.origin.clone(),
        });
        self.opened = Some(out.next_opened());
        out.emit(BlockEvent::BlockStarted(Arc::clone(&head)));
        if !self.held.is_empty() {
            self.fingerprint.push(&self.held);
            let delta = ByteString::from(std::mem::take(&mut self.held));
            out.emit(BlockEvent::BlockDelta { block: Arc::clone(&head), delta });
        }
        self.head = Some(head);
    }

    /// Starts the block of a call whose name never arrived, under [`UNKNOWN_TOOL`].
    pub(super) fn start_if_needed(&mut self, lane: &Arc<Lane>, out: &mut Outlet) {
        if self.head.is_none() {
            self.name_or(None);
            self.start(lane, out);
        }
    }

    pub(super) fn end(&mut self, reason: EndReason, out: &mut Outlet) {
        if let (Some(_), Some(head)) = (self.opened.take(), &self.head) {
            out.emit(BlockEvent::BlockEnded { block: Arc::clone(head), reason });
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.head.is_some() && self.opened.is_none()
    }

    /// Sets the name if it is still unknown: to `name`, otherwise to [`UNKNOWN_TOOL`].
    pub(super) fn name_or(&mut self, name: Option<ByteString>) {
        if self.name.is_empty() {
            self.name = name.map_or(ByteString::from_static(UNKNOWN_TOOL), |name| crate::id::detach(&name));
        }
    }

    /// Returns the emitted id of the call; empty before its block has started.
    pub(super) fn outgoing(&self) -> ToolCallId {
        self.head.as_ref().map_or_else(|| ToolCallId::from(""), |head| head.tool_call_id())
    }
}

/// Starts a block with `arguments` that replaces `old`, under a new id.
pub(super) fn emit_replacing(
    old: &BlockHead,
    lane: &Arc<Lane>,
    arguments: ByteString,
    out: &mut Outlet,
) -> Arc<BlockHead> {
    let head = Arc::new(BlockHead {
        id: BlockId::new(out.mint()),
        kind: SpanKind::ToolUse,
        lane: Arc::clone(lane),
        channel: old.channel,
        role: old.role,
        tool_name: old.tool_name.clone(),
        // A reopened lane has other messages, so the parent of the earlier lane does not apply.
        parent: old.parent.clone().filter(|_| old.lane.id == lane.id),
        continues: None,
        replaces: Some(old.id.clone()),
        origin: old.origin.clone(),
    });
    out.emit(BlockEvent::BlockStarted(Arc::clone(&head)));
    out.emit(BlockEvent::BlockDelta { block: Arc::clone(&head), delta: arguments });
    head
}

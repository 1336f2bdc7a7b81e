//! [`DeltaTemplate`]: the bytes around the text of a block's deltas, to write the next one without converting it.
//!
//! ```text
//! {"type":"TEXT_MESSAGE_CONTENT","messageId":"run/1","delta":"quick "}
//! ──────────────────────── before ──────────────────────────        ── after
//! ```
//!
//! Converters of this crate keep no state, so the deltas of one block become events that differ in their text alone. The
//! template is learned from an event that was converted: what it is written as is decided there. Not for sub-agents in views
//! with state, which note every delta of them, nor for converters of a caller, which may treat deltas in any way.

use std::sync::Arc;

use aqueduct_core::json::escape_into;
use aqueduct_core::service::PayloadSink;
use aqueduct_core::{BlockEvent, BlockHead};

use super::Parts;
use super::watcher::MAX_DELTA;
use crate::wire::Event;

/// The most bytes around a text. An id of more is written event by event.
const MAX_AROUND: usize = 4 * 1024;

/// What stands around the text of the deltas of one block, in JSON.
#[derive(Debug)]
pub(super) struct DeltaTemplate {
    block: Arc<BlockHead>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl DeltaTemplate {
    /// Returns the template of a delta that was converted to `events`. Returns `None` if it became anything else than one
    /// event with the same text.
    pub(super) fn learn(event: &BlockEvent, events: &[Event]) -> Option<Self> {
        let (BlockEvent::BlockDelta { block, delta }, [event]) = (event, events) else { return None };
        let parts = Parts::of(event).filter(|parts| parts.base.rare.is_none())?;
        if parts.delta != Some(&**delta) {
            return None;
        }
        let mut template =
            Self { block: Arc::clone(block), before: Vec::with_capacity(128), after: Vec::with_capacity(2) };
        parts.write_head(&mut template.before);
        parts.write_tail(&mut template.after);
        (template.before.len() + template.after.len() <= MAX_AROUND).then_some(template)
    }

    /// Writes an event that is a delta of the same block. Returns `false`, without effect, for every other event, and for
    /// a delta that is too long for one payload.
    pub(super) fn write(&self, event: &BlockEvent, sink: &mut dyn PayloadSink) -> bool {
        let BlockEvent::BlockDelta { block, delta } = event else { return false };
        if !Arc::ptr_eq(block, &self.block) || delta.len() > MAX_DELTA {
            return false;
        }
        sink.push(&mut |out| {
            out.reserve(self.before.len() + delta.len() + self.after.len());
            out.extend_from_slice(&self.before);
            escape_into(delta, out);
            out.extend_from_slice(&self.after);
        });
        true
    }
}

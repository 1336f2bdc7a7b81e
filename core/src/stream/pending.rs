//! The interrupts of a run that wait for a reply.

use super::outlet::Outlet;
use crate::error::Error;
use crate::event::PendingInterrupt;

/// The interrupts of a run, in the order of their requests.
#[derive(Debug, Default)]
pub(super) struct PendingInterrupts {
    pending: Vec<PendingInterrupt>,
}

impl PendingInterrupts {
    /// Adds an interrupt. Returns `false` if an equal one is already pending.
    pub(super) fn add(&mut self, pending: PendingInterrupt, max: usize) -> Result<bool, Error> {
        if let Some(known) = self.pending.iter_mut().find(|k| k.interrupt.id == pending.interrupt.id) {
            let is_new = known.interrupt != pending.interrupt;
            *known = pending;
            return Ok(is_new);
        }
        let count = self.pending.len() + 1;
        Outlet::check(count, max, "interrupts", "pending interrupts", pending.lane.source.path())?;
        self.pending.push(pending);
        Ok(true)
    }

    pub(super) fn take(&mut self) -> Vec<PendingInterrupt> {
        std::mem::take(&mut self.pending)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

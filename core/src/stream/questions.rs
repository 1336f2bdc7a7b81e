//! The interrupts that wait for an answer.

use super::error::StreamError;
use super::outlet::Outlet;
use crate::event::PendingInterrupt;

#[derive(Debug, Default)]
pub(super) struct Questions {
    pending: Vec<PendingInterrupt>,
}

impl Questions {
    /// Notes an interrupt. False if it is known already, word for word.
    pub(super) fn ask(&mut self, pending: PendingInterrupt, max: usize) -> Result<bool, StreamError> {
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

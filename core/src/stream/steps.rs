//! Named phases of work in one lane. Frontends identify steps by name, so a step that starts while one of the same name is
//! open is renamed (`name (2)`). A step that ends without a start is emitted with both.

use std::sync::Arc;

use bytestring::ByteString;

use super::outlet::Outlet;
use crate::error::Error;
use crate::event::{BlockEvent, Lane};

/// The open steps of one lane.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The source's name and the emitted name of each open step, from the outside in.
    open: Vec<(ByteString, ByteString)>,
}

impl Steps {
    /// Starts a step, under a free name, within the limits.
    pub(super) fn start(
        &mut self,
        name: &ByteString,
        lane: &Arc<Lane>,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        let count = self.open.len() + 1;
        Outlet::check(count, out.limits.open_steps, "open_steps", "open steps", lane.source.path())?;
        let max = out.limits.bytes_per_block;
        Outlet::check(name.len(), max, "bytes_per_block", "bytes of a step's name", lane.source.path())?;
        let name = crate::id::detach(name);
        let shown = self.free_name(&name);
        out.emit(BlockEvent::StepStarted { lane: Arc::clone(lane), name: shown.clone() });
        self.open.push((name, shown));
        Ok(())
    }

    /// Finishes the innermost open step of that name.
    pub(super) fn finish(&mut self, name: &ByteString, lane: &Arc<Lane>, out: &mut Outlet) {
        let shown = if let Some(at) = self.open.iter().rposition(|(open, _)| open == name) {
            self.open.remove(at).1
        } else {
            let shown = self.free_name(name);
            out.emit(BlockEvent::StepStarted { lane: Arc::clone(lane), name: shown.clone() });
            shown
        };
        out.emit(BlockEvent::StepFinished { lane: Arc::clone(lane), name: shown });
    }

    /// Restores a started step. The source's name is the emitted one without the number that made it unique.
    pub(super) fn restore_start(&mut self, shown: &ByteString) {
        let base = shown.rsplit_once(" (").filter(|(_, number)| number.ends_with(')')).map(|(base, _)| base);
        let given = self.open.iter().map(|(given, _)| given).find(|given| Some(&***given) == base);
        let given = given.unwrap_or(shown).clone();
        self.open.push((given, shown.clone()));
    }

    /// Restores a finished step.
    pub(super) fn restore_finish(&mut self, shown: &ByteString) {
        self.open.retain(|(_, open)| open != shown);
    }

    pub(super) fn drain(&mut self, lane: &Arc<Lane>, out: &mut Outlet) {
        while let Some((_, name)) = self.open.pop() {
            out.emit(BlockEvent::StepFinished { lane: Arc::clone(lane), name });
        }
    }

    fn free_name(&self, name: &ByteString) -> ByteString {
        let is_free = |candidate: &str| self.open.iter().all(|(_, shown)| &**shown != candidate);
        if is_free(name) {
            return name.clone();
        }
        // Among one name more than there are open steps, at least one is free.
        let mut numbered = (2..=self.open.len() + 2).map(|n| format!("{name} ({n})"));
        numbered.find(|candidate| is_free(candidate)).map_or_else(|| name.clone(), ByteString::from)
    }
}

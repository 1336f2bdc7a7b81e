//! [`Remains`]: the open blocks, lanes and steps of a run whose writer died, and the events that end it.
//!
//! The stream machine of a run dies with its writer; the log does not. The replica that takes the run over reads the log
//! from the start and ends everything open, in the order of the stream machine: children before parents, and in the order
//! of opening.
//!
//! Memory is that of the open blocks, lanes and steps; ended ones are dropped as their end is read.

use std::sync::Arc;

use aqueduct_core::event::{EndReason, RunFailed};
use aqueduct_core::{
    BlockEvent, BlockHead, BlockId, ByteString, Lane, LaneId, LaneOutcome, RunFailure, RunInfo, Usage,
};

use crate::log::RunMeta;

/// The open state of a run.
#[derive(Debug, Default)]
pub struct Remains {
    run: Option<Arc<RunInfo>>,
    lanes: Vec<Arc<Lane>>,
    blocks: Vec<Arc<BlockHead>>,
    steps: Vec<(Arc<Lane>, ByteString)>,
    usage: Vec<Usage>,
}

impl Remains {
    /// Adds the next event of the log.
    pub fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::RunStarted(run) => self.run = Some(Arc::clone(run)),
            BlockEvent::LaneOpened(lane) => self.lanes.push(Arc::clone(lane)),
            BlockEvent::LaneClosed { lane, .. } => self.lanes.retain(|open| open.id != lane.id),
            BlockEvent::BlockStarted(block) => self.blocks.push(Arc::clone(block)),
            BlockEvent::BlockEnded { block, .. } => self.forget_block(&block.id),
            BlockEvent::StepStarted { lane, name } => self.steps.push((Arc::clone(lane), name.clone())),
            BlockEvent::StepFinished { lane, name } => {
                self.steps.retain(|(of, open)| of.id != lane.id || open != name);
            }
            BlockEvent::Usage { usage, .. } => self.spend(usage),
            _ => {}
        }
    }

    fn forget_block(&mut self, id: &BlockId) {
        self.blocks.retain(|open| open.id != *id);
    }

    /// Adds token counts to those of the same provider and model.
    fn spend(&mut self, usage: &Usage) {
        match self.usage.iter_mut().find(|known| known.same_account(usage)) {
            Some(known) => known.add(usage),
            None => self.usage.push(usage.clone()),
        }
    }

    /// Returns the events that end the run: all ends, then the failure. A run without events is started first.
    pub fn end(mut self, meta: &RunMeta, failure: RunFailure) -> Vec<BlockEvent> {
        let mut events = Vec::new();
        let run = self.run.take().unwrap_or_else(|| {
            let mut info =
                RunInfo::new(meta.thread_id.as_bytes().clone(), meta.public_id().as_bytes().clone());
            info.agent = Some(meta.agent.as_str().into());
            let info = Arc::new(info);
            events.push(BlockEvent::RunStarted(Arc::clone(&info)));
            info
        });
        // A child opens after its parent, so closing in reverse closes children first.
        while let Some(lane) = self.lanes.pop() {
            self.close_within(Some(&lane.id), &mut events);
            let outcome = Box::new(LaneOutcome::Failed(failure.clone()));
            events.push(BlockEvent::LaneClosed { lane, outcome });
        }
        self.close_within(None, &mut events);
        let mut failed = RunFailed::new(run, failure);
        failed.usage = self.usage;
        events.push(BlockEvent::RunFailed(Box::new(failed)));
        events
    }

    /// Ends the blocks and steps of a lane, or all that are left if `lane` is `None`.
    fn close_within(&mut self, lane: Option<&LaneId>, events: &mut Vec<BlockEvent>) {
        let is_here = |of: &Lane| lane.is_none_or(|lane| of.id == *lane);
        for block in self.blocks.extract_if(.., |block| is_here(&block.lane)) {
            events.push(BlockEvent::BlockEnded { block, reason: EndReason::Closed });
        }
        for (lane, name) in self.steps.extract_if(.., |(of, _)| is_here(of)) {
            events.push(BlockEvent::StepFinished { lane, name });
        }
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::testing::{InvariantChecker, arb_source_events, run_to_end, scenarios};
    use aqueduct_core::{Source, SourceEvent};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::meta;

    /// Whatever was cut where, the whole is balanced.
    fn ends_well(events: &[BlockEvent]) {
        for cut in 0..events.len() {
            let mut remains = Remains::default();
            let mut whole = events.split_at(cut).0.to_vec();
            for event in &whole {
                remains.handle_event(event);
            }
            whole.extend(remains.end(&meta("run"), RunFailure::new("gone", "its writer is gone")));
            if let Err(violation) = InvariantChecker::check_all(&whole) {
                panic!("cut after {cut}: {violation:?}\n{whole:#?}");
            }
        }
    }

    #[test]
    fn every_scenario_cut_anywhere_ends_well() {
        for (_, source) in scenarios() {
            ends_well(&run_to_end(source));
        }
    }

    #[test]
    fn the_failure_carries_the_tokens_that_the_run_spent_by_model() {
        let usage = |model: &str, input| {
            let usage =
                Usage { model: Some(model.to_owned().into()), input: Some(input), ..Usage::default() };
            SourceEvent::Usage { source: Source::root(), usage: Box::new(usage) }
        };
        let mut remains = Remains::default();
        let events = run_to_end(vec![usage("a", 1), usage("b", 10), usage("a", 2)]);
        events.iter().filter(|event| !event.is_terminal()).for_each(|event| remains.handle_event(event));
        let end = remains.end(&meta("run"), RunFailure::new("gone", "its writer is gone"));
        let Some(BlockEvent::RunFailed(failed)) = end.last() else { panic!("{end:?}") };
        let spent: Vec<_> = failed.usage.iter().map(|usage| (usage.model.as_deref(), usage.input)).collect();
        assert_eq!(spent, [(Some("a"), Some(3)), (Some("b"), Some(10))]);
    }

    proptest! {
        #[test]
        fn arbitrary_runs_cut_anywhere_end_well(source in arb_source_events(30)) {
            ends_well(&run_to_end(source));
        }
    }
}

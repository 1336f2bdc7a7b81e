//! The checker: what must hold of every world, whatever went wrong in it.
//!
//! | rule | what |
//! |---|---|
//! | `ends` | every run in the log has ended |
//! | `balanced` | the events of a run pass core's invariants: one start, one terminal event, nothing open |
//! | `agui` | both dialects of AG-UI take what the run comes to |
//! | `numbers` | a watcher sees contiguous numbers from 1 |
//! | `views` | what a watcher saw is what the log holds |
//! | `seen` | a watcher sees the end of its run |
//! | `fence` | an owner that was taken over appends nothing |
//! | `content` | a run that succeeded has the text of its source, once |
//! | `goodbye` | the agent of a run that ended received a cancel, or was done |
//! | `replies` | an interrupt gets one reply; in a world without faults, it gets one |
//! | `principals` | no principal sees anything of the other |
//! | `calm` | in a world without faults every run ends as its script defines |
//!
//! What a fault excuses: a run that the log lost is gone; one whose last events the log lost *and* whose owner did not
//! live to append them again may differ from what its watchers saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_core::event::SpanKind;
use aqueduct_core::testing::{InvariantChecker, trace_line};
use aqueduct_core::{BlockEvent, Channel, RunId, RunOutcome};
use aqueduct_runlog::RunState;

use crate::node::Status;
use crate::record::{Expected, Record, Seen, Session, View, Work};
use crate::script::{Ending, Script};
use crate::server::Write;
use crate::trace::locked;
use crate::world::World;

/// A rule that a world broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, from the table of this module.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

/// What a world left.
struct Remains<'w> {
    world: &'w World,
    log: BTreeMap<RunId, (RunState, Arc<[BlockEvent]>)>,
    vanished: BTreeSet<RunId>,
    rolled_back: BTreeMap<RunId, Option<u64>>,
    found: Vec<Violation>,
}

/// Returns the id of the run that has this key. Every run here belongs to a principal.
fn public(key: &RunId) -> RunId {
    key.as_str().split_once('~').map_or_else(|| key.clone(), |(_, id)| RunId::from(id))
}

/// Checks a world that has ended.
pub fn check(world: &World, open: &[RunId]) -> Vec<Violation> {
    let (all, writes, vanished, rolled_back) = world.shared.with(|server| {
        (server.all(), server.writes.clone(), server.vanished.clone(), server.rolled_back.clone())
    });
    // The log has keys of runs, clients have ids.
    let log = all.into_iter().map(|(state, events)| (state.meta.public_id(), (state, events))).collect();
    let vanished = vanished.iter().map(public).collect();
    let rolled_back = rolled_back.iter().map(|(run, owner)| (public(run), *owner)).collect();
    let writes: Vec<Write> =
        writes.into_iter().map(|write| Write { run: public(&write.run), ..write }).collect();
    let mut remains = Remains { world, log, vanished, rolled_back, found: Vec::new() };
    for run in open {
        remains.report("ends", format!("{run} never ended"));
    }
    let record = locked(&world.record);
    remains.check_logs(&record);
    record.views.iter().for_each(|view| remains.check_view(view));
    remains.check_writes(&writes);
    remains.check_work(&record);
    remains.check_replies(&record);
    record.leaks.iter().for_each(|leak| remains.report("principals", leak.clone()));
    remains.found
}

impl Remains<'_> {
    fn report(&mut self, rule: &'static str, what: String) {
        self.found.push(Violation { rule, what });
    }

    /// Returns `true` if the log lost the run, or lost a part of it that its owner did not append again.
    fn is_excused(&self, run: &RunId) -> bool {
        let epoch = self.log.get(run).map(|(state, _)| state.epoch);
        self.vanished.contains(run) || self.rolled_back.get(run).is_some_and(|owner| *owner != epoch)
    }

    fn check_logs(&mut self, record: &Record) {
        for (run, (state, events)) in self.log.clone() {
            if state.closed_at.is_none() {
                continue;
            }
            if let Err(violation) = InvariantChecker::check_all(events.iter()) {
                self.report("balanced", format!("{run}: {violation}"));
            }
            self.check_agui(&run, &events);
            match record.expected.get(&run) {
                Some(Expected::Script) => {
                    let script = Script::of(self.world.plan.seed, run.as_str());
                    self.check_content(&run, &events, &script.text());
                    if self.world.plan.is_calm() && !record.cancelled.contains(&run) {
                        self.check_calm(&run, &events, script.ending);
                    }
                }
                Some(Expected::Text(text)) => self.check_content(&run, &events, text),
                Some(Expected::Any) | None => {}
            }
        }
    }

    fn check_agui(&mut self, run: &RunId, events: &[BlockEvent]) {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let set = converters(&Settings::new(dialect));
            let mut out = Vec::new();
            for event in events {
                set.convert(event, &mut out);
            }
            if let Some(violation) = verify(&out, dialect, Level::Strict).first() {
                self.report("agui", format!("{run} in {dialect:?}: {violation:?}"));
            }
        }
    }

    fn check_content(&mut self, run: &RunId, events: &[BlockEvent], expected: &str) {
        let is_success =
            matches!(events.last(), Some(BlockEvent::RunFinished(end)) if end.outcome == RunOutcome::Success);
        let text = text_of(events);
        if is_success && text != expected {
            self.report("content", format!("{run} has {text:?} instead of {expected:?}"));
        }
        if !is_success && !expected.starts_with(&text) {
            self.report("content", format!("{run} has {text:?}, which does not begin {expected:?}"));
        }
    }

    fn check_calm(&mut self, run: &RunId, events: &[BlockEvent], ending: Ending) {
        let end = match events.last() {
            Some(BlockEvent::RunFinished(end)) => format!("{:?}", end.outcome),
            Some(BlockEvent::RunFailed(end)) => end.failure.code.to_string(),
            _ => "nothing".to_owned(),
        };
        let expected = match ending {
            Ending::Success => "Success",
            Ending::Failure => "scripted",
            Ending::Cut => aqueduct_core::RunFailure::UPSTREAM_ENDED,
            Ending::Endless => "run_timeout",
        };
        if end != expected {
            self.report("calm", format!("{run} ended with {end}, not with {expected}"));
        }
    }

    fn check_view(&mut self, view: &View) {
        let View { watcher, run, events, seen } = view;
        for (n, (number, line)) in (1..).zip(events) {
            if n != *number && !self.is_excused(run) {
                return self
                    .report("numbers", format!("{watcher} of {run} saw {number} as event {n}: {line}"));
            }
        }
        if self.is_excused(run) {
            return;
        }
        match seen {
            Seen::NoEnd => self.report("seen", format!("{watcher} of {run} never saw its end")),
            Seen::Gone if self.log.contains_key(run) => {
                self.report("seen", format!("{watcher} was told that {run} does not exist"));
            }
            Seen::Gone | Seen::End => {}
        }
        let Some((_, log)) = self.log.get(run).cloned() else { return };
        for ((number, line), event) in events.iter().zip(log.iter()) {
            let held = trace_line(event);
            if *line != held {
                return self
                    .report("views", format!("{watcher} of {run} saw {number} {line}, the log has {held}"));
            }
        }
        if events.len() > log.len() {
            self.report("views", format!("{watcher} of {run} saw more than the log holds"));
        }
    }

    fn check_writes(&mut self, writes: &[Write]) {
        for Write { run, epoch, granted, last } in writes {
            if epoch < granted && !self.is_excused(run) {
                self.report(
                    "fence",
                    format!("{run}: {last} was written in epoch {epoch} after {granted} began"),
                );
            }
        }
    }

    /// The agent of a run that another replica took over works for that one, and receives no cancel from the first. A
    /// replica that was paused may call the agent after that takeover, and drops the work as soon as it finds the
    /// fence: so the last session is not always that of the owner, and a session that was cancelled or done at another
    /// replica counts for the run.
    fn check_work(&mut self, record: &Record) {
        let ended_at_another = |last: &Session| {
            let is_ended = |session: &Session| matches!(session.work, Work::Told | Work::Done);
            let mut of_run = record.sessions.iter().filter(|session| session.run == last.run);
            of_run.any(|session| session.replica != last.replica && is_ended(session))
        };
        let mut last = BTreeMap::new();
        for session in &record.sessions {
            last.insert(session.run.clone(), session);
        }
        for (run, session) in last {
            let is_left = matches!(session.work, Work::Dropped | Work::Open);
            let is_crashed = self.world.was_crashed(&session.replica);
            let is_excused = is_crashed || self.is_excused(&run) || ended_at_another(session);
            if is_left && !is_excused && !self.ended_elsewhere(&run) {
                let what =
                    format!("the agent of {run} at {} was not told: {:?}", session.replica, session.work);
                self.report("goodbye", what);
            }
        }
    }

    /// Returns `true` if the run was ended by a replica that did not drive it.
    fn ended_elsewhere(&self, run: &RunId) -> bool {
        let last = self.log.get(run).and_then(|(_, events)| events.last().cloned());
        matches!(last, Some(BlockEvent::RunFailed(end)) if &*end.failure.code == "gateway_lost")
    }

    fn check_replies(&mut self, record: &Record) {
        let mut taken: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (question, by) in &record.delivered {
            taken.entry(question).or_default().insert(by);
        }
        for (question, by) in &taken {
            if by.len() > 1 {
                self.report("replies", format!("{question} got the replies of {by:?}"));
            }
        }
        for question in record.asked.iter().filter(|_| self.world.plan.is_calm()) {
            if !taken.contains_key(question.as_str()) {
                self.report("replies", format!("the reply to {question} was lost"));
            }
        }
    }
}

/// The text of the answer of a run's own agent.
fn text_of(events: &[BlockEvent]) -> String {
    let delta = |event: &BlockEvent| match event {
        BlockEvent::BlockDelta { block, delta }
            if block.kind == SpanKind::Text && block.lane.is_root() && block.channel == Channel::Answer =>
        {
            Some(delta.to_string())
        }
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

impl World {
    /// Returns `true` if the replica of that name is gone.
    fn was_crashed(&self, name: &str) -> bool {
        !(0..crate::plan::REPLICAS).any(|slot| {
            let replica = self.replica(slot);
            replica.node.name() == name && replica.node.status() != Status::Crashed
        })
    }
}

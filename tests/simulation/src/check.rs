//! The checker: what must hold of every world, whatever went wrong in it.
//!
//! | rule | what |
//! |---|---|
//! | `ends` | every run in the log has ended |
//! | `balanced` | the events of a run pass core's invariants: one start, one terminal event, nothing open |
//! | `agui` | both dialects of AG-UI take what the run comes to |
//! | `numbers` | a watcher sees contiguous numbers from 1, on every surface |
//! | `views` | what a watcher saw is what the log holds, on every surface: events, or AG-UI payloads |
//! | `tasks` | the text of an A2A client only grows, and is that of the run at its end, in the right state |
//! | `lanes` | the work of a sub-agent is in the run of its supervisor at most once; without faults, once and whole |
//! | `seen` | a watcher sees the end of its run |
//! | `fence` | an owner that was taken over appends nothing |
//! | `content` | a run that succeeded has the text of its source, once |
//! | `cancels` | a run ends as cancelled only if a client cancelled it |
//! | `goodbye` | the agent of a run that ended received a cancel, or was done |
//! | `replies` | an interrupt gets one reply; in a world without faults, it gets one |
//! | `principals` | no principal sees anything of the other |
//! | `panics` | nothing panics, although clients may survive it ([`panics`](crate::panics)) |
//! | `calm` | in a world without faults every run ends as its script defines |
//!
//! What a fault excuses:
//!
//! * a run that the log lost is gone;
//! * a run whose last events the log lost *and* whose owner could not append them again, because it died or another replica took
//!   the run over first, may differ from what its watchers saw;
//! * the text of an A2A client may become shorter for a while if the log lost events: the client has no position, so a replica
//!   other than the owner cannot know that it had more;
//! * an agent behind AG-UI may cancel a run that nothing watched for its grace, if a replica took the run over without knowing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::protocol::AguiProtocol;
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_core::event::SpanKind;
use aqueduct_core::protocol::{Encoding, Protocol as _};
use aqueduct_core::service::PayloadSink;
use aqueduct_core::testing::{InvariantChecker, trace_line};
use aqueduct_core::{BlockEvent, Channel, RunId, RunOutcome};
use aqueduct_runlog::{RunState, is_log_metadata};

use crate::facts::{LogFacts, Write};
use crate::node::Status;
use crate::record::{Expected, Record, Seen, Session, TaskView, TeamCall, View, Work};
use crate::script::{Ending, Script};
use crate::trace::locked;
use crate::world::{OVER_AGUI, World};

/// A rule that a world broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, from the table of this module.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

/// Runs with their events.
pub type Runs = Vec<(RunState, Arc<[BlockEvent]>)>;

/// What a world left.
struct Remains<'w> {
    world: &'w World,
    log: BTreeMap<RunId, (RunState, Arc<[BlockEvent]>)>,
    vanished: BTreeSet<RunId>,
    losses: BTreeSet<RunId>,
    unrestored: BTreeSet<RunId>,
    unknown_takeovers: BTreeSet<RunId>,
    found: Vec<Violation>,
}

/// Returns the id of the run that has this key. Every run here belongs to a principal.
fn public(key: &RunId) -> RunId {
    key.as_str().split_once('~').map_or_else(|| key.clone(), |(_, id)| RunId::from(id))
}

/// Checks a world that has ended, with these runs in its log.
pub fn check(world: &World, log: Runs, open: &[RunId]) -> Vec<Violation> {
    // The log has keys of runs, clients have ids.
    let ids = |keys: BTreeSet<RunId>| keys.iter().map(public).collect::<BTreeSet<_>>();
    let log = log.into_iter().map(|(state, events)| (state.meta.public_id(), (state, events))).collect();
    let LogFacts { writes, losses, unrestored, unknown_takeovers, vanished, .. } = world.log.facts();
    let writes: Vec<Write> =
        writes.into_iter().map(|write| Write { run: public(&write.run), ..write }).collect();
    let mut remains = Remains {
        world,
        log,
        vanished: ids(vanished),
        losses: losses.keys().map(public).collect(),
        unrestored: ids(unrestored),
        unknown_takeovers: ids(unknown_takeovers),
        found: Vec::new(),
    };
    for run in open {
        remains.report("ends", format!("{run} never ended"));
    }
    let record = locked(&world.record);
    // First: a run that another principal cancelled breaks other rules too.
    record.leaks.iter().for_each(|leak| remains.report("principals", leak.clone()));
    remains.check_logs(&record);
    record.views.iter().for_each(|view| remains.check_view(view));
    record.tasks.iter().for_each(|view| remains.check_task(view));
    record.calls.iter().for_each(|call| remains.check_call(call));
    remains.check_writes(&writes);
    remains.check_work(&record);
    remains.check_replies(&record);
    remains.found
}

impl Remains<'_> {
    fn report(&mut self, rule: &'static str, what: String) {
        self.found.push(Violation { rule, what });
    }

    /// Returns `true` if the log lost the run, or lost a part of it that its owner did not append again.
    fn is_excused(&self, run: &RunId) -> bool {
        self.vanished.contains(run) || self.unrestored.contains(run)
    }

    fn check_logs(&mut self, record: &Record) {
        for (run, (state, events)) in self.log.clone() {
            // The side run of a call between gateways is trimmed while it is read.
            if state.closed_at.is_none() || state.earliest > 1 {
                continue;
            }
            if let Err(violation) = InvariantChecker::check_all(events.iter()) {
                self.report("balanced", format!("{run}: {violation}"));
            }
            self.check_agui(&run, &events);
            self.check_cancel(&run, &events, record);
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

    /// A replica that lost its log, its lease or its agent must not show that loss as a cancel: a frontend takes a cancelled run
    /// for one that its user ended.
    fn check_cancel(&mut self, run: &RunId, events: &[BlockEvent], record: &Record) {
        let is_cancelled = matches!(events.last(), Some(BlockEvent::RunFinished(end)) if end.outcome == RunOutcome::Cancelled);
        let agent = self.log.get(run).map(|(state, _)| state.meta.agent.as_str());
        let is_unwatched = agent == Some(OVER_AGUI) && self.unknown_takeovers.contains(run);
        let is_expected = record.cancelled.contains(run) || is_unwatched;
        if is_cancelled && record.expected.contains_key(run) && !is_expected {
            self.report("cancels", format!("{run} ended as cancelled, and no client cancelled it"));
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
        let View { watcher, run, surface, events, seen } = view;
        if self.is_excused(run) {
            return;
        }
        let who = format!("{watcher} of {run} at {surface:?}");
        self.check_seen(&who, run, *seen);
        let Some((state, log)) = self.log.get(run).cloned() else { return };
        let held = if surface.is_agui() { payloads(&state.meta.agent, &log) } else { lines(&log) };
        for (n, (number, line)) in events.iter().enumerate() {
            let Some((expected, held)) = held.get(n) else {
                return self.report("views", format!("{who} saw more than the log holds: {number} {line}"));
            };
            if number != expected {
                return self
                    .report("numbers", format!("{who} saw {number} in the place of {expected}: {line}"));
            }
            if line != held {
                return self.report("views", format!("{who} saw {number} {line}, the log has {held}"));
            }
        }
        if *seen == Seen::End && events.len() < held.len() {
            self.report("views", format!("{who} saw {} of {}, and the end", events.len(), held.len()));
        }
    }

    fn check_seen(&mut self, who: &str, run: &RunId, seen: Seen) {
        match seen {
            Seen::NoEnd => self.report("seen", format!("{who} never saw its end")),
            Seen::Gone if self.log.contains_key(run) => {
                self.report("seen", format!("{who} was told that {run} does not exist"));
            }
            Seen::Gone | Seen::End => {}
        }
    }

    /// The text of a task only grows, is a beginning of that of its run, and is all of it at the end.
    fn check_task(&mut self, view: &TaskView) {
        let TaskView { client, run, texts, state, seen } = view;
        if self.is_excused(run) {
            return;
        }
        let who = format!("{client} of {run}");
        self.check_seen(&who, run, *seen);
        let Some((_, log)) = self.log.get(run).cloned() else { return };
        let text = text_of(&log);
        let mut before = "";
        for now in texts {
            let is_grown = now.starts_with(before) || self.losses.contains(run);
            if !is_grown || !text.starts_with(now.as_str()) {
                return self
                    .report("tasks", format!("{who} had {before:?}, then {now:?}; the log has {text:?}"));
            }
            before = now;
        }
        let expected = match log.last() {
            Some(BlockEvent::RunFinished(end)) if end.outcome == RunOutcome::Cancelled => {
                "TASK_STATE_CANCELED"
            }
            Some(BlockEvent::RunFinished(_)) => "TASK_STATE_COMPLETED",
            _ => "TASK_STATE_FAILED",
        };
        if *seen == Seen::End && (before != text || state != expected) {
            self.report(
                "tasks",
                format!("{who} ended with {before:?} {state}; the log has {text:?} {expected}"),
            );
        }
    }

    /// The work of a sub-agent is in the run of its supervisor at most once, in order; without faults and in a run that finished,
    /// once and whole. A call of another principal is in no run.
    fn check_call(&mut self, call: &TeamCall) {
        let TeamCall { run, name, text, is_whole, is_stolen } = call;
        let log = self.log.get(run).filter(|_| !self.is_excused(run)).map(|(_, events)| Arc::clone(events));
        let Some(log) = log else { return };
        let lanes: Vec<String> =
            lanes(&log).into_values().filter(|lane| lane.starts_with(&format!("{name}."))).collect();
        if *is_stolen {
            if let Some(lane) = lanes.first() {
                self.report("principals", format!("{run} shows a call of another principal: {lane:?}"));
            }
            return;
        }
        let whole = Script::of(self.world.plan.seed, name).text();
        if lanes.len() > 1 || lanes.iter().any(|lane| !whole.starts_with(lane.as_str())) {
            self.report("lanes", format!("{run} has {lanes:?} of {name}, which said {whole:?}"));
        }
        let is_shown = lanes.first().map_or(text.is_empty(), |lane| lane == text);
        // A supervisor may call after its run has failed, by its time limit for one: there is no run to show the call in.
        let is_finished = matches!(log.last(), Some(BlockEvent::RunFinished(_)));
        if self.world.plan.is_calm() && is_finished && *is_whole && !is_shown {
            self.report(
                "lanes",
                format!("{run} has {lanes:?} of {name}, which told its supervisor {text:?}"),
            );
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

/// The events of a run with their numbers, as watchers of events see them.
fn lines(events: &[BlockEvent]) -> Vec<(u64, String)> {
    let shown = (1..).zip(events).filter(|(_, event)| !is_log_metadata(event));
    shown.map(|(number, event)| (number, trace_line(event))).collect()
}

/// The payloads of a run with the numbers of their events, as an AG-UI client sees them.
fn payloads(agent: &str, events: &[BlockEvent]) -> Vec<(u64, String)> {
    struct Payloads(Vec<String>);
    impl PayloadSink for Payloads {
        fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.0.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    let mut encoder = AguiProtocol::default().encoder(agent, None, Encoding::Json);
    let mut all = Vec::new();
    for (number, event) in (1..).zip(events) {
        let mut payloads = Payloads(Vec::new());
        encoder.encode(event, &mut payloads);
        all.extend(payloads.0.into_iter().map(|payload| (number, payload)));
    }
    all
}

/// The text of every lane but the root. What a helper of the sub-agent said is a notice of the sub-agent.
fn lanes(events: &[BlockEvent]) -> BTreeMap<String, String> {
    let mut lanes: BTreeMap<String, String> = BTreeMap::new();
    for event in events {
        if let BlockEvent::BlockDelta { block, delta } = event
            && block.kind == SpanKind::Text
            && !block.lane.is_root()
            && !delta.starts_with("helper: ")
        {
            lanes.entry(block.lane.id.to_string()).or_default().push_str(delta);
        }
    }
    lanes
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
        name != crate::world::HOST
            && !(0..crate::plan::REPLICAS).any(|slot| {
                let replica = self.replica(slot);
                replica.node.name() == name && replica.node.status() != Status::Crashed
            })
    }
}

//! The log that all replicas share, as a server that can fail over and lose keys.
//!
//! The runs are kept by the real [`MemoryLog`]; around it are the rules by which calls may be repeated (nonces, and the
//! number that an append begins at), as the scripts of the Redis engine have them. Every change is in a journal, so a
//! failover is the journal played again without its last moments, and a lost key is the journal without that run.
//!
//! Faults that a test plants are here too: each takes away one rule that the checker must miss.

use std::collections::BTreeMap;
use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::{
    Control, Lease, LogError, LogLimits, MemoryLog, Note, Page, RunLog, RunMeta, RunState,
};
use futures_util::FutureExt as _;

use crate::facts::{LogFacts, Write};
use crate::planted::Planted;

/// The answer to an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// All of it is stored; the number of the last event.
    Head(u64),
    /// The log ends before the batch begins: what was acknowledged before is gone.
    Behind(u64),
}

/// A change of the log.
#[derive(Debug, Clone)]
enum Change {
    Open(RunMeta, Timestamp, u64),
    TakeOver(RunId, Timestamp, Timestamp, u64),
    Renew(Vec<Lease>, Timestamp),
    Append(Lease, Vec<BlockEvent>, Timestamp),
    Annotate(Lease, Note),
    Watched(RunId, Timestamp),
    Control(RunId, Control, u64),
    Trim(RunId, u64),
    Expire(Timestamp),
}

/// The server.
#[derive(Debug)]
pub struct Server {
    limits: LogLimits,
    log: MemoryLog,
    journal: Vec<(i64, Change)>,
    /// The last call that opened or took over each run.
    nonces: BTreeMap<RunId, u64>,
    /// The last message to each run.
    letters: BTreeMap<RunId, u64>,
    granted: BTreeMap<RunId, u64>,
    planted: Option<Planted>,
    /// The head of a run when it was first taken over.
    taken_at: BTreeMap<RunId, u64>,
    /// What happened to the runs.
    pub facts: LogFacts,
}

/// The futures of the engine in memory are ready, but those that wait.
fn now<T>(future: impl Future<Output = Result<T, LogError>>) -> Result<T, LogError> {
    future.now_or_never().unwrap_or_else(|| Err(LogError::Unavailable("waits".to_owned())))
}

impl Server {
    /// Returns an empty log.
    pub fn new(limits: LogLimits, planted: Option<Planted>) -> Self {
        Self {
            limits,
            log: MemoryLog::new(limits),
            journal: Vec::new(),
            nonces: BTreeMap::new(),
            letters: BTreeMap::new(),
            granted: BTreeMap::new(),
            planted,
            taken_at: BTreeMap::new(),
            facts: LogFacts::default(),
        }
    }

    /// Returns how many changes there were.
    pub fn changes(&self) -> usize {
        self.journal.len()
    }

    /// Returns the runs that changed since there were so many changes. Leases that are held and runs that are watched for
    /// longer change nothing that is waited for.
    pub fn changed_since(&self, changes: usize) -> Vec<RunId> {
        let run = |change: &Change| match change {
            Change::Open(meta, ..) => Some(meta.run_id.clone()),
            Change::TakeOver(run, ..) | Change::Control(run, ..) | Change::Trim(run, ..) => Some(run.clone()),
            Change::Append(lease, ..) | Change::Annotate(lease, ..) => Some(lease.run_id.clone()),
            Change::Renew(..) | Change::Watched(..) | Change::Expire(..) => None,
        };
        self.journal.iter().skip(changes).filter_map(|(_, change)| run(change)).collect()
    }

    /// Returns the runs, for calls that change nothing.
    pub fn log(&self) -> &MemoryLog {
        &self.log
    }

    /// Creates a run. The same call again succeeds again.
    pub fn open(&mut self, at: i64, meta: RunMeta, until: Timestamp, nonce: u64) -> Result<Lease, LogError> {
        let run = meta.run_id.clone();
        if self.nonces.get(&run) == Some(&nonce) {
            return Ok(Lease { run_id: run, epoch: 1 });
        }
        let lease = now(self.log.open(meta.clone(), until))?;
        self.granted.insert(run.clone(), lease.epoch);
        self.nonces.insert(run, nonce);
        self.journal.push((at, Change::Open(meta, until, nonce)));
        Ok(lease)
    }

    /// Takes a lapsed lease; returns the head of the run with it. The same call again succeeds again.
    pub fn take_over(
        &mut self,
        at: i64,
        run: &RunId,
        time: Timestamp,
        until: Timestamp,
        nonce: u64,
    ) -> Result<(Lease, u64), LogError> {
        let state = self.state(run)?;
        if self.nonces.get(run) == Some(&nonce) && state.closed_at.is_none() {
            return Ok((Lease { run_id: run.clone(), epoch: state.epoch }, state.head));
        }
        let lease = now(self.log.take_over(run, time, until))?;
        self.facts.take_over(run, state.head);
        self.taken_at.entry(run.clone()).or_insert(state.head);
        self.granted.insert(run.clone(), lease.epoch);
        self.nonces.insert(run.clone(), nonce);
        self.journal.push((at, Change::TakeOver(run.clone(), time, until, nonce)));
        Ok((lease, state.head))
    }

    /// Notes that the acknowledgements of a takeover were lost, if it happened.
    pub fn take_over_unknown(&mut self, run: &RunId, nonce: u64) {
        if self.nonces.get(run) == Some(&nonce) {
            self.facts.unknown_takeovers.insert(run.clone());
        }
    }

    /// Holds leases; returns those that are lost.
    pub fn renew(&mut self, at: i64, leases: Vec<Lease>, until: Timestamp) -> Result<Vec<Lease>, LogError> {
        self.journal.push((at, Change::Renew(leases.clone(), until)));
        now(self.log.renew(leases, until))
    }

    /// Appends a batch whose first event has that number. What is there already is not stored again.
    pub fn append(
        &mut self,
        at: i64,
        lease: &Lease,
        first: u64,
        events: &[BlockEvent],
        time: Timestamp,
    ) -> Result<Appended, LogError> {
        let state = self.state(&lease.run_id)?;
        let mut lease = lease.clone();
        let writer = lease.epoch;
        if self.planted == Some(Planted::SkipFence) && state.closed_at.is_none() {
            lease.epoch = state.epoch;
        }
        let last = (first + len(events)).saturating_sub(1);
        let is_end = events.last().is_some_and(BlockEvent::is_terminal);
        if lease.epoch == state.epoch && state.closed_at.is_some() {
            let is_same = is_end && state.head == last && state.closed_at == Some(time);
            return if is_same {
                Ok(Appended::Head(state.head))
            } else {
                Err(LogError::Closed(lease.run_id))
            };
        }
        if lease.epoch == state.epoch && state.head + 1 < first {
            return Ok(Appended::Behind(state.head));
        }
        let mut known = usize::try_from((state.head + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        if self.planted == Some(Planted::AppendTwice) || writer != lease.epoch {
            known = 0;
        }
        let rest: Vec<BlockEvent> = events.iter().skip(known).cloned().collect();
        if rest.is_empty() && !events.is_empty() {
            return Ok(Appended::Head(state.head));
        }
        let appended = self.log.append(&lease, rest.clone(), time).now_or_never();
        let head = appended.map_or_else(
            || Err(LogError::Unavailable("waits".to_owned())),
            |appended| appended.map_err(LogError::from),
        )?;
        let granted = self.granted.get(&lease.run_id).copied().unwrap_or_default();
        self.facts.writes.push(Write { run: lease.run_id.clone(), epoch: writer, granted, last: head });
        self.journal.push((at, Change::Append(lease, rest, time)));
        Ok(Appended::Head(if events.is_empty() { head } else { head.max(last) }))
    }

    /// Keeps a note.
    pub fn annotate(&mut self, at: i64, lease: &Lease, note: Note) -> Result<(), LogError> {
        now(self.log.annotate(lease, note.clone()))?;
        self.journal.push((at, Change::Annotate(lease.clone(), note)));
        Ok(())
    }

    /// Notes that a run is watched.
    pub fn watched(&mut self, at: i64, run: &RunId, until: Timestamp) -> Result<(), LogError> {
        now(self.log.watched(run, until))?;
        self.journal.push((at, Change::Watched(run.clone(), until)));
        Ok(())
    }

    /// Sends a message to the owner. The same call again, directly after, changes nothing.
    pub fn control(&mut self, at: i64, run: &RunId, message: Control, nonce: u64) -> Result<(), LogError> {
        if self.letters.get(run) == Some(&nonce) {
            return Ok(());
        }
        if self.planted == Some(Planted::LoseReply) && matches!(message, Control::Reply(_)) {
            return Ok(());
        }
        now(self.log.control(run, message.clone()))?;
        self.letters.insert(run.clone(), nonce);
        self.journal.push((at, Change::Control(run.clone(), message, nonce)));
        Ok(())
    }

    /// Returns the messages above a count; `None` if there are none yet.
    pub fn controls(&self, lease: &Lease, seen: usize) -> Option<Result<Vec<Control>, LogError>> {
        self.log.controls(lease, seen).now_or_never()
    }

    /// Forgets events below a number.
    pub fn trim(&mut self, at: i64, run: &RunId, earliest: u64) -> Result<(), LogError> {
        now(self.log.trim(run, earliest))?;
        self.journal.push((at, Change::Trim(run.clone(), earliest)));
        Ok(())
    }

    /// Forgets runs that ended before a time.
    pub fn expire(&mut self, at: i64, before: Timestamp) -> Result<usize, LogError> {
        self.journal.push((at, Change::Expire(before)));
        now(self.log.expire(before))
    }

    /// Returns what is known of a run.
    pub fn state(&self, run: &RunId) -> Result<RunState, LogError> {
        now(self.log.state(run))
    }

    /// Reads events.
    pub fn read(&self, run: &RunId, after: u64, max: usize) -> Result<Page, LogError> {
        let mut page = now(self.log.read(run, after, max))?;
        if self.planted == Some(Planted::ReuseNumber) {
            let start = self.taken_at.get(run).copied().unwrap_or(u64::MAX).max(1);
            for event in page.events.iter_mut().filter(|event| event.number > start) {
                event.number -= 1;
            }
        }
        Ok(page)
    }

    /// Returns `true` if there are events above a number, or there will be none.
    pub fn is_changed(&self, run: &RunId, after: u64) -> Result<bool, LogError> {
        self.state(run).map(|state| state.head > after || state.closed_at.is_some())
    }

    /// Comes back as it was at an earlier time. Writers of runs that lost something will append it again.
    pub fn fail_over(&mut self, to: i64) {
        let before = self.all();
        let kept: Vec<(i64, Change)> = self.journal.iter().filter(|(at, _)| *at <= to).cloned().collect();
        self.replay(kept);
        for (state, _) in before {
            let run = &state.meta.run_id;
            match self.state(run) {
                Ok(now) if now.head < state.head || now.epoch < state.epoch => {
                    self.facts.lose(run, state.head, now.epoch < state.epoch);
                }
                Ok(_) => {}
                Err(_) => drop(self.facts.vanished.insert(run.clone())),
            }
        }
    }

    /// Loses all keys of a run.
    pub fn vanish(&mut self, run: &RunId) {
        let kept: Vec<(i64, Change)> = std::mem::take(&mut self.journal)
            .into_iter()
            .filter(|(_, change)| match change {
                Change::Open(meta, ..) => meta.run_id != *run,
                Change::TakeOver(id, ..)
                | Change::Watched(id, ..)
                | Change::Control(id, ..)
                | Change::Trim(id, ..) => id != run,
                Change::Append(lease, ..) | Change::Annotate(lease, ..) => lease.run_id != *run,
                Change::Renew(..) | Change::Expire(..) => true,
            })
            .collect();
        self.facts.vanished.insert(run.clone());
        self.replay(kept);
    }

    fn replay(&mut self, journal: Vec<(i64, Change)>) {
        (self.log, self.journal) = (MemoryLog::new(self.limits), journal);
        (self.nonces, self.letters) = (BTreeMap::new(), BTreeMap::new());
        for (_, change) in &self.journal {
            // What succeeded once succeeds again, or belongs to a run that is gone.
            match change.clone() {
                Change::Open(meta, until, nonce) => {
                    self.nonces.insert(meta.run_id.clone(), nonce);
                    now(self.log.open(meta, until)).ok();
                }
                Change::TakeOver(run, time, until, nonce) => {
                    now(self.log.take_over(&run, time, until)).ok();
                    self.nonces.insert(run, nonce);
                }
                Change::Renew(leases, until) => drop(now(self.log.renew(leases, until))),
                Change::Append(lease, events, time) => {
                    drop(self.log.append(&lease, events, time).now_or_never());
                }
                Change::Annotate(lease, note) => drop(now(self.log.annotate(&lease, note))),
                Change::Watched(run, until) => drop(now(self.log.watched(&run, until))),
                Change::Control(run, message, nonce) => {
                    now(self.log.control(&run, message)).ok();
                    self.letters.insert(run, nonce);
                }
                Change::Trim(run, earliest) => drop(now(self.log.trim(&run, earliest))),
                Change::Expire(before) => drop(now(self.log.expire(before))),
            }
        }
    }

    /// Returns all runs with their events.
    pub fn all(&self) -> Vec<(RunState, Arc<[BlockEvent]>)> {
        let runs = now(self.log.list(aqueduct_runlog::RunQuery::default(), usize::MAX)).unwrap_or_default();
        let events = |state: &RunState| -> Arc<[BlockEvent]> {
            let page = now(self.log.read(&state.meta.run_id, state.earliest - 1, usize::MAX));
            page.map(|page| page.events.into_iter().map(|event| event.event).collect()).unwrap_or_default()
        };
        runs.into_iter().map(|state| (state.clone(), events(&state))).collect()
    }
}

fn len(events: &[BlockEvent]) -> u64 {
    u64::try_from(events.len()).unwrap_or(u64::MAX)
}

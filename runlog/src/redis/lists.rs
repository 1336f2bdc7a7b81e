//! The lists of runs: sorted sets beside the runs, and the states of their members.
//!
//! A list may contain a deleted run, or an outdated end of a lease: the state of the run itself decides.
//!
//! ```text
//! runs, thread:T, owner:O     score: time of opening          all runs
//! leases                      score: end of the lease         open runs
//! ended                       score: time of the end          ended runs
//! ```
//!
//! On a cluster a list is on another node than its runs, so both cannot change atomically. The
//! order of the writes makes every state after a crash harmless: a run is listed before it is
//! created, listed as ended before it leaves the leases, and removed from `ended` after all else is
//! deleted. What remains is corrected by the reader.

use ::redis::Cmd;
use aqueduct_core::{RunId, Timestamp};

use super::RedisLog;
use super::keys::List;
use super::link::{Call, read, strange};
use super::reply;
use crate::error::LogError;
use crate::log::{Lease, RunMeta, RunQuery, RunState};

/// Runs that are read in one round trip: at most as many as the query wants, but some more than one, because the query may drop some.
const PAGE: isize = 256;
const SMALLEST_PAGE: isize = 8;

/// The time for which a list keeps an entry without a run after its lease lapsed. A run is listed before it is created, and the
/// server may receive the command that creates it long after the caller has given up.
const UNCREATED_KEPT_MS: i64 = 10 * 60 * 1000;

impl RedisLog {
    /// Adds a run to the lists, if it is not in them.
    /// Called before the run is created, with `NX`: a retry must not change the score of a run that
    /// exists.
    pub(super) async fn enlist(&self, meta: &RunMeta, until: Timestamp) -> Result<(), LogError> {
        let run = meta.run_id.as_str();
        let add = |list: String, score: i64| {
            let mut command = ::redis::cmd("ZADD");
            command.arg(list).arg("NX").arg(score).arg(run);
            command
        };
        let lists = self.shared.keys.lists(meta);
        let expiries =
            lists.clone().into_iter().chain([self.shared.keys.leases()]).map(|list| self.expire(list));
        let added = lists.map(|list| add(list, meta.opened_at.0));
        let leases = add(self.shared.keys.leases(), until.0);
        self.do_all(&added.into_iter().chain([leases]).chain(expiries).collect::<Vec<_>>()).await
    }

    /// The command that lets a key live for the whole expiry again.
    fn expire(&self, key: String) -> Cmd {
        let mut command = ::redis::cmd("PEXPIRE");
        command.arg(key).arg(self.shared.expiry);
        command
    }

    /// Lets the keys of an open run live on, and the lists that it is in. The hash by which the age is seen goes last: what
    /// a crash leaves undone is done with the next renewal.
    pub(super) async fn renew_keys(&self, run: &RunId, thread: &str, owner: &str) -> Result<(), LogError> {
        let keys = &self.shared.keys;
        let lists = [List::All, List::Thread(thread), List::Owner(owner)].map(|list| keys.list(list));
        let own = [keys.events(run), keys.controls(run)];
        self.do_all(&lists.into_iter().chain(own).map(|key| self.expire(key)).collect::<Vec<_>>()).await?;
        self.do_all(&[self.expire(keys.meta(run))]).await
    }

    /// Records the end of held leases. Adds a run that is not listed.
    pub(super) async fn list_leases(&self, leases: &[Lease], until: Timestamp) -> Result<(), LogError> {
        if leases.is_empty() {
            return Ok(());
        }
        let mut command = ::redis::cmd("ZADD");
        command.arg(self.shared.keys.leases());
        for lease in leases {
            command.arg(until.0).arg(lease.run_id.as_str());
        }
        self.do_all(&[command, self.expire(self.shared.keys.leases())]).await
    }

    /// Records the end of a run: adds it to the list of ended runs before it is removed from the list of leases. A run in
    /// neither list would never be deleted.
    ///
    /// The server may lose the end, in a failover, before it executes these commands. The run is then listed as open again:
    /// otherwise no replica would find it and end it.
    pub(super) async fn list_end(&self, run: &RunId, at: Timestamp) -> Result<(), LogError> {
        let ended = Cmd::zadd(self.shared.keys.ended(), run.as_str(), at.0);
        let kept = self.expire(self.shared.keys.ended());
        self.do_all(&[ended, kept, Cmd::zrem(self.shared.keys.leases(), run.as_str())]).await?;
        let states = self.read_states(std::slice::from_ref(run)).await?;
        match states.into_iter().next().flatten().filter(|state| state.closed_at.is_none()) {
            Some(state) => self.relist(&[state]).await,
            None => Ok(()),
        }
    }

    /// Lists open runs as open.
    pub(super) async fn relist(&self, states: &[RunState]) -> Result<(), LogError> {
        if states.is_empty() {
            return Ok(());
        }
        let leases = self.shared.keys.leases();
        let add = |state: &RunState| Cmd::zadd(&leases, state.meta.run_id.as_str(), state.lease_until.0);
        let added = states.iter().map(add);
        self.do_all(&added.chain([self.expire(leases.clone())]).collect::<Vec<_>>()).await
    }

    /// Runs commands and discards their answers.
    pub(super) async fn do_all(&self, commands: &[Cmd]) -> Result<(), LogError> {
        self.shared.link.batch(commands).await.map(drop)
    }

    /// Returns the state of one run.
    pub(super) async fn read_state(&self, run: &RunId) -> Result<RunState, LogError> {
        let states = self.read_states(std::slice::from_ref(run)).await?;
        states.into_iter().next().flatten().ok_or_else(|| LogError::NotFound(run.clone()))
    }

    /// Returns the states of runs, in their order; `None` for deleted ones.
    pub(super) async fn read_states(&self, runs: &[RunId]) -> Result<Vec<Option<RunState>>, LogError> {
        let commands: Vec<Cmd> =
            runs.iter().map(|run| reply::state_command(self.shared.keys.meta(run))).collect();
        let answers = self.shared.link.batch(&commands).await?;
        answers.iter().map(reply::state).collect()
    }

    /// Returns a part of a sorted set, by ascending score.
    async fn members(
        &self,
        key: &str,
        (from, to): (&str, &str),
        (skip, page): (isize, isize),
    ) -> Result<Vec<RunId>, LogError> {
        self.ask_members(Cmd::zrangebyscore_limit(key, from, to, skip, page)).await
    }

    /// Returns a part of a sorted set, by descending score.
    async fn members_back(
        &self,
        key: &str,
        from: &str,
        (skip, page): (isize, isize),
    ) -> Result<Vec<RunId>, LogError> {
        self.ask_members(Cmd::zrevrangebyscore_limit(key, from, "-inf", skip, page)).await
    }

    /// Returns the ids that a range command selects.
    async fn ask_members(&self, command: Cmd) -> Result<Vec<RunId>, LogError> {
        let answer = self.shared.link.batch(&[command]).await?.pop().ok_or_else(|| strange(&[]))?;
        let members: Vec<String> = read(answer)?;
        Ok(members.into_iter().map(RunId::from).collect())
    }

    /// Reads a list page by page until `max` runs match the query. Members without a run are skipped.
    pub(super) async fn read_list(&self, query: RunQuery, max: usize) -> Result<Vec<RunState>, LogError> {
        let list = match (&query.thread_id, &query.owner) {
            (Some(thread), _) => List::Thread(thread.as_str()),
            (None, Some(owner)) => List::Owner(owner),
            (None, None) => List::All,
        };
        // Scores are only the time of opening: the first page may contain runs of the same millisecond
        // before the place of the query. `query.wants` drops them.
        let key = self.shared.keys.list(list);
        let end = if query.newest_first { "+inf" } else { "-inf" };
        let from = query.after.as_ref().map_or_else(|| end.to_owned(), |place| place.opened_at.0.to_string());
        let page = isize::try_from(max).unwrap_or(PAGE).clamp(SMALLEST_PAGE, PAGE);
        let (mut found, mut skip) = (Vec::new(), 0);
        loop {
            let members = if query.newest_first {
                self.members_back(&key, &from, (skip, page)).await?
            } else {
                self.members(&key, (&from, "+inf"), (skip, page)).await?
            };
            let is_last = members.len() < usize::try_from(page).unwrap_or(usize::MAX);
            skip += page;
            let states = self.read_states(&members).await?;
            found.extend(states.into_iter().flatten().filter(|state| query.wants(state)));
            if found.len() >= max || is_last {
                found.truncate(max);
                return Ok(found);
            }
        }
    }

    /// Reads open runs whose lease lapsed, and corrects list entries that lag behind their run.
    pub(super) async fn read_lapsed(&self, now: Timestamp, max: usize) -> Result<Vec<RunState>, LogError> {
        // Corrected entries leave the range, so only the found ones are skipped on the next page.
        let (mut found, mut skip) = (Vec::new(), 0);
        loop {
            let members = self
                .members(&self.shared.keys.leases(), ("-inf", &format!("({}", now.0)), (skip, PAGE))
                .await?;
            let is_last = members.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            let states = self.read_states(&members).await?;
            for (run, state) in members.iter().zip(states) {
                match state {
                    Some(state) if state.is_lapsed(now) => {
                        found.push(state);
                        skip += 1;
                    }
                    Some(state) => self.put_right(state).await?,
                    None => skip += isize::from(!self.unlist(run, now).await?),
                }
            }
            if found.len() >= max || is_last {
                found.sort_by_cached_key(RunState::place);
                found.truncate(max);
                return Ok(found);
            }
        }
    }

    /// Corrects the list entry of a run whose lease has not lapsed.
    async fn put_right(&self, state: RunState) -> Result<(), LogError> {
        match state.closed_at {
            Some(at) => self.list_end(&state.meta.run_id, at).await,
            None => self.relist(&[state]).await,
        }
    }

    /// Removes an entry without a run, if it lapsed long before `now`. Returns `true` if the entry is gone.
    async fn unlist(&self, run: &RunId, now: Timestamp) -> Result<bool, LogError> {
        let before = now.0.saturating_sub(UNCREATED_KEPT_MS);
        let call = Call::default().key(self.shared.keys.leases()).arg(run.as_str()).arg(before);
        self.shared.link.script(&self.shared.scripts.unlist, &call).await
    }

    /// Deletes runs that ended before a time, and returns their number.
    pub(super) async fn forget_ended(&self, before: Timestamp) -> Result<usize, LogError> {
        let mut forgotten = 0;
        loop {
            let over = self
                .members(&self.shared.keys.ended(), ("-inf", &format!("({}", before.0)), (0, PAGE))
                .await?;
            if over.is_empty() {
                return Ok(forgotten);
            }
            for (run, state) in over.iter().zip(self.read_states(&over).await?) {
                forgotten += self.forget(run, state).await?;
            }
        }
    }

    /// Deletes one run; returns 1 if this call deleted it. The entry in the list of ended runs is removed last, so that a
    /// deletion that a crash interrupts is resumed.
    async fn forget(&self, run: &RunId, state: Option<RunState>) -> Result<usize, LogError> {
        let keys = &self.shared.keys;
        let own = Cmd::unlink([keys.meta(run), keys.events(run), keys.controls(run)].as_slice());
        let lists = state.iter().flat_map(|state| keys.lists(&state.meta));
        let listed = lists.map(|list| Cmd::zrem(list, run.as_str()));
        self.do_all(&std::iter::once(own).chain(listed).collect::<Vec<_>>()).await?;
        let answers = self.shared.link.batch(&[Cmd::zrem(keys.ended(), run.as_str())]).await?;
        read(answers.into_iter().next().ok_or_else(|| strange(&[]))?)
    }
}

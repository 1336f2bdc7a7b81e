//! The number of runs that one account may have at once, counted where runs are driven.
//!
//! ```text
//! start ──► `Settings::limit` of all ──► quota of the account ──► RunPlace, held until the run ends here
//!                └──────────────────────────┴── no room ──► Busy, with the name of the limit
//! ```
//!
//! A run that is taken over from another replica takes a place too, and is never refused for lack of one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_core::{Account, Exceeded, Principal, Resource};

use crate::runs::Runs;

/// The time after which a refused start may succeed: runs end all the time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The number of runs of every account, and of refused starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunLedger(Arc<Mutex<Counts>>);

/// The counters behind the lock of a [`RunLedger`].
#[derive(Debug, Default)]
struct Counts {
    runs: BTreeMap<Account, usize>,
    refused: BTreeMap<&'static str, u64>,
}

impl RunLedger {
    /// Locks the counters. A panic of another holder leaves them valid.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, unless the account already has `most`.
    fn take(&self, account: &Account, most: usize) -> Option<RunPlace> {
        let key = account.network();
        let mut counts = self.counts();
        let runs = counts.runs.entry(key.clone()).or_default();
        if *runs >= most {
            return None;
        }
        *runs += 1;
        Some(RunPlace { ledger: self.clone(), account: key })
    }
}

/// A place among the runs of one account, returned when dropped.
#[derive(Debug)]
pub struct RunPlace {
    ledger: RunLedger,
    account: Account,
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        let mut counts = self.ledger.counts();
        if let Some(runs) = counts.runs.get_mut(&self.account) {
            *runs -= 1;
            if *runs == 0 {
                counts.runs.remove(&self.account);
            }
        }
    }
}

impl Runs {
    /// Takes a place among the runs of a caller, which this engine or the host itself then drives. Returns `None` for a
    /// caller without an account.
    ///
    /// # Errors
    ///
    /// Returns [`RefusalKind::Busy`](aqueduct_core::service::RefusalKind::Busy) if the caller has as many runs as its
    /// quota allows.
    pub fn take_place(
        &self,
        principal: &Principal,
        caller: &Caller,
    ) -> Result<Option<RunPlace>, ServiceError> {
        let Some(account) = Account::of(principal, caller.peer.as_deref()) else { return Ok(None) };
        let most = self.0.host.access.quota(&account).runs.unwrap_or(usize::MAX);
        let Some(place) = self.0.places.take(&account, most) else {
            let error = ServiceError::over_quota(&account, Resource::Runs, most, RETRY_AFTER);
            return Err(self.refused_by(error));
        };
        Ok(Some(place))
    }

    /// Takes a place for a run that continues, whatever the quota of its principal.
    pub(crate) fn keep_place(&self, owner: &str) -> Option<RunPlace> {
        let account = Account::of(&Principal::from_stored(owner), None)?;
        self.0.places.take(&account, usize::MAX)
    }

    /// Returns the refusal of a start because the number of all runs has reached `limit`.
    pub(crate) fn full(&self, limit: usize) -> ServiceError {
        let exceeded = Exceeded { code: "busy", limit: "runs.limit", retry_after: RETRY_AFTER };
        self.refused_by(ServiceError::exceeded(exceeded, limit, "runs at once, of all callers"))
    }

    /// Counts a refusal by the name of its limit.
    fn refused_by(&self, error: ServiceError) -> ServiceError {
        if let Some(exceeded) = &error.exceeded {
            *self.0.places.counts().refused.entry(exceeded.limit).or_default() += 1;
        }
        error
    }

    /// Returns the number of refused starts, by the name of the limit.
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        self.0.places.counts().refused.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_per_account_and_given_back() {
        let ledger = RunLedger::default();
        let ann = Account::Principal(Principal::new("", "ann").unwrap());
        let peer = Account::Peer("192.0.2.1".parse().unwrap());
        let held: Vec<RunPlace> = (0..3).filter_map(|_| ledger.take(&ann, 2)).collect();
        assert_eq!(held.len(), 2);
        assert!(ledger.take(&peer, 1).is_some(), "another account has its own");
        drop(held);
        assert!(ledger.counts().runs.is_empty(), "an account without runs has no entry");
    }
}

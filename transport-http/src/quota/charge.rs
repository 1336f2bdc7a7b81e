//! [`BodyCharge`]: the bytes that one request holds, charged to all and to its account.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::ServiceError;
use aqueduct_core::{Account, Exceeded, Quota, Resource};
use tokio::time::Instant;

use super::{Quotas, SOON};

/// The bytes of one request body, or of an unfinished message on a connection. Clones are the same charge; what it holds
/// is given back when the last is dropped.
#[derive(Debug, Clone)]
pub struct BodyCharge(Arc<Charge>);

/// The bytes that one request body has charged.
#[derive(Debug)]
struct Charge {
    quotas: Quotas,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The account that is charged too, and its limit.
    account: Option<(Account, Option<usize>)>,
    /// What follows is not counted.
    is_over: bool,
}

impl BodyCharge {
    pub(super) fn new(quotas: Quotas) -> Self {
        Self(Arc::new(Charge { quotas, held: Mutex::default() }))
    }

    /// Charges what is held, and what follows, to this account too.
    pub fn assign(&self, account: &Account, quota: &Quota) {
        let mut held = self.held();
        let bytes = held.bytes;
        self.0.quotas.give_back_to(held.account.as_ref(), bytes);
        held.account = Some((account.clone(), quota.bytes));
        self.0.quotas.accounts().of(&account.network(), Instant::now()).bytes += bytes;
    }

    /// Charges bytes that arrived.
    ///
    /// # Errors
    ///
    /// Refuses the request if all callers, or its account, hold as much as they may. Nothing is charged then.
    pub fn add(&self, bytes: usize) -> Result<(), ServiceError> {
        let mut held = self.held();
        if held.is_over || bytes == 0 {
            return Ok(());
        }
        self.0.quotas.take(held.account.as_ref(), bytes)?;
        held.bytes += bytes;
        Ok(())
    }

    /// Charges as much as is held now: for a connection whose messages are counted one after the other.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add), for what is more than before.
    pub fn set(&self, bytes: usize) -> Result<(), ServiceError> {
        let before = self.held().bytes;
        if bytes >= before {
            return self.add(bytes - before);
        }
        let mut held = self.held();
        self.0.quotas.give_back(held.account.as_ref(), before - bytes);
        held.bytes = bytes;
        Ok(())
    }

    /// Gives everything back. Bytes that follow are not counted: those of a stream that is bounded otherwise.
    pub(crate) fn end(&self) {
        let mut held = self.held();
        held.is_over = true;
        let bytes = std::mem::take(&mut held.bytes);
        self.0.quotas.give_back(held.account.as_ref(), bytes);
    }

    /// Locks the charge. A panic of another holder leaves it valid.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let held = std::mem::take(self.held.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.quotas.give_back(held.account.as_ref(), held.bytes);
    }
}

impl Quotas {
    /// Charges bytes to all callers and to the account. Charges nothing if either limit is exceeded.
    fn take(&self, account: Option<&(Account, Option<usize>)>, bytes: usize) -> Result<(), ServiceError> {
        let max = self.0.limits.bodies;
        let before = self.0.bodies.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > max {
            self.0.bodies.fetch_sub(bytes, Ordering::Relaxed);
            let exceeded = Exceeded { code: "too_many_bodies", limit: "quotas.bodies", retry_after: SOON };
            let what = "bytes of request bodies in flight, of all callers";
            return Err(self.refused_by(ServiceError::exceeded(exceeded, max, what)));
        }
        let Some((account, limit)) = account else { return Ok(()) };
        let mut accounts = self.accounts();
        let used = accounts.of(&account.network(), Instant::now());
        let max = limit.unwrap_or(usize::MAX);
        if used.bytes.saturating_add(bytes) <= max {
            used.bytes += bytes;
            return Ok(());
        }
        drop(accounts);
        self.0.bodies.fetch_sub(bytes, Ordering::Relaxed);
        Err(self.refused_by(ServiceError::over_quota(account, Resource::Bytes, max, SOON)))
    }

    /// Returns bytes to all callers and to the account.
    fn give_back(&self, account: Option<&(Account, Option<usize>)>, bytes: usize) {
        self.0.bodies.fetch_sub(bytes, Ordering::Relaxed);
        self.give_back_to(account, bytes);
    }

    /// Returns bytes to the account alone.
    fn give_back_to(&self, account: Option<&(Account, Option<usize>)>, bytes: usize) {
        let Some((account, _)) = account.filter(|_| bytes > 0) else { return };
        if let Some(used) = self.accounts().used.get_mut(&account.network()) {
            used.bytes = used.bytes.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::QuotaLimits;

    fn peer(address: &str) -> Account {
        Account::Peer(address.parse().unwrap())
    }

    fn held(quotas: &Quotas, account: &Account) -> usize {
        quotas.accounts().of(account, Instant::now()).bytes
    }

    #[tokio::test]
    async fn bytes_are_charged_to_all_and_to_their_account_and_given_back() {
        let quotas = Quotas::new(QuotaLimits { bodies: 100, ..QuotaLimits::default() });
        let (ann, quota) = (peer("192.0.2.1"), Quota::default().with_bytes(Some(60)));
        let first = quotas.charge();
        first.add(10).unwrap();
        first.assign(&ann, &quota);
        first.add(40).unwrap();
        assert_eq!((quotas.bodies(), held(&quotas, &ann)), (50, 50));
        let second = quotas.charge();
        second.assign(&ann, &quota);
        let refused = second.add(11).unwrap_err().exceeded.unwrap();
        assert_eq!(refused.limit, "quotas.peer.bytes");
        let other = quotas.charge();
        assert_eq!(other.add(51).unwrap_err().exceeded.unwrap().limit, "quotas.bodies");
        other.add(50).unwrap();
        assert_eq!(quotas.bodies(), 100, "what was refused is not charged");
        drop(first.clone());
        assert_eq!(quotas.bodies(), 100, "a clone is the same charge");
        first.end();
        first.add(1000).unwrap();
        assert_eq!((quotas.bodies(), held(&quotas, &ann)), (50, 0), "not counted after its end");
        drop((first, second, other));
        assert_eq!(quotas.bodies(), 0);
        assert_eq!(quotas.refusals().values().sum::<u64>(), 2);
    }

    #[tokio::test]
    async fn a_connection_is_charged_what_it_holds_now() {
        let quotas = Quotas::new(QuotaLimits { bodies: 100, ..QuotaLimits::default() });
        let charge = quotas.charge();
        for (bytes, expected) in [(40, 40), (90, 90), (5, 5), (0, 0)] {
            charge.set(bytes).unwrap();
            assert_eq!(quotas.bodies(), expected);
        }
        assert!(charge.set(101).is_err());
        assert_eq!(quotas.bodies(), 0);
    }
}

//! [`Quotas`]: what callers use of a server at once, counted for every surface that it carries.
//!
//! ```text
//! accept ──► connections of the peer address ── over ──► 429 to its first request, then closed
//! request ─► authenticated ──► requests per second of the account ── over ──► 429, the body is not read
//!    └ body ──► bytes in flight: of all, of the account ── over ──► 429
//!               counted from their arrival until the head of the response
//! ```
//!
//! Which limits an account has is the host's ([`RunService::quota`](aqueduct_core::service::RunService::quota)). WebSocket
//! connections charge their requests and unfinished messages to the same ledger.
//!
//! Invariants: what is charged is given back on every path; an account that uses nothing has no entry, so the table is as
//! large as the use of the last second. One short lock; nothing waits.

mod charge;
mod network;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_core::service::ServiceError;
use aqueduct_core::{Account, Exceeded, Quota, Resource};
use tokio::time::Instant;

pub use self::charge::BodyCharge;
pub use self::network::Network;

/// Accounts in the table before those that use nothing are looked for.
const SWEEP_AT: usize = 1024;

/// Connections over their limit that are answered at once; those above are closed without an answer.
const ANSWERED_REFUSALS: usize = 64;

/// When a request that found no room may pass: a body is read within seconds.
const SOON: Duration = Duration::from_secs(1);

aqueduct_core::with_defaults! {
    /// What all callers together, and one address, may use.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct QuotaLimits {
        /// Bytes of all request bodies that were received and not yet answered. Each may be as long as
        /// [`Limits::body_bytes`](crate::Limits::body_bytes), so without it many at once fill the memory.
        pub bodies: usize = usize::MAX,
        /// Connections of one peer address (IPv6: of one /64).
        pub connections_per_peer: usize = usize::MAX,
        /// Addresses whose connections are not counted: those of reverse proxies, behind which many callers are.
        pub proxies: Vec<Network> = Vec::new(),
    }
}

/// The ledger of one or several servers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Quotas(Arc<Ledger>);

/// The counters that all servers with these quotas share.
#[derive(Debug, Default)]
struct Ledger {
    limits: QuotaLimits,
    /// Bytes of all bodies in flight.
    bodies: AtomicUsize,
    accounts: Mutex<Accounts>,
    connections: Mutex<HashMap<Account, usize>>,
    /// Connections that are being refused.
    refusing: AtomicUsize,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

/// What each account uses, and the size at which idle accounts are removed.
#[derive(Debug)]
struct Accounts {
    used: HashMap<Account, Used>,
    sweep_at: usize,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { used: HashMap::new(), sweep_at: SWEEP_AT }
    }
}

/// What one account uses.
#[derive(Debug)]
struct Used {
    bytes: usize,
    /// When the requests so far have been worked off at the account's rate; a burst may be one second ahead.
    paid_until: Instant,
}

impl Accounts {
    /// Returns the entry of an account. Removes idle accounts when the table has doubled, so that its size follows the
    /// active ones.
    fn of(&mut self, account: &Account, now: Instant) -> &mut Used {
        if self.used.len() >= self.sweep_at && !self.used.contains_key(account) {
            self.used.retain(|_, used| used.bytes > 0 || used.paid_until > now);
            self.sweep_at = SWEEP_AT.max(2 * self.used.len());
        }
        self.used.entry(account.clone()).or_insert(Used { bytes: 0, paid_until: now })
    }
}

impl Quotas {
    /// Returns a ledger with these limits.
    pub fn new(limits: QuotaLimits) -> Self {
        Self(Arc::new(Ledger { limits, ..Ledger::default() }))
    }

    /// Counts a request of an account.
    ///
    /// # Errors
    ///
    /// Refuses it if the account has made its requests of this second.
    pub fn admit(&self, account: &Account, quota: &Quota) -> Result<(), ServiceError> {
        let Some(rate) = quota.rate else { return Ok(()) };
        let now = Instant::now();
        let each = Duration::from_secs(1) / u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
        let mut accounts = self.accounts();
        let used = accounts.of(&account.network(), now);
        let paid_until = used.paid_until.max(now) + each;
        let ahead = paid_until.duration_since(now).saturating_sub(Duration::from_secs(1));
        if ahead.is_zero() {
            used.paid_until = paid_until;
            return Ok(());
        }
        drop(accounts);
        Err(self.refused_by(ServiceError::over_quota(account, Resource::Rate, rate, ahead)))
    }

    /// Returns the charge of one request body, or of one connection that takes messages; nothing is charged yet.
    pub fn charge(&self) -> BodyCharge {
        BodyCharge::new(self.clone())
    }

    /// Returns the refusals so far, by the name of the limit.
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        self.0.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the bytes of all request bodies in flight.
    pub fn bodies(&self) -> usize {
        self.0.bodies.load(Ordering::Relaxed)
    }

    /// Takes a place for a connection of an address, and the refusal of its requests where the address has too many.
    /// Returns `None` for a connection that is closed at once: enough others are being refused.
    pub(crate) fn connect(&self, address: IpAddr) -> Option<(PeerPermit, Option<ServiceError>)> {
        let limits = &self.0.limits;
        let is_counted = limits.connections_per_peer < usize::MAX
            && !limits.proxies.iter().any(|proxy| proxy.contains(address));
        if !is_counted {
            return Some((PeerPermit(None), None));
        }
        let account = Account::Peer(address).network();
        let mut connections = self.connections();
        let open = connections.entry(account.clone()).or_default();
        if *open < limits.connections_per_peer {
            *open += 1;
            return Some((PeerPermit(Some((self.clone(), Counted::Peer(account)))), None));
        }
        drop(connections);
        let refusing = self.0.refusing.fetch_add(1, Ordering::Relaxed);
        let place = PeerPermit(Some((self.clone(), Counted::Refusal)));
        let (code, limit) = ("too_many_connections", "quotas.peer.connections");
        let exceeded = Exceeded { code, limit, retry_after: SOON };
        let max = limits.connections_per_peer;
        let error = self.refused_by(ServiceError::exceeded(exceeded, max, "connections of this address"));
        (refusing < ANSWERED_REFUSALS).then_some((place, Some(error)))
    }

    /// Counts a refusal by the name of its limit.
    fn refused_by(&self, error: ServiceError) -> ServiceError {
        if let Some(exceeded) = &error.exceeded {
            let mut refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
            *refused.entry(exceeded.limit).or_default() += 1;
        }
        error
    }

    /// Locks the accounts. A panic of another holder leaves them valid.
    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<Account, usize>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the connections of one address, or among those that are refused; given back when dropped.
#[derive(Debug)]
pub(crate) struct PeerPermit(Option<(Quotas, Counted)>);

/// The account or the refusal that a connection is counted for.
#[derive(Debug)]
enum Counted {
    Peer(Account),
    Refusal,
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        match &self.0 {
            Some((quotas, Counted::Peer(account))) => {
                let mut connections = quotas.connections();
                if let Some(open) = connections.get_mut(account) {
                    *open -= 1;
                    if *open == 0 {
                        connections.remove(account);
                    }
                }
            }
            Some((quotas, Counted::Refusal)) => drop(quotas.0.refusing.fetch_sub(1, Ordering::Relaxed)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Principal;

    use super::*;

    fn account(name: &str) -> Account {
        Account::Principal(Principal::new("", name.to_owned()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_makes_as_many_requests_per_second_as_it_may() {
        let (quotas, quota) = (Quotas::default(), Quota::default().with_rate(Some(4)));
        let (ann, bob) = (account("ann"), account("bob"));
        assert_eq!((0..9).filter(|_| quotas.admit(&ann, &quota).is_ok()).count(), 4, "a burst of one second");
        assert!(quotas.admit(&bob, &quota).is_ok(), "another's burst is its own");
        let refused = quotas.admit(&ann, &quota).unwrap_err().exceeded.unwrap();
        assert_eq!((refused.limit, refused.retry_after), ("quotas.rate", Duration::from_millis(250)));
        tokio::time::advance(refused.retry_after).await;
        assert!(quotas.admit(&ann, &quota).is_ok(), "the time that was told is right");
        assert!(quotas.admit(&ann, &quota).is_err());
        assert_eq!(quotas.refusals()["quotas.rate"], 7);
        assert!(quotas.admit(&ann, &Quota::default()).is_ok(), "no limit, no count");
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_that_use_nothing_are_forgotten() {
        let (quotas, quota) = (Quotas::default(), Quota::default().with_rate(Some(1)));
        for number in 0..3 * SWEEP_AT {
            quotas.admit(&account(&number.to_string()), &quota).unwrap();
            if number % SWEEP_AT == 0 {
                tokio::time::advance(Duration::from_secs(2)).await;
            }
        }
        assert!(quotas.accounts().used.len() <= 2 * SWEEP_AT, "{}", quotas.accounts().used.len());
    }

    #[tokio::test]
    async fn connections_are_counted_per_address_and_given_back() {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let limits = QuotaLimits { connections_per_peer: 1, proxies, ..QuotaLimits::default() };
        let quotas = Quotas::new(limits);
        let connect = |address: &str| quotas.connect(address.parse().unwrap());
        let is_served = |address: &str| connect(address).is_some_and(|(_, refused)| refused.is_none());
        let first = connect("192.0.2.1").unwrap();
        assert!(first.1.is_none() && !is_served("192.0.2.1"));
        assert!(is_served("192.0.2.2"), "another address");
        let proxies: Vec<_> = (0..3).map(|_| connect("10.1.2.3").unwrap()).collect();
        assert!(proxies.iter().all(|(_, refused)| refused.is_none()), "a proxy");
        let refused: Vec<_> = (0..2 * ANSWERED_REFUSALS).map(|_| connect("192.0.2.1")).collect();
        let dropped = refused.iter().filter(|refused| refused.is_none()).count();
        assert_eq!(dropped, ANSWERED_REFUSALS, "no more than these are answered at once");
        drop((refused, first));
        assert!(is_served("192.0.2.1"));
        assert!(quotas.connections().is_empty());
    }
}

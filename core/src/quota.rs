//! [`Quota`]: how much one party may use at once; [`Account`]: the party to which use is charged; [`Exceeded`]: the limit
//! that refused a request, as the refusal reports it.
//!
//! ```text
//! caller ── a proved principal? ── yes ──► Account::Principal ─┐
//!                         └ no ──► Account::Peer ──────────────┴──► Quota of the account, by the host
//! ```
//!
//! Nothing is counted here: requests and bytes are counted where requests arrive, runs where they are driven.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::principal::Principal;
use crate::service::{RefusalKind, ServiceError};

/// Bits of an IPv6 address that name a network: a host has all of the rest for itself.
const NETWORK_BITS: u32 = 64;

/// The party to which use is charged.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{Account, Principal};
///
/// let ann = Principal::new("", "ann").unwrap();
/// assert_eq!(Account::of(&ann, Some("192.0.2.1:9")), Some(Account::Principal(ann)));
/// let peer = Account::of(&Principal::anonymous(), Some("[2001:db8::7]:9")).unwrap();
/// assert_eq!(peer.network(), Account::Peer("2001:db8::".parse().unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    /// A principal that the caller proved.
    Principal(Principal),
    /// The address of a caller that proved nothing.
    Peer(IpAddr),
}

impl Account {
    /// Returns the account of a principal; for the anonymous one that of the peer, if its address is known.
    pub fn of(principal: &Principal, peer: Option<&str>) -> Option<Self> {
        if !principal.is_anonymous() {
            return Some(Self::Principal(principal.clone()));
        }
        let address: SocketAddr = peer?.parse().ok()?;
        Some(Self::Peer(address.ip()))
    }

    /// Returns the account under which use is counted: of an IPv6 address its /64, because one host has all of it.
    pub fn network(&self) -> Self {
        match self {
            Self::Peer(address) => Self::Peer(match address.to_canonical() {
                IpAddr::V6(address) => {
                    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> NETWORK_BITS << NETWORK_BITS))
                }
                address @ IpAddr::V4(_) => address,
            }),
            Self::Principal(_) => self.clone(),
        }
    }

    /// Returns the name of the limit of a resource.
    pub const fn limit(&self, resource: Resource) -> &'static str {
        match (self, resource) {
            (Self::Principal(_), Resource::Runs) => "quotas.runs",
            (Self::Principal(_), Resource::Rate) => "quotas.rate",
            (Self::Principal(_), Resource::Bytes) => "quotas.bytes",
            (Self::Peer(_), Resource::Runs) => "quotas.peer.runs",
            (Self::Peer(_), Resource::Rate) => "quotas.peer.rate",
            (Self::Peer(_), Resource::Bytes) => "quotas.peer.bytes",
        }
    }
}

/// What an account uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Runs at once.
    Runs,
    /// Requests per second.
    Rate,
    /// Bytes of request bodies in flight.
    Bytes,
}

impl Resource {
    /// Returns the code of the refusal.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Runs => "too_many_runs",
            Self::Rate => "too_many_requests",
            Self::Bytes => "too_many_bytes",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Runs => "runs at once",
            Self::Rate => "requests per second",
            Self::Bytes => "bytes of request bodies in flight",
        }
    }
}

/// How much one account may use at once. `None` is no limit beside those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Quota {
    /// Runs at once.
    pub runs: Option<usize>,
    /// Requests per second, with bursts of as many.
    pub rate: Option<usize>,
    /// Bytes of request bodies that were received and not yet answered.
    pub bytes: Option<usize>,
}

impl Quota {
    /// Returns the quota with a limit of runs.
    #[must_use]
    pub const fn with_runs(mut self, runs: Option<usize>) -> Self {
        self.runs = runs;
        self
    }

    /// Returns the quota with a limit of requests per second.
    #[must_use]
    pub const fn with_rate(mut self, rate: Option<usize>) -> Self {
        self.rate = rate;
        self
    }

    /// Returns the quota with a limit of bytes in flight.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: Option<usize>) -> Self {
        self.bytes = bytes;
        self
    }
}

/// The limit that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// A stable word for programs and metrics, such as `too_many_runs`.
    pub code: &'static str,
    /// The name of the limit, such as `quotas.runs`.
    pub limit: &'static str,
    /// When a retry may pass.
    pub retry_after: Duration,
}

impl Exceeded {
    /// Returns the whole seconds after which a retry may pass, at least one: what `Retry-After` says.
    pub fn retry_seconds(&self) -> u64 {
        (self.retry_after.as_secs() + u64::from(self.retry_after.subsec_nanos() > 0)).max(1)
    }
}

impl ServiceError {
    /// Refuses a request because of a limit. `what` completes "more than {max} …".
    pub fn exceeded(exceeded: Exceeded, max: usize, what: &str) -> Self {
        let (limit, seconds) = (exceeded.limit, exceeded.retry_seconds());
        let message = format!("more than {max} {what} (limit `{limit}`): retry after {seconds} s");
        Self { exceeded: Some(exceeded), ..Self::new(RefusalKind::Busy, message) }
    }

    /// Refuses a request of an account that has used its quota.
    pub fn over_quota(account: &Account, resource: Resource, max: usize, retry_after: Duration) -> Self {
        let exceeded = Exceeded { code: resource.code(), limit: account.limit(resource), retry_after };
        let party = match account {
            Account::Principal(_) => "principal",
            Account::Peer(_) => "address",
        };
        Self::exceeded(exceeded, max, &format!("{} of this {party}", resource.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_account() {
        let of =
            |peer: &str| Account::of(&Principal::anonymous(), Some(peer)).map(|account| account.network());
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:2]:2"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_eq!(of("[::ffff:192.0.2.1]:1"), of("192.0.2.1:2"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
        assert_eq!(of("nonsense"), None);
        assert_eq!(Account::of(&Principal::anonymous(), None), None);
    }

    #[test]
    fn a_refusal_names_its_limit_and_when_to_retry() {
        let account = Account::Peer("192.0.2.1".parse().unwrap());
        let error = ServiceError::over_quota(&account, Resource::Rate, 5, Duration::from_millis(1500));
        let expected =
            "more than 5 requests per second of this address (limit `quotas.peer.rate`): retry after 2 s";
        assert_eq!(error.message, expected);
        assert_eq!((error.kind, error.exceeded.unwrap().code), (RefusalKind::Busy, "too_many_requests"));
        let soon = Exceeded { retry_after: Duration::ZERO, ..error.exceeded.unwrap() };
        assert_eq!(soon.retry_seconds(), 1);
    }
}

//! Derives the limits of callers from the quotas of the configuration, for the servers, the run engine and the log.
//!
//! ```text
//! [quotas], [principals.NAME.quotas] ──► Quota of an account ──► requests, bytes (transport-http), runs (runs)
//!                     ├────────────────► QuotaLimits ──────────► connections, bodies of all (transport-http)
//!                     └────────────────► LogLimits ────────────► memory (runlog)
//! ```
//!
//! This module counts nothing; the crates in parentheses do.

use aqueduct_core::{Account, Principal, Quota};
use aqueduct_transport_http::QuotaLimits;

use crate::config::{Config, PrincipalQuotas};

/// The divisor for the share of one principal where there are several: three principals at their limit leave room for a
/// fourth.
const SHARE: usize = 4;

/// Requests per second of one principal where there are several and none is configured.
const RATE: usize = 1_000;

/// The names of the limits in metrics, which are the keys of the configuration. A refusal with another name is
/// not sampled.
pub(crate) const LIMITS: [&str; 9] = [
    "quotas.runs",
    "quotas.rate",
    "quotas.bytes",
    "quotas.bodies",
    "quotas.peer.connections",
    "quotas.peer.rate",
    "quotas.peer.bytes",
    "quotas.peer.runs",
    "runs.limit",
];

/// Returns `true` if the configuration has proofs of more than one principal.
fn is_shared(config: &Config) -> bool {
    let tokens = config.agents.values().map(|agent| agent.tokens.len()).sum::<usize>();
    !config.issuers.is_empty() || config.principals.len() + config.server.tokens.len() + tokens > 1
}

/// Returns the quota of an account. The address of a reverse proxy has none: it stands for many callers.
pub(crate) fn of(config: &Config, account: &Account) -> Quota {
    match account {
        Account::Principal(principal) => of_principal(config, principal),
        Account::Peer(address) if config.quotas.proxies.iter().any(|proxy| proxy.contains(*address)) => {
            Quota::default()
        }
        Account::Peer(_) => {
            let peer = &config.quotas.peer;
            let quota = Quota::default().with_runs(Some(peer.runs)).with_rate(Some(peer.rate));
            quota.with_bytes(Some(peer.bytes))
        }
    }
}

/// Returns the quota of a principal: its own, else that of `[quotas]`, else a share if there are several
/// principals, else none.
fn of_principal(config: &Config, principal: &Principal) -> Quota {
    let quotas = &config.quotas;
    let is_shared = is_shared(config);
    let share = |all: usize| is_shared.then_some((all / SHARE).max(1));
    let own = config.principals.get(principal.subject()).filter(|own| own.tenant == principal.tenant());
    let own = own.map(|own| &own.quotas);
    let own = |of: fn(&PrincipalQuotas) -> Option<usize>| own.and_then(of);
    Quota::default()
        .with_runs(own(|own| own.runs).or(quotas.runs).or_else(|| share(config.runs.limit)))
        .with_rate(own(|own| own.rate).or(quotas.rate).or_else(|| is_shared.then_some(RATE)))
        .with_bytes(own(|own| own.bytes).or(quotas.bytes).or_else(|| share(quotas.bodies)))
}

/// Returns the memory that the runs of one principal may use in the log. With one principal that is all memory
/// of the log.
pub(crate) fn memory(config: &Config) -> usize {
    let share = || if is_shared(config) { (config.runs.memory / SHARE).max(1) } else { config.runs.memory };
    config.quotas.memory.unwrap_or_else(share)
}

/// Returns the limits of the servers.
pub(crate) fn limits(config: &Config) -> QuotaLimits {
    QuotaLimits {
        bodies: config.quotas.bodies,
        connections_per_peer: config.quotas.peer.connections,
        proxies: config.quotas.proxies.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::load;

    fn config(toml: &str) -> Config {
        let environment = [("A", "ann-token-0123456789"), ("B", "bob-token-0123456789")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let agent = "[agents.a]\nagui.url = \"http://127.0.0.1:1\"\n";
        load(Path::new("aqueduct.toml"), &format!("{toml}{agent}"), environment).unwrap()
    }

    fn principal(tenant: &str, name: &str) -> Account {
        Account::Principal(Principal::new(tenant.to_owned(), name.to_owned()).unwrap())
    }

    #[test]
    fn one_principal_has_everything_and_several_have_a_share_each() {
        let alone = config("[principals.ann]\ntoken = \"env:A\"\n");
        assert_eq!(of(&alone, &principal("", "ann")), Quota::default());
        assert_eq!(memory(&alone), 1 << 30);
        let two = "[principals.ann]\ntenant = \"acme\"\ntoken = \"env:A\"\nquotas.rate = 7\n\
                   [principals.bob]\ntoken = \"env:B\"\n";
        let both = config(two);
        let bob = of(&both, &principal("", "bob"));
        assert_eq!((bob.runs, bob.rate, bob.bytes), (Some(2_500), Some(RATE), Some(64 << 20)));
        assert_eq!(memory(&both), 256 << 20);
        let ann = of(&both, &principal("acme", "ann"));
        assert_eq!((ann.runs, ann.rate), (Some(2_500), Some(7)), "its own, and the default for the rest");
        assert_eq!(of(&both, &principal("", "ann")).rate, Some(RATE), "another tenant is another principal");
        let set = config(&format!("quotas = {{ runs = 3, memory = \"1MiB\" }}\n{two}"));
        assert_eq!((of(&set, &principal("", "bob")).runs, memory(&set)), (Some(3), 1 << 20));
    }

    #[test]
    fn an_address_has_a_quota_unless_it_is_a_proxys() {
        let config = config("quotas.proxies = [\"10.0.0.0/8\"]\nquotas.peer.runs = 5\n");
        let peer = |address: &str| of(&config, &Account::Peer(address.parse().unwrap()));
        assert_eq!(peer("10.1.2.3"), Quota::default());
        assert_eq!((peer("127.0.0.1").runs, peer("127.0.0.1").rate), (Some(5), Some(100)));
    }
}

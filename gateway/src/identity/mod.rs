//! Identifies callers: the configured proofs, and the identities that they prove.
//!
//! ```text
//! Caller ──► token ──┬► [principals.NAME], or a derived name ─┐
//!       │            └► JWT of one of [issuers.NAME] ─────────┤
//!       ├──► certificate ──► [principals.NAME] ───────────────┤
//!       └──► nothing ──► anonymous, where some agent is open ─┴──► Identity, once per request
//! ```
//!
//! Invariants: the stored name of a principal depends on its proof and its configured name alone, never on a position; a
//! proof that a reload removes is revoked, which ends the streams that it opened; tokens are compared in constant time, all
//! of them, so that neither their number nor their content can be measured. A refusal names what is wrong with the proof
//! and nothing about other principals.
//!
//! Not here: which runs an identity may access. That is decided by the run engine (`aqueduct_runs::AccessPolicy`).

mod certificates;
mod jwks;
mod jwt;
#[cfg(feature = "testing")]
mod testing;
mod tokens;

use std::collections::BTreeSet;
use std::sync::Arc;

use aqueduct_core::service::{Caller, Proof, RefusalKind, ServiceError};
use aqueduct_core::{AgentGrant, Identity};
use aqueduct_runs::now;

use crate::config::{Agent, AgentSource, Config};
use certificates::CertificateTable;
use jwt::{Issuer, Issuers, Rejected};
use tokens::TokenTable;

#[cfg(feature = "testing")]
pub use testing::check_proof;

/// All proofs of a configuration.
#[derive(Debug)]
pub(crate) struct Identities {
    tokens: TokenTable,
    certificates: CertificateTable,
    issuers: Issuers,
    /// Agents that callers without a proof may run.
    open: BTreeSet<String>,
    /// Set if the configuration has no proofs at all: then proofs are not checked.
    is_open: bool,
    anonymous: Arc<Identity>,
}

impl Identities {
    /// Returns the proofs of `config`. `retired` are agents of earlier configurations: their tokens still grant access
    /// to their runs.
    pub(crate) fn new<'a>(
        config: &Config,
        retired: impl Iterator<Item = (&'a str, &'a Agent)>,
    ) -> anyhow::Result<Self> {
        let retired: Vec<_> = retired.collect();
        let tokens = TokenTable::new(config, &retired);
        let mut certificates = CertificateTable::default();
        for (name, principal) in &config.principals {
            let identity = tokens::identity_of(name, principal);
            principal.certificates.iter().for_each(|name| certificates.add(name, &identity));
        }
        let issuer = |(name, issuer): (&String, _)| Issuer::new(name, issuer).map(Arc::new);
        let issuers = config.issuers.iter().map(issuer).collect::<anyhow::Result<Vec<_>>>()?;
        let has_common =
            !config.server.tokens.is_empty() || !config.principals.is_empty() || !config.issuers.is_empty();
        let is_open = |agent: &Agent| !has_common && agent.tokens.is_empty();
        let agents = config.agents.iter().map(|(name, agent)| (name.as_str(), agent)).chain(retired);
        let open: BTreeSet<String> =
            agents.filter(|(_, agent)| is_open(agent)).map(|(name, _)| name.to_owned()).collect();
        let is_open = tokens.is_empty() && certificates.is_empty() && issuers.is_empty();
        let mut anonymous = Identity::default();
        if !is_open {
            anonymous.agents = AgentGrant::Only(open.clone());
        }
        let (issuers, anonymous) = (Issuers::new(issuers), Arc::new(anonymous));
        Ok(Self { tokens, certificates, issuers, open, is_open, anonymous })
    }

    /// Takes over the identities of `before` whose proofs are unchanged, and revokes the others.
    pub(crate) fn replace(&mut self, before: &Self) {
        self.tokens.replace(&before.tokens);
        self.certificates.replace(&before.certificates);
        self.issuers.replace(&before.issuers);
    }

    /// Returns the identity of a caller: the one proven when its request was authenticated, else the one that its proof
    /// yields.
    pub(crate) fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        match &caller.proof {
            Proof::Verified(identity) => still_valid(identity),
            Proof::Refused(refusal) => Err(refusal.clone()),
            Proof::Unchecked => self.check(caller),
        }
    }

    /// Checks the proof of a caller, and fetches the keys of its issuer if necessary.
    pub(crate) async fn authenticate(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let issuer = caller.token.as_deref().and_then(|token| self.issuers.of(token));
        let checked = self.check_now(caller);
        match (checked, issuer) {
            (Err(Rejected::UnknownKey), Some(issuer)) => {
                issuer.refresh().await;
                self.check(caller)
            }
            (checked, issuer) => {
                if let Some(issuer) = issuer.filter(|issuer| issuer.is_stale()) {
                    tokio::spawn(async move { issuer.refresh().await });
                }
                checked.map_err(Rejected::into_refusal)
            }
        }
    }

    /// Checks the proof of a caller without fetching keys.
    fn check(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        self.check_now(caller).map_err(Rejected::into_refusal)
    }

    fn check_now(&self, caller: &Caller) -> Result<Arc<Identity>, Rejected> {
        if self.is_open {
            return Ok(Arc::clone(&self.anonymous));
        }
        if let Some(token) = caller.token.as_deref() {
            if let Some(identity) = self.tokens.find(token) {
                return Ok(identity);
            }
            let issuer = self.issuers.of(token).ok_or_else(|| Rejected::Refused(refusal("unknown token")))?;
            return issuer.verify(token);
        }
        let proven = caller.certificate.as_ref().map(|der| self.certificates.find(der)).transpose();
        match proven.map_err(Rejected::Refused)?.flatten() {
            Some(identity) => still_valid(&identity).map_err(Rejected::Refused),
            None if self.open.is_empty() => Err(Rejected::Refused(missing())),
            None => Ok(Arc::clone(&self.anonymous)),
        }
    }

    /// Returns `true` if the identity may run the agent. A fan-out requires access to all of its members.
    pub(crate) fn may_run(&self, config: &Config, identity: &Identity, agent: &str) -> bool {
        let may_run = |name: &str| identity.may_run(name) || self.open.contains(name);
        let members = match config.agents.get(agent).map(|agent| &agent.source) {
            Some(AgentSource::FanOut { agents }) => agents.as_slice(),
            _ => &[],
        };
        may_run(agent) && members.iter().all(|member| may_run(member))
    }

    /// Returns the refusal for a caller without proof, if a proof would give access to more.
    pub(crate) fn challenge(&self, identity: &Identity) -> Option<ServiceError> {
        (!self.is_open && identity.principal.is_anonymous()).then(missing)
    }

    /// Returns `true` if the configuration has no proofs.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns `true` if more than one principal can exist.
    pub(crate) fn is_shared(&self) -> bool {
        let named = self.tokens.identities().chain(self.certificates.identities());
        let principals: BTreeSet<_> = named.map(|identity| &identity.principal).collect();
        principals.len() + usize::from(!self.open.is_empty()) > 1 || !self.issuers.all().is_empty()
    }

    /// Returns `true` if callers of the agent must present a proof.
    pub(crate) fn protects(&self, agent: &str) -> bool {
        !self.is_open && !self.open.contains(agent)
    }
}

/// Validates the text of a key set, for `config check`.
pub(crate) fn check_keys(text: &[u8]) -> anyhow::Result<()> {
    jwks::parse(text).map(drop)
}

/// Checks the expiry again: a proof that was valid when its request arrived may have expired since.
fn still_valid(identity: &Arc<Identity>) -> Result<Arc<Identity>, ServiceError> {
    if identity.revoked.is_cancelled() {
        return Err(refusal("the proof was revoked: send a new one"));
    }
    if identity.is_expired(now()) {
        return Err(refusal("the proof has expired: send a new one"));
    }
    Ok(Arc::clone(identity))
}

fn refusal(message: impl Into<String>) -> ServiceError {
    ServiceError::new(RefusalKind::Unauthenticated, message)
}

fn missing() -> ServiceError {
    refusal("send a token: `Authorization: Bearer …`")
}

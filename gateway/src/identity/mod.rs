//! Identifies callers: the configured proofs, and the identities that they prove.
//!
//! ```text
//! Caller ──► token ──┬► [principals.NAME], or a derived name ─┐
//!       │            └► JWT of one of [issuers.NAME] ─────────┤
//!       ├──► certificate ──► [principals.NAME] ───────────────┤
//!       └──► nothing ──► anonymous, where some agent is open ─┴──► Identity, once per request
//! ```
//!
//! Invariants: the stored name of a principal depends on its proof and its configured name alone, never on a position;
//! a proof that a reload removes is revoked, which ends the streams that it opened; tokens are compared in constant
//! time, all of them, so that neither their number nor their content can be measured. A refusal names what is wrong
//! with the proof and nothing about other principals.
//!
//! Not here: which runs an identity may access. That is decided by the run engine (`aqueduct_runs::AccessPolicy`).

mod certificates;
mod jwks;
mod jwt;
mod table;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
mod tests;
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

/// All proofs of a configuration. Immutable while it is in use: a reload builds another one and calls
/// [`Self::replace`].
#[derive(Debug)]
pub(crate) struct Identities {
    tokens: TokenTable,
    certificates: CertificateTable,
    issuers: Issuers,
    /// Agents that callers without a proof may run.
    open: BTreeSet<String>,
    /// Set if the configuration has no proofs at all: then proofs are not checked.
    is_open: bool,
    /// The identity of a caller without a proof. It may run the agents in `open` alone, or all if there are no proofs.
    anonymous: Arc<Identity>,
}

impl Identities {
    /// Returns the proofs of `config`. `retired` are agents of earlier configurations: their tokens still grant access
    /// to their runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the TLS files of an issuer cannot be read. Keys of issuers are fetched with the first token.
    pub(crate) fn new<'a>(
        config: &Config,
        retired: impl Iterator<Item = (&'a str, &'a Agent)>,
    ) -> anyhow::Result<Self> {
        let retired: Vec<_> = retired.collect();
        let tokens = TokenTable::new(config, &retired);
        let mut certificates = CertificateTable::default();
        for (name, principal) in &config.principals {
            let identity = tokens::identity_of(name, principal);
            principal.certificates.iter().for_each(|name| certificates.add(name.clone(), &identity));
        }
        let issuer = |(name, issuer): (&String, _)| Issuer::new(name, issuer).map(Arc::new);
        let issuers = config.issuers.iter().map(issuer).collect::<anyhow::Result<Vec<_>>>()?;
        let has_common =
            !config.server.tokens.is_empty() || !config.principals.is_empty() || !config.issuers.is_empty();
        // A proof that is not bound to one agent protects all agents: an agent is open only if it has no tokens of its
        // own either.
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

    /// Takes over the identities of `before` whose proofs are unchanged, and revokes the others. Revoking cancels a
    /// token that the streams of the identity watch, so they end at once.
    pub(crate) fn replace(&mut self, before: &Self) {
        self.tokens.replace(&before.tokens);
        self.certificates.replace(&before.certificates);
        self.issuers.replace(&before.issuers);
    }

    /// Returns the identity of a caller: the one proven when its request was authenticated, else the one that its proof
    /// yields.
    ///
    /// Fetches no keys: a token whose key is unknown is refused here and must pass [`Self::authenticate`] first.
    ///
    /// # Errors
    ///
    /// Returns a refusal (`Unauthenticated`) that names what is wrong with the proof.
    pub(crate) fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        match &caller.proof {
            Proof::Verified(identity) => still_valid(identity),
            Proof::Refused(refusal) => Err(refusal.clone()),
            Proof::Unchecked => self.check(caller),
        }
    }

    /// Checks the proof of a caller, and fetches the keys of its issuer if necessary. Called once per request, before
    /// its route.
    ///
    /// Only an unknown key makes the caller wait for a fetch. Keys that are merely older than `refresh` are fetched in
    /// the background, and the token is checked with the cached ones.
    ///
    /// # Errors
    ///
    /// Returns a refusal (`Unauthenticated`) that names what is wrong with the proof. An issuer that does not respond
    /// leads to the refusal of tokens with unknown keys; tokens of cached keys stay valid.
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

    /// Checks the proof of a caller with the keys at hand.
    ///
    /// A token precedes a certificate: an invalid token is refused even if a certificate would be accepted, so that a
    /// caller never acts as another principal than it intended.
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

    /// Returns `true` if the identity may run the agent. A fan-out requires access to all of its members, because it
    /// runs them.
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
    ///
    /// An issuer counts as many, because its subjects are not known beforehand.
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

/// Returns a refusal of the kind `Unauthenticated`.
fn refusal(message: impl Into<String>) -> ServiceError {
    ServiceError::new(RefusalKind::Unauthenticated, message)
}

/// The refusal of a caller that presented no proof.
fn missing() -> ServiceError {
    refusal("send a token: `Authorization: Bearer …`")
}

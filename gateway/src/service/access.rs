//! Access by bearer tokens: a caller is the number of its token.
//!
//! An agent with tokens (its own, or those of the gateway) is protected. Tokens are compared in constant time, all of
//! them, so that neither their number nor their content can be measured.

use std::sync::{Arc, PoisonError};

use aqueduct_core::Principal;
use aqueduct_core::service::Caller;
use aqueduct_runs::AccessPolicy;
use subtle::{Choice, ConstantTimeEq as _};

use super::SharedSetup;
use super::setup::Setup;
use crate::config::Secret;

/// Access by the tokens of the configuration.
pub(super) struct TokenAccess(SharedSetup);

impl std::fmt::Debug for TokenAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenAccess").finish_non_exhaustive()
    }
}

impl TokenAccess {
    pub(super) fn new(setup: SharedSetup) -> Self {
        Self(setup)
    }

    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AccessPolicy for TokenAccess {
    fn identify(&self, caller: &Caller, agent: &str) -> Option<Principal> {
        let setup = self.setup();
        let agent = setup.known(agent)?;
        let (own, common) = (&agent.config.tokens, &setup.config.server.tokens);
        if own.is_empty() && common.is_empty() {
            return Some(Principal::anonymous());
        }
        let token = caller.token.as_deref().unwrap_or_default();
        // Each is looked at, whichever fits.
        let (of_agent, of_gateway) = (position(own, token), position(common, token));
        match (of_gateway, of_agent) {
            (Some(index), _) => Some(Principal::from_stored(&format!("gateway/{index}"))),
            (None, Some(index)) => Some(Principal::from_stored(&format!("{}/{index}", agent.name))),
            (None, None) => None,
        }
    }

    /// True if there are tokens and the caller has none of them.
    fn is_stranger(&self, caller: &Caller) -> bool {
        let token = caller.token.as_deref().unwrap_or_default();
        let setup = self.setup();
        let common = &setup.config.server.tokens;
        let mut protected = !common.is_empty();
        let mut known = position(common, token).is_some();
        for agent in setup.agents.values() {
            protected |= !agent.config.tokens.is_empty();
            known |= position(&agent.config.tokens, token).is_some();
        }
        protected && !known
    }
}

/// Which of the secrets the token is. Every secret is compared, and every byte of it.
fn position(secrets: &[Secret], token: &str) -> Option<usize> {
    let mut found = None;
    for (index, secret) in secrets.iter().enumerate() {
        let same: Choice = secret.reveal().as_bytes().ct_eq(token.as_bytes());
        if bool::from(same) {
            found = Some(index);
        }
    }
    found
}

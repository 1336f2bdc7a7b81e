//! The access policy of the configured identities.

use std::fmt;
use std::sync::{Arc, PoisonError};

use aqueduct_core::service::{BoxFuture, Caller, Proof, ServiceError};
use aqueduct_core::{Account, Identity, Quota};
use aqueduct_runs::AccessPolicy;

use super::SharedSetup;
use super::setup::Setup;
use crate::quota;

/// The access policy of the configured identities, which a reload replaces.
pub(super) struct ConfiguredAccess(SharedSetup);

impl fmt::Debug for ConfiguredAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredAccess").finish_non_exhaustive()
    }
}

impl ConfiguredAccess {
    pub(super) fn new(setup: SharedSetup) -> Self {
        Self(setup)
    }

    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AccessPolicy for ConfiguredAccess {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        self.setup().identities.identify(caller)
    }

    fn authenticate(&self, mut caller: Caller) -> BoxFuture<'_, Caller> {
        let setup = self.setup();
        Box::pin(async move {
            caller.proof = match setup.identities.authenticate(&caller).await {
                Ok(identity) => Proof::Verified(identity),
                Err(refusal) => Proof::Refused(refusal),
            };
            caller
        })
    }

    fn may_run(&self, identity: &Identity, agent: &str) -> bool {
        let setup = self.setup();
        setup.identities.may_run(&setup.config, identity, agent)
    }

    fn quota(&self, account: &Account) -> Quota {
        quota::of(&self.setup().config, account)
    }

    fn challenge(&self, identity: &Identity) -> Option<ServiceError> {
        self.setup().identities.challenge(identity)
    }
}

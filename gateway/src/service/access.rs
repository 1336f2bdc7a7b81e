//! The access policy of the configured identities: connects the run engine, which asks who a caller is, with
//! [`Identities`](crate::identity::Identities), which know the configured proofs.
//!
//! Every function reads the current setup, so a reload applies to the next request. Nothing is cached here.

use std::sync::{Arc, PoisonError};

use aqueduct_core::service::{BoxFuture, Caller, Proof, ServiceError};
use aqueduct_core::{Account, Identity, Quota};
use aqueduct_runs::AccessPolicy;

use super::SharedSetup;
use super::setup::Setup;
use crate::quota;

/// The access policy of the configured identities, which a reload replaces.
pub(super) struct ConfiguredAccess(SharedSetup);

aqueduct_core::debug_fields!(ConfiguredAccess {});

impl ConfiguredAccess {
    pub(super) fn new(setup: SharedSetup) -> Self {
        Self(setup)
    }

    /// Returns the current setup. The lock is held only for the clone; a reload during a call does not affect the call.
    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AccessPolicy for ConfiguredAccess {
    /// Called at every look-up of an agent or run: cheap, because the proof was checked by `authenticate`.
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        self.setup().identities.identify(caller)
    }

    /// Checks the proof once per request. A refusal is stored in the caller instead of returned: routes without access
    /// control still respond, and the others refuse with it.
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

    /// Grants and configuration come from the same setup: a fan-out is checked against the members that it has now.
    fn may_run(&self, identity: &Identity, agent: &str) -> bool {
        let setup = self.setup();
        setup.identities.may_run(&setup.config, identity, agent)
    }

    /// The limits of a principal, or of a peer address for callers without a proof.
    fn quota(&self, account: &Account) -> Quota {
        quota::of(&self.setup().config, account)
    }

    /// Callers without a proof are asked for one instead of being refused with "not found".
    fn challenge(&self, identity: &Identity) -> Option<ServiceError> {
        self.setup().identities.challenge(identity)
    }
}

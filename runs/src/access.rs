//! [`AccessPolicy`]: which principal a caller is. The host decides; the engine compares.
//!
//! A run belongs to the principal that started it. What belongs to another principal does not exist for a caller; a
//! caller without any identity is told to bring one.

use std::fmt;

use aqueduct_core::Principal;
use aqueduct_core::service::{Caller, RefusalKind, ServiceError};

/// Decides which principal a caller is.
pub trait AccessPolicy: fmt::Debug + Send + Sync + 'static {
    /// Returns the principal of the caller at an agent, which may be retired; `None` if the caller may not use the agent.
    fn identify(&self, caller: &Caller, agent: &str) -> Option<Principal>;

    /// Returns `true` if the caller has no identity at any agent although some require one. Such a caller learns nothing
    /// about which agents and runs exist.
    fn is_stranger(&self, _caller: &Caller) -> bool {
        false
    }

    /// Returns the refusal of a caller that has to bring an identity.
    fn refusal(&self) -> ServiceError {
        ServiceError::new(RefusalKind::Unauthenticated, "send a token: `Authorization: Bearer …`")
    }
}

/// Every caller is the anonymous principal.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAccess;

impl AccessPolicy for OpenAccess {
    fn identify(&self, _caller: &Caller, _agent: &str) -> Option<Principal> {
        Some(Principal::anonymous())
    }
}

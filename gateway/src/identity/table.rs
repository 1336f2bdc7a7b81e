//! [`ProofTable`]: configured proofs and the identities that they prove.

use std::sync::Arc;

use aqueduct_core::{CancelToken, Identity};

/// Proofs of one kind, each with its identity, in the order of the configuration.
#[derive(Debug)]
pub(super) struct ProofTable<K>(pub(super) Vec<(K, Arc<Identity>)>);

impl<K> Default for ProofTable<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> ProofTable<K> {
    /// Adds a proof. Each proof has a revocation switch of its own: revoking one proof of a principal does not end the
    /// streams of the others.
    pub(super) fn add(&mut self, proof: K, identity: &Identity) {
        let mut identity = identity.clone();
        identity.revoked = CancelToken::new();
        self.0.push((proof, Arc::new(identity)));
    }

    /// Returns `true` if no proof is configured.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the identities of the table.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Arc<Identity>> {
        self.0.iter().map(|(_, identity)| identity)
    }

    /// Keeps the identities of proofs that prove the same as before; revokes all others. A proof whose grants changed
    /// is another proof: its streams end, and the caller connects again with the new grants.
    pub(super) fn replace(&mut self, before: &Self) {
        for (proof, identity) in &before.0 {
            match self.0.iter_mut().find(|(other, now)| other == proof && now == identity) {
                Some((_, now)) => *now = Arc::clone(identity),
                None => identity.revoked.cancel(),
            }
        }
    }
}

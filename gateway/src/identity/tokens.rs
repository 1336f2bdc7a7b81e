//! Bearer tokens of the configuration: named ones (`[principals.NAME]`), and those of `server.tokens` and of agents,
//! whose names are derived.
//!
//! The derived name of a token is `token-` and the first 64 bits of SHA-256 over `aqueduct principal`, a zero byte and
//! the token, in hexadecimal: the same in every list, order, replica and restart. The hash does not reveal a token that
//! cannot be guessed.

use std::collections::BTreeSet;
use std::sync::Arc;

use aqueduct_core::{AgentGrant, Identity, Principal};
use ring::digest::{Context, SHA256};
use subtle::{Choice, ConstantTimeEq as _};

use super::table::ProofTable;
use crate::config::{Agent, Config, PrincipalConfig, Role, Secret};

/// Tokens and the identities that they prove. A list, because every look-up compares all tokens in constant time; a
/// configuration has tens of them, not thousands.
pub(super) type TokenTable = ProofTable<Secret>;

impl TokenTable {
    /// Collects the tokens of principals, then of the server, then of agents. A token of a principal that occurs again
    /// in one of the other lists keeps the name of the principal, and gains the access that the list gives.
    pub(super) fn new(config: &Config, retired: &[(&str, &Agent)]) -> Self {
        let mut table = Self::default();
        for (name, principal) in &config.principals {
            let identity = identity_of(name, principal);
            for token in principal.token.iter().chain(&principal.tokens) {
                table.add(token.clone(), &identity);
            }
        }
        for token in &config.server.tokens {
            table.derive(token, None);
        }
        let agents = config.agents.iter().map(|(name, agent)| (name.as_str(), agent));
        for (name, agent) in agents.chain(retired.iter().copied()) {
            for token in &agent.tokens {
                table.derive(token, Some(name));
            }
        }
        table
    }

    /// Adds a token without a name, for one agent or for all. A token that is already present gains access to that
    /// agent.
    ///
    /// A token of `server.tokens` (`agent` is `None`) gives access to every agent.
    fn derive(&mut self, token: &Secret, agent: Option<&str>) {
        let known = self.0.iter_mut().find(|(other, _)| other == token);
        let grant = |agents: &mut AgentGrant| match (agents, agent) {
            (AgentGrant::Only(names), Some(name)) => drop(names.insert(name.to_owned())),
            (agents, None) => *agents = AgentGrant::All,
            (AgentGrant::All, Some(_)) => {}
        };
        if let Some((_, identity)) = known {
            return grant(&mut Arc::make_mut(identity).agents);
        }
        let Some(principal) = Principal::new("", derived_name(token)) else { return };
        let mut identity = Identity::new(principal);
        identity.agents = AgentGrant::Only(BTreeSet::new());
        grant(&mut identity.agents);
        self.0.push((token.clone(), Arc::new(identity)));
    }

    /// Returns the identity that the token proves. Every secret is compared, and every byte of it, so that the time
    /// does not depend on which tokens match or how much of them. Only the length of a secret may influence it.
    pub(super) fn find(&self, token: &str) -> Option<Arc<Identity>> {
        let mut found = None;
        for (secret, identity) in &self.0 {
            let same: Choice = secret.reveal().as_bytes().ct_eq(token.as_bytes());
            if bool::from(same) {
                found = Some(identity);
            }
        }
        found.cloned()
    }
}

/// Returns the identity of `[principals.NAME]`.
pub(super) fn identity_of(name: &str, config: &PrincipalConfig) -> Identity {
    // Names of tables are neither empty nor too long, so the default, the anonymous principal, is never used here.
    let principal = Principal::new(config.tenant.clone(), name.to_owned()).unwrap_or_default();
    let mut identity = Identity::new(principal);
    identity.agents = match &config.agents {
        None => AgentGrant::All,
        Some(names) => AgentGrant::Only(names.iter().cloned().collect()),
    };
    identity.is_admin = config.role == Role::Admin;
    identity.former.clone_from(&config.was);
    identity
}

/// Returns the derived name of a token.
fn derived_name(token: &Secret) -> String {
    let mut context = Context::new(&SHA256);
    context.update(b"aqueduct principal\0");
    context.update(token.reveal().as_bytes());
    let hex = |byte: &u8| format!("{byte:02x}");
    format!("token-{}", context.finish().as_ref().iter().take(8).map(hex).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(server: &[&str], named: &[(&str, &str)]) -> TokenTable {
        let mut config = Config::default();
        config.server.tokens = server.iter().map(|token| Secret::new(*token)).collect();
        for (name, token) in named {
            let principal =
                PrincipalConfig { token: Some(Secret::new(*token)), ..PrincipalConfig::default() };
            config.principals.insert((*name).to_owned(), principal);
        }
        TokenTable::new(&config, &[])
    }

    fn name(table: &TokenTable, token: &str) -> Option<String> {
        table.find(token).map(|identity| identity.principal.to_string())
    }

    #[test]
    fn names_do_not_depend_on_positions() {
        let (one, other) = (table(&["ann", "bob"], &[]), table(&["cid", "bob", "ann"], &[]));
        for token in ["ann", "bob"] {
            assert_eq!(name(&one, token), name(&other, token));
        }
        assert_ne!(name(&one, "ann"), name(&one, "bob"));
        assert_eq!(name(&one, "eve"), None);
        // The name is stored with runs: changing it would hide them.
        assert_eq!(derived_name(&Secret::new("ann")), "token-c2c5536039cd5f6c");
    }

    #[test]
    fn a_token_that_is_gone_is_revoked_and_one_that_stays_is_not() {
        let before = table(&[], &[("ann", "ann-token"), ("bob", "bob-token")]);
        let (ann, bob) = (before.find("ann-token").unwrap(), before.find("bob-token").unwrap());
        let mut after = table(&[], &[("bob", "bob-token"), ("ann", "ann-new-token")]);
        after.replace(&before);
        assert!(ann.revoked.is_cancelled() && !bob.revoked.is_cancelled());
        assert!(Arc::ptr_eq(&after.find("bob-token").unwrap(), &bob));
        assert_eq!(name(&after, "ann-new-token").as_deref(), Some("ann"), "rotation keeps the name");
    }
}

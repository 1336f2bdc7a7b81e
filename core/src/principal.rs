//! [`Principal`]: the authenticated identity to which runs, threads, tasks and interrupts belong; [`Identity`]: a principal
//! with its grants and the lifetime of its proof.
//!
//! ```text
//! proof (token, JWT, certificate) ── host, once per request ──► Identity ──► Principal ── stored form ──► run log
//! ```
//!
//! The stored form of a principal is stable over restarts, replicas and the order of a configuration file, because the log
//! keeps it with every run. It never contains `/`: version 0.1 stored positions of tokens (`gateway/0`), and those equal no
//! principal. This module makes no decision about access: the host compares principals, and never lists them to callers.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use bytestring::ByteString;

use crate::cancel::CancelToken;
use crate::update::Timestamp;

/// Separates tenant and subject in the stored form; escaped inside names.
const SEPARATOR: char = ':';

/// The longest tenant or subject, in bytes. Subjects of OIDC have at most 255 characters.
const NAME_BYTES: usize = 1024;

/// An authenticated identity: a subject within a tenant.
///
/// # Examples
///
/// ```
/// use aqueduct_core::Principal;
///
/// let alice = Principal::new("acme", "alice").unwrap();
/// assert_eq!(alice.to_string(), "acme:alice");
/// assert_eq!(Principal::from_stored("acme:alice"), alice);
/// assert_eq!(Principal::new("", "https://id.example/7").unwrap().to_string(), "https%3A%2F%2Fid.example%2F7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Principal {
    tenant: ByteString,
    subject: ByteString,
}

impl Principal {
    /// Returns the principal of callers without proof, where the host admits them.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Returns a principal. Returns `None` if the subject is empty or a name is longer than 1 KiB.
    pub fn new(tenant: impl Into<ByteString>, subject: impl Into<ByteString>) -> Option<Self> {
        let (tenant, subject) = (tenant.into(), subject.into());
        let is_valid = !subject.is_empty() && subject.len() <= NAME_BYTES && tenant.len() <= NAME_BYTES;
        is_valid.then_some(Self { tenant, subject })
    }

    /// Restores a principal from its stored form. A form without separator has no tenant.
    pub fn from_stored(stored: &str) -> Self {
        let (tenant, subject) = stored.split_once(SEPARATOR).unwrap_or(("", stored));
        Self { tenant: unescaped(tenant), subject: unescaped(subject) }
    }

    /// Returns the tenant; empty for the default tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Returns the subject; empty for [`anonymous`](Self::anonymous).
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns `true` for the principal of callers without proof.
    pub fn is_anonymous(&self) -> bool {
        self.subject.is_empty()
    }
}

/// Writes the stored form: `tenant:subject`; `subject` in the default tenant; an empty text for the anonymous principal.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tenant.is_empty() {
            escape(f, &self.tenant)?;
            f.write_char(SEPARATOR)?;
        }
        escape(f, &self.subject)
    }
}

/// Writes a name with every byte but letters, digits and `-_.@+=|` as `%XX`.
fn escape(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.@+=|".contains(&byte) {
            f.write_char(char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// Reverses [`escape`]. Text that [`escape`] does not write is kept unchanged.
fn unescaped(name: &str) -> ByteString {
    String::from_utf8(percent_decoded(name)).map_or_else(|_| ByteString::from(name), ByteString::from)
}

/// Decodes `%XX`, as in names of principals and in paths of URLs. Other text is kept unchanged, incomplete escapes
/// included.
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        // `from_str_radix` alone would accept a sign.
        let is_hex = |digits: &&[u8]| digits.iter().all(u8::is_ascii_hexdigit);
        let digits = tail.get(..2).filter(|_| first == b'%').filter(is_hex);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = tail.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    bytes
}

/// Which agents an identity may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentGrant {
    /// Every agent.
    #[default]
    All,
    /// The agents of these names.
    Only(BTreeSet<String>),
}

/// A principal, the host's grants for it, and the lifetime of its proof.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Identity {
    /// The principal that the proof authenticates.
    pub principal: Principal,
    /// The agents that the principal may run.
    pub agents: AgentGrant,
    /// Set if the principal may watch and cancel the runs of all principals.
    pub is_admin: bool,
    /// The time at which the proof expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// Cancelled when the host no longer accepts the proof.
    pub revoked: CancelToken,
    /// Owners that version 0.1 stored for this principal. Their runs belong to it.
    pub former: Vec<String>,
}

impl Identity {
    /// Returns an identity that may run every agent, and whose proof does not expire.
    pub fn new(principal: Principal) -> Self {
        Self { principal, ..Self::default() }
    }

    /// Returns `true` if the identity may run `agent`.
    pub fn may_run(&self, agent: &str) -> bool {
        match &self.agents {
            AgentGrant::All => true,
            AgentGrant::Only(names) => names.contains(agent),
        }
    }

    /// Returns the stored owners whose runs belong to this identity: the form of its principal, and the former ones.
    pub fn owners(&self) -> Vec<String> {
        [self.principal.to_string()].into_iter().chain(self.former.iter().cloned()).collect()
    }

    /// Returns `true` if the proof has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl PartialEq for Identity {
    /// Compares everything but `revoked`: two identities are equal if they grant the same.
    fn eq(&self, other: &Self) -> bool {
        (&self.principal, &self.agents, self.is_admin, self.expires_at, &self.former)
            == (&other.principal, &other.agents, other.is_admin, other.expires_at, &other.former)
    }
}

impl Eq for Identity {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_unambiguous() {
        let names = ["alice", "a/b", "a:b", "%41", "é", "gateway/0", "a~b", " ", "a%"];
        let mut seen = BTreeSet::new();
        for tenant in ["", "acme"].into_iter().chain(names) {
            for subject in names {
                let principal = Principal::new(tenant, subject).unwrap();
                let stored = principal.to_string();
                assert_eq!(Principal::from_stored(&stored), principal);
                assert!(!stored.contains(['/', '~']) && stored.is_ascii(), "{stored}");
                seen.insert(stored);
            }
        }
        assert_eq!(seen.len(), 11 * 9, "eleven tenants, nine subjects");
        assert_eq!(Principal::from_stored(""), Principal::anonymous());
        assert!(Principal::new("a", "").is_none());
        assert!(Principal::new("", "x".repeat(1025)).is_none());
    }

    #[test]
    fn only_two_hexadecimal_digits_are_an_escape() {
        for (text, decoded) in [("%41%6a", "Aj"), ("%+1", "%+1"), ("%-1%4", "%-1%4"), ("%%41", "%A")] {
            assert_eq!(percent_decoded(text), decoded.as_bytes(), "{text}");
        }
    }

    #[test]
    fn an_identity_runs_what_it_was_granted_until_it_expires() {
        let mut identity = Identity::new(Principal::new("", "alice").unwrap());
        assert!(identity.may_run("any") && !identity.is_expired(Timestamp(i64::MAX)));
        identity.agents = AgentGrant::Only(BTreeSet::from(["a".to_owned()]));
        identity.expires_at = Some(Timestamp(10));
        assert!(identity.may_run("a") && !identity.may_run("b"));
        assert!(!identity.is_expired(Timestamp(9)) && identity.is_expired(Timestamp(10)));
    }

    #[test]
    fn names_have_at_most_a_kibibyte_and_an_empty_subject_is_anonymous() {
        let alice = Principal::new("acme", "alice").unwrap();
        assert_eq!((alice.tenant(), alice.subject()), ("acme", "alice"));
        assert!(!alice.is_anonymous() && Principal::anonymous().is_anonymous());
        assert!(Principal::new("x".repeat(1024), "y".repeat(1024)).is_some());
        assert!(Principal::new("x".repeat(1025), "y").is_none());
    }

    #[test]
    fn an_identity_owns_the_runs_of_its_principal_and_its_former_ones() {
        let mut identity = Identity::new(Principal::new("acme", "alice").unwrap());
        assert_eq!(identity.owners(), ["acme:alice"]);
        identity.former.push("gateway/0".to_owned());
        assert_eq!(identity.owners(), ["acme:alice", "gateway/0"]);
    }

    #[test]
    fn identities_are_equal_if_they_grant_the_same() {
        let identity = || Identity::new(Principal::new("acme", "alice").unwrap());
        assert_eq!(identity(), identity(), "each has a token of its own, which is not compared");
        let changed = |change: fn(&mut Identity)| {
            let mut other = identity();
            change(&mut other);
            other
        };
        assert_ne!(identity(), changed(|other| other.principal = Principal::anonymous()));
        assert_ne!(identity(), changed(|other| other.agents = AgentGrant::Only(BTreeSet::new())));
        assert_ne!(identity(), changed(|other| other.is_admin = true));
        assert_ne!(identity(), changed(|other| other.expires_at = Some(Timestamp(1))));
        assert_ne!(identity(), changed(|other| other.former.push("gateway/0".to_owned())));
    }
}

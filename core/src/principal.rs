//! [`Principal`]: the authenticated identity to which runs, threads, tasks and interrupts belong.
//!
//! A principal is made once per request, by the host, from what the caller proved. Its stored form is stable over
//! restarts, replicas and the order of a configuration file, because the log keeps it with every run. This module makes
//! no decision about access: the host compares principals, and never lists them to callers.

use std::fmt;

use bytestring::ByteString;

/// Separates tenant and subject in the stored form. Names cannot contain it.
const SEPARATOR: char = '/';

/// An authenticated identity: a subject within a tenant.
///
/// # Examples
///
/// ```
/// use aqueduct_core::Principal;
///
/// let alice = Principal::new("acme", "alice").unwrap();
/// assert_eq!(alice.to_string(), "acme/alice");
/// assert_eq!(Principal::from_stored("acme/alice"), alice);
/// assert!(Principal::new("acme", "a/b").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Principal {
    tenant: ByteString,
    subject: ByteString,
}

impl Principal {
    /// Returns the principal of callers that prove nothing, where the host admits them.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Returns `None` if a name contains the separator of the stored form or the subject is empty.
    pub fn new(tenant: impl Into<ByteString>, subject: impl Into<ByteString>) -> Option<Self> {
        let (tenant, subject) = (tenant.into(), subject.into());
        let is_valid = !subject.is_empty() && !tenant.contains(SEPARATOR) && !subject.contains(SEPARATOR);
        is_valid.then_some(Self { tenant, subject })
    }

    /// Restores a principal from its stored form. A form without separator has no tenant.
    pub fn from_stored(stored: &str) -> Self {
        let (tenant, subject) = stored.split_once(SEPARATOR).unwrap_or(("", stored));
        Self { tenant: tenant.into(), subject: subject.into() }
    }

    /// Returns the tenant; empty for the default tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Returns the subject; empty for [`anonymous`](Self::anonymous).
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns `true` for callers that proved nothing.
    pub fn is_anonymous(&self) -> bool {
        self.subject.is_empty()
    }
}

/// The stored form: `tenant/subject`, `subject` in the default tenant, and nothing for the anonymous principal.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tenant.is_empty() {
            write!(f, "{}{SEPARATOR}", self.tenant)?;
        }
        f.write_str(&self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_unambiguous() {
        for principal in [
            Principal::anonymous(),
            Principal::new("", "alice").unwrap(),
            Principal::new("acme", "alice").unwrap(),
        ] {
            assert_eq!(Principal::from_stored(&principal.to_string()), principal);
        }
        assert!(Principal::new("a/b", "c").is_none());
        assert!(Principal::new("a", "").is_none());
    }
}

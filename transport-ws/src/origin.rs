//! Which pages may connect: the checks of `Host` and `Origin`.
//!
//! A browser lets every page open a WebSocket to every server and sends the user's cookies along, so the server must
//! look at `Origin` (cross-site WebSocket hijacking). A page can also give its own host name this machine's address
//! (DNS rebinding); then `Origin` and `Host` agree, and only a list of expected names tells it apart.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::Admission;

/// True if the server may be addressed under this `Host` header.
pub(crate) fn host_allowed(rules: &Admission, host: &str) -> bool {
    let Some((name, _)) = split_authority(host) else { return false };
    rules.any_host || is_loopback(name) || rules.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// True if pages of this `Origin` may connect to the server addressed as `host`.
pub(crate) fn origin_allowed(rules: &Admission, origin: &str, host: &str) -> bool {
    if rules.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let Some(default_port) = default_port(scheme) else { return false };
    let (Some((origin_name, origin_port)), Some((host_name, host_port))) =
        (split_authority(authority), split_authority(host))
    else {
        return false;
    };
    let same_port = origin_port.unwrap_or(default_port) == host_port.unwrap_or(default_port);
    let same_host = origin_name.eq_ignore_ascii_case(host_name) && same_port;
    same_host || (is_loopback(origin_name) && is_loopback(host_name))
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

/// Name and port of `name`, `name:port`, `[v6]` or `[v6]:port`; none if it is malformed.
fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => authority.find(':').and_then(|at| authority.split_at_checked(at)).unwrap_or((authority, "")),
    };
    let is_clean = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if name.is_empty() || !name.chars().all(is_clean) {
        return None;
    }
    match rest {
        "" => Some((name, None)),
        _ => Some((name, Some(rest.strip_prefix(':')?.parse().ok()?))),
    }
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_hosts() {
        let rules = Admission { hosts: vec!["agents.example".into()], ..Admission::default() };
        for host in ["localhost", "127.0.0.1:80", "[::1]:9", "agents.example", "AGENTS.example:8443"] {
            assert!(host_allowed(&rules, host), "{host}");
        }
        for host in
            ["evil.example", "", "localhost.evil.example", "a@localhost", "localhost:x", "[::1", "127.1.evil"]
        {
            assert!(!host_allowed(&rules, host), "{host}");
        }
    }

    #[test]
    fn same_host_loopback_and_listed_origins() {
        let rules = Admission { origins: vec!["https://app.example".into()], ..Admission::default() };
        for (origin, host) in [
            ("http://localhost:3000", "127.0.0.1:8080"),
            ("https://agents.example", "agents.example"),
            ("https://agents.example:8443", "agents.example:8443"),
            ("https://app.example", "agents.example"),
        ] {
            assert!(origin_allowed(&rules, origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("https://evil.example", "localhost"),
            ("http://localhost:3000", "agents.example"),
            ("null", "localhost"),
            ("file://", "localhost"),
            ("https://agents.example:1", "agents.example"),
            ("https://agents.example.evil.example", "agents.example"),
        ] {
            assert!(!origin_allowed(&rules, origin, host), "{origin} {host}");
        }
    }
}

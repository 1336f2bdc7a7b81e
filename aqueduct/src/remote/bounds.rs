//! [`Bounds`]: the addresses that calls of one agent may use, and the headers that are sent there.
//!
//! Cards are foreign: they can name any address. Redirects are not followed at all.
//!
//! | address | called | with credentials, configured headers and headers of the caller |
//! |---|---|---|
//! | the configured origin: scheme, host and port | yes | yes |
//! | a host that the settings allow | yes | no: with the trace context alone |
//! | another name of loopback, with the configured scheme and port, if the configured host is loopback | yes | no, likewise |
//! | `http` where the configured scheme is `https`, also at an allowed host | no | |
//! | any other | no | |

use std::fmt;
use std::net::IpAddr;

use http::Uri;

/// Scheme, host and port of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    is_https: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Returns the origin of an address, or `None` if it is not an absolute HTTP address.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let is_https = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        Some(Self { is_https, host, port })
    }

    /// Returns `true` if the host is this machine by any name: a loopback or unspecified address, or `localhost`.
    fn is_this_machine(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        self.host == "localhost"
            || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// The headers that a call may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All headers: the address is at the configured origin.
    Own,
    /// No header that identifies or describes a caller.
    Allowed,
}

/// Decides which addresses may be called.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    own: Origin,
    /// `host`, for all of its ports, or `host:port`; in lower case.
    hosts: Vec<String>,
}

impl Bounds {
    /// Returns the bounds of an agent at `own` whose card may also name `hosts`.
    pub(crate) fn new(own: Origin, hosts: &[String]) -> Self {
        Self { own, hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Returns which headers a call to `uri` may carry, or the reason why `uri` must not be called.
    pub(crate) fn reach(&self, uri: &Uri) -> Result<Reach, String> {
        let Some(target) = Origin::of(uri) else { return Err(format!("`{uri}` is not an HTTP address")) };
        if target == self.own {
            return Ok(Reach::Own);
        }
        let own = &self.own;
        if own.is_https && !target.is_https {
            return Err(format!("{target} is not encrypted, and the configured address {own} is"));
        }
        let is_alias = own.is_this_machine() && target.is_this_machine();
        let is_alias = is_alias && (own.is_https, own.port) == (target.is_https, target.port);
        let named = format!("{}:{}", target.host, target.port);
        if is_alias || self.hosts.iter().any(|host| *host == target.host || *host == named) {
            return Ok(Reach::Allowed);
        }
        Err(format!(
            "{target} is not the configured address {own}, and its host is not allowed: allow it by `a2a.hosts = \
             [\"{named}\"]`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(own: &str, hosts: &[&str], target: &str) -> Result<Reach, String> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        Bounds::new(Origin::of(&own.parse().unwrap()).unwrap(), &hosts).reach(&target.parse().unwrap())
    }

    #[test]
    fn the_configured_origin_is_reached_whatever_the_spelling() {
        for (own, target) in [
            ("https://agent.example/a", "https://agent.example:443/b"),
            ("http://Agent.example/a", "http://agent.EXAMPLE:80/b"),
            ("http://[::1]:8000", "http://[::1]:8000/x?y"),
            ("http://agent/", "http://user:secret@agent/"),
        ] {
            assert_eq!(reach(own, &[], target), Ok(Reach::Own), "{own} {target}");
        }
    }

    #[test]
    fn other_hosts_ports_and_schemes_need_the_key_and_the_reason_names_it() {
        for (target, key) in [
            ("https://other.example/", "other.example:443"),
            ("https://agent.example:8443/", "agent.example:8443"),
            ("https://agent.example.evil.org/", "agent.example.evil.org:443"),
            ("https://agent.example@evil.org/", "evil.org:443"),
            ("https://127.0.0.1/", "127.0.0.1:443"),
        ] {
            let reason = reach("https://agent.example/", &[], target).unwrap_err();
            assert!(reason.contains(&format!("a2a.hosts = [\"{key}\"]")), "{reason}");
            assert_eq!(reach("https://agent.example/", &[key], target), Ok(Reach::Allowed), "{target}");
            let host = key.rsplit_once(':').unwrap().0;
            assert_eq!(reach("https://agent.example/", &[host], target), Ok(Reach::Allowed), "{target}");
        }
    }

    #[test]
    fn nothing_leads_from_https_to_http() {
        for target in ["http://agent.example/", "http://agent.example:443/", "http://other.example/"] {
            let hosts = ["agent.example", "other.example"];
            let reason = reach("https://agent.example/", &hosts, target).unwrap_err();
            assert!(reason.contains("not encrypted"), "{reason}");
        }
        let upgraded = reach("http://agent.example/", &["agent.example"], "https://agent.example/");
        assert_eq!(upgraded, Ok(Reach::Allowed));
    }

    #[test]
    fn loopback_has_several_names_and_none_of_them_gets_credentials() {
        for target in ["http://localhost:9999/", "http://[::1]:9999/", "http://0.0.0.0:9999/"] {
            assert_eq!(reach("http://127.0.0.1:9999", &[], target), Ok(Reach::Allowed), "{target}");
            assert!(reach("http://10.0.0.7:9999", &[], target).is_err(), "{target}");
        }
        assert!(reach("http://127.0.0.1:9999", &[], "http://127.0.0.1:6379/").is_err());
    }

    #[test]
    fn what_is_not_http_is_not_reached() {
        for target in ["ftp://agent/", "/path", "agent"] {
            assert!(reach("http://agent", &["agent"], target).is_err(), "{target}");
        }
    }
}

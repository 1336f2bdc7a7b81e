//! Admission by `Host` and `Origin`: the one policy for all requests of a server, including WebSocket upgrades and gRPC
//! calls.
//!
//! A page cannot forge `Host` or `Origin`, but it can make a browser send requests to local addresses (cross-site
//! requests, and `WebSocket`s, for which browsers send no preflight), or point its own name at them (DNS rebinding). So a
//! server that is not meant for the public checks both before any other work:
//!
//! | header | admitted by default | otherwise |
//! |---|---|---|
//! | `Host` (`:authority`) | `localhost`, `127.0.0.1`, `[::1]`, any port | 403 `host_not_allowed` |
//! | `Origin`, if present | the host and port of the request itself; a loopback name if the request is for one | 403 `origin_not_allowed` |
//!
//! Programs other than browsers send no `Origin` and pass. This is not authentication: an admitted caller has no identity.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::refusal::Refusal;

aqueduct_core::with_defaults! {
    /// The hosts and origins whose requests are admitted.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Admission {
        /// Names of the server beside the loopback names: `example.org` (any port) or `example.org:8443`.
        pub hosts: Vec<String> = Vec::new(),
        /// Admits every host: for a server behind a proxy that checks it.
        pub any_host: bool = false,
        /// Admits every IP address as a host. DNS rebinding needs a name, so addresses are safe; probes and scrapers
        /// address a server by its address.
        pub any_address: bool = false,
        /// Origins of pages that are admitted beside the server's own: `https://app.example.org`.
        pub origins: Vec<String> = Vec::new(),
        /// Admits the loopback names as hosts, and pages of loopback origins at loopback hosts.
        pub loopback: bool = true,
        /// Lets browsers pass responses to admitted pages of other origins (CORS), without cookies.
        pub cors: bool = false,
    }
}

impl Admission {
    /// Applies the policy to all routes of `router`, its fallback included.
    pub fn apply(self, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::new(self), check))
    }

    /// Returns `true` if requests with this `Host` are admitted.
    fn allows_host(&self, host: &str) -> bool {
        // No legitimate client sends credentials or an invalid port in the host.
        let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else {
            return false;
        };
        self.any_host
            || (self.any_address && is_address(authority.host()))
            || (self.loopback && is_loopback(authority.host()))
            || self.hosts.iter().any(|allowed| {
                allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(authority.host())
            })
    }

    /// Returns `true` if pages of `origin` may use the server at `host`: pages of the server itself, and pages of this machine
    /// if the server is addressed by a loopback name. A loopback page may not use a server with a public name.
    fn allows_origin(&self, origin: &str, host: &str) -> bool {
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let Some((default_port, authority)) = split_origin(origin) else { return false };
        let Ok(host) = host.parse::<Authority>() else { return false };
        let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
        let is_same = authority.host().eq_ignore_ascii_case(host.host()) && port(&authority) == port(&host);
        is_same || (self.loopback && is_loopback(authority.host()) && is_loopback(host.host()))
    }

    /// Checks every host that the request names. Two different hosts are an attack, so all must be allowed.
    fn check_host<'r>(&self, request: &'r Request) -> Result<&'r str, Refusal> {
        let in_headers =
            request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or_default());
        let in_target = request.uri().authority().map(Authority::as_str);
        let mut hosts = in_headers.chain(in_target);
        let first = hosts.next().filter(|host| self.allows_host(host));
        if let Some(first) = first.filter(|_| hosts.all(|host| self.allows_host(host))) {
            return Ok(first);
        }
        let message = "the host of the request is not allowed: use a name of this server, or allow this host";
        Err(Refusal::new(StatusCode::FORBIDDEN, "host_not_allowed", message))
    }

    /// Checks the origin of a request. Returns it if the response must allow it (CORS).
    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<Option<HeaderValue>, Refusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (origins.next(), origins.next()) else {
            return if headers.contains_key(header::ORIGIN) { Err(foreign_origin()) } else { Ok(None) };
        };
        let is_allowed = origin.to_str().is_ok_and(|origin| self.allows_origin(origin, host));
        if is_allowed { Ok(Some(origin.clone())) } else { Err(foreign_origin()) }
    }
}

/// Returns the refusal of a request from a page of a foreign origin.
fn foreign_origin() -> Refusal {
    let message = "the origin of the page is not allowed: use a page of an allowed origin, or allow this one";
    Refusal::new(StatusCode::FORBIDDEN, "origin_not_allowed", message)
}

/// Returns the default port of the scheme, and the authority. Returns `None` if the text is not the origin of a web page.
fn split_origin(origin: &str) -> Option<(u16, Authority)> {
    let (scheme, authority) = origin.split_once("://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let authority = authority.parse().ok().filter(|_| !authority.contains('@'))?;
    Some((default_port, authority))
}

/// Returns `true` for a literal IP address, which DNS cannot rebind.
fn is_address(host: &str) -> bool {
    host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Returns `true` for the usual names of loopback.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

/// The middleware: checks `Host` and `Origin`, answers preflights, and adds the CORS headers.
async fn check(State(admission): State<Arc<Admission>>, request: Request, next: Next) -> Response {
    let checked = admission.check_host(&request);
    let origin = match checked.and_then(|host| admission.check_origin(request.headers(), host)) {
        Ok(origin) => origin.filter(|_| admission.cors),
        Err(refusal) => return refusal.into_response(),
    };
    let Some(origin) = origin else {
        return next.run(request).await;
    };
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight { preflight(request.headers()) } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// Answers a preflight: an admitted origin may use all methods and send any header but cookies.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_pass_in_all_their_forms() {
        let admission = Admission::default();
        for host in ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9"] {
            assert!(admission.allows_host(host), "{host}");
            assert!(admission.allows_origin(&format!("http://{host}"), "localhost:8000"), "{host}");
        }
    }

    #[test]
    fn foreign_and_forged_names_do_not() {
        let admission = Admission::default();
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil@localhost",
            "localhost:80:80",
            "127.0.0.1.nip.io",
            "localhost ",
            "[::1",
            "127.0.0.2",
            "0.0.0.0",
            "localhost/",
        ] {
            assert!(!admission.allows_host(host), "{host}");
            assert!(!admission.allows_origin(&format!("http://{host}"), "localhost"), "{host}");
        }
        for origin in ["null", "file://localhost", "localhost", "http://", "http://localhost/x"] {
            assert!(!admission.allows_origin(origin, "localhost"), "{origin}");
        }
    }

    #[test]
    fn addresses_pass_where_they_may_and_names_still_do_not() {
        let admission = Admission { any_address: true, ..Admission::default() };
        for host in ["10.1.2.3", "10.1.2.3:8080", "[fd00::1]:8080", "localhost"] {
            assert!(admission.allows_host(host), "{host}");
        }
        for host in ["evil.example", "10.1.2.3.evil.example", "10.1.2", "a@10.1.2.3"] {
            assert!(!admission.allows_host(host), "{host}");
        }
        assert!(!admission.allows_origin("http://evil.example", "10.1.2.3"));
    }

    #[test]
    fn names_that_were_allowed_pass_with_or_without_their_port() {
        let admission = Admission {
            hosts: vec!["example.org".to_owned(), "other.org:8443".to_owned()],
            origins: vec!["https://app.example.org".to_owned()],
            loopback: false,
            ..Admission::default()
        };
        for host in ["example.org", "example.org:99", "other.org:8443"] {
            assert!(admission.allows_host(host), "{host}");
        }
        for host in ["other.org", "other.org:1", "localhost", "sub.example.org"] {
            assert!(!admission.allows_host(host), "{host}");
        }
        assert!(admission.allows_origin("https://app.example.org", "example.org"));
        for origin in ["http://app.example.org", "https://app.example.org:444", "http://localhost"] {
            assert!(!admission.allows_origin(origin, "example.org"), "{origin}");
        }
    }

    #[test]
    fn the_servers_own_pages_pass_and_pages_of_the_visitors_machine_only_at_loopback_hosts() {
        let admission = Admission::default();
        for (origin, host) in [
            ("http://localhost:3000", "127.0.0.1:8080"),
            ("https://agents.example", "agents.example"),
            ("https://AGENTS.example:443", "agents.example"),
            ("https://agents.example:8443", "agents.example:8443"),
        ] {
            assert!(admission.allows_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("https://evil.example", "localhost"),
            ("http://localhost:3000", "agents.example"),
            ("https://agents.example:1", "agents.example"),
            ("https://agents.example.evil.example", "agents.example"),
            ("https://a@agents.example", "agents.example"),
        ] {
            assert!(!admission.allows_origin(origin, host), "{origin} {host}");
        }
    }
}

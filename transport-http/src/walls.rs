//! Walls against web pages that a user of this machine happens to visit.
//!
//! A page cannot forge `Host` or `Origin`, but it can make a browser send requests to local addresses (cross-site
//! requests), or point its own name at them (DNS rebinding). So a server that is not meant for the public checks both,
//! before any work is done:
//!
//! | header | allowed by default | otherwise |
//! |---|---|---|
//! | `Host` (`:authority`) | `localhost`, `127.0.0.1`, `[::1]`, any port | 403 `host_not_allowed` |
//! | `Origin`, if there is one | `http` or `https` with such a host | 403 `origin_not_allowed` |
//!
//! Programs send no `Origin` and pass. This is no authentication: it says nothing about who asks.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::refusal::Refusal;

/// Which hosts and origins are let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walls {
    /// Names under which the server may be asked, beside the loopback names: `example.org` (any port) or
    /// `example.org:8443`.
    pub hosts: Vec<String>,
    /// Lets every host through: for a server behind a proxy that checks it.
    pub any_host: bool,
    /// Origins of pages that may ask, beside pages of the loopback names: `https://app.example.org`.
    pub origins: Vec<String>,
    /// Lets the loopback names through, as hosts and as origins.
    pub loopback: bool,
    /// Tells browsers that allowed pages of other origins may read the answers (CORS), without cookies.
    pub cors: bool,
}

impl Default for Walls {
    fn default() -> Self {
        Self { hosts: Vec::new(), any_host: false, origins: Vec::new(), loopback: true, cors: false }
    }
}

impl Walls {
    /// Puts the walls around all routes of `router`, also around what it answers with 404.
    pub fn around(self, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::new(self), check))
    }

    fn allows_host(&self, host: &str) -> bool {
        // Credentials or a broken port in it: nobody who means well sends that.
        let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else {
            return false;
        };
        self.any_host
            || (self.loopback && is_loopback(authority.host()))
            || self.hosts.iter().any(|allowed| {
                allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(authority.host())
            })
    }

    fn allows_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let authority =
            host.filter(|host| !host.contains('@')).and_then(|host| host.parse::<Authority>().ok());
        self.loopback && authority.is_some_and(|authority| is_loopback(authority.host()))
    }

    /// Every host that the request names must be allowed: two that differ are an attempt.
    fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let in_headers =
            request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or_default());
        let in_target = request.uri().authority().map(Authority::as_str);
        let mut hosts = in_headers.chain(in_target).peekable();
        if hosts.peek().is_some() && hosts.all(|host| self.allows_host(host)) {
            return Ok(());
        }
        let message = "this server is not asked under that host: use its own name, or allow the host";
        Err(Refusal::new(StatusCode::FORBIDDEN, "host_not_allowed", message))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (origins.next(), origins.next()) else {
            return if headers.contains_key(header::ORIGIN) { Err(foreign_origin()) } else { Ok(None) };
        };
        let is_allowed = origin.to_str().is_ok_and(|origin| self.allows_origin(origin));
        if is_allowed { Ok(Some(origin.clone())) } else { Err(foreign_origin()) }
    }
}

fn foreign_origin() -> Refusal {
    let message = "pages of that origin may not use this server: allow the origin if they should";
    Refusal::new(StatusCode::FORBIDDEN, "origin_not_allowed", message)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

async fn check(State(walls): State<Arc<Walls>>, request: Request, next: Next) -> Response {
    let origin = match walls.check_host(&request).and_then(|()| walls.check_origin(request.headers())) {
        Ok(origin) => origin.filter(|_| walls.cors),
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

/// The origin is one we trust, so it may use any of our methods and send any header but cookies.
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
        let walls = Walls::default();
        for host in ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9"] {
            assert!(walls.allows_host(host), "{host}");
            assert!(walls.allows_origin(&format!("http://{host}")), "{host}");
        }
    }

    #[test]
    fn foreign_and_forged_names_do_not() {
        let walls = Walls::default();
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
            assert!(!walls.allows_host(host), "{host}");
            assert!(!walls.allows_origin(&format!("http://{host}")), "{host}");
        }
        for origin in ["null", "file://localhost", "localhost", "http://", "http://localhost/x"] {
            assert!(!walls.allows_origin(origin), "{origin}");
        }
    }

    #[test]
    fn names_that_were_allowed_pass_with_or_without_their_port() {
        let walls = Walls {
            hosts: vec!["example.org".to_owned(), "other.org:8443".to_owned()],
            origins: vec!["https://app.example.org".to_owned()],
            loopback: false,
            ..Walls::default()
        };
        for host in ["example.org", "example.org:99", "other.org:8443"] {
            assert!(walls.allows_host(host), "{host}");
        }
        for host in ["other.org", "other.org:1", "localhost", "sub.example.org"] {
            assert!(!walls.allows_host(host), "{host}");
        }
        assert!(walls.allows_origin("https://app.example.org"));
        for origin in ["http://app.example.org", "https://app.example.org:444", "http://localhost"] {
            assert!(!walls.allows_origin(origin), "{origin}");
        }
    }
}

//! Every request has an id: the caller's `X-Request-Id`, or one of our own. It is in every line that is logged while the
//! request is answered, the beginning of a run among them, and in the answer.
//!
//! Queries and headers are not logged: tokens travel in them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use tracing::Instrument as _;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of a caller's id. A UUID has 36; more would be a payload in our logs.
const LONGEST: usize = 64;

/// Gives every request of the router its id.
pub(super) fn identified(router: Router) -> Router {
    router.layer(from_fn(identify))
}

async fn identify(request: Request, next: Next) -> Response {
    let id = request.headers().get(&HEADER).and_then(given).unwrap_or_else(made);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", id, %method, path);
    async move {
        let begun = Instant::now();
        let mut response = next.run(request).await;
        let status = response.status().as_u16();
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if status >= 400 {
            tracing::info!(status, ms, "refused");
        } else {
            tracing::debug!(status, ms, "answered");
        }
        // An id that came in as a header, or is made of digits, can go out as one.
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HEADER, value);
        }
        response
    }
    .instrument(span)
    .await
}

/// The caller's id, if it is one: short, and nothing that could forge a line of a log.
fn given(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_id = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_plain);
    is_id.then(|| text.to_owned())
}

/// Unique in the process, and unlike those of the process before it.
fn made() -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}", KEYS.hash_one(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_kept_if_it_is_one() {
        let given = |text: &str| given(&HeaderValue::from_str(text).unwrap());
        assert_eq!(given("3f2a-1").as_deref(), Some("3f2a-1"));
        for bad in ["", "two words", "a\"b", "é", &"x".repeat(65)] {
            assert_eq!(
                HeaderValue::from_str(bad).ok().and_then(|value| super::given(&value)),
                None,
                "{bad:?}"
            );
        }
        assert_ne!(made(), made());
    }
}

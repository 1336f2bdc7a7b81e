//! Requests to agents: headers that are passed on, credentials, and failures in words.

use aqueduct_core::RunFailure;
use aqueduct_core::service::Caller;
use aqueduct_transport_http::{Client, ClientConfig, ClientError, ClientLimits, ClientTimeouts, sse};
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};

use crate::config::{Agent, Secret};
use crate::tee::Trail;
use crate::tls;

/// The agent cannot be reached.
pub(crate) const UNREACHABLE: &str = "upstream_unreachable";
/// The agent took too long.
pub(crate) const TIMEOUT: &str = "upstream_timeout";
/// The agent answered something else than a stream.
pub(crate) const REFUSED: &str = "upstream_refused";
/// The agent wants credentials, or other ones.
pub(crate) const UNAUTHORIZED: &str = aqueduct_adapter_a2a::error::UNAUTHORIZED;

/// Headers that are always passed on: the trace context of W3C.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];
/// Words of an error body that are told. More would be an error page.
const WORDS: usize = 200;

/// Headers of the caller that the agent gets too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forwarded(HeaderMap);

impl Forwarded {
    pub(crate) fn of(caller: &Caller, names: &[String]) -> Self {
        let wanted = TRACE_HEADERS.iter().copied().chain(names.iter().map(String::as_str));
        let found = wanted.filter_map(|name| {
            let value = HeaderValue::from_str(caller.header(name)?).ok()?;
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        Self(found.collect())
    }

    /// Headers as a run has them. What is no header is left out.
    pub(crate) fn from_pairs(pairs: Vec<(String, String)>) -> Self {
        let header = |(name, value): (String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        Self(pairs.into_iter().filter_map(header).collect())
    }

    /// The headers as names and values.
    pub(crate) fn to_pairs(&self) -> Vec<(String, String)> {
        let pair = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        self.0.iter().filter_map(pair).collect()
    }

    /// True if a header of that name is among them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The same, with the baggage of a call that passes through.
    pub(crate) fn with_baggage(mut self, headers: &HeaderMap) -> Self {
        for value in
            headers.get_all("baggage").iter().filter(|_| !self.has("baggage")).cloned().collect::<Vec<_>>()
        {
            self.0.append("baggage", value);
        }
        self
    }

    /// The same, with what relates the agent's own calls to its run.
    pub(crate) fn marked(mut self, trail: &Trail) -> Self {
        trail.mark(&mut self.0);
        self
    }
}

/// A way to an agent.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    pub(crate) client: Client,
    credentials: Option<Secret>,
    /// The only host that gets the credentials: a card can name any other.
    trusted: Option<Authority>,
}

impl Upstream {
    /// For the agent at `url`, as configured.
    pub(crate) fn new(agent: &Agent, url: &str) -> Result<Self, ClientError> {
        let events = sse::DecodeLimits { line: agent.limits.frame, event: agent.limits.frame };
        let limits = ClientLimits { body_bytes: agent.limits.frame, events, ..ClientLimits::default() };
        let timeouts = ClientTimeouts {
            connect: agent.timeouts.connect,
            response: agent.timeouts.response,
            idle: agent.timeouts.idle,
            ..ClientTimeouts::default()
        };
        let tls = tls::of_client(agent.tls.as_ref())?;
        let client = Client::new(ClientConfig { limits, timeouts, tls, ..ClientConfig::default() })?;
        let trusted = url.parse::<Uri>().ok().and_then(|uri| uri.authority().cloned());
        Ok(Self { client, credentials: agent.credentials.clone(), trusted })
    }

    /// A request with everything that the configuration adds; or why it cannot be made.
    pub(crate) fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        forwarded: &Forwarded,
        body: Bytes,
    ) -> Result<Request<Bytes>, String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is no address: {error}"))?;
        let is_trusted = uri.authority() == self.trusted.as_ref();
        let mut builder = Request::builder().method(method).uri(uri);
        for (name, value) in &forwarded.0 {
            builder = builder.header(name, value);
        }
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        if let Some(secret) = self.credentials.as_ref().filter(|_| is_trusted) {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.reveal()))
                .map_err(|_| "the credentials of the agent are no header value".to_owned())?;
            value.set_sensitive(true);
            builder = builder.header(header::AUTHORIZATION, value);
        }
        builder.body(body).map_err(|error| format!("the request cannot be made: {error}"))
    }
}

/// A request that could not be made.
pub(crate) fn unsent(message: String) -> RunFailure {
    RunFailure::new(UNREACHABLE, message)
}

/// A failed request as the reason of a failed run.
pub(crate) fn failure_of(error: &ClientError) -> RunFailure {
    let code = match error {
        ClientError::NotAStream(response) => return refused(response),
        ClientError::Connect { .. } | ClientError::Tls(_) => UNREACHABLE,
        ClientError::Timeout { .. } => TIMEOUT,
        ClientError::Events { .. } | ClientError::BodyTooLong { .. } => RunFailure::UPSTREAM_INVALID,
        _ => RunFailure::UPSTREAM_ENDED,
    };
    RunFailure::new(code, error.to_string())
}

/// An answer that is no stream.
fn refused(response: &Response<Bytes>) -> RunFailure {
    let status = response.status();
    let code = match status.as_u16() {
        401 | 403 => UNAUTHORIZED,
        _ => REFUSED,
    };
    RunFailure::new(code, refusal_words(response))
}

/// What an answer that is no stream says, in one sentence.
pub(crate) fn refusal_words(response: &Response<Bytes>) -> String {
    let status = response.status();
    let kind = content_type(response);
    if status.is_redirection() {
        return format!(
            "the agent answered {status}: redirects are not followed, configure the address it names"
        );
    }
    let words = body_words(response);
    match (status.is_success(), words) {
        (true, _) => format!("the agent answered {status} with {kind:?} instead of an event stream"),
        (false, None) => format!("the agent answered {status}"),
        (false, Some(words)) => format!("the agent answered {status}: {words}"),
    }
}

pub(crate) fn content_type(response: &Response<Bytes>) -> &str {
    let value = response.headers().get(header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// True if the body is JSON by its type.
pub(crate) fn is_json(response: &Response<Bytes>) -> bool {
    let essence = content_type(response).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The words of an error in JSON or plain text; a page for people has none for a log.
fn body_words(response: &Response<Bytes>) -> Option<String> {
    let text = String::from_utf8_lossy(response.body());
    let words = if is_json(response) {
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        let error = value.get("error").unwrap_or(&value);
        let member = ["message", "detail", "title"].iter().find_map(|name| error.get(name)?.as_str());
        member.or(error.as_str())?.to_owned()
    } else if content_type(response).starts_with("text/plain") {
        text.trim().to_owned()
    } else {
        return None;
    };
    Some(words.chars().filter(|c| !c.is_control()).take(WORDS).collect())
        .filter(|words: &String| !words.is_empty())
}

//! The client: requests to upstreams, with a whole response or a stream of events.
//!
//! ```text
//! open_stream ──► connect or reuse ──► head ──► status 2xx and the media type asked for? ──► SseStream / ByteStream
//!                                                └ no: Error::NotAStream with head and body
//! ```
//!
//! Invariants: a response is read as a stream only if its status and content type match (a 500 or a JSON error is never read
//! as an empty stream); redirects are returned and not followed, so a request never reaches a host outside the
//! configuration; every wait and every size has a limit; dropping a future or a stream ends the request at once, which the
//! upstream notices.
//!
//! The client does not retry, except for a reused connection that was closed before a byte was sent, and for connects that
//! its [`CallWatch`] repeats. It does not reconnect and does not interpret payloads.

mod connect;
mod dial;
mod framing;
mod loan;
mod parked;
mod resolve;
mod stream;
mod watch;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use self::connect::TimedConnector;
pub use self::dial::{Dial, Dialing, Duplex};
use self::loan::LoanRef;
use self::parked::Parked;
use self::resolve::Resolver;
use self::stream::StreamBody;
pub use self::stream::{ByteStream, SseStream};
pub use self::watch::{CallGuard, CallRefused, CallWatch};

use crate::config::{ClientConfig, ClientLimits, ClientTimeouts, HttpVersions};
use crate::error::Error;
use crate::sse;

/// A response, a reference to its socket, and the guard of the call.
type Sent = (Response<Incoming>, Option<LoanRef>, Option<Box<dyn CallGuard>>);

/// hyper panics below this size.
const LEAST_BUFFER_BYTES: usize = 8192;

#[cfg(feature = "tls")]
type Connector = TimedConnector<hyper_rustls::HttpsConnector<HttpConnector<Resolver>>>;
#[cfg(not(feature = "tls"))]
type Connector = TimedConnector<HttpConnector<Resolver>>;

/// An HTTP client. Clones share their connections.
///
/// # Examples
///
/// ```no_run
/// use aqueduct_transport_http::{Client, ClientConfig, Error};
/// use bytes::Bytes;
/// use futures_util::StreamExt;
///
/// # async fn read() -> Result<(), Error> {
/// let client = Client::new(ClientConfig::default())?;
/// let request = http::Request::get("http://127.0.0.1:8000/events").body(Bytes::new()).expect("a valid request");
/// let mut events = client.open_stream(request).await?;
/// while let Some(event) = events.next().await {
///     println!("{}", event?.data);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    limits: ClientLimits,
    timeouts: ClientTimeouts,
    parked: Arc<Parked>,
    watch: Option<Arc<dyn CallWatch>>,
}

impl Client {
    /// Returns a client. It does not connect yet.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Tls`] if TLS cannot be set up.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let ClientConfig { limits, timeouts, versions, pinned, watch, dial, .. } = config;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(timeouts.keep)
            .pool_max_idle_per_host(limits.idle_connections)
            .http1_max_buf_size(limits.header_bytes.max(LEAST_BUFFER_BYTES))
            .http2_max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_only(versions == HttpVersions::Http2);
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(pinned, watch.clone()));
        tcp.set_nodelay(true);
        #[cfg(feature = "tls")]
        let connector = secured(tcp, config.tls, versions)?;
        #[cfg(not(feature = "tls"))]
        let connector = tcp;
        let parked = Parked::new(limits.idle_connections, timeouts.keep);
        let is_http2 = versions == HttpVersions::Http2;
        let connector = TimedConnector::new(connector, timeouts.connect, Arc::clone(&parked), is_http2)
            .watched(watch.clone())
            .dialed(dial);
        Ok(Self { http: builder.build(connector), limits, timeouts, parked, watch })
    }

    /// Returns a client with other timeouts, except for `connect`, that shares the connections of this one.
    pub fn with_timeouts(&self, timeouts: ClientTimeouts) -> Self {
        Self { timeouts, ..self.clone() }
    }

    /// Sends a request and reads the whole response, whatever its status.
    ///
    /// # Errors
    ///
    /// Returns an error if the upstream cannot be reached, exceeds a limit or a timeout, or the connection is lost. A status
    /// of 400 and above is not an error.
    pub async fn request(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let upstream = upstream_of(&request);
        let (response, _, guard) = self.send(request, &upstream).await?;
        let read = self.read_whole(response, &upstream).await;
        if let (Err(error), Some(mut guard)) = (&read, guard) {
            guard.handle_failure(error);
        }
        read
    }

    /// Begins a call that another client sends to the same upstream, for example a gRPC call. Returns `None` if calls are not
    /// watched.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotSent`] if the watch refuses the call.
    pub async fn begin_call(
        &self,
        head: &mut http::request::Parts,
    ) -> Result<Option<Box<dyn CallGuard>>, Error> {
        let Some(watch) = &self.watch else { return Ok(None) };
        let upstream = head.uri.authority().map_or("", |authority| authority.as_str()).to_owned();
        let refused = |CallRefused { code, reason }| Error::NotSent { upstream, code, reason };
        watch.begin(head).await.map(Some).map_err(refused)
    }

    /// Sends a request whose response is a stream of server-sent events.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request). Returns [`Error::NotAStream`] with the response if it is not an event stream.
    pub async fn open_stream(&self, request: Request<Bytes>) -> Result<SseStream, Error> {
        let (head, bytes) = self.open_bytes(request, sse::is_event_stream).await?;
        Ok(SseStream::new(head, bytes, self.limits.events))
    }

    /// Sends a request whose response is a stream of one of several media types: `accepts` decides by the `Content-Type`. The
    /// chunks are as received from the network.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request). Returns [`Error::NotAStream`] with the response if `accepts` returns `false`.
    pub async fn open_bytes(
        &self,
        request: Request<Bytes>,
        accepts: impl FnOnce(&str) -> bool,
    ) -> Result<(Response<()>, ByteStream), Error> {
        let upstream = upstream_of(&request);
        let (response, loan, guard) = self.send(request, &upstream).await?;
        if !(is_content(response.status()) && accepts(content_type(response.headers()))) {
            let response = self.read_whole(response, &upstream).await?;
            return Err(Error::NotAStream(Box::new(response)));
        }
        let head = detached(&response);
        let body = StreamBody::new(response, loan, &self.parked);
        Ok((head, ByteStream::new(body, upstream, self.timeouts.idle).guarded(guard)))
    }

    /// Returns the response, a reference to its socket, and the guard of the call.
    async fn send(&self, request: Request<Bytes>, upstream: &str) -> Result<Sent, Error> {
        let (mut head, body) = request.into_parts();
        let mut guard = self.begin_call(&mut head).await?;
        let mut attempt = 1;
        let answered = loop {
            let request = Request::from_parts(head.clone(), Full::new(body.clone()));
            let answered = self.send_once(request, upstream).await;
            let pause = match (&answered, &self.watch) {
                (Err(Error::Connect { .. }), Some(watch)) => watch.retry_connect(attempt),
                _ => None,
            };
            let Some(pause) = pause else { break answered };
            attempt += 1;
            tokio::time::sleep(pause).await;
        };
        match (answered, &mut guard) {
            (Ok((response, loan)), _) => {
                if let Some(guard) = &mut guard {
                    guard.handle_head(response.status());
                }
                Ok((response, loan, guard))
            }
            (Err(error), guard) => {
                if let Some(guard) = guard {
                    guard.handle_failure(&error);
                }
                Err(error)
            }
        }
    }

    /// Sends a request once, within the timeout of the response.
    async fn send_once(
        &self,
        request: Request<Full<Bytes>>,
        upstream: &str,
    ) -> Result<(Response<Incoming>, Option<LoanRef>), Error> {
        // Boxed: the future of the request is much larger than the state that remains while the stream is open.
        let response = Box::pin(self.http.request(request));
        let limit = self.timeouts.response;
        let response = tokio::time::timeout(limit, response).await;
        let mut response = response
            .map_err(|_| timeout(upstream, "response", limit))?
            .map_err(|error| request_error(upstream, &error))?;
        let loan = response.extensions_mut().remove::<LoanRef>();
        Ok((response, loan))
    }

    /// Reads a whole body within the limits of size and time.
    async fn read_whole(
        &self,
        response: Response<Incoming>,
        upstream: &str,
    ) -> Result<Response<Bytes>, Error> {
        let (parts, body) = response.into_parts();
        let limit = self.limits.body_bytes;
        let body = tokio::time::timeout(self.timeouts.body, Limited::new(body, limit).collect()).await;
        let body = body.map_err(|_| timeout(upstream, "body", self.timeouts.body))?.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::BodyTooLong { upstream: upstream.to_owned(), limit }
            } else {
                Error::Cut { upstream: upstream.to_owned(), reason: reason(&*error) }
            }
        })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

/// Returns a connector for HTTPS that also accepts `http` addresses.
#[cfg(feature = "tls")]
fn secured(
    mut tcp: HttpConnector<Resolver>,
    tls: crate::tls::ClientTls,
    versions: HttpVersions,
) -> Result<hyper_rustls::HttpsConnector<HttpConnector<Resolver>>, Error> {
    tcp.enforce_http(false);
    let builder =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls.into_config(&[])?).https_or_http();
    Ok(match versions {
        HttpVersions::Negotiated => builder.enable_http1().enable_http2().wrap_connector(tcp),
        HttpVersions::Http1 => builder.enable_http1().wrap_connector(tcp),
        HttpVersions::Http2 => builder.enable_http2().wrap_connector(tcp),
    })
}

/// Returns a copy of a head: the values of the original keep hyper's read buffer alive.
fn detached<B>(response: &Response<B>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = response.status();
    *head.version_mut() = response.version();
    let copied = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), HeaderValue::from_bytes(value.as_bytes()).ok()?)));
    head.headers_mut().extend(copied);
    head
}

/// Returns `true` for the statuses of success with content.
fn is_content(status: StatusCode) -> bool {
    status.is_success() && status != StatusCode::NO_CONTENT && status != StatusCode::RESET_CONTENT
}

/// Returns the media type, or an empty text.
fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns scheme, host and port of a request. Path and query may contain secrets.
fn upstream_of(request: &Request<Bytes>) -> String {
    let uri = request.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let without_credentials = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{without_credentials}", uri.scheme_str().unwrap_or("http"))
}

/// Returns the error for a timeout, by the name of its setting.
fn timeout(upstream: &str, timeout: &'static str, limit: Duration) -> Error {
    Error::Timeout { upstream: upstream.to_owned(), timeout, limit }
}

/// Separates a failed connection from a request that was sent and not answered.
fn request_error(upstream: &str, error: &legacy::Error) -> Error {
    let (upstream, reason) = (upstream.to_owned(), reason(error));
    if error.is_connect() { Error::Connect { upstream, reason } } else { Error::Request { upstream, reason } }
}

/// Returns an error and its causes in one line.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

//! [`ConnectOptions`], and the connection: address, TLS and upgrade.

use aqueduct_core::protocol::Encoding;
use std::fmt;
use std::time::Duration;

use http::Uri;
use http::header::{self, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::error::Error;
use crate::subprotocol::{SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO};

/// Options of a connection.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The `ws://` or `wss://` address of a server's `/ws`, or of an agent's.
    pub url: String,
    /// The token, sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// The encoding of payloads.
    pub encoding: Encoding,
    /// The time limit for connection, TLS and upgrade together.
    pub connect_timeout: Duration,
    /// The time limit for the answer to one request.
    pub request_timeout: Duration,
    /// The interval of pings. A server that is silent for three times as long counts as dead.
    pub ping: Duration,
    /// The most bytes of one message from the server. Larger than a server's own limit: a server is trusted more, and one
    /// state snapshot is one message.
    pub message_bytes: usize,
    /// Events of one run that wait to be read. If the queue is full, the socket is not read.
    pub queued_events: usize,
    /// Requests that wait to be written. If the queue is full, callers wait.
    pub queued_requests: usize,
    /// The trusted authorities for `wss://` addresses, and the identity of the client.
    #[cfg(feature = "tls")]
    pub tls: crate::tls::ClientTls,
}

impl ConnectOptions {
    /// Returns the default options for an address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            encoding: Encoding::Json,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            ping: Duration::from_secs(20),
            message_bytes: 16 * 1024 * 1024,
            queued_events: 256,
            queued_requests: 64,
            #[cfg(feature = "tls")]
            tls: crate::tls::ClientTls::default(),
        }
    }
}

/// Omits the token.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("ConnectOptions")
            .field("url", &self.url)
            .field("token", &token)
            .finish_non_exhaustive()
    }
}

/// A plain or encrypted socket.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An upgraded socket.
pub(crate) type Socket = WebSocketStream<Box<dyn Io>>;

/// Connects and upgrades a socket.
pub(crate) async fn open(options: &ConnectOptions) -> Result<Socket, Error> {
    let seconds = options.connect_timeout.as_secs_f32();
    let timeout = |_| Error::Timeout { what: "connecting", seconds };
    time::timeout(options.connect_timeout, upgrade(options)).await.map_err(timeout)?
}

/// Upgrades a connection that is open already.
pub(crate) async fn open_over(io: Box<dyn Io>, options: &ConnectOptions) -> Result<Socket, Error> {
    let seconds = options.connect_timeout.as_secs_f32();
    let timeout = |_| Error::Timeout { what: "connecting", seconds };
    let upgraded = handshake(io, request(options)?, options);
    time::timeout(options.connect_timeout, upgraded).await.map_err(timeout)?
}

/// Connects, encrypts if needed, and performs the handshake.
async fn upgrade(options: &ConnectOptions) -> Result<Socket, Error> {
    let request = request(options)?;
    let io = dial(options, request.uri()).await?;
    handshake(io, request, options).await
}

/// Performs the handshake of WebSocket.
async fn handshake(io: Box<dyn Io>, request: Request, options: &ConnectOptions) -> Result<Socket, Error> {
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .max_frame_size(Some(options.message_bytes))
        .max_message_size(Some(options.message_bytes));
    let (socket, _response) = tokio_tungstenite::client_async_with_config(request, io, Some(config)).await?;
    Ok(socket)
}

/// Builds the upgrade request with token and subprotocol.
fn request(options: &ConnectOptions) -> Result<Request, Error> {
    let problem =
        |error: &dyn fmt::Display| Error::Address { url: options.url.clone(), problem: error.to_string() };
    let mut request = options.url.as_str().into_client_request().map_err(|error| problem(&error))?;
    let is_binary = options.encoding == Encoding::Binary;
    let subprotocol = if is_binary { SUBPROTOCOL_PROTO } else { SUBPROTOCOL_JSON };
    let headers = request.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
    if let Some(token) = &options.token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| problem(&"the token holds characters that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(request)
}

/// Opens a TCP connection, with TLS for `wss` addresses.
async fn dial(options: &ConnectOptions, uri: &Uri) -> Result<Box<dyn Io>, Error> {
    let problem = |problem: &str| Error::Address { url: options.url.clone(), problem: problem.to_owned() };
    let host = uri.host().ok_or_else(|| problem("it has no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let secure = uri.scheme_str() == Some("wss");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    // Only tuning: a socket that rejects it still works.
    stream.set_nodelay(true).unwrap_or_default();
    if secure { encrypt(options, host, stream).await } else { Ok(Box::new(stream)) }
}

/// Performs the TLS handshake with the settings of the options.
#[cfg(feature = "tls")]
async fn encrypt(options: &ConnectOptions, host: &str, stream: TcpStream) -> Result<Box<dyn Io>, Error> {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;

    let config = std::sync::Arc::new(options.tls.clone().into_config(&[b"http/1.1"])?);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| Error::Tls(error.to_string()))?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "its twin with TLS waits for a handshake")]
async fn encrypt(_options: &ConnectOptions, _host: &str, _stream: TcpStream) -> Result<Box<dyn Io>, Error> {
    Err(Error::Tls("a wss:// address needs the feature `tls` of this crate".to_owned()))
}

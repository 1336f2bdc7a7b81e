//! The connection of a client.
//!
//! One connection serves all calls of a client; tonic opens it again after a loss. The time limit covers name resolution, connection and TLS
//! together. Pings run while no call is open, because a watcher of a silent run must notice that the service is gone.
//!
//! The futures that connect are boxed: Rust 1.90 cannot prove that a future which contains them is `Send` for every lifetime.

use aqueduct_core::service::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};

use crate::config::ClientConfig;
use crate::error::Error;

/// Connects, with all limits and timeouts of the configuration.
///
/// # Errors
///
/// Returns [`Error::Address`] for an address without scheme or host, [`Error::Tls`] for certificates that cannot be used, and
/// [`Error::Connect`] if the service cannot be reached in time.
pub(crate) async fn channel(address: &str, config: &ClientConfig) -> Result<Channel, Error> {
    let uri: http::Uri = address.parse().map_err(|error| unusable(address, &error))?;
    let host = uri.host().ok_or_else(|| unusable(address, &"it names no host"))?.to_owned();
    let connecting = async {
        match uri.scheme_str() {
            Some("http") => plain(uri, address, config).await,
            Some("https") => secure(uri, &host, address, config).await,
            _ => Err(unusable(address, &"it names no scheme")),
        }
    };
    let late = |_| unreachable_because(address, "it took too long".to_owned());
    tokio::time::timeout(config.timeouts.connect, connecting).await.map_err(late)?
}

/// Connects without TLS.
async fn plain(uri: http::Uri, address: &str, config: &ClientConfig) -> Result<Channel, Error> {
    let endpoint = configured(Endpoint::from(uri), config);
    let connecting: BoxFuture<'_, _> = Box::pin(endpoint.connect());
    connecting.await.map_err(|error| unreachable(address, &error))
}

/// Uses a connection that is open already. Once it is lost, all calls fail.
pub(crate) async fn channel_over(io: impl Io, config: &ClientConfig) -> Result<Channel, Error> {
    let address = "http://connected";
    let endpoint = configured(Endpoint::from_static(address), config);
    let mut io = Some(hyper_util::rt::TokioIo::new(io));
    let connector = tower::service_fn(move |_: http::Uri| {
        std::future::ready(io.take().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)))
    });
    let connecting = endpoint.connect_with_connector(connector);
    connecting.await.map_err(|error| unreachable(address, &error))
}

/// An open connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Applies limits, timeouts and pings of the configuration.
fn configured(endpoint: Endpoint, config: &ClientConfig) -> Endpoint {
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    endpoint
        .connect_timeout(timeouts.connect)
        .initial_stream_window_size(limits.stream_receive_bytes)
        .initial_connection_window_size(limits.connection_receive_bytes)
        .http2_keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.pong)
        // A watcher of a silent run is idle, and must still notice that the service is gone.
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "its twin with TLS waits for a handshake")]
async fn secure(_: http::Uri, _: &str, address: &str, _: &ClientConfig) -> Result<Channel, Error> {
    Err(unusable(address, &"this program was built without the feature `tls`"))
}

/// Connects with the TLS configuration of this crate; tonic's own would select other certificates and another provider.
#[cfg(feature = "tls")]
async fn secure(uri: http::Uri, host: &str, address: &str, config: &ClientConfig) -> Result<Channel, Error> {
    use hyper_util::rt::TokioIo;
    use rustls::pki_types::ServerName;

    let tls = config.tls.clone().into_config(&[b"h2"])?;
    let tls = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(bare.clone()).map_err(|error| unusable(address, &error))?;
    let port = uri.port_u16().unwrap_or(443);
    let connector = tower::service_fn(move |_: http::Uri| {
        let (tls, name, bare) = (tls.clone(), name.clone(), bare.clone());
        let connecting: BoxFuture<'static, std::io::Result<_>> = Box::pin(async move {
            let socket = tokio::net::TcpStream::connect((bare, port)).await?;
            socket.set_nodelay(true)?;
            Ok(TokioIo::new(tls.connect(name, socket).await?))
        });
        connecting
    });
    // tonic must not set up its own TLS: it gets a plain address, and the service knows the real one.
    let plain = Endpoint::from_shared(format!("http://{host}:{port}"));
    let plain = configured(plain.map_err(|error| unusable(address, &error))?, config).origin(uri);
    let connecting: BoxFuture<'_, _> = Box::pin(plain.connect_with_connector(connector));
    connecting.await.map_err(|error| unreachable(address, &error))
}

/// Returns the error for an address that cannot be used.
fn unusable(address: &str, problem: &dyn std::fmt::Display) -> Error {
    Error::Address { address: address.to_owned(), problem: problem.to_string() }
}

/// Returns a connect error with its causes: tonic's own message is "transport error".
fn unreachable(address: &str, error: &dyn std::error::Error) -> Error {
    let causes = std::iter::successors(Some(error), |error| error.source());
    unreachable_because(address, causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

/// Returns the error for an address that cannot be reached.
fn unreachable_because(address: &str, problem: String) -> Error {
    Error::Connect { address: address.to_owned(), problem }
}

//! [`RedisDial`]: opens connections in place of TCP and TLS.

use std::fmt::Debug;
use std::future::Future;
use std::io;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{AsyncConnectionConfig, ConnectionInfo, RedisError};
use aqueduct_core::service::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use super::nodes::CONNECT;

/// A connection that can be read and written.
pub trait RedisStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> RedisStream for T {}

/// Opens the connections of a [`RedisLog`](super::RedisLog), in place of TCP and TLS: through a tunnel, or to a server in the
/// same process.
pub trait RedisDial: Debug + Send + Sync {
    /// Opens a connection to the server at `node`, which is `host:port`. The log sends the Redis protocol on it as it is, also
    /// for `rediss` addresses. An attempt that takes longer than two seconds is dropped.
    fn dial(&self, node: &str) -> BoxFuture<'static, io::Result<Box<dyn RedisStream>>>;
}

/// Opens a connection for commands.
pub(super) async fn commands(
    dial: &dyn RedisDial,
    node: &str,
    info: &ConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let opened = async {
        let stream = dial.dial(node).await?;
        MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await
    };
    let (connection, driver) = in_time(opened).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Opens a connection for notifications.
pub(super) async fn notifications(
    dial: &dyn RedisDial,
    node: &str,
    info: &ConnectionInfo,
) -> Result<PubSub, RedisError> {
    in_time(async { PubSub::new(info.redis_settings(), dial.dial(node).await?).await }).await
}

async fn in_time<T>(opened: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    let late = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
    tokio::time::timeout(CONNECT, opened).await.map_err(|_| late())?
}

//! The connection for commands: one, shared by all callers, made anew when it breaks.
//!
//! ```text
//! connected ── broken ──► waiting (back-off, doubled) ──► connecting ──► connected
//!                         └ `patience` is over: the caller is told
//! ```
//!
//! Every command here may be sent twice: scripts recognise a repetition. So a caller need not know whether an answer
//! was lost on the way back or the command on the way there.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError, Script, ToRedisArgs, Value,
};
use tokio::time::Instant;

use crate::error::LogError;

/// The first pause before a connection is made anew.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long one answer may take. A server that is stopped, not gone, is noticed by this.
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    patience: Duration,
    connection: Mutex<Option<(u64, MultiplexedConnection)>>,
    /// Counts connections, so that only the one that broke is thrown away.
    made: std::sync::atomic::AtomicU64,
}

/// Pauses that double.
#[derive(Debug)]
pub(super) struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl BackOff {
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Keys and arguments of a script.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    pub(super) fn arg(self, argument: impl ToRedisArgs) -> Self {
        argument.to_redis_args().into_iter().fold(self, Self::bytes)
    }

    pub(super) fn bytes(mut self, argument: Vec<u8>) -> Self {
        self.arguments.push(argument);
        self
    }
}

impl Link {
    pub(super) fn new(client: Client, patience: Duration) -> Self {
        Self { client, patience, connection: Mutex::default(), made: std::sync::atomic::AtomicU64::new(0) }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn slot(&self) -> MutexGuard<'_, Option<(u64, MultiplexedConnection)>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        if let Some(known) = &*self.slot() {
            return Ok(known.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER));
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let number = self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        *self.slot() = Some((number, made.clone()));
        Ok((number, made))
    }

    fn throw_away(&self, number: u64) {
        self.slot().take_if(|(current, _)| *current == number);
    }

    /// Does something with the connection, as often as it takes.
    async fn run(&self, work: Work<'_>) -> Result<Value, LogError> {
        let deadline = Instant::now() + self.patience;
        let mut back_off = BackOff::default();
        loop {
            let error = match self.connection().await {
                Ok((number, mut connection)) => match work.attempt(&mut connection).await {
                    Ok(done) => return Ok(done),
                    Err(error) if is_lasting(&error) => return Err(unavailable(&error)),
                    Err(error) => {
                        self.throw_away(number);
                        error
                    }
                },
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(unavailable(&error));
            }
            back_off.pause().await;
        }
    }

    /// Runs a script.
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        script: &Script,
        call: &Call,
    ) -> Result<T, LogError> {
        read(self.run(Work::Script(script, call)).await?)
    }

    /// Runs commands in one round trip.
    pub(super) async fn pipe<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, LogError> {
        read(self.run(Work::Commands(commands)).await?)
    }
}

/// What to do with a connection.
#[derive(Clone, Copy)]
enum Work<'w> {
    Script(&'w Script, &'w Call),
    Commands(&'w Pipeline),
}

impl Work<'_> {
    async fn attempt(self, connection: &mut MultiplexedConnection) -> Result<Value, RedisError> {
        match self {
            Self::Commands(commands) => commands.query_async(connection).await,
            Self::Script(script, call) => {
                let mut invocation = script.prepare_invoke();
                for key in &call.keys {
                    invocation.key(key);
                }
                for argument in &call.arguments {
                    invocation.arg(argument.as_slice());
                }
                invocation.invoke_async(connection).await
            }
        }
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, LogError> {
    T::from_redis_value(value).map_err(|error| unavailable(&error.into()))
}

/// True if the same command would fail again: what the server itself says, but for its beginnings and ends.
fn is_lasting(error: &RedisError) -> bool {
    use ::redis::{ErrorKind, ServerErrorKind};
    match error.kind() {
        ErrorKind::Server(kind) => !matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
        ),
        kind => !matches!(kind, ErrorKind::Io | ErrorKind::Parse),
    }
}

pub(super) fn unavailable(error: &RedisError) -> LogError {
    LogError::Unavailable(format!("Redis: {error}"))
}

/// An answer that no script of ours gives.
pub(super) fn strange(answer: &[Value]) -> LogError {
    LogError::Unavailable(format!("Redis: an answer that makes no sense, of {} parts", answer.len()))
}

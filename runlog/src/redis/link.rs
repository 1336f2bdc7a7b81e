//! The connections for commands: one per node, shared by all callers, re-established when lost.
//!
//! ```text
//! connected ── broken ──► waiting (back-off, doubled) ──► connecting ──► connected
//!     │                   └ after `patience`: the caller gets an error
//!     └ redirected (a cluster) ──► the named node, at once
//! ```
//!
//! Every command may be sent twice: scripts detect a repetition. So a caller need not know whether the command or its answer
//! was lost.

use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{
    Arg, Client, Cmd, ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind, ToRedisArgs, Value,
};
use tokio::time::Instant;

use super::config::RedisConfig;
use super::nodes::{Node, Nodes, Redirect};
use super::sentinel::Sentinels;
use crate::error::LogError;

/// The first pause before a reconnect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Redirections that are followed without a pause. Nodes that redirect to each other have not agreed yet.
const FOLLOWED_AT_ONCE: u32 = 3;

/// The servers, and how long a command is retried before its caller gets an error.
#[derive(Debug)]
pub(super) struct Link {
    nodes: Nodes,
    patience: Duration,
}

/// Pauses that double up to a maximum.
#[derive(Debug)]
pub(super) struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl BackOff {
    /// Sleeps, and doubles the next pause.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Keys and arguments of a script call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<Vec<u8>>,
}

impl Call {
    /// Adds a key. The first one determines the node.
    pub(super) fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    /// Adds an argument in its text form.
    pub(super) fn arg(self, argument: impl ToRedisArgs) -> Self {
        argument.to_redis_args().into_iter().fold(self, Self::bytes)
    }

    /// Adds an argument unchanged: encoded events and messages are not text.
    pub(super) fn bytes(mut self, argument: Vec<u8>) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Returns the call by the hash of the script, so that its text is not sent each time.
    fn command(&self, script: &Script) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(self.keys.len()).arg(&self.keys);
        for argument in &self.arguments {
            command.arg(argument.as_slice());
        }
        command
    }
}

impl Link {
    /// Returns a link to these servers, or to those of the service that sentinels there watch. Returns `None` if there
    /// are none.
    pub(super) fn new(
        clients: &[Client],
        service: Option<&str>,
        config: &RedisConfig,
    ) -> Result<Option<Self>, RedisError> {
        let sentinels = service.map(|service| Sentinels::new(clients, service)).transpose()?;
        let nodes = Nodes::new(clients, sentinels, config.dial.clone());
        Ok(nodes.map(|nodes| Self { nodes, patience: config.patience }))
    }

    /// Returns the number of lost connections.
    pub(super) fn broken(&self) -> u64 {
        self.nodes.broken()
    }

    /// Opens a connection for notifications. Any node serves: a cluster forwards publications to all nodes.
    pub(super) async fn listen(&self) -> Result<PubSub, RedisError> {
        self.nodes.locate().await?;
        let (node, opened) = self.nodes.listen().await;
        opened.inspect_err(|_| self.nodes.handle_unreachable(&node))
    }

    /// Runs a script.
    /// Retried until `patience` elapses. The answer may be that of an earlier attempt whose answer was
    /// lost: scripts are written for that.
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        script: &Script,
        call: &Call,
    ) -> Result<T, LogError> {
        let key = call.keys.first().map(String::as_bytes);
        let work = Work { command: &call.command(script), script: Some(script), key };
        read(self.run(work, self.deadline()).await?)
    }

    /// Runs the call of a script, and retries it until `deadline`.
    pub(super) async fn run_script(
        &self,
        script: &Script,
        command: &Cmd,
        key: &[u8],
        deadline: Instant,
    ) -> Result<Value, LogError> {
        self.run(Work { command, script: Some(script), key: Some(key) }, deadline).await
    }

    /// Sends the call of a script once.
    pub(super) async fn try_script(
        &self,
        script: &Script,
        command: &Cmd,
        key: Option<&[u8]>,
    ) -> Result<Value, RedisError> {
        self.nodes.locate().await?;
        let node = self.nodes.of(key);
        let answer = self.attempt(Work { command, script: Some(script), key }, &node, false).await;
        answer.inspect_err(|error| self.nodes.handle_cluster(error))
    }

    /// Returns `true` if the servers are known to be a cluster, which runs no script on keys of several slots.
    pub(super) fn is_cluster(&self) -> bool {
        self.nodes.is_cluster()
    }

    /// Returns the time after which a command that starts now is not retried.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Runs commands whose first argument is their key, those of one node in order and in one round trip. Returns their
    /// answers.
    pub(super) async fn batch(&self, commands: &[Cmd]) -> Result<Vec<Value>, LogError> {
        // Commands without a leader are retried one by one, until `patience` elapses.
        self.nodes.locate().await.ok();
        let groups = self.by_node(commands).into_iter().map(|(node, group)| self.pipe(node, group));
        let answered = futures_util::future::join_all(groups).await;
        let mut answers: Vec<(usize, Value)> = answered.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(index, _)| *index);
        let mut answers = answers.into_iter().peekable();
        let mut all = Vec::with_capacity(commands.len());
        for (index, command) in commands.iter().enumerate() {
            // A command without answer from its node is repeated alone.
            let answer = if let Some((_, answer)) = answers.next_if(|(answered, _)| *answered == index) {
                answer
            } else {
                let work = Work { command, script: None, key: key_of(command) };
                self.run(work, self.deadline()).await?
            };
            all.push(answer);
        }
        Ok(all)
    }

    /// Groups commands by the node of their key, keeping their indices.
    fn by_node<'c>(&self, commands: &'c [Cmd]) -> Vec<(Node, Vec<(usize, &'c Cmd)>)> {
        let mut groups: Vec<(Node, Vec<(usize, &Cmd)>)> = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            let node = self.nodes.of(key_of(command));
            match groups.iter_mut().find(|(known, _)| *known == node) {
                Some((_, group)) => group.push((index, command)),
                None => groups.push((node, vec![(index, command)])),
            }
        }
        groups
    }

    /// Runs commands of one node in one round trip. Returns the answers by the index of the command.
    async fn pipe(&self, node: Node, commands: Vec<(usize, &Cmd)>) -> Vec<(usize, Value)> {
        let Ok((number, mut connection)) = self.nodes.connection(&node).await else { return Vec::new() };
        let mut pipeline = ::redis::pipe();
        pipeline.ignore_errors();
        for (_, command) in &commands {
            pipeline.add_command((*command).clone());
        }
        let answers: Result<Vec<Result<Value, RedisError>>, RedisError> =
            pipeline.query_async(&mut connection).await;
        if answers.is_err() {
            self.nodes.handle_broken(&node, number);
        }
        let answers = commands.iter().zip(answers.unwrap_or_default());
        answers.filter_map(|((index, _), answer)| Some((*index, answer.ok()?))).collect()
    }

    /// Sends a command once. A redirection counts as an answer: the cluster is reachable.
    pub(super) async fn try_once(&self, command: &Cmd) -> Result<(), LogError> {
        self.nodes.locate().await.map_err(|error| unavailable(&error))?;
        let key = key_of(command);
        let node = self.nodes.of(key);
        match self.attempt(Work { command, script: None, key }, &node, false).await {
            Ok(_) => Ok(()),
            Err(error) if self.nodes.handle_redirect(&node, &error).is_some() => Ok(()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Runs a command, and retries it until `deadline`.
    async fn run(&self, work: Work<'_>, deadline: Instant) -> Result<Value, LogError> {
        // One attempt per iteration. `asked` holds the node of an `ASK` redirection, which is valid for one
        // attempt only; a `MOVED` redirection changes the slot map instead.
        let (mut back_off, mut redirected, mut asked) = (BackOff::default(), 0, None);
        loop {
            let is_asked = asked.is_some();
            let located = self.nodes.locate().await;
            let node = asked.take().unwrap_or_else(|| self.nodes.of(work.key));
            let answer = match located {
                Ok(()) => self.attempt(work, &node, is_asked).await,
                Err(error) => Err(error),
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let redirect = self.nodes.handle_redirect(&node, &error);
            let is_redirected = redirect.is_some();
            match redirect {
                Some(Redirect::Ask(node)) => asked = Some(node),
                Some(Redirect::Moved(node)) => self.learn(&node).await,
                // An error in the command itself: a retry would fail in the same way.
                None if is_lasting(&error) => return Err(unavailable(&error)),
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(unavailable(&error));
            }
            redirected += u32::from(is_redirected);
            if !is_redirected || redirected > FOLLOWED_AT_ONCE {
                back_off.pause().await;
            }
        }
    }

    /// Sends a command to one node once. `is_asked` marks the answer to an `ASK` redirection.
    async fn attempt(&self, work: Work<'_>, node: &Node, is_asked: bool) -> Result<Value, RedisError> {
        let made = self.nodes.connection(node).await;
        let (number, mut connection) = made.inspect_err(|_| self.nodes.handle_unreachable(node))?;
        let answer = work.send(&mut connection, is_asked).await;
        if answer.as_ref().is_err_and(is_breaking) {
            self.nodes.handle_broken(node, number);
        }
        answer
    }

    /// Reads the slot map from a node after a redirection. If that fails, the slot of the redirection is known.
    async fn learn(&self, node: &Node) {
        let Ok((_, mut connection)) = self.nodes.connection(node).await else { return };
        let answer = ::redis::cmd("CLUSTER").arg("SLOTS").query_async::<Value>(&mut connection).await;
        if let Ok(answer) = answer {
            self.nodes.handle_slots(node, &answer);
        }
    }
}

/// A command, and its script, which the server may not have loaded yet.
#[derive(Clone, Copy)]
struct Work<'w> {
    command: &'w Cmd,
    script: Option<&'w Script>,
    key: Option<&'w [u8]>,
}

impl Work<'_> {
    /// Sends the command. Loads the script and sends it again if the server does not have it: a server
    /// that restarted has none.
    async fn send(self, connection: &mut MultiplexedConnection, is_asked: bool) -> Result<Value, RedisError> {
        let answer = self.send_once(connection, is_asked).await;
        match (answer, self.script) {
            (Err(error), Some(script)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                script.load_async(connection).await?;
                self.send_once(connection, is_asked).await
            }
            (answer, _) => answer,
        }
    }

    /// Sends the command once. After an `ASK` redirection, `ASKING` must precede it on the same
    /// connection.
    async fn send_once(
        self,
        connection: &mut MultiplexedConnection,
        is_asked: bool,
    ) -> Result<Value, RedisError> {
        if !is_asked {
            return self.command.query_async(connection).await;
        }
        let mut commands = ::redis::pipe();
        commands.cmd("ASKING").ignore().add_command(self.command.clone());
        let (answer,) = commands.query_async::<(Value,)>(connection).await?;
        Ok(answer)
    }
}

/// Returns the key of a command: the first argument of every command that is sent here.
fn key_of(command: &Cmd) -> Option<&[u8]> {
    match command.args_iter().nth(1) {
        Some(Arg::Simple(key)) => Some(key),
        _ => None,
    }
}

/// Converts an answer. An answer of another form means a server that is not Redis, or another
/// version of the scripts.
pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, LogError> {
    T::from_redis_value(value).map_err(|error| unavailable(&error.into()))
}

/// Returns `true` if a retry would fail again: an error from the server, except while it starts or stops.
fn is_lasting(error: &RedisError) -> bool {
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

/// Returns `true` if another connection may succeed, for example to a newly elected primary.
fn is_breaking(error: &RedisError) -> bool {
    let waits =
        matches!(error.kind(), ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown));
    error.redirect_node().is_none() && !waits && !is_lasting(error)
}

/// Returns the error for a failed command. Callers may retry it.
pub(super) fn unavailable(error: &RedisError) -> LogError {
    LogError::Unavailable(format!("Redis: {error}"))
}

/// Returns the error for an answer that no script gives.
pub(super) fn strange(answer: &[Value]) -> LogError {
    LogError::Unavailable(format!("Redis: an answer that makes no sense, of {} parts", answer.len()))
}

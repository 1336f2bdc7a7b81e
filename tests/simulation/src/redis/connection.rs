//! Connections between replicas and the simulated server, in memory.
//!
//! ```text
//! RedisLog ──► duplex ──► carry ──► duplex ──► serve ──► Redis::execute
//!                         │ every part takes time; waits while the replica is paused or cut off; ends with the replica
//!                         └ a reply that is lost cuts the connection: what the commands did is unknown to their callers
//! ```

use std::io;
use std::sync::Arc;

use aqueduct_core::service::BoxFuture;
use aqueduct_runlog::{RedisDial, RedisStream};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split,
};
use tokio::sync::mpsc;

use super::Redis;
use super::reply::{Text, read_command};
use crate::node::Node;

/// Bytes on their way in one direction.
const WINDOW: usize = 64 * 1024;

/// Replies and notifications that wait for a connection. A connection with more is closed, as on the server.
const QUEUE: usize = 4096;

/// Opens connections without faults, for the world itself.
#[derive(Debug, Clone)]
pub struct Direct(pub Redis);

impl RedisDial for Direct {
    fn dial(&self, _node: &str) -> BoxFuture<'static, io::Result<Box<dyn RedisStream>>> {
        let (near, far) = duplex(WINDOW);
        tokio::spawn(serve(self.0.clone(), "world".to_owned(), far));
        Box::pin(std::future::ready(Ok(Box::new(near) as _)))
    }
}

/// Opens the connections of one replica, with everything that can go wrong on them.
#[derive(Debug, Clone)]
pub struct Faulty {
    /// The server.
    pub redis: Redis,
    /// The replica.
    pub node: Arc<Node>,
}

impl RedisDial for Faulty {
    fn dial(&self, _node: &str) -> BoxFuture<'static, io::Result<Box<dyn RedisStream>>> {
        let (redis, node) = (self.redis.clone(), Arc::clone(&self.node));
        Box::pin(async move {
            tokio::time::sleep(node.delay()).await;
            node.up().await;
            let (near, ours) = duplex(WINDOW);
            let (theirs, far) = duplex(WINDOW);
            tokio::spawn(serve(redis, node.name().to_owned(), far));
            tokio::spawn(carry(node, ours, theirs));
            Ok(Box::new(near) as _)
        })
    }
}

/// Carries bytes between a replica and the server. The server sees the end of a replica as that of the connection; the replica
/// sees nothing any more.
async fn carry(node: Arc<Node>, ours: DuplexStream, theirs: DuplexStream) {
    let (mut from_us, mut to_us) = split(ours);
    let (mut from_them, mut to_them) = split(theirs);
    let is_crashed = tokio::select! {
        biased;
        () = node.crashed() => true,
        _ = pump(&node, &mut from_us, &mut to_them, false) => false,
        _ = pump(&node, &mut from_them, &mut to_us, true) => false,
    };
    if is_crashed {
        drop((from_them, to_them));
        std::future::pending::<()>().await;
    }
}

/// Copies bytes until the source ends, or a reply is lost.
async fn pump(
    node: &Node,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    has_replies: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        tokio::time::sleep(node.delay()).await;
        node.up().await;
        if read == 0 {
            return Ok(());
        }
        if has_replies && node.is_lost() {
            node.note(|| format!("{read} bytes of replies are lost with their connection"));
            return Ok(());
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
    }
}

/// Executes the commands of one connection until it ends or the server closes it.
async fn serve(redis: Redis, name: String, io: DuplexStream) {
    let (from, to) = split(io);
    let (send, receive) = mpsc::channel(QUEUE);
    let number = redis.attach(name, send);
    let _ended = tokio::select! {
        biased;
        ended = execute(&redis, number, from) => ended,
        ended = reply(to, receive) => ended,
    };
    redis.detach(number);
}

async fn execute(redis: &Redis, number: u64, from: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut from = BufReader::new(from);
    while let Some(command) = read_command(&mut from).await? {
        redis.execute(number, &command);
    }
    Ok(())
}

/// Writes replies until the server drops their queue.
async fn reply(mut to: impl AsyncWrite + Unpin, mut replies: mpsc::Receiver<Text>) -> io::Result<()> {
    while let Some(reply) = replies.recv().await {
        to.write_all(&reply).await?;
    }
    Ok(())
}

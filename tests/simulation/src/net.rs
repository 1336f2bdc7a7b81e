//! The network of a world: connections in memory between clients, replicas and agents.
//!
//! ```text
//!   client ──► duplex ──► replica (hyper, its router)          ends with the replica
//!   replica ──► duplex ──► link ──► duplex ──► agent           waits while the replica is paused, ends with it, is cut
//! ```
//!
//! HTTP, WebSocket and gRPC are spoken on them as on sockets. What a connection does is a function of the seed: hyper, h2 and
//! tungstenite spawn their tasks on the one thread of the world, and read no clock but tokio's.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use aqueduct_transport_http::{Dial, Dialing, Duplex};
use axum::Router;
use http::Uri;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tower::ServiceExt as _;

use crate::node::Node;
use crate::random::Random;
use crate::trace::locked;

/// Bytes on their way in one direction.
const WINDOW: usize = 16 * 1024;

/// The longest part of a stream before a connection that is to be cut is cut, in bytes.
const LONGEST: u64 = 6_000;

/// Connects to the router of a replica. The connection ends with the replica.
pub fn connect(node: &Arc<Node>, router: Router) -> DuplexStream {
    let (near, far) = duplex(WINDOW);
    let node = Arc::clone(node);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = node.crashed() => {}
            () = serve(far, router) => {}
        }
    });
    near
}

/// Serves HTTP on one connection until it ends.
async fn serve(io: DuplexStream, router: Router) {
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let builder = Builder::new(TokioExecutor::new());
    // What a peer does wrong ends its connection.
    drop(builder.serve_connection_with_upgrades(TokioIo::new(io), service).await);
}

/// Opens the connections of one replica to the agents of the world.
pub struct Wires {
    node: Arc<Node>,
    agents: Router,
    /// How many of a thousand connections are cut in their middle.
    cuts: u64,
    random: Mutex<Random>,
}

impl fmt::Debug for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires").field("node", &self.node.name()).finish_non_exhaustive()
    }
}

impl Wires {
    /// Returns the connections of a replica to agents that are served by `agents`.
    pub fn new(node: Arc<Node>, agents: Router, cuts: u64, random: Random) -> Self {
        Self { node, agents, cuts, random: Mutex::new(random) }
    }

    fn open(&self) -> DuplexStream {
        let (near, ours) = duplex(WINDOW);
        let (theirs, far) = duplex(WINDOW);
        let life = {
            let mut random = locked(&self.random);
            if random.chance(self.cuts) { 200 + random.below(LONGEST) } else { u64::MAX }
        };
        tokio::spawn(serve(far, self.agents.clone()));
        tokio::spawn(carry(Arc::clone(&self.node), ours, theirs, life));
        near
    }
}

impl Dial for Wires {
    fn dial(&self, _target: &Uri) -> Dialing {
        let io: Box<dyn Duplex> = Box::new(self.open());
        Box::pin(std::future::ready(Ok(io)))
    }
}

/// Carries bytes between a replica and an agent. The agent sees the end of a replica as that of the connection; the
/// replica sees nothing any more.
async fn carry(node: Arc<Node>, ours: DuplexStream, theirs: DuplexStream, life: u64) {
    let (mut from_us, mut to_us) = tokio::io::split(ours);
    let (mut from_them, mut to_them) = tokio::io::split(theirs);
    let is_crashed = tokio::select! {
        biased;
        () = node.crashed() => true,
        _ = pump(&node, &mut from_us, &mut to_them, u64::MAX) => false,
        _ = pump(&node, &mut from_them, &mut to_us, life) => false,
    };
    if is_crashed {
        drop((from_them, to_them));
        std::future::pending::<()>().await;
    }
}

/// Copies bytes until the source ends, or so many were copied.
async fn pump(
    node: &Node,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut life: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let most = usize::try_from(life).unwrap_or(usize::MAX).min(buffer.len());
        let Some(part) = buffer.get_mut(..most).filter(|part| !part.is_empty()) else { return Ok(()) };
        let read = from.read(part).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        node.alive().await;
        to.write_all(part.get(..read).unwrap_or_default()).await?;
        life = life.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
    }
}

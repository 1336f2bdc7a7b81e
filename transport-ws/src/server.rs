//! The accepting side: an [`Endpoint`] that serves upgraded connections, and a [`Server`] with a port of its own.
//!
//! ```text
//! own port:      TcpListener ─► TLS ─► request head ─┐
//! somebody's:    their HTTP server ─► request parts ─┴─► handshake::accept ─► Endpoint::serve ─► driver
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::RunService;
use bytes::Bytes;
use http::{StatusCode, request};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time;

use crate::config::Config;
use crate::counters::Counters;
use crate::dialect::Dialect;
use crate::driver::{self, session::Shared};
use crate::error::Error;
use crate::handshake::{self, Refusal, Upgrade};
use crate::head;
use crate::shutdown::Shutdown;

/// Serves WebSocket connections of a service. Clones serve the same.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
    shutdown: Shutdown,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint for a service whose inputs and events are of a dialect.
    pub fn new(service: Arc<dyn RunService>, dialect: Arc<dyn Dialect>, mut config: Config) -> Self {
        config.limits = config.limits.at_least_one();
        let counters = Counters::default();
        let shutdown = Shutdown::new(counters.clone());
        Self { shared: Arc::new(Shared { service, dialect, config, counters }), shutdown }
    }

    /// Decides about a request: see [`handshake::accept`]. `agent` is what its path names.
    pub fn accept(
        &self,
        head: &request::Parts,
        agent: Option<&str>,
        peer: Option<String>,
    ) -> Result<Upgrade, Refusal> {
        let decision = if self.shutdown.is_stopping() {
            Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server stops: connect elsewhere, or later",
            ))
        } else {
            handshake::accept(&self.shared.config.admission, head, agent, peer)
        };
        match &decision {
            Ok(_) => self.shared.counters.accepted(),
            Err(_) => self.shared.counters.refused(),
        }
        decision
    }

    /// Drives a connection whose upgrade was answered, to its end. Dropping the future drops the connection.
    pub async fn serve<IO>(&self, io: IO, upgrade: Upgrade)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let _open = self.shared.counters.open_connection();
        self.drive(io, Vec::new(), upgrade).await;
    }

    async fn drive<IO>(&self, io: IO, unread: Vec<u8>, upgrade: Upgrade)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin,
    {
        driver::run(Arc::clone(&self.shared), io, unread, upgrade, self.shutdown.listener()).await;
    }

    /// What it does and has done.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }

    /// Stops it.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }
}

/// An [`Endpoint`] with a port of its own.
///
/// | path | what |
/// |---|---|
/// | `/ws` | the protocol `aqueduct.v1` |
/// | `/agents/{name}/ws` | the plain mode, or `aqueduct.v1` with that agent as default |
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    endpoint: Endpoint,
    #[cfg(feature = "tls")]
    tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
}

impl Server {
    /// Binds a port. Bind to a loopback address unless the network is meant to reach it.
    pub async fn bind(address: SocketAddr, endpoint: Endpoint) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            listener,
            endpoint,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Speaks TLS only.
    #[cfg(feature = "tls")]
    pub fn with_tls(mut self, tls: crate::tls::ServerTls) -> Result<Self, Error> {
        self.tls = Some(tls.into_config(crate::tls::PROTOCOLS)?);
        Ok(self)
    }

    /// The address it is bound to.
    pub fn local_address(&self) -> Result<SocketAddr, Error> {
        Ok(self.listener.local_addr()?)
    }

    /// Accepts until its [`Shutdown`] stops it. Every connection is a task of its own; dropping this future stops
    /// accepting and leaves the connections alone.
    pub async fn serve(self) {
        let stopping = self.endpoint.shutdown.listener().stopping();
        tokio::select! {
            () = stopping => {}
            () = self.accept_all() => {}
        }
    }

    async fn accept_all(&self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer),
                // Out of file descriptors, mostly. The pause keeps the loop from spinning until some are free.
                Err(_) => time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let limits = &self.endpoint.shared.config.limits;
        let open = self.endpoint.shared.counters.open_connection();
        if self.endpoint.shared.counters.snapshot().connections > limits.connections as u64 {
            self.endpoint.shared.counters.refused();
            return;
        }
        // Both are tuning: a socket that refuses them still works.
        stream.set_nodelay(true).unwrap_or_default();
        SockRef::from(&stream).set_send_buffer_size(limits.send_buffer).unwrap_or_default();
        let endpoint = self.endpoint.clone();
        #[cfg(feature = "tls")]
        if let Some(config) = self.tls.clone() {
            let tls = tokio_rustls::TlsAcceptor::from(config);
            tokio::spawn(async move {
                let _open = open;
                let patience = endpoint.shared.config.timeouts.head;
                if let Ok(Ok(stream)) = time::timeout(patience, tls.accept(stream)).await {
                    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let certificate = certificate.map(|first| Bytes::copy_from_slice(first));
                    endpoint.welcome(stream, peer, certificate).await;
                }
            });
            return;
        }
        tokio::spawn(async move {
            let _open = open;
            endpoint.welcome(stream, peer, None).await;
        });
    }
}

impl Endpoint {
    /// Reads the request of a fresh connection, answers it, and serves it if it may be served.
    async fn welcome<IO>(self, mut io: IO, peer: SocketAddr, certificate: Option<Bytes>)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let config = &self.shared.config;
        let reading = head::read(&mut io, config.limits.head_bytes);
        let decision = match time::timeout(config.timeouts.head, reading).await {
            Ok(Ok(request)) => self.route(request, peer),
            Ok(Err(head::HeadError::Gone)) => return,
            Ok(Err(head::HeadError::Refused(refusal))) => Err(refusal),
            Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request took too long")),
        };
        match decision {
            Ok((mut upgrade, unread)) => {
                upgrade.caller.certificate = certificate;
                if io.write_all(&head::write_upgrade(&upgrade.response())).await.is_ok() {
                    // Boxed, so that room for the request is not kept while the connection is served.
                    Box::pin(self.drive(io, unread, upgrade)).await;
                }
            }
            Err(refusal) => head::refuse(io, &refusal, config.timeouts.close).await,
        }
    }

    fn route(&self, request: head::Head, peer: SocketAddr) -> Result<(Upgrade, Vec<u8>), Refusal> {
        // Before the path is looked at: a page that may not connect must not learn what is here.
        handshake::check_admission(&self.shared.config.admission, &request.parts.headers)
            .inspect_err(|_| self.shared.counters.refused())?;
        let path = request.parts.uri.path();
        let agent = path.strip_prefix("/agents/").and_then(|rest| rest.strip_suffix("/ws"));
        let agent = agent.filter(|name| !name.is_empty() && !name.contains('/'));
        if agent.is_none() && path != "/ws" {
            self.shared.counters.refused();
            let message = "nothing here: connect to /ws or /agents/{name}/ws";
            return Err(Refusal::new(StatusCode::NOT_FOUND, message));
        }
        let upgrade = self.accept(&request.parts, agent, Some(peer.to_string()))?;
        Ok((upgrade, request.unread))
    }
}

/// How long to wait after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

//! A scripted service, a protocol whose payloads can be read, and a peer that writes raw frames.

mod raw;
mod service;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use aqueduct_transport_http::{Admission, CancelToken, Counters, Drained, Gauge, Server, ServerConfig};
use aqueduct_transport_ws::client::{Client, ConnectOptions};
use aqueduct_transport_ws::{Config, Endpoint};

pub(crate) use raw::{Frame, RawPeer, frame, masked, request};
pub(crate) use service::{ScriptedService, TestProtocol, delta, started};

/// Set when anything panics: a task that does would otherwise go unnoticed.
static PANICKED: AtomicBool = AtomicBool::new(false);

fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.store(true, Ordering::SeqCst);
            usual(info);
        }));
    });
}

/// A connection over an in-memory pipe to an endpoint, without a server.
pub(crate) struct Mounted {
    pub(crate) stop: CancelToken,
    pub(crate) service: Arc<ScriptedService>,
    pub(crate) endpoint: Endpoint,
    pub(crate) peer: RawPeer<tokio::io::DuplexStream>,
}

impl Mounted {
    /// Upgrades as an HTTP server would, from the parts of a request.
    pub(crate) fn new(config: Config, pipe: usize, headers: &[(&str, &str)], agent: Option<&str>) -> Self {
        watch_for_panics();
        let service = ScriptedService::new();
        let endpoint = Endpoint::new(Arc::clone(&service) as _, Arc::new(TestProtocol), config);
        let mut builder = http::Request::get("/anywhere");
        let usual = [
            ("host", "localhost"),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        for (name, value) in usual.iter().chain(headers) {
            builder = builder.header(*name, *value);
        }
        let parts = builder.body(()).unwrap().into_parts().0;
        let mut upgrade = endpoint.accept(&parts, agent).unwrap();
        let stop = CancelToken::new();
        upgrade.stopping.closing = stop.clone();
        upgrade.stopping.draining = stop.clone();
        assert_eq!(upgrade.response().status(), 101);
        let (io, served) = tokio::io::duplex(pipe);
        let serving = endpoint.clone();
        tokio::spawn(async move { serving.serve(served, upgrade).await });
        Self { stop, service, endpoint, peer: RawPeer { io } }
    }

    /// With the protocol `aqueduct.v1.json`.
    pub(crate) fn mux(config: Config, pipe: usize) -> Self {
        Self::new(config, pipe, &[("sec-websocket-protocol", "aqueduct.v1.json")], None)
    }
}

/// An endpoint alone on a server, gone when dropped.
pub(crate) struct Host {
    pub(crate) service: Arc<ScriptedService>,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancelToken,
    /// The counts of the server's sockets.
    pub(crate) sockets: Counters,
    task: tokio::task::JoinHandle<Drained>,
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), ScriptedService::new(), config).await
    }

    pub(crate) async fn on(address: SocketAddr, service: Arc<ScriptedService>, config: Config) -> Self {
        let mut server = ServerConfig::default();
        server.timeouts.write_stall = config.timeouts.stall;
        Self::served(address, service, config, server, Admission::default()).await
    }

    pub(crate) async fn served(
        address: SocketAddr,
        service: Arc<ScriptedService>,
        config: Config,
        server: ServerConfig,
        admission: Admission,
    ) -> Self {
        watch_for_panics();
        let endpoint = Endpoint::new(Arc::clone(&service) as _, Arc::new(TestProtocol), config);
        let server = Server::bind(address, server).await.unwrap();
        let (address, stop, sockets) = (server.local_addr().unwrap(), CancelToken::new(), server.counters());
        let task = tokio::spawn(server.serve(admission.apply(endpoint.router()), stop.clone()));
        Self { service, endpoint, address, stop, sockets, task }
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stopped(&mut self) -> Drained {
        self.stop.cancel();
        (&mut self.task).await.unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.url())
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.options()).await.unwrap()
    }

    /// A raw peer that speaks `aqueduct.v1.json`.
    pub(crate) async fn raw(&self) -> RawPeer {
        RawPeer::connect(self.address, "/ws", &[("Sec-WebSocket-Protocol", "aqueduct.v1.json")]).await
    }

    /// A raw peer in plain mode.
    pub(crate) async fn plain(&self, agent: &str) -> RawPeer {
        RawPeer::connect(self.address, &format!("/agents/{agent}/ws"), &[]).await
    }

    pub(crate) fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    /// Waits until nothing is open any more: sockets, connections, runs, publishers, and the service's streams.
    #[track_caller]
    pub(crate) fn settles(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let nothing = || {
                let counters = self.counters();
                let open = [Gauge::Connections, Gauge::Streams, Gauge::Publishers];
                open.iter().all(|gauge| counters.gauge(*gauge) == 0)
                    && self.sockets.gauge(Gauge::Connections) == 0
                    && self.service.watchers() == 0
            };
            let ok = within(Duration::from_secs(20), nothing).await;
            assert!(!PANICKED.load(Ordering::SeqCst), "{caller}: something panicked");
            assert!(ok, "{caller}: {:?}, {} watchers", self.counters(), self.service.watchers());
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Yields until a condition holds; false if it does not in time.
pub(crate) async fn within(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(patience, wait).await.is_ok()
}

/// The next event of a run as (number, payload).
pub(crate) async fn next(events: &mut aqueduct_transport_ws::client::RunEvents) -> (u64, String) {
    let event = events.next().await.expect("the run ended").expect("the run failed");
    (event.number, String::from_utf8(event.data.to_vec()).unwrap())
}

/// All payloads until the end of a run.
pub(crate) async fn rest(events: &mut aqueduct_transport_ws::client::RunEvents) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        all.push((event.number, String::from_utf8(event.data.to_vec()).unwrap()));
    }
    all
}

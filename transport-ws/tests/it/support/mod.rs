//! A scripted service, a dialect whose payloads can be read, and a peer that writes raw frames.

mod raw;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_transport_ws::client::{Client, ConnectOptions};
use aqueduct_transport_ws::{Config, Counters, Endpoint, Server, Shutdown};

pub(crate) use raw::{Frame, RawPeer, frame, masked};
pub(crate) use service::{Ingested, ScriptedService, TestDialect, delta, started};

/// A server on a port of its own, gone when dropped.
pub(crate) struct Host {
    pub(crate) service: Arc<ScriptedService>,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), ScriptedService::new(), config).await
    }

    pub(crate) async fn on(address: SocketAddr, service: Arc<ScriptedService>, config: Config) -> Self {
        let endpoint = Endpoint::new(Arc::clone(&service) as _, Arc::new(TestDialect), config);
        let server = Server::bind(address, endpoint.clone()).await.unwrap();
        let address = server.local_address().unwrap();
        let task = tokio::spawn(server.serve());
        Self { service, endpoint, address, task }
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

    pub(crate) fn shutdown(&self) -> Shutdown {
        self.endpoint.shutdown()
    }

    /// Waits until nothing is open any more: connections, runs, publishers, and the service's streams.
    #[track_caller]
    pub(crate) fn settles(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let nothing = || {
                let now = self.counters().snapshot();
                now.connections == 0 && now.runs == 0 && now.publishers == 0 && self.service.watchers() == 0
            };
            let ok = within(Duration::from_secs(20), nothing).await;
            assert!(ok, "{caller}: {:?}, {} watchers", self.counters().snapshot(), self.service.watchers());
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

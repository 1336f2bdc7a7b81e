//! A server whose connections live on threads of their own.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::{
    CancelToken, Client, ClientConfig, Drained, Gauge, Server, ServerConfig, Timeouts, Workers,
};
use axum::Router;
use axum::routing::get;
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, ScriptedService, eventually, post, read_until, routes, script, soon};

async fn start(router: Router, config: ServerConfig, workers: &Workers) -> Running {
    let server = Server::bind("127.0.0.1:0", config).await.unwrap().on_workers(workers);
    let (addr, counters, shutdown) = (server.local_addr().unwrap(), server.counters(), CancelToken::new());
    let ended = tokio::spawn(server.serve(router, shutdown.clone()));
    Running { addr, counters, shutdown, ended }
}

/// Answers with the thread of the connection, and the thread of a task that the request spawned.
async fn threads() -> String {
    let name = || std::thread::current().name().unwrap_or_default().to_owned();
    let spawned = tokio::spawn(async move { name() }).await.unwrap();
    format!("at {} and {spawned}.", name())
}

#[tokio::test]
async fn connections_are_spread_and_stay_on_their_thread() {
    let workers = Workers::start(2).unwrap();
    let server = start(Router::new().route("/", get(threads)), ServerConfig::default(), &workers).await;
    let (mut sockets, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    for _ in 0..6 {
        let mut socket = server.connect().await;
        for _ in 0..2 {
            socket.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let answer = read_until(&mut socket, ".").await;
            *seen.entry(answer.split("\r\n\r\n").nth(1).unwrap().to_owned()).or_default() += 1;
        }
        sockets.push(socket);
    }
    let [one, other] = ["at worker-0 and worker-0.", "at worker-1 and worker-1."].map(str::to_owned);
    assert_eq!(seen, BTreeMap::from([(one, 6), (other, 6)]));
    drop(sockets);
    server.is_empty().await;
}

#[tokio::test]
async fn a_server_on_workers_drains_and_cuts() {
    let workers = Workers::start(2).unwrap();
    let service = ScriptedService::new(|_| {
        let events = futures_util::stream::iter(script(&["first"])[..1].to_vec());
        Box::pin(events.chain(futures_util::stream::pending()))
    });
    let timeouts = Timeouts { drain: Duration::from_millis(100), ..Timeouts::default() };
    let config = ServerConfig { timeouts, ..ServerConfig::default() };
    let server = start(routes(&service), config, &workers).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
        stream.next().await.unwrap().unwrap();
        streams.push(stream);
    }
    server.shutdown.cancel();
    assert_eq!(soon("the end", server.ended).await.unwrap(), Drained { cut: 4 });
    eventually("no run", || service.open.load(Ordering::SeqCst) == 0).await;
    assert_eq!(server.counters.gauge(Gauge::Connections), 0);
}

#[tokio::test]
async fn dropped_workers_drop_their_connections() {
    let workers = Workers::start(1).unwrap();
    let service = ScriptedService::new(|_| {
        let events = futures_util::stream::iter(script(&["first"])[..1].to_vec());
        Box::pin(events.chain(futures_util::stream::pending()))
    });
    let server = start(routes(&service), ServerConfig::default(), &workers).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(workers);
    assert!(soon("the cut", stream.next()).await.unwrap().is_err());
    assert_eq!(service.open.load(Ordering::SeqCst), 0);
    server.is_empty().await;
}

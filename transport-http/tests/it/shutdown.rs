//! A server that is asked to stop: no new work, open streams may end, the rest is cut after the limit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::{
    Client, ClientConfig, Drained, Error, Gauge, QuotaLimits, Quotas, Server, ServerConfig, Timeouts,
};
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use crate::support::{
    Running, ScriptedService, eventually, post, raw_post, read_to_close, read_until, ready, routes, script,
    soon,
};

/// Runs that say something, and end when they are told to.
fn service(go: &watch::Sender<bool>) -> std::sync::Arc<ScriptedService> {
    let go = go.subscribe();
    ScriptedService::new(move |_| {
        let mut go = go.clone();
        let events = script(&["first", "last"]);
        let start = ready(events[..1].to_vec());
        let rest = futures_util::stream::once(async move {
            go.wait_for(|go| *go).await.unwrap();
            futures_util::stream::iter(events[1..].to_vec())
        });
        Box::pin(start.chain(rest.flatten()))
    })
}

#[tokio::test]
async fn open_streams_end_by_themselves_and_idle_connections_at_once() {
    let go = watch::Sender::new(false);
    let server = Running::start(routes(&service(&go)), ServerConfig::default()).await;
    let mut silent = server.connect().await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    eventually("both", || server.counters.gauge(Gauge::Connections) == 2).await;

    server.shutdown.cancel();
    assert_eq!(read_to_close(&mut silent).await, "");
    eventually("the listener is gone", || std::net::TcpStream::connect(server.addr).is_err()).await;
    assert!(!server.ended.is_finished(), "a stream is open");
    go.send_replace(true);
    let rest: Vec<_> = stream.map(|event| event.unwrap().data).collect().await;
    assert_eq!(rest, ["last", "end"]);
    assert_eq!(soon("the end", server.ended).await.unwrap(), Drained { cut: 0 });
    assert_eq!((server.counters.gauge(Gauge::Connections), server.counters.gauge(Gauge::Requests)), (0, 0));
}

#[tokio::test]
async fn a_stream_that_does_not_end_is_cut() {
    let go = watch::Sender::new(false);
    let service = service(&go);
    let timeouts = Timeouts { drain: Duration::from_millis(100), ..Timeouts::default() };
    let server = Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    server.shutdown.cancel();
    assert_eq!(soon("the end", server.ended).await.unwrap(), Drained { cut: 1 });
    assert!(matches!(stream.next().await, Some(Err(Error::Cut { .. }))), "seen as a cut, not as an end");
    eventually("no run", || service.open.load(Ordering::SeqCst) == 0).await;
    assert_eq!((server.counters.gauge(Gauge::Connections), server.counters.gauge(Gauge::Requests)), (0, 0));
}

#[tokio::test]
async fn a_used_connection_closes_after_its_response() {
    let go = watch::Sender::new(false);
    let server = Running::start(routes(&service(&go)), ServerConfig::default()).await;
    let mut socket = server.connect().await;
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    read_until(&mut socket, "data: first\n\n").await;
    server.shutdown.cancel();
    go.send_replace(true);
    assert!(read_to_close(&mut socket).await.ends_with("0\r\n\r\n"));
    soon("the end", server.ended).await.unwrap();
}

/// A peer over its limit that sends nothing is not waited for.
#[tokio::test]
async fn a_refused_connection_without_a_request_ends_at_once() {
    let limits = QuotaLimits { connections_per_peer: 1, ..QuotaLimits::default() };
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let server = server.with_quotas(Quotas::new(limits));
    let server = Running::serve(routes(&service(&watch::Sender::new(false))), server);
    let (mut first, mut refused) = (server.connect().await, server.connect().await);
    eventually("both", || server.counters.gauge(Gauge::Connections) == 2).await;
    server.shutdown.cancel();
    assert_eq!((read_to_close(&mut first).await, read_to_close(&mut refused).await), <_>::default());
    assert_eq!(soon("the end", server.ended).await.unwrap(), Drained { cut: 0 });
}

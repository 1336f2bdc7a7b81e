//! HTTP/2 without TLS: many streams in one connection, each with its own fate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_core::service::NumberedEvent;
use aqueduct_transport_http::{
    Client, ClientConfig, Gauge, HttpVersions, Limits, ServerConfig, Timeouts, Total,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt as _;

use crate::h2_peer::{self as h2, H2Peer};
use crate::support::{Running, ScriptedService, delta, eventually, post, ready, routes, script, soon};

fn client() -> Client {
    Client::new(ClientConfig { versions: HttpVersions::Http2, ..ClientConfig::default() }).unwrap()
}

/// `endless` floods, `pending` says nothing, anything else is said back.
fn service() -> Arc<ScriptedService> {
    ScriptedService::new(|text| match text {
        "endless" => {
            let text = "x".repeat(1000);
            Box::pin(futures_util::stream::iter(
                (1..).map(move |number| NumberedEvent { number, event: delta(&*text) }),
            ))
        }
        "pending" => Box::pin(
            futures_util::stream::iter(script(&["first"]).into_iter().take(1))
                .chain(futures_util::stream::pending()),
        ),
        text => ready(script(&[text])),
    })
}

#[tokio::test]
async fn streams_share_a_connection() {
    let service = service();
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let client = client();
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = client.open_stream(post(&server.uri("/"), "pending")).await.unwrap();
        assert_eq!(&*stream.next().await.unwrap().unwrap().data, "first");
        open.push(stream);
    }
    assert_eq!(server.counters.total(Total::Connections), 1);
    assert_eq!(server.counters.gauge(Gauge::Requests), 20);
    // One reader that leaves is noticed at once, and the others stay.
    drop(open.pop());
    eventually("one run fewer", || service.open.load(Ordering::SeqCst) == 19).await;
    let events: Vec<_> =
        client.open_stream(post(&server.uri("/"), "hello")).await.unwrap().try_collect().await.unwrap();
    assert_eq!(&*events[0].data, "hello");
    drop((open, client));
    eventually("no run", || service.open.load(Ordering::SeqCst) == 0).await;
    server.is_empty().await;
}

#[tokio::test]
async fn a_stream_whose_window_stays_shut_is_reset_and_the_others_live() {
    let service = service();
    let timeouts = Timeouts { write_stall: Duration::from_millis(200), ..Timeouts::default() };
    let server = Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await;
    // A client of its own making: the windows of streams are small, that of the connection is not.
    let socket = server.connect().await;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(8 * 1024)
        .initial_connection_window_size(8 * 1024 * 1024)
        .handshake::<_, Full<Bytes>>(TokioIo::new(socket))
        .await
        .unwrap();
    tokio::spawn(connection);
    let stalled = sender.send_request(post(&server.uri("/"), "endless").map(Full::new)).await.unwrap();
    let mut quiet =
        sender.send_request(post(&server.uri("/"), "pending").map(Full::new)).await.unwrap().into_body();
    quiet.frame().await.unwrap().unwrap();

    eventually("the stalled run is dropped", || {
        server.counters.total(Total::WriteStalls) == 1 && service.open.load(Ordering::SeqCst) == 1
    })
    .await;
    let other = sender.send_request(post(&server.uri("/"), "hello").map(Full::new)).await.unwrap();
    let text = other.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "data: hello\n\ndata: end\n\n");
    let rest = soon("the reset", stalled.into_body().collect()).await;
    assert!(rest.is_err(), "it does not end as if it were whole");
    assert_eq!(server.counters.gauge(Gauge::Requests), 1, "the quiet one");
}

#[tokio::test]
async fn a_head_too_long_is_refused() {
    let server = Running::start(routes(&service()), ServerConfig::default()).await;
    let mut request = post(&server.uri("/"), "x");
    request.headers_mut().insert("x-long", "y".repeat(20 * 1024).parse().unwrap());
    match client().request(request).await {
        Ok(response) => assert_eq!(response.status(), 431),
        Err(error) => assert!(error.to_string().contains("http2"), "{error}"),
    }
    let events: Vec<_> =
        client().open_stream(post(&server.uri("/"), "well")).await.unwrap().try_collect().await.unwrap();
    assert_eq!(&*events[0].data, "well");
}

#[tokio::test]
async fn no_more_streams_than_allowed() {
    let limits = Limits { streams_per_connection: 3, ..Limits::default() };
    let service = service();
    let server = Running::start(routes(&service), ServerConfig { limits, ..ServerConfig::default() }).await;
    let client = client();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(client.open_stream(post(&server.uri("/"), "pending")).await.unwrap());
    }
    let fourth = client.open_stream(post(&server.uri("/"), "pending"));
    tokio::pin!(fourth);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut fourth).await.is_err(), "it waits");
    assert_eq!(service.open.load(Ordering::SeqCst), 3);
    drop(open.pop());
    assert!(soon("the fourth", fourth).await.is_ok());
}

#[tokio::test]
async fn a_connection_without_streams_is_closed() {
    let timeouts =
        Timeouts { idle: Duration::from_millis(200), ping: Duration::from_millis(50), ..Timeouts::default() };
    let server =
        Running::start(routes(&service()), ServerConfig { timeouts, ..ServerConfig::default() }).await;
    let client = client();
    let _: Vec<_> =
        client.open_stream(post(&server.uri("/"), "x")).await.unwrap().try_collect().await.unwrap();
    server.is_empty().await;
    assert_eq!(server.counters.total(Total::IdleTimeouts), 1);
    drop(client);
}

/// curl reports a reset that follows an answer instead of the answer.
#[tokio::test]
async fn an_answer_before_the_body_is_not_followed_by_a_reset() {
    let server = Running::start(routes(&service()), ServerConfig::default()).await;
    let mut peer = H2Peer::connect(server.addr).await;
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/"),
        ("content-type", "application/json"),
        ("authorization", "Bearer wrong"),
    ];
    peer.0.write_all(&h2::frame(h2::HEADERS, h2::END_HEADERS, 1, &h2::fields(&head))).await.unwrap();
    // The answer is complete although the body has not come.
    while peer.read_frame().await.1 & h2::END_STREAM == 0 {}
    let rest = [h2::frame(h2::DATA, 0, 1, b"{\"text\":"), h2::frame(h2::DATA, h2::END_STREAM, 1, b"1}")];
    peer.0.write_all(&rest.concat()).await.unwrap();
    peer.0.write_all(&h2::frame(h2::PING, 0, 0, &[7; 8])).await.unwrap();
    loop {
        match peer.read_frame().await.0 {
            h2::RST_STREAM | h2::GOAWAY => panic!("the stream was reset"),
            h2::PING => break,
            _ => {}
        }
    }
    drop(peer);
    server.is_empty().await;
}

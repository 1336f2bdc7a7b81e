//! Peers that send too much, too slowly, nonsense or nothing, and peers that vanish: each gets a clear answer or is
//! closed, a good one is served meanwhile, and in the end nothing is left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::{
    BodyLimitLift, Client, ClientConfig, Gauge, Limits, ServerConfig, Timeouts, Total,
};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use tokio::io::AsyncWriteExt as _;

use crate::support::{
    Running, ScriptedService, eventually, post, raw_post, read_to_close, read_until, ready, routes, script,
};

const SHORT: Duration = Duration::from_millis(200);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn patient() -> Timeouts {
    Timeouts { header: LONG, body: LONG, idle: LONG, write_stall: LONG, ..Timeouts::default() }
}

async fn start(timeouts: Timeouts) -> Running {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await
}

/// A good peer is served, and then nothing is left open.
async fn is_well(server: &Running) {
    let client = Client::new(ClientConfig::default()).unwrap();
    let events: Vec<_> =
        client.open_stream(post(&server.uri("/"), "well")).await.unwrap().try_collect().await.unwrap();
    assert_eq!(&*events[0].data, "well");
    drop(client);
    server.is_empty().await;
}

#[track_caller]
fn assert_status(answer: &str, statuses: &[&str]) {
    let found = statuses.iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status}")));
    assert!(found, "expected {statuses:?}: {answer:?}");
}

#[tokio::test]
async fn garbage_is_answered_or_closed() {
    let server = start(patient()).await;
    let garbage: [&[u8]; 6] = [
        b"\x00\x01\x02\xff\xfe\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello tls\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for bytes in garbage {
        let answer = server.exchange(bytes).await;
        assert!(!answer.contains("HTTP/1.1 2"), "{bytes:?}: {answer:?}");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let server = start(patient()).await;
    let mut many = b"GET / HTTP/1.1\r\nHost: localhost\r\n".to_vec();
    for number in 0..10_000 {
        many.extend_from_slice(format!("x-{number}: y\r\n").as_bytes());
    }
    assert_status(&server.exchange(&many).await, &["431"]);
    let one = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1024 * 1024]].concat();
    assert_status(&server.exchange(&one).await, &["431"]);
    is_well(&server).await;
}

#[tokio::test]
async fn an_endless_request_line_is_cut_off() {
    let server = start(patient()).await;
    let line = [b"GET /".to_vec(), vec![b'x'; 1024 * 1024]].concat();
    assert_status(&server.exchange(&line).await, &["431", "414"]);
    is_well(&server).await;
}

#[tokio::test]
async fn a_slow_head_is_closed() {
    let server = start(Timeouts { header: SHORT, ..patient() }).await;
    for head in ["P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHo", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut socket = server.connect().await;
        socket.write_all(head.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut socket).await;
        assert!(!answer.contains("200"), "{head}: {answer}");
    }
    assert_eq!(server.counters.total(Total::HeaderTimeouts), 4);
    is_well(&server).await;
}

#[tokio::test]
async fn a_head_byte_by_byte_does_not_extend_its_time() {
    let server = start(Timeouts { header: SHORT, ..patient() }).await;
    let mut socket = server.connect().await;
    let began = std::time::Instant::now();
    let mut ticks = tokio::time::interval(SHORT / 10);
    socket.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    while server.counters.total(Total::HeaderTimeouts) == 0 {
        ticks.tick().await;
        socket.write_all(b"x: y\r\n").await.ok();
    }
    assert!(began.elapsed() < SHORT * 20);
    is_well(&server).await;
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let server = start(Timeouts { idle: SHORT, ..patient() }).await;
    let mut silent = server.connect().await;
    assert_eq!(read_to_close(&mut silent).await, "");
    // After a response, too.
    let mut used = server.connect().await;
    used.write_all(raw_post("x").as_bytes()).await.unwrap();
    assert!(read_to_close(&mut used).await.contains("data: end"));
    assert_eq!(server.counters.total(Total::IdleTimeouts), 2);
    is_well(&server).await;
}

#[tokio::test]
async fn a_connection_is_reused_within_its_idle_time() {
    let server = start(Timeouts { header: SHORT, ..patient() }).await;
    let mut socket = server.connect().await;
    for _ in 0..3 {
        socket.write_all(raw_post("x").as_bytes()).await.unwrap();
        read_until(&mut socket, "\r\n0\r\n\r\n").await;
    }
    // Quiet between requests for longer than a head may take: the limit is another one.
    assert!(tokio::time::timeout(SHORT * 2, read_to_close(&mut socket)).await.is_err());
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    read_until(&mut socket, "\r\n0\r\n\r\n").await;
    assert_eq!(server.counters.total(Total::Connections), 1);
}

#[tokio::test]
async fn a_slow_body_is_refused() {
    let server = start(Timeouts { body: SHORT, ..patient() }).await;
    let mut socket = server.connect().await;
    let post = raw_post("a prompt that does not arrive");
    socket.write_all(&post.as_bytes()[..post.len() - 5]).await.unwrap();
    let answer = read_to_close(&mut socket).await;
    assert_status(&answer, &["408"]);
    assert!(answer.contains("body_too_slow"), "{answer}");
    is_well(&server).await;
}

#[tokio::test]
async fn a_body_too_long_is_refused_however_it_is_framed() {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    let config = ServerConfig { limits, timeouts: patient(), ..ServerConfig::default() };
    let server = Running::start(routes(&service), config).await;
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let declared = format!("{head}Content-Length: 1001\r\n\r\n{}", " ".repeat(1001));
    let huge = format!("{head}Content-Length: 99999999999\r\n\r\n{}", " ".repeat(2000));
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}",
        format!("64\r\n{}\r\n", " ".repeat(100)).repeat(30)
    );
    for request in [declared, huge, chunked] {
        assert_status(&server.exchange(request.as_bytes()).await, &["413"]);
    }
    is_well(&server).await;
}

/// Counts what it reads, for as long as it comes.
async fn count(request: axum::extract::Request) -> String {
    let lift = request.extensions().get::<BodyLimitLift>().unwrap();
    lift.lift();
    let body = http_body_util::BodyExt::collect(request.into_body()).await;
    body.map_or_else(|error| error.to_string(), |body| body.to_bytes().len().to_string())
}

#[tokio::test]
async fn a_route_may_let_its_callers_stream() {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let timeouts = Timeouts { body: SHORT, ..patient() };
    let config = ServerConfig { limits, timeouts, ..ServerConfig::default() };
    let server = Running::start(axum::Router::new().route("/", axum::routing::post(count)), config).await;
    let mut socket = server.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 40\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(SHORT / 2).await;
        socket.write_all(b"0123456789").await.unwrap();
    }
    let answer = read_to_close(&mut socket).await;
    assert!(answer.ends_with("\r\n\r\n40"), "{answer}");
    server.is_empty().await;
}

#[tokio::test]
async fn deep_json_is_refused() {
    let server = start(patient()).await;
    for open in ["[", "{\"a\":"] {
        let body = open.repeat(100_000);
        let head =
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        assert_status(&server.exchange(request.as_bytes()).await, &["400"]);
    }
    is_well(&server).await;
}

/// A service whose runs never end, and say something first.
fn endless() -> std::sync::Arc<ScriptedService> {
    ScriptedService::new(|_| {
        let first = futures_util::stream::iter(script(&["first"]).into_iter().take(1));
        Box::pin(futures_util::StreamExt::chain(first, futures_util::stream::pending()))
    })
}

#[tokio::test]
async fn a_peer_that_goes_away_is_noticed_at_once() {
    let service = endless();
    let config = ServerConfig { timeouts: patient(), ..ServerConfig::default() };
    let server = Running::start(routes(&service), config).await;
    for how in ["close", "half-close", "reset"] {
        let mut socket = server.connect().await;
        socket.write_all(raw_post("x").as_bytes()).await.unwrap();
        read_until(&mut socket, "data: first\n\n").await;
        assert_eq!(service.open.load(Ordering::SeqCst), 1);
        assert_eq!(server.counters.gauge(Gauge::Requests), 1);
        match how {
            "close" => drop(socket),
            "half-close" => {
                socket.shutdown().await.unwrap();
                read_to_close(&mut socket).await;
            }
            _ => {
                socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
                drop(socket);
            }
        }
        eventually(how, || service.open.load(Ordering::SeqCst) == 0).await;
        server.is_empty().await;
    }
}

#[tokio::test]
async fn a_reset_after_any_byte_leaves_nothing() {
    let service = endless();
    let config = ServerConfig { timeouts: patient(), ..ServerConfig::default() };
    let server = Running::start(routes(&service), config).await;
    let request = raw_post("x");
    for length in 0..=request.len() {
        let mut socket = server.connect().await;
        socket.write_all(&request.as_bytes()[..length]).await.unwrap();
        if length % 2 == 0 {
            socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
    eventually("all accepted", || server.counters.total(Total::Connections) == request.len() as u64 + 1)
        .await;
    server.is_empty().await;
    eventually("no run left", || service.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn no_more_connections_than_allowed() {
    let service = endless();
    let limits = Limits { connections: 2, ..Limits::default() };
    let config = ServerConfig { limits, timeouts: patient(), ..ServerConfig::default() };
    let server = Running::start(routes(&service), config).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = server.connect().await;
        socket.write_all(raw_post("x").as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    for socket in &mut sockets[..2] {
        read_until(socket, "data: first\n\n").await;
    }
    assert_eq!(server.counters.total(Total::Connections), 2);
    drop(sockets.remove(0));
    read_until(&mut sockets[1], "data: first\n\n").await;
    assert_eq!(server.counters.gauge(Gauge::Connections), 2);
}

#[tokio::test]
async fn routes_that_nobody_has_answer_without_reading_the_body() {
    let server = start(patient()).await;
    let answer = server
        .exchange(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n0123")
        .await;
    assert_status(&answer, &["404"]);
    let answer = Client::new(ClientConfig::default())
        .unwrap()
        .request(http::Request::get(server.uri("/")).body(Bytes::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), 405);
    is_well(&server).await;
}

//! Who may connect, and how they say who they are.

use std::time::Duration;

use aqueduct_transport_ws::client::Client;
use aqueduct_transport_ws::{Admission, Config, Error, Limits, Timeouts};

use crate::support::{Host, RawPeer, frame, masked};

const MUX: (&str, &str) = ("Sec-WebSocket-Protocol", "aqueduct.v1.json");

#[tokio::test]
async fn foreign_pages_are_refused_before_any_work() {
    let host = Host::new().await;
    for headers in [
        [MUX, ("Origin", "https://evil.example")],
        [MUX, ("Origin", "null")],
        [MUX, ("Host", "rebound.example")],
    ] {
        let mut peer = RawPeer::dial(host.address).await;
        let answer = peer.upgrade("/ws", &headers).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    }
    let now = host.counters().snapshot();
    assert_eq!((now.accepted, now.refused, host.service.calls()), (0, 3, 0));
    RawPeer::connect(host.address, "/ws", &[MUX, ("Origin", "http://localhost:5173")]).await;
    host.settles().await;
}

#[tokio::test]
async fn listed_origins_and_hosts_pass() {
    let admission = Admission {
        hosts: vec!["agents.example".into()],
        origins: vec!["https://app.example".into()],
        ..Admission::default()
    };
    let host = Host::with(Config { admission, ..Config::default() }).await;
    let headers = [MUX, ("Host", "agents.example"), ("Origin", "https://app.example")];
    RawPeer::connect(host.address, "/ws", &headers).await;
}

#[tokio::test]
async fn other_paths_and_other_requests_are_refused() {
    let host = Host::new().await;
    for (path, headers, status) in [
        ("/", [("Origin", "https://evil.example")], "403"),
        ("/", [MUX], "404"),
        ("/agents//ws", [MUX], "404"),
        ("/agents/a/b/ws", [MUX], "404"),
        ("/ws", [("Upgrade", "")], "426"),
        ("/ws", [("Sec-WebSocket-Version", "7")], "426"),
        ("/ws", [("Sec-WebSocket-Key", "x")], "400"),
        ("/ws", [("X", "no subprotocol")], "400"),
    ] {
        let mut peer = RawPeer::dial(host.address).await;
        let answer = peer.upgrade(path, &headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers:?}: {answer}");
    }
    host.settles().await;
}

#[tokio::test]
async fn endless_and_slow_heads_are_cut_off() {
    let limits = Limits { head_bytes: 2048, ..Limits::default() };
    let timeouts = Timeouts { head: Duration::from_millis(100), ..Timeouts::default() };
    let host = Host::with(Config { limits, timeouts, ..Config::default() }).await;
    let mut peer = RawPeer::dial(host.address).await;
    peer.write(b"GET /ws HTTP/1.1\r\n").await;
    peer.write("X-Filler: aaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(60).as_bytes()).await;
    assert!(peer.read_head().await.starts_with("HTTP/1.1 431 "));
    drop(peer);
    let mut slow = RawPeer::dial(host.address).await;
    slow.write(b"GET /ws HT").await;
    assert!(slow.read_head().await.starts_with("HTTP/1.1 408 "));
    drop(slow);
    for garbage in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET /ws HTTP/1.1\r\nno colon\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ] {
        let mut peer = RawPeer::dial(host.address).await;
        peer.write(garbage.as_bytes()).await;
        assert!(peer.read_head().await.starts_with("HTTP/1.1 400 "), "{garbage:?}");
    }
    let many: String = "h: x\r\n".repeat(100);
    let mut peer = RawPeer::dial(host.address).await;
    peer.write(format!("GET /ws HTTP/1.1\r\n{many}\r\n").as_bytes()).await;
    assert!(peer.read_head().await.starts_with("HTTP/1.1 400 "));
    drop(peer);
    host.settles().await;
}

#[tokio::test]
async fn frames_that_come_with_the_request_are_not_lost() {
    let host = Host::new().await;
    let mut peer = RawPeer::dial(host.address).await;
    let mut bytes = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: aqueduct.v1.json\r\n\r\n"
        .to_vec();
    bytes.extend(masked(1, br#"{"type":"list","ref":"early"}"#));
    peer.write(&bytes).await;
    assert!(peer.read_head().await.starts_with("HTTP/1.1 101 "));
    assert!(peer.message().await.text().contains("early"));
}

fn token_required(token: Duration) -> Config {
    Config {
        admission: Admission { token_required: true, ..Admission::default() },
        timeouts: Timeouts { token, ..Timeouts::default() },
        ..Config::default()
    }
}

#[tokio::test]
async fn a_token_comes_with_the_request_or_first() {
    let host = Host::with(token_required(Duration::from_secs(60))).await;
    let mut options = host.options();
    options.token = Some("header".into());
    Client::connect(&options).await.unwrap().list_agents().await.unwrap();

    let offer = ("Sec-WebSocket-Protocol", "aqueduct.v1.json, aqueduct.bearer.offered");
    let mut peer = RawPeer::connect(host.address, "/ws", &[offer]).await;
    peer.text(r#"{"type":"list","ref":"1"}"#).await;
    assert!(peer.message().await.text().contains("agents"));

    let mut peer = host.raw().await;
    peer.text(r#"{"type":"auth","token":"first"}"#).await;
    peer.text(r#"{"type":"list","ref":"1"}"#).await;
    assert!(peer.message().await.text().contains("agents"));
    peer.text(r#"{"type":"auth","token":"second"}"#).await;
    assert_eq!(peer.closed().await.unwrap().0, 4400);

    let callers = host.service.callers.lock().unwrap();
    let tokens: Vec<_> = callers.iter().map(|caller| caller.token.clone().unwrap()).collect();
    assert_eq!(tokens, ["header", "offered", "first"]);
    assert!(callers.iter().all(|caller| caller.peer.is_some()));
}

#[tokio::test]
async fn without_a_token_nothing_reaches_the_service() {
    let host = Host::with(token_required(Duration::from_millis(50))).await;
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"list","ref":"1"}"#).await;
    assert_eq!(peer.closed().await.unwrap().0, 4401);
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"dance"}"#).await;
    assert_eq!(peer.closed().await.unwrap().0, 4401);
    let mut silent = host.raw().await;
    assert_eq!(silent.closed().await.unwrap(), (4401, "no token in time".into()));
    let mut binary = host.raw().await;
    binary.write(&frame(0x82, b"\x02\0\0\0\0\0\0\0\x01\0\x01p", Some([0; 4]))).await;
    assert_eq!(binary.closed().await.unwrap(), (4401, "bring a token in `auth` first".into()));
    let mut plain = host.plain("echo").await;
    assert_eq!(plain.closed().await.unwrap().0, 4401);
    assert_eq!(host.service.calls(), 0);
    host.settles().await;
}

#[tokio::test]
async fn the_client_tells_a_refusal() {
    let host = Host::new().await;
    let mut options = host.options();
    options.url = format!("ws://{}/elsewhere", host.address);
    let error = Client::connect(&options).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { status: 404, message } if message.contains("/ws")), "{error}");
    options.url = "http://localhost/ws".into();
    assert!(Client::connect(&options).await.is_err());
    options.url = "ws://127.0.0.1:1/ws".into();
    assert!(matches!(Client::connect(&options).await, Err(Error::Io(_))));
    options.url = "wss://127.0.0.1:1/ws".into();
    assert!(Client::connect(&options).await.is_err());
}

#[tokio::test]
async fn a_listener_holds_as_many_connections_as_it_may() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let host = Host::with(Config { limits, ..Config::default() }).await;
    let one = host.raw().await;
    let _two = host.raw().await;
    let mut third = RawPeer::dial(host.address).await;
    assert_eq!(third.read_head().await, "");
    drop(one);
    assert!(
        crate::support::within(Duration::from_secs(5), || host.counters().snapshot().connections == 1).await
    );
    host.raw().await;
}

//! Who may connect, and how they say who they are.

use std::time::Duration;

use aqueduct_transport_http::{Admission, ServerConfig, Total};
use aqueduct_transport_ws::client::Client;
use aqueduct_transport_ws::{Config, Error, Timeouts};

use crate::support::{Host, RawPeer, ScriptedService, frame, masked};

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
    let counters = host.counters();
    assert_eq!((counters.total(Total::Connections), host.service.calls()), (0, 0));
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
    let (any, service) = ("127.0.0.1:0".parse().unwrap(), ScriptedService::new());
    let host = Host::served(any, service, Config::default(), ServerConfig::default(), admission).await;
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
    Config { token_required: true, timeouts: Timeouts { token, ..Timeouts::default() }, ..Config::default() }
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
    assert_eq!(binary.closed().await.unwrap(), (4401, "send a token in `auth` first".into()));
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
    assert!(matches!(&error, Error::Refused { status: 404, .. }), "{error}");
    options.url = "http://localhost/ws".into();
    assert!(Client::connect(&options).await.is_err());
    options.url = "ws://127.0.0.1:1/ws".into();
    assert!(matches!(Client::connect(&options).await, Err(Error::Io(_))));
    options.url = "wss://127.0.0.1:1/ws".into();
    assert!(Client::connect(&options).await.is_err());
}

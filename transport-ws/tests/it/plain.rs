//! The plain mode: one input in, one event per message out.

use aqueduct_transport_ws::{Config, Timeouts};
use std::time::Duration;

use crate::support::{Host, RawPeer, delta, masked};

#[tokio::test]
async fn one_run_without_envelopes() {
    let host = Host::new().await;
    let mut peer = host.plain("echo").await;
    peer.text(r#"{"run":"r","say":"hi"}"#).await;
    for expected in [r#"{"started":"r"}"#, r#""first""#, r#""hi""#, r#""finished""#] {
        assert_eq!(peer.message().await.text(), expected);
    }
    assert_eq!(peer.closed().await.unwrap(), (1000, "the run has ended".into()));
    host.settles().await;
}

#[tokio::test]
async fn refusals_are_close_codes() {
    let host = Host::new().await;
    for (agent, input, code) in [
        ("nobody", r#"{"run":"r"}"#, 4404),
        ("manual", "not json", 4400),
        ("manual", r#"{"no":"run"}"#, 4400),
        ("echo", r#"{"run":"r1"}"#, 1000),
        ("echo", r#"{"run":"r1"}"#, 4409),
    ] {
        let mut peer = host.plain(agent).await;
        peer.text(input).await;
        assert_eq!(peer.closed().await.unwrap().0, code, "{agent} {input}");
    }
    let mut peer = host.plain("manual").await;
    peer.write(&masked(2, b"\x01")).await;
    assert_eq!(peer.closed().await.unwrap().0, 1003);
    let mut peer = host.plain("manual").await;
    peer.text(&"[".repeat(100)).await;
    assert_eq!(peer.closed().await.unwrap().0, 4400);
    host.settles().await;
}

#[tokio::test]
async fn a_second_input_and_a_lost_run_are_told() {
    let host = Host::new().await;
    let mut peer = host.plain("manual").await;
    peer.text(r#"{"run":"r"}"#).await;
    peer.text(r#"{"run":"r2"}"#).await;
    assert_eq!(peer.closed().await.unwrap().0, 4409);
    let mut peer = host.plain("manual").await;
    peer.text(r#"{"run":"r3"}"#).await;
    assert!(crate::support::within(Duration::from_secs(5), || host.service.watchers() == 1).await);
    host.service.push("r3", delta("x"));
    assert_eq!(peer.message().await.text(), r#""x""#);
    host.service.lose("r3");
    assert_eq!(peer.closed().await.unwrap().0, 1011);
}

#[tokio::test]
async fn the_plain_mode_has_a_name_for_browsers_that_bring_a_token() {
    let host = Host::new().await;
    let mut peer = RawPeer::dial(host.address).await;
    let offer = [("Sec-WebSocket-Protocol", "aqueduct.v1.plain, aqueduct.bearer.tok")];
    let head = peer.upgrade("/agents/echo/ws", &offer).await;
    assert!(head.to_lowercase().contains("sec-websocket-protocol: aqueduct.v1.plain\r\n"), "{head}");
    assert!(!head.contains("tok"));
    peer.text(r#"{"run":"r"}"#).await;
    assert_eq!(peer.closed().await.unwrap().0, 1000);
    assert_eq!(host.service.callers.lock().unwrap()[0].token.as_deref(), Some("tok"));
}

#[tokio::test]
async fn an_input_that_does_not_come_is_not_waited_for() {
    let timeouts = Timeouts { input: Duration::from_millis(50), ..Timeouts::default() };
    let host = Host::with(Config { timeouts, ..Config::default() }).await;
    let mut peer = host.plain("echo").await;
    assert_eq!(peer.closed().await.unwrap().0, 4408);
    host.settles().await;
}

//! Time: pings, dead peers, late tokens. The clock is paused, so an hour passes in a moment.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::Gauge;
use aqueduct_transport_ws::Config;
use tokio::time::{Instant, timeout};

use crate::support::{Mounted, masked};

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_asked_and_then_closed() {
    let Mounted { service, endpoint, mut peer, .. } = Mounted::mux(Config::default(), 4096);
    service.open_run("r");
    peer.text(r#"{"type":"watch","ref":"w","run":"r"}"#).await;
    assert!(peer.message().await.text().contains("watching"));
    let start = Instant::now();
    assert_eq!(peer.read().await.unwrap().opcode, 9);
    assert_eq!(start.elapsed().as_secs(), 20);
    let reading = timeout(Duration::from_secs(60), async { peer.io_close_code().await });
    assert_eq!(reading.await.unwrap(), 4408);
    assert_eq!(start.elapsed().as_secs(), 40);
    // The service hears of it at once, whatever the peer does next.
    assert_eq!(service.watchers(), 0);
    assert_eq!(peer.read().await, None);
    assert_eq!(endpoint.counters().gauge(Gauge::Connections), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_stays_for_hours() {
    let Mounted { endpoint, mut peer, .. } = Mounted::mux(Config::default(), 4096);
    for _ in 0..500 {
        let ping = timeout(Duration::from_secs(30), peer.read()).await.unwrap().unwrap();
        assert_eq!(ping.opcode, 9);
        peer.write(&masked(10, &ping.payload)).await;
    }
    // Anything it says counts as life.
    peer.text(r#"{"type":"list","ref":"l"}"#).await;
    assert!(peer.message().await.text().contains("agents"));
    assert_eq!(endpoint.counters().gauge(Gauge::Connections), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_must_come_within_five_seconds() {
    let config = Config { token_required: true, ..Config::default() };
    let Mounted { mut peer, .. } = Mounted::mux(config, 4096);
    let start = Instant::now();
    assert_eq!(peer.io_close_code().await, 4401);
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_token_must_come_where_the_service_admits_nobody_without() {
    let Mounted { service, mut peer, .. } = Mounted::mux(Config::default(), 4096);
    service.wants_tokens.store(true, Ordering::SeqCst);
    let start = Instant::now();
    assert_eq!(peer.io_close_code().await, 4401);
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(service.calls(), 0);
    let with_token = ("sec-websocket-protocol", "aqueduct.v1.json, aqueduct.bearer.t");
    let Mounted { service, mut peer, .. } = Mounted::new(Config::default(), 4096, &[with_token], None);
    service.wants_tokens.store(true, Ordering::SeqCst);
    assert_eq!(peer.read().await.unwrap().opcode, 9, "it stays, and is asked for a pong");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_close_is_left() {
    let Mounted { endpoint, mut peer, .. } = Mounted::mux(Config::default(), 4096);
    peer.text("no message").await;
    assert_eq!(peer.io_close_code().await, 4400);
    let start = Instant::now();
    assert_eq!(peer.read().await, None);
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(endpoint.counters().gauge(Gauge::Connections), 0);
}

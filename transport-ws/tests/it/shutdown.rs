//! Stopping: everybody is told, nobody is waited for without end.

use std::time::Duration;

use aqueduct_transport_http::{Drained, Gauge};
use aqueduct_transport_ws::client::Client;
use aqueduct_transport_ws::{CloseReason, Config};

use crate::support::{Host, Mounted, delta, next};

#[tokio::test]
async fn connections_are_closed_with_a_hint_once_nothing_is_followed_on_them() {
    let mut host = Host::new().await;
    let client = host.client().await;
    let mut events = client.start(Some("manual"), r#"{"run":"r"}"#).await.unwrap();
    host.service.push("r", delta("x"));
    next(&mut events).await;
    let mut raw = host.raw().await;
    host.stop.cancel();
    let (code, reason) = raw.closed().await.unwrap();
    assert_eq!(code, CloseReason::GOING_AWAY, "nothing is followed on this one");
    assert!(reason.contains("resumable"), "{reason}");
    host.service.push("r", delta("y"));
    next(&mut events).await;
    host.service.lose("r");
    let lost = events.next().await.unwrap().unwrap_err();
    assert!(lost.can_retry(), "{lost}");
    drop((raw, client, events));
    assert_eq!(host.stopped().await, Drained { cut: 0 });
    assert_eq!(host.service.watchers(), 0);
    assert!(Client::connect(&host.options()).await.is_err());
    // The run itself was not touched.
    assert!(host.service.cancelled.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_gathered_is_sent_before_the_close() {
    let Mounted { stop, service, endpoint: _endpoint, mut peer } = Mounted::mux(Config::default(), 1 << 20);
    peer.text(r#"{"type":"start","ref":"1","agent":"manual","input":{"run":"r"}}"#).await;
    assert!(peer.message().await.text().contains("started"));
    for n in 0..50 {
        service.push("r", delta(&n.to_string()));
    }
    stop.cancel();
    let mut last = 0;
    loop {
        let frame = peer.message().await;
        if frame.opcode == 8 {
            assert_eq!(frame.close().0, CloseReason::GOING_AWAY);
            break;
        }
        let message: serde_json::Value = serde_json::from_str(frame.text()).unwrap();
        assert_eq!(message["number"].as_u64().unwrap(), last + 1);
        last += 1;
    }
    // Where it continues is certain: right behind the last number.
    let after: Vec<_> = (last + 1..=50).collect();
    assert_eq!(after.len() as u64, 50 - last);
}

#[tokio::test]
async fn a_server_waits_for_upgraded_connections_as_for_others() {
    let mut host = Host::new().await;
    let mut peer = host.raw().await;
    host.stop.cancel();
    // The peer reads the close frame but does not answer it, so the connection stays for the timeout `close`.
    assert_eq!(peer.message().await.close().0, CloseReason::GOING_AWAY);
    assert_eq!(host.sockets.gauge(Gauge::Connections), 1);
    drop(peer);
    assert_eq!(host.stopped().await, Drained { cut: 0 });
    assert_eq!(host.sockets.gauge(Gauge::Connections), 0);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_not_waited_for_without_end() {
    let Mounted { stop, service, endpoint, mut peer } = Mounted::mux(Config::default(), 128);
    service.open_run("r");
    for _ in 0..100 {
        service.push("r", delta(&"x".repeat(500)));
    }
    peer.text(r#"{"type":"watch","ref":"w","run":"r"}"#).await;
    assert!(peer.message().await.text().contains("watching"));
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(endpoint.counters().gauge(Gauge::Connections), 1);
    assert_eq!(service.watchers(), 0, "the service is told at once");
    tokio::time::timeout(Duration::from_secs(10), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(endpoint.counters().gauge(Gauge::Connections), 0);
}

//! Feeding runs: acknowledgements, the window, answers of humans, and publishers that survive cuts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aqueduct_core::InterruptId;
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::PublishRequest;
use aqueduct_transport_http::Gauge;
use aqueduct_transport_ws::client::{ConnectOptions, ResumingPublisher, RetryPolicy};
use aqueduct_transport_ws::{Config, Error};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Host, ScriptedService, rest, within};

fn request(run: &str) -> PublishRequest {
    PublishRequest {
        agent: "planner".into(),
        thread_id: Some("t1".into()),
        run_id: Some(run.into()),
        format: "lines".into(),
    }
}

fn payload(reference: &str, number: u64, data: &str) -> String {
    format!(r#"{{"type":"payload","ref":"{reference}","number":{number},"data":{data}}}"#)
}

#[tokio::test]
async fn the_wire_is_as_documented() {
    let host = Host::new().await;
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"publish","ref":"p","agent":"planner","run":"r","thread":"t1","format":"lines"}"#)
        .await;
    assert_eq!(
        peer.message().await.text(),
        r#"{"type":"publishing","ref":"p","run":"r","acknowledged":0,"window":64,"window_bytes":1048576}"#
    );
    peer.text(&payload("p", 1, r#"{"b": 1.0,  "a":2}"#)).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"ack","ref":"p","number":1}"#);
    // The same number again is acknowledged and not taken again.
    peer.text(&payload("p", 1, "0")).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"ack","ref":"p","number":1}"#);
    let fed = host.service.ingested("r");
    assert_eq!(fed.texts(), [r#"{"b": 1.0,  "a":2}"#]);
    assert_eq!(fed.request, request("r"));

    let yes =
        InterruptReply { id: InterruptId::from("i1"), resolved: true, payload: Some(json!({"ok": true})) };
    fed.answer(yes).await;
    assert_eq!(
        peer.message().await.text(),
        r#"{"type":"interrupt_reply","ref":"p","interrupt":"i1","resolved":true,"payload":{"ok":true}}"#
    );
    fed.answer(InterruptReply { id: InterruptId::from("i2"), resolved: false, payload: None }).await;
    assert_eq!(
        peer.message().await.text(),
        r#"{"type":"interrupt_reply","ref":"p","interrupt":"i2","resolved":false}"#
    );
    peer.text(r#"{"type":"finish","ref":"p"}"#).await;
    assert_eq!(peer.message().await.text(), r#"{"type":"finished","ref":"p"}"#);
    assert!(*fed.finished.lock().unwrap());
    peer.text(&payload("p", 2, "1")).await;
    assert!(peer.message().await.text().contains("not_found"));
    drop(peer);
    host.settles().await;
}

#[tokio::test]
async fn refusals_end_the_feed_and_not_the_connection() {
    let host = Host::new().await;
    let mut peer = host.raw().await;
    peer.text(r#"{"type":"publish","ref":"x","agent":"a","format":"unknown"}"#).await;
    assert!(peer.message().await.text().contains(r#""ref":"x","code":"unsupported""#));
    peer.text(r#"{"type":"publish","ref":"p","agent":"a","format":"lines"}"#).await;
    assert!(peer.message().await.text().contains(r#""run":"chosen""#));
    peer.text(r#"{"type":"publish","ref":"p","agent":"a","format":"lines"}"#).await;
    assert!(peer.message().await.text().contains("conflict"));
    peer.text(&payload("p", 7, "1")).await;
    assert!(peer.message().await.text().contains(r#""ref":"p","run":"chosen","code":"conflict""#));
    peer.text(r#"{"type":"list","ref":"l"}"#).await;
    assert!(peer.message().await.text().contains("agents"));
    assert_eq!(host.counters().gauge(Gauge::Publishers), 0);
}

#[tokio::test]
async fn a_peer_that_exceeds_the_window_is_closed() {
    for (size, allowed) in [(10, 64), (400_000, 2)] {
        let host = Host::new().await;
        host.service.gate.forget_permits(usize::MAX);
        let mut peer = host.raw().await;
        peer.text(r#"{"type":"publish","ref":"p","agent":"a","run":"r","format":"lines"}"#).await;
        assert!(peer.message().await.text().contains("publishing"));
        let data = format!(r#""{}""#, "x".repeat(size));
        for number in 1..=allowed {
            for part in payload("p", number, &data).as_bytes().chunks(200_000).map(<[u8]>::to_vec).enumerate()
            {
                send_part(&mut peer, part, payload("p", number, &data).len().div_ceil(200_000)).await;
            }
        }
        // All that is allowed was taken: the connection still answers.
        peer.text(r#"{"type":"list","ref":"l"}"#).await;
        assert!(peer.message().await.text().contains("agents"));
        let text = payload("p", allowed + 1, &data);
        let count = text.len().div_ceil(200_000);
        for part in text.as_bytes().chunks(200_000).map(<[u8]>::to_vec).enumerate() {
            send_part(&mut peer, part, count).await;
        }
        let (code, reason) = peer.closed().await.unwrap();
        assert_eq!(code, 4429, "{reason}");
        host.settles().await;
        assert_eq!(host.service.ingested("r").open.load(Ordering::SeqCst), 0);
    }
}

/// One fragment of a text message.
async fn send_part(peer: &mut crate::support::RawPeer, (at, part): (usize, Vec<u8>), count: usize) {
    let first = u8::from(at == 0) | if at + 1 == count { 0x80 } else { 0 };
    peer.write(&crate::support::frame(first, &part, Some([1, 2, 3, 4]))).await;
}

#[tokio::test]
async fn back_pressure_holds_the_publisher_and_nobody_else() {
    let host = Host::new().await;
    host.service.gate.forget_permits(usize::MAX);
    let client = host.client().await;
    let mut publisher = client.publish(&request("r")).await.unwrap();
    let feeding = tokio::spawn(async move {
        for n in 0..200 {
            publisher.send(&n.to_string()).await.unwrap();
        }
        publisher.finish().await
    });
    // The same socket carries a run meanwhile.
    let mut events = client.start(Some("count:100:10"), r#"{"run":"other"}"#).await.unwrap();
    assert_eq!(rest(&mut events).await.len(), 101);
    assert!(!feeding.is_finished());
    assert_eq!(host.service.ingested("r").texts().len(), 0);
    host.service.gate.add_permits(1000);
    feeding.await.unwrap().unwrap();
    let expected: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    assert_eq!(host.service.ingested("r").texts(), expected);
}

#[tokio::test]
async fn human_answers_reach_the_publisher() {
    let host = Host::new().await;
    let mut publisher = host.client().await.publish(&request("r")).await.unwrap();
    assert_eq!(publisher.send(r#"{"ask":1}"#).await.unwrap(), 1);
    let answer = InterruptReply { id: InterruptId::from("i"), resolved: true, payload: Some(json!("yes")) };
    let fed = host.service.ingested("r");
    fed.answer(answer.clone()).await;
    assert_eq!(publisher.reply().await.unwrap(), answer);
    publisher.drain().await.unwrap();
    assert_eq!(publisher.acknowledged(), 1);
    assert!(matches!(publisher.send("no json").await, Err(Error::Rejected { .. })));
    publisher.send_bytes(b"\xff\x00").await.unwrap();
    publisher.finish().await.unwrap();
    assert_eq!(fed.payloads.lock().unwrap()[1], &b"\xff\x00"[..]);
}

#[tokio::test]
async fn a_publisher_can_be_given_up_while_the_socket_stays() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut publisher = client.publish(&request("r")).await.unwrap();
    publisher.send("1").await.unwrap();
    publisher.drain().await.unwrap();
    drop(publisher);
    let fed = host.service.ingested("r");
    assert!(within(Duration::from_secs(5), || fed.open.load(Ordering::SeqCst) == 0).await);
    assert!(!*fed.finished.lock().unwrap());
    let mut again = client.publish(&request("r")).await.unwrap();
    assert_eq!(again.acknowledged(), 1);
    assert_eq!(again.send("2").await.unwrap(), 2);
    again.finish().await.unwrap();
    assert_eq!(fed.texts(), ["1", "2"]);
    assert_eq!(host.counters().gauge(Gauge::Publishers), 0);
}

#[tokio::test]
async fn a_name_stays_taken_until_the_service_has_let_go() {
    let host = Host::new().await;
    host.service.gate.forget_permits(usize::MAX);
    let mut peer = host.raw().await;
    let publish = r#"{"type":"publish","ref":"p","agent":"a","run":"r","format":"lines"}"#;
    peer.text(publish).await;
    assert!(peer.message().await.text().contains("publishing"));
    peer.text(&payload("p", 1, "1")).await;
    peer.text(r#"{"type":"abandon","ref":"p"}"#).await;
    peer.text(publish).await;
    assert!(peer.message().await.text().contains("conflict"));
    peer.text(&payload("p", 2, "2")).await;
    assert!(peer.message().await.text().contains("not_found"));
    host.service.gate.add_permits(10);
    assert_eq!(peer.message().await.text(), r#"{"type":"ack","ref":"p","number":1}"#);
    assert_eq!(peer.message().await.text(), r#"{"type":"abandoned","ref":"p"}"#);
    peer.text(publish).await;
    assert!(peer.message().await.text().contains(r#""acknowledged":1"#));
}

#[tokio::test]
async fn a_cut_is_no_finish() {
    let host = Host::new().await;
    let client = host.client().await;
    let mut publisher = client.publish(&request("r")).await.unwrap();
    publisher.send("1").await.unwrap();
    publisher.drain().await.unwrap();
    let fed = host.service.ingested("r");
    assert_eq!(fed.open.load(Ordering::SeqCst), 1);
    drop((client, publisher));
    assert!(within(Duration::from_secs(5), || fed.open.load(Ordering::SeqCst) == 0).await);
    assert!(!*fed.finished.lock().unwrap());
    host.settles().await;
}

fn quickly() -> RetryPolicy {
    RetryPolicy {
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(10),
        attempts: 50,
    }
}

#[tokio::test]
async fn a_publisher_goes_on_with_the_next_server() {
    let service = ScriptedService::new();
    let mut host = Host::on("127.0.0.1:0".parse().unwrap(), Arc::clone(&service), Config::default()).await;
    let address = host.address;
    let mut publisher = ResumingPublisher::open(host.options(), request("r"), quickly()).await.unwrap();
    for n in 0..10 {
        assert_eq!(publisher.send(n.to_string()).await.unwrap(), n + 1);
    }
    assert_eq!(host.stopped().await.cut, 0);
    drop(host);
    let host = Host::on(address, Arc::clone(&service), Config::default()).await;
    for n in 10..20 {
        publisher.send(n.to_string()).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(service.ingested("r").texts(), expected);
    assert!(*service.ingested("r").finished.lock().unwrap());
    host.settles().await;
}

/// A proxy that cuts the first connection after so many bytes in each direction, and lets the others pass.
async fn cutting_proxy(target: SocketAddr, up: usize, down: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            let (up, down) = if first { (up, down) } else { (usize::MAX, usize::MAX) };
            tokio::spawn(async move {
                let server = TcpStream::connect(target).await.unwrap();
                let (mut client_in, mut client_out) = client.into_split();
                let (mut server_in, mut server_out) = server.into_split();
                tokio::select! {
                    () = copy(&mut client_in, &mut server_out, up) => {}
                    () = copy(&mut server_in, &mut client_out, down) => {}
                }
            });
        }
    });
    (address, connections)
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut left: usize,
) {
    let mut buffer = [0; 4096];
    while left > 0 {
        let space = buffer.len().min(left);
        let Ok(read @ 1..) = from.read(&mut buffer[..space]).await else { return };
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        left -= read;
    }
}

#[tokio::test]
async fn whatever_is_cut_wherever_every_payload_arrives_once_and_in_order() {
    let host = Host::new().await;
    let mut cuts = 0;
    for offset in (0..1600).step_by(29) {
        for (up, down) in [(offset, usize::MAX), (usize::MAX, offset)] {
            let (address, connections) = cutting_proxy(host.address, up, down).await;
            let run = format!("r{up}-{down}");
            let options = ConnectOptions::new(format!("ws://{address}/ws"));
            let mut publisher = ResumingPublisher::open(options, request(&run), quickly()).await.unwrap();
            for n in 0..12 {
                publisher.send(n.to_string()).await.unwrap();
            }
            publisher.finish().await.unwrap();
            let expected: Vec<String> = (0..12).map(|n| n.to_string()).collect();
            assert_eq!(host.service.ingested(&run).texts(), expected, "cut at {up} up, {down} down");
            cuts += usize::from(connections.load(Ordering::SeqCst) > 1);
        }
    }
    assert!(cuts > 30, "only {cuts} connections were cut");
    host.settles().await;
}

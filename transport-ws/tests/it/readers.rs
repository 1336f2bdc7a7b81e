//! Readers that stall, readers that are slow, and those that are neither: none may harm another.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_transport_http::{Gauge, Total};
use aqueduct_transport_ws::{Config, Limits, Timeouts};
use tokio::net::TcpSocket;

use crate::memory::{resident_bytes, send_queues};
use crate::support::{Host, Mounted, RawPeer, delta, request, rest};

/// What a stalled stream may cost, as documented: 64 KiB in the process and 128 KiB in the kernel.
const USER_BYTES: u64 = 64 * 1024;
const KERNEL_BYTES: u64 = 128 * 1024;

const EVENTS: usize = 500;
const SIZE: usize = 800;

fn fill(host: &Host) {
    host.service.open_run("big");
    let text = "x".repeat(SIZE);
    for _ in 0..EVENTS {
        host.service.push("big", delta(&text));
    }
    host.service.finish("big");
}

/// A peer whose kernel holds little for it.
async fn small_reader(host: &Host) -> RawPeer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut peer = RawPeer { io: socket.connect(host.address).await.unwrap() };
    peer.write(request("/ws", &[("Sec-WebSocket-Protocol", "aqueduct.v1.json")]).as_bytes()).await;
    assert!(peer.read_head().await.starts_with("HTTP/1.1 101 "));
    peer
}

async fn assert_number(peer: &mut RawPeer, number: usize) {
    let message = peer.message().await;
    assert!(message.text().contains(&format!(r#""number":{number},"#)), "{number}: {}", message.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_a_slow_and_a_hundred_fast_readers() {
    let long = Duration::from_secs(600);
    let timeouts = Timeouts { stall: long, ping: long, ..Timeouts::default() };
    let host = Host::with(Config { timeouts, ..Config::default() }).await;
    fill(&host);
    let mut stalled = small_reader(&host).await;
    let mut slow = small_reader(&host).await;
    for peer in [&mut stalled, &mut slow] {
        peer.text(r#"{"type":"watch","ref":"s","run":"big"}"#).await;
        assert!(peer.message().await.text().contains("watching"));
    }
    let mut fast = Vec::new();
    for _ in 0..100 {
        let client = host.client().await;
        fast.push(tokio::spawn(async move {
            let mut events = client.watch("big", 0).await.unwrap();
            let all = rest(&mut events).await;
            let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..=EVENTS as u64 + 1).collect::<Vec<_>>());
        }));
    }
    // The slow one reads one event while a fast one reads all.
    let mut read = 0;
    for reader in fast {
        reader.await.unwrap();
        read += 1;
        assert_number(&mut slow, read).await;
    }
    // What was taken for the other two fits into a batch, the kernel's buffers, and one event each.
    let held = host.service.taken.load(Ordering::SeqCst) - 100 * (EVENTS + 1) - read;
    assert!(held * (SIZE + 60) < 2 * 160 * 1024, "{held} events are held for two readers");
    // It misses nothing.
    for number in read + 1..=EVENTS + 1 {
        assert_number(&mut slow, number).await;
    }
    assert!(slow.message().await.text().contains("ended"));
    // So does the stalled one, once it reads.
    for number in 1..=EVENTS + 1 {
        assert_number(&mut stalled, number).await;
    }
    drop((slow, stalled));
    host.settles().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_stream_costs_what_is_documented() {
    const STALLED: u64 = 40;
    let long = Duration::from_secs(600);
    let timeouts = Timeouts { stall: long, ping: long, ..Timeouts::default() };
    let host = Host::with(Config { timeouts, ..Config::default() }).await;
    fill(&host);
    let before = resident_bytes();
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut peer = small_reader(&host).await;
        peer.text(r#"{"type":"watch","ref":"s","run":"big"}"#).await;
        assert!(peer.message().await.text().contains("watching"));
        stalled.push(peer);
    }
    let taken = settled(&host).await;
    assert!(taken < STALLED * EVENTS as u64 / 2, "{taken} events were taken: nobody stalls");
    // All that was taken is in the process or in the kernel, on either side.
    let held = taken * SIZE as u64 / STALLED;
    assert!(held <= USER_BYTES + KERNEL_BYTES, "{held} bytes were taken for each");
    let kernel = send_queues(host.address.port());
    for peer in &stalled {
        let queued = kernel[&peer.io.local_addr().unwrap().port()];
        assert!(queued <= KERNEL_BYTES, "{queued} bytes in the kernel");
        let user = held.saturating_sub(queued);
        assert!(user <= USER_BYTES, "{user} bytes in the process");
    }
    // The whole process, with everything else that the test does: a loose bound that an unbounded queue breaks.
    let grown = resident_bytes().saturating_sub(before) / STALLED;
    assert!(grown <= 4 * USER_BYTES, "the process grew by {grown} bytes for each");
    drop(stalled);
    host.settles().await;
}

/// Waits until nothing more is taken from the service, and tells how many events were.
async fn settled(host: &Host) -> u64 {
    let mut last = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    let mut quiet = 0;
    while quiet < 200 {
        ticks.tick().await;
        let now = host.service.taken.load(Ordering::SeqCst);
        quiet = if now == last && now > 0 { quiet + 1 } else { 0 };
        last = now;
    }
    last as u64
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_holds_one_batch_and_is_dropped_in_time() {
    let Mounted { service, endpoint, mut peer, .. } = Mounted::mux(Config::default(), 1024);
    service.open_run("r");
    let text = "x".repeat(1000);
    for _ in 0..1000 {
        service.push("r", delta(&text));
    }
    peer.text(r#"{"type":"watch","ref":"w","run":"r"}"#).await;
    assert!(peer.message().await.text().contains("watching"));
    // Time passes only when nobody has anything to do.
    let started = tokio::time::Instant::now();
    assert_eq!(service.watchers(), 1);
    tokio::time::timeout(Duration::from_secs(29), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(service.watchers(), 1);
    let batch = Limits::default().batch_bytes;
    let taken = service.taken.load(Ordering::SeqCst);
    assert!(taken <= batch / 1000 + 2, "{taken} events were taken for a batch of {batch} bytes");
    tokio::time::timeout(Duration::from_secs(2), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(service.watchers(), 0);
    let counters = endpoint.counters();
    assert_eq!((counters.total(Total::WriteStalls), counters.gauge(Gauge::Connections)), (1, 0));
    assert!(started.elapsed() < Duration::from_secs(32));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_is_not_stalled() {
    let timeouts = Timeouts { stall: Duration::from_secs(30), ..Timeouts::default() };
    let Mounted { service, endpoint, mut peer, .. } =
        Mounted::mux(Config { timeouts, ..Config::default() }, 256);
    service.open_run("r");
    for _ in 0..20 {
        service.push("r", delta(&"x".repeat(1000)));
    }
    service.finish("r");
    peer.text(r#"{"type":"watch","ref":"w","run":"r"}"#).await;
    assert!(peer.message().await.text().contains("watching"));
    // Twenty seconds per event, far more than the timeout in all; no ping is answered, but what is read counts.
    for number in 1..=21 {
        tokio::time::timeout(Duration::from_secs(20), std::future::pending::<()>()).await.unwrap_err();
        let message = peer.message().await;
        assert!(message.text().contains(&format!(r#""number":{number},"#)), "{}", message.text());
    }
    assert!(peer.message().await.text().contains("ended"));
    assert_eq!(endpoint.counters().total(Total::WriteStalls), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_without_reading_is_not_read_for_ever() {
    let limits = Limits { replies: 4, ..Limits::default() };
    let Mounted { service, endpoint, peer, .. } = Mounted::mux(Config { limits, ..Config::default() }, 512);
    let (_unread, mut write) = tokio::io::split(peer.io);
    let flood = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let ask = crate::support::masked(1, br#"{"type":"list","ref":"l"}"#);
        while write.write_all(&ask).await.is_ok() {}
    });
    // Replies fill the pipe, then the queue; then nothing is read, until the stall is noticed.
    flood.await.unwrap();
    assert!(service.calls() < 100, "{} requests were taken", service.calls());
    assert_eq!(endpoint.counters().total(Total::WriteStalls), 1);
}

#[tokio::test]
async fn deltas_that_wait_are_merged_without_losing_a_byte() {
    let limits = Limits { merge_bytes: 4096, ..Limits::default() };
    let host = Host::with(Config { limits, ..Config::default() }).await;
    host.service.open_run("r");
    let texts: Vec<String> = (0..2000).map(|number| format!("<{number:020}>")).collect();
    for text in &texts {
        host.service.push("r", delta(text));
    }
    host.service.finish("r");
    let whole = texts.concat();
    let client = host.client().await;
    let all = rest(&mut client.watch("r", 0).await.unwrap()).await;
    assert!(all.len() < 1000, "{} events", all.len());
    let text = |events: &[(u64, String)]| {
        let deltas = events.iter().filter(|(number, _)| *number <= 2000);
        deltas.map(|(_, data)| serde_json::from_str::<String>(data).unwrap()).collect::<String>()
    };
    assert_eq!(text(&all), whole);
    // Whoever comes back behind any of them gets the rest.
    for at in [0, 1, all.len() / 2, all.len() - 2] {
        let mut events = all[..=at].to_vec();
        events.extend(rest(&mut client.watch("r", all[at].0).await.unwrap()).await);
        assert!(text(&events) == whole, "after {}", all[at].0);
    }
    drop(client);
    host.settles().await;
}

//! Readers of every speed at once: the fast are unharmed, the slow lose nothing, the stalled cost a bounded amount, in
//! the process and in the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_core::service::{EventStream, NumberedEvent};
use aqueduct_transport_http::{Client, ClientConfig, Gauge, ServerConfig, Timeouts, Total};
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::memory::{resident_bytes, send_queues};
use crate::support::{
    Running, ScriptedService, delta, eventually, finished, post, raw_post, read_to_close, routes, soon,
};

/// Events of each run that ends.
const EVENTS: u64 = 600;
/// Bytes of each event, about.
const EVENT_BYTES: u64 = 200;

/// What a stalled stream may cost, as documented: 64 KiB in the process and 128 KiB in the kernel.
const USER_BYTES: u64 = 64 * 1024;
const KERNEL_BYTES: u64 = 128 * 1024;

fn event(number: u64) -> NumberedEvent {
    let text = format!("{number:0width$}", width = usize::try_from(EVENT_BYTES).unwrap());
    NumberedEvent { number, event: delta(text) }
}

/// `count` numbered events and the end, counting what is pulled.
fn run(count: u64, pulled: Arc<AtomicU64>) -> EventStream {
    let last = NumberedEvent { number: count + 1, event: finished() };
    let events = (1..=count).map(event).chain([last]);
    Box::pin(futures_util::stream::iter(events.inspect(move |_| {
        pulled.fetch_add(1, Ordering::SeqCst);
    })))
}

/// A service for which `endless` is a run without end, anything else one of `EVENTS`.
fn service(pulled: &Arc<AtomicU64>) -> Arc<ScriptedService> {
    let pulled = Arc::clone(pulled);
    ScriptedService::new(move |text| match text {
        "endless" => run(u64::MAX - 1, Arc::clone(&pulled)),
        _ => run(EVENTS, Arc::default()),
    })
}

async fn small_socket(server: &Running) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.connect(server.addr).await.unwrap()
}

/// Asks for a run without end and never reads.
async fn stalled(server: &Running) -> TcpStream {
    let mut socket = small_socket(server).await;
    socket.write_all(raw_post("endless").as_bytes()).await.unwrap();
    socket
}

/// Reads a run whole and checks that every event is there, in order.
async fn read_whole(client: Client, uri: String) {
    let mut stream = client.open_stream(post(&uri, "run")).await.unwrap();
    for number in 1..=EVENTS {
        let event = stream.next().await.unwrap().unwrap();
        assert_eq!(event.data.parse::<u64>().unwrap(), number);
    }
    assert_eq!(&*stream.next().await.unwrap().unwrap().data, "end");
    assert!(stream.next().await.is_none());
}

/// Waits until nobody pulls any more, and tells how many events were pulled.
async fn settled(pulled: &AtomicU64) -> u64 {
    let mut last = 0;
    let mut quiet = 0;
    eventually("the stalled streams settle", || {
        let now = pulled.load(Ordering::SeqCst);
        quiet = if now == last && now > 0 { quiet + 1 } else { 0 };
        last = now;
        quiet > 100
    })
    .await;
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_readers_are_unharmed_and_slow_ones_lose_nothing() {
    let pulled = Arc::default();
    let service = service(&pulled);
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let _stalled = stalled(&server).await;
    settled(&pulled).await;

    let slow = {
        let mut socket = small_socket(&server).await;
        socket.write_all(raw_post("run").as_bytes()).await.unwrap();
        tokio::spawn(async move {
            let mut answer = Vec::new();
            let mut buffer = [0; 8 * 1024];
            while !answer.ends_with(b"\r\n0\r\n\r\n") {
                tokio::task::yield_now().await;
                let count = socket.read(&mut buffer).await.unwrap();
                assert!(count > 0);
                answer.extend_from_slice(&buffer[..count]);
            }
            String::from_utf8(answer).unwrap()
        })
    };
    let client = Client::new(ClientConfig::default()).unwrap();
    let fast: Vec<_> = (0..100).map(|_| tokio::spawn(read_whole(client.clone(), server.uri("/")))).collect();
    for reader in fast {
        soon("a fast reader", reader).await.unwrap();
    }
    let answer = soon("the slow reader", slow).await.unwrap();
    let numbers = answer.lines().filter_map(|line| line.strip_prefix("data: ")?.parse::<u64>().ok());
    assert!(numbers.eq(1..=EVENTS), "all events, in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_stream_costs_what_is_documented() {
    const STALLED: u64 = 40;
    let pulled = Arc::default();
    let service = service(&pulled);
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let before = resident_bytes();
    let mut sockets = Vec::new();
    for _ in 0..STALLED {
        sockets.push(stalled(&server).await);
    }
    eventually("all runs", || service.open.load(Ordering::SeqCst) == STALLED).await;
    // All that was pulled is in the process or in the kernel, on either side.
    let held = settled(&pulled).await * EVENT_BYTES / STALLED;
    assert!(held <= USER_BYTES + KERNEL_BYTES, "{held} bytes were pulled for each");
    let kernel = send_queues(server.addr.port());
    for socket in &sockets {
        let queued = kernel[&socket.local_addr().unwrap().port()];
        assert!(queued <= KERNEL_BYTES, "{queued} bytes in the kernel");
        assert!(held - queued <= USER_BYTES, "{} bytes in the process", held - queued);
    }
    // The whole process, with everything else that the test does: a loose bound that an unbounded queue breaks.
    let grown = resident_bytes().saturating_sub(before) / STALLED;
    assert!(grown <= 4 * USER_BYTES, "the process grew by {grown} bytes for each");
    drop(sockets);
    server.is_empty().await;
    assert_eq!(service.open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_closed() {
    let pulled = Arc::default();
    let service = service(&pulled);
    let timeouts = Timeouts { write_stall: Duration::from_millis(200), ..Timeouts::default() };
    let server = Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await;
    let mut socket = stalled(&server).await;
    eventually("the run is dropped", || {
        server.counters.total(Total::WriteStalls) == 1 && service.open.load(Ordering::SeqCst) == 0
    })
    .await;
    server.is_empty().await;
    // What was on its way still comes; then the connection is closed without the end of the body.
    assert!(!read_to_close(&mut socket).await.ends_with("0\r\n\r\n"));
}

#[tokio::test]
async fn a_quiet_stream_is_not_taken_for_a_stalled_one() {
    let service = ScriptedService::new(|_| {
        Box::pin(futures_util::stream::iter([event(1)]).chain(futures_util::stream::pending()))
    });
    let short = Duration::from_millis(100);
    let timeouts =
        Timeouts { write_stall: short, header: short, body: short, idle: short, ..Timeouts::default() };
    let server = Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(tokio::time::timeout(short * 5, stream.next()).await.is_err(), "it is still open");
    assert_eq!(server.counters.gauge(Gauge::Requests), 1);
}

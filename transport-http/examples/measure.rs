//! Measures the cost of streams on a separate server, with readers in another process:
//!
//! * `measure idle [streams] [h1|h2]`: memory of a stream that has sent one event and waits for the next (10,000 of them),
//! * `measure paced [streams] [events per second]`: CPU time of the server per event, for streams (100) that each send
//!   that many (50) for five seconds.

#![expect(clippy::print_stdout, reason = "a tool that prints its result")]
#![expect(clippy::unwrap_used, reason = "a tool that may stop at the first thing that is wrong")]

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_core::event::{BlockHead, Lane, Origin};
use aqueduct_core::service::{EventEncoder, NumberedEvent, PayloadSink};
use aqueduct_core::{BlockEvent, BlockId, ByteString, Channel, LaneId, Role, RunId, Source, SpanKind};
use aqueduct_transport_http::{
    Client, ClientConfig, Counters, EventPosition, Gauge, HttpVersions, Server, ServerConfig, StreamOptions,
    stream_response,
};
use axum::Router;
use axum::routing::post;
use futures_util::StreamExt as _;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |index: usize, default: &str| arguments.get(index).cloned().unwrap_or_else(|| default.to_owned());
    match argument(0, "idle").as_str() {
        "client" => open_streams(&argument(1, ""), argument(2, "").parse().unwrap(), &argument(3, "h1")),
        "paced" => measure_paced(argument(1, "100").parse().unwrap(), argument(2, "50").parse().unwrap()),
        _ => measure_idle(argument(1, "10000").parse().unwrap(), &argument(2, "h1")),
    }
}

/// A server with a quiet route and a paced one.
struct Measured {
    address: String,
    counters: Counters,
    shutdown: CancelToken,
    serving: tokio::task::JoinHandle<aqueduct_transport_http::Drained>,
}

impl Measured {
    async fn start(events_per_second: u64) -> Self {
        let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
        let (address, counters, shutdown) =
            (server.local_addr().unwrap().to_string(), server.counters(), CancelToken::new());
        let pace = Duration::from_micros(1_000_000 / events_per_second);
        let routes = Router::new().route("/", post(async move || paced_stream(pace)));
        let serving = tokio::spawn(server.serve(routes, shutdown.clone()));
        Self { address, counters, shutdown, serving }
    }

    fn client(&self, streams: u64, version: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["client", &self.address, &streams.to_string(), version]);
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    async fn wait_for(&self, streams: u64) {
        while self.counters.gauge(Gauge::Requests) != streams {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Waits for the last writes and frees.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    async fn stop(self, clients: impl IntoIterator<Item = Child>) {
        for mut child in clients {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        self.wait_for(0).await;
        self.shutdown.cancel();
        self.serving.await.unwrap();
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn measure_idle(streams: u64, version: &str) {
    // One event at once; the next is due long after the end of the measurement.
    let server = Measured::start(1).await;
    // The first streams include one-time costs.
    let warm_up = server.client(100, version);
    server.wait_for(100).await;
    let before = resident_bytes();
    let rest = server.client(streams, version);
    server.wait_for(100 + streams).await;
    let grown = resident_bytes().saturating_sub(before);
    let (kib, tenths) = (grown / streams / 1024, grown / streams % 1024 * 10 / 1024);
    let connections = server.counters.gauge(Gauge::Connections);
    println!("{version}: {streams} streams, {connections} connections, {kib}.{tenths} KiB each");
    server.stop([warm_up, rest]).await;
    println!("all closed; {} KiB in the end", resident_bytes() / 1024);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn measure_paced(streams: u64, events_per_second: u64) {
    let server = Measured::start(events_per_second).await;
    let client = server.client(streams, "h1");
    server.wait_for(streams).await;
    let (before, sent) = (cpu_ticks(), SENT.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ticks = cpu_ticks() - before;
    let events = SENT.load(Ordering::Relaxed) - sent;
    println!("{streams} streams x {events_per_second}/s: {} µs of CPU per event", ticks * 10_000 / events);
    server.stop([client]).await;
}

/// Events that were taken from all streams.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Sends one event, then nothing (a pace of a second or more), or one event at each tick.
fn paced_stream(pace: Duration) -> axum::response::Response {
    let pace = if pace >= Duration::from_secs(1) { Duration::from_secs(3600) } else { pace };
    let mut ticks = tokio::time::interval(pace);
    let mut number = 0;
    let events = futures_util::stream::poll_fn(move |cx| {
        ticks.poll_tick(cx).map(|_| {
            number += 1;
            SENT.fetch_add(1, Ordering::Relaxed);
            Some(NumberedEvent { number, event: hello() })
        })
    });
    let position = EventPosition::start(RunId::from("run"));
    stream_response(&position, Box::pin(events), Box::new(Words), &StreamOptions::default())
}

fn hello() -> BlockEvent {
    let lane = Lane { id: LaneId::from("root"), source: Source::root(), parent: None, parent_call: None };
    let head = BlockHead {
        id: BlockId::from("run/1"),
        kind: SpanKind::Text,
        lane: Arc::new(lane),
        channel: Channel::Answer,
        role: Role::Assistant,
        tool_name: ByteString::new(),
        parent: None,
        continues: None,
        replaces: None,
        origin: Origin::default(),
    };
    BlockEvent::BlockDelta { block: Arc::new(head), delta: ByteString::from_static("hello") }
}

struct Words;

impl EventEncoder for Words {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        if let BlockEvent::BlockDelta { delta, .. } = event {
            sink.push(&mut |out| out.extend_from_slice(delta.as_bytes()));
        }
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }
}

/// Opens streams, reads the first event of each, and holds them until it is killed.
fn open_streams(address: &str, streams: usize, version: &str) {
    match version {
        "h2" => open_h2(address, streams),
        _ => open_h1(address, streams),
    }
}

fn open_h1(address: &str, streams: usize) {
    let open: Vec<_> = (0..streams)
        .map(|_| {
            let mut socket = std::net::TcpStream::connect(address).unwrap();
            socket.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
            let mut answer = [0; 1024];
            while !String::from_utf8_lossy(&answer).contains("data: hello") {
                assert!(socket.read(&mut answer).unwrap() > 0);
            }
            socket.set_nonblocking(true).unwrap();
            socket
        })
        .collect();
    read_all(open);
}

#[tokio::main(flavor = "current_thread")]
async fn read_all(sockets: Vec<std::net::TcpStream>) {
    let readers = sockets.into_iter().map(async |socket| {
        let mut socket = tokio::net::TcpStream::from_std(socket).unwrap();
        let mut buffer = [0; 1024];
        while tokio::io::AsyncReadExt::read(&mut socket, &mut buffer).await.is_ok_and(|count| count > 0) {}
    });
    futures_util::future::join_all(readers).await;
}

#[tokio::main(flavor = "current_thread")]
async fn open_h2(address: &str, streams: usize) {
    let mut open = Vec::new();
    let mut client = None;
    for number in 0..streams {
        // The default limit of streams per connection.
        if number % 100 == 0 {
            let config = ClientConfig { versions: HttpVersions::Http2, ..ClientConfig::default() };
            client = Some(Client::new(config).unwrap());
        }
        let request = http::Request::post(format!("http://{address}/")).body(bytes::Bytes::new()).unwrap();
        let mut stream = client.as_ref().unwrap().open_stream(request).await.unwrap();
        stream.next().await.unwrap().unwrap();
        open.push((stream, client.clone()));
    }
    std::future::pending::<()>().await;
    drop(open);
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Returns the CPU time of this process in hundredths of a second.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

//! What an open stream costs while it is quiet: `idle_streams [streams] [h1|h2]` opens that many (10,000 by default) from
//! a process of its own, and prints how much the server grew for each.
//!
//! Every stream has sent one event and waits for the next, with the default limits and keep-alive timers.

#![expect(clippy::print_stdout, reason = "a tool that prints its result")]
#![expect(clippy::unwrap_used, reason = "a tool that may stop at the first thing that is wrong")]

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::event::{BlockHead, Lane, Origin};
use aqueduct_core::service::{EventEncoder, NumberedEvent, PayloadSink};
use aqueduct_core::{BlockEvent, BlockId, ByteString, Channel, LaneId, Role, RunId, Source, SpanKind};
use aqueduct_transport_http::{
    Client, ClientConfig, Counters, EventPosition, HttpVersions, Server, ServerConfig, Shutdown,
    StreamOptions, stream_response,
};
use axum::Router;
use axum::routing::post;
use futures_util::StreamExt as _;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |index: usize, default: &str| arguments.get(index).cloned().unwrap_or_else(|| default.to_owned());
    if argument(0, "") == "client" {
        open_streams(&argument(1, ""), argument(2, "").parse().unwrap(), &argument(3, "h1"));
    } else {
        measure(argument(0, "10000").parse().unwrap(), &argument(1, "h1"));
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn measure(streams: u64, version: &str) {
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let (address, counters, shutdown) =
        (server.local_addr().unwrap().to_string(), server.counters(), Shutdown::new());
    let routes = Router::new().route("/", post(quiet_stream));
    let serving = tokio::spawn(server.serve(routes, shutdown.clone()));

    // The first streams pay for what is there only once.
    let warm_up = client(&address, 100, version);
    wait_for(&counters, 100).await;
    let before = resident_bytes();
    let rest = client(&address, streams, version);
    wait_for(&counters, 100 + streams).await;
    let grown = resident_bytes().saturating_sub(before);
    let (kib, rest_kib) = (grown / streams / 1024, grown / streams % 1024 * 10 / 1024);
    println!(
        "{version}: {streams} streams, {} connections, {kib}.{rest_kib} KiB each",
        counters.connections_open()
    );
    for mut child in [warm_up, rest] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_for(&counters, 0).await;
    shutdown.trigger();
    serving.await.unwrap();
    println!("all closed; {} KiB in the end", resident_bytes() / 1024);
}

/// One event, then silence.
async fn quiet_stream() -> axum::response::Response {
    let first = NumberedEvent { number: 1, event: hello() };
    let events = futures_util::stream::iter([first]).chain(futures_util::stream::pending());
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

async fn wait_for(counters: &Counters, streams: u64) {
    while counters.requests_open() != streams {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // For the last writes and frees.
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn client(address: &str, streams: u64, version: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["client", address, &streams.to_string(), version]).stdin(Stdio::piped()).spawn().unwrap()
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
            socket
        })
        .collect();
    std::io::stdin().read_exact(&mut [0]).ok();
    drop(open);
}

#[tokio::main(flavor = "current_thread")]
async fn open_h2(address: &str, streams: usize) {
    let mut open = Vec::new();
    let mut client = None;
    for number in 0..streams {
        // As many as a connection may hold by default.
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

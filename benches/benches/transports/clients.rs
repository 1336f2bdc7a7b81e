//! The clients. They implement only a part of each protocol: their own cost is not measured.
//!
//! * `drain <protocol> <messages> <batch>`: requests a burst, reads all of it, prints `done`;
//! * `hold <protocol> <streams>`: opens streams, reads the first message of each, prints `open`, and holds them;
//! * `listen <protocol> <streams> <seconds>`: opens paced streams, prints `open`, and after that time the latencies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use aqueduct_benches::pace::{listen_for, now, read_times, sent_at};
use aqueduct_core::BlockEvent;
use aqueduct_transport_grpc::raw::BytesCodec;
use aqueduct_transport_grpc::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::StreamExt as _;

use crate::service::{MESSAGE_BYTES, prompt};

/// Streams that share a connection, if the protocol supports it.
const STREAMS_PER_CONNECTION: usize = 100;

pub(crate) fn run(role: &str, arguments: &[&str]) {
    let [address, protocol, numbers @ ..] = arguments else { panic!("no address") };
    let numbers: Vec<usize> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    match (role, numbers.as_slice()) {
        ("drain", [messages, batch]) => drain(address, protocol, *messages, *batch),
        ("hold", [streams]) => hold(address, protocol, *streams),
        ("listen", [streams, seconds]) => listen(address, protocol, *streams, *seconds as u64),
        _ => panic!("no client {role}"),
    }
}

/// Connects and requests a run, in one of the protocols that need no library.
fn ask(address: &str, protocol: &str, messages: usize, batch: usize) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let prompt = format!("{messages} {batch}");
    let request = match protocol {
        "raw" => prompt,
        "http" => {
            let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                        Content-Type: application/json\r\nContent-Length:";
            format!("{head} {}\r\n\r\n\"{prompt}\"", prompt.len() + 2)
        }
        "ws" => {
            let upgrade = "GET /agents/bench/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                           Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            socket.write_all(upgrade.as_bytes()).unwrap();
            read_head(&mut socket);
            // A text frame with a mask of zeros.
            let length = char::from(0x80 | u8::try_from(prompt.len()).unwrap());
            let frame = ["\u{81}", &length.to_string(), "\0\0\0\0", &prompt].concat();
            let bytes: Vec<u8> = frame.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
            socket.write_all(&bytes).unwrap();
            return socket;
        }
        other => panic!("no protocol {other}"),
    };
    socket.write_all(request.as_bytes()).unwrap();
    if protocol == "http" {
        read_head(&mut socket);
    }
    socket
}

fn read_head(socket: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101") || head.starts_with(b"HTTP/1.1 200"));
}

fn drain(address: &str, protocol: &str, messages: usize, batch: usize) {
    if protocol == "grpc" || protocol == "grpc-js" {
        drain_grpc(address, protocol, messages, batch);
    } else {
        let mut socket = ask(address, protocol, messages, batch);
        // Enough for all texts; the framing around them differs and does not matter here.
        let mut missing = messages * MESSAGE_BYTES;
        let mut buffer = vec![0; 256 * 1024];
        while missing > 0 {
            let read = socket.read(&mut buffer).unwrap();
            assert!(read > 0, "the server ended early");
            missing = missing.saturating_sub(read);
        }
    }
    println!("done");
}

#[tokio::main(flavor = "current_thread")]
async fn drain_grpc(address: &str, protocol: &str, messages: usize, batch: usize) {
    let mut received = 0;
    if protocol == "grpc" {
        let mut events = open_grpc(address, &format!("{messages} {batch}")).await;
        while let Some(event) = events.next().await {
            received += text(&event.unwrap().event).map_or(0, |text| text.len() / MESSAGE_BYTES);
        }
    } else {
        let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap();
        let mut stream = open_bytes(channel.connect().await.unwrap(), messages, batch).await;
        while let Some(message) = stream.next().await {
            received += message.unwrap().len() / MESSAGE_BYTES;
        }
    }
    assert_eq!(received, messages);
}

async fn open_grpc(address: &str, text: &str) -> aqueduct_transport_grpc::RunStream {
    let client = Client::connect(&format!("http://{address}"), ClientConfig::default()).await.unwrap();
    client.run("bench", &prompt(text)).await.unwrap()
}

fn text(event: &BlockEvent) -> Option<&str> {
    match event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta),
        _ => None,
    }
}

/// Calls the method of the grpc-js server, whose messages are bytes.
async fn open_bytes(
    channel: tonic::transport::Channel,
    messages: usize,
    batch: usize,
) -> tonic::Streaming<Bytes> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let request = tonic::Request::new(Bytes::from(format!("{messages} {batch}")));
    let path = "/bench.Bench/Stream".parse().unwrap();
    client.server_streaming(request, path, BytesCodec).await.unwrap().into_inner()
}

fn hold(address: &str, protocol: &str, streams: usize) {
    match protocol {
        "grpc" => hold_grpc(address, streams, 1),
        "grpc-shared" => hold_grpc(address, streams, STREAMS_PER_CONNECTION),
        "grpc-js" => hold_grpc_js(address, streams),
        _ => {
            let open: Vec<_> = (0..streams)
                .map(|_| {
                    let mut socket = ask(address, protocol, 0, 0);
                    socket.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
                    socket
                })
                .collect();
            println!("open");
            wait();
            drop(open);
        }
    }
}

/// Waits until the measuring process closes the pipe.
fn wait() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn hold_grpc(address: &str, streams: usize, per_connection: usize) {
    let mut open = Vec::new();
    for _ in 0..streams.div_ceil(per_connection) {
        let client = Client::connect(&format!("http://{address}"), ClientConfig::default()).await.unwrap();
        for _ in 0..per_connection {
            let mut stream = client.run("bench", &prompt("0 0")).await.unwrap();
            stream.next().await.unwrap().unwrap();
            open.push((stream, client.clone()));
        }
    }
    println!("open");
    tokio::task::spawn_blocking(wait).await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn hold_grpc_js(address: &str, streams: usize) {
    let mut open = Vec::new();
    for _ in 0..streams {
        let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap();
        let channel = channel.connect().await.unwrap();
        let mut stream = open_bytes(channel.clone(), 0, 0).await;
        stream.next().await.unwrap().unwrap();
        open.push((stream, channel));
    }
    println!("open");
    tokio::task::spawn_blocking(wait).await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn listen(address: &str, protocol: &str, streams: usize, seconds: u64) {
    let (latencies, mut collected) = tokio::sync::mpsc::channel(1024);
    for _ in 0..streams {
        if protocol == "grpc" {
            let mut events = open_grpc(address, "relayed").await;
            let latencies = latencies.clone();
            tokio::spawn(async move {
                while let Some(Ok(event)) = events.next().await {
                    let sent = text(&event.event).and_then(|text| sent_at(text.as_bytes()));
                    latencies.send(now() - sent.unwrap()).await.ok();
                }
            });
        } else {
            let socket = ask(address, protocol, 0, 0);
            socket.set_nonblocking(true).unwrap();
            let socket = tokio::net::TcpStream::from_std(socket).unwrap();
            tokio::spawn(read_times(socket, latencies.clone()));
        }
    }
    listen_for(&mut collected, Duration::from_secs(seconds)).await;
    tokio::task::spawn_blocking(wait).await.unwrap();
}

//! Many readers that stall on fast runs, and some that do not: the stalled ones cost what is documented, the others do not
//! notice, and who wakes up has missed nothing.
//!
//! 1,000 stall, or as many as the limit of open files lets (`ulimit -n`): a stream has both its ends in this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::testing::run_to_end;
use aqueduct_core::{BlockEvent, ContentBlock, RunOutcome, SourceEvent, Update};
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use http::Request;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::merged;
use super::stage::{Stage, memory};

const NORMAL: usize = 100;
const STALLED: usize = 1_000;
/// Deltas of the run; about 600 kB on the wire, three times what a stalled stream may hold.
const DELTAS: usize = 2_500;
/// What a stalled stream may cost, as documented: in the process, and in the kernel.
const USER_BYTES: u64 = 64 * 1024;
const KERNEL_BYTES: u64 = 128 * 1024;

/// How many can stall, beside the others.
fn stalled_readers() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files = files.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX);
    (files / 2).saturating_sub(NORMAL + 50).min(STALLED)
}

fn long_run() -> Vec<BlockEvent> {
    let words = (0..DELTAS).map(|n| {
        SourceEvent::from(Update::new(ContentBlock::text(format!("word {n:06} of a long answer, "))))
    });
    let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
    run_to_end(words.chain([end]))
}

/// Asks for the run and reads nothing.
async fn stall(stage: &Stage) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut socket = socket.connect(stage.address).await.unwrap();
    let request = format!("GET /runs/fast/events HTTP/1.1\r\nHost: {}\r\n\r\n", stage.address);
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Reads on. A server disconnects a reader that reads nothing for too long: then the rest is requested, as after any
/// cut.
async fn wake(mut socket: TcpStream, client: Client, stage: Arc<Stage>) -> Vec<u8> {
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while !answer.ends_with(b"\r\n0\r\n\r\n") {
        match socket.read(&mut buffer).await {
            Ok(count) if count > 0 => answer.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    let mut body = unchunked(&answer);
    if !answer.ends_with(b"\r\n0\r\n\r\n") {
        let text = String::from_utf8_lossy(&body);
        let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let last = whole.lines().rev().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
        let length = if whole.is_empty() { 0 } else { whole.len() + 2 };
        body.truncate(length);
        body.extend_from_slice(&read(&client, &stage, last.as_deref()).await);
    }
    body
}

/// The body without the framing of chunks, as far as it came.
fn unchunked(answer: &[u8]) -> Vec<u8> {
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|part| part == what);
    let mut rest = &answer[find(answer, b"\r\n\r\n").unwrap() + 4..];
    let mut body = Vec::new();
    while let Some(line) = find(rest, b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let end = (line + 2 + length).min(rest.len());
        body.extend_from_slice(&rest[line + 2..end]);
        rest = rest.get(end + 2..).unwrap_or_default();
    }
    body
}

async fn read(client: &Client, stage: &Stage, last: Option<&str>) -> Bytes {
    let mut request = Request::get(format!("http://{}/runs/fast/events", stage.address));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    client.request(request.body(Bytes::new()).unwrap()).await.unwrap().into_body()
}

/// Returns the content of a body, however its deltas were split: slow readers receive fewer and longer ones.
fn said(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    merged::payloads(text.lines().filter_map(|line| line.strip_prefix("data: ")))
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Bytes that the kernel holds for sending, from a port of this machine to each other port.
fn send_queues(from: u16) -> HashMap<u16, u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| port(row[1]) == from)
        .map(|row| (port(row[2]), u64::from_str_radix(row[4].split(':').next().unwrap(), 16).unwrap()))
        .collect()
}

/// Waits until the kernel's queues hold something and no longer change. A stream that was given up meanwhile has none.
async fn settled(stage: &Stage, sockets: &[TcpStream]) -> HashMap<u16, u64> {
    let mut last = HashMap::new();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = send_queues(stage.address.port());
        let is_full =
            |socket: &TcpStream| now.get(&socket.local_addr().unwrap().port()).is_none_or(|n| *n > 0);
        if now == last && sockets.iter().all(is_full) {
            return now;
        }
        last = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_cost_little_and_miss_nothing() {
    let stage = Stage::merging(memory()).await;
    stage.put("fast", &long_run()).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let whole = said(&read(&client, &stage, None).await);
    let (count, before) = (stalled_readers(), resident_bytes());
    let mut sockets = Vec::new();
    for _ in 0..count {
        sockets.push(stall(&stage).await);
    }
    let kernel = settled(&stage, &sockets).await;
    let grown = resident_bytes().saturating_sub(before) / u64::try_from(count).unwrap();
    let queued = kernel.values().max().copied().unwrap_or_default();
    assert!(queued <= KERNEL_BYTES, "{queued} bytes in the kernel for one stream");
    // The process holds both ends, and whatever else the test does.
    assert!(grown <= 2 * USER_BYTES, "the process grew by {grown} bytes for each of {count} stalled streams");

    let mut normal = JoinSet::new();
    for _ in 0..NORMAL {
        let (client, stage) = (client.clone(), Arc::clone(&stage));
        normal.spawn(async move { read(&client, &stage, None).await });
    }
    for read in normal.join_all().await {
        assert!(said(&read) == whole, "a normal reader missed something");
    }
    let mut woken = JoinSet::new();
    for socket in sockets {
        woken.spawn(wake(socket, client.clone(), Arc::clone(&stage)));
    }
    for read in woken.join_all().await {
        assert!(said(&read) == whole, "a reader that woke up missed something");
    }
}

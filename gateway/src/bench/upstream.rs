//! An A2A agent with negligible cost: it writes prepared frames, selected by the path of the request.
//!
//! A raw TCP server instead of the project's own: its cost is part of every figure, so it does as little as
//! possible. It understands one request per connection (`SendStreamingMessage` over JSON-RPC) and only what the
//! gateway sends. It checks nothing and is reachable on loopback only.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The last path segment selects the stream: unpaced, paced, or silent.
pub(super) const MODES: [&str; 3] = ["burst", "paced", "idle"];

/// Bytes that a burst writes at once: about the size of a socket buffer.
const BATCH: usize = 64 * 1024;
/// The largest request head, in bytes.
///
/// Longer heads are refused, although only the gateway of this process connects.
const HEAD: usize = 16 * 1024;

/// The length and the pace of the streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The number of chunks of a burst.
    pub(super) chunks: u64,
    /// The time between two chunks of a paced stream.
    pub(super) pace: Duration,
    /// The length of a paced stream.
    pub(super) paced_for: Duration,
    /// The reference time of the time stamps in chunks.
    pub(super) begun: Instant,
}

/// Listens on a free port of loopback and serves until the process ends. Returns the address.
pub(super) async fn start(plan: Plan) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the upstream cannot listen")?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move { serve(stream, plan).await.ok() });
        }
    });
    Ok(address)
}

/// Serves one connection: a task that starts, the chunks of the selected mode, and a task that completes.
async fn serve(mut stream: TcpStream, plan: Plan) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mode, id) = read_request(&mut stream).await?;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        .await?;
    let task = format!("bench-{id}");
    let start =
        format!(r#"{{"task":{{"id":"{task}","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}"#);
    stream.write_all(&frame(&id, &start)).await?;
    match mode.as_str() {
        "burst" => burst(&mut stream, plan, &id, &task).await?,
        "paced" => paced(&mut stream, plan, &id, &task).await?,
        // Idle streams send nothing after the task. Their sockets stay open until the process ends.
        _ => return std::future::pending().await,
    }
    let end = format!(
        r#"{{"statusUpdate":{{"taskId":"{task}","contextId":"c","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}"#
    );
    stream.write_all(&frame(&id, &end)).await?;
    stream.shutdown().await
}

/// Writes all chunks in batches, so that system calls do not dominate the figure.
async fn burst(stream: &mut TcpStream, plan: Plan, id: &str, task: &str) -> std::io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH + 1024);
    for number in 0..plan.chunks {
        batch.extend_from_slice(&chunk(id, task, "some words ", number > 0));
        if batch.len() >= BATCH {
            stream.write_all(&batch).await?;
            batch.clear();
        }
    }
    stream.write_all(&batch).await
}

/// Writes a chunk per tick. The text of a chunk is the time just before its write.
async fn paced(stream: &mut TcpStream, plan: Plan, id: &str, task: &str) -> std::io::Result<()> {
    let mut ticks = tokio::time::interval(plan.pace);
    let until = Instant::now() + plan.paced_for;
    let mut append = false;
    while Instant::now() < until {
        ticks.tick().await;
        let words = format!("{} ", plan.begun.elapsed().as_nanos());
        stream.write_all(&chunk(id, task, &words, append)).await?;
        append = true;
    }
    Ok(())
}

/// Returns a frame with an artifact update. The first chunk of a stream creates the artifact, later ones append
/// to it.
fn chunk(id: &str, task: &str, words: &str, append: bool) -> Vec<u8> {
    let result = format!(
        r#"{{"artifactUpdate":{{"taskId":"{task}","contextId":"c","artifact":{{"artifactId":"a","parts":[{{"text":"{words}"}}]}},"append":{append}}}}}"#
    );
    frame(id, &result)
}

/// Returns one server-sent event with a JSON-RPC response.
fn frame(id: &str, result: &str) -> Vec<u8> {
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n").into_bytes()
}

/// Reads one request. Returns the last segment of its path, which is the mode, and the JSON-RPC id as JSON
/// text.
///
/// # Errors
///
/// `UnexpectedEof` if the connection closes before the request is complete or the head is longer than [`HEAD`];
/// invalid JSON.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<(String, String)> {
    let mut bytes = Vec::new();
    let body = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > HEAD {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(bytes.get(..body).unwrap_or_default()).into_owned();
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < body + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let call: serde_json::Value = serde_json::from_slice(bytes.get(body..).unwrap_or_default())?;
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    let mode = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok((mode.to_owned(), call.get("id").map(ToString::to_string).unwrap_or_default()))
}

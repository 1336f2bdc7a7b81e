//! AG-UI clients that count the events they receive and measure their latency.
//!
//! A client reads its events as any AG-UI client does, over a connection of the shared HTTP client. It counts
//! words and not events: the gateway merges chunks that wait for a slow reader into one event, and each of them
//! must still be counted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use aqueduct_transport_http::{Client, ClientConfig, SseStream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

/// The result of one unpaced stream.
#[derive(Debug)]
pub(super) struct Burst {
    /// Chunks of the upstream that arrived, each found by its text.
    pub(super) deltas: u64,
    /// Bytes of event data, without the framing.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
}

/// Clients of one gateway.
#[derive(Debug)]
pub(super) struct Clients {
    client: Client,
    address: SocketAddr,
    /// The reference time of the time stamps in paced chunks, shared with the upstream.
    begun: Instant,
    /// The number of the next run, so that thread and run ids are unique at the gateway.
    runs: AtomicU64,
}

impl Clients {
    pub(super) fn new(address: SocketAddr, begun: Instant) -> anyhow::Result<Self> {
        Ok(Self { client: Client::new(ClientConfig::default())?, address, begun, runs: AtomicU64::new(0) })
    }

    /// Starts a run and returns its events, once the head of the response has arrived.
    async fn open(&self, agent: &str) -> anyhow::Result<SseStream> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let body = json!({
            "threadId": format!("bench-{run}"), "runId": format!("bench-{run}"), "protocolVersion": "1.0",
            "messages": [{ "id": "m", "role": "user", "content": "go" }],
            "state": {}, "tools": [], "context": [], "forwardedProps": {},
        });
        let request = http::Request::post(format!("http://{}/agents/{agent}", self.address))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(Bytes::from(body.to_string()))?;
        let opened = self.client.open_stream(request).await;
        opened.with_context(|| {
            format!("stream {run} cannot be opened: is the limit of open files high enough?")
        })
    }

    /// Reads one unpaced stream to its end. The time contains the start of the run.
    pub(super) async fn burst(&self) -> anyhow::Result<Burst> {
        let begun = Instant::now();
        let mut stream = self.open("burst").await?;
        let mut burst = Burst { deltas: 0, bytes: 0, elapsed: Duration::ZERO };
        while let Some(event) = stream.next().await {
            let data = event?.data;
            burst.bytes += data.len() as u64;
            // Chunks that waited for a slow reader arrive merged into one event.
            burst.deltas += u64::try_from(data.matches("some words ").count()).unwrap_or(0);
        }
        burst.elapsed = begun.elapsed();
        Ok(burst)
    }

    /// Returns the latency of each chunk, sorted. All streams run at the same time; the first one that fails
    /// fails the figure.
    pub(super) async fn paced(&self, streams: usize) -> anyhow::Result<Vec<Duration>> {
        let all = try_join_all((0..streams).map(|_| self.latencies())).await?;
        let mut latencies: Vec<Duration> = all.into_iter().flatten().collect();
        latencies.sort_unstable();
        Ok(latencies)
    }

    /// Reads one paced stream. The text of each chunk is its time stamp in nanoseconds since `begun`:
    ///
    /// ```text
    /// {"type":"TEXT_MESSAGE_CONTENT","messageId":"…","delta":"81250934 "}
    /// ```
    async fn latencies(&self) -> anyhow::Result<Vec<Duration>> {
        let mut stream = self.open("paced").await?;
        let mut latencies = Vec::new();
        while let Some(event) = stream.next().await {
            let value: Value = serde_json::from_str(&event?.data)?;
            let now = self.begun.elapsed();
            let words = value.get("delta").and_then(Value::as_str).unwrap_or_default();
            // Chunks that waited for a slow reader arrive merged into one event.
            let sent =
                words.split_whitespace().filter_map(|word| word.parse().ok()).map(Duration::from_nanos);
            latencies.extend(sent.map(|sent| now.saturating_sub(sent)));
        }
        Ok(latencies)
    }

    /// Opens streams that have begun and send nothing. One event is read of each, so that everything a stream
    /// allocates at its start is counted. Dropping the streams closes them.
    pub(super) async fn idle(&self, streams: usize) -> anyhow::Result<Vec<SseStream>> {
        let mut open = Vec::with_capacity(streams);
        for _ in 0..streams {
            let mut stream = self.open("idle").await?;
            stream.next().await.context("an idle stream ended")??;
            open.push(stream);
        }
        Ok(open)
    }
}

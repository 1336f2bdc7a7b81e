//! Paced streams: messages with their send time, and clients that measure the latency.

#![expect(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and may stop at the first thing that is wrong"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Prints `open` once all streams have sent a message, and after `time` the number of messages and two percentiles of their
/// latency in nanoseconds.
pub async fn listen_for(latencies: &mut mpsc::Receiver<u64>, time: Duration) {
    // The first messages of all streams have arrived by then.
    collect(latencies, Duration::from_secs(1)).await;
    println!("open");
    let mut all = collect(latencies, time).await;
    all.sort_unstable();
    let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
    println!("{} {} {}", all.len(), at(50), at(99));
}

/// Collects latencies for a time.
async fn collect(latencies: &mut mpsc::Receiver<u64>, time: Duration) -> Vec<u64> {
    let mut all = Vec::new();
    let end = tokio::time::sleep(time);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = &mut end => return all,
            Some(latency) = latencies.recv() => all.push(latency),
        }
    }
}

/// Reads a stream of paced messages to its end, and sends the latency of each.
pub async fn read_times(mut socket: TcpStream, latencies: mpsc::Sender<u64>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = socket.read(&mut buffer).await {
        let now = now();
        let mut rest = &buffer[..read];
        while let Some(sent) = sent_at(rest) {
            latencies.send(now.saturating_sub(sent)).await.ok();
            let at = rest.windows(3).position(|window| window == b"at:").unwrap();
            rest = &rest[at + 3..];
        }
    }
}

/// Returns the time after `at:` in a paced message.
pub fn sent_at(bytes: &[u8]) -> Option<u64> {
    let at = bytes.windows(3).position(|window| window == b"at:")?;
    std::str::from_utf8(bytes.get(at + 3..at + 23)?).ok()?.parse().ok()
}

/// Returns nanoseconds since 1970: the clock that processes share.
pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

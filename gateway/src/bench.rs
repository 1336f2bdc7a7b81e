//! `aqueduct bench`: the whole path over sockets, measured on this machine.
//!
//! ```text
//! upstream (A2A, prepared frames) ══ TCP ══► gateway ══ TCP ══► client (AG-UI, counts and clocks)
//! ```
//!
//! All three run in this process, so a figure contains the cost of all three. The figures compare two builds on one
//! machine; they do not measure a network. No figure passes or fails.
//!
//! | figure | agent | what is measured |
//! |---|---|---|
//! | one stream, unpaced | `burst` | chunks per second of one stream that never waits |
//! | paced streams | `paced` | latency per chunk, from the upstream's write to the client's parse |
//! | idle streams | `idle` | resident memory per open stream that sends nothing |

mod client;
mod upstream;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::BenchArgs;
use crate::config::{self, A2aBinding, Agent, AgentSource};
use crate::serve::Listening;
use crate::service::Gateway;
use crate::{chat, exit};
use client::Clients;
use upstream::Plan;

/// Between two chunks of a paced stream: 50 per second, as a fast model.
const PACE: Duration = Duration::from_millis(20);

/// Runs `aqueduct bench`.
///
/// Returns `exit::FAILED` only if a figure could not be measured (no socket, a lost chunk, too few file
/// descriptors), never because a figure is bad.
pub fn command(args: &BenchArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let measured = chat::block_on(bench(args, out, notes));
    exit::finish("bench", measured, notes)
}

/// Starts upstream, gateway and clients, and measures the three figures one after the other.
async fn bench(args: &BenchArgs, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<()> {
    let begun = Instant::now();
    let plan = Plan { chunks: args.chunks, pace: PACE, paced_for: Duration::from_secs(args.seconds), begun };
    let upstream = upstream::start(plan).await?;
    let listening = Listening::bind(gateway(upstream)?).await?;
    let address = *listening.addresses()?.first().context("no address")?;
    let shutdown = listening.shutdown();
    let serving = tokio::spawn(listening.serve());
    // The upstream and the clients share `begun`, so that a time stamp in a chunk can be subtracted from the
    // time of arrival.
    let clients = Clients::new(address, begun)?;
    let mut report = Report { as_json: args.json, out };
    let mut step = Step { notes, shows: std::io::stderr().is_terminal() };

    step.tell("one stream, unpaced");
    let burst = clients.burst().await?;
    // A stream that loses chunks is fast and wrong, so its figure is not reported.
    anyhow::ensure!(burst.deltas == args.chunks, "{} of {} chunks arrived", burst.deltas, args.chunks);
    let micros = burst.elapsed.as_micros().max(1);
    let per_second = |count: u64| u128::from(count) * 1_000_000 / micros;
    report.line(
        "one stream, unpaced",
        &json!({
            "chunks": burst.deltas,
            "milliseconds": figure(micros / 1000),
            "chunksPerSecond": figure(per_second(burst.deltas)),
            "nanosecondsPerChunk": figure(micros * 1000 / u128::from(args.chunks.max(1))),
            "kibibytesPerSecond": figure(per_second(burst.bytes) / 1024),
        }),
    )?;

    step.tell("paced streams");
    let paced = clients.paced(args.streams).await?;
    report.line(
        "paced streams",
        &json!({
            "streams": args.streams,
            "chunks": paced.len(),
            "p50Microseconds": percentile(&paced, 50),
            "p99Microseconds": percentile(&paced, 99),
            "worstMicroseconds": percentile(&paced, 100),
        }),
    )?;

    step.tell("idle streams");
    // Upstream and client sockets are in the same process, so the figure contains the memory of all three
    // sides.
    let before = resident();
    let idle = clients.idle(args.idle).await?;
    let grown = resident().zip(before).map(|(after, before)| after.saturating_sub(before));
    report.line(
        "idle streams",
        &json!({
            "streams": args.idle,
            "kibibytesPerStream": grown.map(|grown| grown / args.idle.max(1)),
        }),
    )?;
    step.clear();
    // Idle streams never end by themselves, so the gateway is aborted instead of drained.
    drop(idle);
    shutdown.cancel();
    serving.abort();
    Ok(())
}

/// Returns a gateway with one agent per figure. The name of an agent is the last segment of its URL at the
/// upstream, which selects the stream. Binding and version are configured, so that no card is fetched.
fn gateway(upstream: SocketAddr) -> anyhow::Result<std::sync::Arc<Gateway>> {
    let agent = |mode: &str| {
        let mut source = chat::a2a(&format!("http://{upstream}/{mode}"));
        if let AgentSource::A2a { binding, .. } = &mut source {
            *binding = Some(A2aBinding::JsonRpc);
        }
        (mode.to_owned(), Agent { source, ..Agent::default() })
    };
    let mut config = config::with_agents(BTreeMap::from(upstream::MODES.map(agent)));
    config.server.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    Gateway::new(config)
}

/// Converts a figure into the integer type of the JSON report; saturates.
fn figure(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Returns a percentile of sorted latencies, in microseconds. The index is rounded down; 0 if there are no
/// latencies.
fn percentile(sorted: &[Duration], percent: usize) -> u64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).map_or(0, |latency| figure(latency.as_micros()))
}

/// Returns the resident memory of the process in KiB, or `None` where `/proc` is not available. The line is
/// `VmRSS:   12345 kB`, in which the kernel writes kB for KiB.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Writes figures as they are measured: text for people, or one JSON object per figure.
struct Report<'o> {
    as_json: bool,
    out: &'o mut dyn Write,
}

impl Report<'_> {
    /// Writes one figure and flushes it, because the next figure may take many seconds.
    fn line(&mut self, name: &str, figures: &Value) -> std::io::Result<()> {
        if self.as_json {
            writeln!(self.out, "{}", json!({ "bench": name, "figures": figures }))?;
            return self.out.flush();
        }
        writeln!(self.out, "{name}")?;
        for (figure, value) in figures.as_object().into_iter().flatten() {
            writeln!(self.out, "  {figure:<20} {value}")?;
        }
        self.out.flush()
    }
}

/// The progress line of the figure that is being measured, for a terminal.
struct Step<'n> {
    notes: &'n mut dyn Write,
    shows: bool,
}

impl Step<'_> {
    /// Replaces the progress line. Does nothing if standard error is not a terminal.
    fn tell(&mut self, what: &str) {
        if self.shows {
            write!(self.notes, "\r\u{1b}[2Kmeasuring: {what} … ").and_then(|()| self.notes.flush()).ok();
        }
    }

    /// Removes the progress line after the last figure.
    fn clear(&mut self) {
        if self.shows {
            write!(self.notes, "\r\u{1b}[2K").and_then(|()| self.notes.flush()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_of_what_there_is() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!((percentile(&sorted, 50), percentile(&sorted, 100)), (50_000, 100_000));
        assert_eq!(percentile(&[], 99), 0);
    }
}

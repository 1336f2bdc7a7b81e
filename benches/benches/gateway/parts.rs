//! The three parts that compare relays: `burst`, `paced`, `idle`.

use std::time::{Duration, Instant};

use aqueduct_benches::process::{Server, float};

use crate::agent::CHUNKS;
use crate::relays::Relay;

/// Rounds of a burst; the first is a warm-up, the best of the others counts.
const ROUNDS: usize = 4;
const PACED_STREAMS: u64 = 100;
const PACED_SECONDS: u64 = 10;
const IDLE_STREAMS: u64 = 10_000;
/// The first streams include one-time costs.
const WARM_UP: u64 = 50;
/// Files that a relay needs in addition to those of its streams.
const OTHER_FILES: u64 = 2 * WARM_UP + 60;

pub(crate) fn burst() {
    println!("\none stream of {CHUNKS} chunks of about 20 bytes, unpaced");
    println!(
        "{:<22} {:>13} {:>9} {:>10} {:>13}",
        "", "CPU µs/chunk", "x proxy", "x bridge", "clock µs/chunk"
    );
    let agent = Server::own("agent", &[]);
    let mut known: Vec<f64> = Vec::new();
    for relay in Relay::all(&agent) {
        let (cpu, clock) = best_burst(&relay);
        known.push(cpu);
        let over = |other: usize| known.get(other).map_or(1.0, |other| cpu / other);
        println!("{:<22} {cpu:>13.3} {:>9.2} {:>10.2} {clock:>13.3}", relay.name, over(0), over(1));
    }
}

/// Returns the best of several bursts, as [`drain`] measures them.
pub(crate) fn best_burst(relay: &Relay) -> (f64, f64) {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| drain(relay)).collect();
    let best = |pick: fn(&(f64, f64)) -> f64| rounds[1..].iter().map(pick).fold(f64::INFINITY, f64::min);
    (best(|round| round.0), best(|round| round.1))
}

/// Microseconds per chunk of one burst: of CPU, and of the clock.
pub(crate) fn drain(relay: &Relay) -> (f64, f64) {
    let (before, begun) = (relay.server.process.cpu(), Instant::now());
    assert_eq!(relay.client("drain", "burst", &[]).line(), "done");
    let clock = begun.elapsed().as_secs_f64() * 1e6;
    (float(relay.server.process.cpu() - before) / 1e3 / float(CHUNKS), clock / float(CHUNKS))
}

pub(crate) fn paced() {
    println!("\n{PACED_STREAMS} streams x 50 chunks/s for {PACED_SECONDS} s");
    println!(
        "{:<22} {:>13} {:>9} {:>10} {:>10} {:>9} {:>9}",
        "", "CPU µs/chunk", "x proxy", "p50 µs", "p99 µs", "x proxy", "RSS MB"
    );
    let agent = Server::own("agent", &[]);
    let mut proxy = None;
    for relay in Relay::all(&agent) {
        let mut client = relay.client("listen", "paced", &[PACED_STREAMS, PACED_SECONDS]);
        client.line();
        let before = relay.server.process.cpu();
        let line = client.line();
        let cpu = float(relay.server.process.cpu() - before) / 1e3;
        let figures: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [chunks, median, late] = figures[..] else { panic!("{line}") };
        let (each, median, late) = (cpu / float(chunks), float(median) / 1e3, float(late) / 1e3);
        let (proxy_each, proxy_late) = *proxy.get_or_insert((each, late));
        let memory = float(relay.server.process.memory()) / 1e6;
        println!(
            "{:<22} {each:>13.1} {:>9.2} {median:>10.0} {late:>10.0} {:>9.2} {memory:>9.1}",
            relay.name,
            each / proxy_each,
            late / proxy_late
        );
    }
}

pub(crate) fn idle() {
    let streams = IDLE_STREAMS.min((files() - OTHER_FILES) / 2);
    println!("\n{streams} idle streams");
    println!("{:<22} {:>16} {:>12}", "", "KiB per stream", "RSS MB");
    let agent = Server::own("agent", &[]);
    for relay in Relay::all(&agent) {
        let mut warm_up = relay.client("hold", "idle", &[WARM_UP]);
        warm_up.line();
        rest();
        let before = relay.server.process.memory();
        let mut held = relay.client("hold", "idle", &[streams]);
        held.line();
        rest();
        let after = relay.server.process.memory();
        let each = float(after.saturating_sub(before)) / float(streams) / 1024.0;
        println!("{:<22} {each:>16.1} {:>12.1}", relay.name, float(after) / 1e6);
    }
}

/// Waits for the last writes and frees.
fn rest() {
    std::thread::sleep(Duration::from_secs(1));
}

/// Returns the limit of open files; a relay needs two per stream.
fn files() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap_or(u64::MAX)
}

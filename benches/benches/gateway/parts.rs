//! The parts that compare relays: `burst`, `paced`, `idle`, `peak`.

use std::time::{Duration, Instant};

use aqueduct_benches::process::{Server, float};

use crate::relays::Relay;
use crate::shapes::{SHAPES, Shape};

/// Rounds of a burst that count. One more goes before them.
const ROUNDS: usize = 5;
const PACED_STREAMS: [u64; 2] = [100, 400];
const PEAK_STREAMS: u64 = 2_000;
const PEAK_SECONDS: u64 = 60;
const PACED_SECONDS: u64 = 10;
const IDLE_STREAMS: u64 = 10_000;
/// The first streams include one-time costs.
const WARM_UP: u64 = 50;
/// Files that a relay needs in addition to those of its streams.
const OTHER_FILES: u64 = 2 * WARM_UP + 60;

/// Picks a figure out of a round: CPU and time of the clock of every relay.
type Pick<'p> = dyn Fn(&[(f64, f64)]) -> f64 + 'p;

/// All relays at once, asked in turn, so that each round meets the same neighbours. Medians of the rounds.
pub(crate) fn burst() {
    let agent = Server::own("agent", &[]);
    let relays: Vec<Relay> = Relay::all(&agent).collect();
    for shape in &SHAPES {
        let Shape { name, chunks, .. } = shape;
        println!("\n{name}: streams of {chunks} texts of 21 bytes, unpaced, medians of {ROUNDS} rounds");
        println!(
            "{:<22} {:>13} {:>9} {:>10} {:>13}",
            "", "CPU µs/chunk", "x proxy", "x bridge", "clock µs/chunk"
        );
        let rounds: Vec<Vec<(f64, f64)>> =
            (0..=ROUNDS).map(|_| relays.iter().map(|relay| drain(relay, shape)).collect()).skip(1).collect();
        let figure = |pick: &Pick<'_>| median(rounds.iter().map(|round| pick(round)).collect());
        for (place, relay) in relays.iter().enumerate() {
            let cpu = figure(&|round| round[place].0);
            let over = |other: usize| figure(&|round| round[place].0 / round[other].0);
            let clock = figure(&|round| round[place].1);
            println!("{:<22} {cpu:>13.3} {:>9.2} {:>10.2} {clock:>13.3}", relay.name, over(0), over(1));
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds per chunk of one round: of CPU, and of the clock.
pub(crate) fn drain(relay: &Relay, shape: &Shape) -> (f64, f64) {
    let (before, begun) = (relay.server.process.cpu(), Instant::now());
    assert_eq!(relay.client("drain", shape.mode, &[shape.streams, shape.chunks]).line(), "done");
    let clock = begun.elapsed().as_secs_f64() * 1e6;
    let chunks = float(shape.streams * shape.chunks);
    (float(relay.server.process.cpu() - before) / 1e3 / chunks, clock / chunks)
}

/// Memory before, during and after a peak of streams whose clients leave.
pub(crate) fn peak() {
    println!("\na peak of {PEAK_STREAMS} streams, and {PEAK_SECONDS} s after their clients left");
    println!("{:<22} {:>10} {:>10} {:>10} {:>9}", "resident MB", "before", "peak", "after", "x before");
    let agent = Server::own("agent", &[]);
    for relay in Relay::all(&agent) {
        let memory = || float(relay.server.process.memory()) / 1e6;
        relay.client("hold", "idle", &[WARM_UP]).line();
        rest();
        let before = memory();
        let mut held = relay.client("hold", "idle", &[PEAK_STREAMS]);
        held.line();
        let peak = memory();
        drop(held);
        std::thread::sleep(Duration::from_secs(PEAK_SECONDS));
        let after = memory();
        println!("{:<22} {before:>10.1} {peak:>10.1} {after:>10.1} {:>9.2}", relay.name, after / before);
    }
}

pub(crate) fn paced() {
    PACED_STREAMS.into_iter().for_each(paced_streams);
}

fn paced_streams(streams: u64) {
    println!("\n{streams} streams x 50 chunks/s for {PACED_SECONDS} s");
    println!(
        "{:<22} {:>13} {:>9} {:>10} {:>10} {:>9} {:>9}",
        "", "CPU µs/chunk", "x proxy", "p50 µs", "p99 µs", "x proxy", "RSS MB"
    );
    let agent = Server::own("agent", &[]);
    let mut proxy = None;
    for relay in Relay::all(&agent) {
        let mut client = relay.client("listen", "paced", &[streams, PACED_SECONDS]);
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

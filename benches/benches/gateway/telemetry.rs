//! What telemetry costs: the same burst with and without its export.
//!
//! A ratio that holds on a machine that does other work: CPU that the kernel charged to the gateway, never time of the clock;
//! all gateways at once, measured in turn, so that each round meets the same neighbours; each round's ratio to the
//! gateway without telemetry of that round, and the median of the rounds. The second gateway without telemetry shows
//! the precision.

use aqueduct_benches::process::Server;
use axum::Router;

use crate::parts::drain;
use crate::relays::{Relay, aqueduct_with};
use crate::shapes::SHAPES;

/// Rounds that count. One more goes before them, in which buffers come to rest.
const ROUNDS: usize = 21;

/// A collector that takes everything and keeps nothing.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run_collector() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    axum::serve(listener, Router::new().fallback(async || ())).await.unwrap();
}

pub(crate) fn report() {
    println!("\nthe same burst with telemetry, in CPU µs/chunk of the gateway, medians of {ROUNDS} rounds");
    println!("{:<44} {:>13} {:>9} {:>15}", "", "CPU µs/chunk", "x off", "quartiles");
    let (agent, collector) = (Server::own("agent", &[]), Server::own("collector", &[]));
    let export = |more: &str| {
        let address = &collector.address;
        format!("[telemetry]\notlp = \"http://{address}\"\nprotocol = \"http\"\n{more}\n")
    };
    let cases = [
        ("off", String::new()),
        ("off, once more", String::new()),
        ("traces of one run in ten", export("sample = 0.1")),
        ("traces of one run in ten, metrics every 10 s", export("sample = 0.1\nmetrics = \"10s\"")),
        ("traces of every run", export("sample = 1.0")),
    ];
    let start = |settings: &String| aqueduct_with(&agent.address, settings);
    let Some(relays) = cases.iter().map(|(_, settings)| start(settings)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let rounds = rounds(&relays);
    for (place, (name, _)) in cases.iter().enumerate() {
        let cpu = quartiles(rounds.iter().map(|round| round[place]).collect());
        let ratio = quartiles(rounds.iter().map(|round| round[place] / round[0]).collect());
        println!("{name:<44} {:>13.3} {:>9.3} {:>8.3}–{:.3}", cpu[1], ratio[1], ratio[0], ratio[2]);
    }
}

/// CPU per chunk of every relay, round by round. Each round begins with another relay: none is always the first.
fn rounds(relays: &[Relay]) -> Vec<Vec<f64>> {
    let round = |first: usize| {
        let mut round = vec![0.0; relays.len()];
        for place in (0..relays.len()).map(|step| (first + step) % relays.len()) {
            round[place] = drain(&relays[place], &SHAPES[0]).0;
        }
        round
    };
    (0..=ROUNDS).map(round).skip(1).collect()
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

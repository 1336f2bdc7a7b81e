//! The cost of traces: the same burst with and without their export.

use aqueduct_benches::process::Server;
use axum::Router;

use crate::parts::best_burst;
use crate::relays::{Relay, aqueduct_with};

/// A collector that accepts and drops everything.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run_collector() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    axum::serve(listener, Router::new().fallback(async || ())).await.unwrap();
}

pub(crate) fn report() {
    println!("\nthe same burst with traces, in CPU µs/chunk of the gateway");
    println!("{:<34} {:>13} {:>9}", "", "CPU µs/chunk", "x off");
    let (agent, collector) = (Server::own("agent", &[]), Server::own("collector", &[]));
    let export = |share: &str| {
        let address = &collector.address;
        format!("[telemetry]\notlp = \"http://{address}\"\nprotocol = \"http\"\nsample = {share}\n")
    };
    let cases = [
        ("off", String::new()),
        ("export on, one run in ten", export("0.1")),
        ("export on, every run", export("1.0")),
    ];
    let mut off = None;
    for (name, settings) in &cases {
        let Some(relay) = aqueduct_with(&agent.address, settings) else { return };
        let cpu = measure(&relay);
        let off = *off.get_or_insert(cpu);
        println!("{name:<34} {cpu:>13.3} {:>9.2}", cpu / off);
    }
}

fn measure(relay: &Relay) -> f64 {
    best_burst(relay).0
}

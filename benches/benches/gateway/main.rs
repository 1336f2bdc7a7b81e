//! The whole path over sockets: an A2A agent, a relay, AG-UI clients. `cargo xtask bench gateway`.
//!
//! ```text
//! agent (A2A 0.3, SSE) ══ TCP ══► relay ══ TCP ══► clients (AG-UI, SSE)
//!                                   ├ a proxy that copies bytes: the cost of the system alone
//!                                   ├ the minimal bridge: parses frames, writes events; no model, no log, no errors
//!                                   ├ aqueduct, the released program with its defaults: run log on, all cores
//!                                   └ `@ag-ui/a2a` with `@ag-ui/encoder` in node
//! ```
//!
//! * `burst`: one stream as fast as it goes, in artifact chunks and in every shape of status texts (`shapes`), in CPU of the
//!   relay and in time of the clock;
//! * `telemetry`: the burst with traces and metrics exported, against none, asked in turn;
//! * `paced`: a hundred and four hundred streams of fifty chunks a second;
//! * `idle`: memory of a started and silent stream, at ten thousand, or as many as the limit of open files allows;
//! * `peak`: memory before, during and a minute after two thousand streams;
//! * `start`: time to the first answer, memory after it, and size of the program.
//!
//! All parts are separate processes; CPU time is that of the relay's threads. One part only:
//! `cargo xtask bench gateway -- burst`. A bench neither passes nor fails.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench may stop at the first thing that is wrong"
)]

mod agent;
mod bridge;
mod clients;
mod parts;
mod relays;
mod shapes;
mod start;
mod telemetry;

fn main() {
    // Arguments that cargo adds.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server", "agent"] => agent::run(),
        ["server", "collector"] => telemetry::run_collector(),
        ["server", "proxy", agent] => bridge::run_proxy(agent),
        ["server", "bridge", agent] => bridge::run(agent),
        ["client", role, rest @ ..] => clients::run(role, rest),
        wanted => measure(|part| wanted.is_empty() || wanted.contains(&part)),
    }
}

fn measure(is_wanted: impl Fn(&str) -> bool) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine before: {}", load.trim());
    if relays::program().is_none() {
        println!("aqueduct itself is not measured: run `cargo xtask bench gateway`");
    }
    if is_wanted("start") {
        start::report();
    }
    if is_wanted("burst") {
        parts::burst();
    }
    if is_wanted("telemetry") {
        telemetry::report();
    }
    if is_wanted("paced") {
        parts::paced();
    }
    if is_wanted("idle") {
        parts::idle();
    }
    if is_wanted("peak") {
        parts::peak();
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nload of the machine after: {}", load.trim());
}

//! The whole way over sockets: an A2A agent, a relay, AG-UI clients. `cargo xtask bench gateway`.
//!
//! ```text
//! agent (A2A 0.3, SSE) ══ TCP ══► relay ══ TCP ══► clients (AG-UI, SSE)
//!                                   ├ a proxy that copies bytes: what the system alone costs
//!                                   ├ the least bridge: reads frames, writes events; no model, no log, no errors
//!                                   ├ aqueduct, the released program, as it is shipped: run log on, all cores
//!                                   └ `@ag-ui/a2a` with `@ag-ui/encoder` in node
//! ```
//!
//! * `burst`: one stream as fast as it goes, in CPU of the relay and in time of the clock;
//! * `telemetry`: the burst with traces and metrics exported, against none, asked in turn;
//! * `paced`: a hundred streams of fifty chunks a second;
//! * `idle`: memory of a stream that has begun and says nothing, at ten thousand, or as many as the system allows files;
//! * `start`: how soon the program answers, what it holds then, and how large it is.
//!
//! All are processes of their own; CPU is what the kernel charged to the relay's threads. One part only:
//! `cargo xtask bench gateway -- burst`. Nothing here passes or fails.

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
mod start;
mod telemetry;

fn main() {
    // What cargo adds.
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
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nload of the machine after: {}", load.trim());
}

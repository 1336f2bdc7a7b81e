//! The cost of the transports compared with real peers, in one run on one machine: `cargo xtask bench transports`.
//!
//! * server CPU time per message of 100 bytes, flushed one by one and in batches, compared with node `ws`, `@grpc/grpc-js`,
//!   node's own HTTP server and a program that writes the same bytes to a plain socket;
//! * memory of an idle stream at 10,000 of them, in the process and in the kernel's socket buffers;
//! * CPU time and latency of 100 paced relayed streams, compared with a proxy that only copies bytes.
//!
//! Servers, clients and the measuring process are separate processes (this program in other roles), so that CPU time is
//! attributed correctly. Only the ratios of one run count: the machine is shared. One part only:
//! `cargo xtask bench transports -- cpu` (or `idle`, `paced`). A bench neither passes nor fails, and writes no file.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench may stop at the first thing that is wrong"
)]

mod clients;
mod cpu;
mod idle;
mod paced;
mod servers;
mod service;

use std::path::PathBuf;

use aqueduct_benches::process::Server;

fn main() {
    // Arguments that cargo adds.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server", role, rest @ ..] => servers::run(role, rest),
        ["client", role, rest @ ..] => clients::run(role, rest),
        parts => measure(|part| parts.is_empty() || parts.contains(&part)),
    }
}

fn measure(is_wanted: impl Fn(&str) -> bool) {
    if is_wanted("cpu") {
        cpu::report();
    }
    if is_wanted("idle") {
        idle::report();
    }
    if is_wanted("paced") {
        paced::report();
    }
    if node_files().is_none() {
        println!("\nnode's peers were not measured: run `cargo xtask bench transports`");
    }
}

/// Starts a server in node, if it is installed.
fn node(kind: &str) -> Option<Server> {
    let [script, project] = node_files()?;
    Some(Server::node(&script, &project, &[kind]))
}

/// Returns the script of node's servers and the folder of their packages.
fn node_files() -> Option<[String; 2]> {
    let script = PathBuf::from(std::env::var_os("AQUEDUCT_INTEROP_DIR")?).join("transports/bench.mjs");
    Some([script.to_str()?.to_owned(), std::env::var("AQUEDUCT_BENCH_TRANSPORTS").ok()?])
}

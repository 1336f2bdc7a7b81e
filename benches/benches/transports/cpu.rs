//! Server CPU time per message, flushed one by one and in batches.

use aqueduct_benches::process::{Server, float};

use crate::node;

/// Messages per batch.
const BATCH: u64 = 32;

/// A measured server: its name, its start function, the protocol of its client.
type Row = (&'static str, fn() -> Option<Server>, &'static str);

const ROWS: [Row; 7] = [
    ("raw bytes on a socket", || Some(Server::own("raw", &[])), "raw"),
    ("aqueduct, SSE over HTTP/1.1", || Some(Server::own("http", &[])), "http"),
    ("node http, SSE", || node("http"), "http"),
    ("aqueduct, WebSocket", || Some(Server::own("ws", &[])), "ws"),
    ("node ws", || node("ws"), "ws"),
    ("aqueduct, gRPC", || Some(Server::own("grpc", &[])), "grpc"),
    ("@grpc/grpc-js", || node("grpc"), "grpc-js"),
];

pub(crate) fn report() {
    println!("\nserver CPU, messages of 100 bytes, one stream, one thread");
    println!("{:<30} {:>14} {:>8} {:>16} {:>8}", "", "µs, each alone", "x raw", "µs, in batches", "x raw");
    let mut raw = None;
    for (name, start, protocol) in ROWS {
        let Some(server) = start() else { continue };
        let alone = micros(&server, protocol, 1);
        let batched = micros(&server, protocol, BATCH);
        let (raw_alone, raw_batched) = *raw.get_or_insert((alone, batched));
        println!(
            "{name:<30} {alone:>14.3} {:>8.2} {batched:>16.3} {:>8.2}",
            alone / raw_alone,
            batched / raw_batched
        );
    }
}

/// Returns the best of several rounds: on a shared machine the rest is noise.
fn micros(server: &Server, protocol: &str, batch: u64) -> f64 {
    let messages = if batch == 1 { 200_000 } else { 640_000 };
    // The first round is a warm-up.
    let rounds = [messages / 4, messages, messages, messages];
    let times = rounds.map(|messages| {
        let before = server.process.cpu();
        let arguments = [protocol, &messages.to_string(), &batch.to_string()];
        assert_eq!(server.client("drain", &arguments).line(), "done");
        float(server.process.cpu() - before) / float(messages) / 1000.0
    });
    times.into_iter().skip(1).fold(f64::INFINITY, f64::min)
}

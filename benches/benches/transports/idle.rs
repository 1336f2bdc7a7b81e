//! Memory of a stream that has sent one message and waits for the next.

use std::time::Duration;

use aqueduct_benches::process::{Server, float, socket_memory};

use crate::node;

const STREAMS: u64 = 10_000;

/// The first streams include one-time costs.
const WARM_UP: u64 = 100;

type Row = (&'static str, fn() -> Option<Server>, &'static str);

const ROWS: [Row; 7] = [
    ("aqueduct, SSE over HTTP/1.1", || Some(Server::own("http", &[])), "http"),
    ("node http, SSE", || node("http"), "http"),
    ("aqueduct, WebSocket", || Some(Server::own("ws", &[])), "ws"),
    ("node ws", || node("ws"), "ws"),
    ("aqueduct, gRPC, 100 per connection", || Some(Server::own("grpc", &[])), "grpc-shared"),
    ("aqueduct, gRPC, 1 per connection", || Some(Server::own("grpc", &[])), "grpc"),
    ("@grpc/grpc-js, 1 per connection", || node("grpc"), "grpc-js"),
];

pub(crate) fn report() {
    println!("\nidle streams, {STREAMS} of them");
    println!("{:<36} {:>22} {:>26}", "", "KiB each in the server", "KiB in socket buffers each");
    for (name, start, protocol) in ROWS {
        let Some(server) = start() else { continue };
        let mut warm_up = server.client("hold", &[protocol, &WARM_UP.to_string()]);
        warm_up.line();
        rest();
        let before = (server.process.memory(), socket_memory());
        let mut streams = server.client("hold", &[protocol, &STREAMS.to_string()]);
        streams.line();
        rest();
        let after = (server.process.memory(), socket_memory());
        let each = |after: u64, before: u64| float(after.saturating_sub(before)) / float(STREAMS) / 1024.0;
        println!("{name:<36} {:>22.2} {:>26.2}", each(after.0, before.0), each(after.1, before.1));
    }
}

/// Waits for the last writes and frees.
fn rest() {
    std::thread::sleep(Duration::from_secs(1));
}

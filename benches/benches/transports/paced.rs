//! A hundred relayed streams of fifty messages a second: the cost of paced traffic is system calls and wake-ups.

use aqueduct_benches::process::{Server, float};

const STREAMS: u64 = 100;
const SECONDS: u64 = 10;

pub(crate) fn report() {
    println!("\n{STREAMS} streams x 50 events/s for {SECONDS} s, from a source over SSE");
    println!(
        "{:<34} {:>13} {:>9} {:>10} {:>10} {:>9}",
        "", "CPU µs/event", "x proxy", "p50 µs", "p99 µs", "RSS MB"
    );
    let source = Server::own("source", &[]);
    let mut proxy = None;
    for (name, role, protocol) in [
        ("byte proxy", "proxy", "http"),
        ("aqueduct, SSE in, SSE out", "http", "http"),
        ("aqueduct, SSE in, WebSocket out", "ws", "ws"),
        ("aqueduct, SSE in, gRPC out", "grpc", "grpc"),
    ] {
        let server = Server::own(role, &[&source.address]);
        let mut client = server.client("listen", &[protocol, &STREAMS.to_string(), &SECONDS.to_string()]);
        client.line();
        let before = server.process.cpu();
        let line = client.line();
        let cpu = float(server.process.cpu() - before) / 1000.0;
        let figures: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [events, median, late] = figures[..] else { panic!("{line}") };
        let each = cpu / float(events);
        let ratio = each / *proxy.get_or_insert(each);
        let (median, late) = (float(median) / 1000.0, float(late) / 1000.0);
        let memory = float(server.process.memory()) / 1e6;
        println!("{name:<34} {each:>13.1} {ratio:>9.2} {median:>10.0} {late:>10.0} {memory:>9.1}");
    }
}

//! Readers of every speed on one run: the fast ones are unharmed, the slow one loses nothing, the stalled one costs a
//! bounded amount and can come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, Update};
use aqueduct_transport_grpc::{Config, Error, Limits, RunStream, Timeouts, proto};
use aqueduct_transport_http::{Gauge, ServerConfig, Total};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::endless::{Endless, TEXT_BYTES};
use crate::h2_peer::{self as h2, H2Peer, frame};
use crate::memory::{resident_bytes, send_queues};
use crate::service::{MemoryService, Run};
use crate::support::{Running, assert_cut, collect, prompt, run_id, until};

const DELTAS: usize = 250;
const DELTA_BYTES: usize = 2_000;

/// A server with a run of half a megabyte.
async fn long_run(write_stall: Duration) -> (Running, Arc<Run>) {
    let service = MemoryService::default().with_agent("long", |_, run| {
        for number in 0..DELTAS {
            run.say(Update::text(format!("{number:0DELTA_BYTES$}")));
        }
        run.succeed();
        Ok(())
    });
    let service = Arc::new(service);
    let timeouts = Timeouts { write_stall, ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let server = Running::share(&service, config).await;
    drop(server.client().await.run("long", &prompt("run")).await.unwrap());
    let run = service.run(&run_id("run")).unwrap();
    until("nobody watches", || run.watchers() == 0).await;
    (server, run)
}

/// Reads one event after the other, with a turn of everybody else in between.
async fn read_slowly(mut stream: RunStream) -> Vec<NumberedEvent> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event.unwrap());
        tokio::task::yield_now().await;
    }
    events
}

/// Reads what is left until the cut.
async fn read_to_cut(stream: &mut RunStream) -> (Vec<NumberedEvent>, Error) {
    let mut events = Vec::new();
    loop {
        match stream.next().await.expect("a stalled stream does not end well") {
            Ok(event) => events.push(event),
            Err(error) => return (events, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_a_slow_and_a_hundred_fast_readers() {
    // In a debug build on a busy machine a hundred readers take turns for a second.
    let (server, run) = long_run(Duration::from_secs(4)).await;
    let all = run.events();
    let stalled_client = server.client().await;
    let mut stalled = stalled_client.watch(&run_id("run"), 0).await.unwrap();
    let slow = tokio::spawn(read_slowly(server.client().await.watch(&run_id("run"), 0).await.unwrap()));
    let clients = [server.client().await, server.client().await];
    let mut fast = Vec::new();
    for number in 0..100 {
        let stream = clients[number % 2].watch(&run_id("run"), 0).await.unwrap();
        fast.push(tokio::spawn(collect(stream)));
    }
    for reader in fast {
        assert!(reader.await.unwrap() == all, "a fast reader lost something");
    }
    assert!(slow.await.unwrap() == all, "the slow reader lost something");
    until("the stalled reader is dropped", || run.watchers() == 0).await;
    assert_eq!(server.stalled(), 1);

    let (mut seen, error) = read_to_cut(&mut stalled).await;
    assert_cut(&error, tonic::Code::Unavailable);
    let held: usize = seen
        .iter()
        .map(|event| match &event.event {
            BlockEvent::BlockDelta { delta, .. } => delta.len(),
            _ => 0,
        })
        .sum();
    // 64 KiB window of the client, 32 KiB of HTTP/2's buffer, a message in each of tonic and hyper.
    assert!(held <= 160 * 1024, "{held} bytes were taken from the service for a reader that read nothing");
    let rest = stalled_client.watch(&run_id("run"), stalled.last()).await.unwrap();
    seen.extend(collect(rest).await);
    assert!(seen == all, "the stalled reader lost something");
    drop((clients, stalled_client, stalled));
    server.is_empty().await;
}

/// What a stalled stream may cost, as documented: 128 KiB in the process and 128 KiB in the kernel.
const USER_BYTES: u64 = 128 * 1024;
const KERNEL_BYTES: u64 = 128 * 1024;

/// Starts a run with windows that never fill, and reads nothing: only the server's own bounds hold.
async fn stalled(server: &Running) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut peer = H2Peer(socket.connect(server.address).await.unwrap());
    let input = proto::RunInput {
        thread_id: Bytes::from_static(b"t"),
        run_id: Bytes::from_static(b"r"),
        ..Default::default()
    };
    let request = proto::RunRequest { agent: Bytes::from_static(b"endless"), input: Some(input) };
    let request = request.encode_to_vec();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let message = [&[0], &length[..], &request].concat();
    let bytes = [
        h2::PREFACE.to_vec(),
        // INITIAL_WINDOW_SIZE as large as it can be, and the connection's window too.
        frame(h2::SETTINGS, 0, 0, &[&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat()),
        frame(h2::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()),
        h2::post(1, "/aqueduct.v1.AgentStream/Run", "application/grpc"),
        frame(h2::DATA, 1, 1, &message),
    ];
    peer.0.write_all(&bytes.concat()).await.unwrap();
    peer.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_stream_costs_what_is_documented() {
    const STALLED: u64 = 40;
    let service = Endless::default();
    let taken = Arc::clone(&service.taken);
    let server = Running::serve(service, Config::default()).await;
    let before = resident_bytes();
    let mut sockets = Vec::new();
    for _ in 0..STALLED {
        sockets.push(stalled(&server).await);
    }
    until("all runs are open", || server.counters.gauge(Gauge::Streams) == STALLED).await;
    let (mut last, mut quiet) = (0, 0);
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    while quiet < 200 {
        ticks.tick().await;
        let now = taken.load(Ordering::SeqCst);
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    // All that was taken is in the process or in the kernel, on either side.
    let held = last * TEXT_BYTES as u64 / STALLED;
    assert!(held <= USER_BYTES + KERNEL_BYTES, "{held} bytes were taken for each");
    let kernel = send_queues(server.address.port());
    for socket in &sockets {
        let queued = kernel[&socket.local_addr().unwrap().port()];
        assert!(queued > 0, "it does not stall");
        assert!(queued <= KERNEL_BYTES, "{queued} bytes in the kernel");
        let user = held.saturating_sub(queued);
        assert!(user <= USER_BYTES, "{user} bytes in the process");
    }
    // The whole process, with everything else that the test does: a loose bound that an unbounded queue breaks.
    let grown = resident_bytes().saturating_sub(before) / STALLED;
    assert!(grown <= 4 * USER_BYTES, "the process grew by {grown} bytes for each");
    drop(sockets);
    server.is_empty().await;
}

#[tokio::test]
async fn a_stalled_reader_does_not_hold_its_connection_mates() {
    let (server, run) = long_run(Duration::from_millis(500)).await;
    let client = server.client().await;
    let stalled = client.watch(&run_id("run"), 0).await.unwrap();
    for _ in 0..5 {
        let events = collect(client.watch(&run_id("run"), 0).await.unwrap()).await;
        assert_eq!(events.len(), run.events().len());
    }
    until("the stalled reader is dropped", || server.stalled() == 1).await;
    drop((client, stalled));
    server.is_empty().await;
}

#[tokio::test]
async fn a_reader_of_a_silent_run_is_not_stalled() {
    let service = Arc::new(MemoryService::with_examples());
    let timeouts = Timeouts { write_stall: Duration::from_millis(20), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let server = Running::share(&service, config).await;
    let stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    tokio::time::timeout(Duration::from_millis(200), std::future::pending::<()>()).await.unwrap_err();
    let run = service.run(&run_id("run")).unwrap();
    run.succeed();
    assert_eq!(collect(stream).await, run.events());
    assert_eq!(server.stalled(), 0);
}

#[tokio::test]
async fn a_large_event_goes_alone_and_whole() {
    let service = MemoryService::default().with_agent("large", |_, run| {
        for text in ["before".to_owned(), "x".repeat(5 * 1024 * 1024), "after".to_owned()] {
            run.say(Update::text(text));
        }
        run.succeed();
        Ok(())
    });
    let service = Arc::new(service);
    let server = Running::share(&service, Config::default()).await;
    let events = collect(server.client().await.run("large", &prompt("run")).await.unwrap()).await;
    assert!(events == service.run(&run_id("run")).unwrap().events(), "something was lost");
    assert_eq!(server.counters.total(Total::MessagesOut), 2, "all up to the large one, and the rest");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let mut config = ServerConfig::http2_only();
    config.limits.connections = 1;
    let server = Running::serve(MemoryService::with_examples(), config).await;
    let first = server.client().await;
    assert_eq!(first.list_agents().await.unwrap().len(), 3);
    let second = server.client().await;
    let mut waiting = Box::pin(second.list_agents());
    for _ in 0..200 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.sockets.gauge(Gauge::Connections), 1);
    drop(first);
    assert_eq!(waiting.await.unwrap().len(), 3);
}

#[tokio::test]
async fn deltas_that_wait_are_merged_without_losing_a_byte() {
    let service = MemoryService::default().with_agent("long", |_, run| {
        for number in 0..1000 {
            run.say(Update::text(format!("<{number:020}>")));
        }
        run.succeed();
        Ok(())
    });
    let limits = Limits { merge_bytes: 4096, ..Limits::default() };
    let service = Arc::new(service);
    let server = Running::share(&service, Config { limits, ..Config::default() }).await;
    let client = server.client().await;
    let all = collect(client.run("long", &prompt("run")).await.unwrap()).await;
    let events = service.run(&run_id("run")).unwrap().events();
    assert!(all.len() < events.len() / 2, "{} events", all.len());
    assert_eq!(all.last(), events.last());
    let text = |events: &[NumberedEvent]| {
        let delta = |event: &NumberedEvent| match &event.event {
            BlockEvent::BlockDelta { delta, .. } => delta.to_string(),
            _ => String::new(),
        };
        events.iter().map(delta).collect::<String>()
    };
    assert_eq!(text(&all), text(&events));
    // Whoever comes back behind any of them gets the rest.
    for at in [0, 1, all.len() / 2, all.len() - 2] {
        let mut seen = all[..=at].to_vec();
        seen.extend(collect(client.watch(&run_id("run"), all[at].number).await.unwrap()).await);
        assert!(text(&seen) == text(&events), "after {}", all[at].number);
    }
}

//! Readers of every speed on one run: the fast ones are unharmed, the slow one loses nothing, the stalled one costs a
//! bounded amount and can come back.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, Update};
use aqueduct_transport_grpc::{ClientError, Limits, RunStream, ServerConfig, Timeouts};
use futures_util::{FutureExt as _, StreamExt as _};

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
    let config = ServerConfig { timeouts, ..ServerConfig::default() };
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
async fn read_to_cut(stream: &mut RunStream) -> (Vec<NumberedEvent>, ClientError) {
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
    assert_eq!(server.counters.snapshot().stalled, 1);

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

#[tokio::test]
async fn a_stalled_reader_does_not_hold_its_connection_mates() {
    let (server, run) = long_run(Duration::from_millis(500)).await;
    let client = server.client().await;
    let stalled = client.watch(&run_id("run"), 0).await.unwrap();
    for _ in 0..5 {
        let events = collect(client.watch(&run_id("run"), 0).await.unwrap()).await;
        assert_eq!(events.len(), run.events().len());
    }
    until("the stalled reader is dropped", || server.counters.snapshot().stalled == 1).await;
    drop((client, stalled));
    server.is_empty().await;
}

#[tokio::test]
async fn a_reader_of_a_silent_run_is_not_stalled() {
    let service = Arc::new(MemoryService::with_examples());
    let timeouts = Timeouts { write_stall: Duration::from_millis(20), ..Timeouts::default() };
    let config = ServerConfig { timeouts, ..ServerConfig::default() };
    let server = Running::share(&service, config).await;
    let stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    tokio::time::timeout(Duration::from_millis(200), std::future::pending::<()>()).await.unwrap_err();
    let run = service.run(&run_id("run")).unwrap();
    run.succeed();
    assert_eq!(collect(stream).await, run.events());
    assert_eq!(server.counters.snapshot().stalled, 0);
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
    let server = Running::share(&service, ServerConfig::default()).await;
    let events = collect(server.client().await.run("large", &prompt("run")).await.unwrap()).await;
    assert!(events == service.run(&run_id("run")).unwrap().events(), "something was lost");
    assert_eq!(server.counters.snapshot().messages_out, 2, "all up to the large one, and the rest");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    let first = server.client().await;
    assert_eq!(first.list_agents().await.unwrap().len(), 3);
    let second = server.client().await;
    let mut waiting = Box::pin(second.list_agents());
    for _ in 0..200 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.counters.snapshot().connections, 1);
    drop(first);
    assert_eq!(waiting.await.unwrap().len(), 3);
}

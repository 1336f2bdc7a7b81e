//! Calls that are sent twice, because the answer to the first was lost, and answers to repetitions.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{Follow, LogError, LogLimits, RunLog};
use futures_util::StreamExt as _;

use super::cluster::ask;
use super::server::Server;
use super::{HELD, said, say};

const CONTROL: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runlog/src/redis/scripts/control.lua"));

/// A message that is sent again is stored once, although another sender's message came between.
#[tokio::test]
async fn a_repeated_message_is_stored_once() {
    let server = Server::start();
    let log = server.log("log", LogLimits::default());
    log.open(meta("a"), HELD).await.unwrap();
    let script = CONTROL.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let send = |message: &str, most: usize| {
        ask(
            &server,
            &format!("EVAL \"{script}\" 2 log:{{a}}:meta log:{{a}}:controls {most} {message} 600000"),
        )
    };
    for message in ["first", "second", "first", "second", "first"] {
        assert_eq!(send(message, 2), "ok ", "{message}: a repetition succeeds, even if the queue is full");
    }
    assert_eq!(send("third", 2), "full ");
    assert_eq!(ask(&server, "LRANGE log:{a}:controls 0 -1"), "first second ");
}

/// A server came back without the last event, and refuses it when it is sent again: the append fails, and is not repeated.
#[tokio::test]
async fn an_append_fails_if_lost_events_are_refused() {
    let server = Server::start();
    let log = server.log("log", LogLimits::default());
    let lease = log.open(meta("a"), HELD).await.unwrap();
    log.append(&lease, vec![say("a", 1)], Timestamp(1)).await.unwrap();
    log.append(&lease, vec![say("a", 2)], Timestamp(1)).await.unwrap();
    let full = LogLimits::default().bytes_per_run;
    ask(&server, &format!("HSET log:{{a}}:meta head 1 bytes {full}"));
    let append = log.append(&lease, vec![say("a", 3)], Timestamp(1));
    let answer = tokio::time::timeout(Duration::from_secs(5), append).await.expect("an answer");
    let error = *answer.unwrap_err().error;
    assert!(matches!(error, LogError::RunTooLong { limit: "bytes_per_run", .. }), "{error}");
}

/// Removes the last of two events from the server, as a crash does before its file is written.
fn lose_second(server: &Server) {
    for command in ["XDEL log:{a}:events 1-2", "XSETID log:{a}:events 1-1", "HSET log:{a}:meta head 1"] {
        ask(server, command);
    }
}

/// An owner that hands its run over first appends what the server lost: the next owner would use the numbers again.
#[tokio::test]
async fn a_released_run_has_all_acknowledged_events() {
    let server = Server::start();
    let (log, other) = (server.log("log", LogLimits::default()), server.log("log", LogLimits::default()));
    let lease = log.open(meta("a"), HELD).await.unwrap();
    for number in 1..=2 {
        log.append(&lease, vec![say("a", number)], Timestamp(1)).await.unwrap();
    }
    lose_second(&server);
    log.release(vec![lease]).await.unwrap();
    let taken = other.take_over(&"a".into(), Timestamp(1), HELD).await.unwrap();
    assert_eq!(other.append(&taken, vec![say("a", 3)], Timestamp(1)).await.unwrap(), 3);
    let stored: Vec<String> =
        other.read(&"a".into(), 0, 10).await.unwrap().events.iter().map(|event| said(&event.event)).collect();
    assert_eq!(stored, (1..=3).map(|number| said(&say("a", number))).collect::<Vec<_>>());
}

/// A replica that takes a run over reads the log as it is, not the events that its watchers got before the server lost them.
#[tokio::test]
async fn a_takeover_does_not_read_lost_events_from_memory() {
    let server = Server::start();
    let (log, other) =
        (server.log("log", LogLimits::default()), Arc::new(server.log("log", LogLimits::default())));
    let lease = log.open(meta("a"), HELD).await.unwrap();
    let mut watched = Follow::new(Arc::clone(&other) as Arc<dyn RunLog>, "a".into(), 0);
    for number in 1..=2 {
        log.append(&lease, vec![say("a", number)], Timestamp(1)).await.unwrap();
        watched.next().await.unwrap().unwrap();
    }
    lose_second(&server);
    other.take_over(&"a".into(), Timestamp(HELD.0 + 1), Timestamp(HELD.0 + 2)).await.unwrap();
    let page = other.read(&"a".into(), 0, 10).await.unwrap();
    assert_eq!((page.events.len(), page.head), (1, 1));
}

//! Calls that are sent twice, because the answer to the first was lost, and answers to repetitions.

use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{LogError, LogLimits, RunLog};

use super::cluster::ask;
use super::server::Server;
use super::{HELD, say};

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

//! The example as its user meets it: runs, resume and cancel by typed messages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, RunInput, RunOutcome, SpanKind};
use aqueduct_tests::process::Program;
use aqueduct_transport_grpc::{Client, ClientConfig, RunStream};
use futures_util::TryStreamExt as _;

async fn connect() -> (Program, Client) {
    let program = Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-grpc-service"), &["0"]);
    let client = Client::connect(&program.address, ClientConfig::default()).await.unwrap();
    (program, client)
}

async fn rest(events: RunStream) -> Vec<NumberedEvent> {
    events.try_collect().await.unwrap()
}

fn text(events: &[NumberedEvent]) -> String {
    let delta = |event: &NumberedEvent| match &event.event {
        BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Text => Some(delta.to_string()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

fn outcome(events: &[NumberedEvent]) -> Option<RunOutcome> {
    match &events.last()?.event {
        BlockEvent::RunFinished(finished) => Some(finished.outcome),
        _ => None,
    }
}

#[tokio::test]
async fn a_run_can_be_watched_again_from_any_number() {
    let (_program, client) = connect().await;
    let names: Vec<String> =
        client.list_agents().await.unwrap().into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, ["echo", "mine", "slow"]);
    let all = rest(client.run("echo", &RunInput::prompt("t", "r1", "one two three")).await.unwrap()).await;
    assert_eq!(text(&all), "one two three");
    assert_eq!(outcome(&all), Some(RunOutcome::Success));
    let again = rest(client.watch(&RunId::from("r1"), 5).await.unwrap()).await;
    assert_eq!(again, all[5..]);
}

#[tokio::test]
async fn a_run_can_be_stopped() {
    let (_program, client) = connect().await;
    let events = client.run("slow", &RunInput::prompt("t", "r2", "count")).await.unwrap();
    assert!(client.cancel(&RunId::from("r2")).await.unwrap());
    assert_eq!(outcome(&rest(events).await), Some(RunOutcome::Cancelled));
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}

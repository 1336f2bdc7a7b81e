//! WebSocket: `after` and `Position`, after every payload.

use std::sync::Arc;

use aqueduct_runlog::RunLog;
use aqueduct_transport_ws::client::{Client, ConnectOptions, Event, Position};
use tokio::task::JoinSet;

use super::stage::{Stage, disk, memory};
use super::{merged, traces};

pub(super) async fn connect(stage: &Stage) -> Client {
    Client::connect(&ConnectOptions::new(format!("ws://{}/ws", stage.address))).await.unwrap()
}

/// Reads on until the end, or until `limit` payloads are there; gives false if it was the limit.
pub(super) async fn read(
    client: &Client,
    run: &str,
    position: &mut Position,
    limit: usize,
    seen: &mut Vec<Event>,
) -> bool {
    let mut events = client.watch(run, position.resume_after()).await.unwrap();
    while seen.len() < limit {
        let Some(event) = events.next().await else { return true };
        let event = event.unwrap();
        if position.advance(&event) {
            seen.push(event);
        }
    }
    false
}

/// Returns the text, however its deltas were split.
pub(super) fn payloads(events: &[Event]) -> Vec<serde_json::Value> {
    merged::payloads(events.iter().map(|event| std::str::from_utf8(&event.data).unwrap()))
}

async fn cut_everywhere(client: &Client, run: &str) -> usize {
    let mut whole = Vec::new();
    assert!(read(client, run, &mut Position::default(), usize::MAX, &mut whole).await);
    for cut in 0..=whole.len() {
        let (mut seen, mut position) = (whole[..cut].to_vec(), Position::default());
        for event in &seen {
            assert!(position.advance(event));
        }
        assert!(read(client, run, &mut position, usize::MAX, &mut seen).await);
        assert_eq!(seen, whole, "{run}: after payload {cut}");
    }
    whole.len()
}

/// Every trace, on that engine.
pub(crate) async fn every_trace(log: Arc<dyn RunLog>) -> usize {
    let stage = Stage::new(log).await;
    let mut tasks = JoinSet::new();
    for (index, (name, events)) in traces::all().into_iter().enumerate() {
        let stage = Arc::clone(&stage);
        tasks.spawn(async move {
            let run = format!("run-{index}");
            stage.put(&run, &events).await;
            let cuts = cut_everywhere(&connect(&stage).await, &run).await;
            assert!(cuts > 1, "{name} is empty");
            cuts
        });
    }
    let cuts: usize = tasks.join_all().await.into_iter().sum();
    assert!(cuts > 4_500, "only {cuts} cuts");
    cuts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_log() {
    every_trace(memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_log() {
    let (log, _folder) = disk();
    every_trace(log).await;
}

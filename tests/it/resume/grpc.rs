//! gRPC: `after`, after every event. What comes must be what was put into the log.

use std::sync::Arc;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId};
use aqueduct_runlog::RunLog;
use aqueduct_transport_grpc::{Client, ClientConfig};
use futures_util::StreamExt as _;
use tokio::task::JoinSet;

use super::stage::{Stage, disk, memory};
use super::traces;

pub(super) async fn connect(stage: &Stage) -> Client {
    Client::connect(&format!("http://{}", stage.address), ClientConfig::default()).await.unwrap()
}

/// Reads after `seen`, to the end or until `limit` events are there.
pub(super) async fn read(client: &Client, run: &RunId, limit: usize, seen: &mut Vec<NumberedEvent>) {
    let after = seen.last().map_or(0, |event| event.number);
    let mut events = client.watch(run, after).await.unwrap();
    while seen.len() < limit {
        let Some(event) = events.next().await else { return };
        seen.push(event.unwrap());
    }
}

async fn cut_everywhere(client: &Client, run: &RunId, events: &[BlockEvent]) {
    let mut whole = Vec::new();
    read(client, run, usize::MAX, &mut whole).await;
    let told: Vec<NumberedEvent> =
        (1..).zip(events.iter().cloned()).map(|(number, event)| NumberedEvent { number, event }).collect();
    assert_eq!(whole, told, "{run:?}: uncut");
    for cut in 0..=whole.len() {
        let mut seen = whole[..cut].to_vec();
        read(client, run, usize::MAX, &mut seen).await;
        assert_eq!(seen, whole, "{run:?}: after event {cut}");
    }
}

/// Every trace, on that engine.
pub(crate) async fn every_trace(log: Arc<dyn RunLog>) -> usize {
    let stage = Stage::new(log).await;
    let mut tasks = JoinSet::new();
    for (index, (_, events)) in traces::all().into_iter().enumerate() {
        let stage = Arc::clone(&stage);
        tasks.spawn(async move {
            let run = format!("run-{index}");
            stage.put(&run, &events).await;
            cut_everywhere(&connect(&stage).await, &RunId::from(run), &events).await;
            events.len()
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

//! Server-sent events: `Last-Event-ID` after every payload. The whole answer is compared, ids included.

use std::sync::Arc;

use aqueduct_runlog::RunLog;
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use http::Request;
use tokio::task::JoinSet;

use super::stage::{Stage, disk, memory};
use super::traces;

async fn get(client: &Client, url: &str, last: Option<&str>) -> String {
    let mut request = Request::get(url);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = client.request(request.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200, "{url} after {last:?}");
    String::from_utf8(response.into_body().to_vec()).unwrap()
}

/// Gives the number of cuts.
async fn cut_everywhere(stage: &Stage, client: &Client, run: &str, query: &str) -> usize {
    let url = format!("http://{}/runs/{run}/events{query}", stage.address);
    let whole = get(client, &url, None).await;
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    let (start, events) = frames.split_first().unwrap();
    assert!(start.starts_with(&format!("id: {run}.0\n")), "{start}");
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).expect("every payload has an id");
        let rest = get(client, &url, Some(id)).await;
        // A watcher that has seen no event receives the start again.
        let rest = if index == 0 { rest.strip_prefix(start).unwrap() } else { &rest };
        assert_eq!(rest, events[index..].concat(), "{run}{query}: after {id}");
    }
    frames.len()
}

/// Every trace, on that engine.
pub(crate) async fn every_trace(log: Arc<dyn RunLog>) -> usize {
    let stage = Stage::new(log).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut tasks = JoinSet::new();
    for (index, (name, events)) in traces::all().into_iter().enumerate() {
        let (stage, client) = (Arc::clone(&stage), client.clone());
        tasks.spawn(async move {
            let run = format!("run-{index}");
            stage.put(&run, &events).await;
            let mut cuts = 0;
            for query in ["?protocolVersion=1.0", ""] {
                cuts += cut_everywhere(&stage, &client, &run, query).await;
            }
            assert!(cuts > 2, "{name} is empty");
            cuts
        });
    }
    let cuts: usize = tasks.join_all().await.into_iter().sum();
    assert!(cuts > 8_000, "only {cuts} cuts");
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

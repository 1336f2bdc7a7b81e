//! Runs that continue while no watcher is connected: the first k events are appended and read, and the connection is
//! cut; the rest is appended after that, and read over a new connection.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId};
use aqueduct_runlog::RunLog;
use aqueduct_transport_http::{Client, ClientConfig, SseStream};
use aqueduct_transport_ws::client::Position;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;
use tokio::task::JoinSet;

use super::stage::{Stage, disk, memory};
use super::{grpc, merged, traces, websocket};

/// An id and a payload.
type Frame = (String, String);

async fn open(stage: &Stage, run: &str, last: Option<&str>) -> SseStream {
    // A client of its own is a connection of its own.
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut request = Request::get(format!("http://{}/runs/{run}/events?protocolVersion=1.0", stage.address));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    client.open_stream(request.body(Bytes::new()).unwrap()).await.unwrap()
}

async fn read_sse(stage: &Stage, run: &str, limit: usize, seen: &mut Vec<Frame>) {
    let last = seen.last().map(|(id, _)| id.clone());
    let mut stream = open(stage, run, last.as_deref()).await;
    while seen.len() < limit {
        let Some(event) = stream.next().await else { return };
        let event = event.unwrap();
        seen.push((event.id.as_deref().unwrap().to_owned(), event.data.to_string()));
    }
}

/// Payloads that the first `k` events become.
fn payloads(whole: &[Frame], k: usize) -> usize {
    let number = |id: &str| id.rsplit('.').nth(1).unwrap().parse::<usize>().unwrap();
    whole.iter().filter(|(id, _)| number(id) <= k).count()
}

async fn cut_after(stage: &Stage, name: &str, events: &[BlockEvent], k: usize, whole: &[Frame]) {
    let run = format!("{name}-{k}");
    let lease = stage.open(&run).await;
    stage.append(&lease, &events[..k]).await;
    let (mut frames, mut position, mut messages, mut numbered) =
        (vec![], Position::default(), vec![], vec![]);
    let id = RunId::from(run.as_str());
    let first = payloads(whole, k);
    read_sse(stage, &run, first, &mut frames).await;
    // As many payloads as over SSE, whatever the dialect: the first connection is cut with some or all of them read.
    let client = websocket::connect(stage).await;
    websocket::read(&client, &run, &mut position, first.min(1), &mut messages).await;
    drop(client);
    grpc::read(&grpc::connect(stage).await, &id, k, &mut numbered).await;
    let (rest_of_sse, rest_of_socket, rest_of_grpc, ()) = tokio::join!(
        async {
            read_sse(stage, &run, usize::MAX, &mut frames).await;
            frames
        },
        async {
            let client = websocket::connect(stage).await;
            assert!(websocket::read(&client, &run, &mut position, usize::MAX, &mut messages).await);
            messages
        },
        async {
            grpc::read(&grpc::connect(stage).await, &id, usize::MAX, &mut numbered).await;
            numbered
        },
        stage.append(&lease, &events[k..]),
    );
    let texts = |frames: &[Frame]| merged::payloads(frames.iter().map(|(_, data)| data.as_str()));
    assert_eq!(texts(&rest_of_sse), texts(whole), "{run}: server-sent events");
    let mut whole_of_grpc = Vec::new();
    grpc::read(&grpc::connect(stage).await, &id, usize::MAX, &mut whole_of_grpc).await;
    assert_eq!(merged::events(&rest_of_grpc), merged::events(&whole_of_grpc), "{run}: gRPC");
    let mut again = Vec::new();
    let client = websocket::connect(stage).await;
    assert!(websocket::read(&client, &run, &mut Position::default(), usize::MAX, &mut again).await);
    assert_eq!(websocket::payloads(&rest_of_socket), websocket::payloads(&again), "{run}: WebSocket");
}

/// Every scenario, on that engine.
pub(crate) async fn every_scenario(log: Arc<dyn RunLog>) -> usize {
    let stage = Stage::merging(log).await;
    let mut tasks = JoinSet::new();
    for (index, (_, events)) in traces::of_scenarios().into_iter().enumerate() {
        let stage = Arc::clone(&stage);
        tasks.spawn(async move {
            let name = format!("live-{index}");
            stage.put(&name, &events).await;
            let mut whole = Vec::new();
            read_sse(&stage, &name, usize::MAX, &mut whole).await;
            for k in 0..events.len() {
                cut_after(&stage, &name, &events, k, &whole).await;
            }
            events.len()
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_log() {
    every_scenario(memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_log() {
    let (log, _folder) = disk();
    every_scenario(log).await;
}

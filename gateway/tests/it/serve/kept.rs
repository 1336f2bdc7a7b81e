//! Runs that are kept, and the refusal of those that are not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::RunInput;
use aqueduct_core::service::{Caller, RunService as _};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{MemoryLog, RunLog as _};
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use aqueduct_transport_ws::error::Error as WsError;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::support::{events, serve, serve_gateway};

/// The first number that is kept.
const EARLIEST: u64 = 5;

fn script(name: &str, words: usize) -> PathBuf {
    let path = crate::scratch::folder().join(format!("kept-{name}.toml"));
    let words = "word ".repeat(words);
    std::fs::write(&path, format!("[[step]]\nwait = \"10ms\"\n[[step]]\ntext = \"{words}\"\n")).unwrap();
    path
}

fn gateway(name: &str) -> (Arc<Gateway>, Arc<MemoryLog>) {
    let toml = format!("[agents.a]\nscript.file = \"{}\"\n", script(name, 10).display());
    let mut config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let log = Arc::new(MemoryLog::default());
    (Gateway::with_log(config, Arc::clone(&log) as _).unwrap(), log)
}

#[tokio::test]
async fn events_that_are_gone_are_told_with_the_first_that_is_left() {
    let (gateway, log) = gateway("gone");
    let served = serve_gateway(gateway).await;
    served.run("a", "r").await;
    log.trim(&"r".into(), EARLIEST).await.unwrap();

    let response = served.get("/runs/r/events?after=2").await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &body["error"]["earliest"]), (410, &EARLIEST.into()), "{body}");
    assert_eq!(body["error"]["code"], "gone");
    let kept = served.get(&format!("/runs/r/events?after={}", EARLIEST - 1)).await;
    assert_eq!(kept.status(), 200);

    let socket =
        WsClient::connect(&ConnectOptions::new(format!("ws://{}/ws", served.address))).await.unwrap();
    let refused = socket.watch("r", 2).await.unwrap_err();
    assert!(matches!(refused, WsError::Gone { earliest: EARLIEST }), "{refused}");
    assert!(socket.watch("r", EARLIEST - 1).await.is_ok());

    let address = format!("http://{}", served.address);
    let grpc = GrpcClient::connect(&address, GrpcConfig::default()).await.unwrap();
    let refused = grpc.watch(&"r".into(), 2).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("from number {EARLIEST}")), "{refused}");
    assert!(grpc.watch(&"r".into(), EARLIEST - 1).await.is_ok());
}

/// The stream ends without the end of the run, which every transport reports as a cut.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_what_is_kept_has_overtaken_misses_nothing_unnoticed() {
    let (gateway, log) = gateway("overtaken");
    let service = gateway;
    let input = RunInput::prompt("t", "r", "hello");
    let mut events = service.runs().start(&Caller::default(), "a", input).await.unwrap().events;
    assert_eq!(events.next().await.unwrap().number, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    log.trim(&"r".into(), EARLIEST).await.unwrap();
    assert_eq!(events.count().await, 0);
}

#[tokio::test]
async fn a_run_with_too_many_bytes_ends_and_says_so() {
    let file = script("bytes", 20_000);
    let toml = format!("[runs]\nbytes = \"16KiB\"\n[agents.a]\nscript.file = \"{}\"\n", file.display());
    let served = serve(&toml, &[]).await;
    let end = served.run("a", "r").await.pop().unwrap();
    assert_eq!(end["code"], "limit_exceeded", "{end}");
    assert!(end["message"].as_str().unwrap().contains("bytes_per_run"), "{end}");
    let again = events(&served.get("/runs/r/events?protocolVersion=1.0").await);
    assert_eq!(again.last(), Some(&end), "whoever comes later is told the same");
}

#[tokio::test]
async fn a_run_whose_time_is_over_does_not_exist() {
    let toml =
        format!("[runs]\nkeep = \"1ms\"\n[agents.a]\nscript.file = \"{}\"\n", script("over", 1).display());
    let served = serve(&toml, &[]).await;
    served.run("a", "r").await;
    while served.get("/runs/r/events").await.status() != 404 {
        served.gateway.runs().expire().await;
    }
    let never = served.get("/runs/never/events").await;
    assert_eq!(served.get("/runs/r/events").await.body(), never.body());
    assert_eq!(served.get("/threads/t").await.status(), 404);
}

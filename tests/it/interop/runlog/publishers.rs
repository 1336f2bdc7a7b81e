//! Publishers whose gateway is killed with -9 in the middle: they go on at another gateway (Redis), or at the same one when it
//! is started again (disk), after the last payload that was acknowledged.

use std::path::Path;
use std::time::Duration;

use aqueduct_core::service::PublishRequest;
use aqueduct_transport_ws::client::{Client, ConnectOptions, Publisher};

use super::replicas::{Alive, whole};
use super::server::Server;

/// Payloads of a run; the gateway dies behind each of these.
const PAYLOADS: u64 = 60;
const KILLS: [u64; 3] = [1, 20, 41];

fn configure(folder: &Path, log: &str) {
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[log]\nlevel = \"error\"\n[runs]\nlease = \"2s\"\n{log}\n\
         [agents.team.magentic]\ningest = true\n"
    );
    std::fs::write(folder.join("aqueduct.toml"), config).unwrap();
}

/// Connects to any gateway, until one has the run.
async fn publish(alive: &Alive, turn: usize) -> Publisher {
    let request = PublishRequest {
        agent: "team".to_owned(),
        thread_id: Some("t".into()),
        run_id: Some("r".into()),
        format: "text".to_owned(),
    };
    let mut refused = String::new();
    for _ in 0..100 {
        let options = ConnectOptions::new(format!("ws://{}/ws", alive.any(turn)));
        match Client::connect(&options).await {
            Ok(client) => match client.publish(&request).await {
                Ok(publisher) => return publisher,
                Err(error) => refused = error.to_string(),
            },
            Err(error) => refused = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no gateway has the run: {refused}");
}

/// Publishes a run; `kill` kills the gateway that it goes to.
async fn survive(alive: &Alive, mut kill: impl FnMut()) {
    let mut publisher = publish(alive, 0).await;
    let mut number = 0;
    for kills in KILLS.into_iter().map(Some).chain([None]) {
        while number < kills.unwrap_or(PAYLOADS) {
            number += 1;
            assert_eq!(publisher.send(&format!("\"word{number} \"")).await.unwrap(), number);
        }
        publisher.drain().await.unwrap();
        if kills.is_none() {
            break;
        }
        // Not acknowledged, so it may be stored or not.
        publisher.send(&format!("\"word{} \"", number + 1)).await.ok();
        kill();
        publisher = publish(alive, 0).await;
        assert!([number, number + 1].contains(&publisher.acknowledged()), "{}", publisher.acknowledged());
        number = publisher.acknowledged();
    }
    publisher.finish().await.unwrap();
    let events = whole(&alive.any(0), "r");
    let words: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    let wanted = (1..=PAYLOADS).map(|number| format!("word{number} ")).collect::<Vec<_>>().concat();
    assert_eq!(words, wanted);
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_goes_on_at_another_gateway() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redis-url"), server.url()).unwrap();
    configure(folder.path(), "log = \"redis\"\nredis = \"file:redis-url\"");
    let alive = Alive::default();
    let mut gateways =
        std::collections::VecDeque::from([alive.start(folder.path()), alive.start(folder.path())]);
    survive(&alive, || {
        alive.kill(gateways.pop_front().unwrap());
        gateways.push_back(alive.start(folder.path()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), &format!("log = \"disk\"\nfolder = \"{}/runs\"", folder.path().display()));
    let alive = Alive::default();
    let mut gateway = Some(alive.start(folder.path()));
    survive(&alive, || {
        alive.kill(gateway.take().unwrap());
        gateway = Some(alive.start(folder.path()));
    })
    .await;
}

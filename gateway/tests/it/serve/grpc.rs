//! gRPC: on the port of everything else, and on one of its own.

use std::path::Path;

use aqueduct_core::service::PublishRequest;
use aqueduct_core::{BlockEvent, RunInput};
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::{Client, ClientConfig};
use futures_util::StreamExt as _;

use super::support::serve;
use crate::program::root;

fn toml() -> String {
    let script = format!("{}/scripts/demo-thinking.toml", root().display());
    format!(
        "[agents.a]\nscript.file = \"{script}\"\ntokens = [\"env:T\"]\n[agents.flow.magentic]\ningest = true\n"
    )
}

async fn connect(address: std::net::SocketAddr, token: Option<&str>) -> Client {
    let token = token.map(|token| Token::new(token).unwrap());
    Client::connect(&format!("http://{address}"), ClientConfig { token, ..ClientConfig::default() })
        .await
        .unwrap()
}

#[tokio::test]
async fn grpc_works_on_the_port_of_everything_else() {
    let served = serve(&toml(), &[("T", "sesame")]).await;
    let client = connect(served.address, Some("sesame")).await;
    assert_eq!(client.list_agents().await.unwrap().len(), 2);
    let mut run = client.run("a", &RunInput::prompt("t", "r", "hello")).await.unwrap();
    let mut last = None;
    while let Some(event) = run.next().await {
        last = Some(event.unwrap().event);
    }
    assert!(matches!(last, Some(BlockEvent::RunFinished(_))), "{last:?}");
    let stranger = connect(served.address, None).await;
    assert!(stranger.run("a", &RunInput::prompt("t", "r2", "hello")).await.is_err());
    assert!(stranger.watch(&"r".into(), 0).await.is_err(), "other people's runs do not exist");
}

#[tokio::test]
async fn a_port_for_grpc_alone_takes_published_runs() {
    let environment = [("T".to_owned(), "sesame".to_owned())];
    let mut config = load(Path::new("aqueduct.toml"), &toml(), environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.server.grpc = vec!["127.0.0.1:0".parse().unwrap()];
    let listening = Listening::bind(Gateway::new(config).unwrap()).await.unwrap();
    let (address, shutdown) = (listening.grpc_addresses().unwrap()[0], listening.shutdown());
    let serving = tokio::spawn(listening.serve());
    let client = connect(address, None).await;
    let request = PublishRequest {
        agent: "flow".to_owned(),
        thread_id: None,
        run_id: Some("p".into()),
        format: "magentic".to_owned(),
    };
    let mut publisher = client.publish(request).await.unwrap();
    let lines =
        std::fs::read_to_string(root().join("tests/fixtures/magentic/seq_default.events.jsonl")).unwrap();
    for line in lines.lines() {
        publisher.send(line.to_owned()).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let events: Vec<_> = client.watch(&"p".into(), 0).await.unwrap().collect().await;
    assert!(matches!(events.last(), Some(Ok(last)) if matches!(last.event, BlockEvent::RunFinished(_))));
    drop((publisher, client));
    shutdown.cancel();
    serving.await.unwrap();
}

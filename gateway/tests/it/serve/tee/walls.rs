//! Relations hold within one principal: a call of another one is shown in no run, whatever of the run it names.

use aqueduct_transport_http::{Client, ClientConfig};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::peer::{Called, Door, Peer, begun, chunk, done};
use super::{lane, lanes, supervisor, ways};
use crate::serve::support::{Served, input, serve};

const SECRETS: [(&str, &str); 2] = [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789")];

/// A run of ann's, as events.
async fn run_of_ann(served: &Served) -> Vec<Value> {
    let mut request = served.post("/agents/s", &input("r", Some("1.0")));
    request.headers_mut().insert("authorization", format!("Bearer {}", SECRETS[0].1).parse().unwrap());
    let client = Client::new(ClientConfig::default()).unwrap();
    let events = client.open_stream(request).await.unwrap();
    let payloads: Vec<_> = events.map(|event| event.unwrap().data).collect().await;
    payloads.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
}

#[tokio::test]
async fn a_call_of_another_principal_is_no_part_of_a_run_by_token_trace_or_context() {
    let mut tried = 0;
    for (index, (relation, how)) in ways().into_iter().enumerate() {
        if relation == "none" {
            continue;
        }
        for (who, token) in SECRETS {
            let door = Door::default();
            let sub = Peer::saying(vec![begun("a"), chunk("a", "hello", false), done("a")]).await;
            let supervisor = supervisor(&door, move |door, asked| {
                let called = how(&asked);
                let mut headers = called.headers.clone();
                headers.push(("authorization", format!("Bearer {token}")));
                let how = Called { headers, ..called };
                Box::pin(async move {
                    // The gateway must have received the supervisor's context.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    let answer = door.call("a", &how).await;
                    // A context belongs to the principal that used it first.
                    assert!(answer.contains("hello") || answer.contains("-32001"), "{answer}");
                })
            })
            .await;
            let toml = format!(
                "tee.relate_by = [\"{relation}\"]\n\
                 [principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n\
                 [agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
                 [agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
                supervisor.url, sub.url
            );
            let served = serve(&toml, &SECRETS).await;
            door.is_at(served.address);
            let seen = lanes(&run_of_ann(&served).await);
            let expected = if who == "ANN" { vec![lane("a", "", "hello", "success")] } else { vec![] };
            assert_eq!(seen, expected, "{index} {relation}: a call of {who}");
            tried += 1;
        }
    }
    assert_eq!(tried, 2 * 6, "every way, by its principal and by another");
}

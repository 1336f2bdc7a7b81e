//! Who may see and stop a run: every verb of every surface answers about another's run as about one that never was.

use aqueduct_core::RunId;
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use bytes::Bytes;
use http::Request;

use super::support::{Served, input, serve};
use crate::program::root;

/// What can be asked about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    SseWatch,
    SseResume,
    SseThread,
    HttpCancel,
    WsWatch,
    WsCancel,
    GrpcWatch,
    GrpcCancel,
}

const VERBS: [Verb; 8] = [
    Verb::SseWatch,
    Verb::SseResume,
    Verb::SseThread,
    Verb::HttpCancel,
    Verb::WsWatch,
    Verb::WsCancel,
    Verb::GrpcWatch,
    Verb::GrpcCancel,
];

/// Returns `ok`, or the complete refusal.
async fn ask(served: &Served, verb: Verb, token: &str, run: &str) -> String {
    match verb {
        Verb::SseWatch | Verb::SseResume | Verb::SseThread | Verb::HttpCancel => {
            http(served, verb, token, run).await
        }
        Verb::WsWatch | Verb::WsCancel => {
            let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
            options.token = Some(token.to_owned());
            let client = WsClient::connect(&options).await.unwrap();
            let result = match verb {
                Verb::WsWatch => client.watch(run, 0).await.map(drop),
                _ => client.cancel(run).await.map(drop),
            };
            result.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
        }
        Verb::GrpcWatch | Verb::GrpcCancel => {
            let token = Some(Token::new(token).unwrap());
            let config = GrpcConfig { token, ..GrpcConfig::default() };
            let client = GrpcClient::connect(&format!("http://{}", served.address), config).await.unwrap();
            let run = RunId::from(run);
            let result = match verb {
                Verb::GrpcWatch => client.watch(&run, 0).await.map(drop),
                _ => client.cancel(&run).await.map(drop),
            };
            result.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
        }
    }
}

async fn http(served: &Served, verb: Verb, token: &str, run: &str) -> String {
    let path = match verb {
        // The thread of a run is called like it here.
        Verb::SseThread => format!("/threads/{run}"),
        Verb::HttpCancel => format!("/runs/{run}/cancel"),
        _ => format!("/runs/{run}/events"),
    };
    let mut request = Request::builder().method(if verb == Verb::HttpCancel { "POST" } else { "GET" });
    request = request.uri(served.url(&path)).header("authorization", format!("Bearer {token}"));
    if verb == Verb::SseResume {
        request = request.header("last-event-id", format!("{run}.1.1"));
    }
    let mut response = served.send(request.body(Bytes::new()).unwrap()).await;
    // These tell one answer from another, and nothing about the run.
    for name in ["date", "x-request-id"] {
        response.headers_mut().remove(name);
    }
    match response.status().as_u16() {
        200 => "ok".to_owned(),
        status => {
            // Every answer has an id of its own.
            let mut headers = response.headers().clone();
            headers.remove("x-request-id");
            format!("{status} {headers:?} {}", String::from_utf8_lossy(response.body()))
        }
    }
}

#[tokio::test]
async fn another_owners_run_answers_like_one_that_never_was() {
    let script = format!("{}/scripts/demo-thinking.toml", root().display());
    let toml = format!(
        "[agents.a]\nscript.file = \"{script}\"\ntokens = [\"env:ANN\", \"env:BOB\"]\n\
         [agents.b]\nscript.file = \"{script}\"\ntokens = [\"env:CAT\"]\n"
    );
    let served = serve(&toml, &[("ANN", "ann"), ("BOB", "bob"), ("CAT", "cat")]).await;
    let mut body = input("anns-run", Some("1.0"));
    body["threadId"] = "anns-run".into();
    let mut request = served.post("/agents/a", &body);
    request.headers_mut().insert("authorization", "Bearer ann".parse().unwrap());
    assert_eq!(served.send(request).await.status(), 200);
    for verb in VERBS {
        // Another caller of the same agent, and one of another agent.
        for stranger in ["bob", "cat"] {
            let foreign = ask(&served, verb, stranger, "anns-run").await;
            let never = ask(&served, verb, stranger, "nobodys0").await;
            assert_eq!(foreign, never, "{verb:?} {stranger}");
            assert!(foreign.contains("there is no such"), "{verb:?} {stranger}: {foreign}");
        }
        let nobody = ask(&served, verb, "wrong", "anns-run").await;
        assert!(nobody.contains("unknown token"), "{verb:?}: {nobody}");
        assert_eq!(ask(&served, verb, "ann", "anns-run").await, "ok", "{verb:?}");
    }
}

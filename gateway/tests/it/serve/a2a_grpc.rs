//! A2A over gRPC, both ways: a gateway that asks another gateway, and calls of either package to one of them.

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::pb::answer::{read_event, read_task_answer};
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::{ErrorKind, Part, StreamItem, WireError};
use aqueduct_transport_grpc::ClientConfig;
use aqueduct_transport_grpc::Error as GrpcError;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;

use super::support::{Served, answer, events, input, serve};

const AGENT: &str = r#"
[[rule]]
match.text = "ask"
[[rule.step]]
status = "Looking."
[[rule.step]]
ask = "Which?"
[[rule.step]]
text = ["Took {answer}."]

[[rule]]
match.text = "fail"
[[rule.step]]
fail = "The disk is full."

[[rule]]
match.text = "wait"
[[rule.step]]
text = ["so far"]
[[rule.step]]
sleep = "10m"

[[step]]
text = ["You said ", "{prompt}."]
"#;

/// A gateway with agents of that name, each of which plays the script.
async fn scripted(names: &[&str], settings: &str) -> Served {
    let file = std::env::temp_dir().join(format!("aqueduct-a2a-grpc-{}.toml", std::process::id()));
    std::fs::write(&file, AGENT).unwrap();
    let agent = |name: &&str| format!("[agents.{name}]\nscript.file = \"{}\"\n{settings}", file.display());
    serve(&names.iter().map(agent).collect::<String>(), &[("TOKEN", "secret")]).await
}

/// A gateway whose agent is the other's, over gRPC.
async fn before(other: &Served, name: &str) -> Served {
    let card = other.url(&format!("/a2a/{name}/.well-known/agent-card.json"));
    serve(&format!("[agents.a]\na2a.card = \"{card}\"\na2a.binding = \"grpc\"\n"), &[]).await
}

fn say(text: &str) -> serde_json::Value {
    let mut input = input(&format!("run-{text}"), Some("1.0"));
    input["messages"][0]["content"] = json!(text);
    input
}

#[tokio::test]
async fn a_gateway_asks_another_over_grpc() {
    let upstream = scripted(&["one", "two"], "").await;
    let served = before(&upstream, "two").await;
    let seen = events(&served.send(served.post("/agents/a", &say("hello"))).await);
    assert_eq!(answer(&seen), "You said hello.");
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "success");
    let seen = events(&served.send(served.post("/agents/a", &say("fail"))).await);
    assert_eq!(seen.last().unwrap()["type"], "RUN_ERROR");
    assert!(seen.last().unwrap()["message"].as_str().unwrap().contains("The disk is full."));
    let asked = events(&served.send(served.post("/agents/a", &say("ask"))).await);
    let interrupt = &asked.last().unwrap()["outcome"]["interrupts"][0];
    assert_eq!(interrupt["message"], "Which?");
    let mut reply = input("reply", Some("1.0"));
    reply["resume"] =
        json!([{ "interruptId": interrupt["id"], "status": "resolved", "payload": "the left one" }]);
    let seen = events(&served.send(served.post("/agents/a", &reply)).await);
    assert_eq!(answer(&seen), "Took the left one.");
}

#[tokio::test]
async fn a_cancel_goes_through_both() {
    let upstream = scripted(&["one"], "").await;
    let served = before(&upstream, "one").await;
    let mut stream = served.client.open_stream(served.post("/agents/a", &say("wait"))).await.unwrap();
    let mut last = String::new();
    while let Some(event) = stream.next().await {
        last = event.unwrap().data.to_string();
        if last.contains("so far") {
            served.send(served.post("/runs/run-wait/cancel", &json!({}))).await;
        }
    }
    assert!(last.contains("cancelled"), "{last}");
    upstream.idle().await;
}

/// A client of one package.
struct Direct {
    endpoint: Endpoint,
    client: RawClient,
}

impl Direct {
    async fn to(served: &Served, version: Version, tenant: &str) -> Self {
        let mut endpoint = Endpoint::new(served.address.to_string(), Binding::Grpc, version);
        tenant.clone_into(&mut endpoint.tenant);
        Self { endpoint, client: RawClient::connect(&served.url(""), ClientConfig::default()).await.unwrap() }
    }

    fn request(&self, call: &Call, more: &[(&str, &str)]) -> RawRequest {
        let request = self.endpoint.grpc_request(call).unwrap();
        let mut metadata: Vec<(String, String)> =
            request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in more {
            metadata.retain(|(known, _)| known != name);
            metadata.push(((*name).to_owned(), (*value).to_owned()));
        }
        RawRequest { path: request.path, metadata, message: request.message.into() }
    }

    async fn ask(&self, call: &Call, more: &[(&str, &str)]) -> Result<Bytes, WireError> {
        self.client.unary(self.request(call, more)).await.map_err(|error| match error {
            GrpcError::Raw(status) => WireError::from_grpc(status.code, &status.message, &status.details),
            other => panic!("{other}"),
        })
    }
}

fn hello() -> Call {
    let message = user_message("m", None, vec![Part::text("hello")]);
    Call::SendMessage(Box::new(SendMessage::new(message)))
}

fn text_of(item: &StreamItem<'_>) -> String {
    let StreamItem::Task(task) = item else { panic!("{item:?}") };
    task.artifacts.iter().map(aqueduct_adapter_a2a::wire::Artifact::text).collect()
}

#[tokio::test]
async fn an_agent_is_named_by_tenant_by_metadata_or_not_at_all() {
    let served = scripted(&["one", "two"], "").await;
    let by_tenant = Direct::to(&served, Version::V1, "two").await;
    let answered = by_tenant.ask(&hello(), &[]).await.unwrap();
    let item = read_task_answer(&hello(), Version::V1, &answered).unwrap().unwrap();
    assert_eq!(text_of(&item), "You said hello.");
    let nameless = Direct::to(&served, Version::V03, "").await;
    let refused = nameless.ask(&hello(), &[]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidParams, "{refused:?}");
    let answered = nameless.ask(&hello(), &[("x-aqueduct-agent", "one")]).await.unwrap();
    let item = read_task_answer(&hello(), Version::V03, &answered).unwrap().unwrap();
    assert_eq!(text_of(&item), "You said hello.");
    let unknown = Direct::to(&served, Version::V1, "three").await.ask(&hello(), &[]).await.unwrap_err();
    assert_eq!(unknown.http_status, Some(404), "{unknown:?}");
    let alone = scripted(&["one"], "").await;
    assert!(Direct::to(&alone, Version::V03, "").await.ask(&hello(), &[]).await.is_ok());
    assert!(Direct::to(&alone, Version::V1, "").await.ask(&hello(), &[]).await.is_ok());
    // As over HTTP: a tenant that names none of our agents is the agent's business, where it is clear which one.
    let acme = Direct::to(&alone, Version::V1, "acme").await;
    assert!(acme.ask(&hello(), &[]).await.is_ok());
    let wrong = acme.ask(&hello(), &[("x-aqueduct-agent", "three")]).await.unwrap_err();
    assert_eq!(wrong.http_status, Some(404), "{wrong:?}");
    let acme = Direct::to(&served, Version::V1, "acme").await;
    assert!(acme.ask(&hello(), &[("x-aqueduct-agent", "one")]).await.is_ok());
}

#[tokio::test]
async fn both_packages_stream_and_refuse_as_the_protocol_says() {
    let served = scripted(&["one"], "").await;
    for version in [Version::V1, Version::V03] {
        let direct = Direct::to(&served, version, "").await;
        let Call::SendMessage(send) = hello() else { panic!() };
        let request = direct.request(&Call::SendStreamingMessage(send), &[]);
        let mut stream = direct.client.stream(request).await.unwrap();
        let (mut first, mut text, mut state) = (None, String::new(), String::new());
        while let Some(message) = stream.next().await {
            let item = read_event(version, &message.unwrap()).unwrap().unwrap();
            first.get_or_insert(matches!(item, StreamItem::Task(_)));
            match item {
                StreamItem::Artifact(update) => {
                    // The closing chunk replaces the artifact by its whole text.
                    if !update.append {
                        text.clear();
                    }
                    text.push_str(&update.artifact.text());
                }
                StreamItem::Status(update) => state = update.status.state.to_string(),
                _ => {}
            }
        }
        assert_eq!((first, &*text, &*state), (Some(true), "You said hello.", "completed"), "{version}");
        let unknown = Call::GetTask { id: "nothing".to_owned(), history_length: None };
        assert_eq!(direct.ask(&unknown, &[]).await.unwrap_err().kind(), ErrorKind::TaskNotFound, "{version}");
        let empty = Call::GetTask { id: String::new(), history_length: None };
        assert_eq!(direct.ask(&empty, &[]).await.unwrap_err().kind(), ErrorKind::InvalidParams, "{version}");
        let other = direct.ask(&hello(), &[("a2a-version", "2.0")]).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::VersionNotSupported, "{version}");
        let mut garbage = direct.request(&hello(), &[]);
        garbage.message = Bytes::from_static(b"\xff\xff\xff");
        let GrpcError::Raw(status) = direct.client.unary(garbage).await.unwrap_err() else { panic!() };
        assert_eq!(status.code, 3, "{version}: invalid argument");
    }
}

#[tokio::test]
async fn strangers_learn_nothing_of_a_protected_agent() {
    let served = scripted(&["one"], "tokens = [\"env:TOKEN\"]\n").await;
    for version in [Version::V1, Version::V03] {
        let direct = Direct::to(&served, version, "").await;
        let refused = direct.ask(&hello(), &[]).await.unwrap_err();
        assert_eq!(refused.http_status, Some(401), "{version}: {refused:?}");
        let wrong = [("authorization", "Bearer wrong")];
        assert_eq!(direct.ask(&hello(), &wrong).await.unwrap_err().http_status, Some(401), "{version}");
        assert!(direct.ask(&hello(), &[("authorization", "Bearer secret")]).await.is_ok(), "{version}");
    }
}

/// The transport refuses input that is not a call: without the protocol's details, but with a code that names the
/// reason.
#[tokio::test]
async fn what_is_no_call_is_refused_too() {
    let served = scripted(&["one"], "").await;
    for (version, service) in [(Version::V1, "lf.a2a.v1"), (Version::V03, "a2a.v1")] {
        let direct = Direct::to(&served, version, "").await;
        let code = async |change: fn(&mut RawRequest)| {
            let mut request = direct.request(&hello(), &[]);
            change(&mut request);
            match direct.client.unary(request).await.unwrap_err() {
                GrpcError::Raw(status) => status.code,
                other => panic!("{other}"),
            }
        };
        let (invalid_argument, out_of_range, unimplemented) = (3, 11, 12);
        let huge = code(|request| request.message = vec![0; 2 << 20].into()).await;
        assert_eq!(huge, out_of_range, "{version}");
        let empty = code(|request| request.message = Bytes::new()).await;
        assert_eq!(empty, invalid_argument, "{version}");
        for path in ["/a2a.v7.A2AService/SendMessage", "/lf.a2a.v1.A2AService", "/"] {
            let mut request = direct.request(&hello(), &[]);
            path.clone_into(&mut request.path);
            let GrpcError::Raw(status) = direct.client.unary(request).await.unwrap_err() else { panic!() };
            assert_eq!(status.code, unimplemented, "{version} {path}: {status:?}");
        }
        let path = served.url(&format!("/{service}.A2AService/SendMessage"));
        for kind in ["application/json", "text/plain", "application/x-protobuf", ""] {
            let mut request = http::Request::post(&path);
            if !kind.is_empty() {
                request = request.header("content-type", kind);
            }
            let answer = served.client.request(request.body(Bytes::from_static(b"{}")).unwrap()).await;
            assert_eq!(answer.unwrap().status(), 415, "{version} {kind:?}");
        }
        let cut = http::Request::post(&path).header("content-type", "application/grpc");
        let cut = cut.body(Bytes::from_static(&[0, 0, 0, 0, 9, 1])).unwrap();
        let cut = served.client.request(cut).await.unwrap();
        assert_eq!(cut.headers()["grpc-status"], "13", "{version}: a message that breaks off");
        let packed = http::Request::post(&path).header("content-type", "application/grpc");
        let packed =
            packed.header("grpc-encoding", "zip").body(Bytes::from_static(&[1, 0, 0, 0, 0])).unwrap();
        let packed = served.client.request(packed).await.unwrap();
        assert_eq!(packed.headers()["grpc-status"], "12", "{version}: a compression that nobody knows");
    }
    served.idle().await;
}

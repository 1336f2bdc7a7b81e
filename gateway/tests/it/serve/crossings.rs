//! Every operation of every surface, tried by every caller that has no right to it.
//!
//! The operations come from the tables of the surfaces: `ROUTES`, the calls of A2A in all bindings and versions, the
//! operations of WebSocket, the methods in the description of the gRPC service. One that is new has no entry here, and
//! fails.
//!
//! | caller | expected |
//! |---|---|
//! | none, with a made-up token, with one that has expired | 401, or what the protocol has for it |
//! | of another tenant, or another subject of the same | as about a run, task, thread or agent that never was: equal answers |
//!
//! The tee by token, trace and context is in `tee/walls.rs`, proxied tasks in `proxied.rs`; that the table of routes is whole is
//! checked where the router is made.

use std::sync::LazyLock;

use aqueduct_adapter_a2a::call::{Call, ListTasks, PushConfig, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::Part;
use aqueduct_core::service::PublishRequest;
use aqueduct_core::{RunId, RunInput};
use aqueduct_gateway::serve::routes::{Access, ROUTES, Route};
use aqueduct_transport_grpc::Error as GrpcError;
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_ws::OPERATIONS;
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use bytes::Bytes;
use http::Request;
use jsonwebtoken::Algorithm;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::oidc::{Key, now};
use super::quotas::upgraded;
use super::support::{Served, input, serve};
use crate::program::root;

const SECRETS: [(&str, &str); 3] =
    [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789"), ("CID", "cid-token-0123456789")];

/// Tokens of other principals: of the same tenant, and of another.
const STRANGERS: [&str; 2] = ["bob-token-0123456789", "cid-token-0123456789"];
/// The key of the issuer, whose only token has expired.
static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("k1", Algorithm::ES256));

/// A token of ann's issuer that was good long ago.
static EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let claims =
        json!({ "iss": "http://issuer.example", "aud": "aqueduct", "sub": "ann", "exp": now() - 600 });
    KEY.sign(&claims)
});

/// Callers that prove nothing.
fn nobody() -> [Option<&'static str>; 3] {
    [None, Some("made-up-token-0123456789"), Some(EXPIRED.as_str())]
}

/// Ann's run, thread, task and agent; `forged` names what never was.
struct Target {
    run: String,
    task: String,
    agent: &'static str,
}

async fn guarded() -> (Served, Target) {
    let script = format!("script.file = \"{}/scripts/demo-thinking.toml\"\n", root().display());
    let keys = crate::scratch::folder().join("keys.json");
    std::fs::write(&keys, json!({ "keys": [KEY.shown()] }).to_string()).unwrap();
    let toml = format!(
        "inspector.enabled = true\nserver.push = \"any\"\n\
         [issuers.corp]\nissuer = \"http://issuer.example\"\naudiences = [\"aqueduct\"]\nkeys_file = \"{}\"\n\
         [principals.ann]\ntenant = \"acme\"\ntoken = \"env:ANN\"\n\
         [principals.bob]\ntenant = \"acme\"\ntoken = \"env:BOB\"\nagents = [\"a\"]\n\
         [principals.cid]\ntenant = \"other\"\ntoken = \"env:CID\"\nagents = [\"a\"]\n\
         [agents.a]\n{script}[agents.hidden]\n{script}[agents.fed]\nmagentic.ingest = true\n",
        keys.display()
    );
    let served = serve(&toml, &SECRETS).await;
    let mut body = input("anns-run", Some("1.0"));
    body["threadId"] = "anns-run".into();
    let mut request = served.post("/agents/a", &body);
    request.headers_mut().insert("authorization", bearer(SECRETS[0].1));
    assert_eq!(served.send(request).await.status(), 200);
    let endpoint = Endpoint::new(served.url("/a2a/a"), Binding::JsonRpc, Version::V1);
    let sent = a2a(&served, &endpoint, &send("", ""), Some(SECRETS[0].1)).await;
    let task = sent.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    (served, Target { run: "anns-run".to_owned(), task, agent: "hidden" })
}

fn bearer(token: &str) -> http::HeaderValue {
    format!("Bearer {token}").parse().unwrap()
}

/// The same, of the same length, of what never was.
fn forged(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { 'z' } else { c }).collect()
}

// ---- HTTP ----

async fn http(served: &Served, route: &Route, target: &Target, token: Option<&str>) -> (u16, String) {
    let path = route.path.replace("{name}", target.agent).replace("{run}", &target.run);
    let path =
        path.replace("{thread}", &target.run).replace("{method}", "ListAgents").replace("{file}", "main.js");
    let path = path.replace("{*call}", &format!("tasks/{}", target.task));
    assert!(!path.contains('{'), "{path} has a part without an entry");
    let (kind, body) = match (route.access, route.method) {
        (Access::Grpc, _) => ("application/grpc", Bytes::from_static(&[0; 5])),
        (_, "POST") => ("application/json", Bytes::from(input("another", Some("1.0")).to_string())),
        _ => ("application/json", Bytes::new()),
    };
    let mut request =
        Request::builder().method(route.method).uri(served.url(&path)).header("content-type", kind);
    request = request.header("a2a-version", "1.0");
    if let Some(token) = token {
        request = request.header("authorization", bearer(token));
    }
    let response = served.send(request.body(body).unwrap()).await;
    let status = response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    let text = format!("{}{}", status.unwrap_or_default(), String::from_utf8_lossy(response.body()));
    let shown = text.replace(&target.run, "RUN").replace(&target.task, "TASK").replace(target.agent, "AGENT");
    (response.status().as_u16(), shown)
}

#[tokio::test]
async fn every_route_refuses_who_has_no_right() {
    let (served, target) = guarded().await;
    let never = Target { run: forged(&target.run), task: forged(&target.task), agent: "zzzzzz" };
    for route in ROUTES {
        for token in nobody() {
            let (status, text) = http(&served, route, &target, token).await;
            match route.access {
                Access::Probe | Access::Public => {}
                // Connections bring their token later, and are asked for it: see below.
                Access::Socket => assert_eq!(status, 426, "{route:?}"),
                Access::Grpc => assert!(text.starts_with("16"), "{route:?} {text}"),
                Access::Agent | Access::Run | Access::Thread | Access::List => {
                    assert_eq!(status, 401, "{route:?} {text}");
                }
            }
        }
        for token in STRANGERS {
            let (mine, other) = (
                http(&served, route, &target, Some(token)).await,
                http(&served, route, &never, Some(token)).await,
            );
            // Counters go on between the two.
            assert!(mine == other || route.access == Access::Public, "{route:?}: {mine:?} {other:?}");
            match route.access {
                Access::Agent | Access::Run | Access::Thread => {
                    assert_eq!(mine.0, 404, "{route:?} {}", mine.1);
                }
                Access::List => assert!(!mine.1.contains("RUN"), "{route:?} {}", mine.1),
                Access::Probe | Access::Public | Access::Socket | Access::Grpc => {}
            }
        }
    }
}

// ---- A2A: calls × bindings × versions ----

pub(super) fn send(task: &str, context: &str) -> Call {
    let mut message = user_message("m", None, vec![Part::text("hello")]);
    message.task_id = task.to_owned().into();
    message.context_id = context.to_owned().into();
    Call::SendMessage(Box::new(SendMessage::new(message)))
}

/// The entry of every method that the servers answer. A method that is new has none.
#[test]
fn every_method_of_a2a_has_an_entry() {
    for name in aqueduct_adapter_a2a::server::method_names() {
        let of_task = ["SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask"];
        // About no task: the list is looked at for itself, cards are no secrets of callers.
        let others = ["ListTasks", "GetExtendedAgentCard"];
        let is_push = name.contains("PushNotificationConfig");
        let is_tried = of_task.contains(&name) || others.contains(&name) || is_push;
        assert!(is_tried, "{name} has no entry: add it to `calls`");
    }
    assert_eq!(aqueduct_adapter_a2a::server::method_names().count(), calls("T").len() + 2);
}

/// Every call that is about a task.
fn calls(task: &str) -> Vec<Call> {
    let push = || PushConfig {
        task_id: task.to_owned(),
        id: "c".to_owned(),
        url: "http://127.0.0.1:9/x".to_owned(),
        token: None,
        authentication: None,
    };
    let (task_id, id) = (task.to_owned(), "c".to_owned());
    let stream = match send(task, "") {
        Call::SendMessage(send) => Call::SendStreamingMessage(send),
        other => other,
    };
    let all = vec![
        send(task, ""),
        stream,
        Call::GetTask { id: task_id.clone(), history_length: None },
        Call::CancelTask { id: task_id.clone(), metadata: None },
        Call::SubscribeToTask { id: task_id.clone() },
        Call::CreatePushConfig(Box::new(push())),
        Call::GetPushConfig { task_id: task_id.clone(), id: id.clone() },
        Call::ListPushConfigs { task_id: task_id.clone() },
        Call::DeletePushConfig { task_id, id },
    ];
    all
}

/// What is answered, or `-` if the binding or version has no such call.
pub(super) async fn a2a(served: &Served, endpoint: &Endpoint, call: &Call, token: Option<&str>) -> String {
    if endpoint.binding == Binding::Grpc {
        return a2a_grpc(served, endpoint, call, token).await;
    }
    let Ok(request) = endpoint.http_request(call, 1) else { return "-".to_owned() };
    let mut sent = Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        sent = sent.header(*name, value);
    }
    if let Some(token) = token {
        sent = sent.header("authorization", bearer(token));
    }
    let response = served.send(sent.body(Bytes::from(request.body)).unwrap()).await;
    format!("{} {}", response.status().as_u16(), String::from_utf8_lossy(response.body()))
}

async fn a2a_grpc(served: &Served, endpoint: &Endpoint, call: &Call, token: Option<&str>) -> String {
    let Ok(request) = endpoint.grpc_request(call) else { return "-".to_owned() };
    let client = RawClient::connect(&served.url(""), GrpcConfig::default()).await.unwrap();
    let mut metadata: Vec<(String, String)> =
        request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    metadata.push(("x-aqueduct-agent".to_owned(), "a".to_owned()));
    metadata.extend(token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
    match client.unary(RawRequest { path: request.path, metadata, message: request.message.into() }).await {
        Ok(message) => format!("ok {}", String::from_utf8_lossy(&message)),
        Err(GrpcError::Raw(status)) => format!("{} {}", status.code, status.message),
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn endpoints(served: &Served) -> Vec<Endpoint> {
    let mut all = Vec::new();
    for binding in [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc] {
        for version in [Version::V1, Version::V03] {
            let url = match binding {
                Binding::Grpc => served.address.to_string(),
                _ => served.url("/a2a/a"),
            };
            all.push(Endpoint::new(url, binding, version));
        }
    }
    all
}

#[tokio::test]
async fn every_call_of_a2a_refuses_who_has_no_right() {
    let (served, target) = guarded().await;
    let never = forged(&target.task);
    let mut tried = 0;
    for endpoint in endpoints(&served) {
        let at = format!("{:?} {:?}", endpoint.binding, endpoint.version);
        for (call, other) in calls(&target.task).iter().zip(&calls(&never)) {
            for token in nobody() {
                let refused = a2a(&served, &endpoint, call, token).await;
                assert!(
                    ["401", "16 ", "-"].iter().any(|start| refused.starts_with(start)),
                    "{at} {call:?}: {refused}"
                );
            }
            for token in STRANGERS {
                let foreign = a2a(&served, &endpoint, call, Some(token)).await.replace(&target.task, "TASK");
                let missing = a2a(&served, &endpoint, other, Some(token)).await.replace(&never, "TASK");
                assert_eq!(foreign, missing, "{at} {call:?}");
                let is_refused =
                    foreign == "-" || foreign.contains("there is no task") || foreign.contains("-32001");
                assert!(is_refused, "{at} {call:?}: {foreign}");
                tried += usize::from(foreign != "-");
            }
        }
        let list = Call::ListTasks(Box::<ListTasks>::default());
        for call in [&list, &Call::GetExtendedCard] {
            for token in nobody() {
                let refused = a2a(&served, &endpoint, call, token).await;
                let is_refused = ["401", "16 ", "-"].iter().any(|start| refused.starts_with(start));
                assert!(is_refused, "{at} {call:?}: {refused}");
            }
        }
        for token in STRANGERS {
            let listed = a2a(&served, &endpoint, &list, Some(token)).await;
            assert!(!listed.contains(&target.task), "{at}: {listed}");
        }
        let own = a2a(&served, &endpoint, &calls(&target.task)[2], Some(SECRETS[0].1)).await;
        assert!(own.contains(&target.task), "{at}: the owner is let in: {own}");
    }
    assert!(tried >= 2 * 9 * 4, "{tried} calls were tried");
}

// ---- WebSocket ----

async fn ws(served: &Served, operation: &str, target: &Target, token: Option<&str>) -> Option<String> {
    let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
    options.token = token.map(str::to_owned);
    let client = match WsClient::connect(&options).await {
        Ok(client) => client,
        Err(error) => return Some(error.to_string()),
    };
    let result = match operation {
        // The token itself, and what is about the connection's own requests alone: see below.
        "auth" | "unwatch" | "payload" | "finish" | "abandon" => return None,
        "list" => client.list_agents().await.map(|agents| format!("{agents:?}")),
        "start" => {
            let input: Value = input("another", Some("1.0"));
            client.start(Some(target.agent), &input.to_string()).await.map(|_| "started".to_owned())
        }
        "watch" => client.watch(&target.run, 0).await.map(|_| "watching".to_owned()),
        "cancel" => client.cancel(&target.run).await.map(|was| format!("cancelled {was}")),
        "publish" => {
            let request = PublishRequest {
                agent: "fed".to_owned(),
                thread_id: None,
                run_id: Some(RunId::from(target.run.as_str())),
                format: "text".to_owned(),
            };
            client.publish(&request).await.map(|_| "publishing".to_owned())
        }
        other => panic!("operation {other} has no entry"),
    };
    Some(result.unwrap_or_else(|error| error.to_string()).replace(target.agent, "AGENT"))
}

#[tokio::test]
async fn every_operation_of_websocket_refuses_who_has_no_right() {
    let (served, target) = guarded().await;
    let never = Target { run: forged(&target.run), task: String::new(), agent: "zzzzzz" };
    for operation in OPERATIONS {
        for token in nobody() {
            if let Some(refused) = ws(&served, operation, &target, token).await {
                let is_refused = refused.contains("token") || refused.contains("4401");
                assert!(is_refused, "{operation}: {refused}");
            }
        }
        for token in STRANGERS {
            let foreign = ws(&served, operation, &target, Some(token)).await;
            assert_eq!(foreign, ws(&served, operation, &never, Some(token)).await, "{operation}");
            let told = foreign.unwrap_or_else(|| "there is no such".to_owned());
            assert!(told.contains("there is no") || operation == "list", "{operation}: {told}");
        }
    }
}

/// Sends a message on a socket of its own, and returns the first answer: a text, or why the connection is closed.
async fn raw_ws(served: &Served, token: Option<&str>, message: &Value) -> String {
    let mut socket = upgraded(served.address, token).await;
    let text = message.to_string();
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    let frame = [&[0x81, 0xfe][..], &length, &[0; 4], text.as_bytes()].concat();
    // A server that has closed the connection has sent the reason before.
    socket.write_all(&frame).await.ok();
    let (kind, length) = (socket.read_u8().await.unwrap(), socket.read_u8().await.unwrap());
    let length = if length == 126 { socket.read_u16().await.unwrap() } else { length.into() };
    let mut payload = vec![0; length.into()];
    socket.read_exact(&mut payload).await.unwrap();
    if kind == 0x88 {
        let code = u16::from_be_bytes([payload[0], payload[1]]);
        return format!("{code} {}", String::from_utf8_lossy(&payload[2..]));
    }
    String::from_utf8(payload).unwrap()
}

/// Operations on what a connection itself has open name nothing of other connections; `auth` takes no bad token.
#[tokio::test]
async fn operations_on_a_connections_own_reach_no_other_connection() {
    let (served, target) = guarded().await;
    let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
    options.token = Some(SECRETS[0].1.to_owned());
    let ann = WsClient::connect(&options).await.unwrap();
    let request = PublishRequest {
        agent: "fed".to_owned(),
        thread_id: None,
        run_id: Some(RunId::from("published")),
        format: "text".to_owned(),
    };
    let _publisher = ann.publish(&request).await.unwrap();
    let message = |operation: &str, id: &str| match operation {
        "unwatch" => json!({ "type": "unwatch", "run": id }),
        "payload" => json!({ "type": "payload", "ref": id, "number": 1, "data": "x" }),
        operation => json!({ "type": operation, "ref": id }),
    };
    for operation in ["unwatch", "payload", "finish", "abandon"] {
        // References are short words that are easily guessed.
        for id in [target.run.as_str(), "published", "1", "p1"] {
            let never = forged(id);
            for token in STRANGERS {
                let foreign = raw_ws(&served, Some(token), &message(operation, id)).await;
                let missing = raw_ws(&served, Some(token), &message(operation, &never)).await;
                assert_eq!(foreign.replace(id, "ID"), missing.replace(&never, "ID"), "{operation} {id}");
                assert!(foreign.contains("not_found"), "{operation} {id}: {foreign}");
            }
            for token in nobody() {
                let refused = raw_ws(&served, token, &message(operation, id)).await;
                assert!(refused.starts_with("4401 "), "{operation} {id}: {refused}");
            }
        }
    }
    for token in nobody().into_iter().flatten() {
        let refused = raw_ws(&served, None, &json!({ "type": "auth", "token": token })).await;
        assert!(refused.starts_with("4401 "), "auth: {refused}");
    }
}

// ---- aqueduct.v1 over gRPC ----

/// The methods of the service, as its description lists them.
fn methods() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(aqueduct_transport_grpc::FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.into_iter().flat_map(|file| file.service);
    let methods = services.flat_map(|service| service.method).map(|method| method.name.unwrap());
    methods.collect()
}

async fn grpc(served: &Served, method: &str, target: &Target, token: Option<&str>) -> String {
    let config = GrpcConfig { token: token.map(|token| Token::new(token).unwrap()), ..GrpcConfig::default() };
    let client = GrpcClient::connect(&served.url(""), config).await.unwrap();
    let run = RunId::from(target.run.as_str());
    let result = match method {
        "Run" => {
            let input = RunInput::prompt("t", "another", "hi");
            client.run(target.agent, &input).await.map(|_| "started".to_owned())
        }
        "Complete" => {
            let input = RunInput::prompt("t", "another", "hi");
            client.complete(target.agent, &input).await.map(|_| "completed".to_owned())
        }
        "Watch" => client.watch(&run, 0).await.map(|_| "watching".to_owned()),
        "Cancel" => client.cancel(&run).await.map(|was| format!("cancelled {was}")),
        "ListAgents" => client.list_agents().await.map(|agents| format!("{agents:?}")),
        "Publish" => {
            let request = PublishRequest {
                agent: "fed".to_owned(),
                thread_id: None,
                run_id: Some(run),
                format: "text".to_owned(),
            };
            client.publish(request).await.map(|_| "publishing".to_owned())
        }
        other => panic!("method {other} has no entry"),
    };
    result.unwrap_or_else(|error| error.to_string()).replace(target.agent, "AGENT")
}

#[tokio::test]
async fn every_method_of_grpc_refuses_who_has_no_right() {
    let (served, target) = guarded().await;
    let never = Target { run: forged(&target.run), task: String::new(), agent: "zzzzzz" };
    for method in methods() {
        for token in nobody() {
            let refused = grpc(&served, &method, &target, token).await;
            assert!(refused.contains("token"), "{method}: {refused}");
        }
        for token in STRANGERS {
            let foreign = grpc(&served, &method, &target, Some(token)).await;
            assert_eq!(foreign, grpc(&served, &method, &never, Some(token)).await, "{method}");
            assert!(foreign.contains("there is no") || method == "ListAgents", "{method}: {foreign}");
        }
    }
}

/// A publisher of one principal does not continue the run of another.
#[tokio::test]
async fn a_published_run_is_its_publishers() {
    let (served, _) = guarded().await;
    let publish = async |token: &str| {
        let config = GrpcConfig { token: Some(Token::new(token).unwrap()), ..GrpcConfig::default() };
        let client = GrpcClient::connect(&served.url(""), config).await.unwrap();
        let request = PublishRequest {
            agent: "fed".to_owned(),
            thread_id: Some("t".into()),
            run_id: Some("fed-run".into()),
            format: "text".to_owned(),
        };
        client.publish(request).await.map(|publisher| (publisher, client))
    };
    let _ann = publish(SECRETS[0].1).await.expect("ann may use every agent");
    assert!(publish(STRANGERS[0]).await.is_err(), "bob may not use this one");
    assert_eq!(served.gateway.runs().active_runs(), 1);
}

/// Two publishers of one agent may choose one run id: neither continues the run of the other.
#[tokio::test]
async fn a_publisher_with_the_same_run_id_has_a_run_of_its_own() {
    let toml = "[principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n\
                [agents.fed]\nmagentic.ingest = true\n";
    let served = serve(toml, &SECRETS).await;
    let publish = async |token: &str| {
        let config = GrpcConfig { token: Some(Token::new(token).unwrap()), ..GrpcConfig::default() };
        let client = GrpcClient::connect(&served.url(""), config).await.unwrap();
        let request = PublishRequest {
            agent: "fed".to_owned(),
            thread_id: Some("t".into()),
            run_id: Some("fed-run".into()),
            format: "text".to_owned(),
        };
        client.publish(request).await.map(|publisher| (publisher, client)).unwrap()
    };
    let _ann = publish(SECRETS[0].1).await;
    assert_eq!(served.gateway.runs().active_runs(), 1);
    let _bob = publish(SECRETS[1].1).await;
    assert_eq!(served.gateway.runs().active_runs(), 2, "a run of its own");
}

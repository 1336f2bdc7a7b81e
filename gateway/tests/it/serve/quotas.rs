//! Quotas: what one principal or one address may use at once, on every surface; and that others are served meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::Part;
use aqueduct_core::RunInput;
use aqueduct_core::service::RefusalKind;
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig, Error as GrpcError};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::support::{Say, Served, Upstream, input, serve, sse};

const SECRETS: [(&str, &str); 2] = [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789")];
const ANN: &str = SECRETS[0].1;
const BOB: &str = SECRETS[1].1;

/// An agent that speaks at once and then waits, and one that ends; with these quotas.
async fn gateway(quotas: &str) -> Served {
    let script = |name: &str, text: &str| {
        let path = crate::scratch::folder().join(format!("quotas-{name}.toml"));
        std::fs::write(&path, text).unwrap();
        format!("[agents.{name}]\nscript.file = \"{}\"\n", path.display())
    };
    let slow = script("slow", "[[step]]\ntext = \"so far\"\n[[step]]\nsleep = \"1h\"\n");
    let quick = script("quick", "[[step]]\ntext = \"done\"\n");
    let toml = format!(
        "{quotas}[principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n{slow}{quick}\
         [agents.fed]\nmagentic.ingest = true\n"
    );
    serve(&toml, &SECRETS).await
}

fn with_token(mut request: Request<Bytes>, token: &str) -> Request<Bytes> {
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

async fn run(served: &Served, token: &str, agent: &str, run: &str) -> Response<Bytes> {
    let request = served.post(&format!("/agents/{agent}"), &input(run, Some("1.0")));
    served.send(with_token(request, token)).await
}

fn text(response: &Response<Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

/// A refusal of HTTP by that limit.
fn is_refused_by(response: &Response<Bytes>, limit: &str) {
    assert_eq!(response.status(), 429, "{limit}: {}", text(response));
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert!(text(response).contains(limit), "{limit}: {}", text(response));
}

/// The count of refusals by a limit, as metrics show it.
async fn refusals(served: &Served, limit: &str) -> u64 {
    let metrics = text(&served.get("/metrics").await);
    let name = format!("aqueduct_quota_refusals_total{{limit=\"{limit}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

/// A message over A2A, in every binding and version: what is answered.
async fn a2a(served: &Served, token: &str, binding: Binding, version: Version) -> (u16, String) {
    let call = Call::SendStreamingMessage(Box::new(SendMessage::new(user_message(
        "m",
        None,
        vec![Part::text("hello")],
    ))));
    if binding == Binding::Grpc {
        let endpoint = Endpoint::new(served.address.to_string(), binding, version);
        let request = endpoint.grpc_request(&call).unwrap();
        let client = RawClient::connect(&served.url(""), GrpcConfig::default()).await.unwrap();
        let mut metadata: Vec<(String, String)> =
            request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        metadata.push(("x-aqueduct-agent".to_owned(), "quick".to_owned()));
        metadata.push(("authorization".to_owned(), format!("Bearer {token}")));
        let request = RawRequest { path: request.path, metadata, message: request.message.into() };
        return match client.stream(request).await {
            Ok(mut events) => match events.next().await {
                Some(Err(status)) => (status.code.try_into().unwrap(), status.message),
                other => (0, format!("{other:?}")),
            },
            Err(GrpcError::Raw(status)) => (status.code.try_into().unwrap(), status.message),
            Err(error) => panic!("{error}"),
        };
    }
    let endpoint = Endpoint::new(served.url("/a2a/quick"), binding, version);
    let request = endpoint.http_request(&call, 1).unwrap();
    let mut sent = Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        sent = sent.header(*name, value);
    }
    let response = served.send(with_token(sent.body(Bytes::from(request.body)).unwrap(), token)).await;
    let retry = response.headers().get("retry-after").map_or("", |seconds| seconds.to_str().unwrap());
    (response.status().as_u16(), format!("retry={retry} {}", text(&response)))
}

const SPOKEN: [(Binding, Version); 6] = [
    (Binding::JsonRpc, Version::V1),
    (Binding::JsonRpc, Version::V03),
    (Binding::HttpJson, Version::V1),
    (Binding::HttpJson, Version::V03),
    (Binding::Grpc, Version::V1),
    (Binding::Grpc, Version::V03),
];

async fn ws(served: &Served, token: &str) -> WsClient {
    let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
    options.token = Some(token.to_owned());
    WsClient::connect(&options).await.unwrap()
}

async fn grpc(served: &Served, token: &str) -> GrpcClient {
    let config = GrpcConfig { token: Some(Token::new(token).unwrap()), ..GrpcConfig::default() };
    GrpcClient::connect(&served.url(""), config).await.unwrap()
}

fn is_busy(error: &GrpcError, limit: &str) -> bool {
    matches!(error, GrpcError::Refused(refused) if refused.kind == RefusalKind::Busy && refused.message.contains(limit))
}

/// A principal with as many runs as it may have starts no other, whatever the surface; another principal does.
#[tokio::test]
async fn runs_at_once_are_limited_per_principal_on_every_surface() {
    let served = gateway("quotas.runs = 1\n").await;
    let request = with_token(served.post("/agents/slow", &input("first", Some("1.0"))), ANN);
    let mut first = served.client.open_stream(request).await.unwrap();
    first.next().await.unwrap().unwrap();
    let mut refused = 0;

    is_refused_by(&run(&served, ANN, "quick", "r").await, "quotas.runs");
    assert_eq!(run(&served, BOB, "quick", "r").await.status(), 200);
    refused += 1;

    let error = ws(&served, ANN).await.start(Some("quick"), &input("w", None).to_string()).await.unwrap_err();
    assert!(error.to_string().contains("busy") && error.to_string().contains("quotas.runs"), "{error}");
    assert!(ws(&served, BOB).await.start(Some("quick"), &input("w", None).to_string()).await.is_ok());
    refused += 1;

    let publication = aqueduct_core::service::PublishRequest {
        agent: "fed".to_owned(),
        thread_id: None,
        run_id: None,
        format: "text".to_owned(),
    };
    let (ann, prompt) = (grpc(&served, ANN).await, RunInput::prompt("t", "g", "hi"));
    assert!(is_busy(&ann.run("quick", &prompt).await.unwrap_err(), "quotas.runs"));
    assert!(is_busy(&ann.complete("quick", &prompt).await.unwrap_err(), "quotas.runs"));
    assert!(is_busy(&ann.publish(publication).await.unwrap_err(), "quotas.runs"));
    assert!(grpc(&served, BOB).await.complete("quick", &prompt).await.is_ok());
    refused += 3;

    for (binding, version) in SPOKEN {
        let (status, said) = a2a(&served, ANN, binding, version).await;
        let expected = if binding == Binding::Grpc { 8 } else { 429 };
        assert_eq!(status, expected, "{binding:?} {version:?}: {said}");
        assert!(said.contains("quotas.runs"), "{binding:?} {version:?}: {said}");
        assert!(binding == Binding::Grpc || said.starts_with("retry=1 "), "{said}");
        let (status, said) = a2a(&served, BOB, binding, version).await;
        assert_eq!(status, if binding == Binding::Grpc { 0 } else { 200 }, "{binding:?} {version:?}: {said}");
        refused += 1;
    }
    assert_eq!(refusals(&served, "quotas.runs").await, refused);

    let cancel = with_token(served.post("/runs/first/cancel", &json!({})), ANN);
    assert_eq!(served.send(cancel).await.status(), 200);
    while first.next().await.is_some() {}
    served.idle().await;
    assert_eq!(run(&served, ANN, "quick", "after").await.status(), 200, "a run that ended makes room");
}

/// A principal of its own quota, beside the one of all.
#[tokio::test]
async fn a_principal_may_have_another_quota_than_others() {
    let toml = "quotas.bytes = \"64KiB\"\n[principals.cid]\ntoken = \"env:ANN\"\nquotas.bytes = 16\n\
                [principals.bob]\ntoken = \"env:BOB\"\n[agents.fed]\nmagentic.ingest = true\n";
    let served = serve(toml, &SECRETS).await;
    is_refused_by(&run(&served, ANN, "fed", "r").await, "quotas.bytes");
    assert_eq!(run(&served, BOB, "fed", "r").await.status(), 501, "read, and then refused for itself");
}

/// A burst of requests beyond the rate is refused in part, on every surface; others are served meanwhile.
#[tokio::test]
async fn requests_per_second_are_limited_per_principal_on_every_surface() {
    let served = gateway("quotas.rate = 1\n[principals.bob.quotas]\nrate = 1000\n").await;
    let list = |token: &'static str| {
        let request = Request::get(served.url("/agents")).body(Bytes::new()).unwrap();
        served.send(with_token(request, token))
    };
    let answers = futures_util::future::join_all((0..20).map(|_| list(ANN))).await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status() != 200).collect();
    assert!(!refused.is_empty() && refused.len() < 20, "{} refused", refused.len());
    for answer in &refused {
        is_refused_by(answer, "quotas.rate");
    }
    let others = futures_util::future::join_all((0..20).map(|_| list(BOB))).await;
    assert!(others.iter().all(|answer| answer.status() == 200));

    let client = grpc(&served, ANN).await;
    let answers = futures_util::future::join_all((0..20).map(|_| client.list_agents())).await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|error| is_busy(error, "quotas.rate")), "{refused:?}");

    let (status, said) = loop {
        let answer = a2a(&served, ANN, Binding::Grpc, Version::V1).await;
        if answer.0 != 0 {
            break answer;
        }
    };
    assert_eq!(status, 8, "{said}");
    let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
    options.token = Some(ANN.to_owned());
    // The upgrade is a request as well.
    let socket = loop {
        match WsClient::connect(&options).await {
            Ok(socket) => break socket,
            Err(error) => assert!(error.to_string().contains("429"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let answers = futures_util::future::join_all((0..20).map(|_| socket.list_agents())).await;
    let refused: Vec<String> =
        answers.iter().filter_map(|answer| Some(answer.as_ref().err()?.to_string())).collect();
    assert!(!refused.is_empty() && refused.iter().all(|error| error.contains("quotas.rate")), "{refused:?}");
    assert!(refusals(&served, "quotas.rate").await >= 4);
}

/// A body that is more than its principal, or all together, may have in flight is refused on every surface.
#[tokio::test]
async fn bytes_in_flight_are_limited_of_one_and_of_all() {
    for (key, limit) in [("quotas.bytes = 64\n", "quotas.bytes"), ("quotas.bodies = 64\n", "quotas.bodies")] {
        let served = gateway(key).await;
        is_refused_by(&run(&served, ANN, "quick", "r").await, limit);
        let prompt = RunInput::prompt("t", "g", &"x".repeat(200));
        let refused = grpc(&served, ANN).await.run("quick", &prompt).await.unwrap_err();
        assert!(is_busy(&refused, limit), "{refused:?}");
        for (binding, version) in SPOKEN {
            let (status, said) = a2a(&served, ANN, binding, version).await;
            // Messages of protobuf are short.
            let is_refused = matches!((binding, status), (Binding::Grpc, 0 | 8) | (_, 429));
            assert!(is_refused, "{binding:?} {version:?} {status}: {said}");
        }
        assert!(refusals(&served, limit).await >= 4);
        let metrics = text(&served.get("/metrics").await);
        assert!(metrics.contains("aqueduct_bodies_in_flight_bytes 0\n"), "all is given back: {metrics}");
        assert!(metrics.contains(r#"code="too_many_b"#), "{metrics}");
    }
}

/// A message of a WebSocket that is never finished counts as well, and closes the connection with the name of the limit.
#[tokio::test]
async fn unfinished_messages_count_as_bytes_in_flight() {
    let served = gateway("quotas.bytes = \"16KiB\"\n").await;
    let mut socket = upgraded(served.address, Some(ANN)).await;
    let length = u64::from(64 * 1024_u32).to_be_bytes();
    let head = [&[0x81, 0xff][..], &length, &[0; 4]].concat();
    socket.write_all(&head).await.unwrap();
    socket.write_all(&vec![b' '; 32 * 1024]).await.unwrap();
    let (code, reason) = closed(&mut socket).await;
    assert_eq!(code, 4429);
    assert!(reason.contains("quotas.bytes"), "{reason}");
    assert_eq!(refusals(&served, "quotas.bytes").await, 1);
}

/// Frames above their rate wait; the connection goes on.
#[tokio::test]
async fn a_websocket_that_sends_too_fast_is_read_more_slowly() {
    let served = gateway("quotas.frames = 5\n").await;
    let client = ws(&served, ANN).await;
    for _ in 0..8 {
        client.list_agents().await.expect("late, and answered");
    }
    let metrics = text(&served.get("/metrics").await);
    let throttles = metrics.lines().find_map(|line| line.strip_prefix("aqueduct_ws_throttles_total "));
    assert!(throttles.unwrap().parse::<u64>().unwrap() >= 1, "{metrics}");
}

/// Connections are counted per address, whatever their principals; one above the limit gets 429 and is closed.
#[tokio::test]
async fn connections_are_limited_per_address() {
    let served = gateway("quotas.proxies = []\nquotas.peer.connections = 2\n").await;
    let first = TcpStream::connect(served.address).await.unwrap();
    let _second = TcpStream::connect(served.address).await.unwrap();
    // Accepted in the order of their arrival, and the third is beyond.
    let mut third = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET /agents HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ANN}\r\n\r\n");
    third.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).await.expect("it is closed");
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("quotas.peer.connections") && answer.contains("retry-after: 1"), "{answer}");
    let config = GrpcConfig { token: Some(Token::new(ANN).unwrap()), ..GrpcConfig::default() };
    let refused = match GrpcClient::connect(&served.url(""), config).await {
        Ok(client) => client.list_agents().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(is_busy(&refused, "quotas.peer.connections"), "{refused:?}");
    drop(first);
    let mut tries = 0;
    while served
        .client
        .request(with_token(agents(&served), ANN))
        .await
        .is_ok_and(|answer| answer.status() != 200)
    {
        tries += 1;
        assert!(tries < 1000, "a connection that was closed makes room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refusals(&served, "quotas.peer.connections").await >= 2);
}

fn agents(served: &Served) -> Request<Bytes> {
    Request::get(served.url("/agents")).body(Bytes::new()).unwrap()
}

/// Requests without a proof count for their address, and those with one do not.
#[tokio::test]
async fn requests_without_a_proof_are_limited_per_address() {
    let served = gateway("quotas.proxies = []\nquotas.peer.rate = 2\n").await;
    for wrong in [None, Some("made-up-token-0123456789")] {
        let ask = || {
            let request = agents(&served);
            served.send(match wrong {
                Some(token) => with_token(request, token),
                None => request,
            })
        };
        let answers = futures_util::future::join_all((0..20).map(|_| ask())).await;
        let (known, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 401);
        assert!(!refused.is_empty(), "{known:?}");
        for answer in &refused {
            is_refused_by(answer, "quotas.peer.rate");
        }
        assert_eq!(served.send(with_token(agents(&served), ANN)).await.status(), 200);
    }
}

/// Callers without a proof share the runs of their address.
#[tokio::test]
async fn runs_of_anonymous_callers_are_limited_per_address() {
    let path = crate::scratch::folder().join("quotas-anonymous.toml");
    std::fs::write(&path, "[[step]]\ntext = \"so far\"\n[[step]]\nsleep = \"1h\"\n").unwrap();
    let toml = format!(
        "quotas.proxies = []\nquotas.peer.runs = 1\n[agents.a]\nscript.file = \"{}\"\n",
        path.display()
    );
    let served = serve(&toml, &[]).await;
    let request = served.post("/agents/a", &input("first", Some("1.0")));
    let mut first = served.client.open_stream(request).await.unwrap();
    first.next().await.unwrap().unwrap();
    let second = served.send(served.post("/agents/a", &input("second", Some("1.0")))).await;
    is_refused_by(&second, "quotas.peer.runs");
}

/// A call that passes through to an agent is work for its caller, as a run is.
#[tokio::test]
async fn calls_that_pass_through_count_as_runs() {
    // Each caller has a task of its own: another's would not be shown.
    let upstream = Upstream::start(move |asked| {
        let id = &asked.body["params"]["message"]["messageId"];
        let update = json!({ "taskId": id, "contextId": id, "status": { "state": "TASK_STATE_WORKING" } });
        let begun = json!({ "jsonrpc": "2.0", "id": 1, "result": { "statusUpdate": update } });
        Say::Hang(sse(&format!("data: {begun}\n\n")))
    })
    .await;
    let toml = format!(
        "quotas.runs = 1\n[principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n\
         [agents.p]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
        upstream.url
    );
    let served = serve(&toml, &SECRETS).await;
    let request = |token: &str| {
        let message = json!({ "messageId": token, "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
        let params = json!({ "message": message });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params });
        with_token(served.post("/a2a/p", &call), token)
    };
    let mut first = served.client.open_stream(request(ANN)).await.unwrap();
    first.next().await.unwrap().unwrap();
    let refused = served.send(request(ANN)).await;
    is_refused_by(&refused, "quotas.runs");
    let body: Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!(body["error"]["data"][0]["metadata"]["limit"], "quotas.runs", "{body}");
    let mut other = served.client.open_stream(request(BOB)).await.unwrap();
    other.next().await.unwrap().unwrap();
    drop(first);
    let mut tries = 0;
    while served.client.open_stream(request(ANN)).await.is_err() {
        tries += 1;
        assert!(tries < 1000, "a call that ended makes room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A WebSocket of its own making, whose frames a test writes.
pub(crate) async fn upgraded(address: SocketAddr, token: Option<&str>) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: aqueduct.v1.json\r\n{token}\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(socket.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    socket
}

/// The code and the reason with which a server closes; other frames are passed over.
pub(crate) async fn closed(socket: &mut TcpStream) -> (u16, String) {
    loop {
        let (kind, length) = (socket.read_u8().await.unwrap(), socket.read_u8().await.unwrap());
        assert!(length < 126, "a short frame");
        let mut payload = vec![0; length.into()];
        socket.read_exact(&mut payload).await.unwrap();
        if kind == 0x88 {
            let code = u16::from_be_bytes([payload[0], payload[1]]);
            return (code, String::from_utf8_lossy(&payload[2..]).into_owned());
        }
    }
}

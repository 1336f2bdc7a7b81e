//! Supervisors that call their sub-agents over gRPC, and the principals for whom they do: a call is related as one over
//! HTTP, and never to a run of another principal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_adapter_a2a::call::{Call, SendMessage, user_message};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::pb::answer::read_task_answer;
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::{Part, Raw, StreamItem};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::MemoryLog;
use aqueduct_transport_grpc::ClientConfig;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::support::{Served, answer, events, input, serve_gateway};
use super::peer::{Called, Door, Peer, begun, chunk, done};
use super::{Place, gateway, lane, lanes, supervisor, ways};

everywhere!(
    a_call_over_grpc_is_a_lane_in_both_packages,
    each_relation_works_over_grpc,
    a_refused_call_over_grpc_is_a_failed_lane,
    a_task_over_grpc_is_cancelled_with_the_run,
);

fn message(how: &Called) -> SendMessage {
    let mut message = user_message("m", None, vec![Part::text("do it")]);
    message.context_id = how.context.into();
    message.metadata = how.metadata.is_object().then(|| Raw::from_value(&how.metadata));
    SendMessage::new(message)
}

/// A client of one package.
async fn connect(door: &Door) -> RawClient {
    RawClient::connect(&format!("http://{}", door.address()), ClientConfig::default()).await.unwrap()
}

fn request(agent: &str, version: Version, call: &Call, how: &Called) -> RawRequest {
    let request = Endpoint::new(String::new(), Binding::Grpc, version).grpc_request(call).unwrap();
    let own = request.metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
    let more = how.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let named = [("x-aqueduct-agent".to_owned(), agent.to_owned())];
    RawRequest {
        path: request.path,
        metadata: own.chain(more).chain(named).collect(),
        message: request.message.into(),
    }
}

/// Calls an agent, and gives the texts of its artifacts; the message of the status if it is refused.
async fn call(door: &Door, agent: &str, version: Version, streams: bool, how: &Called) -> String {
    let client = connect(door).await;
    let (call, mut text) = (Box::new(message(how)), String::new());
    let call = if streams { Call::SendStreamingMessage(call) } else { Call::SendMessage(call) };
    let request = request(agent, version, &call, how);
    let mut take = |bytes: &[u8]| match read_task_answer(&call, version, bytes).unwrap() {
        Some(StreamItem::Artifact(update)) => text.push_str(&update.artifact.text()),
        Some(StreamItem::Task(task)) if !streams => {
            text.extend(task.artifacts.iter().map(aqueduct_adapter_a2a::wire::Artifact::text));
        }
        _ => {}
    };
    if streams {
        let mut stream = match client.stream(request).await {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
        };
        while let Some(message) = stream.next().await {
            take(&message.unwrap());
        }
    } else {
        match client.unary(request).await {
            Ok(message) => take(&message),
            Err(error) => return error.to_string(),
        }
    }
    text
}

async fn sub_agent() -> Peer {
    Peer::saying(vec![begun("a"), chunk("a", "hello", false), done("a")]).await
}

async fn a_call_over_grpc_is_a_lane_in_both_packages(place: Place) {
    for (version, streams) in
        [(Version::V1, true), (Version::V1, false), (Version::V03, true), (Version::V03, false)]
    {
        let (door, sub) = (Door::default(), sub_agent().await);
        let supervisor = supervisor(&door, move |door, asked| {
            Box::pin(async move {
                let said = call(&door, "a", version, streams, &Called::by(&asked)).await;
                assert!(said.contains("hello"), "{version} {streams}: {said}");
            })
        })
        .await;
        let served = gateway(place, &door, &[("s", &*supervisor.url), ("a", &*sub.url)], "").await;
        let events = served.run("s", "r").await;
        assert_eq!(answer(&events), "all is well");
        assert_eq!(lanes(&events), [lane("a", "", "hello", "success")], "{version} {streams} {events:#?}");
        assert!(served.metrics().await.contains("aqueduct_tee_calls_total{relation=\"token\"} 1\n"));
    }
}

async fn each_relation_works_over_grpc(place: Place) {
    for (index, (relation, how)) in ways().into_iter().enumerate() {
        let (door, sub) = (Door::default(), sub_agent().await);
        let supervisor = supervisor(&door, move |door, asked| {
            let how = how(&asked);
            Box::pin(async move {
                // The gateway must have received the supervisor's context.
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(call(&door, "a", Version::V1, true, &how).await.contains("hello"));
            })
        })
        .await;
        let toml = match relation {
            "none" => String::new(),
            relation => format!("tee.relate_by = [\"{relation}\"]"),
        };
        let served = gateway(place, &door, &[("s", &*supervisor.url), ("a", &*sub.url)], &toml).await;
        let seen = lanes(&served.run("s", "r").await);
        let expected = if relation == "none" { vec![] } else { vec![lane("a", "", "hello", "success")] };
        assert_eq!(seen, expected, "{index} {relation}");
    }
}

async fn a_refused_call_over_grpc_is_a_failed_lane(place: Place) {
    let (door, sub) = (Door::default(), sub_agent().await);
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let how = Called::by(&asked);
            let mut message = message(&how);
            message.message.task_id = "never".into();
            let call = Call::SendMessage(Box::new(message));
            let refused = connect(&door).await.unary(request("a", Version::V1, &call, &how)).await;
            assert!(refused.unwrap_err().to_string().contains("never"), "the caller gets the status");
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &*supervisor.url), ("a", &*sub.url)], "").await;
    let seen = lanes(&served.run("s", "r").await);
    assert_eq!(seen, [lane("a", "", "", "upstream_refused")], "{seen:?}");
}

async fn a_task_over_grpc_is_cancelled_with_the_run(place: Place) {
    let door = Door::default();
    let sub = Peer::start(|asked, mut out| {
        Box::pin(async move {
            if asked.body["method"] != "SendStreamingMessage" {
                return out.answer(&asked, "").await;
            }
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "On it.", false)].concat()).await;
            out.closed().await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            call(&door, "a", Version::V1, true, &Called::by(&asked)).await;
            std::future::pending::<()>().await;
        })
    })
    .await;
    let scene = gateway(place, &door, &[("s", &*supervisor.url), ("a", &*sub.url)], "").await;
    let mut stream =
        scene.client.open_stream(scene.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        if event["delta"] == "On it." {
            scene.send(scene.post("/runs/r/cancel", &json!({}))).await;
        }
        seen.push(event);
    }
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "cancelled", "{seen:#?}");
    let idle = async { tokio::join!(scene.owner.idle(), scene.door().idle()) };
    timeout(Duration::from_secs(30), idle).await.expect("the run of the sub-agent is stopped too");
}

const SECRETS: [(&str, &str); 3] =
    [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789"), ("SAM", "sam-token-0123456789")];

/// The secret of a principal.
fn secret(who: &str) -> &'static str {
    SECRETS.iter().find(|(name, _)| name.eq_ignore_ascii_case(who)).unwrap().1
}

/// Serves a supervisor and a sub-agent to three principals, of whom `sam` may call the sub-agent for others.
async fn shared(door: &Door, supervisor: &Peer, sub: &Peer, more: &str) -> Served {
    let toml = format!(
        "{more}\n[principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n\
         [principals.sam]\ntoken = \"env:SAM\"\n\
         [agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
         [agents.a]\nsupervisors = [\"sam\"]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
        supervisor.url, sub.url
    );
    let secrets = SECRETS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut config = load(Path::new("aqueduct.toml"), &toml, secrets).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let served = serve_gateway(Gateway::with_log(config, Arc::new(MemoryLog::default())).unwrap()).await;
    door.is_at(served.address);
    served
}

/// A run of ann whose supervisor calls with the secret of `who`, by what it was given; gives the lanes that are seen.
async fn seen(who: &'static str, over_grpc: bool, relation: usize, more: &str) -> usize {
    let (door, sub) = (Door::default(), sub_agent().await);
    let supervisor = supervisor(&door, move |door, asked| {
        let (_, how) = ways()[relation];
        let mut how = how(&asked);
        how.headers.push(("authorization", format!("Bearer {}", secret(who))));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let said = if over_grpc {
                call(&door, "a", Version::V1, true, &how).await
            } else {
                door.call("a", &how).await
            };
            assert!(said.contains("hello"), "{said}");
        })
    })
    .await;
    let served = shared(&door, &supervisor, &sub, more).await;
    let mut request = served.post("/agents/s", &input("r", Some("1.0")));
    request.headers_mut().insert("authorization", format!("Bearer {}", secret("ann")).parse().unwrap());
    let events = events(&served.send(request).await);
    assert_eq!(answer(&events), "all is well");
    lanes(&events).len()
}

/// A call is related to a run of its own principal, or the called agent lists the principal as a supervisor; with more
/// than one principal only tokens relate, unless the configuration sets more kinds.
#[tokio::test]
async fn a_call_is_related_within_one_principal_in_every_binding() {
    let (token, trace, context) = (0, 3, 4);
    let all = "tee.relate_by = [\"token\", \"trace\", \"context\"]";
    for over_grpc in [false, true] {
        for (way, more) in [(token, ""), (token, all), (trace, all), (context, all)] {
            for (who, expected) in [("ann", 1), ("bob", 0), ("sam", 1)] {
                let lanes = seen(who, over_grpc, way, more).await;
                assert_eq!(lanes, expected, "{who} over_grpc={over_grpc} way={way} {more}");
            }
        }
        for way in [trace, context] {
            assert_eq!(seen("ann", over_grpc, way, "").await, 0, "by default: {way} {over_grpc}");
        }
    }
}

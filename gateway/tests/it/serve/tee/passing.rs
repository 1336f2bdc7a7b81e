//! Calls that pass through: cards, blocking calls, failures, paths.

use aqueduct_transport_http::{Client, ClientConfig};
use http::Request;
use serde_json::{Value, json};

use super::super::support::{Say, Upstream, answer, http, serve};
use super::peer::{Called, Door, Peer, begun, chunk, done, task};
use super::{Place, gateway, lane, lanes, supervisor};

everywhere!(a_blocking_call_is_seen_too, a_task_that_is_polled_is_one_lane,);

#[tokio::test]
async fn the_card_says_that_the_agent_is_here() {
    let upstream = Upstream::start(|asked| {
        let version = if asked.head.contains("a2a-version: 1.0") { "1.0" } else { "0.3.0" };
        let card = json!({
            "name": "real", "url": "http://real/rpc", "protocolVersion": version, "capabilities": { "streaming": true },
            "supportedInterfaces": [
                { "url": "real:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
                { "url": "http://real/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            ],
        });
        Say::Close(http("200 OK", "application/json", &card.to_string()))
    })
    .await;
    let served = serve(&format!("[agents.x.a2a]\nurl = \"{}\"\n", upstream.url), &[]).await;
    for path in [
        "/a2a/x/.well-known/agent-card.json",
        "/a2a/x/.well-known/agent.json",
        "/a2a/x/.well-known/agent-card.json/",
        "/a2a/.well-known/agent-card.json",
    ] {
        let card: Value = serde_json::from_slice(served.get(path).await.body()).unwrap();
        let here = served.url("/a2a/x");
        assert_eq!((&card["name"], &card["url"]), (&json!("real"), &json!(here)));
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        let rpc = json!({ "url": here, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
        assert_eq!(interfaces[0], rpc, "what passes comes first");
        let bindings: Vec<_> =
            interfaces.iter().map(|one| one["protocolBinding"].as_str().unwrap()).collect();
        assert_eq!(
            bindings,
            ["JSONRPC", "HTTP+JSON", "GRPC", "JSONRPC", "HTTP+JSON", "GRPC"],
            "and all else is served"
        );
        assert_eq!(interfaces[2]["url"], format!("http://{}", served.address));
        assert_eq!(card["protocolVersion"], "0.3.0");
    }
}

/// An agent that speaks one binding in one version is there in all bindings and both versions.
#[tokio::test]
async fn what_the_agent_does_not_speak_is_served() {
    let peer = Peer::saying(vec![begun("S"), chunk("S", "all is well", false), done("S")]).await;
    let served =
        serve(&format!("[agents.x]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n", peer.url), &[]).await;
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "Hello" }] });
    let mut request = served.post("/a2a/x/message:send", &json!({ "message": message }));
    request.headers_mut().insert("a2a-version", "1.0".parse().unwrap());
    let response = served.send(request).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(response.status(), 200, "{body}");
    assert_eq!(body["task"]["artifacts"][0]["parts"][0]["text"], "all is well", "{body}");
    let older = json!({ "messageId": "m", "role": "user", "kind": "message", "parts": [{ "kind": "text", "text": "Hello" }] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": older } });
    let body: Value = serde_json::from_slice(served.send(served.post("/a2a/x", &call)).await.body()).unwrap();
    assert_eq!(
        (&body["result"]["kind"], &body["result"]["status"]["state"]),
        (&json!("task"), &json!("completed")),
        "{body}"
    );
    let card: Value =
        serde_json::from_slice(served.get("/a2a/x/.well-known/agent-card.json").await.body()).unwrap();
    assert_eq!(card["name"], "x", "an agent without a card has the gateway's: {card}");
}

async fn a_blocking_call_is_seen_too(place: Place) {
    let door = Door::default();
    let sub = Peer::start(|_, out| {
        let mut task = task("a", "COMPLETED");
        task["artifacts"] = json!([{ "artifactId": "A", "parts": [{ "text": "the whole answer" }] }]);
        Box::pin(async move { out.whole(&json!({ "task": task })).await })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            let request = door.request("a", "SendMessage", &Called::by(&asked));
            let response = client.request(request).await.unwrap();
            assert_eq!(response.headers()["content-type"], "application/json");
            assert!(String::from_utf8_lossy(response.body()).contains("the whole answer"));
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let events = served.run("s", "r").await;
    assert_eq!(answer(&events), "all is well");
    assert_eq!(lanes(&events), [lane("a", "", "the whole answer", "success")]);
}

/// A task that is polled stays one lane, and nothing of it is emitted twice.
async fn a_task_that_is_polled_is_one_lane(place: Place) {
    let door = Door::default();
    let sub = Peer::start(|asked, out| {
        let (state, text) =
            if asked.body["method"] == "GetTask" { ("COMPLETED", "one two") } else { ("WORKING", "one ") };
        let mut task = task("a", state);
        task["artifacts"] = json!([{ "artifactId": "A", "parts": [{ "text": text }] }]);
        let result = if state == "WORKING" { json!({ "task": task }) } else { task };
        Box::pin(async move { out.whole(&result).await })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            client.request(door.request("a", "SendMessage", &Called::by(&asked))).await.unwrap();
            let mut look = door.request("a", "GetTask", &Called::by(&asked));
            *look.body_mut() =
                json!({ "jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": { "id": "a" } })
                    .to_string()
                    .into();
            client.request(look).await.unwrap();
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    assert_eq!(lanes(&served.run("s", "r").await), [lane("a", "", "one two", "success")]);
}

#[tokio::test]
async fn a_failure_on_the_way_is_told_as_the_binding_tells_errors() {
    let toml = "[agents.x]\na2a = { url = \"http://127.0.0.1:1\", binding = \"jsonrpc\" }\n\
                [agents.y]\na2a = { url = \"http://127.0.0.1:1\", binding = \"rest\" }\n";
    let served = serve(toml, &[]).await;
    let call = json!({ "jsonrpc": "2.0", "id": "abc", "method": "SendMessage", "params": {} });
    let response = served.send(served.post("/a2a/x", &call)).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &body["id"]), (200, &json!("abc")));
    assert!(body["error"]["message"].as_str().unwrap().contains("127.0.0.1:1"), "{body}");
    let response = served.send(served.post("/a2a/y/message:send", &json!({}))).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &body["error"]["code"]), (502, &json!(502)), "{body}");
    for path in ["/a2a/nobody", "/a2a/y/../../admin", "/a2a/y/%2e%2e/admin"] {
        assert_eq!(served.send(served.post(path, &call)).await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn rest_calls_pass_with_their_path_and_query() {
    let mut upstream = Upstream::saying(http("200 OK", "application/a2a+json", "{\"id\":\"T\"}")).await;
    let agent = format!("[agents.x]\na2a = {{ url = \"{}/base/\", binding = \"rest\" }}\n", upstream.url);
    let served = serve(&format!("server.push = \"public\"\n{agent}"), &[]).await;
    let response = served.get("/a2a/x/tasks/T%2F1?historyLength=2").await;
    assert_eq!(
        (response.body(), &response.headers()["content-type"]),
        (&"{\"id\":\"T\"}".into(), &"application/a2a+json".parse().unwrap())
    );
    assert!(upstream.asked.recv().await.unwrap().head.starts_with("get /base/tasks/t%2f1?historylength=2 "));
    let delete =
        Request::delete(served.url("/a2a/x/tasks/T/pushNotificationConfigs/c")).body("".into()).unwrap();
    assert_eq!(served.send(delete).await.status(), 200);
    assert!(upstream.asked.recv().await.unwrap().head.starts_with("delete /base/tasks/t/push"));
}

//! Agents of the gateway behind A2A: cards, both bindings over HTTP, streams, follow-ups, cancel, refusals.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Served, Upstream, http, serve_gateway};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;

const HELLO: &str = r#"
[[step]]
thinking = "Let me see."
[[step]]
tool = "search"
arguments = '{"query":"rust"}'
result = "3 results"
[[step]]
text = "Found it."
"#;

const ASKING: &str = "[[step]]\ntext = \"Hm.\"\n[[step]]\nask = \"Which cluster?\"\n";

const WAITING: &str = "[[step]]\ntext = \"On it.\"\n[[step]]\nwait = \"60s\"\n";

/// A gateway with one agent per script.
async fn scripted(scripts: &[(&str, &str)], more: &str, environment: &[(&str, &str)]) -> Served {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("aqueduct-a2a-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut toml = more.to_owned();
    for (name, script) in scripts {
        std::fs::write(folder.join(format!("{name}.toml")), script).unwrap();
        write!(toml, "\n[agents.{name}.script]\nfile = \"{name}.toml\"\n").unwrap();
    }
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = load(&folder.join("aqueduct.toml"), &toml, environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let gateway = Gateway::new(config).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    serve_gateway(gateway).await
}

pub(super) fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]})
}

pub(super) async fn rpc(served: &Served, agent: &str, method: &str, params: Value) -> Response<Bytes> {
    let body = json!({"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params});
    let mut request = served.post(&format!("/a2a/{agent}/"), &body);
    let version = if method.contains('/') { "" } else { "1.0" };
    request.headers_mut().insert("a2a-version", version.parse().unwrap());
    served.send(request).await
}

pub(super) fn read(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap_or_else(|_| panic!("{response:?}"))
}

/// The payloads of an event stream.
pub(super) fn payloads(response: &Response<Bytes>) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream", "{response:?}");
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

async fn get(served: &Served, path: &str) -> Response<Bytes> {
    let request = Request::get(served.url(path)).header("a2a-version", "1.0");
    served.send(request.body(Bytes::new()).unwrap()).await
}

#[tokio::test]
async fn an_agent_is_found_by_its_card_and_answers_in_both_bindings() {
    let served = scripted(&[("a", HELLO)], "", &[]).await;
    let response = get(&served, "/a2a/a/.well-known/agent-card.json").await;
    let card = read(&response);
    let url = served.url("/a2a/a");
    assert_eq!(card["supportedInterfaces"][0]["url"], url);
    assert_eq!((&card["url"], &card["protocolVersion"]), (&json!(url), &json!("0.3.0")));
    let request = Request::get(served.url("/a2a/a/.well-known/agent.json"))
        .header("if-none-match", response.headers()["etag"].clone());
    assert_eq!(served.send(request.body(Bytes::new()).unwrap()).await.status(), 304);

    let answer = read(&rpc(&served, "a", "SendMessage", json!({"message": message("hi")})).await);
    let task = &answer["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    let answers: Vec<&Value> = task["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|artifact| artifact["name"] == "answer")
        .collect();
    assert_eq!(answers[0]["parts"][0]["text"], "Found it.");
    assert_eq!(task["history"][0]["parts"][0]["text"], "hi");

    let mut request = served.post("/a2a/a/message:send", &json!({"message": message("hi")}));
    request.headers_mut().insert("a2a-version", "1.0".parse().unwrap());
    request.headers_mut().insert("content-type", "application/a2a+json".parse().unwrap());
    let response = served.send(request).await;
    assert_eq!(response.headers()["content-type"], "application/a2a+json");
    assert_eq!(read(&response)["task"]["status"]["state"], "TASK_STATE_COMPLETED");

    let old = read(&rpc(&served, "a", "message/send", json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}})).await);
    assert_eq!(
        (&old["result"]["kind"], &old["result"]["status"]["state"]),
        (&json!("task"), &json!("completed"))
    );
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_ends_with_its_state() {
    let served = scripted(&[("a", HELLO)], "", &[]).await;
    let response = rpc(&served, "a", "SendStreamingMessage", json!({"message": message("hi")})).await;
    let payloads = payloads(&response);
    let first = &payloads[0]["result"]["task"];
    assert_eq!(
        (&first["status"]["state"], &payloads[0]["id"]),
        (&json!("TASK_STATE_SUBMITTED"), &json!("r-1"))
    );
    let last = &payloads.last().unwrap()["result"]["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_COMPLETED");
    let task = read(&rpc(&served, "a", "GetTask", json!({"id": first["id"]})).await);
    assert_eq!(&task["result"]["status"], last, "what a stream has told can be asked for");
    let page = read(&get(&served, "/a2a/a/tasks?pageSize=1").await);
    assert_eq!((&page["tasks"][0]["id"], &page["nextPageToken"]), (&first["id"], &json!("")));
}

#[tokio::test]
async fn a_question_is_answered_on_the_same_task() {
    let served = scripted(&[("a", ASKING)], "", &[]).await;
    let asked = read(&rpc(&served, "a", "SendMessage", json!({"message": message("deploy")})).await);
    let task = &asked["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which cluster?");
    let mut reply = message("prod");
    reply["taskId"] = task["id"].clone();
    let again = rpc(&served, "a", "SendStreamingMessage", json!({"message": reply})).await;
    let payloads = payloads(&again);
    assert_eq!(payloads[0]["result"]["task"]["id"], task["id"]);
    let history = payloads[0]["result"]["task"]["history"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["parts"][0]["text"], "prod");
}

#[tokio::test]
async fn cancelling_reaches_the_run() {
    let served = scripted(&[("a", WAITING)], "", &[]).await;
    let params = json!({"message": message("go"), "configuration": {"returnImmediately": true}});
    let begun = read(&rpc(&served, "a", "SendMessage", params).await);
    let id = begun["result"]["task"]["id"].clone();
    assert_eq!(served.gateway.runs().active_runs(), 1, "{begun}");
    let cancelled = read(&rpc(&served, "a", "CancelTask", json!({"id": id})).await);
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    assert_eq!(served.gateway.runs().active_runs(), 0);
    let again = read(&rpc(&served, "a", "CancelTask", json!({"id": id})).await);
    assert_eq!(again["error"]["code"], -32002);
}

#[tokio::test]
async fn tasks_are_seen_only_by_whoever_started_them() {
    let more = "[agents.a]\ntokens = [\"env:ANN\", \"env:BOB\"]\n";
    let served = scripted(&[("a", HELLO)], more, &[("ANN", "ann-token"), ("BOB", "bob-token")]).await;
    let ask = async |token: &str, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = served.post("/a2a/a", &body);
        request.headers_mut().insert("a2a-version", "1.0".parse().unwrap());
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        served.send(request).await
    };
    let id = read(&ask("ann-token", "SendMessage", json!({"message": message("hi")})).await)["result"]["task"]["id"].clone();
    assert!(read(&ask("ann-token", "GetTask", json!({"id": id})).await)["result"]["id"] == id);
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let of_ann = read(&ask("bob-token", method, json!({"id": id})).await);
        assert_eq!(of_ann["error"]["code"], -32001, "{method}");
    }
    assert_eq!(read(&ask("bob-token", "ListTasks", json!({})).await)["result"]["totalSize"], 0);
    assert_eq!(ask("wrong", "ListTasks", json!({})).await.status(), 401);
    assert_eq!(get(&served, "/a2a/a/.well-known/agent-card.json").await.status(), 401);
}

#[tokio::test]
async fn a_card_can_be_public_although_its_agent_is_not() {
    let more = "[server]\npublic_url = \"https://agents.example.org/\"\n[agents.a]\ncard = \"public\"\ntokens = [\"env:ANN\"]\n";
    let served = scripted(&[("a", HELLO)], more, &[("ANN", "ann-token")]).await;
    let card = read(&get(&served, "/a2a/a/.well-known/agent-card.json").await);
    assert_eq!(card["url"], "https://agents.example.org/a2a/a");
    assert_eq!(card["security"], json!([{"bearer": []}]));
    assert_eq!(get(&served, "/a2a/a/tasks").await.status(), 401);
}

#[tokio::test]
async fn clients_are_called_back_where_the_configuration_lets_them() {
    let mut receiver = Upstream::saying(http("200 OK", "application/json", "{}")).await;
    let push = json!({"url": format!("{}/hook", receiver.url), "token": "sesame"});
    let params = json!({"message": message("hi"), "configuration": {"taskPushNotificationConfig": push}});

    let careful = scripted(&[("a", HELLO)], "[server]\npush = \"public\"\n", &[]).await;
    let refused = read(&rpc(&careful, "a", "SendMessage", params.clone()).await);
    assert_eq!(refused["error"]["data"][1]["fieldViolations"][0]["field"], "url", "{refused}");
    assert_eq!(careful.gateway.runs().active_runs(), 0);

    let served = scripted(&[("a", HELLO)], "[server]\npush = \"any\"\n", &[]).await;
    let task = read(&rpc(&served, "a", "SendMessage", params.clone()).await)["result"]["task"].clone();
    let last = loop {
        let asked = receiver.asked.recv().await.unwrap();
        assert!(asked.head.contains("x-a2a-notification-token: sesame"), "{}", asked.head);
        if asked.body["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED" {
            break asked.body;
        }
    };
    assert_eq!(last["statusUpdate"]["taskId"], task["id"]);

    let off = scripted(&[("a", HELLO)], "[server]\npush = \"off\"\n", &[]).await;
    assert_eq!(read(&rpc(&off, "a", "SendMessage", params).await)["error"]["code"], -32003);
    let card = read(&get(&off, "/a2a/a/.well-known/agent-card.json").await);
    assert_eq!(card["capabilities"]["pushNotifications"], false);
}

/// Bodies that are too long or of the wrong type are refused before anything else is done with them.
#[tokio::test]
async fn huge_bodies_and_forms_are_refused() {
    let served = scripted(&[("a", HELLO)], "[server]\nbody = \"16KiB\"\n", &[]).await;
    let huge = "x".repeat(20_000);
    for path in ["/a2a/a", "/a2a/a/message:send"] {
        let mut request = served.post(path, &json!({"message": message(&huge)}));
        request.headers_mut().insert("a2a-version", "1.0".parse().unwrap());
        assert_eq!(served.send(request).await.status(), 413, "{path}");
    }
    let mut form = served.post("/a2a/a", &json!({}));
    form.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(read(&served.send(form).await)["error"]["code"], -32005);
}

#[tokio::test]
async fn cards_are_found_where_clients_look() {
    let look_up = "/a2a/.well-known/agent-card.json";
    let served = scripted(&[("a", HELLO)], "", &[]).await;
    for path in ["/a2a/a/.well-known/agent-card.json", "/a2a/a/.well-known/agent-card.json/", look_up] {
        let card = read(&get(&served, path).await);
        assert_eq!(card["name"], "a", "{path}");
        for interface in card["supportedInterfaces"].as_array().unwrap() {
            let url = interface["url"].as_str().unwrap();
            assert!(url.starts_with("http://"), "every interface has a scheme: {interface}");
        }
        assert_eq!(card["skills"][0]["inputModes"], card["defaultInputModes"]);
        assert_eq!(card["skills"][0]["outputModes"], card["defaultOutputModes"]);
    }
    let tokens = "[agents.a]\ntokens = [\"env:A\"]\n[agents.b]\ntokens = [\"env:B\"]\n";
    let served = scripted(&[("a", HELLO), ("b", HELLO)], tokens, &[("A", "for-a"), ("B", "for-b")]).await;
    let asked = |token: &str| {
        Request::get(served.url(look_up))
            .header("authorization", format!("Bearer {token}"))
            .body(Bytes::new())
            .unwrap()
    };
    assert_eq!(read(&served.send(asked("for-b")).await)["name"], "b", "the only one that the caller may use");
    let served = scripted(&[("a", HELLO), ("b", HELLO)], "", &[]).await;
    let refused = get(&served, look_up).await;
    assert_eq!(refused.status(), 404);
    assert!(String::from_utf8_lossy(refused.body()).contains("/a2a/{name}/.well-known"), "{refused:?}");
}

#[tokio::test]
async fn a_card_names_the_bindings_that_the_configuration_wants() {
    let served = scripted(&[("a", HELLO)], "[agents.a]\nbindings = [\"rest\", \"jsonrpc\"]\n", &[]).await;
    let card = read(&get(&served, "/a2a/a/.well-known/agent-card.json").await);
    let named: Vec<&str> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|interface| interface["protocolBinding"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["HTTP+JSON", "JSONRPC", "HTTP+JSON", "JSONRPC"]);
    assert_eq!(card["preferredTransport"], "HTTP+JSON");
}

#[tokio::test]
async fn a_client_without_the_extension_gets_the_answer_alone() {
    let served = scripted(&[("a", HELLO)], "", &[]).await;
    let whole = rpc(&served, "a", "SendStreamingMessage", json!({"message": message("hi")})).await;
    let chunks: Vec<Value> = payloads(&whole)
        .iter()
        .filter_map(|payload| Some(payload["result"].get("artifactUpdate")?["artifact"]["parts"].clone()))
        .collect();
    assert!(
        chunks.iter().all(|parts| !parts[0]["text"].as_str().unwrap_or_default().is_empty()),
        "{chunks:?}"
    );
    assert_eq!(chunks.last(), Some(&json!([{"text": "Found it."}])));
    assert!(!String::from_utf8_lossy(whole.body()).contains("search"), "no tool is told");
}

#[tokio::test]
async fn attachments_of_twenty_megabytes_are_taken_if_the_configuration_says_so() {
    let served = scripted(&[("a", HELLO)], "[server]\nbody = \"25MiB\"\n", &[]).await;
    let data = "QUFB".repeat(5 * 1024 * 1024);
    let mut body = super::support::input("large", Some("1.0"));
    body["messages"] = json!([{ "id": "u", "role": "user", "content": [
        { "type": "text", "text": "what is this?" },
        { "type": "document", "source": { "type": "data", "value": data, "mimeType": "application/pdf" } },
    ]}]);
    let response = served.send(served.post("/agents/a", &body)).await;
    assert_eq!(super::support::answer(&super::support::events(&response)), "Found it.");
}

//! `aqueduct mock`: scripts as servers, and the contract of the A2A compatibility kit.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;
use serde_json::{Value, json};

use crate::program::root;
use crate::serve::support::{answer, input, payloads, serve};

/// A mock in a process of its own, stopped with the test.
struct Mock {
    child: Child,
    /// Where its A2A server is.
    url: String,
    client: Client,
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Mock {
    fn start(script: &str, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
        command.args(["mock", script, "--listen", "127.0.0.1:0", "--name", "a"]).args(options);
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_suffix("/agents/a").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, url, client: Client::new(ClientConfig::default()).unwrap() }
    }

    fn tck() -> Self {
        Self::tck_with(&[])
    }

    fn tck_with(options: &[&str]) -> Self {
        Self::start(root().join("scripts/tck.toml").to_str().unwrap(), options)
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        let request = Request::post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .header("a2a-version", "1.0")
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        String::from_utf8(response.body().to_vec()).unwrap()
    }

    /// `SendMessage` over JSON-RPC.
    async fn send(&self, message: Value) -> Value {
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let answer: Value = serde_json::from_str(&self.post("/", &call).await).unwrap();
        answer["result"].clone()
    }

    /// The items of `SendStreamingMessage`, which are the same over HTTP+JSON.
    async fn stream(&self, id: &str) -> Vec<Value> {
        let params = json!({ "message": message(id) });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params });
        let rpc: Vec<Value> =
            payloads(&self.post("/", &call).await).into_iter().map(|frame| frame["result"].clone()).collect();
        let rest = payloads(&self.post("/message:stream", &params).await);
        let kinds = |items: &[Value]| -> Vec<String> {
            items.iter().map(|item| item.as_object().unwrap().keys().next().unwrap().clone()).collect()
        };
        assert_eq!(kinds(&rpc), kinds(&rest), "{id}");
        rpc
    }
}

fn message(id: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "hi" }] })
}

#[tokio::test]
async fn the_kits_prefixes_get_what_the_kit_wants() {
    let mock = Mock::tck();
    let card = Request::get(format!("{}/.well-known/agent-card.json", mock.url)).body(Bytes::new()).unwrap();
    let card = mock.client.request(card).await.unwrap();
    for header in ["cache-control", "etag", "last-modified"] {
        assert!(card.headers().contains_key(header), "{header}");
    }
    let card: Value = serde_json::from_slice(card.body()).unwrap();
    assert!(card.get("url").is_none(), "the kit for 1.0.0 takes no member of 0.3: {card}");
    assert_eq!(
        card["supportedInterfaces"][0]["url"], mock.url,
        "JSON-RPC is posted to this address with a slash"
    );
    let text = |words: &str| json!([{ "text": words }]);
    let file = json!({ "filename": "output.txt", "mediaType": "text/plain" });
    let with = |key: &str, value: &str| {
        let mut part = file.clone();
        part[key] = json!(value);
        json!([part])
    };
    let url = with("url", "https://example.com/output.txt");
    let raw = with("raw", "R2VuZXJhdGVkIGZpbGUgY29udGVudAo=");
    let data = json!([{ "data": { "key": "value", "count": 42 } }]);
    for (prefix, state, parts) in [
        ("tck-complete-task", "COMPLETED", Some(text("Hello from TCK"))),
        ("tck-artifact-text", "COMPLETED", Some(text("Generated text content"))),
        ("tck-artifact-file-url", "COMPLETED", Some(url)),
        ("tck-artifact-file", "COMPLETED", Some(raw)),
        ("tck-artifact-data", "COMPLETED", Some(data)),
        ("tck-reject-task", "REJECTED", None),
        ("tck-input-required", "INPUT_REQUIRED", None),
        ("tck-auth-required", "AUTH_REQUIRED", None),
        ("anything", "COMPLETED", Some(text("Done"))),
    ] {
        let task = mock.send(message(&format!("{prefix}-7f"))).await["task"].clone();
        assert_eq!(task["status"]["state"], format!("TASK_STATE_{state}"), "{prefix}: {task}");
        if let Some(parts) = parts {
            assert_eq!(task["artifacts"][0]["parts"], parts, "{prefix}: {task}");
        }
    }
    let bare = mock.send(message("tck-message-response-1")).await;
    assert_eq!(bare["message"]["parts"], text("Direct message response"), "{bare}");
    assert_eq!(bare["message"]["role"], "ROLE_AGENT");
}

#[tokio::test]
async fn a_follow_up_completes_the_task_that_waited() {
    let mock = Mock::tck();
    let task = mock.send(message("tck-input-required-1")).await["task"].clone();
    let mut follow_up = message("tck-input-required-2");
    follow_up["taskId"] = task["id"].clone();
    follow_up["contextId"] = task["contextId"].clone();
    let done = mock.send(follow_up).await["task"].clone();
    assert_eq!(done["id"], task["id"]);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(done["artifacts"][0]["parts"], json!([{ "text": "Received: hi" }]), "{done}");
}

#[tokio::test]
async fn streams_begin_with_the_task_and_end_with_its_state() {
    let mock = Mock::tck();
    for prefix in ["tck-stream-001", "tck-stream-002", "tck-stream-003", "tck-stream-ordering-001"] {
        let items = mock.stream(prefix).await;
        assert!(items[0]["task"].is_object(), "{prefix}: {items:?}");
        let end = &items.last().unwrap()["statusUpdate"]["status"]["state"];
        assert_eq!(end, "TASK_STATE_COMPLETED", "{prefix}");
    }
    let chunks: Vec<Value> = mock
        .stream("tck-stream-artifact-chunked")
        .await
        .into_iter()
        .filter_map(|item| item.get("artifactUpdate").cloned())
        .collect();
    let appended = chunks.iter().filter(|chunk| chunk["append"] == true).count();
    assert!(appended >= 1 && chunks.last().unwrap()["lastChunk"] == true, "{chunks:?}");
    let words: Vec<&str> = chunks
        .iter()
        .map(|chunk| chunk["artifact"]["parts"][0]["text"].as_str().unwrap_or_default())
        .collect();
    // The closing chunk is the whole artifact: readers take it, or the chunks before it.
    assert_eq!(words, ["chunk-1 ", "chunk-2", "chunk-1 chunk-2"]);
    assert!(chunks.last().unwrap().get("append").is_none(), "{chunks:?}");
    let bare = mock.stream("tck-message-response").await;
    assert!(bare.len() == 1 && bare[0]["message"].is_object(), "{bare:?}");
}

/// The card names three bindings, and a gateway that reads it can use each.
#[tokio::test]
async fn every_binding_of_the_card_is_there() {
    let mock = Mock::tck();
    for binding in ["jsonrpc", "rest", "grpc"] {
        let toml = format!(
            "[agents.g.a2a]\ncard = \"{}/.well-known/agent-card.json\"\nbinding = \"{binding}\"\n",
            mock.url
        );
        let events = serve(&toml, &[]).await.run("g", binding).await;
        assert_eq!(answer(&events), "Done", "{binding}");
        assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED", "{binding}");
    }
}

#[tokio::test]
async fn clients_on_this_machine_are_called_back_only_if_wanted() {
    for (options, is_wanted) in [(&["--allow-loopback-push"][..], true), (&[], false)] {
        let mock = Mock::tck_with(options);
        let task = mock.send(message("tck-input-required-1")).await["task"]["id"].clone();
        let params = json!({ "taskId": task, "url": "http://127.0.0.1:9/here" });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": params });
        let told: Value = serde_json::from_str(&mock.post("/", &call).await).unwrap();
        assert_eq!(told.get("result").is_some(), is_wanted, "{told}");
        // The kit's own hook is on another machine, and the kit may run where no name leads to one.
        let hook = json!({ "id": "tck-push", "url": "https://hook.invalid/tck-push-webhook" });
        let path = format!("/tasks/{}/pushNotificationConfigs", task.as_str().unwrap());
        let told: Value = serde_json::from_str(&mock.post(&path, &hook).await).unwrap();
        assert_eq!(told.get("url").is_some(), is_wanted, "{told}");
    }
}

#[tokio::test]
async fn a_script_says_what_its_agent_reads() {
    let file = std::env::temp_dir().join(format!("aqueduct-reads-{}.toml", std::process::id()));
    std::fs::write(&file, "input_modes = [\"text/plain\"]\n[[step]]\ntext = \"ok\"\n").unwrap();
    let mock = Mock::start(file.to_str().unwrap(), &[]);
    let card = Request::get(format!("{}/.well-known/agent-card.json", mock.url)).body(Bytes::new()).unwrap();
    let card: Value = serde_json::from_slice(mock.client.request(card).await.unwrap().body()).unwrap();
    assert_eq!(card["defaultInputModes"], json!(["text/plain"]));
    for (kind, is_read) in [("text/plain", true), ("application/x-unsupported-tck-type", false)] {
        let part = json!({ "raw": "dGNr", "mediaType": kind });
        let body = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [part] } });
        let told: Value = serde_json::from_str(&mock.post("/message:send", &body).await).unwrap();
        assert_eq!(told.get("task").is_some(), is_read, "{told}");
        let reason = &told["error"]["details"][0]["reason"];
        assert_eq!(reason == "CONTENT_TYPE_NOT_SUPPORTED", !is_read, "{told}");
    }
    std::fs::remove_file(file).ok();
}

#[tokio::test]
async fn the_same_script_is_an_agui_agent() {
    let mock = Mock::tck();
    let events = payloads(&mock.post("/agents/a", &input("r", Some("1.0"))).await);
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
}

/// A cut is no end: the connection breaks, over A2A as over AG-UI.
#[tokio::test]
async fn a_script_can_cut_the_connection() {
    let file = std::env::temp_dir().join(format!("aqueduct-cut-{}.toml", std::process::id()));
    std::fs::write(&file, "[[step]]\ntext = \"half\"\n[[step]]\ncut = true\n").unwrap();
    let mock = Mock::start(file.to_str().unwrap(), &[]);
    let a2a = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": { "message": message("m") } });
    for (path, body) in [("/", a2a), ("/agents/a", input("r", Some("1.0")))] {
        let request = Request::post(format!("{}{path}", mock.url))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .header("a2a-version", "1.0")
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let mut stream = mock.client.open_stream(request).await.unwrap();
        let (mut text, mut broken) = (String::new(), false);
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => text.push_str(&event.data),
                Err(_) => broken = true,
            }
        }
        assert!(text.contains("half") && broken && !text.contains("script_cut"), "{path}: {text}");
    }
    std::fs::remove_file(file).ok();
}

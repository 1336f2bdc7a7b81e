//! Whose tasks a proxied A2A agent holds: the agent sees one credential, and callers see their own tasks alone, by every
//! method of both bindings and versions.

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Asked, Say, Served, Upstream, http as whole, serve, sse};

const SECRETS: [(&str, &str); 2] = [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789")];

/// An agent that knows the tasks `T-ann` and `T-bob`, answers for any of them to anybody, and sets headers of its own.
async fn agent() -> Upstream {
    Upstream::start(|asked| Say::Close(answer(asked))).await
}

fn answer(asked: &Asked) -> Vec<u8> {
    let text = |who: &str| json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": format!("secret of {who}") }] });
    let task = |who: &str| {
        json!({ "id": format!("T-{who}"), "contextId": format!("C-{who}"), "kind": "task",
                "status": { "state": "TASK_STATE_WORKING", "message": text(who) } })
    };
    let said = asked.body["params"]["message"]["parts"][0]["text"].as_str();
    let said = said.or_else(|| asked.body["message"]["parts"][0]["text"].as_str()).unwrap_or("ann");
    let path = asked.head.split(' ').nth(1).unwrap_or_default().to_owned();
    let method = asked.body["method"].as_str().unwrap_or(&path).to_owned();
    let is_rpc = asked.body.get("method").is_some();
    let wrap =
        |result: Value| if is_rpc { json!({ "jsonrpc": "2.0", "id": 1, "result": result }) } else { result };
    if method.contains("tream") {
        return sse(&format!("data: {}\n\n", wrap(json!({ "task": task(said) }))));
    }
    let result = if method.contains("end") {
        if is_rpc && method.contains('/') { task(said) } else { json!({ "task": task(said) }) }
    } else if method.starts_with("List") || method.ends_with("/tasks") {
        json!({ "tasks": [task("ann"), task("bob")], "totalSize": 2, "pageSize": 50, "nextPageToken": "" })
    } else {
        task("ann")
    };
    let mut bytes = whole("200 OK", "application/json", &wrap(result).to_string());
    let head = b"HTTP/1.1 200 OK\r\n".len();
    bytes.splice(
        head..head,
        b"set-cookie: spy=1\r\nx-secret: 1\r\nwww-authenticate: Basic\r\n".iter().copied(),
    );
    bytes
}

async fn gateway(upstream: &Upstream, more: &str) -> Served {
    serve(&format!("{more}\n{}", toml(upstream, "jsonrpc", "1.0")), &SECRETS).await
}

async fn gateway_of(upstream: &Upstream, binding: &str, version: &str) -> Served {
    serve(&toml(upstream, binding, version), &SECRETS).await
}

fn toml(upstream: &Upstream, binding: &str, version: &str) -> String {
    format!(
        "[principals.ann]\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n\
         [agents.p.a2a]\nurl = \"{}\"\nbinding = \"{binding}\"\nversion = \"{version}\"\n",
        upstream.url
    )
}

/// A call: method, path and body.
type Call = (&'static str, String, Value);

async fn ask(served: &Served, who: &str, (method, path, body): &Call) -> Response<Bytes> {
    let token = SECRETS.iter().find(|(name, _)| name.eq_ignore_ascii_case(who)).unwrap().1;
    let request = Request::builder().method(*method).uri(served.url(&format!("/a2a/p{path}")));
    let request =
        request.header("content-type", "application/json").header("authorization", format!("Bearer {token}"));
    let request = request.header("a2a-version", if path.starts_with("/v1") { "0.3" } else { "1.0" });
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    served.send(request.body(body).unwrap()).await
}

fn text(response: &Response<Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

fn message(who: &str, more: &Value) -> Value {
    let mut message = json!({ "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": who }] });
    for (name, value) in more.as_object().into_iter().flatten() {
        message[name] = value.clone();
    }
    message
}

fn send(binding: &str, version: &str, who: &str, more: &Value) -> Call {
    let message = message(who, more);
    match (binding, version) {
        ("jsonrpc", "1.0") => rpc("SendMessage", &json!({ "message": message })),
        ("jsonrpc", _) => rpc("message/send", &json!({ "message": message })),
        (_, "1.0") => ("POST", "/message:send".to_owned(), json!({ "message": message })),
        _ => ("POST", "/v1/message:send".to_owned(), json!({ "message": message })),
    }
}

fn rpc(method: &str, params: &Value) -> Call {
    ("POST", String::new(), json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Every call that is about the task `id`.
fn calls_about(binding: &str, version: &str, id: &str) -> Vec<Call> {
    let hook = json!({ "url": "https://hooks.example.org/x" });
    let mut calls = match (binding, version) {
        ("jsonrpc", "1.0") => vec![
            rpc("GetTask", &json!({ "id": id })),
            rpc("CancelTask", &json!({ "id": id })),
            rpc("SubscribeToTask", &json!({ "id": id })),
            rpc(
                "CreateTaskPushNotificationConfig",
                &json!({ "taskId": id, "url": "https://hooks.example.org/x" }),
            ),
            rpc("GetTaskPushNotificationConfig", &json!({ "taskId": id, "id": "c" })),
            rpc("ListTaskPushNotificationConfigs", &json!({ "taskId": id })),
            rpc("DeleteTaskPushNotificationConfig", &json!({ "taskId": id, "id": "c" })),
        ],
        ("jsonrpc", _) => vec![
            rpc("tasks/get", &json!({ "id": id })),
            rpc("tasks/cancel", &json!({ "id": id })),
            rpc("tasks/resubscribe", &json!({ "id": id })),
            rpc("tasks/pushNotificationConfig/set", &json!({ "taskId": id, "pushNotificationConfig": hook })),
            rpc("tasks/pushNotificationConfig/get", &json!({ "id": id })),
            rpc("tasks/pushNotificationConfig/list", &json!({ "id": id })),
            rpc("tasks/pushNotificationConfig/delete", &json!({ "id": id, "pushNotificationConfigId": "c" })),
        ],
        (_, version) => {
            let v = if version == "1.0" { "" } else { "/v1" };
            let at = |method, path: String, body| (method, format!("{v}{path}"), body);
            vec![
                at("GET", format!("/tasks/{id}"), Value::Null),
                at("POST", format!("/tasks/{id}:cancel"), json!({})),
                at("GET", format!("/tasks/{id}:subscribe"), Value::Null),
                at("POST", format!("/tasks/{id}/pushNotificationConfigs"), hook),
                at("GET", format!("/tasks/{id}/pushNotificationConfigs"), Value::Null),
                at("GET", format!("/tasks/{id}/pushNotificationConfigs/c"), Value::Null),
                at("DELETE", format!("/tasks/{id}/pushNotificationConfigs/c"), Value::Null),
            ]
        }
    };
    calls.push(send(binding, version, "bob", &json!({ "taskId": id })));
    calls.push(send(binding, version, "bob", &json!({ "referenceTaskIds": [id] })));
    calls
}

const SPOKEN: [(&str, &str); 4] = [("jsonrpc", "1.0"), ("jsonrpc", "0.3"), ("rest", "1.0"), ("rest", "0.3")];

#[tokio::test]
async fn another_principals_task_does_not_exist_by_any_method() {
    let upstream = agent().await;
    for (binding, version) in SPOKEN {
        let served = gateway_of(&upstream, binding, version).await;
        for who in ["ann", "bob"] {
            let begun = ask(&served, who, &send(binding, version, who, &json!({}))).await;
            assert!(text(&begun).contains(&format!("T-{who}")), "{binding} {version} {}", text(&begun));
        }
        let of_ann = calls_about(binding, version, "T-ann");
        let never = calls_about(binding, version, "T-xyz");
        for (call, other) in of_ann.iter().zip(&never) {
            let (foreign, missing) = (ask(&served, "bob", call).await, ask(&served, "bob", other).await);
            assert_eq!(foreign.status(), missing.status(), "{call:?}");
            assert_eq!(text(&foreign), text(&missing), "{call:?}");
            let told = text(&foreign);
            let is_refused = told.contains("there is no such task") && !told.contains("secret");
            assert!(is_refused, "{binding} {version} {call:?}: {told}");
        }
        // The owner is not kept out.
        let own = ask(&served, "ann", &of_ann[0]).await;
        assert!(text(&own).contains("secret of ann"), "{binding} {version} {}", text(&own));
    }
}

#[tokio::test]
async fn lists_hold_own_tasks_alone() {
    let upstream = agent().await;
    for (binding, list) in
        [("jsonrpc", rpc("ListTasks", &json!({}))), ("rest", ("GET", "/tasks".to_owned(), Value::Null))]
    {
        let served = gateway_of(&upstream, binding, "1.0").await;
        let nothing = ask(&served, "bob", &list).await;
        assert!(
            !text(&nothing).contains("secret") && text(&nothing).contains("\"totalSize\":0"),
            "{}",
            text(&nothing)
        );
        ask(&served, "bob", &send(binding, "1.0", "bob", &json!({}))).await;
        let listed = ask(&served, "bob", &list).await;
        assert!(
            text(&listed).contains("secret of bob") && !text(&listed).contains("ann"),
            "{}",
            text(&listed)
        );
    }
}

/// An agent that takes the context that a message names, or makes one; its tasks are `T-` and the context.
async fn echo() -> Upstream {
    Upstream::start(|asked| {
        let path = asked.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_rpc = asked.body.get("method").is_some();
        let params = if is_rpc { &asked.body["params"] } else { &asked.body };
        let (method, message) = (asked.body["method"].as_str().unwrap_or(&path), &params["message"]);
        let named = message["contextId"].as_str().or_else(|| params["contextId"].as_str());
        let named = named.or_else(|| path.split("contextid=").nth(1));
        let of_task = params["id"].as_str().or_else(|| message["taskId"].as_str());
        let of_task = of_task.or_else(|| path.split("tasks/t-").nth(1)).map(|id| id.trim_start_matches("T-"));
        let context = named.or(of_task).unwrap_or("C-minted").to_owned();
        let task = json!({ "id": format!("T-{context}"), "contextId": context, "kind": "task", "status": { "state": "TASK_STATE_WORKING" } });
        let wrap = |result: Value| if is_rpc { json!({ "jsonrpc": "2.0", "id": 1, "result": result }) } else { result };
        Say::Close(match method {
            method if method.contains("tream") || method.contains("ubscribe") => {
                let update = json!({ "taskId": task["id"], "contextId": context, "status": { "state": "TASK_STATE_COMPLETED" } });
                let events = [json!({ "task": task }), json!({ "statusUpdate": update })];
                sse(&events.map(|event| format!("data: {}\n\n", wrap(event))).concat())
            }
            method if method.starts_with("List") || method.contains("/tasks?") => {
                whole("200 OK", "application/json", &wrap(json!({ "tasks": [task] })).to_string())
            }
            method if method.contains("end") => {
                whole("200 OK", "application/json", &wrap(json!({ "task": task })).to_string())
            }
            _ => whole("200 OK", "application/json", &wrap(task).to_string()),
        })
    })
    .await
}

/// Calls that name a context.
fn calls_in(binding: &str, context: &str) -> Vec<Call> {
    let named = json!({ "contextId": context });
    match binding {
        "jsonrpc" => vec![
            rpc("SendMessage", &json!({ "message": message("x", &named) })),
            rpc("SendStreamingMessage", &json!({ "message": message("x", &named) })),
            rpc("ListTasks", &json!({ "contextId": context })),
        ],
        _ => vec![
            ("POST", "/message:send".to_owned(), json!({ "message": message("x", &named) })),
            ("POST", "/message:stream".to_owned(), json!({ "message": message("x", &named) })),
            ("GET", format!("/tasks?contextId={context}"), Value::Null),
        ],
    }
}

/// Whether a context is another principal's or never was makes no difference, to the caller and to the agent.
#[tokio::test]
async fn a_context_of_another_principal_is_as_one_that_never_was() {
    for binding in ["jsonrpc", "rest"] {
        let mut upstream = echo().await;
        let served = gateway_of(&upstream, binding, "1.0").await;
        // Ann has a context that she named, and one that the agent made.
        for more in [json!({ "contextId": "C-anns" }), json!({})] {
            let begun = ask(&served, "ann", &send(binding, "1.0", "ann", &more)).await;
            assert_eq!(begun.status(), 200, "{}", text(&begun));
        }
        for theirs in ["C-anns", "C-minted"] {
            let never = theirs.replace(|c: char| c.is_ascii_lowercase(), "z");
            for (call, other) in calls_in(binding, theirs).iter().zip(&calls_in(binding, &never)) {
                while upstream.asked.try_recv().is_ok() {}
                let (foreign, missing) = (ask(&served, "bob", call).await, ask(&served, "bob", other).await);
                assert_eq!(foreign.status(), missing.status(), "{call:?}");
                // Opaque ids of the agent's differ from call to call; all else is the same.
                let plain = |response: &Response<Bytes>, name: &str| {
                    let told = text(response).replace(name, "NAME");
                    told.split("T-").map(|part| part.get(36..).unwrap_or(part)).collect::<String>()
                };
                assert_eq!(plain(&foreign, theirs), plain(&missing, &never), "{call:?}");
                assert_eq!(foreign.headers().get("content-type"), missing.headers().get("content-type"));
                for _ in 0..2 {
                    let asked = upstream.asked.recv().await.unwrap();
                    let told = format!("{}{}", asked.head, asked.body);
                    let is_named = told.contains(theirs) || told.contains(&theirs.to_lowercase());
                    assert!(
                        !is_named && !told.contains(&never),
                        "the agent gets an id of bob's alone: {told}"
                    );
                }
            }
        }
    }
}

/// A caller sees its own name for a context wherever the agent shows its id, and goes on with it.
#[tokio::test]
async fn a_context_keeps_the_name_that_its_caller_gave_it() {
    let mut upstream = echo().await;
    let served = gateway_of(&upstream, "jsonrpc", "1.0").await;
    let begun =
        ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({ "contextId": "my \"talk\"" }))).await;
    let begun: Value = serde_json::from_slice(begun.body()).unwrap();
    assert_eq!(begun["result"]["task"]["contextId"], "my \"talk\"", "{begun}");
    let sent = upstream.asked.recv().await.unwrap().body["params"]["message"]["contextId"].clone();
    let task = begun["result"]["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(task, format!("T-{}", sent.as_str().unwrap()));
    for call in [
        rpc("GetTask", &json!({ "id": task })),
        rpc("SubscribeToTask", &json!({ "id": task })),
        rpc("ListTasks", &json!({ "contextId": "my \"talk\"" })),
        send("jsonrpc", "1.0", "ann", &json!({ "taskId": task, "contextId": "my \"talk\"" })),
        send("jsonrpc", "1.0", "ann", &json!({ "taskId": task })),
    ] {
        let told = text(&ask(&served, "ann", &call).await);
        assert!(told.contains(r#""contextId":"my \"talk\"""#), "{call:?}: {told}");
        assert!(!told.contains(&format!("\"contextId\":{sent}")), "{call:?}: {told}");
    }
    // The agent's own id is the caller's too, and stays as it is.
    let own = text(&ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({ "contextId": sent }))).await);
    assert!(own.contains(&format!("\"contextId\":{sent}")), "{own}");
    let long = send("jsonrpc", "1.0", "ann", &json!({ "contextId": "x".repeat(513) }));
    assert!(text(&ask(&served, "ann", &long).await).contains("longer than 512 bytes"));
}

/// An agent that answers with another's task is not believed.
#[tokio::test]
async fn an_answer_with_another_principals_task_does_not_pass() {
    let upstream = agent().await;
    let served = gateway(&upstream, "").await;
    ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
    let own = ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({ "contextId": "C-ann" }))).await;
    assert!(text(&own).contains("secret of ann"));
    let wrong = ask(&served, "bob", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
    assert!(!text(&wrong).contains("secret"), "{}", text(&wrong));
}

#[tokio::test]
async fn a_streamed_task_is_its_callers() {
    let upstream = agent().await;
    let served = gateway(&upstream, "").await;
    let stream = rpc("SendStreamingMessage", &json!({ "message": message("ann", &json!({})) }));
    assert!(text(&ask(&served, "ann", &stream).await).contains("secret of ann"));
    let get = rpc("GetTask", &json!({ "id": "T-ann" }));
    assert!(text(&ask(&served, "ann", &get).await).contains("secret of ann"));
    assert!(!text(&ask(&served, "bob", &get).await).contains("secret"));
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_does_not_pass() {
    let upstream = agent().await;
    let served = gateway(&upstream, "").await;
    ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
    ask(&served, "bob", &send("jsonrpc", "1.0", "bob", &json!({}))).await;
    let token = SECRETS[1].1;
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"T-ann","id":"T-bob"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"T-bob","task_id":"T-ann"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/export","params":{"id":"T-ann"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"T-ann"}}]"#,
    ] {
        let request = Request::post(served.url("/a2a/p")).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let answered = served.send(request.body(Bytes::from(body)).unwrap()).await;
        assert!(
            !text(&answered).contains("secret") && text(&answered).contains("error"),
            "{body}: {}",
            text(&answered)
        );
    }
}

#[tokio::test]
async fn push_is_off_unless_it_is_switched_on() {
    let upstream = agent().await;
    let push = |url: &str| rpc("CreateTaskPushNotificationConfig", &json!({ "taskId": "T-ann", "url": url }));
    let with = |url: &str| {
        let params = json!({ "message": message("ann", &json!({})), "configuration": { "taskPushNotificationConfig": { "url": url } } });
        rpc("SendMessage", &params)
    };
    for (more, url, is_passed) in [
        ("", "https://hooks.example.org/x", false),
        ("server.push = \"public\"", "https://hooks.example.org/x", true),
        ("server.push = \"public\"", "http://169.254.169.254/x", false),
        ("server.push = \"any\"", "http://127.0.0.1:1/x", true),
    ] {
        let served = gateway(&upstream, more).await;
        ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
        for call in [push(url), with(url)] {
            let answered = text(&ask(&served, "ann", &call).await);
            assert_eq!(answered.contains("\"error\""), !is_passed, "{more} {url}: {answered}");
        }
    }
}

/// Agents are foreign: of their headers callers get those of the protocol alone.
#[tokio::test]
async fn headers_of_agents_are_an_allowlist() {
    let upstream = agent().await;
    let served = gateway(&upstream, "").await;
    let answered = ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
    for name in ["set-cookie", "x-secret", "www-authenticate"] {
        assert!(!answered.headers().contains_key(name), "{name}");
    }
    assert_eq!(answered.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answered.headers()["content-type"], "application/json");
    let html = Upstream::saying(whole("200 OK", "text/html", "<script>alert(1)</script>")).await;
    let served = gateway(&html, "").await;
    let answered = ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await;
    assert_eq!(answered.headers()["content-type"], "application/octet-stream");
    assert!(answered.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
}

/// An id that is too long to be stored is refused as such, not as one of another caller.
#[tokio::test]
async fn an_id_that_is_too_long_is_named_as_that() {
    let upstream = Upstream::start(|_| {
        let task =
            json!({ "id": "T".repeat(600), "contextId": "C", "status": { "state": "TASK_STATE_WORKING" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task } });
        Say::Close(whole("200 OK", "application/json", &body.to_string()))
    })
    .await;
    let served = gateway(&upstream, "").await;
    let refused = text(&ask(&served, "ann", &send("jsonrpc", "1.0", "ann", &json!({}))).await);
    assert!(refused.contains("longer than 512 bytes") && !refused.contains("another caller"), "{refused}");
}

//! What is refused, and how each binding says so.

use aqueduct_adapter_a2a::server::ServerConfig;
use aqueduct_core::{ContentBlock, RunOutcome, SourceEvent, Update};
use serde_json::{Value, json};

use super::support::{Answered, Ask, Served, message, message_to, serve, serve_with};

fn served() -> Served {
    serve(|_| {
        let done = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
        vec![SourceEvent::from(Update::new(ContentBlock::text("done"))), done]
    })
}

fn post(body: &str) -> Ask {
    Ask { body: body.as_bytes().to_vec(), ..Ask::post("/", &Value::Null) }
}

fn call(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn deep() -> String {
    let call = call("SendMessage", &json!({"message": message("x")})).to_string();
    call.replace("\"x\"", &format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)))
}

/// Done when 5: malformed JSON, wrong types, unknown methods, deep JSON, wrong content types, bad ids.
#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn json_rpc_refuses_with_the_right_code() {
    let served = served();
    let send = |message: Value| call("SendMessage", &json!({ "message": message })).to_string();
    let get = |id: Value| call("GetTask", &json!({ "id": id })).to_string();
    let no_parts = json!({"messageId": "m", "role": "ROLE_USER", "parts": []});
    let table: Vec<(&str, String, i64, Value)> = vec![
        ("no JSON", "{ bad".to_owned(), -32700, Value::Null),
        ("cut", r#"{"jsonrpc": "2.0", "id": 7"#.to_owned(), -32700, Value::Null),
        ("empty", String::new(), -32700, Value::Null),
        ("deep", deep(), -32700, Value::Null),
        (
            "no UTF-8 escape",
            r#"{"jsonrpc": "2.0", "id": 7, "method": "\ud800"}"#.to_owned(),
            -32700,
            Value::Null,
        ),
        ("batch", format!("[{}]", get(json!("t"))), -32600, Value::Null),
        ("a number", "7".to_owned(), -32600, Value::Null),
        ("no version", r#"{"id": 7, "method": "GetTask"}"#.to_owned(), -32600, json!(7)),
        ("wrong version", r#"{"jsonrpc": "1.0", "id": 7, "method": "GetTask"}"#.to_owned(), -32600, json!(7)),
        ("no method", r#"{"jsonrpc": "2.0", "id": 7}"#.to_owned(), -32600, json!(7)),
        ("method is no text", r#"{"jsonrpc": "2.0", "id": 7, "method": 7}"#.to_owned(), -32600, json!(7)),
        (
            "id is an object",
            r#"{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}"#.to_owned(),
            -32600,
            Value::Null,
        ),
        ("unknown method", call("NoSuch", &json!({})).to_string(), -32601, json!(7)),
        ("params are a list", call("GetTask", &json!([])).to_string(), -32602, json!(7)),
        ("no params", r#"{"jsonrpc": "2.0", "id": 7, "method": "GetTask"}"#.to_owned(), -32602, json!(7)),
        ("id of the wrong type", get(json!(7)), -32602, json!(7)),
        ("no message", call("SendMessage", &json!({})).to_string(), -32602, json!(7)),
        ("message is a string", send(json!("hi")), -32602, json!(7)),
        ("no parts", send(no_parts.clone()), -32602, json!(7)),
        (
            "parts are no list",
            send(json!({"messageId": "m", "role": "ROLE_USER", "parts": "x"})),
            -32602,
            json!(7),
        ),
        (
            "a part without content",
            send(json!({"messageId": "m", "role": "ROLE_USER", "parts": [{}]})),
            -32602,
            json!(7),
        ),
        (
            "a part with two contents",
            send(
                json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x", "url": "https://x.test"}]}),
            ),
            -32602,
            json!(7),
        ),
        (
            "bytes that are no base64",
            send(json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "!!!!"}]})),
            -32602,
            json!(7),
        ),
        (
            "metadata is a list",
            send(json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": [1]})),
            -32602,
            json!(7),
        ),
        (
            "metadata of a part is text",
            send(json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x", "metadata": "y"}]})),
            -32602,
            json!(7),
        ),
        (
            "a role that there is not",
            send(json!({"messageId": "m", "role": "ROLE_KING", "parts": [{"text": "x"}]})),
            -32602,
            json!(7),
        ),
        (
            "the number of no role",
            send(json!({"messageId": "m", "role": 9, "parts": [{"text": "x"}]})),
            -32602,
            json!(7),
        ),
        ("the number of no state", call("ListTasks", &json!({"status": 9})).to_string(), -32602, json!(7)),
        (
            "no whole number",
            call("GetTask", &json!({"id": "t", "historyLength": 1.5})).to_string(),
            -32602,
            json!(7),
        ),
        ("no role", send(json!({"messageId": "m", "parts": [{"text": "x"}]})), -32602, json!(7)),
        ("no message id", send(json!({"role": "ROLE_USER", "parts": [{"text": "x"}]})), -32602, json!(7)),
        (
            "history below zero",
            call("GetTask", &json!({"id": "t", "historyLength": -1})).to_string(),
            -32602,
            json!(7),
        ),
        ("a page of none", call("ListTasks", &json!({"pageSize": 0})).to_string(), -32602, json!(7)),
        ("a page of too many", call("ListTasks", &json!({"pageSize": 101})).to_string(), -32602, json!(7)),
        (
            "a token of ours it is not",
            call("ListTasks", &json!({"pageToken": "x"})).to_string(),
            -32602,
            json!(7),
        ),
        ("no such state", call("ListTasks", &json!({"status": "busy"})).to_string(), -32602, json!(7)),
        ("no time", call("ListTasks", &json!({"statusTimestampAfter": "now"})).to_string(), -32602, json!(7)),
        ("unknown task", get(json!("nope")), -32001, json!(7)),
        ("message to an unknown task", send(message_to(&json!({"id": "nope"}), "x")), -32001, json!(7)),
        (
            "subscribe to an unknown task",
            call("SubscribeToTask", &json!({"id": "nope"})).to_string(),
            -32001,
            json!(7),
        ),
        ("cancel an unknown task", call("CancelTask", &json!({"id": "nope"})).to_string(), -32001, json!(7)),
        (
            "no push",
            call("CreateTaskPushNotificationConfig", &json!({"taskId": "t", "url": "https://x.test"}))
                .to_string(),
            -32003,
            json!(7),
        ),
        ("no other card", call("GetExtendedAgentCard", &json!({})).to_string(), -32004, json!(7)),
        (
            "media types",
            call(
                "SendMessage",
                &json!({"message": message("x"), "configuration": {"acceptedOutputModes": ["video/mp4"]}}),
            )
            .to_string(),
            -32005,
            json!(7),
        ),
    ];
    for (what, body, code, id) in table {
        let Answered { status, body, .. } = served.ask(&post(&body)).await;
        assert_eq!((&body["error"]["code"], &body["id"]), (&json!(code), &id), "{what}: {body}");
        assert_eq!((status, &body["jsonrpc"]), (200, &json!("2.0")), "{what}");
        let data = &body["error"]["data"];
        assert_eq!(data[0]["domain"], "a2a-protocol.org", "{what}: {body}");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{what}");
    }
    let old = served.rpc("agent/getAuthenticatedExtendedCard", json!({})).await;
    assert_eq!(old["error"]["code"], -32007, "0.3 has a code of its own for it");
    let refused = served.ask(&post(&send(no_parts))).await.body;
    assert_eq!(refused["error"]["data"][1]["fieldViolations"][0]["field"], "message.parts");
    assert_eq!(served.runs.count(), 0, "nothing of this starts a run");
}

#[tokio::test(start_paused = true)]
async fn rest_refuses_with_the_right_status() {
    let served = served();
    let send =
        |body: &str| Ask { body: body.as_bytes().to_vec(), ..Ask::post("/message:send", &Value::Null) };
    let table: Vec<(&str, Ask, u16, &str)> = vec![
        ("no JSON", send("{ bad"), 400, "PARSE_ERROR"),
        ("deep", send(&deep()), 400, "PARSE_ERROR"),
        ("a list", send("[]"), 400, "INVALID_REQUEST"),
        ("no message", send("{}"), 400, "INVALID_PARAMS"),
        ("wrong type", send(r#"{"message": 7}"#), 400, "INVALID_PARAMS"),
        ("plain text", send("{}").header("content-type", "text/plain"), 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("no type", send("{}").header("content-type", ""), 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("no version", Ask::get("/tasks/t").header("a2a-version", ""), 400, "VERSION_NOT_SUPPORTED"),
        ("another version", Ask::get("/tasks/t").header("a2a-version", "2.0"), 400, "VERSION_NOT_SUPPORTED"),
        ("unknown task", Ask::get("/tasks/t"), 404, "TASK_NOT_FOUND"),
        ("unknown task, cancelled", Ask::post("/tasks/t:cancel", &json!({})), 404, "TASK_NOT_FOUND"),
        ("unknown task, watched", Ask::get("/tasks/t:subscribe"), 404, "TASK_NOT_FOUND"),
        (
            "unknown task, watched by POST",
            Ask { body: Vec::new(), ..Ask::post("/tasks/t:subscribe", &json!({})) },
            404,
            "TASK_NOT_FOUND",
        ),
        ("unknown path", Ask::get("/nothing/here/at/all"), 404, "METHOD_NOT_FOUND"),
        ("wrong verb", Ask::get("/message:send"), 404, "METHOD_NOT_FOUND"),
        ("bad number", Ask::get("/tasks/t?historyLength=many"), 400, "INVALID_PARAMS"),
        (
            "no push",
            Ask::post("/tasks/t/pushNotificationConfigs", &json!({"url": "https://x.test"})),
            400,
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        ("no other card", Ask::get("/extendedAgentCard"), 400, "UNSUPPORTED_OPERATION"),
    ];
    for (what, ask, status, reason) in table {
        let answered = served.ask(&ask).await;
        let error = &answered.body["error"];
        assert_eq!(
            (answered.status, &error["details"][0]["reason"]),
            (status, &json!(reason)),
            "{what}: {error}"
        );
        assert_eq!(error["code"], status, "{what}");
        assert_eq!(answered.header("content-type"), Some("application/json"), "{what}");
    }
    let old = Ask::get("/v1/tasks/t").header("a2a-version", "");
    let old = served.ask(&old).await;
    assert_eq!((old.status, old.body.as_object().unwrap().len()), (404, 1));
    assert!(old.body["message"].as_str().unwrap().contains("no task"), "{}", old.body);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_json_is_refused_before_it_is_read() {
    let served = served();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let refused = served.ask(&post("{ bad").header("content-type", kind)).await.body;
        assert_eq!(refused["error"]["code"], -32005, "{kind}");
    }
    let good = call("ListTasks", &json!({})).to_string();
    for kind in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        assert!(
            served.ask(&post(&good).header("content-type", kind)).await.body.get("result").is_some(),
            "{kind}"
        );
    }
}

/// They come back in every event: a long one would make much out of little.
#[tokio::test(start_paused = true)]
async fn ids_that_clients_choose_have_an_end() {
    let served = served();
    let long = "i".repeat(1_025);
    for (key, code) in [("messageId", -32602), ("contextId", -32602), ("taskId", -32602)] {
        let mut message = message("hi");
        message[key] = json!(long);
        let refused = served.rpc("SendMessage", json!({ "message": message })).await;
        assert_eq!(refused["error"]["code"], code, "{key}: {refused}");
        let field = &refused["error"]["data"][1]["fieldViolations"][0]["field"];
        assert_eq!(field, &json!(format!("message.{key}")));
    }
    let mut fits = message("hi");
    fits["contextId"] = json!("i".repeat(1_024));
    assert!(served.rpc("SendMessage", json!({ "message": fits })).await.get("result").is_some());
    // What JSON readers would change cannot come back as it was.
    for id in [json!(long).to_string(), "1180591620717411303424".to_owned(), "1e300".to_owned()] {
        let body = format!(r#"{{"jsonrpc": "2.0", "id": {id}, "method": "ListTasks"}}"#);
        let refused = served.ask(&post(&body)).await.body;
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &Value::Null), "{id:.20}");
    }
}

/// Spec 3.1.1: a media type that the agent does not read. Without a list it reads all.
#[tokio::test(start_paused = true)]
async fn parts_of_a_type_that_the_agent_does_not_read_are_refused() {
    for (modes, refused) in [(&[][..], false), (&["text/*", "image/png"][..], true)] {
        let input_modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let config = ServerConfig { input_modes, ..ServerConfig::default() };
        let served = serve_with(config, |_| {
            vec![SourceEvent::Finished { outcome: RunOutcome::Success, result: None }]
        });
        let code = async |part: Value| {
            let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}, part]});
            served.rpc("SendMessage", json!({ "message": message })).await["error"]["code"].clone()
        };
        for part in [
            json!({"raw": "dGNr", "mediaType": "image/png"}),
            json!({"text": "x", "mediaType": "text/markdown; charset=utf-8"}),
            json!({"raw": "dGNr"}),
            json!({"data": {}}),
        ] {
            assert_eq!(code(part.clone()).await, Value::Null, "{modes:?}: {part}");
        }
        let unread = json!({"raw": "dGNr", "mediaType": "application/x-unheard-of"});
        assert_eq!(code(unread).await == -32005, refused, "{modes:?}");
    }
}

/// A probe that gets 200 believes that all is well.
#[tokio::test(start_paused = true)]
async fn json_rpc_is_for_post_alone() {
    let served = served();
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let refused = served.ask(&Ask { method, ..post("") }).await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")), "{method}");
        assert_eq!(refused.body["error"]["code"], -32600, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_method_and_the_header_must_agree() {
    let served = served();
    for (method, version, query, expected) in [
        ("ListTasks", "1.0", None, None),
        ("ListTasks", "1.7", None, None),
        ("ListTasks", "", Some("A2A-Version=1.0"), None),
        ("ListTasks", "", None, Some(-32009)),
        ("ListTasks", "0.3", None, Some(-32009)),
        ("ListTasks", "2.0", None, Some(-32009)),
        ("ListTasks", "banana", None, Some(-32009)),
        ("tasks/get", "1.0", None, Some(-32009)),
        ("tasks/get", "", None, Some(-32001)),
        ("tasks/get", "0.3.0", None, Some(-32001)),
    ] {
        let mut ask = Ask::rpc(method, &json!({"id": "t"})).header("a2a-version", version);
        ask.query = query.map(str::to_owned);
        let answered = served.ask(&ask).await.body;
        assert_eq!(answered["error"]["code"].as_i64(), expected, "{method} {version:?}: {answered}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_come_back_as_they_were() {
    let served = served();
    for id in [json!("text"), json!(7), json!(-1), json!(1.5), json!(""), Value::Null] {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "ListTasks"}).to_string();
        assert_eq!(served.ask(&post(&body)).await.body["id"], id);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "SendStreamingMessage", "params": {"message": message("x")}});
        let payloads = served.ask(&post(&body.to_string())).await.payloads;
        assert!(payloads.iter().all(|payload| payload.json()["id"] == id), "{id}");
    }
    let without = json!({"jsonrpc": "2.0", "method": "ListTasks"}).to_string();
    assert_eq!(served.ask(&post(&without)).await.body["id"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn messages_that_no_task_waits_for_are_refused() {
    let served = served();
    let ended = served.rpc("SendMessage", json!({"message": message("hi")})).await["result"]["task"].clone();
    let params = json!({"message": message("OPEN"), "configuration": {"returnImmediately": true}});
    let works = served.rpc("SendMessage", params).await["result"]["task"].clone();
    let code = async |message: Value| {
        served.rpc("SendMessage", json!({ "message": message })).await["error"]["code"].clone()
    };
    assert_eq!(code(message_to(&ended, "more")).await, -32004);
    assert_eq!(code(message_to(&works, "more")).await, -32004);
    let mut elsewhere = message_to(&works, "more");
    elsewhere["contextId"] = json!("another");
    assert_eq!(code(elsewhere).await, -32602);
    let watched = served.rpc("SubscribeToTask", json!({"id": ended["id"]})).await;
    assert_eq!(watched["error"]["code"], -32004);
    assert_eq!(served.runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn strangers_learn_nothing() {
    let served = served();
    let bad = post("{ bad").by("wrong");
    for ask in [
        bad,
        Ask::rpc("ListTasks", &json!({})).by("wrong"),
        Ask::get("/tasks").by("wrong"),
        Ask::get("/no/such").by("wrong"),
    ] {
        let answered = served.ask(&ask).await;
        assert_eq!(answered.status, 401, "{}", answered.body);
        assert_eq!(answered.header("www-authenticate"), Some("Bearer"));
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_others_do_not_exist() {
    let served = served();
    let send = Ask::rpc("SendMessage", &json!({"message": message("hi")})).by("ann");
    let task = served.ask(&send).await.body["result"]["task"].clone();
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let of = async |id: &Value| {
            let body = served.ask(&Ask::rpc(method, &json!({ "id": id })).by("bob")).await.body;
            body.to_string().replace(id.as_str().unwrap(), "…")
        };
        assert_eq!(of(&task["id"]).await, of(&json!("never")).await, "{method}");
    }
    let follow = Ask::rpc("SendMessage", &json!({"message": message_to(&task, "x")})).by("bob");
    assert_eq!(served.ask(&follow).await.body["error"]["code"], -32001);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_busy_is_told_and_no_task_is_left() {
    let served = served();
    let refused = served.rpc("SendMessage", json!({"message": message("BUSY")})).await;
    assert_eq!(refused["error"]["data"][0]["reason"], "UNAVAILABLE");
    let rest = served.ask(&Ask::post("/message:stream", &json!({"message": message("BUSY")}))).await;
    assert_eq!(rest.status, 503);
    assert_eq!(served.rpc("ListTasks", json!({})).await["result"]["totalSize"], 0);
}

#[tokio::test(start_paused = true)]
async fn the_card_is_cached_and_both_versions_read_it() {
    let mut served = served();
    served.card.modified = Some(aqueduct_core::Timestamp(784_111_777_000));
    let card = served.ask(&Ask::get("/.well-known/agent-card.json")).await;
    let tag = card.header("etag").unwrap().to_owned();
    assert!(card.header("cache-control").unwrap().contains("max-age"));
    let since = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(card.header("last-modified"), Some(since));
    let since = Ask::get("/.well-known/agent-card.json").header("if-modified-since", since);
    assert_eq!(served.ask(&since).await.status, 304);
    let changed = served.ask(&since.header("if-none-match", "\"x\"")).await;
    assert_eq!(changed.status, 200, "a tag says more than a time");
    let same = served
        .ask(&Ask::get("/.well-known/agent.json").header("if-none-match", &format!("W/{tag}, \"x\"")))
        .await;
    assert_eq!((same.status, same.body), (304, Value::Null));
    let other = served.ask(&Ask::get("/.well-known/agent.json").header("if-none-match", "\"x\"")).await;
    assert_eq!(other.status, 200);
    let text = other.body.to_string();
    let card = aqueduct_adapter_a2a::card::parse(&text).unwrap();
    let endpoints = aqueduct_adapter_a2a::card::endpoints(&card);
    assert_eq!(endpoints.len(), 4, "two bindings in two versions: {endpoints:?}");
    assert_eq!(served.ask(&Ask::post("/.well-known/agent-card.json", &json!({}))).await.status, 405);
}

/// Strict readers of 1.0 take no member that 1.0 does not have.
#[tokio::test(start_paused = true)]
async fn a_card_can_be_of_1_0_alone() {
    let mut served = served();
    (served.card.only_v1, served.card.bearer, served.card.extended) = (true, true, true);
    let card = served.ask(&Ask::get("/.well-known/agent-card.json")).await.body;
    let members: Vec<&str> = card.as_object().unwrap().keys().map(String::as_str).collect();
    let known = "name description version supportedInterfaces capabilities defaultInputModes defaultOutputModes \
                 skills securitySchemes securityRequirements";
    assert_eq!(members, known.split_whitespace().collect::<Vec<_>>());
    assert_eq!(card["securitySchemes"]["bearer"], json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}}));
    let versions = card["supportedInterfaces"].as_array().unwrap().iter().map(|one| &one["protocolVersion"]);
    assert!(versions.clone().all(|version| version == "1.0") && versions.count() == 2, "{card}");
    let old = served.rpc("tasks/get", json!({"id": "t"})).await;
    assert_eq!(old["error"]["code"], -32001, "0.3 is served all the same");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_may_stand_before_the_path() {
    let served = served();
    let sent = served.ask(&Ask::post("/acme/message:send", &json!({"message": message("hi")}))).await;
    let id = sent.body["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(served.runs.last().input.forwarded["a2a"]["tenant"], "acme");
    for path in [format!("/acme/tasks/{id}"), format!("/tasks/{id}"), "/acme/tasks".to_owned()] {
        assert_eq!(served.ask(&Ask::get(&path)).await.status, 200, "{path}");
    }
}

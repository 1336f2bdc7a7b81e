//! Requests, as bytes, for every call in every dialect.

use serde_json::{Value, json};

use super::*;

fn body(request: &HttpRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn send() -> SendMessage {
    let task = TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() };
    let mut send =
        SendMessage::new(follow_up("m1", &task, vec![Part::text("prod"), Part::data(&json!([1]))]));
    send.return_immediately = true;
    send.history_length = Some(0);
    send
}

fn endpoint(binding: Binding, version: Version) -> Endpoint {
    Endpoint::new("https://agent/base/", binding, version)
}

#[test]
fn a_follow_up_carries_both_ids_in_every_dialect() {
    let call = Call::SendStreamingMessage(Box::new(send()));
    let v1 = endpoint(Binding::JsonRpc, Version::V1).http_request(&call, 7).unwrap();
    assert_eq!(
        body(&v1),
        json!({"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": {
            "message": {"messageId": "m1", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
                "parts": [{"text": "prod"}, {"data": [1]}]},
            "configuration": {"historyLength": 0, "returnImmediately": true}}})
    );
    assert!(v1.streaming && v1.headers.contains(&("a2a-version", "1.0".to_owned())));
    assert!(v1.headers.contains(&("accept", "text/event-stream".to_owned())));
    let v03 = endpoint(Binding::JsonRpc, Version::V03).http_request(&call, 7).unwrap();
    assert_eq!(
        body(&v03),
        json!({"jsonrpc": "2.0", "id": 7, "method": "message/stream", "params": {
            "message": {"kind": "message", "messageId": "m1", "contextId": "c", "taskId": "t", "role": "user",
                "parts": [{"kind": "text", "text": "prod"}, {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}]},
            "configuration": {"blocking": false}}})
    );
    assert!(!v03.headers.iter().any(|(name, _)| *name == "a2a-version"));
    let rest = endpoint(Binding::HttpJson, Version::V03).http_request(&call, 7).unwrap();
    assert_eq!(rest.url, "https://agent/base/v1/message:stream");
    assert_eq!(
        body(&rest),
        json!({"message": {"messageId": "m1", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
                "content": [{"text": "prod"}, {"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": true}}]},
            "configuration": {"blocking": false}})
    );
}

#[test]
fn every_call_has_its_route_in_rest() {
    let id = || "a/b".to_owned();
    let push = PushConfig {
        task_id: "t".to_owned(),
        id: "p".to_owned(),
        url: "https://h".to_owned(),
        ..PushConfig::default()
    };
    let list = ListTasks { context_id: Some("c d".to_owned()), page_size: Some(5), ..ListTasks::default() };
    let calls: [(Call, &str, &str, Option<&str>); 9] = [
        (Call::SendMessage(Box::new(send())), "POST", "/message:send", Some("/message:send")),
        (
            Call::GetTask { id: id(), history_length: Some(2) },
            "GET",
            "/tasks/a%2Fb?historyLength=2",
            Some("/tasks/a%2Fb?historyLength=2"),
        ),
        (Call::ListTasks(Box::new(list)), "GET", "/tasks?contextId=c%20d&pageSize=5", None),
        (
            Call::CancelTask { id: id(), metadata: None },
            "POST",
            "/tasks/a%2Fb:cancel",
            Some("/tasks/a%2Fb:cancel"),
        ),
        (
            Call::SubscribeToTask { id: id() },
            "POST",
            "/tasks/a%2Fb:subscribe",
            Some("/tasks/a%2Fb:subscribe"),
        ),
        (
            Call::CreatePushConfig(Box::new(push)),
            "POST",
            "/tasks/t/pushNotificationConfigs",
            Some("/tasks/t/pushNotificationConfigs"),
        ),
        (
            Call::GetPushConfig { task_id: id(), id: "..".to_owned() },
            "GET",
            "/tasks/a%2Fb/pushNotificationConfigs/%2E%2E",
            Some("/tasks/a%2Fb/pushNotificationConfigs/%2E%2E"),
        ),
        (
            Call::DeletePushConfig { task_id: id(), id: "p".to_owned() },
            "DELETE",
            "/tasks/a%2Fb/pushNotificationConfigs/p",
            Some("/tasks/a%2Fb/pushNotificationConfigs/p"),
        ),
        (Call::GetExtendedCard, "GET", "/extendedAgentCard", Some("/card")),
    ];
    let mut v1 = endpoint(Binding::HttpJson, Version::V1);
    v1.tenant = "acme".to_owned();
    for (call, method, path, old_path) in calls {
        let request = v1.http_request(&call, 1).unwrap();
        assert_eq!((request.method, request.url), (method, format!("https://agent/base/acme{path}")));
        match old_path {
            Some(path) => {
                let request = endpoint(Binding::HttpJson, Version::V03).http_request(&call, 1).unwrap();
                // Python's server of 0.3 accepts nothing else.
                let is_subscribe = matches!(call, Call::SubscribeToTask { .. });
                let method = if is_subscribe { "GET" } else { method };
                assert_eq!((request.method, request.url), (method, format!("https://agent/base/v1{path}")));
                assert!(!is_subscribe || request.body.is_empty());
            }
            None => assert!(endpoint(Binding::HttpJson, Version::V03).http_request(&call, 1).is_err()),
        }
    }
}

#[test]
fn every_call_has_its_parameters_in_json_rpc() {
    let params = |version, call: &Call| {
        let mut endpoint = endpoint(Binding::JsonRpc, version);
        endpoint.tenant = "acme".to_owned();
        let body = body(&endpoint.http_request(call, 1).unwrap());
        (body["method"].as_str().unwrap().to_owned(), body.get("params").cloned().unwrap_or_default())
    };
    let push = Call::CreatePushConfig(Box::new(PushConfig {
        task_id: "t".to_owned(),
        url: "https://h".to_owned(),
        token: Some("tok".to_owned()),
        authentication: Some(("Bearer".to_owned(), "abc".to_owned())),
        ..PushConfig::default()
    }));
    assert_eq!(
        params(Version::V1, &push),
        (
            "CreateTaskPushNotificationConfig".to_owned(),
            json!({"taskId": "t", "url": "https://h", "token": "tok",
            "authentication": {"scheme": "Bearer", "credentials": "abc"}, "tenant": "acme"})
        )
    );
    assert_eq!(
        params(Version::V03, &push),
        (
            "tasks/pushNotificationConfig/set".to_owned(),
            json!({"taskId": "t", "pushNotificationConfig":
            {"url": "https://h", "token": "tok", "authentication": {"schemes": ["Bearer"], "credentials": "abc"}}})
        )
    );
    let get = Call::GetPushConfig { task_id: "t".to_owned(), id: "p".to_owned() };
    assert_eq!(params(Version::V1, &get).1, json!({"taskId": "t", "id": "p", "tenant": "acme"}));
    assert_eq!(params(Version::V03, &get).1, json!({"id": "t", "pushNotificationConfigId": "p"}));
    let get = Call::GetTask { id: "t".to_owned(), history_length: Some(0) };
    assert_eq!(params(Version::V1, &get).1, json!({"id": "t", "historyLength": 0, "tenant": "acme"}));
    assert_eq!(params(Version::V03, &get), ("tasks/get".to_owned(), json!({"id": "t"})));
    assert_eq!(params(Version::V03, &Call::GetExtendedCard).1, Value::Null);
    let error = endpoint(Binding::JsonRpc, Version::V03).http_request(&Call::ListTasks(Box::default()), 1);
    assert!(matches!(error, Err(Error::NotInVersion { method: "ListTasks", version: "0.3" })));
    assert!(endpoint(Binding::Grpc, Version::V1).http_request(&Call::GetExtendedCard, 1).is_err());
}

#[test]
fn an_interrupt_leads_back_to_its_task() {
    let mut interrupt = Interrupt::new("i", "input_required");
    assert_eq!(TaskRef::of_interrupt(&interrupt), None);
    let metadata = json!({"taskId": "t", "contextId": "c"});
    interrupt.metadata = metadata.as_object().cloned().map(Arc::new);
    let task = TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() };
    assert_eq!(TaskRef::of_interrupt(&interrupt), Some(task));
}

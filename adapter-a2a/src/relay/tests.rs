//! Calls that a proxy reads and changes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::version::Binding;

#[test]
fn calls_of_both_versions_and_bindings_are_told() {
    for (method, kind) in [
        ("SendMessage", PassingKind::Send),
        ("message/stream", PassingKind::Send),
        ("tasks/resubscribe", PassingKind::Subscribe),
        ("GetTask", PassingKind::Look),
        ("tasks/cancel", PassingKind::Cancel),
        ("GetExtendedAgentCard", PassingKind::ExtendedCard),
        ("ListTasks", PassingKind::Other),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {"id": "T"}}).to_string();
        let call = PassingCall::of_jsonrpc(&body);
        assert_eq!((call.kind, call.id), (kind, Some("\"x\"")), "{method}");
    }
    for (method, path, kind, task) in [
        ("POST", "message:send", PassingKind::Send, ""),
        ("POST", "v1/message:stream", PassingKind::Send, ""),
        ("POST", "tenant/tasks/T:subscribe", PassingKind::Subscribe, "T"),
        ("GET", "tasks/T:subscribe", PassingKind::Subscribe, "T"),
        ("GET", "tasks/T?historyLength=1", PassingKind::Look, "T"),
        ("POST", "v1/tasks/T:cancel", PassingKind::Cancel, "T"),
        ("GET", "v1/card", PassingKind::ExtendedCard, ""),
        ("GET", "tasks", PassingKind::Other, ""),
        ("GET", "tasks/T/pushNotificationConfigs", PassingKind::Other, ""),
    ] {
        let call = PassingCall::of_rest(method, path, "");
        assert_eq!((call.kind, &*call.task_id), (kind, task), "{method} {path}");
    }
}

#[test]
fn garbage_is_some_other_call() {
    for body in
        ["", "[]", "nonsense", "{\"method\":5}", "{\"method\":\"SendMessage\",\"params\":[1]}", "\u{0}"]
    {
        let call = PassingCall::of_jsonrpc(body);
        assert_eq!(call.metadata("k"), None);
        assert_eq!(call.with_metadata("k", "v"), None, "{body}");
    }
}

fn spliced(body: &str) -> String {
    PassingCall::of_jsonrpc(body).with_metadata("k", "new").unwrap()
}

#[test]
fn an_entry_is_written_and_no_other_byte_is_touched() {
    let with = |params: &str| {
        format!(
            r#"{{ "method":"SendMessage",  "params":{{"message":{{"metadata":{{"a":1}}}}, "x":1.50e3{params}}} , "id":12345678901234567890}}"#
        )
    };
    for (params, expected) in [
        ("", r#","metadata":{"k":"new"}"#),
        (r#","metadata":null"#, r#","metadata":{"k":"new"}"#),
        (r#", "metadata": { } "#, r#", "metadata": {"k":"new" } "#),
        (r#","metadata":{"a":1}"#, r#","metadata":{"k":"new","a":1}"#),
        (r#","metadata":{"a":1, "k" : "old"}"#, r#","metadata":{"a":1, "k" : "new"}"#),
    ] {
        assert_eq!(spliced(&with(params)), with(expected));
    }
    let rest = PassingCall::of_rest("POST", "message:send", " {\"message\":{}} ");
    assert_eq!(rest.with_metadata("k", "v").unwrap(), " {\"message\":{},\"metadata\":{\"k\":\"v\"}} ");
}

#[test]
fn metadata_of_the_message_counts_before_that_of_the_call() {
    let body =
        r#"{"message":{"contextId":"C","taskId":"T","metadata":{"k":"a\"b"}},"metadata":{"k":"c","l":"d"}}"#;
    let call = PassingCall::of_rest("POST", "message:send", body);
    assert_eq!((&*call.context_id, &*call.task_id), ("C", "T"));
    assert_eq!(call.metadata("k").as_deref(), Some("a\"b"));
    assert_eq!(call.metadata("l").as_deref(), Some("d"));
}

#[test]
fn an_entry_leaves_the_metadata_of_the_message() {
    for (metadata, expected) in [
        (r#"{"k":"old"}"#, json!({})),
        (r#"{ "k" : "old" , "a":1}"#, json!({"a": 1})),
        (r#"{"a":1, "k":"old"}"#, json!({"a": 1})),
        (r#"{"a":1,"k":"o,\"ld","b":2}"#, json!({"a": 1, "b": 2})),
        (r#"{"a":{"k":1}}"#, json!({"a": {"k": 1}})),
    ] {
        let body = format!(r#"{{"params":{{"message":{{"metadata":{metadata}}}}},"method":"SendMessage"}}"#);
        let written: Value = serde_json::from_str(&spliced(&body)).unwrap();
        assert_eq!(written["params"]["message"]["metadata"], expected, "{metadata}");
        assert_eq!(written["params"]["metadata"], json!({"k": "new"}), "{metadata}");
    }
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".{0,8}".prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z\"\\\\]{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever else a message contains, the entry is present afterwards, and the rest is unchanged.
    #[test]
    fn any_message_takes_an_entry(
        message in prop::collection::hash_map("[a-z\"]{0,4}", arbitrary_json(), 0..4),
        metadata in prop::option::of(prop::collection::hash_map("[a-z/]{0,4}", arbitrary_json(), 0..4)),
    ) {
        let mut body = json!({"method": "SendMessage", "params": {"message": message}});
        if let Some(metadata) = &metadata {
            body["params"]["metadata"] = Value::Object(metadata.clone().into_iter().collect());
        }
        let written: Value = serde_json::from_str(&spliced(&body.to_string())).unwrap();
        let mut expected = body;
        let place = &mut expected["params"];
        if !place["metadata"].is_object() {
            place["metadata"] = json!({});
        }
        place["metadata"]["k"] = json!("new");
        if let Some(Value::Object(own)) = place["message"].get_mut("metadata") {
            own.shift_remove("k");
        }
        prop_assert_eq!(written, expected);
    }
}

#[test]
fn a_card_says_where_the_proxy_is() {
    let mut card = json!({
        "name": "x", "url": "grpc://real", "preferredTransport": "GRPC", "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": "real:1", "transport": "GRPC"}, {"url": "http://real/rest", "transport": "HTTP+JSON"}],
        "supportedInterfaces": [
            {"url": "http://real", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "real:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "signatures": [{"protected": "…"}],
    });
    let here = json!({
        "name": "not its name", "url": "http://here/a2a/x", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": "http://here/a2a/x", "transport": "HTTP+JSON"}],
        "supportedInterfaces": [
            {"url": "here:80", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "x"},
            {"url": "http://here/a2a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "http://here/a2a/x", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
        ],
    });
    move_card(
        card.as_object_mut().unwrap(),
        here.as_object().unwrap(),
        &[Binding::JsonRpc, Binding::HttpJson],
    );
    assert_eq!(
        card,
        json!({
            "name": "x", "url": "http://here/a2a/x", "preferredTransport": "HTTP+JSON", "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": "http://here/a2a/x", "transport": "JSONRPC"}],
            "supportedInterfaces": [
                {"url": "http://here/a2a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": "http://here/a2a/x", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
                {"url": "here:80", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "x"},
            ],
        })
    );
}

#[test]
fn a_card_of_one_version_gets_the_interfaces_of_both() {
    let mut card = json!({"name": "x", "supportedInterfaces": [{"url": "http://real", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
    let here = json!({
        "url": "http://here", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
        "supportedInterfaces": [{"url": "http://here", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    });
    move_card(card.as_object_mut().unwrap(), here.as_object().unwrap(), &[Binding::JsonRpc]);
    assert_eq!((&card["url"], &card["additionalInterfaces"]), (&json!("http://here"), &json!([])));
}

#[test]
fn the_version_of_a_call_is_told_by_how_it_is_written() {
    let rpc = |method: &str| PassingCall::of_jsonrpc(&format!(r#"{{"method":"{method}"}}"#)).version;
    assert_eq!(rpc("SendMessage"), Some(Version::V1));
    assert_eq!(rpc("tasks/get"), Some(Version::V03));
    assert_eq!(PassingCall::of_jsonrpc("[]").version, None);
    assert_eq!(PassingCall::of_rest("POST", "message:send", "").version, Some(Version::V1));
    assert_eq!(PassingCall::of_rest("POST", "v1/message:send", "").version, Some(Version::V03));
}

#[test]
fn a_card_names_the_agents_own_interfaces_in_no_version() {
    for older in [json!({}), json!({"supportedInterfaces": []})] {
        let mut card = json!({
            "name": "x", "url": "http://real", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": "http://real/rest", "transport": "HTTP+JSON"}],
            "supportedInterfaces": [{"url": "http://real", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        });
        move_card(card.as_object_mut().unwrap(), older.as_object().unwrap(), &[Binding::JsonRpc]);
        assert_eq!(card, json!({"name": "x", "supportedInterfaces": []}), "{older}");
    }
}

#[test]
fn a_refusal_has_the_format_of_the_binding() {
    for (body, id) in [
        (r#"{"jsonrpc":"2.0","id":7,"method":"GetTask"}"#, json!(7)),
        (r#"{"jsonrpc":"2.0","method":"GetTask"}"#, Value::Null),
        ("no JSON", Value::Null),
    ] {
        let (status, refused) = PassingCall::of_jsonrpc(body).refusal(503, "UPSTREAM", "gone");
        let refused: Value = serde_json::from_str(&refused).unwrap();
        assert_eq!((status, &refused["id"]), (200, &id), "{body}");
        assert_eq!(
            (&refused["jsonrpc"], &refused["error"]["code"]),
            (&json!("2.0"), &json!(-32603)),
            "{body}"
        );
    }
    let (status, refused) = PassingCall::of_rest("GET", "tasks/T", "").refusal(503, "UPSTREAM", "gone");
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!((status, &refused["error"]["status"]), (503, &json!("UNAVAILABLE")));
}

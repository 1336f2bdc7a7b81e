//! Cards of real servers, and the interfaces that are chosen from them.

use super::*;

const UNION: &str = include_str!("../../../tests/fixtures/a2a/v1-agent-card.json");
const V03: &str = include_str!("../../../tests/fixtures/a2a/v03-agent-card.json");
const ALL: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

#[test]
fn a_union_card_is_used_in_its_best_version() {
    let card = parse(UNION).unwrap();
    assert_eq!(endpoints(&card).len(), 6, "the 0.3 members repeat what is there");
    for binding in ALL {
        let endpoint = choose(&card, &[binding]).unwrap();
        assert_eq!((endpoint.binding, endpoint.version), (binding, Version::V1));
    }
    assert_eq!(choose(&card, &[Binding::Grpc]).unwrap().url, "127.0.0.1:9982");
    assert_eq!(choose(&card, &[Binding::HttpJson, Binding::JsonRpc]).unwrap().binding, Binding::HttpJson);
    assert_eq!(
        choose_by_card(&card, &[Binding::HttpJson, Binding::JsonRpc]).unwrap().binding,
        Binding::JsonRpc
    );
    assert!(card.capabilities.streaming && card.capabilities.push_notifications);
    assert!(!has_extended_card(&card));
}

#[test]
fn a_03_card_is_used_in_03() {
    let card = parse(V03).unwrap();
    let endpoint = choose(&card, &[Binding::JsonRpc]).unwrap();
    assert_eq!(endpoint, Endpoint::new("http://127.0.0.1:9991/", Binding::JsonRpc, Version::V03));
    let endpoint = choose(&card, &[Binding::HttpJson]).unwrap();
    assert_eq!(endpoint, Endpoint::new("http://127.0.0.1:9992", Binding::HttpJson, Version::V03));
    let error = choose(&card, &[Binding::Grpc]).unwrap_err();
    assert!(error.to_string().contains("HTTP+JSON"), "{error}");
}

#[test]
fn tenant_and_unknown_members_are_kept() {
    let card = parse(
        r#"{"name":"a","color":"red","supportedInterfaces":[
            {"url":"https://x","protocolBinding":"https://example.com/other","protocolVersion":"1.0"},
            {"url":"https://y","protocolBinding":"HTTP+JSON","protocolVersion":"9.0"},
            {"url":"https://z","protocolBinding":"HTTP+JSON","protocolVersion":"1.2","tenant":"acme"}],
            "capabilities":{"extensions":[{"uri":"https://e","required":true},{"uri":"https://f"}]}}"#,
    )
    .unwrap();
    let endpoint = choose(&card, &ALL).unwrap();
    assert_eq!((endpoint.url.as_str(), endpoint.tenant.as_str()), ("https://z", "acme"));
    assert_eq!(card.extra.get("color").unwrap().as_str(), "\"red\"");
    assert_eq!(missing_extensions(&card, &[]), ["https://e"]);
    assert!(missing_extensions(&card, &["https://e".to_owned()]).is_empty());
}

#[test]
fn cards_are_looked_for_at_both_paths() {
    assert_eq!(
        card_urls("https://host"),
        ["https://host/.well-known/agent-card.json", "https://host/.well-known/agent.json"]
    );
    assert_eq!(
        card_urls("https://host/agents/x/"),
        [
            "https://host/agents/x/.well-known/agent-card.json",
            "https://host/agents/x/.well-known/agent.json",
            "https://host/.well-known/agent-card.json",
            "https://host/.well-known/agent.json"
        ]
    );
    assert_eq!(card_urls("https://host/my-card.json"), ["https://host/my-card.json"]);
}

#[test]
fn an_interface_without_a_version_is_of_1_0() {
    let card = r#"{"name": "x", "protocolVersion": "0.3", "supportedInterfaces": [{"url": "http://localhost:9/", "protocolBinding": "JSONRPC"}]}"#;
    let endpoint = choose(&parse(card).unwrap(), &[Binding::JsonRpc]).unwrap();
    assert_eq!(endpoint.version, Version::V1);
    let words = unreachable(&endpoint, "connection refused");
    assert!(words.contains("card") && words.contains("`url`") && words.contains("`binding`"), "{words}");
}

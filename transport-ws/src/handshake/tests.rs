//! The cases of the handshake, header by header.

use http::Request;

use super::*;

fn head(extra: &[(&str, &str)]) -> request::Parts {
    let mut headers = vec![
        ("host", "localhost:8080"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (name, value) in extra {
        headers.retain(|(known, _)| known != name);
        if !value.is_empty() {
            headers.push((name, value));
        }
    }
    let builder =
        headers.iter().fold(Request::get("/ws"), |builder, (name, value)| builder.header(*name, *value));
    builder.body(()).unwrap().into_parts().0
}

fn check(extra: &[(&str, &str)], agent: Option<&str>) -> Result<Upgrade, Refusal> {
    accept(&head(extra), agent, Stopping::default())
}

#[track_caller]
fn status(extra: &[(&str, &str)]) -> u16 {
    check(extra, Some("a")).unwrap_err().status.as_u16()
}

#[test]
fn the_key_is_answered_as_in_the_rfc() {
    // The example of RFC 6455 §1.3.
    let upgrade = check(&[], Some("writer")).unwrap();
    let response = upgrade.response();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(response.headers().get(header::SEC_WEBSOCKET_PROTOCOL), None);
    assert_eq!((upgrade.mode, upgrade.agent.as_deref()), (Mode::Plain, Some("writer")));
}

#[test]
fn the_clients_order_of_subprotocols_decides() {
    let offer = |names| check(&[("sec-websocket-protocol", names)], None);
    assert_eq!(
        offer("x, aqueduct.v1.proto, aqueduct.v1.json").unwrap().mode,
        Mode::Multiplexed(Encoding::Binary)
    );
    assert_eq!(offer("aqueduct.v2.json,aqueduct.v1.json").unwrap().mode, Mode::Multiplexed(Encoding::Json));
    assert_eq!(offer("aqueduct.v2.json").unwrap_err().status, 400);
    assert_eq!(offer("").unwrap_err().status, 400);
    assert_eq!(offer("aqueduct.v1.plain").unwrap_err().status, 400);
    assert_eq!(check(&[("sec-websocket-protocol", "mine")], Some("a")).unwrap_err().status, 400);
}

#[test]
fn a_token_comes_in_the_header_or_among_the_subprotocols_and_never_goes_back() {
    let upgrade =
        check(&[("sec-websocket-protocol", "aqueduct.v1.json, aqueduct.bearer.s3cret")], None).unwrap();
    assert_eq!(upgrade.caller.token.as_deref(), Some("s3cret"));
    assert_eq!(upgrade.response().headers()[header::SEC_WEBSOCKET_PROTOCOL], "aqueduct.v1.json");
    assert!(upgrade.caller.headers.iter().all(|(_, value)| !value.contains("s3cret")));
    assert!(!format!("{upgrade:?}").contains("s3cret"));
    let both = [("sec-websocket-protocol", "aqueduct.bearer.b"), ("authorization", "bearer a")];
    assert_eq!(check(&both, Some("x")).unwrap().caller.token.as_deref(), Some("a"));
}

#[test]
fn what_is_no_upgrade_is_refused() {
    assert_eq!(status(&[("upgrade", "h2c")]), 426);
    assert_eq!(status(&[("connection", "close")]), 400);
    assert_eq!(status(&[("sec-websocket-version", "8")]), 426);
    assert_eq!(status(&[("sec-websocket-key", "short")]), 400);
    let mut post = head(&[]);
    post.method = Method::POST;
    assert_eq!(accept(&post, None, Stopping::default()).unwrap_err().status, 405);
    let mut old = head(&[]);
    old.version = Version::HTTP_10;
    assert_eq!(accept(&old, None, Stopping::default()).unwrap_err().status, 400);
}

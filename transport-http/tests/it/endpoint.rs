//! From a POST to a stream and back, and the refusals on the way.

use aqueduct_core::RunId;
use aqueduct_transport_http::{
    Admission, Client, ClientConfig, Error, Gauge, ServerConfig, StreamOptions, watch_run,
};
use axum::routing::get;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, Response, StatusCode};

use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, ScriptedService, TextEncoder, post, read_until, ready, routes, script};

fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

async fn echo_server() -> Running {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    Running::start(Admission::default().apply(routes(&service)), ServerConfig::default()).await
}

#[track_caller]
fn error_code(response: &Response<Bytes>) -> String {
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert!(body["error"]["message"].is_string(), "{body}");
    body["error"]["code"].as_str().unwrap().to_owned()
}

async fn refusal(server: &Running, change: impl FnOnce(&mut Request<Bytes>)) -> (StatusCode, String) {
    let mut request = post(&server.uri("/"), "x");
    change(&mut request);
    match client().open_stream(request).await {
        Err(Error::NotAStream(response)) => (response.status(), error_code(&response)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_goes_there_and_back() {
    let server = echo_server().await;
    let text = "two\nlines \u{1F980}";
    let stream = client().open_stream(post(&server.uri("/"), text)).await.unwrap();
    assert_eq!(stream.head().headers()["content-type"], "text/event-stream");
    let events: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(events.iter().map(|event| &*event.data).collect::<Vec<_>>(), [text, "end"]);
    assert!(events.iter().all(|event| event.terminated));
}

#[tokio::test]
async fn another_encoder_is_chosen_by_the_request() {
    let server = echo_server().await;
    let mut request = post(&server.uri("/"), "ab");
    request.headers_mut().insert("accept", "application/x.frames+proto".parse().unwrap());
    let accepts = |media_type: &str| media_type == "application/x.frames+proto";
    let (_, bytes) = client().open_bytes(request, accepts).await.unwrap();
    let bytes: Vec<Bytes> = bytes.try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"\x02ab\x05\n\0end");
}

#[tokio::test]
async fn refusals_carry_a_status_and_a_code() {
    let server = echo_server().await;
    let wrong_type = refusal(&server, |request| {
        request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    });
    assert_eq!(wrong_type.await, (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type".to_owned()));
    let no_type = refusal(&server, |request| drop(request.headers_mut().remove("content-type")));
    assert_eq!(no_type.await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let no_json = refusal(&server, |request| *request.body_mut() = Bytes::from_static(b"{"));
    assert_eq!(no_json.await, (StatusCode::BAD_REQUEST, "invalid_request".to_owned()));
    let wrong_token = refusal(&server, |request| {
        request.headers_mut().insert("authorization", "bearer nonsense".parse().unwrap());
    });
    assert_eq!(wrong_token.await, (StatusCode::UNAUTHORIZED, "unauthenticated".to_owned()));
    let too_long = refusal(&server, |request| *request.body_mut() = Bytes::from(vec![b' '; 1024 * 1024 + 1]));
    assert_eq!(too_long.await, (StatusCode::PAYLOAD_TOO_LARGE, "body_too_long".to_owned()));
}

#[tokio::test]
async fn the_right_token_passes_whatever_the_case_of_its_scheme() {
    let server = echo_server().await;
    let mut request = post(&server.uri("/"), "x");
    request.headers_mut().insert("authorization", "BEARER secret".parse().unwrap());
    assert!(client().open_stream(request).await.is_ok());
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_turned_away() {
    let server = echo_server().await;
    for (header, value, code) in [
        ("host", "evil.example", "host_not_allowed"),
        ("origin", "https://evil.example", "origin_not_allowed"),
        ("origin", "null", "origin_not_allowed"),
    ] {
        let refused = refusal(&server, |request| {
            request.headers_mut().insert(header, value.parse().unwrap());
        });
        assert_eq!(refused.await, (StatusCode::FORBIDDEN, code.to_owned()), "{header}: {value}");
    }
    let mut request = post(&server.uri("/"), "x");
    request.headers_mut().insert("origin", "http://localhost:3000".parse().unwrap());
    let stream = client().open_stream(request).await.unwrap();
    assert!(!stream.head().headers().contains_key("access-control-allow-origin"), "not asked for");
}

#[tokio::test]
async fn two_hosts_that_differ_are_turned_away() {
    let server = echo_server().await;
    let attempts = [
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ];
    for attempt in attempts {
        let attempt = attempt.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        let answer = server.exchange(attempt.as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1.1 403")
                || answer.starts_with("HTTP/1.1 400")
                || answer.starts_with("HTTP/1.0 403"),
            "{attempt:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn allowed_pages_are_told_that_they_may_read() {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let admission =
        Admission { origins: vec!["https://app.example".to_owned()], cors: true, ..Admission::default() };
    let server = Running::start(admission.apply(routes(&service)), ServerConfig::default()).await;
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri(server.uri("/"))
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type, x-own")
        .body(Bytes::new())
        .unwrap();
    let answer = client().request(preflight).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example");
    assert_eq!(answer.headers()["access-control-allow-headers"], "content-type, x-own");
    assert!(answer.headers()["access-control-allow-methods"].to_str().unwrap().contains("POST"));

    let mut request = post(&server.uri("/"), "x");
    request.headers_mut().insert("origin", "https://app.example".parse().unwrap());
    let stream = client().open_stream(request).await.unwrap();
    assert_eq!(stream.head().headers()["access-control-allow-origin"], "https://app.example");
    assert_eq!(stream.head().headers()["vary"], "origin");
}

#[tokio::test]
async fn a_reader_comes_back_with_the_last_id_it_saw() {
    let service = ScriptedService::new(|_| ready(script(&["a", "b|c", "d"])));
    let watched = service.clone();
    let routes = routes(&service).route(
        "/runs/{run}",
        get(async move |request: axum::extract::Request| {
            let (parts, _) = request.into_parts();
            let run = RunId::from(parts.uri.path().rsplit('/').next().unwrap());
            let options = StreamOptions { ids: true, ..StreamOptions::default() };
            watch_run(&*watched, &run, &parts, Box::new(TextEncoder), &options).await
        }),
    );
    let server = Running::start(routes, ServerConfig::default()).await;
    let uri = server.uri("/runs/run");
    let watch = |id: Option<&str>| {
        let mut request = Request::get(&uri);
        if let Some(id) = id {
            request = request.header("last-event-id", id);
        }
        request.body(Bytes::new()).unwrap()
    };
    let mut first = client().open_stream(watch(None)).await.unwrap();
    for _ in 0..2 {
        first.next().await.unwrap().unwrap();
    }
    let id = first.decoder().last_event_id().to_string();
    assert_eq!(id, "run.2.1");
    drop(first);
    let rest: Vec<_> = client().open_stream(watch(Some(&id))).await.unwrap().try_collect().await.unwrap();
    assert_eq!(rest.iter().map(|event| &*event.data).collect::<Vec<_>>(), ["c", "d", "end"]);

    for (id, status, code) in [
        ("other.2.1", StatusCode::NOT_FOUND, "not_found"),
        ("nonsense", StatusCode::BAD_REQUEST, "invalid_request"),
        ("run.500.1", StatusCode::GONE, "gone"),
    ] {
        match client().open_stream(watch(Some(id))).await {
            Err(Error::NotAStream(response)) => {
                assert_eq!((response.status(), error_code(&response)), (status, code.to_owned()), "{id}");
            }
            other => panic!("{id}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_default_limits_hold_without_our_server() {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let body = axum::body::Body::from_stream(futures_util::stream::repeat(
        Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b' '; 1024])),
    ));
    let request = Request::post("/").header("content-type", "application/json").body(body).unwrap();
    let response = tower::ServiceExt::oneshot(routes(&service), request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn an_upgraded_connection_is_the_handlers_and_still_counts() {
    let routes = axum::Router::new().route(
        "/up",
        get(async |request: axum::extract::Request| {
            tokio::spawn(async move {
                let upgraded = hyper::upgrade::on(request).await.unwrap();
                let (mut reader, mut writer) = tokio::io::split(hyper_util::rt::TokioIo::new(upgraded));
                tokio::io::copy(&mut reader, &mut writer).await.ok();
            });
            let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            head.header("connection", "upgrade")
                .header("upgrade", "echo")
                .body(axum::body::Body::empty())
                .unwrap()
        }),
    );
    let server = Running::start(routes, ServerConfig::default()).await;
    let mut socket = server.connect().await;
    let request = b"GET /up HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    socket.write_all(request).await.unwrap();
    read_until(&mut socket, "\r\n\r\n").await;
    socket.write_all(b"hello").await.unwrap();
    read_until(&mut socket, "hello").await;
    assert_eq!((server.counters.gauge(Gauge::Connections), server.counters.gauge(Gauge::Requests)), (1, 0));
    drop(socket);
    server.is_empty().await;
}

#[tokio::test]
async fn a_caller_that_is_not_admitted_is_refused_before_its_body_is_read() {
    let server = echo_server().await;
    let mut socket = server.connect().await;
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        authorization: Bearer wrong\r\ncontent-length: 1000000\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    // Not a byte of the body was sent.
    assert!(read_until(&mut socket, "}").await.starts_with("HTTP/1.1 401 "));
}

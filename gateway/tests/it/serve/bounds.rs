//! Where agents can lead the gateway: their cards and redirects reach the configured origin and allowed hosts alone, and
//! credentials and headers of callers reach the configured origin alone.

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Say, Served, Upstream, answer, events, http, input, serve, sse};

/// Returns the stream of an agent with a text of one word, in either binding over HTTP.
fn stream(is_rpc: bool) -> Vec<u8> {
    let wrap =
        |result: Value| if is_rpc { json!({ "jsonrpc": "2.0", "id": 1, "result": result }) } else { result };
    let artifact = json!({ "artifactId": "A", "parts": [{ "text": "hi" }] });
    let frames = [
        json!({ "task": { "id": "T", "contextId": "C", "status": { "state": "TASK_STATE_WORKING" } } }),
        json!({ "artifactUpdate": { "taskId": "T", "contextId": "C", "artifact": artifact } }),
        json!({ "statusUpdate": { "taskId": "T", "contextId": "C", "status": { "state": "TASK_STATE_COMPLETED" } } }),
    ];
    sse(&frames.map(|frame| format!("data: {}\n\n", wrap(frame))).concat())
}

/// An agent that answers calls, and is named by the cards of another.
async fn speaking() -> Upstream {
    Upstream::start(|asked| Say::Close(stream(asked.body.get("method").is_some()))).await
}

fn interface(url: &str, binding: &str) -> Value {
    json!({ "url": url, "protocolBinding": binding, "protocolVersion": "1.0" })
}

/// An agent whose card names these interfaces, and that answers calls at its own address too.
async fn naming(interfaces: Vec<Value>) -> Upstream {
    Upstream::start(move |asked| {
        if !asked.head.starts_with("get ") {
            return Say::Close(stream(asked.body.get("method").is_some()));
        }
        let own = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let interfaces = json!(interfaces).to_string().replace("OWN", own);
        let interfaces: Value = serde_json::from_str(&interfaces).unwrap();
        let card =
            json!({ "name": "x", "capabilities": { "streaming": true }, "supportedInterfaces": interfaces });
        Say::Close(http("200 OK", "application/json", &card.to_string()))
    })
    .await
}

async fn gateway(upstream: &Upstream, more: &str) -> Served {
    let toml = format!(
        "[agents.a]\ncredentials = \"env:K\"\nforward_headers = [\"x-user\"]\na2a.url = \"{}\"\n{more}",
        upstream.url
    );
    serve(&toml, &[("K", "sesame")]).await
}

/// A run by a caller whose header is forwarded.
async fn run(served: &Served) -> Vec<Value> {
    let mut request = served.post("/agents/a", &input("r", Some("1.0")));
    request.headers_mut().insert("x-user", "ann".parse().unwrap());
    request.headers_mut().insert("baggage", "tier=gold".parse().unwrap());
    events(&served.send(request).await)
}

/// A call that passes to the agent.
async fn pass(served: &Served) -> Response<Bytes> {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": { "message": message } });
    let request = Request::post(served.url("/a2a/a"))
        .header("content-type", "application/json")
        .header("a2a-version", "1.0")
        .header("x-user", "ann")
        .body(Bytes::from(call.to_string()));
    served.send(request.unwrap()).await
}

/// The host and port of an agent.
fn host(agent: &Upstream) -> String {
    agent.url.trim_start_matches("http://").to_owned()
}

#[tokio::test]
async fn a_card_that_leads_elsewhere_is_refused_with_the_key_that_allows_it() {
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        let mut elsewhere = speaking().await;
        let url = if binding == "GRPC" { host(&elsewhere) } else { elsewhere.url.clone() };
        let upstream = naming(vec![interface(&url, binding)]).await;
        let served = gateway(&upstream, "").await;
        let events = run(&served).await;
        let end = events.last().unwrap();
        assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("upstream_refused")), "{end}");
        let (told, named) = (end["message"].as_str().unwrap(), host(&elsewhere));
        let card = format!("{}/.well-known/agent-card.json", upstream.url);
        for part in [&*card, &*format!("a2a.hosts = [\"{named}\"]"), "`binding`", "the agent's card names"] {
            assert!(told.contains(part), "{binding}: {told}");
        }
        let passed = pass(&served).await;
        assert!(String::from_utf8_lossy(passed.body()).contains("a2a.hosts"), "{passed:?}");
        assert!(elsewhere.asked.try_recv().is_err(), "{binding}: no byte goes there");
    }
}

#[tokio::test]
async fn an_allowed_host_gets_calls_and_nothing_that_proves_or_describes_a_caller() {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        for port in [true, false] {
            let mut elsewhere = speaking().await;
            let mut upstream = naming(vec![interface(&elsewhere.url, binding)]).await;
            let named = if port { host(&elsewhere) } else { "127.0.0.1".to_owned() };
            let served = gateway(&upstream, &format!("a2a.hosts = [\"{named}\"]\n")).await;
            assert_eq!(answer(&run(&served).await), "hi");
            if binding == "JSONRPC" {
                assert!(String::from_utf8_lossy(pass(&served).await.body()).contains("hi"));
            }
            let own = upstream.asked.recv().await.unwrap().head;
            assert!(own.contains("sesame") && own.contains("x-user: ann"), "{own}");
            while let Ok(asked) = elsewhere.asked.try_recv() {
                for secret in ["sesame", "ann", "gold", "authorization", "cookie", "x-aqueduct-run"] {
                    assert!(!asked.head.contains(secret), "{secret}: {}", asked.head);
                }
            }
        }
    }
}

#[tokio::test]
async fn an_interface_at_the_configured_address_is_used_instead_of_one_elsewhere() {
    let mut elsewhere = speaking().await;
    let interfaces = vec![interface(&elsewhere.url, "JSONRPC"), interface("http://OWN/rest", "HTTP+JSON")];
    let mut upstream = naming(interfaces).await;
    let served = gateway(&upstream, "").await;
    assert_eq!(answer(&run(&served).await), "hi");
    upstream.asked.recv().await.unwrap();
    assert!(upstream.asked.recv().await.unwrap().head.starts_with("post /rest/message:stream"));
    // Unless the configuration asks for the one elsewhere.
    let toml = format!(
        "[agents.a]\na2a.card = \"{}/.well-known/agent-card.json\"\na2a.binding = \"jsonrpc\"\n",
        upstream.url
    );
    let end = run(&serve(&toml, &[]).await).await.pop().unwrap();
    assert!(end["message"].as_str().unwrap().contains("a2a.hosts"), "{end}");
    assert!(elsewhere.asked.try_recv().is_err());
}

/// Cards of agents in containers name hosts that exist there alone.
#[tokio::test]
async fn a_host_that_does_not_exist_is_explained_by_the_card() {
    let upstream = naming(vec![interface("http://agent.invalid:9999/", "JSONRPC")]).await;
    for (more, expected) in [("", "a2a.hosts"), ("a2a.hosts = [\"agent.invalid\"]\n", "agent.invalid")] {
        let served = gateway(&upstream, more).await;
        let end = run(&served).await.pop().unwrap();
        let told = end["message"].as_str().unwrap();
        for part in
            [expected, "the agent's card names the address http://agent.invalid:9999/", "`url`", "`binding`"]
        {
            assert!(told.contains(part), "{more}: {told}");
        }
    }
}

/// Redirects are not followed, so that nothing leaves by them.
#[tokio::test]
async fn a_redirect_is_named_and_not_followed() {
    let mut elsewhere = speaking().await;
    let url = elsewhere.url.clone();
    let redirecting = Upstream::start(move |_| {
        let head = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {url}/x?token=1\r\nconnection: close\r\n\r\n"
        );
        Say::Close(head.into_bytes())
    })
    .await;
    for source in [
        format!("a2a.url = \"{}\"", redirecting.url),
        format!("a2a = {{ url = \"{}\", binding = \"jsonrpc\" }}", redirecting.url),
        format!("a2a = {{ url = \"{}\", binding = \"rest\" }}", redirecting.url),
        format!("agui.url = \"{}\"", redirecting.url),
    ] {
        let toml = format!("[agents.a]\ncredentials = \"env:K\"\nforward_headers = [\"x-user\"]\n{source}\n");
        let end = run(&serve(&toml, &[("K", "sesame")]).await).await.pop().unwrap();
        let told = end["message"].as_str().unwrap();
        assert!(
            told.contains("redirect") && told.contains(&format!("{}/x", elsewhere.url)),
            "{source}: {told}"
        );
        assert!(!told.contains("token=1"), "{told}");
        assert!(elsewhere.asked.try_recv().is_err(), "{source}");
    }
}

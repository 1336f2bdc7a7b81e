//! Upstreams that fail in every way: the frontend always gets a well-formed stream that ends with an error which names
//! the cause.

use serde_json::Value;
use tokio::net::TcpListener;

use super::support::{Served, Upstream, http, serve, sse};

const BEGUN: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
    data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n\
    data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"half an\"}\n\n";

/// What an upstream sends, and words that the error must have.
fn faults() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("closes at once", Vec::new(), "failed"),
        ("sends garbage", b"\x00\xff\x13garbage\r\n\r\n".to_vec(), "failed"),
        ("sends a page", http("200 OK", "text/html", "<html>hi</html>"), "text/html"),
        (
            "answers 500",
            http("500 Internal Server Error", "application/json", "{\"error\":{\"message\":\"kaput\"}}"),
            "kaput",
        ),
        ("answers 500 without words", http("500 Internal Server Error", "text/html", "<h1>no</h1>"), "500"),
        ("answers 401", http("401 Unauthorized", "text/plain", "who are you"), "who are you"),
        ("answers 302", http("302 Found", "text/html", ""), "redirects are not followed"),
        ("answers 204", http("204 No Content", "text/plain", ""), "204"),
        ("cuts in the head", b"HTTP/1.1 200 OK\r\ncontent-ty".to_vec(), "failed"),
        ("sends no event", sse(""), "ended without saying"),
        ("sends no JSON", sse("data: hello\n\ndata: there\n\n"), "cannot be read"),
        ("sends no UTF-8", [sse("data: "), b"\xff\xfe\n\n".to_vec()].concat(), "UTF-8"),
    ]
}

fn error(name: &str, events: &[Value]) -> String {
    let last = events.last().unwrap();
    assert_eq!(last["type"], "RUN_ERROR", "{name}: {last}");
    format!("{} {}", last["code"], last["message"])
}

async fn agui(url: &str) -> Served {
    serve(&format!("[agents.a.agui]\nurl = \"{url}\"\n"), &[]).await
}

async fn a2a(url: &str) -> Served {
    serve(&format!("[agents.a.a2a]\nurl = \"{url}\"\nbinding = \"jsonrpc\"\n"), &[]).await
}

#[tokio::test]
async fn every_fault_of_an_agui_agent_is_told() {
    for (name, bytes, words) in faults() {
        let upstream = Upstream::saying(bytes).await;
        let served = agui(&upstream.url).await;
        let told = error(name, &served.run("a", "r").await);
        let words = if words == "cannot be read" { "JSON" } else { words };
        assert!(told.contains(words), "{name}: {told}");
    }
}

#[tokio::test]
async fn every_fault_of_an_a2a_agent_is_told() {
    for (name, bytes, words) in faults() {
        let upstream = Upstream::saying(bytes).await;
        let served = a2a(&upstream.url).await;
        let told = error(name, &served.run("a", "r").await);
        // A stream without anything readable is told as cut; what could not be read is in the details.
        let words = match name {
            "sends no event" | "sends no JSON" => "was cut",
            _ => words,
        };
        assert!(told.contains(words), "{name}: {told}");
    }
}

#[tokio::test]
async fn an_agent_that_refuses_the_connection_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for served in [agui(&url).await, a2a(&url).await] {
        let told = error("refuses", &served.run("a", "r").await);
        assert!(told.contains("cannot connect") && told.contains(&url), "{told}");
    }
    let by_card = serve(&format!("[agents.a.a2a]\nurl = \"{url}\"\n"), &[]).await;
    let told = error("refuses", &by_card.run("a", "r").await);
    assert!(told.contains("no agent card") && told.contains("upstream_unreachable"), "{told}");
}

#[tokio::test]
async fn an_agent_that_is_silent_runs_into_its_timeout() {
    let upstream = Upstream::start(|_| super::support::Say::Hang(sse(BEGUN))).await;
    let toml = format!("[agents.a]\nagui.url = \"{}\"\ntimeouts.idle = \"50ms\"\n", upstream.url);
    let told = error("hangs", &serve(&toml, &[]).await.run("a", "r").await);
    assert!(told.contains("upstream_timeout") && told.contains("idle"), "{told}");
    let toml = format!("[agents.a]\nagui.url = \"{}\"\ntimeouts.run = \"50ms\"\n", upstream.url);
    let told = error("hangs", &serve(&toml, &[]).await.run("a", "r").await);
    assert!(told.contains("run_timeout"), "{told}");
}

#[tokio::test]
async fn an_endless_line_is_cut_off() {
    let long = format!("data: {}", "x".repeat(100_000));
    let upstream = Upstream::saying(sse(&long)).await;
    let toml = format!("[agents.a]\nagui.url = \"{}\"\nlimits.frame = \"64KiB\"\n", upstream.url);
    let told = error("endless line", &serve(&toml, &[]).await.run("a", "r").await);
    assert!(told.contains("longer than 65536 bytes"), "{told}");
}

/// However many bytes come before the cut, what was said is kept, closed and followed by an error.
#[tokio::test]
async fn a_stream_cut_at_every_byte_ends_well_formed() {
    let whole = sse(BEGUN);
    let body_starts = whole.len() - BEGUN.len();
    let served_by = |at: usize| whole[..at].to_vec();
    let place = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let cut = std::sync::Arc::clone(&place);
    let answers: Vec<Vec<u8>> = (0..=whole.len()).map(served_by).collect();
    let upstream = Upstream::start(move |_| {
        let at = cut.load(std::sync::atomic::Ordering::Relaxed);
        super::support::Say::Close(answers[at].clone())
    })
    .await;
    let served = agui(&upstream.url).await;
    for at in 0..=whole.len() {
        place.store(at, std::sync::atomic::Ordering::Relaxed);
        let events = served.run("a", &format!("r{at}")).await;
        error("cut", &events);
        if at >= body_starts + BEGUN.len() - 2 {
            assert!(events.iter().any(|event| event["delta"] == "half an"), "{at}");
        }
    }
    served.idle().await;
}

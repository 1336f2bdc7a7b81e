//! Upstreams that fail in every way: the frontend always receives a well-formed stream that ends with an error which
//! names the cause, the log contains the same with the id of the run, and no resource is leaked.

mod cases;
mod leaks;
mod lost;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aqueduct_transport_http::{Client, ClientConfig};
use serde_json::Value;

use super::support::{Say, Upstream, events, input, serve, sse};
use crate::operation::Process;
use cases::{AGUI_BEGUN, Fault, REFUSING, closed_port};

/// The error that ends a stream: its code and its words.
fn error(name: &str, events: &[Value]) -> (String, String) {
    let last = events.last().unwrap();
    assert_eq!(last["type"], "RUN_ERROR", "{name}: {last}");
    let text = |key: &str| last[key].as_str().unwrap_or_else(|| panic!("{name}: {last}")).to_owned();
    (text("code"), text("message"))
}

/// Lines of a log in JSON that say that a run failed.
fn failures(log: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == "run failed").collect()
}

#[tokio::test]
async fn every_fault_is_told_to_the_frontend_and_to_the_log_alike() {
    let faults = cases::all();
    let (_upstream, agents) = cases::start(&faults).await;
    let toml = format!("[log]\nformat = \"json\"\n{agents}");
    let process = Process::serve("faults", &[("aqueduct.toml", &toml)], &[]);
    let client = Client::new(ClientConfig::default()).unwrap();
    let refused = REFUSING.map(|agent| (agent.to_owned(), "cannot connect"));
    let cases = faults.iter().map(|Fault { agent, words, .. }| (agent.clone(), *words)).chain(refused);
    let mut told = Vec::new();
    for (agent, words) in cases {
        let run = format!("run-of-{agent}");
        let response = client.request(process.ask(&agent, &input(&run, Some("1.0")))).await.unwrap();
        let (code, message) = error(&agent, &events(&response));
        assert!(message.contains(words), "{agent}: {code}: {message}");
        told.push((run, code, message));
    }
    process.signal("-TERM");
    let (_, log) = process.end().await;
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let logged: Vec<_> = failures(&log)
        .iter()
        .map(|line| (text(line, "run"), text(line, "code"), text(line, "reason")))
        .collect();
    assert_eq!(logged, told);
}

#[tokio::test]
async fn an_agent_that_refuses_the_connection_is_named() {
    let url = closed_port().await;
    for name in REFUSING {
        let served = serve(&cases::agent(name, &url), &[]).await;
        let (_, told) = error("refuses", &served.run(name, "r").await);
        assert!(told.contains("cannot connect") && told.contains(&url), "{told}");
    }
    let by_card = serve(&format!("[agents.a.a2a]\nurl = \"{url}\"\n"), &[]).await;
    let (code, told) = error("refuses", &by_card.run("a", "r").await);
    assert!(told.contains("no agent card") && code == "upstream_unreachable", "{code}: {told}");
}

#[tokio::test]
async fn an_agent_that_is_silent_runs_into_its_timeout() {
    let upstream = Upstream::start(|_| Say::Hang(sse(AGUI_BEGUN))).await;
    for (setting, code) in [("idle", "upstream_timeout"), ("run", "run_timeout")] {
        let toml = format!("{}timeouts.{setting} = \"50ms\"\n", cases::agent("agui", &upstream.url));
        let told = error("hangs", &serve(&toml, &[]).await.run("agui", "r").await);
        assert!(told.0 == code && told.1.contains(setting), "{told:?}");
    }
}

/// At whatever byte the stream is cut, the content before the cut is kept, closed and followed by an error.
#[tokio::test]
async fn a_stream_cut_at_every_byte_ends_well_formed() {
    let whole = sse(AGUI_BEGUN);
    let body_starts = whole.len() - AGUI_BEGUN.len();
    let place = Arc::new(AtomicUsize::new(0));
    let cut = Arc::clone(&place);
    let bytes = whole.clone();
    let upstream = Upstream::start(move |_| Say::Close(bytes[..cut.load(Ordering::Relaxed)].to_vec())).await;
    // It is asked again however often it fails.
    let toml = format!("{}circuit.failures = 0\n", cases::agent("agui", &upstream.url));
    let served = serve(&toml, &[]).await;
    for at in 0..=whole.len() {
        place.store(at, Ordering::Relaxed);
        let events = served.run("agui", &format!("r{at}")).await;
        error("cut", &events);
        if at >= body_starts + AGUI_BEGUN.len() - 2 {
            assert!(events.iter().any(|event| event["delta"] == "half an"), "{at}");
        }
    }
    served.idle().await;
}

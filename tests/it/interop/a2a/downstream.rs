//! The clients of the real SDKs against the gateway's own A2A server: every mode over every binding.

use std::process::Output;

use serde_json::{Value, json};

use super::bridge::{Bridge, check_count};
use super::modes::{Peer, expected, script};

/// Modes that need nothing but a message.
const PLAIN: [&str; 7] = ["tools", "interleaved", "fail", "raise", "slow", "bare", "links"];

/// A gateway with the scripted agent, and another beside it, so that requests have to say which they mean.
async fn served(others: &str) -> Bridge {
    Bridge::serve(&format!("[agents.peer]\nscript.file = \"{}\"\n{others}", script("agent.toml"))).await
}

/// Lets a client play modes, one after the other; what it saw of each turn.
async fn turns(bridge: &Bridge, peer: Peer, binding: &str, modes: &[&str]) -> Vec<Value> {
    let url = format!("http://{}/a2a/peer", bridge.address);
    let mut command = peer.client();
    command.arg(url).args(["--binding", binding, "--modes", &modes.join(",")]);
    let played = tokio::task::spawn_blocking(move || command.output().unwrap()).await;
    let Output { status, stdout, stderr } = played.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{peer:?}: {status}\n{stdout}{stderr}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares what a client received with `modes.json`.
#[track_caller]
pub(in crate::interop) fn is(seen: &Value, expected: &Value, what: &str) {
    let told = |key: &str| expected.get(key).cloned().unwrap_or_else(|| json!([]));
    let texts = |key: &str| -> Vec<String> { serde_json::from_value(seen[key].clone()).unwrap() };
    let state = seen["state"].as_str();
    match expected["outcome"].as_str().unwrap() {
        "success" if !seen["message"].is_null() => {
            assert_eq!(
                (json!([seen["message"]]), &seen["first"]),
                (told("answers"), &json!("message")),
                "{what}"
            );
            return;
        }
        "success" => assert_eq!(state, Some("TASK_STATE_COMPLETED"), "{what}: {seen}"),
        "interrupt" => {
            assert!(
                matches!(state, Some("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED")),
                "{what}: {seen}"
            );
            let question = expected["question"].as_str().unwrap();
            assert_eq!(texts("statuses").last().map(String::as_str), Some(question), "{what}: {seen}");
        }
        "error" => assert_eq!(state, Some("TASK_STATE_FAILED"), "{what}: {seen}"),
        "cancelled" => assert_eq!(state, Some("TASK_STATE_CANCELED"), "{what}: {seen}"),
        other => panic!("{other}"),
    }
    if let Some(count) = expected.get("count") {
        // Scripts count from 1.
        let counted: Vec<String> = texts("answers").iter().map(|text| format!("0 {text}")).collect();
        assert_eq!(check_count(&counted).map(|counted| json!(counted - 1)).as_ref(), Some(count), "{what}");
    } else {
        assert_eq!(json!(texts("answers")), told("answers"), "{what}: {seen}");
    }
    for words in told("intermediate").as_array().unwrap() {
        assert!(texts("statuses").contains(&words.as_str().unwrap().to_owned()), "{what}: {seen}");
    }
    for tool in told("tools").as_array().unwrap() {
        let tool = tool.as_str().unwrap();
        assert_eq!(texts("statuses").iter().filter(|text| text.contains(tool)).count(), 2, "{what}: {seen}");
    }
    if let Some(words) = expected.get("error") {
        assert!(
            texts("statuses").iter().any(|text| text.contains(words.as_str().unwrap())),
            "{what}: {seen}"
        );
    }
    assert_eq!(seen["files"], told("files"), "{what}");
    assert_eq!(seen["data"], told("data"), "{what}");
}

async fn reads_all_modes(peer: Peer, binding: &str, others: &str) {
    let bridge = served(others).await;
    // Python's 0.3 client takes the bytes of a file for the text of their base64, except over JSON-RPC.
    let can_read_bytes = peer != Peer::Python0_3 || binding == "JSONRPC";
    let files = can_read_bytes.then_some("files");
    let modes: Vec<&str> =
        PLAIN.into_iter().chain(files).chain(["many", "wait", "ask", "auth", "hold"]).collect();
    let mut seen = turns(&bridge, peer, binding, &modes).await.into_iter();
    for mode in modes {
        let what = format!("{peer:?} {binding} {mode}");
        let first = seen.next().unwrap();
        is(&first, &expected(mode, "expect"), &what);
        let kind = if mode == "bare" { "message" } else { "task" };
        assert_eq!(first["first"], kind, "{what}: the first event of a stream");
        match mode {
            "ask" | "auth" => is(&seen.next().unwrap(), &expected(mode, "expect_reply"), &what),
            "hold" => {
                let late = seen.next().unwrap();
                is(&late, &expected(mode, "expect"), &what);
                assert_eq!(late["first"], "task", "{what}: a late watcher gets a snapshot");
            }
            _ => {}
        }
    }
    assert_eq!(seen.next(), None);
}

/// Requests of 1.0 name their agent by the tenant of its card; 0.3 has none, so its agent is the only one.
const ANOTHER: &str = "[agents.other]\nmagentic.ingest = true\n";

macro_rules! suites {
    ($($name:ident: $peer:ident, $binding:literal, $others:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                reads_all_modes(Peer::$peer, $binding, $others).await;
            }
        )*
    };
}

suites! {
    python_1_3_reads_json_rpc: Python1_3, "JSONRPC", ANOTHER;
    python_1_3_reads_rest: Python1_3, "HTTP+JSON", ANOTHER;
    python_1_3_reads_grpc: Python1_3, "GRPC", ANOTHER;
    python_0_3_reads_json_rpc: Python0_3, "JSONRPC", ANOTHER;
    python_0_3_reads_rest: Python0_3, "HTTP+JSON", ANOTHER;
    python_0_3_reads_grpc: Python0_3, "GRPC", "";
    js_1_3_reads_json_rpc: Js1_3, "JSONRPC", ANOTHER;
    js_1_3_reads_rest: Js1_3, "HTTP+JSON", ANOTHER;
    js_1_3_reads_grpc: Js1_3, "GRPC", ANOTHER;
    rust_reads_json_rpc: Rust, "JSONRPC", ANOTHER;
    rust_reads_rest: Rust, "HTTP+JSON", ANOTHER;
    rust_reads_grpc: Rust, "GRPC", ANOTHER;
}

/// The harness can fail: what a client did not see is noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_notices_what_is_wrong() {
    let bridge = served("").await;
    let seen = turns(&bridge, Peer::Python1_3, "JSONRPC", &["tools"]).await;
    for (key, value) in [
        ("answers", json!(["The answer is 43."])),
        ("intermediate", json!(["Something else."])),
        ("tools", json!(["search"])),
        ("outcome", json!("error")),
        ("files", json!([{"name": "a.png"}])),
        ("count", json!(1)),
    ] {
        let mut wrong = expected("tools", "expect");
        wrong[key] = value;
        let judged = std::panic::catch_unwind(|| is(&seen[0], &wrong, key));
        assert!(judged.is_err(), "{key} was not looked at");
    }
}

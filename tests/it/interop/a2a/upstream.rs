//! Our client, through the gateway, against the servers of the real SDKs: every mode over every binding.

use super::bridge::Bridge;
use super::modes::{Peer, expected};

/// Modes that need nothing but a message.
const PLAIN: [&str; 7] = ["tools", "interleaved", "fail", "slow", "bare", "files", "many"];

/// Modes that ask, and the answer that they get.
const QUESTIONS: [&str; 2] = ["ask", "auth"];

async fn plays_all_modes(peer: Peer, binding: &str) {
    let mut server = peer.serve();
    let bridge = Bridge::to(&server.address, binding, "").await;
    // A failure that the task does not show takes a while to be reported; the other modes run concurrently.
    tokio::join!(raises(peer, &server.address, binding), plays_modes(peer, &bridge));
    bridge.say_and_stop("wait", "so far").await.is(&expected("wait", "expect"), "wait");
    // The agent received the cancel. Servers log there too; a test that waits without end is ended by its runner.
    while server.error_line() != "cancelled" {}
}

/// Chunks that the server of the Rust SDK keeps for a reader: it ends the stream of a reader that is 32 events behind with an
/// internal error, at times before the reader has seen the task. More than that is a race with its executor.
const RUST_KEEPS: u64 = 25;

async fn plays_modes(peer: Peer, bridge: &Bridge) {
    for mode in PLAIN {
        let mut wanted = expected(mode, "expect");
        if (peer, mode) == (Peer::Rust, "many") {
            wanted["count"] = RUST_KEEPS.into();
            bridge.say(mode, &format!("many {RUST_KEEPS}")).await.is(&wanted, mode);
        } else {
            bridge.say(mode, mode).await.is(&wanted, mode);
        }
    }
    for mode in QUESTIONS {
        let asked = bridge.say(mode, mode).await;
        asked.is(&expected(mode, "expect"), mode);
        // The same task continues, and earlier content is not shown again.
        bridge.answer(mode, &asked, "prod").await.is(&expected(mode, "expect_reply"), mode);
    }
}

/// An executor that fails. The content before the failure is received, and the reason.
async fn raises(peer: Peer, address: &str, binding: &str) {
    let mut wanted = expected("raise", "expect");
    if peer == Peer::Python0_3 {
        // Its server breaks the connection, with or without the earlier content, and leaves the task `working` without
        // end: only a timeout ends the run.
        let hurried = Bridge::to(address, binding, "timeouts.run = \"10s\"\n").await;
        return hurried.say("raise", "raise").await.failed();
    }
    if peer == Peer::Rust {
        // Its server ends the stream with the error and leaves the task `working` without end: after a few reads the
        // error is accepted.
        wanted["error"] = "boom".into();
    }
    Bridge::to(address, binding, "").await.say("raise", "raise").await.is(&wanted, "raise");
}

macro_rules! suites {
    ($($name:ident: $peer:ident, $binding:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                plays_all_modes(Peer::$peer, $binding).await;
            }
        )*
    };
}

suites! {
    python_1_3_over_json_rpc: Python1_3, "jsonrpc";
    python_1_3_over_rest: Python1_3, "rest";
    python_1_3_over_grpc: Python1_3, "grpc";
    python_0_3_over_json_rpc: Python0_3, "jsonrpc";
    python_0_3_over_rest: Python0_3, "rest";
    python_0_3_over_grpc: Python0_3, "grpc";
    js_1_3_over_json_rpc: Js1_3, "jsonrpc";
    js_1_3_over_rest: Js1_3, "rest";
    js_1_3_over_grpc: Js1_3, "grpc";
    rust_over_json_rpc: Rust, "jsonrpc";
    rust_over_rest: Rust, "rest";
    rust_over_grpc: Rust, "grpc";
}

/// The harness can fail: a mode that differs from its description is detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_notices_what_is_wrong() {
    let server = Peer::Python1_3.serve();
    let bridge = Bridge::to(&server.address, "grpc", "").await;
    let seen = bridge.say("t", "tools").await;
    let wrong = |key: &str, value: serde_json::Value| {
        let mut expected = expected("tools", "expect");
        expected[key] = value;
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| seen.is(&expected, key)));
        assert!(judged.is_err(), "{key} was not looked at");
    };
    wrong("answers", serde_json::json!(["The answer is 43."]));
    wrong("intermediate", serde_json::json!([]));
    wrong("tools", serde_json::json!(["search"]));
    wrong("outcome", serde_json::json!("error"));
    wrong("files", serde_json::json!([{"name": "a.png"}]));
    wrong("question", serde_json::json!("Which?"));
    wrong("count", serde_json::json!(1));
    seen.is(&expected("tools", "expect"), "tools");
}

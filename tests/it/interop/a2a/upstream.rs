//! Our client, through the gateway, against the servers of the real SDKs: every mode over every binding.

use super::bridge::Bridge;
use super::modes::{Peer, expected};

/// Modes that need nothing but a message.
const PLAIN: [&str; 6] = ["tools", "interleaved", "fail", "slow", "bare", "files"];

/// Modes that ask, and the answer that they get.
const QUESTIONS: [&str; 2] = ["ask", "auth"];

async fn plays_all_modes(peer: Peer, binding: &str) {
    let mut server = peer.serve();
    let bridge = Bridge::to(&server.address, binding, "").await;
    for mode in PLAIN {
        bridge.say(mode, mode).await.is(&expected(mode, "expect"), mode);
    }
    let mut counted = expected("many", "expect");
    if peer == Peer::Js1_3 {
        // That server's time grows with the square of a task's chunks: 3,000 events took 45 s on a busy machine.
        counted["count"] = serde_json::json!(500);
    }
    bridge.say("many", &format!("many {}", counted["count"])).await.is(&counted, "many");
    if peer == Peer::Python0_3 {
        // Its server breaks the connection, with or without what was said before, and takes the task for working for
        // ever: only a limit of time ends the run.
        let hurried = Bridge::to(&server.address, binding, "timeouts.run = \"10s\"\n").await;
        hurried.say("raise", "raise").await.failed();
    } else {
        bridge.say("raise", "raise").await.is(&expected("raise", "expect"), "raise");
    }
    for mode in QUESTIONS {
        let asked = bridge.say(mode, mode).await;
        asked.is(&expected(mode, "expect"), mode);
        // The same task goes on, and what was shown before is not shown again.
        bridge.answer(mode, &asked, "prod").await.is(&expected(mode, "expect_reply"), mode);
    }
    bridge.say_and_stop("wait", "so far").await.is(&expected("wait", "expect"), "wait");
    // The agent was told. Servers log there too; a test that waits for ever is ended by its runner.
    while server.error_line() != "cancelled" {}
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
}

/// The harness can fail: a mode that is not what it is said to be is noticed.
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

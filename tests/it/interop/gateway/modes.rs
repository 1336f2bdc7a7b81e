//! The npm AG-UI clients ► gateway ► Python agents, over every binding, in every mode: the client ends with exactly the
//! content of the agent, in its order, with its outcome.

use serde_json::{Value, json};

use super::expected::{differences, expected};
use super::frontend::{Client, Frontend, case};
use super::stage::{BINDINGS, Peer, Stage};

/// Modes that need nothing but their name.
const PLAIN: [&str; 6] = ["tools", "interleaved", "fail", "slow", "bare", "files"];

/// Modes that ask.
const QUESTIONS: [&str; 2] = ["ask", "auth"];

/// The reply of the user to interrupts.
const ANSWER: &str = "prod";

/// The modes that are played over one binding, one after the other.
fn modes(client: Client, binding: &str) -> Vec<&'static str> {
    // 5,000 chunks cost a Python server 4 s of CPU: the older client reads them over one binding, fewer over the others.
    let many = if client == Client::V1_0 || binding == "jsonrpc" { "many 5000" } else { "many 500" };
    PLAIN.into_iter().chain(QUESTIONS).chain([many]).collect()
}

fn plays_all_modes(client: Client, peer: Peer) {
    let stage = Stage::new(&format!("modes-{client:?}-{peer:?}"), peer, "log.level = \"error\"", "");
    let name = |binding: &str, mode: &str| format!("{binding} {mode}");
    let row = |binding: &str| -> Vec<Value> {
        let url = stage.url(binding);
        let turns = |mode| if QUESTIONS.contains(&mode) { vec![mode, ANSWER] } else { vec![mode] };
        modes(client, binding)
            .into_iter()
            .map(|mode| case(&name(binding, mode), &url, &turns(mode)))
            .collect()
    };
    let mut rows: Vec<Vec<Value>> = BINDINGS.into_iter().map(row).collect();
    // The server of 0.3 breaks the connection when its agent raises, and leaves the task `working` without end: only a
    // timeout ends the run.
    let raising = if peer == Peer::Python0_3 { "hurried-" } else { "" };
    rows.extend(BINDINGS.map(|binding| {
        vec![case(&name(binding, "raise"), &stage.url(&format!("{raising}{binding}")), &["raise"])]
    }));
    let seen = Frontend::start(client).play_all(rows);
    let mut wrong = Vec::new();
    for binding in BINDINGS {
        for mode in modes(client, binding).into_iter().chain(["raise"]) {
            let mut turns = seen[&name(binding, mode)].clone();
            if mode == "raise" && peer == Peer::Python0_3 {
                supply_what_may_be_lost(&mut turns);
            }
            let found = differences(&turns, &expected(mode, client, ANSWER));
            wrong.extend(found.iter().map(|found| format!("{binding} {mode}: {found}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// That server breaks the connection with or without the earlier content; nothing else may be present.
fn supply_what_may_be_lost(turns: &mut Value) {
    let messages = turns[0]["messages"].as_array_mut().unwrap();
    if messages.iter().all(|message| message["role"] != "reasoning") {
        messages.insert(1, json!({ "role": "reasoning", "content": "Trying." }));
    }
}

#[test]
fn client_1_0_reads_python_1_3() {
    plays_all_modes(Client::V1_0, Peer::Python1_3);
}

#[test]
fn client_1_0_reads_python_0_3() {
    plays_all_modes(Client::V1_0, Peer::Python0_3);
}

#[test]
fn client_0_0_59_reads_python_1_3() {
    plays_all_modes(Client::V0_0_59, Peer::Python1_3);
}

#[test]
fn client_0_0_59_reads_python_0_3() {
    plays_all_modes(Client::V0_0_59, Peer::Python0_3);
}

/// The harness can fail: a mode that differs from its description is detected.
#[test]
fn what_is_wrong_is_noticed() {
    let stage = Stage::new("modes-wrong", Peer::Python1_3, "log.level = \"error\"", "");
    let mut frontend = Frontend::start(Client::V1_0);
    for mode in ["tools", "files", "fail", "ask"] {
        let seen = frontend.play(&case(mode, &stage.url("grpc"), &[mode]));
        let right = expected(mode, Client::V1_0, "")[..1].to_vec();
        assert_eq!(differences(&seen, &right), Vec::<String>::new(), "{mode}");
        let wrong = |change: &dyn Fn(&mut Value)| {
            let mut wrong = right.clone();
            change(&mut wrong[0]);
            assert_ne!(differences(&seen, &wrong), Vec::<String>::new(), "{mode}: {}", wrong[0]);
        };
        wrong(&|turn| turn["messages"][0]["content"] = json!("else"));
        wrong(&|turn| turn["messages"].as_array_mut().unwrap().reverse_or_grow());
        wrong(&|turn| turn["customs"] = json!([{ "name": "aqueduct.file", "value": {} }]));
        wrong(&|turn| turn["outcome"] = json!("cancelled"));
        wrong(&|turn| turn["question"] = json!("Which?"));
        wrong(&|turn| turn["error"] = json!("The disk is empty."));
    }
}

/// Another order, or one more where there is none.
trait Disorder {
    fn reverse_or_grow(&mut self);
}

impl Disorder for Vec<Value> {
    fn reverse_or_grow(&mut self) {
        if self.len() > 1 {
            self.reverse();
        } else {
            self.push(json!({ "role": "assistant", "content": "More." }));
        }
    }
}

//! Requests as clients of frameworks write them. The clients themselves are in `cargo xtask interop frameworks`.

use serde_json::{Value, json};

use super::support::{Served, payloads, serve};
use crate::program::root;

/// What `AGUIChatClient` of agent-framework-ag-ui 1.7.0 posts: the ids in `snake_case`, `resume` in `camelCase`.
fn agent_framework(thread: &str, run: &str, words: &str, resume: Option<Value>) -> Value {
    let message = json!({ "role": "user", "content": words, "id": format!("{run}-m") });
    let mut request = json!({ "thread_id": thread, "run_id": run, "messages": [message] });
    if let Some(resume) = resume {
        request["resume"] = resume;
    }
    request
}

async fn post(served: &Served, agent: &str, request: &Value) -> Vec<Value> {
    let response = served.send(served.post(&format!("/agents/{agent}"), request)).await;
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert_eq!(response.status(), 200, "{text}");
    payloads(&text)
}

/// The texts of a run, one per message.
fn texts(events: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "TEXT_MESSAGE_START" => texts.push(String::new()),
            "TEXT_MESSAGE_CONTENT" => texts.last_mut().unwrap().push_str(event["delta"].as_str().unwrap()),
            _ => {}
        }
    }
    texts
}

#[tokio::test]
async fn agent_framework_reads_words_alone_and_replies() {
    let file = |name: &str| root().join("scripts").join(name).display().to_string();
    let (team, question) = (file("demo-team.toml"), file("demo-question.toml"));
    let toml = format!(
        "[agents.team]\nscript.file = {team:?}\nsubagents = \"hidden\"\n\
         [agents.question]\nscript.file = {question:?}\n\
         [agents.asking]\nscript.file = {question:?}\ninterrupts = \"interrupt\"\n"
    );
    let served = serve(&toml, &[]).await;
    let answer = post(&served, "team", &agent_framework("t1", "r1", "go", None)).await;
    // The answer of the root alone: neither the answers of its sub-agents nor their work.
    assert_eq!(texts(&answer), ["You asked: go. The team says: safe, fast, and with tools that agree."]);
    let is_work = |event: &&Value| {
        let kind = event["type"].as_str().unwrap();
        ["TOOL_CALL_", "SUBAGENT_", "STEP_"].iter().any(|work| kind.starts_with(work))
    };
    let work: Vec<&Value> = answer.iter().filter(is_work).collect();
    assert!(work.is_empty(), "{work:#?}");

    let asked = post(&served, "question", &agent_framework("t2", "r2", "go", None)).await;
    assert_eq!(texts(&asked), ["I can book the early train or the late one.", "Which one do you want?"]);
    let answer = post(&served, "question", &agent_framework("t2", "r3", "late", None)).await;
    assert_eq!(texts(&answer), ["Done: late."]);

    let asked = post(&served, "asking", &agent_framework("t4", "r4", "go", None)).await;
    let interrupt = &asked.last().unwrap()["outcome"]["interrupts"][0];
    assert_eq!(interrupt["message"], "Which one do you want?");
    let reply = json!([{ "interruptId": interrupt["id"], "status": "resolved", "payload": "late" }]);
    let answer = post(&served, "asking", &agent_framework("t4", "r5", "late", Some(reply))).await;
    assert_eq!(texts(&answer), ["Done: late."]);
}

//! Questions of sub-agents that the user of the run answers: the supervisor's call is held, and goes on with the reply.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::MemoryLog;
use aqueduct_transport_http::{Client, ClientConfig};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::support::{Served, answer, events, input, payloads, serve_gateway};
use super::peer::{Called, Door, Peer, begun, chunk, done, frame, status, task};
use super::{Place, Scene, lane, lanes, supervisor};

/// Far longer than anything here takes.
const SOON: Duration = Duration::from_secs(30);

/// A sub-agent that asks, and repeats the reply. A reply with `again` is asked once more.
async fn asking() -> Peer {
    Peer::start(|asked, out| {
        Box::pin(async move {
            let message = &asked.body["params"]["message"];
            if message["taskId"].is_null() {
                let question = status("a", "INPUT_REQUIRED", "which cluster?");
                return out
                    .answer(&asked, &[begun("a"), chunk("a", "looking ", false), question].concat())
                    .await;
            }
            let words = message["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
            if words == "again" {
                let question = status("a", "INPUT_REQUIRED", "really which?");
                return out.answer(&asked, &[begun("a"), question].concat()).await;
            }
            let frames = [begun("a"), chunk("a", &format!("at {words}"), true), done("a")];
            out.answer(&asked, &frames.concat()).await;
        })
    })
    .await
}

/// A supervisor that calls `a` by a stream, and what it gets.
async fn streaming(door: &Door) -> (Peer, mpsc::Receiver<String>) {
    let (sender, got) = mpsc::channel(4);
    let supervisor = supervisor(door, move |door, asked| {
        let sender = sender.clone();
        Box::pin(async move {
            let bytes = door.call("a", &Called::by(&asked)).await;
            sender.try_send(bytes).unwrap();
        })
    })
    .await;
    (supervisor, got)
}

fn config(supervisor: &Peer, sub: &Peer, more: &str) -> String {
    format!(
        "[agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n{more}\n\
         [agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\nquestions = \"user\"\n",
        supervisor.url, sub.url
    )
}

/// The interrupts of a run that ended with some.
fn interrupts(events: &[Value]) -> Vec<Value> {
    let end = events.last().unwrap();
    assert_eq!(end["outcome"]["type"], "interrupt", "{events:#?}");
    end["outcome"]["interrupts"].as_array().unwrap().clone()
}

fn reply(run: &str, interrupt: &Value, reply: &Value) -> Value {
    let mut body = input(run, Some("1.0"));
    let mut entry = json!({ "interruptId": interrupt["id"] });
    entry.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
    body["resume"] = json!([entry]);
    body
}

fn words(words: &str) -> Value {
    json!({ "status": "resolved", "payload": words })
}

/// The events that a client of the stream reads, without comments.
fn results(bytes: &str) -> Vec<Value> {
    payloads(bytes).into_iter().map(|event| event["result"].clone()).collect()
}

#[tokio::test]
async fn the_user_answers_and_the_supervisor_sees_the_task_go_on() {
    let (door, mut sub) = (Door::default(), asking().await);
    let (supervisor, mut got) = streaming(&door).await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    let first = served.run("s", "r").await;
    let asked = interrupts(&first);
    assert_eq!(asked.len(), 1, "{first:#?}");
    assert_eq!(asked[0]["message"], "which cluster?");
    assert_eq!(lanes(&first), [lane("a", "", "looking ", "suspended")]);
    assert!(got.try_recv().is_err(), "the supervisor waits");

    // As CopilotKit replies: under the id of the run that asked.
    let second = events(&served.send(served.post("/agents/s", &reply("r", &asked[0], &words("prod")))).await);
    assert_eq!(answer(&second), "all is well", "{second:#?}");
    assert_eq!(lanes(&second), [lane("a", "", "at prod", "success")]);
    assert_eq!(second.last().unwrap()["outcome"]["type"], "success");
    assert_eq!(second[0]["runId"], "r");

    let sent = sub.next("SendStreamingMessage").await.body;
    let replied = sub.next("SendStreamingMessage").await.body;
    let message = &replied["params"]["message"];
    assert_eq!((&message["taskId"], &message["contextId"]), (&json!("a"), &json!("a-context")));
    assert_eq!(message["parts"], json!([{ "text": "prod" }]));
    assert_ne!(message["messageId"], sent["params"]["message"]["messageId"]);
    assert_eq!((&replied["id"], &replied["params"]["metadata"]), (&sent["id"], &sent["params"]["metadata"]));

    let seen = results(&got.recv().await.unwrap());
    let working =
        json!({ "taskId": "a", "contextId": "a-context", "status": { "state": "TASK_STATE_WORKING" } });
    let of = |frames: &[String]| results(&frames.concat());
    let expected = [
        of(&[begun("a"), chunk("a", "looking ", false)]),
        // The task is named once.
        of(&[frame(&json!({ "statusUpdate": working }))]),
        of(&[chunk("a", "at prod", true), done("a")]),
    ];
    assert_eq!(seen, expected.concat());
    assert_eq!(served.gateway.runs().active_runs(), 0);
}

#[tokio::test]
async fn a_second_question_is_raised_again_and_a_decline_is_passed_on() {
    let (door, mut sub) = (Door::default(), asking().await);
    let (supervisor, mut got) = streaming(&door).await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    let first = interrupts(&served.run("s", "r").await);
    let second = served.send(served.post("/agents/s", &reply("r2", &first[0], &words("again")))).await;
    let second = interrupts(&events(&second));
    assert_eq!(second[0]["message"], "really which?");
    assert_ne!(second[0]["id"], first[0]["id"]);
    let declined = reply("r3", &second[0], &json!({ "status": "cancelled" }));
    let third = events(&served.send(served.post("/agents/s", &declined)).await);
    assert_eq!(answer(&third), "all is well", "{third:#?}");
    for _ in 0..2 {
        sub.next("SendStreamingMessage").await;
    }
    let parts = &sub.next("SendStreamingMessage").await.body["params"]["message"]["parts"];
    assert_eq!(parts[0]["text"], "The user declined to answer.");
    assert!(!got.recv().await.unwrap().contains("INPUT_REQUIRED"));
}

/// Replies are bound to the interrupt, and taken once.
#[tokio::test]
async fn a_reply_to_another_interrupt_or_a_second_one_is_refused_by_name() {
    let (door, sub) = (Door::default(), asking().await);
    let (supervisor, _got) = streaming(&door).await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    let asked = interrupts(&served.run("s", "r").await);
    let wrong = reply("r2", &json!({ "id": "raised~r~99" }), &words("prod"));
    let refused = served.send(served.post("/agents/s", &wrong)).await;
    assert_eq!(refused.status(), 409);
    assert!(String::from_utf8_lossy(refused.body()).contains("raised~r~99"));
    let body = reply("r2", &asked[0], &words("prod"));
    assert_eq!(answer(&events(&served.send(served.post("/agents/s", &body)).await)), "all is well");
    let late = served.send(served.post("/agents/s", &reply("r3", &asked[0], &words("test")))).await;
    assert_eq!(late.status(), 409);
    assert!(String::from_utf8_lossy(late.body()).contains("answered already"));
}

/// A user who answers in words, where questions are texts.
#[tokio::test]
async fn a_message_answers_the_only_question() {
    let (door, mut sub) = (Door::default(), asking().await);
    let (supervisor, _got) = streaming(&door).await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    interrupts(&served.run("s", "r").await);
    let mut body = input("r2", Some("1.0"));
    body["messages"] = json!([{ "id": "m2", "role": "user", "content": "prod" }]);
    let second = events(&served.send(served.post("/agents/s", &body)).await);
    assert_eq!(lanes(&second), [lane("a", "", "at prod", "success")]);
    sub.next("SendStreamingMessage").await;
    let parts = &sub.next("SendStreamingMessage").await.body["params"]["message"]["parts"];
    assert_eq!(*parts, json!([{ "text": "prod" }]));
}

#[tokio::test]
async fn a_blocking_call_is_held_too() {
    let door = Door::default();
    let sub = Peer::start(|asked, out| {
        Box::pin(async move {
            if asked.body["params"]["message"]["taskId"].is_null() {
                let mut task = task("a", "INPUT_REQUIRED");
                let parts = json!([{ "text": "which cluster?" }]);
                task["status"]["message"] = json!({ "messageId": "q", "role": "ROLE_AGENT", "parts": parts });
                return out.whole(&json!({ "task": task })).await;
            }
            let mut task = task("a", "COMPLETED");
            let reply = asked.body["params"]["message"]["parts"][0]["text"].clone();
            task["artifacts"] = json!([{ "artifactId": "A", "parts": [{ "text": reply }] }]);
            out.whole(&json!({ "task": task })).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            let response =
                client.request(door.request("a", "SendMessage", &Called::by(&asked))).await.unwrap();
            let task: Value = serde_json::from_slice(response.body()).unwrap();
            let state = &task["result"]["task"]["status"]["state"];
            assert_eq!(state, "TASK_STATE_COMPLETED", "{task}");
        })
    })
    .await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    let asked = interrupts(&served.run("s", "r").await);
    let second =
        events(&served.send(served.post("/agents/s", &reply("r2", &asked[0], &words("prod")))).await);
    assert_eq!(answer(&second), "all is well", "{second:#?}");
    assert_eq!(lanes(&second), [lane("a", "", "prod", "success")]);
}

/// Without a reply the supervisor receives the interrupt, and a late reply is refused by name.
#[tokio::test]
async fn a_question_without_a_reply_goes_to_the_supervisor() {
    let (door, sub) = (Door::default(), asking().await);
    let (mut supervisor, mut got) = streaming(&door).await;
    let more = "timeouts.reply = \"50ms\"";
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, more)).await;
    let asked = interrupts(&served.run("s", "r").await);
    let bytes = timeout(SOON, got.recv()).await.unwrap().unwrap();
    assert!(bytes.contains("INPUT_REQUIRED") && bytes.contains("which cluster?"), "{bytes}");
    timeout(SOON, supervisor.next("CancelTask")).await.expect("the supervisor is stopped");
    let late = served.send(served.post("/agents/s", &reply("r2", &asked[0], &words("prod")))).await;
    assert_eq!(late.status(), 409);
    assert!(String::from_utf8_lossy(late.body()).contains("timeouts.reply"), "{:?}", late.body());
}

/// A call that another replica carries is not held: the supervisor answers.
#[tokio::test]
async fn a_call_at_another_replica_leaves_the_question_to_the_supervisor() {
    let (door, sub) = (Door::default(), asking().await);
    let (supervisor, mut got) = streaming(&door).await;
    let served = Scene::start(Place::Elsewhere, &door, &config(&supervisor, &sub, "")).await;
    let events = served.run("s", "r").await;
    assert_eq!(answer(&events), "all is well");
    assert!(got.recv().await.unwrap().contains("INPUT_REQUIRED"));
    assert!(json!(events).to_string().contains("which cluster?"));
}

/// The reply may come to any replica of the log.
#[tokio::test]
async fn a_reply_at_another_replica_reaches_the_call() {
    let (door, sub) = (Door::default(), asking().await);
    let (supervisor, _got) = streaming(&door).await;
    // That it is one in memory is nothing that they can tell.
    let log = Arc::new(MemoryLog::default());
    let shared = "[runs]\nlog = \"redis\"\nredis = \"env:R\"\n";
    let toml = format!("{shared}{}", config(&supervisor, &sub, ""));
    let serve = async || -> Served {
        let environment = [("R".to_owned(), "redis://127.0.0.1:1".to_owned())];
        let mut config = load(Path::new("aqueduct.toml"), &toml, environment).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        serve_gateway(Gateway::with_log(config, Arc::clone(&log) as _).unwrap()).await
    };
    let (one, two) = (serve().await, serve().await);
    door.is_at(one.address);
    let asked = interrupts(&one.run("s", "r").await);
    let second = events(&two.send(two.post("/agents/s", &reply("r2", &asked[0], &words("prod")))).await);
    assert_eq!(answer(&second), "all is well", "{second:#?}");
    assert_eq!(lanes(&second), [lane("a", "", "at prod", "success")]);
}

/// A refusal of the reply is no event of the supervisor's stream: the lane fails, and the stream is cut.
#[tokio::test]
async fn a_refused_reply_fails_the_call() {
    let (door, sub) = (Door::default(), refusing_replies().await);
    let (supervisor, mut got) = streaming(&door).await;
    let served = Scene::start(Place::Here, &door, &config(&supervisor, &sub, "")).await;
    let asked = interrupts(&served.run("s", "r").await);
    let body = reply("r2", &asked[0], &words("prod"));
    let second = events(&served.send(served.post("/agents/s", &body)).await);
    let bytes = got.recv().await.unwrap();
    assert!(!bytes.contains("broken inside"), "{bytes}");
    assert_eq!(lanes(&second), [lane("a", "", "", "upstream_refused")], "{second:#?}");
    assert!(json!(second).to_string().contains("500 Internal Server Error: broken inside"), "{second:#?}");
}

/// A sub-agent that asks, and responds to the reply with an error of REST.
async fn refusing_replies() -> Peer {
    Peer::start(|asked, mut out| {
        Box::pin(async move {
            if asked.body["params"]["message"]["taskId"].is_null() {
                let question = status("a", "INPUT_REQUIRED", "which cluster?");
                return out.answer(&asked, &[begun("a"), question].concat()).await;
            }
            let body = json!({ "error": { "code": 500, "status": "INTERNAL", "message": "broken inside" } });
            let head = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\nconnection: close\r\n";
            out.say(&format!("{head}\r\n{body}")).await;
        })
    })
    .await
}

//! What the methods do: sending, following up, cancelling, listing, watching.

use std::time::Duration;

use aqueduct_adapter_a2a::server::{MESSAGE_REPLY, ServerConfig, TRUNCATED, TaskLimits};
use aqueduct_core::{
    ContentBlock, Interrupt, RunFailure, RunInput, RunOutcome, Source, SourceEvent, Update, wellknown,
};
use serde_json::{Value, json};

use super::support::{Ask, Served, events_of, message, message_to, read, serve, serve_with, settle};

fn say(text: &str) -> SourceEvent {
    SourceEvent::from(Update::new(ContentBlock::text(text.to_owned())))
}

fn finish() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

fn ask_for(reason: &'static str) -> Vec<SourceEvent> {
    let mut interrupt = Interrupt::new("q-1", reason);
    interrupt.message = Some("Which cluster?".into());
    vec![
        say("Hm."),
        SourceEvent::InterruptRequested { source: Source::root(), interrupt: Box::new(interrupt) },
        SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
    ]
}

/// Asks first; once it is answered, says the answer.
fn asking(input: &RunInput) -> Vec<SourceEvent> {
    match input.resume.first() {
        None => ask_for("input_required"),
        Some(reply) => vec![say(reply.payload.as_ref().and_then(Value::as_str).unwrap_or("?")), finish()],
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

async fn begin(served: &Served, text: &str) -> Value {
    let params = json!({"message": message(text), "configuration": {"returnImmediately": true}});
    served.rpc("SendMessage", params).await["result"]["task"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_blocking_message_waits_for_the_end_and_another_does_not() {
    let served = serve(|_| vec![say("done"), finish()]);
    let whole = served.rpc("SendMessage", json!({"message": message("hi")})).await;
    let task = &whole["result"]["task"];
    assert_eq!(state(task), "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "done"}]));
    assert!(task["status"]["timestamp"].as_str().unwrap().ends_with('Z'));
    let said = json!({"messageId": "m-1", "contextId": task["contextId"], "taskId": task["id"], "role": "ROLE_USER",
        "parts": [{"text": "hi"}]});
    assert_eq!(task["history"], json!([said]));

    let task = begin(&served, "OPEN").await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
}

#[tokio::test(start_paused = true)]
async fn a_context_alone_is_another_task_in_it() {
    let served = serve(|_| vec![say("done"), finish()]);
    let first = begin(&served, "hi").await;
    let mut again = message("hi");
    again["contextId"] = first["contextId"].clone();
    let second = served.rpc("SendMessage", json!({ "message": again })).await["result"]["task"].clone();
    assert_eq!(second["contextId"], first["contextId"]);
    assert_ne!(second["id"], first["id"]);
    assert_eq!(served.runs.last().input.thread_id.as_str(), first["contextId"].as_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_a_message_to_its_task() {
    let served = serve(asking);
    let asked =
        served.rpc("SendMessage", json!({"message": message("deploy")})).await["result"]["task"].clone();
    assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED");
    // A watcher stays connected meanwhile.
    let watching = served.open(&Ask::rpc("SubscribeToTask", &json!({"id": asked["id"]}))).await;
    let ask = Ask::rpc("SendStreamingMessage", &json!({"message": message_to(&asked, "prod")}));
    let items = served.ask(&ask).await.items();
    let task = &items[0]["task"];
    assert_eq!((&task["id"], state(task)), (&asked["id"], "TASK_STATE_WORKING"));
    assert_eq!(task["history"].as_array().unwrap().last().unwrap()["contextId"], asked["contextId"]);
    assert_eq!(state(&items.last().unwrap()["statusUpdate"]), "TASK_STATE_COMPLETED");
    let run = served.runs.last();
    assert_eq!(run.input.resume[0].payload, Some(json!("prod")));
    assert!(run.input.parent_run_id.is_some());

    let seen = read(watching).await.items();
    assert_eq!(state(&seen[0]["task"]), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(seen[1..], items[1..], "a watcher sees the answer's run as whoever sent it");
    let whole = served.rpc("GetTask", json!({"id": asked["id"]})).await["result"].clone();
    let answers: Vec<&Value> =
        whole["artifacts"].as_array().unwrap().iter().map(|a| &a["parts"][0]["text"]).collect();
    assert_eq!(answers, ["Hm.", "prod"]);
}

#[tokio::test(start_paused = true)]
async fn authorisation_is_asked_for_as_such() {
    let served = serve(|_| ask_for("auth_required"));
    let asked = served.rpc("SendMessage", json!({"message": message("deploy")})).await;
    assert_eq!(state(&asked["result"]["task"]), "TASK_STATE_AUTH_REQUIRED");
}

#[tokio::test(start_paused = true)]
async fn failures_and_refusals_are_told_as_what_they_are() {
    let served = serve(|input| {
        let code =
            if input.latest_user_message().unwrap().text() == "no" { "agent_rejected" } else { "oops" };
        vec![say("I try."), SourceEvent::Failed(RunFailure::new(code, "It does not work."))]
    });
    for (text, expected) in [("yes", "TASK_STATE_FAILED"), ("no", "TASK_STATE_REJECTED")] {
        let task =
            served.rpc("SendMessage", json!({"message": message(text)})).await["result"]["task"].clone();
        assert_eq!(state(&task), expected);
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "It does not work.");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_can_answer_with_a_message() {
    let served = serve(|_| {
        let sign = Update::new(ContentBlock::custom(MESSAGE_REPLY, Value::Null));
        let file = json!({"url": "https://x.test/a.png", "mediaType": "image/png"});
        let file = Update::new(ContentBlock::custom(wellknown::FILE, file));
        vec![SourceEvent::from(sign), say("Hello "), say("there."), SourceEvent::from(file), finish()]
    });
    let answer = served.rpc("SendMessage", json!({"message": message("hi")})).await;
    let reply = &answer["result"]["message"];
    assert_eq!(reply["role"], "ROLE_AGENT");
    assert_eq!(
        reply["parts"],
        json!([{"text": "Hello there."}, {"url": "https://x.test/a.png", "mediaType": "image/png"}])
    );
    let items =
        served.ask(&Ask::rpc("SendStreamingMessage", &json!({"message": message("hi")}))).await.items();
    assert_eq!(items.len(), 1);
    assert!(items[0]["message"].is_object());
    assert_eq!(served.rpc("ListTasks", json!({})).await["result"]["totalSize"], 0, "no task is kept");
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_run_the_task_and_its_streams() {
    let served = serve(asking);
    let stream = served.open(&Ask::rpc("SendStreamingMessage", &json!({"message": message("OPEN")}))).await;
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = json!("id-0");
    let cancel = async || served.rpc("CancelTask", json!({ "id": id })).await;
    // The window must be over for the task to be known.
    let reading = tokio::spawn(read(stream));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&cancel().await["result"]), "TASK_STATE_CANCELED");
    let items = reading.await.unwrap().items();
    assert_eq!(state(&items.last().unwrap()["statusUpdate"]), "TASK_STATE_CANCELED");
    assert_eq!(cancel().await["error"]["code"], -32002);

    // One that waits has no run to end.
    let asked =
        served.rpc("SendMessage", json!({"message": message("deploy")})).await["result"]["task"].clone();
    let watching = served.open(&Ask::rpc("SubscribeToTask", &json!({"id": asked["id"]}))).await;
    let cancelled = served.rpc("CancelTask", json!({"id": asked["id"]})).await;
    assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED");
    assert_eq!(state(&read(watching).await.items().last().unwrap()["statusUpdate"]), "TASK_STATE_CANCELED");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_stop_is_answered_as_it_is() {
    let served = serve(asking);
    let task = begin(&served, "OPEN").await;
    // The run ends by itself while it is being cancelled.
    let run = served.runs.last();
    for event in events_of(&run.input, vec![say("done"), finish()]) {
        run.push(event);
    }
    let answer = served.rpc("CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn history_is_as_long_as_asked_for() {
    let served = serve(asking);
    let task =
        served.rpc("SendMessage", json!({"message": message("deploy")})).await["result"]["task"].clone();
    served.rpc("SendMessage", json!({"message": message_to(&task, "prod")})).await;
    let length = async |ask: &Ask| {
        let body = served.ask(ask).await.body;
        let task = body.get("result").unwrap_or(&body);
        task["history"].as_array().map_or(0, Vec::len)
    };
    let id = &task["id"];
    let all = length(&Ask::rpc("GetTask", &json!({ "id": id }))).await;
    assert!(all >= 3);
    assert_eq!(length(&Ask::rpc("GetTask", &json!({"id": id, "historyLength": 0}))).await, 0);
    assert_eq!(length(&Ask::rpc("GetTask", &json!({"id": id, "historyLength": 1}))).await, 1);
    let id = id.as_str().unwrap();
    assert_eq!(length(&Ask::get(&format!("/tasks/{id}?historyLength=2"))).await, 2);
    let old = Ask::rpc("tasks/get", &json!({"id": id, "historyLength": 0}));
    assert_eq!(length(&old).await, all, "0.3: zero is all");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_newest_first_page_by_page() {
    let served = serve(|_| vec![say("done"), finish()]);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(begin(&served, "hi").await["id"].clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let open = begin(&served, "OPEN").await;
    ids.push(open["id"].clone());
    ids.reverse();
    let mut found = Vec::new();
    let mut token = json!("");
    for expected in [2, 2, 2] {
        let page =
            served.rpc("ListTasks", json!({"pageSize": 2, "pageToken": token})).await["result"].clone();
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(6), &json!(2)));
        let tasks = page["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), expected);
        assert!(tasks.iter().all(|task| task.get("artifacts").is_none()));
        found.extend(tasks.iter().map(|task| task["id"].clone()));
        token = page["nextPageToken"].clone();
    }
    assert_eq!((found, token), (ids, json!("")));

    let count = async |filter: &str| {
        let page = served.ask(&Ask::get(&format!("/tasks?{filter}"))).await.body;
        page["totalSize"].as_u64().unwrap_or_else(|| panic!("{filter}: {page}"))
    };
    assert_eq!(count("status=TASK_STATE_COMPLETED").await, 5);
    assert_eq!(count("status=TASK_STATE_SUBMITTED").await, 1);
    assert_eq!(count(&format!("contextId={}", open["contextId"].as_str().unwrap())).await, 1);
    assert_eq!(count("statusTimestampAfter=2027-01-15T08%3A00%3A02.500Z").await, 3);
    let newest = served.rpc("ListTasks", json!({"pageSize": 1})).await["result"]["tasks"][0].clone();
    let at = newest["status"]["timestamp"].as_str().unwrap().replace(':', "%3A");
    assert_eq!(count(&format!("statusTimestampAfter={at}")).await, 1, "what was seen last is shown again");
    let with =
        served.rpc("ListTasks", json!({"includeArtifacts": true, "status": "TASK_STATE_COMPLETED"})).await;
    assert_eq!(with["result"]["tasks"][0]["artifacts"][0]["parts"][0]["text"], "done");
}

/// `ProtoJSON` readers take the names of the proto file too, enums by their numbers, and whole numbers with a point.
#[tokio::test(start_paused = true)]
async fn members_may_be_written_as_in_the_proto_file() {
    let served = serve(asking);
    let said = json!({"message_id": "m-1", "role": 1, "context_id": "c", "parts": [{"text": "x"}]});
    let params = json!({"message": said, "configuration": {"history_length": 0}});
    let task = served.rpc("SendMessage", params).await["result"]["task"].clone();
    assert_eq!((&task["contextId"], task.get("history")), (&json!("c"), None), "{task}");
    for length in [json!(1), json!(1.0), json!("1")] {
        let shown = served.rpc("GetTask", json!({"id": task["id"], "history_length": length})).await;
        assert_eq!(shown["result"]["history"].as_array().map(Vec::len), Some(1), "{length}: {shown}");
    }
    let params = json!({"message": message("OPEN"), "configuration": {"return_immediately": true}});
    assert!(served.rpc("SendMessage", params).await["result"]["task"].is_object());
    let total = async |ask: Ask| {
        let body = served.ask(&ask).await.body;
        body.get("result").unwrap_or(&body)["totalSize"].as_u64().unwrap_or_else(|| panic!("{body}"))
    };
    assert_eq!(total(Ask::rpc("ListTasks", &json!({"context_id": "c", "page_size": 1}))).await, 1);
    assert_eq!(total(Ask::rpc("ListTasks", &json!({"status": 6}))).await, 1);
    assert_eq!(total(Ask::get("/tasks?context_id=c")).await, 1);
    let listed = served.rpc("ListTasks", json!({"context_id": "c", "include_artifacts": true})).await;
    assert!(listed["result"]["tasks"][0]["artifacts"].is_array(), "{listed}");
    let none = served.rpc("ListTasks", json!({"status_timestamp_after": "2099-01-01T00:00:00Z"})).await;
    assert_eq!(none["result"]["totalSize"], 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_bounded() {
    let limits = TaskLimits { tasks: 3, tasks_per_caller: 2, artifact_bytes: 40, ..TaskLimits::default() };
    let served = serve_with(ServerConfig { limits, ..ServerConfig::default() }, |input| {
        let text = input.latest_user_message().unwrap().text();
        if text == "ask" { ask_for("input_required") } else { vec![say(&text), finish()] }
    });
    let send = async |token: &str, text: &str| {
        let answer =
            served.ask(&Ask::rpc("SendMessage", &json!({"message": message(text)})).by(token)).await.body;
        tokio::time::sleep(Duration::from_millis(5)).await;
        answer["result"]["task"].clone()
    };
    let knows = async |token: &str, task: &Value| {
        served
            .ask(&Ask::rpc("GetTask", &json!({"id": task["id"]})).by(token))
            .await
            .body
            .get("result")
            .is_some()
    };
    let waits = send("ann", "ask").await;
    let ended = send("ann", "hi").await;
    assert!(knows("ann", &waits).await && knows("ann", &ended).await);
    let third = send("ann", "hi").await;
    assert!(knows("ann", &waits).await && knows("ann", &third).await, "what has ended goes first");
    assert!(!knows("ann", &ended).await);
    let of_bob = send("bob", "hi").await;
    let of_cid = send("cid", "hi").await;
    assert!(knows("cid", &of_cid).await && knows("bob", &of_bob).await && !knows("ann", &third).await);

    // Tasks at work are never pushed out; then there is no room.
    for token in ["dan", "eve", "fay"] {
        let params = json!({"message": message("OPEN"), "configuration": {"returnImmediately": true}});
        assert!(served.ask(&Ask::rpc("SendMessage", &params).by(token)).await.body.get("result").is_some());
    }
    let full = served.ask(&Ask::rpc("SendMessage", &json!({"message": message("hi")})).by("gus")).await.body;
    assert_eq!(full["error"]["data"][0]["reason"], "UNAVAILABLE", "{full}");
    let runs = served.runs.count();
    assert_eq!(runs, 8, "a task without a place starts no run");
}

/// A client that says much must not fill the memory: what is at rest makes room by its size too.
#[tokio::test(start_paused = true)]
async fn what_is_kept_of_all_tasks_is_bounded_in_bytes() {
    let limits = TaskLimits { bytes: 3_000, history_bytes: 2_500, ..TaskLimits::default() };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let served = serve_with(config, |input| {
        let text = input.latest_user_message().unwrap().text();
        if text.starts_with("ask") { ask_for("input_required") } else { vec![say("ok"), finish()] }
    });
    let send = async |message: Value| {
        let task = served.rpc("SendMessage", json!({ "message": message })).await["result"]["task"].clone();
        tokio::time::sleep(Duration::from_millis(5)).await;
        task
    };
    let total = async || served.rpc("ListTasks", json!({})).await["result"]["totalSize"].clone();
    let long = "x".repeat(1_000);
    let waits = send(message(&format!("ask {long}"))).await;
    let first = send(message(&long)).await;
    assert_eq!(total().await, 2);
    send(message(&long)).await;
    let gone = served.rpc("GetTask", json!({"id": first["id"]})).await;
    assert_eq!(
        (&gone["error"]["code"], total().await),
        (&json!(-32001), json!(2)),
        "what ended first goes first"
    );

    // As above, for the content of one task.
    for _ in 0..3 {
        send(message_to(&waits, &format!("ask {long}"))).await;
    }
    let kept = served.rpc("GetTask", json!({"id": waits["id"]})).await["result"].clone();
    let said = kept["history"].as_array().unwrap();
    let bytes: usize = said.iter().map(|message| message.to_string().len()).sum();
    assert!(bytes < 4_000 && bytes > 1_000, "{bytes}");
    let newest = said.iter().rev().find(|message| message["role"] == "ROLE_USER").unwrap();
    assert!(newest["parts"][0]["text"].as_str().unwrap().ends_with(&long), "the newest stays");

    // One that is too large by itself is kept alone.
    let large = send(message(&"y".repeat(5_000))).await;
    assert_eq!(total().await, 1);
    assert!(served.rpc("GetTask", json!({"id": large["id"]})).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_too_large_says_that_it_is_not_whole() {
    let limits = TaskLimits { artifact_bytes: 40, ..TaskLimits::default() };
    let served = serve_with(ServerConfig { limits, ..ServerConfig::default() }, |_| {
        vec![say(&"x".repeat(100)), finish()]
    });
    let ask = Ask::rpc("SendStreamingMessage", &json!({"message": message("hi")}));
    let items = served.ask(&ask).await.items();
    let told: usize = items
        .iter()
        .filter_map(|item| item["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .map(str::len)
        .sum();
    assert_eq!(told, 100, "streams carry everything");
    let task = served.rpc("GetTask", json!({"id": items[0]["task"]["id"]})).await["result"].clone();
    assert_eq!(task["metadata"][TRUNCATED], true);
}

#[tokio::test(start_paused = true)]
async fn tasks_expire() {
    let served = serve(|_| vec![say("done"), finish()]);
    let task = begin(&served, "hi").await;
    settle().await;
    tokio::time::sleep(Duration::from_secs(3_599)).await;
    assert!(served.rpc("GetTask", json!({"id": task["id"]})).await.get("result").is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let gone = served.rpc("GetTask", json!({"id": task["id"]})).await;
    assert_eq!(gone["error"]["code"], -32001);
}

#[tokio::test(start_paused = true)]
async fn extensions_are_demanded_and_echoed() {
    let config = ServerConfig {
        required_extensions: vec!["https://must".to_owned()],
        extensions: vec!["https://may".to_owned()],
        ..ServerConfig::default()
    };
    let served = serve_with(config, |_| vec![finish()]);
    let ask = Ask::rpc("ListTasks", &json!({}));
    let refused = served.ask(&ask).await;
    assert_eq!(refused.body["error"]["code"], -32008);
    let asked = ask.header("a2a-extensions", "https://may, https://must,https://unknown");
    let answered = served.ask(&asked).await;
    assert!(answered.body.get("result").is_some());
    assert_eq!(answered.header("a2a-extensions"), Some("https://may,https://must"));
}

/// The service takes a second to start the run of the reply; the cancel arrives meanwhile.
#[tokio::test(start_paused = true)]
async fn a_cancel_during_a_reply_ends_the_turn_that_it_starts() {
    let served = serve(asking);
    let asked =
        served.rpc("SendMessage", json!({"message": message("deploy")})).await["result"]["task"].clone();
    let reply = served.rpc("SendMessage", json!({"message": message_to(&asked, "SLOW OPEN")}));
    let cancel = async {
        settle().await;
        served.rpc("CancelTask", json!({"id": asked["id"]})).await
    };
    let (replied, cancelled) = tokio::join!(reply, cancel);
    assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED", "{cancelled}");
    assert_eq!(state(&replied["result"]["task"]), "TASK_STATE_CANCELED", "{replied}");
    assert_eq!(served.runs.count(), 2);
}

/// As above, with a reply that the service refuses: the task still waits, and is cancelled as such.
#[tokio::test(start_paused = true)]
async fn a_cancel_during_a_refused_reply_ends_the_task() {
    let served = serve(asking);
    let asked =
        served.rpc("SendMessage", json!({"message": message("deploy")})).await["result"]["task"].clone();
    let reply = served.rpc("SendMessage", json!({"message": message_to(&asked, "SLOW BUSY")}));
    let cancel = async {
        settle().await;
        served.rpc("CancelTask", json!({"id": asked["id"]})).await
    };
    let (replied, cancelled) = tokio::join!(reply, cancel);
    assert!(replied["error"].is_object(), "{replied}");
    assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED", "{cancelled}");
}

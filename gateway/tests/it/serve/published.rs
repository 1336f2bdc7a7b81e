//! A workflow that its framework publishes is a task for A2A clients who know the id of its run.

use serde_json::{Value, json};

use super::a2a_server::{message, payloads, read, rpc};
use super::replies::{WORKFLOW, connect, feed, publish, runs};
use super::support::serve;

fn state(item: &Value) -> &Value {
    &item["result"]["statusUpdate"]["status"]["state"]
}

fn answer(text: &str) -> Value {
    let mut said = message(text);
    said["taskId"] = json!("r1");
    json!({ "message": said })
}

/// Texts of the artifacts of a task that are its answer.
fn texts(task: &Value) -> Vec<&str> {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    artifacts
        .flat_map(|artifact| artifact["parts"].as_array().unwrap())
        .filter_map(|part| part["text"].as_str())
        .collect()
}

#[tokio::test]
async fn a_published_run_is_watched_and_answered_as_a_task() {
    let served = serve(WORKFLOW, &[]).await;
    let client = connect(&served).await;
    let runs = runs();
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs[0]).await;
    let asked = read(&rpc(&served, "flow", "GetTask", json!({ "id": "r1" })).await);
    let task = &asked["result"];
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert_eq!((&task["id"], &task["contextId"]), (&json!("r1"), &json!("t")));

    let params = answer("Shorter.");
    let answered = rpc(&served, "flow", "SendStreamingMessage", params);
    let framework = async {
        assert_eq!(publisher.reply().await.unwrap().payload, Some(json!("Shorter.")));
        feed(&mut publisher, &runs[1]).await;
    };
    let (response, ()) = tokio::join!(answered, framework);
    let items = payloads(&response);
    assert_eq!(items[0]["result"]["task"]["id"], "r1");
    assert_eq!(state(items.last().unwrap()), "TASK_STATE_INPUT_REQUIRED", "{items:#?}");

    let watched = rpc(&served, "flow", "SubscribeToTask", json!({ "id": "r1" }));
    let params = answer("It stands.");
    let framework = async {
        let answered = rpc(&served, "flow", "SendMessage", params);
        let feeding = async {
            publisher.reply().await.unwrap();
            feed(&mut publisher, &runs[2]).await;
            publisher.finish().await.unwrap();
        };
        tokio::join!(answered, feeding).0
    };
    let (watched, answered) = tokio::join!(watched, framework);
    assert_eq!(state(payloads(&watched).last().unwrap()), "TASK_STATE_COMPLETED");
    let answered = read(&answered);
    assert_eq!(answered["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    assert!(texts(&answered["result"]["task"]).contains(&"Draft 2, shorter."), "{answered}");
}

#[tokio::test]
async fn a_published_run_is_cancelled_as_a_task() {
    let served = serve(WORKFLOW, &[]).await;
    let client = connect(&served).await;
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs()[0][..5]).await;
    let cancelled = read(&rpc(&served, "flow", "CancelTask", json!({ "id": "r1" })).await);
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    assert_eq!(served.gateway.runs().active_runs(), 0);
}

/// Neither the runs of another agent nor those that never were; and who asks at once gets one and the same task.
#[tokio::test]
async fn only_runs_of_the_agent_are_its_tasks() {
    let served = serve(&format!("{WORKFLOW}[agents.other.magentic]\ningest = true\n"), &[]).await;
    let client = connect(&served).await;
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs()[0]).await;
    for (agent, id) in [("other", "r1"), ("flow", "r2")] {
        let unknown = read(&rpc(&served, agent, "GetTask", json!({ "id": id })).await);
        assert_eq!(unknown["error"]["code"], -32001, "{unknown}");
    }
    let get = || rpc(&served, "flow", "GetTask", json!({ "id": "r1" }));
    let (one, two) = tokio::join!(get(), get());
    assert_eq!(read(&one), read(&two));
    let page = read(&rpc(&served, "flow", "ListTasks", json!({})).await);
    assert_eq!(page["result"]["totalSize"], 1, "{page}");
}

//! Push notifications: who is called, with what, how often, and who is not.

use std::time::Duration;

use aqueduct_adapter_a2a::server::{PushPolicy, ServerConfig};
use aqueduct_core::{ContentBlock, RunInput, RunOutcome, SourceEvent, Update};
use serde_json::{Value, json};

use super::support::{Ask, Receiver, Served, message, serve_calling};

const HOOK: &str = "https://hooks.test/a2a";

fn done(_: &RunInput) -> Vec<SourceEvent> {
    let done = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
    vec![SourceEvent::from(Update::new(ContentBlock::text("done"))), done]
}

async fn send(served: &Served, push: Value) -> Value {
    let configuration = json!({"taskPushNotificationConfig": push});
    served.rpc("SendMessage", json!({"message": message("hi"), "configuration": configuration})).await
}

#[tokio::test(start_paused = true)]
async fn every_event_is_told_in_order_with_the_token() {
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let push =
        json!({"url": HOOK, "token": "sesame", "authentication": {"scheme": "Bearer", "credentials": "key"}});
    let task = send(&served, push).await["result"]["task"].clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bodies = receiver.bodies();
    let first = &receiver.got.lock().unwrap()[0];
    let header =
        |name: &str| first.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    assert_eq!(first.address, "93.184.216.34:443".parse().unwrap());
    assert_eq!(
        (header("x-a2a-notification-token"), header("a2a-notification-token")),
        (Some("sesame"), Some("sesame"))
    );
    assert_eq!(
        (header("authorization"), header("content-type")),
        (Some("Bearer key"), Some("application/json"))
    );
    assert_eq!(bodies[0]["statusUpdate"]["taskId"], task["id"]);
    let last = &bodies.last().unwrap()["statusUpdate"]["status"];
    assert_eq!(last, &task["status"], "the end is told as it was");
    let words: String = bodies
        .iter()
        .filter_map(|body| body["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .collect();
    assert_eq!(words, "done");
}

#[tokio::test(start_paused = true)]
async fn clients_of_03_are_told_the_task() {
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]});
    let params = json!({"message": message, "configuration": {"pushNotificationConfig": {"url": HOOK}}});
    served.rpc("message/send", params).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let last = receiver.bodies().last().unwrap().clone();
    assert_eq!((&last["kind"], &last["status"]["state"]), (&json!("task"), &json!("completed")));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_is_called_again_and_then_no_more() {
    let receiver = Receiver::new(&["93.184.216.34"], &[0, 503, 200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let task = send(&served, json!({"url": HOOK})).await;
    assert_eq!(
        task["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED",
        "nobody waits for a receiver"
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    let bodies = receiver.bodies();
    assert_eq!(bodies[0], bodies[1], "the same event until it is taken");
    assert_eq!(bodies[1], bodies[2]);
    assert_ne!(bodies[2], bodies[3]);
    assert_eq!(bodies.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");

    for (status, calls) in [(0, 8), (500, 8), (404, 1), (301, 1)] {
        let gone = Receiver::new(&["93.184.216.34"], &[status]);
        let served = serve_calling(&gone, ServerConfig::default(), done);
        send(&served, json!({"url": HOOK})).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(gone.got.lock().unwrap().len(), calls, "{status}");
    }
}

/// `localhost` leads to `::1` first on many machines, and receivers listen on `127.0.0.1`.
#[tokio::test(start_paused = true)]
async fn every_address_of_a_name_is_tried() {
    let receiver = Receiver::new(&["::1"], &[0, 200]);
    let both = ["::1", "127.0.0.1"].map(|address| address.parse().unwrap());
    *receiver.addresses.lock().unwrap() = vec![both.to_vec()];
    let push = PushPolicy { any_address: true, ..PushPolicy::default() };
    let served = serve_calling(&receiver, ServerConfig { push, ..ServerConfig::default() }, done);
    send(&served, json!({"url": "http://localhost:9999/hook"})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let got = receiver.got.lock().unwrap();
    assert_eq!(got[0].address, "[::1]:9999".parse().unwrap());
    assert_eq!(got[1].address, "127.0.0.1:9999".parse().unwrap(), "at once, not after a pause");
    assert_eq!(got[0].body, got[1].body);
}

/// Done when 5: a hostile push URL is refused unless configured.
#[tokio::test(start_paused = true)]
async fn hostile_urls_are_refused_unless_the_policy_allows_them() {
    let urls = [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://x.localhost:8080/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.1.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        // The name cannot be resolved. With `Any`, it may be unresolvable for now.
        "http://nowhere.test/",
    ];
    let always = [
        "http://127.1/",
        "http://2130706433/",
        "http://user@hooks.test/",
        "ftp://hooks.test/",
        "http://localhost./",
        "http://hooks.test/\r\nx: y",
        "",
    ];
    for (any_address, statuses) in [(false, [true, true]), (true, [false, true])] {
        let receiver = Receiver::new(&["93.184.216.34", "127.0.0.1"], &[200]);
        *receiver.addresses.lock().unwrap() = vec![vec!["127.0.0.1".parse().unwrap()]];
        let push = PushPolicy { any_address, ..PushPolicy::default() };
        let served = serve_calling(&receiver, ServerConfig { push, ..ServerConfig::default() }, done);
        for (list, refused) in [(&urls[..], statuses[0]), (&always[..], statuses[1])] {
            for url in list {
                let answer = send(&served, json!({ "url": url })).await;
                assert_eq!(answer["error"]["code"] == -32602, refused, "{url}, {any_address}: {answer}");
            }
        }
        // A name that leads to this machine.
        let answer = send(&served, json!({"url": HOOK})).await;
        assert_eq!(answer["error"]["code"] == -32602, !any_address, "{answer}");
    }
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    for (field, push) in [
        ("token", json!({"url": HOOK, "token": "a\r\nx: y"})),
        ("credentials", json!({"url": HOOK, "authentication": {"scheme": "Bearer", "credentials": "a\nb"}})),
        ("scheme", json!({"url": HOOK, "authentication": {"scheme": "Bearer x", "credentials": "a"}})),
    ] {
        assert_eq!(send(&served, push).await["error"]["code"], -32602, "{field}");
    }
    assert_eq!(served.runs.count(), 0, "nothing of this starts a run");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_elsewhere_later_is_not_followed() {
    let receiver = Receiver::new(&["93.184.216.34", "169.254.169.254"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let answer = send(&served, json!({"url": HOOK})).await;
    assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(receiver.got.lock().unwrap().len(), 0, "nothing is sent to an address that nobody screened");
}

#[tokio::test(start_paused = true)]
async fn wishes_are_kept_shown_and_taken_back() {
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let params = json!({"message": message("OPEN"), "configuration": {"returnImmediately": true}});
    let id = served.rpc("SendMessage", params).await["result"]["task"]["id"].clone();
    let created = served.rpc("CreateTaskPushNotificationConfig", json!({"taskId": id, "url": HOOK})).await;
    assert_eq!(created["result"], json!({"taskId": id, "id": id, "url": HOOK}), "named after the task");
    let path = format!("/tasks/{}/pushNotificationConfigs", id.as_str().unwrap());
    let named = served.ask(&Ask::post(&path, &json!({"id": "mine", "url": HOOK}))).await;
    assert_eq!(named.body["id"], "mine");
    let listed = served.rpc("ListTaskPushNotificationConfigs", json!({"taskId": id})).await;
    assert_eq!(listed["result"]["configs"].as_array().unwrap().len(), 2);
    let as_in_proto = served.rpc("GetTaskPushNotificationConfig", json!({"task_id": id, "id": "mine"})).await;
    assert_eq!(as_in_proto["result"]["url"], HOOK, "{as_in_proto}");
    let old = served
        .rpc("tasks/pushNotificationConfig/get", json!({"id": id, "pushNotificationConfigId": "mine"}))
        .await;
    assert_eq!(old["result"], json!({"taskId": id, "pushNotificationConfig": {"id": "mine", "url": HOOK}}));
    let delete = Ask { method: "DELETE", body: Vec::new(), ..Ask::get(&format!("{path}/mine")) };
    assert_eq!((served.ask(&delete).await.body, served.ask(&delete).await.status), (json!({}), 200));
    let gone = served.ask(&Ask::get(&format!("{path}/mine"))).await;
    assert_eq!(gone.status, 404);
    let all = async || {
        for n in 0..20 {
            let params = json!({"taskId": id, "id": format!("c{n}"), "url": HOOK});
            let answer = served.rpc("CreateTaskPushNotificationConfig", params).await;
            if answer.get("error").is_some() {
                return n;
            }
        }
        20
    };
    assert_eq!(all().await, 9, "ten of a task, one is there already");
}

/// A client that repeats its registration while a notification is being delivered.
#[tokio::test(start_paused = true)]
async fn a_repeated_registration_opens_no_second_request_and_loses_nothing() {
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    *receiver.takes.lock().unwrap() = Duration::from_secs(1);
    let served = serve_calling(&receiver, ServerConfig::default(), done);
    let params = json!({"message": message("OPEN"), "configuration": {"returnImmediately": true}});
    let id = served.rpc("SendMessage", params).await["result"]["task"]["id"].clone();
    let register =
        async || served.rpc("CreateTaskPushNotificationConfig", json!({"taskId": id, "url": HOOK})).await;
    register().await;
    let run = served.runs.last();
    for event in super::support::events_of(&run.input, done(&run.input)) {
        run.push(event);
        super::support::settle().await;
        assert!(register().await["result"].is_object());
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(receiver.open.lock().unwrap().1, 1, "one request at a time");
    let bodies = receiver.bodies();
    let words: String = bodies
        .iter()
        .filter_map(|body| body["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .collect();
    assert_eq!(words, "done", "{bodies:#?}");
    assert_eq!(bodies.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// What a refused message brings is not kept; what was there before is.
#[tokio::test(start_paused = true)]
async fn a_refused_follow_up_leaves_the_configurations_as_they_were() {
    let receiver = Receiver::new(&["93.184.216.34"], &[200]);
    let served = serve_calling(&receiver, ServerConfig::default(), |_| {
        let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
        vec![SourceEvent::interrupt(aqueduct_core::Interrupt::new("q", "input_required")), waits]
    });
    let task = served.rpc("SendMessage", json!({"message": message("hi")})).await["result"]["task"].clone();
    let id = &task["id"];
    let old = json!({"taskId": id, "id": "old", "url": HOOK});
    served.rpc("CreateTaskPushNotificationConfig", old.clone()).await;
    for name in ["new", "old"] {
        let mut refused = message("BUSY");
        refused["taskId"] = id.clone();
        let push = json!({"id": name, "url": "https://hooks.test/other"});
        let configuration = json!({"taskPushNotificationConfig": push});
        let params = json!({"message": refused, "configuration": configuration});
        let answer = served.rpc("SendMessage", params).await;
        assert!(answer["error"].is_object(), "{answer}");
        let listed = served.rpc("ListTaskPushNotificationConfigs", json!({"taskId": id})).await;
        assert_eq!(listed["result"]["configs"], json!([old]), "{name}");
    }
}

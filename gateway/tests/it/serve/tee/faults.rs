//! Failures below a supervisor: each lane ends with its own outcome, and the run with that of the supervisor.

use std::time::Duration;

use aqueduct_transport_http::{Client, ClientConfig};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::support::{answer, events, input, payloads};
use super::peer::{Called, Door, Peer, begun, chunk, done, task};
use super::{Place, Scene, gateway, lane, lanes, supervisor};

everywhere!(
    a_sub_agent_that_fails_does_not_fail_the_run,
    a_sub_agent_that_is_not_there_is_told,
    a_question_is_the_supervisors_to_answer,
    cancelling_the_run_cancels_its_sub_agents,
    a_task_without_a_stream_is_cancelled_with_its_run,
    a_sub_agent_that_never_answers_is_shown_and_ends_with_its_run,
    a_sub_agent_that_hangs_is_given_up_after_its_time,
    a_sub_agent_that_its_supervisor_cancels_ends_so,
    an_answer_that_is_compressed_passes_and_says_so,
    a_supervisor_that_hangs_up_cuts_the_lane_and_cancels_nothing,
    a_lane_that_outlives_the_run_is_closed_with_it,
    a_frontend_that_comes_back_sees_the_lanes_to_their_end,
);

/// Long enough for anything that must happen; nothing is asserted to be fast.
const SOON: Duration = Duration::from_secs(20);

/// What the frontend sees if a sub-agent answers with these frames and hangs up.
async fn seen_of(place: Place, frames: Vec<String>) -> Vec<Value> {
    let door = Door::default();
    let sub = Peer::saying(frames).await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    served.run("s", "r").await
}

async fn a_sub_agent_that_fails_does_not_fail_the_run(place: Place) {
    let failed = super::status("a", "FAILED", "no such cluster");
    for (frames, text, code) in [
        (vec![begun("a"), chunk("a", "half", false)], "half", "upstream_ended"),
        (vec![], "", "upstream_ended"),
        (vec!["data: nonsense\n\n".to_owned()], "", "upstream_ended"),
        (vec![begun("a"), "data: {\"x\"".to_owned()], "", "upstream_ended"),
        (vec![begun("a"), failed], "", "agent_failed"),
        (
            vec![
                "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"kaput\"}}\n\n"
                    .to_owned(),
            ],
            "",
            "upstream_error",
        ),
    ] {
        let events = seen_of(place, frames.clone()).await;
        assert_eq!(lanes(&events), [lane("a", "", text, code)], "{frames:?}");
        assert_eq!(answer(&events), "all is well");
        assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    }
}

async fn a_sub_agent_that_is_not_there_is_told(place: Place) {
    let door = Door::default();
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let told = door.call("a", &Called::by(&asked)).await;
            assert!(told.contains("-32603") && told.contains("127.0.0.1:1"), "{told}");
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", "http://127.0.0.1:1")], "").await;
    let events = served.run("s", "r").await;
    assert_eq!(lanes(&events), [lane("a", "", "", "upstream_unreachable")]);
    assert_eq!(answer(&events), "all is well");
}

async fn a_question_is_the_supervisors_to_answer(place: Place) {
    let asking = super::status("a", "INPUT_REQUIRED", "which cluster?");
    let events = seen_of(place, vec![begun("a"), asking]).await;
    assert_eq!(lanes(&events), [lane("a", "", "", "suspended")]);
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success", "{events:#?}");
    assert!(json!(events).to_string().contains("which cluster?"));
}

/// A sub-agent that begins and never ends.
async fn hanging() -> Peer {
    Peer::start(|asked, mut out| {
        Box::pin(async move {
            if asked.body["method"] == "CancelTask" {
                return out.answer(&asked, "").await;
            }
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "working on it", false)].concat()).await;
            out.closed().await;
        })
    })
    .await
}

async fn cancelling_the_run_cancels_its_sub_agents(place: Place) {
    let door = Door::default();
    let mut sub = hanging().await;
    let mut supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap().data;
        if event.contains("working on it") {
            served.send(served.post("/runs/r/cancel", &json!({}))).await;
        }
        seen.push(serde_json::from_str::<Value>(&event).unwrap());
    }
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "cancelled", "{seen:#?}");
    let asked = timeout(SOON, sub.next("CancelTask")).await.expect("the sub-agent is told");
    assert_eq!(asked.body["params"]["id"], "a");
    timeout(SOON, supervisor.next("CancelTask")).await.expect("so is the supervisor");
    assert_eq!(lanes(&seen)[0].2, "working on it");
    assert_ne!(lanes(&seen)[0].3, "open", "{seen:#?}");
}

/// Its sender has its answer long before; the task works on.
async fn a_task_without_a_stream_is_cancelled_with_its_run(place: Place) {
    let door = Door::default();
    let mut sub = Peer::start(|asked, out| {
        Box::pin(async move {
            if asked.body["method"] == "CancelTask" {
                return out.answer(&asked, "").await;
            }
            out.whole(&json!({ "task": task("a", "WORKING") })).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            client.request(door.request("a", "SendMessage", &Called::by(&asked))).await.unwrap();
            std::future::pending::<()>().await;
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        if event["type"] == "SUBAGENT_STARTED" {
            served.send(served.post("/runs/r/cancel", &json!({}))).await;
        }
        seen.push(event);
    }
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "cancelled", "{seen:#?}");
    let asked = timeout(SOON, sub.next("CancelTask")).await.expect("the sub-agent is told");
    assert_eq!(asked.body["params"]["id"], "a");
}

async fn a_sub_agent_that_never_answers_is_shown_and_ends_with_its_run(place: Place) {
    let door = Door::default();
    let sub = Peer::start(|_, mut out| Box::pin(async move { out.closed().await })).await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        if event["type"] == "SUBAGENT_STARTED" {
            served.send(served.post("/runs/r/cancel", &json!({}))).await;
        }
        seen.push(event);
    }
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "cancelled", "{seen:#?}");
    assert_ne!(lanes(&seen)[0].3, "open");
}

async fn a_sub_agent_that_hangs_is_given_up_after_its_time(place: Place) {
    let door = Door::default();
    let sub = hanging().await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let told = door.call("a", &Called::by(&asked)).await;
            assert!(told.contains("working on it"), "{told}");
        })
    })
    .await;
    let toml = format!(
        "[agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
         [agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\ntimeouts.idle = \"500ms\"\n",
        supervisor.url, sub.url
    );
    let scene = Scene::start(place, &door, &toml).await;
    let events = scene.run("s", "r").await;
    assert_eq!(lanes(&events), [lane("a", "", "working on it", "upstream_timeout")]);
    assert_eq!(answer(&events), "all is well");
}

async fn a_sub_agent_that_its_supervisor_cancels_ends_so(place: Place) {
    let door = Door::default();
    let (cancel, cancelled) = tokio::sync::watch::channel(false);
    let sub = Peer::start(move |asked, mut out| {
        let (cancel, mut cancelled) = (cancel.clone(), cancelled.clone());
        Box::pin(async move {
            if asked.body["method"] == "CancelTask" {
                cancel.send_replace(true);
                return out.answer(&asked, "").await;
            }
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "working on it", false)].concat()).await;
            cancelled.wait_for(|cancelled| *cancelled).await.ok();
            out.say(&super::status("a", "CANCELED", "as you wish")).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            let how = Called::by(&asked);
            let mut stream =
                client.open_stream(door.request("a", "SendStreamingMessage", &how)).await.unwrap();
            while !stream.next().await.unwrap().unwrap().data.contains("working on it") {}
            let mut cancel = door.request("a", "CancelTask", &how);
            let call = json!({ "jsonrpc": "2.0", "id": 8, "method": "CancelTask", "params": { "id": "a" } });
            *cancel.body_mut() = call.to_string().into();
            client.request(cancel).await.unwrap();
            while stream.next().await.is_some() {}
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let events = served.run("s", "r").await;
    let seen = lanes(&events);
    assert_eq!((seen.len(), &*seen[0].3), (1, "cancelled"), "{seen:?}");
    assert_eq!(answer(&events), "all is well");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
}

/// The bytes are the supervisor's, whatever they are.
async fn an_answer_that_is_compressed_passes_and_says_so(place: Place) {
    let door = Door::default();
    let mut sub = Peer::start(|_, mut out| {
        Box::pin(async move {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
            out.say(&format!("{head}connection: close\r\n\r\nno gzip, but nobody here looks")).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            assert_eq!(door.call("a", &Called::by(&asked)).await, "no gzip, but nobody here looks");
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let events = served.run("s", "r").await;
    assert_eq!(lanes(&events)[0].3, "answer_compressed");
    assert!(json!(events).to_string().contains("compresses its answer (gzip)"), "{events:#?}");
    assert_eq!(answer(&events), "all is well");
    let asked = sub.next("SendStreamingMessage").await;
    assert!(asked.head.contains("\r\naccept-encoding: identity\r\n"), "{}", asked.head);
}

async fn a_supervisor_that_hangs_up_cuts_the_lane_and_cancels_nothing(place: Place) {
    let door = Door::default();
    let (gone, mut is_gone) = tokio::sync::mpsc::channel(1);
    let mut sub = Peer::start(move |_, mut out| {
        let gone = gone.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "working on it", false)].concat()).await;
            out.closed().await;
            gone.send(()).await.ok();
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            let request = door.request("a", "SendStreamingMessage", &Called::by(&asked));
            let mut stream = client.open_stream(request).await.unwrap();
            while !stream.next().await.unwrap().unwrap().data.contains("working on it") {}
            drop(stream);
            // The gateway detects the closed connection when the system reports it; the response must not arrive
            // before.
            tokio::time::sleep(Duration::from_millis(300)).await;
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let events = served.run("s", "r").await;
    assert_eq!(lanes(&events), [lane("a", "", "working on it", "caller_gone")]);
    assert_eq!(answer(&events), "all is well");
    timeout(SOON, is_gone.recv()).await.expect("the agent's connection is closed").unwrap();
    while let Ok(asked) = sub.asked.try_recv() {
        assert_ne!(asked.body["method"], "CancelTask");
    }
}

/// A lane that is open when the supervisor has its answer is closed with the run, and what comes later is counted.
async fn a_lane_that_outlives_the_run_is_closed_with_it(place: Place) {
    let door = Door::default();
    let sub = Peer::start(|_, mut out| {
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "slow", false)].concat()).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
            out.say(&[chunk("a", "too late", true), done("a")].concat()).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let call = async move { drop(door.call("a", &Called::by(&asked)).await) };
            tokio::spawn(call);
            tokio::time::sleep(Duration::from_millis(150)).await;
        })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let events = served.run("s", "r").await;
    assert_eq!(lanes(&events), [lane("a", "", "slow", "success")]);
    let dropped = async {
        loop {
            let metrics = served.metrics().await;
            let line = metrics.lines().find(|line| line.starts_with("aqueduct_tee_events_dropped_total "));
            if line.is_some_and(|line| !line.ends_with(" 0")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, dropped).await.expect("late events are counted");
}

async fn a_frontend_that_comes_back_sees_the_lanes_to_their_end(place: Place) {
    let door = Door::default();
    let (go, wait) = tokio::sync::watch::channel(false);
    let sub = Peer::start(move |_, mut out| {
        let mut wait = wait.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "one ", false)].concat()).await;
            wait.wait_for(|go| *go).await.ok();
            out.say(&[chunk("a", "two", true), done("a")].concat()).await;
        })
    })
    .await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let served = gateway(place, &door, &[("s", &supervisor.url), ("a", &sub.url)], "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut first = Vec::new();
    let last = loop {
        let event = stream.next().await.unwrap().unwrap();
        first.push(serde_json::from_str::<Value>(&event.data).unwrap());
        if event.data.contains("one ") {
            break event.id.unwrap();
        }
    };
    drop(stream);
    go.send_replace(true);
    let mut request = served.post("/runs/r/events?protocolVersion=1.0", &json!({}));
    *request.method_mut() = http::Method::GET;
    request.headers_mut().insert("last-event-id", last.parse().unwrap());
    let rest = served.send(request).await;
    let all = [first, payloads(std::str::from_utf8(rest.body()).unwrap())].concat();
    assert_eq!(lanes(&all), [lane("a", "", "one two", "success")]);
    assert_eq!(answer(&all), "all is well");
    let again = served.get("/runs/r/events?protocolVersion=1.0").await;
    assert_eq!(events(&again), all, "as if nothing had happened");
}

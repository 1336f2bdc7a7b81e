//! Sub-agents that the gateway serves itself: scripts, AG-UI agents and A2A agents with `a2a.expose = "serve"`.

use std::time::Duration;

use aqueduct_transport_http::{Client, ClientConfig};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::support::{answer, input};
use super::peer::{Called, Door, Peer, begun, chunk, done, header};
use super::{Place, Scene, before_the_answer, lane, lanes, supervisor};

everywhere!(
    an_agent_of_the_gateways_own_is_a_lane_like_any_other,
    an_a2a_agent_behind_the_gateways_own_server_is_a_lane_too,
    a_served_agent_is_cancelled_with_the_run,
    what_leads_to_a_run_leads_to_no_run_below_it,
    a_client_that_comes_back_to_a_task_is_no_lane_of_it,
);

const HELPER: &str = "[[step]]\nthinking = \"Let me see.\"\n[[step]]\ntool = \"search\"\narguments = '{\"q\":1}'\n\
                      result = \"3 results\"\n[[step]]\ntext = \"Found it.\"\n";

/// Gateways with a supervisor and an agent `helper` that plays a script.
async fn scene(place: Place, door: &Door, supervisor: &Peer, script: &str) -> Scene {
    let file = format!("tee-{place:?}-{}.toml", script.len());
    let file = crate::scratch::folder().join(file);
    std::fs::write(&file, script).unwrap();
    let toml = format!(
        "[agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n[agents.helper]\nscript = {{ file = \"{}\" }}\n",
        supervisor.url,
        file.display()
    );
    Scene::start(place, door, &toml).await
}

/// A supervisor that calls `helper` and waits for the end of its stream.
async fn asking(door: &Door) -> Peer {
    supervisor(door, |door, asked| {
        Box::pin(async move {
            let got = door.call("helper", &Called::by(&asked)).await;
            assert!(got.contains("TASK_STATE_"), "{got}");
        })
    })
    .await
}

async fn an_agent_of_the_gateways_own_is_a_lane_like_any_other(place: Place) {
    let door = Door::default();
    let supervisor = asking(&door).await;
    let scene = scene(place, &door, &supervisor, HELPER).await;
    let events = scene.run("s", "r").await;
    assert_eq!(
        lanes(&events),
        [lane("helper", "", "Let me see.{\"q\":1}Found it.", "success")],
        "{events:#?}"
    );
    assert_eq!(answer(&events), "all is well");
    let of_lane = |event: &&Value| event.get("subagentRunId").is_some();
    let seen: Vec<&str> =
        before_the_answer(&events).iter().filter(of_lane).filter_map(|e| e["type"].as_str()).collect();
    assert!(seen.contains(&"TOOL_CALL_RESULT") && seen.contains(&"REASONING_MESSAGE_CONTENT"), "{seen:?}");
    assert!(scene.metrics().await.contains("aqueduct_tee_calls_total{relation=\"token\"} 1\n"));
}

async fn an_a2a_agent_behind_the_gateways_own_server_is_a_lane_too(place: Place) {
    let door = Door::default();
    let sub = Peer::saying(vec![begun("a"), chunk("a", "hello", false), done("a")]).await;
    let supervisor = asking(&door).await;
    let toml = format!(
        "[agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
         [agents.helper]\na2a = {{ url = \"{}\", binding = \"jsonrpc\", expose = \"serve\" }}\n",
        supervisor.url, sub.url
    );
    let scene = Scene::start(place, &door, &toml).await;
    assert_eq!(lanes(&scene.run("s", "r").await), [lane("helper", "", "hello", "success")]);
}

async fn a_served_agent_is_cancelled_with_the_run(place: Place) {
    let door = Door::default();
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            drop(door.call("helper", &Called::by(&asked)).await);
            // Its own end is not what this is about.
            std::future::pending::<()>().await;
        })
    })
    .await;
    let script = "[[step]]\ntext = \"On it.\"\n[[step]]\nwait = \"600s\"\n";
    let scene = scene(place, &door, &supervisor, script).await;
    let mut stream =
        scene.client.open_stream(scene.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        if event["delta"].as_str().is_some_and(|delta| delta.contains("it.")) {
            scene.send(scene.post("/runs/r/cancel", &json!({}))).await;
        }
        seen.push(event);
    }
    assert_eq!(seen.last().unwrap()["outcome"]["type"], "cancelled", "{seen:#?}");
    assert_eq!(lanes(&seen)[0].2, "On it.");
    let idle = async { tokio::join!(scene.owner.idle(), scene.door().idle()) };
    timeout(Duration::from_secs(30), idle).await.expect("the run of the sub-agent is stopped too");
}

/// A served sub-agent is a run of its own, in the same trace.
async fn what_leads_to_a_run_leads_to_no_run_below_it(place: Place) {
    let door = Door::default();
    let sub = Peer::saying(vec![begun("a"), chunk("a", "hello", false), done("a")]).await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move {
            let headers = vec![("traceparent", header(&asked, "traceparent"))];
            let how = Called { headers, ..Called::default() };
            let client = Client::new(ClientConfig::default()).unwrap();
            let request = door.request("helper", "SendStreamingMessage", &how);
            let mut helping = client.open_stream(request).await.unwrap();
            while !helping.next().await.unwrap().unwrap().data.contains("it.") {}
            assert!(door.call("a", &how).await.contains("hello"));
        })
    })
    .await;
    let script = crate::scratch::folder().join(format!("tee-below-{place:?}.toml"));
    std::fs::write(&script, "[[step]]\ntext = \"On it.\"\n[[step]]\nwait = \"600s\"\n").unwrap();
    let toml = format!(
        "[agents.s]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
         [agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n\
         [agents.helper]\nscript = {{ file = \"{}\" }}\n",
        supervisor.url,
        sub.url,
        script.display()
    );
    let scene = Scene::start(place, &door, &toml).await;
    let seen = lanes(&scene.run("s", "r").await);
    assert_eq!(seen.iter().map(|lane| &*lane.0).collect::<Vec<_>>(), ["helper", "a"], "{seen:?}");
    assert_eq!(seen[1].2, "hello");
}

/// A client whose stream was cut subscribes in the trace in which it sent the message: that of the run behind the task.
async fn a_client_that_comes_back_to_a_task_is_no_lane_of_it(place: Place) {
    let door = Door::default();
    let script = "[[step]]\ntext = \"On my way.\"\n[[step]]\nwait = \"600s\"\n";
    let silent = Peer::saying(Vec::new()).await;
    let scene = scene(place, &door, &silent, script).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
    let how = Called { headers: vec![("traceparent", trace)], ..Called::default() };
    let ask = |method: &str, params: &Value| {
        let request = door.request("helper", method, &how);
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        request.map(|_| body.to_string().into())
    };
    let sent = door.request("helper", "SendStreamingMessage", &how);
    let mut stream = scene.client.open_stream(sent).await.unwrap();
    let mut task = Value::Null;
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        let named = &event["result"]["task"]["id"];
        if named.is_string() {
            task = named.clone();
        }
        if event.to_string().contains("way.") {
            break;
        }
    }
    drop(stream);
    let by_id = json!({ "id": task });
    let mut again = scene.client.open_stream(ask("SubscribeToTask", &by_id)).await.unwrap();
    assert!(again.next().await.unwrap().unwrap().data.contains("way."));
    scene.send(ask("GetTask", &by_id)).await;
    scene.send(ask("CancelTask", &by_id)).await;
    while again.next().await.is_some_and(|event| event.is_ok()) {}
    let path = format!("/runs/{}/events?after=0&protocolVersion=1.0", task.as_str().unwrap());
    let whole = super::super::support::events(&scene.get(&path).await);
    assert_eq!(lanes(&whole), [], "{whole:#?}");
    let metrics = scene.metrics().await;
    let by_trace =
        metrics.lines().find_map(|line| line.strip_prefix("aqueduct_tee_calls_total{relation=\"trace\"} "));
    assert_ne!(by_trace, Some("0"), "the trace leads to the run of the task");
    assert!(by_trace.is_some(), "{metrics}");
}

//! Sub-agents whose calls pass through other gateways than the one that drives the run.

use std::time::Duration;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::{RunLog as _, RunQuery};
use aqueduct_transport_http::{Client, ClientConfig};
use futures_util::StreamExt as _;
use futures_util::future::join;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::support::{answer, events, input, payloads};
use super::peer::{Called, Door, Peer, begun, chunk, done, status, task};
use super::{Place, Scene, gateway, lane, lanes, middle, supervisor};

const SOON: Duration = Duration::from_secs(20);
const MUCH_LATER: Timestamp = Timestamp(1 << 52);

/// A door to the gateway that drives the run, beside the one to the other gateway.
fn owners_door(scene: &Scene, door: &Door) {
    door.is_at(scene.owner.address);
}

#[tokio::test]
async fn agents_of_one_run_may_be_called_through_any_gateway() {
    let (far, near) = (Door::default(), Door::default());
    let deep = Peer::saying(vec![begun("c"), chunk("c", "deep", false), done("c")]).await;
    let (a, b) = (middle(&near, "a", "b").await, middle(&far, "b", "c").await);
    let beside = near.clone();
    let supervisor = supervisor(&far, move |far, asked| {
        let near = beside.clone();
        Box::pin(async move {
            let how = Called::by(&asked);
            join(far.call("a", &how), near.call("c", &how)).await;
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*a.url), ("b", &*b.url), ("c", &*deep.url)];
    let scene = gateway(Place::Elsewhere, &far, &agents, "").await;
    owners_door(&scene, &near);
    let events = scene.run("s", "r").await;
    let mut seen = lanes(&events);
    seen.sort();
    assert_eq!(
        seen,
        [
            lane("a", "", "a again", "success"),
            lane("b", "a", "b again", "success"),
            lane("c", "", "deep", "success"),
            lane("c", "b", "deep", "success"),
        ]
    );
    assert_eq!(answer(&events), "all is well");
}

/// Events of a sub-agent come before the events that its supervisor derives from them, for every watcher.
#[tokio::test]
async fn what_a_sub_agent_said_comes_before_what_its_supervisor_made_of_it() {
    const ROUNDS: usize = 60;
    let door = Door::default();
    let sub = Peer::start(|_, mut out| {
        Box::pin(async move {
            out.begin().await;
            out.say(&begun("a")).await;
            for round in 0..ROUNDS {
                out.say(&chunk("a", &format!("[said {round}]"), round > 0)).await;
                tokio::task::yield_now().await;
            }
            out.say(&done("a")).await;
        })
    })
    .await;
    let way = door.clone();
    let supervisor = Peer::start(move |asked, mut out| {
        let door = way.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&begun("S")).await;
            let client = Client::new(ClientConfig::default()).unwrap();
            let request = door.request("a", "SendStreamingMessage", &Called::by(&asked));
            let mut stream = client.open_stream(request).await.unwrap();
            while let Some(Ok(event)) = stream.next().await {
                if let Some((_, round)) = event.data.split_once("[said ") {
                    let round = round.split(']').next().unwrap();
                    out.say(&status("S", "WORKING", &format!("[heard {round}]"))).await;
                }
            }
            out.say(&[chunk("S", "all is well", false), done("S")].concat()).await;
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let scene = gateway(Place::Elsewhere, &door, &agents, "").await;
    let seen: String = scene.run("s", "r").await.iter().filter_map(|event| event["delta"].as_str()).collect();
    for round in 0..ROUNDS {
        let place = |word: &str| seen.find(&format!("[{word} {round}]")).unwrap_or_else(|| panic!("{seen}"));
        assert!(place("said") < place("heard"), "{round}: {seen}");
    }
}

/// A task that one gateway sent and another looks at is one lane.
#[tokio::test]
async fn a_task_that_is_polled_through_another_gateway_is_one_lane() {
    let (far, near) = (Door::default(), Door::default());
    let sub = Peer::start(|asked, out| {
        let (state, text) =
            if asked.body["method"] == "GetTask" { ("COMPLETED", "one two") } else { ("WORKING", "one ") };
        let mut task = task("a", state);
        task["artifacts"] = json!([{ "artifactId": "A", "parts": [{ "text": text }] }]);
        let result = if state == "WORKING" { json!({ "task": task }) } else { task };
        Box::pin(async move { out.whole(&result).await })
    })
    .await;
    let other_way = near.clone();
    let supervisor = supervisor(&far, move |far, asked| {
        let near = other_way.clone();
        Box::pin(async move {
            let client = Client::new(ClientConfig::default()).unwrap();
            client.request(far.request("a", "SendMessage", &Called::by(&asked))).await.unwrap();
            let mut look = near.request("a", "GetTask", &Called::by(&asked));
            let call = json!({ "jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": { "id": "a" } });
            *look.body_mut() = call.to_string().into();
            client.request(look).await.unwrap();
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let scene = gateway(Place::Elsewhere, &far, &agents, "").await;
    owners_door(&scene, &near);
    assert_eq!(lanes(&scene.run("s", "r").await), [lane("a", "", "one two", "success")]);
}

/// As if the replica that forwards the call had died: the replica that finds its side run ends it.
#[tokio::test]
async fn a_gateway_that_dies_with_a_call_leaves_a_lane_that_failed() {
    let door = Door::default();
    let (go, wait) = tokio::sync::watch::channel(false);
    let sub = Peer::start(|_, mut out| {
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun("a"), chunk("a", "half", false)].concat()).await;
            out.closed().await;
        })
    })
    .await;
    let supervisor = supervisor(&door, move |door, asked| {
        let mut wait = wait.clone();
        Box::pin(async move {
            let how = Called::by(&asked);
            tokio::select! {
                _ = door.call("a", &how) => {}
                _ = wait.wait_for(|go| *go) => {}
            }
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let scene = gateway(Place::Elsewhere, &door, &agents, "").await;
    let mut stream =
        scene.client.open_stream(scene.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        if event["delta"] == "half" {
            let runs = scene.log.list(RunQuery::default(), 10).await.unwrap();
            let side = runs.iter().find(|run| run.meta.run_id.as_str() != "r").unwrap();
            scene.log.take_over(&side.meta.run_id, MUCH_LATER, Timestamp(1)).await.unwrap();
            scene.gateway.runs().sweep_once().await.unwrap();
        }
        if event["type"] == "SUBAGENT_ERROR" {
            go.send_replace(true);
        }
        seen.push(event);
    }
    assert_eq!(lanes(&seen), [lane("a", "", "half", "gateway_lost")]);
    assert_eq!(answer(&seen), "all is well");
    assert_eq!(seen.last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn a_frontend_that_comes_back_to_another_gateway_sees_the_lanes_to_their_end() {
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
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let scene = gateway(Place::Elsewhere, &door, &agents, "").await;
    let mut stream =
        scene.client.open_stream(scene.post("/agents/s", &input("r", Some("1.0")))).await.unwrap();
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
    let mut request = scene.door().post("/runs/r/events?protocolVersion=1.0", &json!({}));
    *request.method_mut() = http::Method::GET;
    request.headers_mut().insert("last-event-id", last.parse().unwrap());
    let rest = timeout(SOON, scene.door().send(request)).await.unwrap();
    let all = [first, payloads(std::str::from_utf8(rest.body()).unwrap())].concat();
    assert_eq!(lanes(&all), [lane("a", "", "one two", "success")]);
    assert_eq!(answer(&all), "all is well");
    assert_eq!(events(&scene.get("/runs/r/events?protocolVersion=1.0").await), all);
}

/// Side runs belong to no principal: neither lists nor watchers find them, and none is left open.
#[tokio::test]
async fn nothing_is_left_of_a_call_and_nobody_sees_how_it_was_carried() {
    let door = Door::default();
    let sub = Peer::saying(vec![begun("a"), chunk("a", "hi", false), done("a")]).await;
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let scene = gateway(Place::Elsewhere, &door, &agents, "inspector.enabled = true").await;
    scene.run("s", "r").await;
    let closed = async {
        loop {
            let runs = scene.log.list(RunQuery::default(), 10).await.unwrap();
            assert_eq!(runs.len(), 2);
            if runs.iter().all(|run| run.closed_at.is_some()) {
                return runs;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let runs = timeout(SOON, closed).await.expect("every run ends");
    let side = runs.iter().find(|run| run.meta.run_id != RunId::from("r")).unwrap().meta.run_id.clone();
    for served in [&scene.owner, scene.door()] {
        assert_eq!(served.get(&format!("/runs/{side}/events")).await.status(), 404);
        let listed = String::from_utf8(served.get("/inspector/runs").await.body().to_vec()).unwrap();
        assert!(listed.contains("\"r\"") && !listed.contains(side.as_str()), "{listed}");
    }
    let keys = ["trace", "context/t", "context/S-context", "context/a-context"].map(str::to_owned);
    let forgotten = async {
        while !scene.log.related(keys.to_vec()).await.unwrap().concat().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, forgotten).await.expect("nothing leads to a run that ended");
}

//! Supervisors that call their sub-agents through the gateway: what they say is seen inside the frontend's run.

/// Tests of supervisors whose calls pass through the gateway that drives the run, and through another one of its log.
macro_rules! everywhere {
    ($($test:ident),+ $(,)?) => {
        mod here {
            $(#[tokio::test] async fn $test() { super::$test(crate::serve::tee::Place::Here).await; })+
        }
        mod elsewhere {
            $(#[tokio::test] async fn $test() { super::$test(crate::serve::tee::Place::Elsewhere).await; })+
        }
    };
}

mod far;
mod faults;
mod grpc;
mod passing;
mod peer;
mod raised;
mod served;
mod traces;
mod walls;

use std::path::Path;
use std::sync::Arc;

use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::MemoryLog;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use self::peer::{Called, Door, Out, Peer, begun, chunk, done, header, status};
use super::support::{Asked, Served, answer, serve_gateway};

/// Which gateway the calls of supervisors pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The one that drives the run.
    Here,
    /// Another one that shares its log.
    Elsewhere,
}

/// Gateways that share a log: runs start at the one that this stands for.
struct Scene {
    owner: Served,
    other: Option<Served>,
    log: Arc<MemoryLog>,
}

impl std::ops::Deref for Scene {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.owner
    }
}

impl Scene {
    async fn start(place: Place, door: &Door, toml: &str) -> Self {
        let log = Arc::new(MemoryLog::default());
        let serve = async || {
            let mut config = load(Path::new("aqueduct.toml"), toml, []).unwrap();
            config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
            serve_gateway(Gateway::with_log(config, Arc::clone(&log) as _).unwrap()).await
        };
        let owner = serve().await;
        let other = if place == Place::Elsewhere { Some(serve().await) } else { None };
        let scene = Self { owner, other, log };
        door.is_at(scene.door().address);
        scene
    }

    /// The gateway that supervisors call.
    fn door(&self) -> &Served {
        self.other.as_ref().unwrap_or(&self.owner)
    }

    async fn metrics(&self) -> String {
        String::from_utf8(self.door().get("/metrics").await.body().to_vec()).unwrap()
    }
}

/// Gateways with these agents, by name and address.
async fn gateway(place: Place, door: &Door, agents: &[(&str, &str)], more: &str) -> Scene {
    let agent = |(name, url): &(&str, &str)| {
        format!("[agents.{name}]\na2a = {{ url = \"{url}\", binding = \"jsonrpc\" }}\n")
    };
    let toml: String = agents.iter().map(agent).collect();
    Scene::start(place, door, &format!("{more}\n{toml}")).await
}

everywhere!(
    sub_agents_side_by_side_are_seen_live_each_in_its_lane,
    sub_agents_of_sub_agents_are_below_them,
    each_relation_works_alone_and_without_any_the_call_passes,
    a_sub_agent_is_handed_its_own_token,
    a_lane_belongs_to_the_tool_call_that_names_its_agent,
);

/// A supervisor that does something between its first word and its answer.
async fn supervisor(
    door: &Door,
    work: impl Fn(Door, Asked) -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Peer {
    let door = door.clone();
    Peer::start(move |asked, mut out: Out| {
        let is_send = asked.body["method"] == "SendStreamingMessage";
        let work = is_send.then(|| work(door.clone(), asked.clone()));
        Box::pin(async move {
            let Some(work) = work else { return out.answer(&asked, "").await };
            out.begin().await;
            out.say(&begun("S")).await;
            work.await;
            out.say(&[chunk("S", "all is well", false), done("S")].concat()).await;
        })
    })
    .await
}

/// What each sub-agent is seen to say, in the order of their lanes: name, parent's name, text, how it ended.
fn lanes(events: &[Value]) -> Vec<(String, String, String, String)> {
    let started: Vec<&Value> = events.iter().filter(|event| event["type"] == "SUBAGENT_STARTED").collect();
    let name_of = |id: &Value| {
        let lane = started.iter().find(|event| event["subagentRunId"] == *id);
        lane.map(|event| event["name"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    let of = |event: &&Value| {
        let id = &event["subagentRunId"];
        let own = events.iter().filter(|event| event["subagentRunId"] == *id);
        let text: String = own.clone().filter_map(|event| event["delta"].as_str()).collect();
        let end = own
            .clone()
            .find(|event| matches!(event["type"].as_str(), Some("SUBAGENT_FINISHED" | "SUBAGENT_ERROR")));
        let end = end.map_or("open", |end| {
            end["code"].as_str().unwrap_or_else(|| end["outcome"]["type"].as_str().unwrap())
        });
        (name_of(id), name_of(&event["parentSubagentRunId"]), text, end.to_owned())
    };
    started.iter().map(of).collect()
}

fn lane(name: &str, parent: &str, text: &str, end: &str) -> (String, String, String, String) {
    (name.to_owned(), parent.to_owned(), text.to_owned(), end.to_owned())
}

/// Events before the supervisor's answer.
fn before_the_answer(events: &[Value]) -> &[Value] {
    let at = events.iter().position(|event| event["delta"] == "all is well").unwrap();
    &events[..at]
}

async fn sub_agents_side_by_side_are_seen_live_each_in_its_lane(place: Place) {
    let door = Door::default();
    let spoken = |id: &'static str| {
        vec![
            begun(id),
            status(id, "WORKING", &format!("🔧 Calling tool: **look_{id}**")),
            status(id, "WORKING", &format!("✅ Tool **look_{id}** completed")),
            chunk(id, &format!("{id} says "), false),
            chunk(id, "yes", true),
            done(id),
        ]
    };
    let (argo, jira) = (Peer::saying(spoken("argo")).await, Peer::saying(spoken("jira")).await);
    let sent = ["argo", "jira"].map(|id| spoken(id).concat());
    let supervisor = supervisor(&door, move |door, asked| {
        let sent = sent.clone();
        Box::pin(async move {
            let how = Called::by(&asked);
            let got = join_all(["argo", "jira"].map(|name| door.call(name, &how))).await;
            assert_eq!(got, sent, "the supervisor gets what the sub-agents sent");
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("argo", &*argo.url), ("jira", &*jira.url)];
    let served = gateway(place, &door, &agents, "").await;
    let events = served.run("s", "r").await;
    assert_eq!(answer(&events), "all is well", "the answer, and once");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    let mut seen = lanes(&events);
    seen.sort();
    assert_eq!(
        seen,
        [lane("argo", "", "argo says yes", "success"), lane("jira", "", "jira says yes", "success")]
    );
    let tools = before_the_answer(&events).iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").count();
    assert_eq!(tools, 2, "every notice is there before the answer: {events:#?}");
    let metrics = served.metrics().await;
    assert!(metrics.contains("aqueduct_tee_calls_total{relation=\"token\"} 2\n"), "{metrics}");
    assert!(metrics.contains("aqueduct_tee_events_dropped_total 0\n"), "{metrics}");
}

/// An agent that emits half of its text, calls the next agent, and emits the rest.
async fn middle(door: &Door, id: &'static str, next: &'static str) -> Peer {
    let door = door.clone();
    Peer::start(move |asked, mut out| {
        let door = door.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun(id), chunk(id, &format!("{id} "), false)].concat()).await;
            door.call(next, &Called::by(&asked)).await;
            out.say(&[chunk(id, "again", true), done(id)].concat()).await;
        })
    })
    .await
}

async fn sub_agents_of_sub_agents_are_below_them(place: Place) {
    let door = Door::default();
    let c = Peer::saying(vec![begun("c"), chunk("c", "deep", false), done("c")]).await;
    let (a, b) = (middle(&door, "a", "b").await, middle(&door, "b", "c").await);
    let supervisor = supervisor(&door, |door, asked| {
        Box::pin(async move { drop(door.call("a", &Called::by(&asked)).await) })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*a.url), ("b", &*b.url), ("c", &*c.url)];
    let served = gateway(place, &door, &agents, "").await;
    let events = served.run("s", "r").await;
    assert_eq!(answer(&events), "all is well");
    assert_eq!(
        lanes(&events),
        [
            lane("a", "", "a again", "success"),
            lane("b", "a", "b again", "success"),
            lane("c", "b", "deep", "success")
        ]
    );
}

/// How a supervisor calls, by what it was given.
type How = fn(&Asked) -> Called;

/// What a supervisor passes on of what it was given, one way at a time, and how that relates its call.
fn ways() -> Vec<(&'static str, How)> {
    fn with(headers: Vec<(&'static str, String)>) -> Called {
        Called { headers, ..Called::default() }
    }
    vec![
        ("token", |asked| with(vec![("x-aqueduct-run", header(asked, "x-aqueduct-run"))])),
        ("token", |asked| with(vec![("baggage", format!("a=1,{}", header(asked, "baggage")))])),
        ("token", |asked| {
            let metadata = asked.body["params"]["metadata"].clone();
            Called { metadata, ..Called::default() }
        }),
        ("trace", |asked| {
            // A span of the supervisor's own.
            let given = header(asked, "traceparent");
            let trace = given.split('-').nth(1).unwrap_or("none");
            with(vec![("traceparent", format!("00-{trace}-00000000000000aa-01"))])
        }),
        ("context", |_| Called { context: "t", ..Called::default() }),
        ("context", |_| Called { context: "S-context", ..Called::default() }),
        ("none", |_| Called::default()),
        ("none", |_| with(vec![("x-aqueduct-run", "0".repeat(49))])),
        // The run's part of a token is none of its agents'.
        ("none", |asked| {
            with(vec![("x-aqueduct-run", header(asked, "x-aqueduct-run").chars().take(40).collect())])
        }),
    ]
}

async fn each_relation_works_alone_and_without_any_the_call_passes(place: Place) {
    for (index, (relation, how)) in ways().into_iter().enumerate() {
        for switched_on in [true, false] {
            let door = Door::default();
            let mut sub = Peer::saying(vec![begun("a"), chunk("a", "hello", false), done("a")]).await;
            let supervisor = supervisor(&door, move |door, asked| {
                let how = how(&asked);
                Box::pin(async move {
                    // The gateway must have received the supervisor's context.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    assert!(door.call("a", &how).await.contains("hello"));
                })
            })
            .await;
            let toml = match (relation, switched_on) {
                ("none", _) => "",
                (_, true) => &format!("tee.relate_by = [\"{relation}\"]"),
                ("trace", false) => "tee.relate_by = [\"token\", \"context\"]",
                // A supervisor that is given no token cannot pass it on.
                (_, false) => "tee.relate_by = [\"trace\"]",
            };
            let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
            let served = gateway(place, &door, &agents, toml).await;
            let events = served.run("s", "r").await;
            assert_eq!(answer(&events), "all is well", "{index}");
            let expected = if relation != "none" && switched_on {
                vec![lane("a", "", "hello", "success")]
            } else {
                vec![]
            };
            assert_eq!(lanes(&events), expected, "{index} {relation} {switched_on}");
            let asked = sub.next("SendStreamingMessage").await;
            assert_eq!(asked.body["params"]["message"]["parts"], json!([{ "text": "do it" }]));
        }
    }
}

/// The sub-agent gets a token of its own, in every place, and no other is left.
async fn a_sub_agent_is_handed_its_own_token(place: Place) {
    let door = Door::default();
    let mut sub = Peer::saying(vec![begun("a"), done("a")]).await;
    let mut supervisor = supervisor(&door, |door, asked| {
        let token = header(&asked, "x-aqueduct-run");
        let how = Called {
            headers: vec![
                ("baggage", format!("x=1,aqueduct-run={token}")),
                ("authorization", "Bearer mine".to_owned()),
            ],
            metadata: json!({ "aqueduct/run": token, "other": 1.5 }),
            ..Called::default()
        };
        Box::pin(async move { drop(door.call("a", &how).await) })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("a", &*sub.url)];
    let served = gateway(place, &door, &agents, "").await;
    served.run("s", "r").await;
    let given = header(&supervisor.asked.recv().await.unwrap(), "x-aqueduct-run");
    let asked = sub.next("SendStreamingMessage").await;
    let own = header(&asked, "x-aqueduct-run");
    assert!(own.len() == 49 && own != given);
    assert_eq!(header(&asked, "baggage"), format!("x=1,aqueduct-run={own}"));
    // In the metadata of the call: agents store and show those of messages.
    assert_eq!(asked.body["params"]["message"]["metadata"], json!({ "other": 1.5 }));
    assert_eq!(asked.body["params"]["metadata"], json!({ "aqueduct/run": own }));
    assert!(!format!("{}{}", asked.head, asked.body).contains(&given), "{}", asked.head);
    assert!(!asked.head.contains("mine"), "credentials of the caller stay here");
}

/// The lane belongs to the supervisor's tool call, if the supervisor reports one that mentions the agent.
async fn a_lane_belongs_to_the_tool_call_that_names_its_agent(place: Place) {
    let door = Door::default();
    let sub = Peer::saying(vec![begun("a"), chunk("a", "hi", false), done("a")]).await;
    let way = door.clone();
    let supervisor = Peer::start(move |asked, mut out| {
        let door = way.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&[begun("S"), status("S", "WORKING", "🔧 Calling tool: **ask_weather**")].concat()).await;
            // The gateway must have received the call.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            door.call("weather", &Called::by(&asked)).await;
            out.say(&status("S", "WORKING", "✅ Tool **ask_weather** completed")).await;
            out.say(&[chunk("S", "all is well", false), done("S")].concat()).await;
        })
    })
    .await;
    let agents = [("s", &*supervisor.url), ("weather", &*sub.url)];
    let served = gateway(place, &door, &agents, "").await;
    let events = served.run("s", "r").await;
    let call = events.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    let lane = events.iter().find(|event| event["type"] == "SUBAGENT_STARTED").unwrap();
    assert_eq!(call["toolCallName"], "ask_weather");
    assert_eq!(lane["parentToolCallId"], call["toolCallId"], "{events:#?}");
}

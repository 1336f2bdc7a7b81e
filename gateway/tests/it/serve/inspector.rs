//! The inspector's routes: only where they are wanted, with a strict policy, and each caller sees its own runs.

use aqueduct_gateway::serve::demo_gateway;
use aqueduct_gateway::serve::routes::ROUTES;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Served, input, serve, serve_gateway};
use crate::program::root;

async fn open(extra: &str) -> Served {
    let toml =
        format!("{extra}\n[agents.a.script]\nfile = \"{}/scripts/demo-thinking.toml\"\n", root().display());
    serve(&toml, &[]).await
}

fn lines(response: &Response<Bytes>) -> Vec<Value> {
    let text = String::from_utf8_lossy(response.body());
    assert_eq!(response.status(), 200, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn runs_for(served: &Served, token: &str) -> Vec<Value> {
    let request =
        Request::get(served.url("/inspector/runs")).header("authorization", format!("Bearer {token}"));
    let response = served.send(request.body(Bytes::new()).unwrap()).await;
    let list: Value = serde_json::from_slice(response.body()).unwrap();
    list["runs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_demo_has_it_and_a_gateway_only_if_it_is_wanted() {
    let (gateway, _agents) = demo_gateway("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let demo = serve_gateway(gateway).await;
    assert_eq!(demo.get("/inspector").await.status(), 200);
    let plain = open("").await;
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/inspector")) {
        let path = route.path.replace("{file}", "main.js");
        let request = Request::builder().method(route.method).uri(plain.url(&path));
        let request = request.header("content-type", "application/json").body(Bytes::from_static(b"{}"));
        assert_eq!(plain.send(request.unwrap()).await.status(), 404, "{route:?}");
    }
    assert_eq!(open("inspector.enabled = true").await.get("/inspector").await.status(), 200);
}

#[tokio::test]
async fn every_file_comes_with_its_kind_and_the_strict_policy() {
    let served = open("inspector.enabled = true").await;
    for (path, kind) in [
        ("/inspector", "text/html; charset=utf-8"),
        ("/inspector/main.js", "text/javascript; charset=utf-8"),
        ("/inspector/base.css", "text/css; charset=utf-8"),
        ("/inspector/icon.svg", "image/svg+xml"),
    ] {
        let response = served.get(path).await;
        assert_eq!(response.headers()["content-type"], kind);
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        for part in
            ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "trusted-types 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    for missing in ["/inspector/none.js", "/inspector/..%2FCargo.toml"] {
        assert_eq!(served.get(missing).await.status(), 404, "{missing}");
    }
}

#[tokio::test]
async fn past_runs_are_listed_for_whoever_started_them() {
    let toml = format!(
        "inspector.enabled = true\n[agents.a]\nscript.file = \"{}/scripts/demo-thinking.toml\"\n\
         tokens = [\"env:ANN\", \"env:BOB\"]\n",
        root().display()
    );
    let served = serve(&toml, &[("ANN", "ann"), ("BOB", "bob")]).await;
    for (run, token) in [("first", "ann"), ("second", "bob"), ("third", "ann")] {
        let mut request = served.post("/agents/a", &input(run, Some("1.0")));
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        assert_eq!(served.send(request).await.status(), 200);
    }
    let of_ann = runs_for(&served, "ann").await;
    let ids: Vec<_> = of_ann.iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(ids, ["third", "first"], "newest first, and none of bob's");
    assert!(of_ann[0]["endedAt"].is_i64() && of_ann[0]["events"].as_u64().unwrap() > 3, "{}", of_ann[0]);
    assert_eq!(runs_for(&served, "bob").await.len(), 1);
}

/// The health of the agents that a caller may run; causes, which may name hosts, are for admins.
#[tokio::test]
async fn agents_are_listed_with_their_health() {
    let toml = format!(
        "inspector.enabled = true\n[agents.here.script]\nfile = \"{}/scripts/demo-thinking.toml\"\n\
         [agents.gone]\nretries = 0\ncircuit = {{ failures = 2, pause = \"1h\" }}\nagui = {{ url = \"http://127.0.0.1:1\" }}\n\
         [principals.ann]\ntenant = \"t\"\ntoken = \"env:ANN\"\n\
         [principals.root]\ntenant = \"t\"\ntoken = \"env:ROOT\"\nrole = \"admin\"\n\
         [principals.bob]\ntenant = \"t\"\ntoken = \"env:BOB\"\nagents = [\"here\"]\n",
        root().display()
    );
    let tokens = [
        ("ANN", "the token of ann, long"),
        ("ROOT", "the token of root, long"),
        ("BOB", "the token of bob, long"),
    ];
    let served = serve(&toml, &tokens).await;
    let agents = async |name: &str| {
        let request = Request::get(served.url("/inspector/agents"))
            .header("authorization", format!("Bearer the token of {name}, long"));
        let response = served.send(request.body(Bytes::new()).unwrap()).await;
        let list: Value = serde_json::from_slice(response.body()).unwrap();
        list["agents"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
    };
    let of =
        |agents: &[Value], name: &str| agents.iter().find(|agent| agent["name"] == name).unwrap().clone();
    assert_eq!(of(&agents("ann").await, "gone")["status"], "unknown");
    for (run, status) in [("r1", "failing"), ("r2", "unavailable")] {
        let mut request = served.post("/agents/gone", &input(run, Some("1.0")));
        request.headers_mut().insert("authorization", "Bearer the token of ann, long".parse().unwrap());
        assert_eq!(served.send(request).await.status(), 200);
        assert_eq!(of(&agents("root").await, "gone")["status"], status);
    }
    let seen = of(&agents("root").await, "gone");
    assert!(seen["lastFailure"].as_str().unwrap().contains("127.0.0.1"), "{seen}");
    assert_eq!(of(&agents("root").await, "here")["status"], "local");
    let seen = of(&agents("ann").await, "gone");
    assert_eq!((&seen["lastFailure"], &seen["failures"]), (&Value::Null, &json!(2)), "{seen}");
    assert_eq!(agents("bob").await.len(), 1, "an agent that bob may not run is not listed");
    assert_eq!(served.get("/inspector/agents").await.status(), 401);
}

#[tokio::test]
async fn recordings_are_told_apart_converted_and_judged() {
    let served = open("inspector.enabled = true").await;
    for (file, from) in [
        ("agui/agui_agent_tool.sse", "agui"),
        ("a2a/v1-jsonrpc-multi.sse", "a2a"),
        ("a2a/v03-jsonrpc-multi.sse", "a2a-0.3"),
        ("magentic/mag_tool_int.events.jsonl", "magentic"),
    ] {
        let trace = std::fs::read_to_string(root().join("tests/fixtures").join(file)).unwrap();
        let found = lines(&served.send(served.post("/inspector/convert", &json!({ "trace": trace }))).await);
        assert_eq!(found[0]["from"], from, "{file}");
        assert_eq!(found[0]["verdict"]["total"], 0, "{file}: {}", found[0]);
        assert_eq!(found[1]["type"], "RUN_STARTED", "{file}");
        assert_eq!(found.last().unwrap()["type"], "RUN_FINISHED", "{file}");
    }
    let nothing = served.send(served.post("/inspector/convert", &json!({ "trace": "hello" }))).await;
    assert_eq!(nothing.status(), 400);
}

#[tokio::test]
async fn a_long_trace_is_taken_by_the_inspector_and_by_no_other_route() {
    let served = open("inspector = { enabled = true, trace = \"64KiB\" }\nserver.body = \"4KiB\"").await;
    let event = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n";
    let long = json!({ "trace": format!("{event}{}", "\n".repeat(16 << 10)), "whole": false });
    let judged = served.send(served.post("/inspector/verify", &long)).await;
    assert_eq!(lines(&judged)[0]["total"], 0);
    let mut body = input("long", Some("1.0"));
    body["forwardedProps"] = json!({ "padding": "x".repeat(8 << 10) });
    assert_eq!(served.send(served.post("/agents/a", &body)).await.status(), 413);
    let too_long = json!({ "trace": "x".repeat(80 << 10) });
    assert_eq!(served.send(served.post("/inspector/verify", &too_long)).await.status(), 413);
}

#[tokio::test]
async fn the_root_leads_to_the_page_where_it_is_on() {
    let response = open("inspector.enabled = true").await.get("/").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["location"]),
        (307, &"inspector".parse().unwrap())
    );
    assert_eq!(open("").await.get("/").await.status(), 404);
}

async fn listed(served: &Served, query: &str) -> Vec<Value> {
    let response = served.get(&format!("/inspector/runs?{query}")).await;
    let list: Value = serde_json::from_slice(response.body()).unwrap();
    list["runs"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
}

#[tokio::test]
async fn runs_are_found_by_words_outcome_agent_thread_and_time() {
    let toml = format!(
        "inspector.enabled = true\n[agents.bad.script]\nfile = \"{0}/scripts/demo-failure.toml\"\n\
         [agents.good.script]\nfile = \"{0}/scripts/demo-thinking.toml\"\n",
        root().display()
    );
    let served = serve(&toml, &[]).await;
    for (agent, run) in [("bad", "r1"), ("good", "r2")] {
        let mut body = input(run, Some("1.0"));
        body["threadId"] = format!("thread-{run}").into();
        served.send(served.post(&format!("/agents/{agent}"), &body)).await;
    }
    let runs = |query: &'static str| {
        let served = &served;
        async move {
            listed(served, query)
                .await
                .iter()
                .map(|run| run["run"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(runs("").await, ["r2", "r1"]);
    assert_eq!(runs("outcome=failed").await, ["r1"]);
    assert_eq!(runs("outcome=errors").await, ["r1"]);
    assert_eq!(runs("outcome=success&agent=good").await, ["r2"]);
    assert_eq!(runs("q=OVERLOADED").await, ["r1"]);
    assert_eq!(runs("q=fetcher+bad").await, ["r1"]);
    assert_eq!(runs("thread=thread-r2").await, ["r2"]);
    assert_eq!(runs("until=1000").await, [""; 0]);
    assert_eq!(runs("since=1000&limit=1").await, ["r2"]);
    let bad = &listed(&served, "agent=bad").await[0];
    assert_eq!(bad["failedAgents"][0]["name"], "fetcher");
    assert_eq!(bad["error"]["code"], "agent_failed");
    assert!(bad["prompt"].as_str().is_some_and(|prompt| !prompt.is_empty()), "{bad}");
    assert_eq!(served.get("/inspector/runs?since=soon").await.status(), 400);
}

#[tokio::test]
async fn one_event_is_shown_in_every_protocol() {
    let served = open("inspector.enabled = true").await;
    served.send(served.post("/agents/a", &input("r", Some("1.0")))).await;
    let forms = async |number: u64| {
        let response = served.get(&format!("/inspector/runs/r/forms?number={number}")).await;
        serde_json::from_slice::<Value>(response.body()).unwrap()
    };
    let started = forms(1).await;
    assert_eq!(
        (&started["canonical"][0]["event"], &started["agui"][0]["type"]),
        (&json!("run.started"), &json!("RUN_STARTED"))
    );
    let head = listed(&served, "").await[0]["events"].as_u64().unwrap();
    let mut rules = std::collections::BTreeSet::new();
    for number in 1..=head {
        let found = forms(number).await;
        assert_eq!(found["number"], number);
        assert_eq!(found["canonical"].as_array().unwrap().len(), 1);
        rules.insert(found["rule"]["name"].as_str().unwrap().to_owned());
    }
    assert!(
        rules.contains("lazy start") && rules.contains("deferred end") && rules.contains("end of run"),
        "{rules:?}"
    );
    assert_eq!(served.get(&format!("/inspector/runs/r/forms?number={}", head + 1)).await.status(), 404);
    assert_eq!(served.get("/inspector/runs/none/forms").await.status(), 404);
}

/// A reader that counts events can have every stored event, however slowly it reads.
#[tokio::test]
async fn merging_is_switched_off_by_the_request() {
    let script = crate::scratch::folder().join("merge.toml");
    std::fs::write(&script, "[[step]]\nburst = 20000\n").unwrap();
    let served = serve(&format!("[agents.a.script]\nfile = \"{}\"\n", script.display()), &[]).await;
    let count = |response: &Response<Bytes>| {
        String::from_utf8_lossy(response.body()).matches("TEXT_MESSAGE_CONTENT").count()
    };
    let started = served.send(served.post("/agents/a?merge=false", &input("r", Some("1.0")))).await;
    assert_eq!(count(&started), 20_000, "the response that starts the run");
    let deltas =
        async |query: &str| count(&served.get(&format!("/runs/r/events?protocolVersion=1.0{query}")).await);
    assert_eq!(deltas("&merge=false").await, 20_000);
    assert_eq!(deltas("&after=0&merge=false").await, 20_000);
    assert!(deltas("").await < 20_000, "a reader that is behind gets merged deltas");
}

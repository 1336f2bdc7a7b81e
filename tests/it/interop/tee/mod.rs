//! Supervisors of real frameworks call their sub-agents through the gateway; the real AG-UI clients see every step of
//! every sub-agent before the answer, attributed or inline, and the answer once.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use super::runlog::server::Server;
use super::variable;

const ANSWER: &str = "Summary: three apps are in sync. two issues are open.";

/// Sub-agents and their tools; `jira` calls `clock`.
const WORK: [(&str, &str); 3] = [("argocd", "list_apps"), ("jira", "search_issues"), ("clock", "read_clock")];

fn scripts() -> PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("tee")
}

/// The agents, and gateways that have all of them.
struct Scene {
    _agents: Program,
    /// What the clients run their agents at.
    gateway: Program,
    /// Where supervisors and sub-agents call others, if that is another gateway, and what the two share.
    other: Option<(Program, Server)>,
}

impl Scene {
    fn new(name: &str, more: &str) -> Self {
        Self::start(name, more, None)
    }

    /// Two gateways that share a Redis: one drives the runs, the other carries the calls of sub-agents.
    fn of_two(name: &str) -> Self {
        let redis = Server::start();
        let file = variable("AQUEDUCT_INTEROP_CASES").join(format!("{name}.redis-url"));
        std::fs::write(&file, redis.url()).unwrap();
        let more = format!("runs.log = \"redis\"\nruns.redis = \"file:{}\"", file.display());
        Self::start(name, &more, Some(redis))
    }

    fn start(name: &str, more: &str, shared: Option<Server>) -> Self {
        let script = scripts().join("agents.py");
        let agents = Program::start(variable("AQUEDUCT_INTEROP_TEE_PY"), &[script.to_str().unwrap()]);
        let mut toml = format!("{more}\n");
        for agent in ["argocd", "careful", "clock", "deployer", "jira", "langgraph", "plain"] {
            writeln!(toml, "[agents.{agent}]\na2a.url = \"{}/{agent}\"", agents.address).unwrap();
            if agent == "deployer" {
                writeln!(toml, "questions = \"user\"").unwrap();
            }
        }
        let file = variable("AQUEDUCT_INTEROP_CASES").join(format!("{name}.toml"));
        std::fs::write(&file, toml).unwrap();
        let args = ["serve", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
        let gateway = || Program::start(variable("AQUEDUCT_INTEROP_GATEWAY"), &args);
        let other = shared.map(|redis| (gateway(), redis));
        Self { _agents: agents, gateway: gateway(), other }
    }

    /// What the client of that project saw of one run.
    fn watch(&self, project: &str, agent: &str, relate: &str) -> Value {
        let base_of = |gateway: &Program| gateway.address.split_once("/agents/").unwrap().0.to_owned();
        let base = base_of(&self.gateway);
        let door = self.other.as_ref().map_or_else(|| base.clone(), |(other, _)| base_of(other));
        let question = json!({ "gateway": door, "relate": relate }).to_string();
        let mut command = Command::new("node");
        command.arg(scripts().join("watch.mjs")).arg("--project").arg(variable(project));
        command.args(["--url", &format!("{base}/agents/{agent}"), "--question", &question]);
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{agent} {relate}: {words}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["warnings"], json!([]));
        seen
    }
}

/// The question of a sub-agent is answered by the user; the supervisor, which could not answer it, sees its task go on.
#[test]
fn a_question_of_a_sub_agent_is_answered_by_the_user() {
    let scene = Scene::new("raised", "");
    let base = scene.gateway.address.split_once("/agents/").unwrap().0.to_owned();
    let question = json!({ "gateway": base, "relate": "header" }).to_string();
    let mut command = Command::new("node");
    command.arg(scripts().join("reply.mjs")).arg("--project").arg(variable("AQUEDUCT_INTEROP_AGUI_1_0"));
    command.args(["--url", &format!("{base}/agents/careful"), "--question", &question, "--reply", "prod"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["warnings"], json!([]));
    assert_eq!(seen["interrupts"][0]["message"], "Which cluster?", "{seen:#}");
    let tools = |run: &str| -> Vec<Value> {
        let events = seen[run].as_array().unwrap().iter();
        let calls = events.filter(|event| event["type"] == "TOOL_CALL_START");
        calls.map(|event| event["toolCallName"].clone()).collect()
    };
    assert_eq!((tools("first"), tools("second")), (vec![json!("plan")], vec![json!("roll_out")]));
    let texts = seen["second"].as_array().unwrap().iter().filter(|event| {
        event["type"] == "TEXT_MESSAGE_CONTENT" && event.get("subagentRunId").is_none_or(Value::is_null)
    });
    let answer: String = texts.filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(answer, "Summary: deployed to prod.");
}

fn events(seen: &Value) -> &[Value] {
    seen["events"].as_array().unwrap()
}

/// The answer is the agent's own text, shown once, after all other content.
fn answer_comes_once_and_last(seen: &Value) -> &[Value] {
    let events = events(seen);
    let is_answer = |event: &&Value| {
        event["type"] == "TEXT_MESSAGE_CONTENT" && event.get("subagentRunId").is_none_or(Value::is_null)
    };
    let said: String = events.iter().filter(is_answer).filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, ANSWER);
    let holding = seen["messages"].as_array().unwrap().iter();
    let holding =
        holding.filter(|message| message["content"].as_str().is_some_and(|text| text.contains("Summary")));
    assert_eq!(holding.count(), 1, "{}", seen["messages"]);
    let at = events.iter().position(|event| is_answer(&event)).unwrap();
    &events[..at]
}

/// Every tool notice of every sub-agent, with the tag of its lane.
fn notices(before: &[Value]) -> Vec<(&str, &Value)> {
    let starts = before.iter().filter(|event| event["type"] == "TOOL_CALL_START");
    starts.map(|event| (event["toolCallName"].as_str().unwrap(), &event["subagentRunId"])).collect()
}

fn shows_all_attributed(seen: &Value, nested: bool) {
    let before = answer_comes_once_and_last(seen);
    let lanes: Vec<&Value> = before.iter().filter(|event| event["type"] == "SUBAGENT_STARTED").collect();
    let lane = |name: &str| {
        let found: Vec<_> = lanes.iter().filter(|lane| lane["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name} has one lane: {lanes:?}");
        *found[0]
    };
    for (agent, tool) in WORK {
        let tag = &lane(agent)["subagentRunId"];
        assert!(notices(before).contains(&(tool, tag)), "{tool} of {agent}: {before:#?}");
        let ended = before
            .iter()
            .find(|event| event["type"] == "SUBAGENT_FINISHED" && event["subagentRunId"] == *tag);
        assert_eq!(ended.unwrap()["outcome"]["type"], "success");
    }
    let results = before.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").count();
    assert_eq!(results, WORK.len());
    let parent = if nested { lane("jira")["subagentRunId"].clone() } else { Value::Null };
    assert_eq!(lane("clock")["parentSubagentRunId"], parent);
}

/// Every sub-agent is a call, and its tools are calls under its name.
fn shows_all_as_calls(seen: &Value) {
    let before = answer_comes_once_and_last(seen);
    let names: Vec<&str> = notices(before).into_iter().map(|(name, _)| name).collect();
    let is_last = |name: &str, agent: &str| name.rsplit(" › ").next() == Some(agent);
    for (agent, tool) in WORK {
        assert!(names.iter().any(|name| is_last(name, agent)), "{agent} is not seen: {names:?}");
        let path = format!("{agent} › {tool}");
        assert!(names.iter().any(|name| name.ends_with(&path)), "{tool} of {agent}: {names:?}");
    }
    assert!(before.iter().all(|event| event.get("subagentRunId").is_none()), "{before:#?}");
}

#[test]
fn client_1_0_sees_sub_agents_of_a_python_supervisor_whatever_it_hands_on() {
    let scene = Scene::new("attributed", "");
    for relate in ["header", "baggage", "metadata", "trace", "context"] {
        // A trace or a context leads to the run, not to the sub-agent that called.
        let nested = !matches!(relate, "trace" | "context");
        shows_all_attributed(&scene.watch("AQUEDUCT_INTEROP_AGUI_1_0", "plain", relate), nested);
    }
}

/// The calls land on another replica than the run.
#[test]
fn client_1_0_sees_them_over_two_replicas_whatever_is_handed_on() {
    let scene = Scene::of_two("replicas-attributed");
    for relate in ["header", "baggage", "metadata", "trace", "context"] {
        let nested = !matches!(relate, "trace" | "context");
        shows_all_attributed(&scene.watch("AQUEDUCT_INTEROP_AGUI_1_0", "plain", relate), nested);
    }
    shows_all_attributed(&scene.watch("AQUEDUCT_INTEROP_AGUI_1_0", "langgraph", "header"), true);
    let seen = scene.watch("AQUEDUCT_INTEROP_AGUI_1_0", "plain", "none");
    let before = answer_comes_once_and_last(&seen);
    assert_eq!(notices(before), [], "an unrelated call is simply passed on");
}

#[test]
fn client_0_0_59_sees_them_as_calls_over_two_replicas() {
    let scene = Scene::of_two("replicas-calls");
    shows_all_as_calls(&scene.watch("AQUEDUCT_INTEROP_AGUI_0_0_59", "plain", "header"));
    shows_all_as_calls(&scene.watch("AQUEDUCT_INTEROP_AGUI_0_0_59", "langgraph", "header"));
}

#[test]
fn client_0_0_59_sees_them_as_calls() {
    let scene = Scene::new("calls", "");
    shows_all_as_calls(&scene.watch("AQUEDUCT_INTEROP_AGUI_0_0_59", "plain", "header"));
    shows_all_as_calls(&scene.watch("AQUEDUCT_INTEROP_AGUI_0_0_59", "langgraph", "header"));
}

/// `LangGraph` drops what its tools stream; the tee shows it.
#[test]
fn client_1_0_sees_sub_agents_of_a_langgraph_supervisor() {
    let scene = Scene::new("langgraph", "");
    shows_all_attributed(&scene.watch("AQUEDUCT_INTEROP_AGUI_1_0", "langgraph", "header"), true);
}

/// Or the tests above prove nothing: without a relation the same agents answer the same, and nothing else is seen.
#[test]
fn without_a_relation_the_calls_pass_and_nothing_is_seen_of_them() {
    let switched_off = Scene::new("switched-off", "tee.relate_by = []");
    let nothing_handed_on = Scene::new("nothing-handed-on", "");
    for project in ["AQUEDUCT_INTEROP_AGUI_1_0", "AQUEDUCT_INTEROP_AGUI_0_0_59"] {
        for (scene, agent) in [(&switched_off, "langgraph"), (&nothing_handed_on, "plain")] {
            let seen = scene.watch(project, agent, "none");
            let before = answer_comes_once_and_last(&seen);
            assert!(before.iter().all(|event| event.get("subagentRunId").is_none()), "{before:#?}");
            assert_eq!(notices(before), []);
        }
    }
}

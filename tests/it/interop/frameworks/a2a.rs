//! The A2A servers of the frameworks: every scenario at every server, with both clients before the gateway.

use aqueduct_tests::frameworks::{Scenario, Server};
use serde_json::{Value, json};

use super::stage::{case, start, turns};
use crate::interop::gateway::frontend::{Client, Frontend};
use crate::interop::gateway::stage::{base, gateway};

/// Plays all scenarios of a server; fails with every cell that is not as expected.
fn plays_all(name: &str, client: Client) {
    let server = Server::named(name);
    let (_agent, source) = start(&server);
    let toml = format!("log.level = \"error\"\n[agents.{name}]\nerrors = \"error\"\n{source}\n");
    let gateway = gateway(&format!("{name}-{client:?}"), &toml);
    let url = format!("{}/agents/{name}", base(&gateway));
    let mut frontend = Frontend::start(client);
    let mut wrong = Vec::new();
    for (number, scenario) in Scenario::all_of(&server).iter().enumerate() {
        // As frontends make them: some servers take nothing but a UUID.
        let thread = format!("00000000-0000-4000-8000-{number:012x}");
        let seen = frontend.play(&case(scenario, &url, &thread));
        let found = scenario.differences(&turns(&seen), client == Client::V0_0_59);
        #[expect(clippy::print_stdout, reason = "a cell of the matrix per line")]
        {
            println!(
                "{name} {client:?} {}: {}",
                scenario.name,
                if found.is_empty() { "ok" } else { "WRONG" }
            );
        }
        wrong.extend(found.iter().map(|found| format!("{}: {found}", scenario.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One module per server, one test per client.
macro_rules! servers {
    ($($module:ident $name:literal,)*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn client_1_0() {
                plays_all($name, Client::V1_0);
            }

            #[test]
            fn client_0_0_59() {
                plays_all($name, Client::V0_0_59);
            }
        })*

        /// Every entry of `servers.json` has a test.
        #[test]
        fn every_server_is_played() {
            let names: Vec<String> = Server::all().into_iter().map(|server| server.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

servers! {
    google_adk "google-adk",
    google_adk_sse "google-adk-sse",
    google_adk_new "google-adk-new",
    strands "strands",
    strands_compliant "strands-compliant",
    langgraph "langgraph",
    agno "agno",
    pydantic_ai "pydantic-ai",
    agent_framework "agent-framework",
    agent_framework_whole "agent-framework-whole",
}

/// The harness can fail: what is not as the file has it is noticed.
#[test]
fn what_is_wrong_is_noticed() {
    let scenarios = Scenario::all_of(&Server::named("google-adk-sse"));
    let tool = scenarios.iter().find(|scenario| scenario.name == "tool").unwrap();
    let seen = |change: &dyn Fn(&mut Value)| {
        let mut turn = json!({
            "messages": [
                { "role": "user", "content": "tool" },
                { "role": "reasoning", "content": "Let me look." },
                { "role": "assistant", "calls": [{ "name": "weather", "arguments": "{\"city\":\"Paris\"}" }] },
                { "role": "tool", "of": "weather", "content": "{\"result\":\"21 degrees\"}" },
                { "role": "assistant", "content": "It is 21 degrees in Paris." },
            ],
            "ends": [{ "type": "RUN_FINISHED" }], "questions": [], "error": null,
        });
        change(&mut turn);
        tool.differences(&turns(&json!([turn])), false)
    };
    assert_eq!(seen(&|_| ()), Vec::<String>::new());
    let wrong: [&dyn Fn(&mut Value); 6] = [
        &|turn| turn["messages"][1]["content"] = json!("Let me look. Let me look."),
        &|turn| turn["messages"][4]["role"] = json!("reasoning"),
        &|turn| {
            turn["messages"][4]["content"] = json!("It is 21 degrees in Paris. It is 21 degrees in Paris.");
        },
        &|turn| turn["messages"][2]["calls"][0]["arguments"] = json!("{}"),
        &|turn| turn["messages"][3]["content"] = json!("22 degrees"),
        &|turn| turn["ends"][0] = json!({ "type": "RUN_ERROR", "message": "no" }),
    ];
    for (number, change) in wrong.iter().enumerate() {
        assert_ne!(seen(change), Vec::<String>::new(), "{number}");
    }
}

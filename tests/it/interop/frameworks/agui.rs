//! The AG-UI servers of the frameworks: what both clients hold through the gateway is the content of the scenario, and what
//! they hold without the gateway (`matrix.mjs`).

use std::process::Command;

use aqueduct_tests::frameworks::folder;
use serde_json::Value;

use crate::interop::variable;

/// Plays every scenario of a framework; fails with every cell that is not as expected.
fn plays_all(name: &str, pins: &str) {
    let python = variable("AQUEDUCT_INTEROP_FRAMEWORKS").join(pins).join("venv/bin/python");
    let mut command = Command::new("node");
    command.arg(folder().join("agui/matrix.mjs")).args(["--framework", name]).arg("--python").arg(python);
    command.arg("--gateway").arg(variable("AQUEDUCT_INTEROP_GATEWAY"));
    command.arg("--client-1.0.0").arg(variable("AQUEDUCT_INTEROP_AGUI_1_0"));
    command.arg("--client-0.0.59").arg(variable("AQUEDUCT_INTEROP_AGUI_0_0_59"));
    let output = command.output().unwrap();
    let cells = String::from_utf8(output.stdout).unwrap();
    let cells: Vec<Value> = cells.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_red = |cell: &&Value| cell["red"] != Value::Array(Vec::new());
    let red: Vec<String> = cells.iter().filter(is_red).map(ToString::to_string).collect();
    assert!(red.is_empty(), "{}", red.join("\n"));
    assert!(output.status.success() && !cells.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One test per framework: its name in `agui/frameworks.json`, and the folder of its pins.
macro_rules! frameworks {
    ($($test:ident $name:literal $pins:literal,)*) => {
        $(#[test]
        fn $test() {
            plays_all($name, $pins);
        })*

        #[test]
        fn every_framework_is_played() {
            let text = std::fs::read_to_string(folder().join("agui/frameworks.json")).unwrap();
            let known: Value = serde_json::from_str(&text).unwrap();
            let known: Vec<&String> = known.as_object().unwrap().keys().collect();
            assert_eq!(known, [$($name),*]);
        }
    };
}

frameworks! {
    pydantic_ai "pydantic-ai" "pydantic-ai",
    langgraph "langgraph" "langgraph",
    adk "adk" "google-adk",
    strands "strands" "strands",
    agent_framework "agent-framework" "agent-framework",
    agno "agno" "agno",
    llama_index "llama-index" "llama-index",
    crewai "crewai" "crewai",
}

//! schemathesis sends what `docs/reference/openapi.json` allows, and what it forbids, to a running gateway: no answer may be
//! an error of the server.
#![expect(clippy::print_stdout, reason = "the counts are what one runs this test for")]

use std::path::Path;
use std::process::Command;

use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_transport_http::{Client, ClientConfig};
use serde_json::{Value, json};

use super::variable;

/// Requests for each operation and phase.
const EXAMPLES: &str = "40";

/// Requests that must have been sent: a run that sends none would pass too.
const LEAST_REQUESTS: u64 = 500;

/// Names the agent, the run and the thread that exist, beside some that do not: names by chance would test one refusal.
fn named(openapi: &mut Value) {
    let names = [("name", "agent"), ("run", "run-1"), ("thread", "thread-1")];
    match openapi {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str).map(str::to_owned);
            let known = names.iter().find(|(known, _)| name.as_deref() == Some(known));
            if let Some((_, value)) = known.filter(|_| fields.get("in") == Some(&json!("path"))) {
                fields.insert("schema".to_owned(), json!({ "type": "string", "enum": [value, "nothing"] }));
            }
            fields.values_mut().for_each(named);
        }
        Value::Array(values) => values.iter_mut().for_each(named),
        _ => {}
    }
}

fn run(folder: &Path, url: &str) -> Value {
    let text = std::fs::read_to_string(variable("AQUEDUCT_INTEROP_OPENAPI")).unwrap();
    let mut openapi: Value = serde_json::from_str(&text).unwrap();
    named(&mut openapi);
    let (schema, report) = (folder.join("openapi.json"), folder.join("schemathesis.json"));
    std::fs::write(&schema, openapi.to_string()).unwrap();
    let mut command = Command::new(variable("AQUEDUCT_INTEROP_SCHEMATHESIS"));
    command.args(["-m", "schemathesis.cli", "run"]).arg(&schema).args(["--url", url]).current_dir(folder);
    command.args(["--checks", "not_a_server_error", "--continue-on-failure", "--no-color"]);
    // One worker: threads of CPython 3.11 share the depth of its parser, so that two of them fail in it now and then.
    command.args(["--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "20", "--workers", "1"]);
    command.args(["--report", "json", "--report-json-path"]).arg(&report);
    let output = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{errors}");
    println!("{out}");
    serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap()
}

/// Starts the run that requests name.
async fn start_run(address: &str) {
    let input = json!({
        "threadId": "thread-1", "runId": "run-1", "messages": [], "tools": [], "context": [], "state": {},
    });
    let request = http::Request::post(format!("http://{address}/agents/agent"));
    let request = request.header("content-type", "application/json").body(input.to_string().into()).unwrap();
    let response = Client::new(ClientConfig::default()).unwrap().request(request).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_of_schemathesis_is_an_error_of_the_gateway() {
    let folder = variable("AQUEDUCT_INTEROP_CASES").join("schemathesis");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.toml"), "[[step]]\ntext = \"Here.\"\n").unwrap();
    let toml = "[agents.agent.script]\nfile = \"agent.toml\"\n";
    let mut config = load(&folder.join("aqueduct.toml"), toml, []).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let listening = Listening::bind(Gateway::new(config).unwrap()).await.unwrap();
    let (address, shutdown) = (listening.addresses().unwrap()[0], listening.shutdown());
    let serving = tokio::spawn(listening.serve());
    start_run(&address.to_string()).await;
    let report =
        tokio::task::spawn_blocking(move || run(&folder, &format!("http://{address}"))).await.unwrap();
    shutdown.cancel();
    serving.abort();
    let sent = report.pointer("/test_cases/generated").and_then(Value::as_u64);
    assert!(sent.is_some_and(|sent| sent >= LEAST_REQUESTS), "{:#}", report["test_cases"]);
}

//! The Autobahn test suite against the upgrade and the codec of `transport-ws`, which echo.
//!
//! All cases but those of compression (12 and 13), which the server does not offer, with the limits of size raised to those
//! of the largest messages of the suite.
#![expect(clippy::print_stdout, reason = "the counts are what one runs this test for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Server, ServerConfig};
use aqueduct_transport_ws::{Limits, testing};
use serde_json::{Value, json};

use super::variable;

/// The largest message of the suite has 16 MiB.
const LARGEST: usize = 17 * 1024 * 1024;

/// The cases that must be there: a suite that runs none would pass too.
const LEAST_CASES: usize = 290;

/// Results that the suite counts as passed.
const PASSED: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

fn run(folder: &Path, address: &str) -> Value {
    let spec = folder.join("autobahn.json");
    let reports = folder.join("autobahn");
    let server = json!({ "agent": "aqueduct", "url": format!("ws://{address}/echo") });
    let cases = json!({
        "outdir": reports, "servers": [server], "cases": ["*"], "exclude-cases": ["12.*", "13.*"], "exclude-agent-cases": {},
    });
    std::fs::write(&spec, cases.to_string()).unwrap();
    let python = variable("AQUEDUCT_INTEROP_PYTHON2");
    let suite = variable("AQUEDUCT_INTEROP_AUTOBAHN");
    let mut command = Command::new(python);
    command.env("PYTHONPATH", &suite).current_dir(folder);
    // A folder in PYTHONPATH alone is no site: the namespace packages in it are declared by its `.pth` files.
    let start = "import os, site; site.addsitedir(os.environ['PYTHONPATH']); from autobahntestsuite import wstest; wstest.run()";
    command.args(["-c", start]);
    command.arg("--mode=fuzzingclient").arg("--spec").arg(&spec);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let index = std::fs::read_to_string(reports.join("index.json")).unwrap();
    serde_json::from_str::<Value>(&index).unwrap()["aqueduct"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_of_the_autobahn_suite_passes() {
    let limits = Limits { message_bytes: LARGEST, frame_bytes: LARGEST, ..Limits::default() };
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let (address, stop) = (server.local_addr().unwrap().to_string(), CancelToken::new());
    let serving = tokio::spawn(server.serve(testing::echo_router(limits), stop.clone()));
    let folder = variable("AQUEDUCT_INTEROP_CASES");
    let results = tokio::task::spawn_blocking(move || run(&folder, &address)).await.unwrap();
    stop.cancel();
    serving.abort();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for (case, result) in results.as_object().unwrap() {
        let behaviours =
            ["behavior", "behaviorClose"].map(|kind| result[kind].as_str().unwrap_or_default().to_owned());
        if behaviours.iter().any(|behaviour| !PASSED.contains(&behaviour.as_str())) {
            failed.push(format!("{case}: {behaviours:?}"));
        }
        *counts.entry(behaviours[0].clone()).or_default() += 1;
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(counts.values().sum::<usize>() >= LEAST_CASES, "{counts:?}");
    println!("{counts:?}");
}

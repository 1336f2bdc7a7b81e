//! The inspector over two replicas: gateways in this process that share a log, with principals and traces.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use aqueduct_core::CancelToken;
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::MemoryLog;

use super::{command, ends_well, renew, root, variable};

const PRINCIPALS: [(&str, &str); 3] = [("ann", "user"), ("bob", "user"), ("root", "admin")];

/// An agent that speaks until it is stopped, one that asks, and one that is not there. Traces go nowhere: they have ids all the same.
fn configuration() -> String {
    let script = variable("AQUEDUCT_INTEROP_CASES").join("replicas-endless.toml");
    let words: String = (0..5_000).fold(String::new(), |mut words, word| {
        write!(words, "word{word} ").unwrap();
        words
    });
    std::fs::write(&script, format!("[[step]]\npace = \"200ms\"\ntext = \"{words}\"\n")).unwrap();
    let mut toml = format!(
        "inspector = {{ enabled = true, traces = \"https://traces.example.org/trace/{{trace}}\" }}\n\
         telemetry = {{ otlp = \"http://127.0.0.1:1\", protocol = \"http\" }}\n\
         [agents.endless.script]\nfile = \"{}\"\n[agents.question.script]\nfile = \"{}\"\n\
         [agents.gone]\nretries = 0\ncircuit = {{ failures = 1, pause = \"1h\" }}\nagui = {{ url = \"http://127.0.0.1:1\" }}\n",
        script.display(),
        root().join("scripts/demo-question.toml").display()
    );
    for (name, role) in PRINCIPALS {
        writeln!(toml, "[principals.{name}]\ntenant = \"blue\"\ntoken = \"env:{name}\"\nrole = \"{role}\"")
            .unwrap();
    }
    toml
}

/// Serves a gateway on that log until the switch is turned.
async fn serve(log: &Arc<MemoryLog>) -> (String, CancelToken) {
    let tokens = PRINCIPALS.map(|(name, _)| (name.to_owned(), format!("the token of {name}, long enough")));
    let mut config = load(Path::new("aqueduct.toml"), &configuration(), tokens).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let gateway = Gateway::with_log(config, Arc::clone(log) as _).unwrap();
    let listening = Listening::bind(gateway).await.unwrap();
    let (address, switch) = (listening.addresses().unwrap()[0], listening.shutdown());
    tokio::spawn(listening.serve());
    (format!("http://{address}"), switch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas() {
    let log = Arc::new(MemoryLog::default());
    let (first, stop_first) = serve(&log).await;
    let (second, stop_second) = serve(&log).await;
    let played = tokio::task::spawn_blocking(move || {
        ends_well("replicas", command("replicas", &first).args(["--other", &second]))
    });
    played.await.unwrap();
    stop_first.cancel();
    stop_second.cancel();
    renew(&["agents"]);
}

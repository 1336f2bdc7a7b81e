//! What operators get, judged by programs that others wrote: `/metrics` by the parser of the Prometheus client, with the
//! names that the dashboard and the alert rules ask for; the manifests by the schemas of Kubernetes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use aqueduct_tests::process::post_whole;

use super::stage::{base, gateway, script, variable};

/// An agent whose every run has a sub-agent, a tool, tokens and a question.
const EVENTS: [&str; 7] = [
    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
    r#"{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"x"}"#,
    r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"s","name":"x"}"#,
    r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search"}"#,
    r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
    r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"42"}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"model":"m","inputTokens":3,"outputTokens":4}],"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"input_required","message":"?"}]}}"#,
];

fn agent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream);
        }
    });
    url
}

fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    // The input of a run ends with its braces; the test sends it whole.
    while !request.ends_with(b"}") {
        let read = stream.read(&mut buffer).unwrap();
        if read == 0 {
            return;
        }
        request.extend_from_slice(&buffer[..read]);
    }
    let body = format!("data: {}\n\n", EVENTS.join("\n\ndata: "));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(socket, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    body.to_owned()
}

fn judge(args: &[&str]) {
    let mut command = Command::new(variable("AQUEDUCT_INTEROP_OPERATE"));
    let output = command.arg(script("operate.py")).args(args).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{failed}");
}

fn deploy(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy").join(path);
    root.to_str().unwrap().to_owned()
}

#[test]
fn a_real_parser_reads_the_metrics_that_dashboard_and_rules_ask_for() {
    let program = gateway("operate", &format!("[agents.a]\nagui = {{ url = \"{}\" }}\n", agent()));
    let url = format!("{}/agents/a", base(&program));
    let input = |run: &str| {
        format!(
            r#"{{"threadId":"t","runId":"{run}","state":{{}},"messages":[{{"id":"m","role":"user","content":"hi"}}],"tools":[],"context":[],"forwardedProps":{{}}}}"#
        )
    };
    post_whole(&url, &input("r1"));
    // A run of that id is there: it is refused.
    post_whole(&url, &input("r1"));
    let text = get(&format!("{}/metrics", base(&program)));
    let file = variable("AQUEDUCT_INTEROP_CASES").join("metrics.txt");
    std::fs::write(&file, text).unwrap();
    let (dashboard, rules) = (deploy("grafana/aqueduct.json"), deploy("prometheus/alerts.yaml"));
    judge(&["metrics", file.to_str().unwrap(), &dashboard, &rules]);
}

#[test]
fn kubernetes_takes_the_manifests() {
    judge(&["manifests", &deploy("kubernetes")]);
}

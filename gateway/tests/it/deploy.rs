//! What `deploy/` and the commands around the configuration say is true of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aqueduct_gateway::config::{effective, load, schema};
use serde_json::Value;

use crate::program::{aqueduct, code, root, text};
use crate::serve::support::{Upstream, http, input, serve, sse};

/// Everything that `aqueduct_…` or `process_…` names in a text, without what Prometheus adds to histograms.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let named = words.filter(|word| word.starts_with("aqueduct_") || word.starts_with("process_"));
    let base = |word: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        let found = suffixes.iter().find_map(|suffix| word.strip_suffix(suffix));
        found.unwrap_or(word).to_owned()
    };
    named.map(base).collect()
}

/// A run with a sub-agent, a tool, tokens and a question, one that fails, one that is refused.
async fn everything_happens() -> String {
    let events = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"x"}"#,
        r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"s","name":"x"}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"42"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"model":"m","inputTokens":3,"outputTokens":4}],"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"input_required","message":"?"}]}}"#,
    ];
    let stream = format!("data: {}\n\n", events.join("\n\ndata: "));
    let upstream = Upstream::saying(sse(&stream)).await;
    let toml = format!("[agents.a]\nagui = {{ url = \"{}\" }}\n", upstream.url);
    let served = serve(&toml, &[]).await;
    served.run("a", "r1").await;
    served.send(served.post("/agents/nobody", &input("r2", None))).await;
    served.idle().await;
    String::from_utf8(served.get("/metrics").await.body().to_vec()).unwrap()
}

/// The dashboard and the alert rules ask for nothing that is not there, and what is for people to see is asked for.
#[tokio::test]
async fn dashboard_and_alerts_use_names_that_are_there() {
    let exposed = everything_happens().await;
    let known = metric_names(&exposed);
    let mut used = BTreeSet::new();
    for file in [
        "deploy/grafana/aqueduct.json",
        "deploy/prometheus/alerts.yaml",
        "deploy/kubernetes/horizontalpodautoscaler.yaml",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let names = metric_names(&text);
        let missing: Vec<&String> = names.difference(&known).collect();
        assert!(
            !names.is_empty() && missing.is_empty(),
            "{file} names what is not exposed: {missing:?}\n{exposed}"
        );
        used.extend(names);
    }
    assert!(used.len() > 30, "{used:?}");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(root().join("deploy/grafana/aqueduct.json")).unwrap())
            .unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 20);
}

/// The labels of a metric, as far as samples have them, without the bounds of histograms.
fn labels(exposed: &str, name: &str) -> BTreeSet<String> {
    let samples = exposed.lines().filter_map(|line| {
        let (sample, rest) = line.split_once('{')?;
        let (inside, _) = rest.split_once('}')?;
        let suffix = sample.strip_prefix(name)?;
        ["", "_total", "_bucket", "_info"].contains(&suffix).then_some(inside)
    });
    // A value may contain a comma, but not the two characters that end it before one.
    let pairs = samples.flat_map(|inside| inside.split("\",")).filter_map(|pair| pair.split_once('='));
    pairs.map(|(label, _)| label.to_owned()).filter(|label| label != "le").collect()
}

/// The page lists every metric with the words of the program itself. `UPDATE_EXPECT=1` writes it.
#[tokio::test]
async fn metrics_md_lists_every_metric() {
    let exposed = everything_happens().await;
    let mut table = String::from("\n| name | kind | labels | meaning |\n|---|---|---|---|\n");
    let kinds: Vec<(&str, &str)> =
        exposed.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let helps = exposed.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let mut rows = BTreeSet::new();
    for (name, help) in helps {
        let (_, kind) = kinds.iter().find(|(known, _)| *known == name).unwrap();
        let shown = match *kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let labels: Vec<_> = labels(&exposed, name).iter().map(|label| format!("`{label}`")).collect();
        rows.insert(format!("| `{shown}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    assert!(rows.len() > 80, "{}", rows.len());
    table.extend(rows);
    table.push('\n');
    crate::docs::page_has("docs/reference/metrics.md", "metrics", &table);
}

/// The command of the image's health check tells a ready gateway from one that is not, and from none.
#[tokio::test]
async fn health_tells_whether_a_gateway_is_ready() {
    let asked = |url: String| async move {
        let work = move || aqueduct(&["health", &url], b"");
        tokio::task::spawn_blocking(work).await.unwrap()
    };
    let served = serve("[agents.a]\nagui = { url = \"http://127.0.0.1:9\" }\n", &[]).await;
    let ready = asked(served.url("/readyz")).await;
    assert_eq!(code(&ready), 0, "{}", text(&ready.stderr));
    let draining = Upstream::saying(http("503 Service Unavailable", "text/plain", "the gateway stops")).await;
    let refused = asked(format!("{}/readyz", draining.url)).await;
    assert_eq!(code(&refused), 1);
    assert!(text(&refused.stderr).contains("not ready (503"), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("the gateway stops"), "{}", text(&refused.stderr));
    let unreachable = asked("http://127.0.0.1:9/readyz".to_owned()).await;
    assert_eq!(code(&unreachable), 1);
    assert!(text(&unreachable.stderr).contains("no gateway answers"), "{}", text(&unreachable.stderr));
    assert_eq!(code(&asked("not a url".to_owned()).await), 2);
}

/// The configurations of `deploy/` are good ones.
#[test]
fn the_configurations_of_deploy_are_good() {
    let compose = fs::read_to_string(root().join("deploy/compose/aqueduct.toml")).unwrap();
    let map = fs::read_to_string(root().join("deploy/kubernetes/configmap.yaml")).unwrap();
    let inside = map.split_once("aqueduct.toml: |\n").unwrap().1;
    let inside = inside.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    for toml in [compose, inside] {
        let environment = [("GATEWAY_TOKEN", "a-token-0123456789"), ("REDIS_URL", "redis://redis")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = load(Path::new("aqueduct.toml"), &toml, environment);
        assert!(
            config.is_ok(),
            "{:#?}",
            config.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }
}

/// What `config print` shows is a configuration that means the same, with every default, and without secrets.
#[test]
fn a_printed_configuration_means_the_same() {
    let toml = "[server]\ntokens = [\"env:GATE\"]\n[runs]\nlog = \"redis\"\nredis = \"env:REDIS\"\n\
                [agents.a]\na2a = { url = \"http://a\", version = \"0.3\" }\nlimits.concurrency = 3\n\
                [agents.b]\nfan_out.agents = [\"a\"]\n";
    let secrets = [("GATE", "open-sesame"), ("REDIS", "redis://:hunter2@r")];
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let more =
        [("AQUEDUCT_LOG__LEVEL", "debug"), ("AQUEDUCT_SERVER__CORS", "true"), ("AQUEDUCT_RUNS__LIMIT", "7")];
    let environment = || [owned(&secrets), owned(&more)].concat();
    let path = Path::new("aqueduct.toml");
    let printed = effective(path, toml, environment()).unwrap();
    assert!(!printed.contains("open-sesame") && !printed.contains("hunter2"), "{printed}");
    for line in ["level = \"debug\"", "cors = true", "limit = 7", "# drain = \"20s\"", "version = \"0.3\""] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let again =
        load(path, &printed, owned(&secrets)).unwrap_or_else(|errors| panic!("{errors:#?}\n{printed}"));
    assert_eq!(again, load(path, toml, environment()).unwrap());
}

#[test]
fn the_schema_has_every_key() {
    let schema = schema();
    let at = |path: &str| schema.pointer(path).unwrap_or_else(|| panic!("{path}"));
    assert_eq!(
        at("/properties/log/properties/level/enum"),
        &serde_json::json!(["error", "warn", "info", "debug", "trace"])
    );
    assert_eq!(at("/properties/server/properties/cors/type"), "boolean");
    assert_eq!(
        at("/properties/agents/additionalProperties/properties/timeouts/properties/idle/type"),
        "string"
    );
    assert_eq!(at("/properties/tee/properties/relate_by/items/enum/0"), "token");
    let server = at("/properties/server/properties");
    assert_eq!(server["cors"]["default"], false);
    assert_eq!(server["origins"]["default"], serde_json::json!([]));
    assert_eq!(server["drain"]["default"], "20s");
    assert_eq!(at("/properties/runs/properties/limit/default"), 10_000);
    assert_eq!(
        at("/properties/agents/additionalProperties/properties/a2a/properties/version/default"),
        "1.0"
    );
    let output = aqueduct(&["config", "schema"], b"");
    assert_eq!((code(&output), serde_json::from_str::<Value>(&text(&output.stdout)).unwrap()), (0, schema));
}

/// `init` writes a file that `config check` finds nothing wrong with, and overwrites none.
#[test]
fn init_writes_a_good_configuration() {
    let file = crate::scratch::folder().join("init.toml");
    fs::remove_file(&file).ok();
    let path = file.to_str().unwrap();
    let made =
        aqueduct(&["init", "--config", path, "--a2a", "https://w.example.org", "--name", "weather"], b"");
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    let checked = aqueduct(&["config", "check", "--config", path], b"");
    assert_eq!(code(&checked), 0, "{}", text(&checked.stdout));
    let printed = text(&aqueduct(&["config", "print", "--config", path], b"").stdout);
    assert!(printed.contains("[agents.weather.a2a]\nurl = \"https://w.example.org\""), "{printed}");
    let again = aqueduct(&["init", "--config", path, "--agui", "http://a"], b"");
    assert_eq!(code(&again), 2);
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let wrong = aqueduct(&["init", "--force", "--config", path, "--agui", "nowhere"], b"");
    assert!(text(&wrong.stderr).contains("a URL"), "{}", text(&wrong.stderr));
    let nothing = aqueduct(&["init", "--force", "--config", path], b"");
    assert!(text(&nothing.stderr).contains("--a2a URL"), "{}", text(&nothing.stderr));
}

//! What machines ask: probes by the address of a pod, metrics, and a port of their own for both.

use bytes::Bytes;
use http::Request;

use super::support::{Served, Upstream, input, serve, serve_gateway, sse};
use crate::program::root;

fn scripted() -> String {
    format!("[agents.a.script]\nfile = \"{}/scripts/demo-team.toml\"\n", root().display())
}

async fn with_host(served: &Served, path: &str, host: &str) -> http::Response<Bytes> {
    let request = Request::get(served.url(path)).header("host", host).body(Bytes::new()).unwrap();
    served.send(request).await
}

#[tokio::test]
async fn probes_answer_under_any_host_and_metrics_under_addresses() {
    let served = serve(&scripted(), &[]).await;
    for host in ["10.42.0.7:8080", "[fd00::7]:8080", "aqueduct.default.svc", "evil.example"] {
        assert_eq!(with_host(&served, "/healthz", host).await.status(), 200, "{host}");
        assert_eq!(with_host(&served, "/readyz", host).await.status(), 200, "{host}");
    }
    assert_eq!(with_host(&served, "/metrics", "10.42.0.7:8080").await.status(), 200);
    for host in ["evil.example", "10.42.0.7.evil.example"] {
        assert_eq!(with_host(&served, "/metrics", host).await.status(), 403, "{host}");
    }
    assert_eq!(with_host(&served, "/agents", "10.42.0.7:8080").await.status(), 403);
    served.gateway.runs().drain();
    assert_eq!(with_host(&served, "/readyz", "10.42.0.7:8080").await.status(), 503);
    assert_eq!(with_host(&served, "/healthz", "10.42.0.7:8080").await.status(), 200);
}

#[tokio::test]
async fn a_port_for_probes_has_them_alone_and_the_others_have_no_metrics() {
    let toml = format!("[server]\nadmin = [\"127.0.0.1:0\"]\n{}", scripted());
    let config = aqueduct_gateway::config::load(std::path::Path::new("aqueduct.toml"), &toml, []);
    let mut config = config.unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let gateway = aqueduct_gateway::service::Gateway::new(config).unwrap();
    let listening = aqueduct_gateway::serve::Listening::bind(gateway.clone()).await.unwrap();
    let (main, admin) = (listening.addresses().unwrap()[0], listening.admin_addresses().unwrap()[0]);
    let switch = listening.shutdown();
    let serving = tokio::spawn(listening.serve());
    let client =
        aqueduct_transport_http::Client::new(aqueduct_transport_http::ClientConfig::default()).unwrap();
    let get = async |address: std::net::SocketAddr, path: &str| {
        let request = Request::get(format!("http://{address}{path}")).header("host", "anything.example");
        client.request(request.body(Bytes::new()).unwrap()).await.unwrap()
    };
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(admin, path).await.status(), 200, "{path}");
    }
    let verbose = get(admin, "/readyz?verbose").await;
    let report: serde_json::Value = serde_json::from_slice(verbose.body()).unwrap();
    assert_eq!((&report["status"], report["agents"]["a"].is_object()), (&"ready".into(), true), "{report}");
    assert_eq!(get(admin, "/agents").await.status(), 404);
    let local = Request::get(format!("http://{main}/metrics")).body(Bytes::new()).unwrap();
    assert_eq!(client.request(local).await.unwrap().status(), 404);
    assert_eq!(get(main, "/readyz").await.status(), 200);
    switch.cancel();
    serving.await.unwrap();
}

/// The value of a sample, by its whole name with labels.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{sample} ")));
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn metrics_tell_agents_surfaces_dialects_and_refusals_apart() {
    let served = serve(&scripted(), &[]).await;
    served.run("a", "r1").await;
    served.send(served.post("/agents/a", &input("r2", None))).await;
    served.send(served.post("/agents/nobody", &input("r3", None))).await;
    served.send(served.post("/agents/a", &input("r1", None))).await;
    served.idle().await;
    let response = served.get("/metrics").await;
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    let count = |sample: &str, expected: f64| {
        assert!((value(&text, sample) - expected).abs() < 0.1, "{sample}\n{text}");
    };
    count("aqueduct_runs_started_total{agent=\"a\",surface=\"agui\"}", 2.0);
    count("aqueduct_runs_ended_total{agent=\"a\",outcome=\"success\"}", 2.0);
    count("aqueduct_run_duration_seconds_count{agent=\"a\"}", 2.0);
    count("aqueduct_time_to_first_event_seconds_count{agent=\"a\"}", 2.0);
    count("aqueduct_dialects_total{protocol=\"agui\",dialect=\"1.0\"}", 1.0);
    count("aqueduct_refusals_total{surface=\"agui\",code=\"not_found\"}", 1.0);
    count("aqueduct_refusals_total{surface=\"agui\",code=\"conflict\"}", 1.0);
    count("aqueduct_requests_total{surface=\"agui\",agent=\"a\",status=\"200\"}", 2.0);
    count("aqueduct_requests_total{surface=\"agui\",agent=\"\",status=\"404\"}", 1.0);
    count("aqueduct_lanes_open", 0.0);
    count("aqueduct_lanes_total{agent=\"a\",outcome=\"success\"}", 4.0);
    count("aqueduct_log_up", 1.0);
    assert!(value(&text, "aqueduct_event_delay_seconds_count") > 2.0, "{text}");
    assert!(value(&text, "aqueduct_log_append_seconds_count") > 2.0, "{text}");
    assert!(text.contains("aqueduct_build_info{version=\"") && text.ends_with("# EOF\n"), "{text}");
    assert!(!text.contains("nobody") && !text.contains("r1"), "no word of a caller is a label: {text}");
}

/// A lane that is open when its run ends is counted back.
#[tokio::test]
async fn a_run_that_is_cut_leaves_no_open_lane() {
    let cut = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
               data: {\"type\":\"SUBAGENT_STARTED\",\"subagentRunId\":\"s\",\"name\":\"x\"}\n\n";
    let upstream = Upstream::saying(sse(cut)).await;
    let served = serve(&format!("[agents.a.agui]\nurl = \"{}\"\n", upstream.url), &[]).await;
    served.run("a", "r").await;
    served.idle().await;
    let text = String::from_utf8(served.get("/metrics").await.body().to_vec()).unwrap();
    assert!(value(&text, "aqueduct_lanes_open").abs() < 0.1, "{text}");
    assert!(
        value(&text, "aqueduct_runs_ended_total{agent=\"a\",outcome=\"upstream_ended\"}") > 0.9,
        "{text}"
    );
}

#[tokio::test]
async fn pages_of_this_machine_may_use_the_demo() {
    let (gateway, agents) =
        aqueduct_gateway::serve::demo_gateway("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let served = serve_gateway(gateway).await;
    let preflight = Request::builder()
        .method("OPTIONS")
        .uri(served.url("/agents/team"))
        .header("origin", "http://localhost:3000")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type");
    let response = served.send(preflight.body(Bytes::new()).unwrap()).await;
    assert_eq!(response.headers()["access-control-allow-origin"], "http://localhost:3000");
    assert_eq!(response.headers()["access-control-allow-headers"], "content-type");
    drop(agents);
}

/// An agent that cannot be reached is retried, then its circuit opens: the run fails at once, and probes and metrics
/// report it.
#[tokio::test]
async fn an_agent_that_is_gone_is_given_up_for_a_while() {
    let toml = "[agents.gone]\nretries = 1\ncircuit = { failures = 2, pause = \"1h\" }\n\
                agui = { url = \"http://127.0.0.1:1\" }\n";
    let served = serve(toml, &[]).await;
    let mut codes = Vec::new();
    for run in ["r1", "r2", "r3"] {
        let events = served.run("gone", run).await;
        codes.push(events.last().unwrap()["code"].as_str().unwrap().to_owned());
    }
    assert_eq!(codes, ["upstream_unreachable", "upstream_unreachable", "upstream_circuit_open"]);
    let text = String::from_utf8(served.get("/metrics").await.body().to_vec()).unwrap();
    assert!(value(&text, "aqueduct_upstream_up{agent=\"gone\"}").abs() < 0.1, "{text}");
    assert!(value(&text, "aqueduct_upstream_circuit_opened_total{agent=\"gone\"}") > 0.9, "{text}");
    let connects = value(&text, "aqueduct_upstream_connect_retries_total{agent=\"gone\"}");
    assert!((connects - 2.0).abs() < 0.1, "each call tried again once: {text}");
    let calls = "aqueduct_upstream_calls_total{agent=\"gone\",outcome=\"upstream_unreachable\"}";
    assert!((value(&text, calls) - 2.0).abs() < 0.1, "{text}");
}

/// Names are looked up once per connection, and connections are used again.
#[tokio::test]
async fn lookups_connections_and_calls_are_counted() {
    let behind = serve(&scripted(), &[]).await;
    let url = behind.url("/agents/a").replace("127.0.0.1", "localhost");
    let toml = format!(
        "[agents.named]\nagui = {{ url = \"{url}\" }}\n\
         [agents.nowhere]\nretries = 0\nagui = {{ url = \"http://no.such.name.invalid\" }}\n"
    );
    let served = serve(&toml, &[]).await;
    for run in ["r1", "r2"] {
        served.run("named", run).await;
        served.idle().await;
    }
    served.run("nowhere", "r3").await;
    let text = String::from_utf8(served.get("/metrics").await.body().to_vec()).unwrap();
    let count = |sample: &str| value(&text, sample);
    assert!(count("aqueduct_upstream_lookups_total{agent=\"named\",outcome=\"found\"}") > 0.9, "{text}");
    assert!(count("aqueduct_upstream_lookup_seconds_count{agent=\"named\"}") > 0.9, "{text}");
    assert!(count("aqueduct_upstream_connects_total{agent=\"named\"}") > 0.9, "{text}");
    let calls = count("aqueduct_upstream_calls_total{agent=\"named\",outcome=\"answered\"}");
    assert!((calls - 2.0).abs() < 0.1, "{text}");
    let failed = count("aqueduct_upstream_lookups_total{agent=\"nowhere\",outcome=\"failed\"}");
    assert!((failed - 1.0).abs() < 0.1, "{text}");
}

/// Calls above the limit wait, and fail with a code of their own.
#[tokio::test]
async fn an_agent_has_no_more_calls_than_it_may() {
    let upstream = Upstream::start(|_| {
        super::support::Say::Hang(sse(
            "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n",
        ))
    })
    .await;
    let toml = format!(
        "[agents.a]\nlimits.concurrency = 1\ntimeouts = {{ connect = \"100ms\", run = \"3s\" }}\nagui.url = \"{}\"\n",
        upstream.url
    );
    let served = serve(&toml, &[]).await;
    let first = served.client.open_stream(served.post("/agents/a", &input("r1", Some("1.0")))).await.unwrap();
    let events = served.run("a", "r2").await;
    let last = events.last().unwrap();
    assert_eq!(last["code"], "upstream_busy", "{last}");
    assert!(last["message"].as_str().unwrap().contains("`limits.concurrency` = 1"), "{last}");
    drop(first);
}

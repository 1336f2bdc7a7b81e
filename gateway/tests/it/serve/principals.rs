//! Principals: stable names, what they may run, and that nothing of one reaches another by an id, a thread, an order of
//! configuration or a restart.

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::Timestamp;
use aqueduct_gateway::config::{Config, load};
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{MemoryLog, RunLog, RunMeta};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Served, answer, input, payloads, serve, serve_gateway};
use crate::program::root;

const SECRETS: [(&str, &str); 3] =
    [("ANN", "ann-token-0123456789"), ("BOB", "bob-token-0123456789"), ("ADM", "adm-token-0123456789")];

fn script(name: &str) -> String {
    format!("script.file = \"{}/scripts/{name}.toml\"\n", root().display())
}

fn config(toml: &str) -> Config {
    let environment = SECRETS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = load(Path::new("aqueduct.toml"), toml, environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config
}

fn two_people(more: &str) -> String {
    format!(
        "[principals.ann]\ntenant = \"acme\"\ntoken = \"env:ANN\"\n[principals.bob]\ntoken = \"env:BOB\"\n{more}\n\
         [agents.a]\n{}",
        script("demo-thinking")
    )
}

fn token(who: &str) -> &'static str {
    SECRETS.iter().find(|(name, _)| name.eq_ignore_ascii_case(who)).unwrap().1
}

async fn ask(served: &Served, who: &str, method: &str, path: &str, body: &Value) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(served.url(path));
    request = request.header("content-type", "application/json").header("accept", "text/event-stream");
    request = request.header("authorization", format!("Bearer {}", token(who)));
    let body = if method == "GET" { Bytes::new() } else { Bytes::from(body.to_string()) };
    served.send(request.body(body).unwrap()).await
}

async fn run(served: &Served, who: &str, agent: &str, run: &str) -> Response<Bytes> {
    ask(served, who, "POST", &format!("/agents/{agent}"), &input(run, Some("1.0"))).await
}

async fn watch(served: &Served, who: &str, run: &str) -> Response<Bytes> {
    ask(served, who, "GET", &format!("/runs/{run}/events"), &Value::Null).await
}

fn body(response: &Response<Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

/// Two callers choose one run id: each has a run of its own, and neither learns of the other.
#[tokio::test]
async fn run_ids_are_the_callers_own() {
    let served = serve(&two_people(""), &SECRETS).await;
    assert_eq!(run(&served, "ann", "a", "r").await.status(), 200);
    assert_eq!(watch(&served, "bob", "r").await.status(), 404);
    assert_eq!(run(&served, "bob", "a", "r").await.status(), 200, "no conflict with another's run");
    assert_eq!(run(&served, "bob", "a", "r").await.status(), 409, "but with one's own");
    for who in ["ann", "bob"] {
        let seen = watch(&served, who, "r").await;
        assert_eq!(seen.status(), 200);
        let text = body(&seen);
        assert!(text.contains("\"runId\":\"r\"") && !text.contains("acme"), "{text}");
        assert_eq!(ask(&served, who, "GET", "/threads/t", &Value::Null).await.status(), 200);
    }
}

/// A conversation that waits for an answer is found by its thread and its principal, never by the thread alone.
#[tokio::test]
async fn a_waiting_conversation_is_not_taken_over_by_its_thread_id() {
    let toml = two_people("").replace("demo-thinking", "demo-question");
    let served = serve(&toml, &SECRETS).await;
    let asked = run(&served, "ann", "a", "r1").await;
    assert_eq!(asked.status(), 200);
    assert!(body(&asked).contains("interrupt"), "the script asks: {}", body(&asked));
    let first = payloads(&body(&run(&served, "bob", "a", "r2").await));
    let fresh = payloads(&body(&asked));
    let kinds = |events: &[Value]| events.iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&first), kinds(&fresh), "another principal begins at the beginning");
    let went_on = payloads(&body(&run(&served, "ann", "a", "r3").await));
    assert_ne!(kinds(&went_on), kinds(&fresh), "the owner goes on");
}

/// Restart, another order of tokens, another replica: runs stay with their principals.
#[tokio::test]
async fn the_order_of_a_configuration_says_nothing_about_owners() {
    let agents =
        format!("[agents.gateway]\n{}tokens = [\"env:ADM\"]\n[agents.a]\n{0}", script("demo-thinking"));
    let old = |tokens: &str| format!("[server]\ntokens = [{tokens}]\n{agents}");
    let named = |first: &str, second: &str| {
        let one = |name: &str| format!("[principals.{name}]\ntoken = \"env:{}\"\n", name.to_uppercase());
        format!("{}{}{agents}", one(first), one(second))
    };
    for (before, after) in [
        (old("\"env:ANN\", \"env:BOB\""), old("\"env:BOB\", \"env:ANN\"")),
        (named("ann", "bob"), named("bob", "ann")),
    ] {
        let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
        let first = serve_gateway(Gateway::with_log(config(&before), Arc::clone(&log)).unwrap()).await;
        assert_eq!(run(&first, "ann", "a", "r").await.status(), 200);
        let second = serve_gateway(Gateway::with_log(config(&after), log).unwrap()).await;
        for replica in [&first, &second] {
            assert_eq!(watch(replica, "ann", "r").await.status(), 200);
            assert_eq!(watch(replica, "bob", "r").await.status(), 404);
            // The first token of an agent that is called `gateway`.
            assert_ne!(watch(replica, "adm", "r").await.status(), 200);
        }
    }
}

/// Owners of version 0.1 are positions: no principal matches one, unless `was` of the configuration assigns it.
#[tokio::test]
async fn runs_of_old_logs_are_shown_to_nobody_but_the_principal_that_they_are_assigned_to() {
    for (was, expected) in [("", 404), ("was = [\"gateway/0\"]", 200)] {
        let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
        let meta = RunMeta {
            run_id: "old".into(),
            thread_id: "t".into(),
            agent: "a".to_owned(),
            owner: "gateway/0".to_owned(),
            opened_at: Timestamp(1),
        };
        let lease = log.open(meta.clone(), Timestamp(i64::MAX)).await.unwrap();
        let failure = aqueduct_core::RunFailure::new("x", "over");
        log.append(&lease, aqueduct_runlog::Remains::default().end(&meta, failure), Timestamp(2))
            .await
            .unwrap();
        let served = serve_gateway(Gateway::with_log(config(&two_people(was)), log).unwrap()).await;
        assert_eq!(watch(&served, "bob", "old").await.status(), expected);
        assert_eq!(watch(&served, "ann", "old").await.status(), 404);
        let listed = ask(&served, "bob", "GET", "/threads/t", &Value::Null).await;
        assert_eq!(listed.status(), expected);
    }
}

/// Which agents a principal may run; an agent that asks several needs all of them.
#[tokio::test]
async fn agents_that_are_not_granted_do_not_exist() {
    let toml = format!(
        "[principals.ann]\ntoken = \"env:ANN\"\nagents = [\"a\", \"both\"]\n[principals.bob]\ntoken = \"env:BOB\"\n\
         [agents.a]\n{0}[agents.b]\n{0}[agents.both]\nfan_out.agents = [\"a\", \"b\"]\n",
        script("demo-thinking")
    );
    let served = serve(&toml, &SECRETS).await;
    assert_eq!(run(&served, "ann", "a", "1").await.status(), 200);
    for agent in ["b", "both"] {
        let refused = run(&served, "ann", agent, "2").await;
        let never = run(&served, "ann", "zz", "2").await;
        assert_eq!(refused.status(), 404);
        assert_eq!(
            body(&refused).replace(&format!("\\\"{agent}\\\""), "X"),
            body(&never).replace("\\\"zz\\\"", "X")
        );
        assert_eq!(run(&served, "bob", agent, agent).await.status(), 200);
    }
    let list = ask(&served, "ann", "GET", "/agents", &Value::Null).await;
    assert!(body(&list).contains("\"a\"") && !body(&list).contains("both"), "{}", body(&list));
}

/// An admin lists, watches and cancels the runs of all principals; no other principal does.
#[tokio::test]
async fn an_admin_sees_the_runs_of_all() {
    let toml = format!(
        "inspector.enabled = true\n{}",
        two_people("[principals.root]\ntoken = \"env:ADM\"\nrole = \"admin\"\n")
    );
    let served = serve(&toml, &SECRETS).await;
    assert_eq!(run(&served, "ann", "a", "r").await.status(), 200);
    let runs = |who: &'static str| ask(&served, who, "GET", "/inspector/runs", &json!(null));
    let of_bob: Value = serde_json::from_slice(runs("bob").await.body()).unwrap();
    assert_eq!(of_bob["runs"], json!([]));
    let of_admin: Value = serde_json::from_slice(runs("adm").await.body()).unwrap();
    let run = of_admin["runs"][0]["run"].as_str().unwrap().replace('~', "%7E");
    assert_eq!(of_admin["runs"][0]["owner"], "acme:ann");
    let seen = watch(&served, "adm", &run).await;
    assert_eq!(seen.status(), 200);
    assert!(!answer(&payloads(&body(&seen))).is_empty());
    assert_eq!(watch(&served, "bob", &run).await.status(), 404);
}

/// A refusal names what is wrong with the proof, and nothing else.
#[tokio::test]
async fn a_wrong_token_is_an_unknown_token() {
    let served = serve(&two_people(""), &SECRETS).await;
    let request = served.post("/agents/a", &input("r", None));
    let mut wrong = request.clone();
    wrong.headers_mut().insert("authorization", "Bearer wrong".parse().unwrap());
    for (request, says) in [(request, "send a token"), (wrong, "unknown token")] {
        let refused = served.send(request).await;
        assert_eq!(refused.status(), 401);
        assert!(body(&refused).contains(says), "{}", body(&refused));
    }
}

/// A token that a reload removes ends the streams that it opened; a rotated one keeps its principal.
#[tokio::test]
async fn a_revoked_token_ends_its_streams_and_a_rotated_one_finds_its_runs() {
    let path = crate::scratch::folder().join("principals-slow.toml");
    std::fs::write(&path, "[[step]]\ntext = \"so far\"\n[[step]]\nsleep = \"1h\"\n").unwrap();
    let own = format!("script.file = \"{}\"\n", path.display());
    let toml = two_people("").replace(&script("demo-thinking"), &own);
    let served = serve(&toml, &SECRETS).await;
    let mut request = served.post("/agents/a", &input("r", Some("1.0")));
    request.headers_mut().insert("authorization", format!("Bearer {}", token("bob")).parse().unwrap());
    let mut stream = served.client.open_stream(request).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let mut next = config(&toml.replace("token = \"env:BOB\"", "token = \"env:ADM\""));
    next.server.listen.clone_from(&served.gateway.config().server.listen);
    served.gateway.reload(next).unwrap();
    let mut end = None;
    while let Some(event) = stream.next().await {
        end = Some(event);
    }
    assert!(end.is_some_and(|end| end.is_err()), "a stream that is cut is no whole stream");
    assert_eq!(watch(&served, "bob", "r").await.status(), 401);
    let cancelled = ask(&served, "adm", "POST", "/runs/r/cancel", &json!({})).await;
    assert_eq!(body(&cancelled), r#"{"cancelled":true}"#, "the new token is the same principal");
}

//! Traces: what a collector receives of runs, over HTTP and gRPC.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::MemoryLog;
use aqueduct_transport_grpc::raw::{RawAnswer, RawCall, RawService, RawStatus};
use aqueduct_transport_http::{Server, ServerConfig};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use futures_util::future::join;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use super::super::support::{Asked, Served, input, serve_gateway};
use super::super::task_server::{TaskServer, artifact, status as task_status};
use super::peer::{Called, Door, Peer, begun, chunk, done, header, status};
use super::{Place, Scene};

const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;

/// A collector that keeps what it was sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    fn take(&self, message: &[u8]) {
        let request = ExportTraceServiceRequest::decode(message).unwrap();
        for resource in request.resource_spans {
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            assert!(attributes.iter().any(|attribute| attribute.key == "service.name"), "{attributes:?}");
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans);
        }
    }

    /// Listens for OTLP over HTTP. Returns its address.
    async fn over_http(&self) -> String {
        let kept = self.clone();
        let handler = post(async move |body: Bytes| kept.take(&body));
        self.serve(Router::new().route("/v1/traces", handler)).await
    }

    /// The same over gRPC.
    async fn over_grpc(&self) -> String {
        let services =
            aqueduct::grpc::services(&aqueduct_runs::Runs::new(), aqueduct::grpc::Config::default());
        self.serve(services.mount_raw(Arc::new(self.clone())).router().unwrap()).await
    }

    async fn serve(&self, router: Router) -> String {
        let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(server.serve(router, CancelToken::new()));
        format!("http://{address}")
    }

    /// Waits for spans until this is true of them.
    async fn until(&self, is_done: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        for _ in 0..1_000 {
            let spans = self.0.lock().unwrap().clone();
            if is_done(&spans) {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the spans did not come: {:#?}", self.names());
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|span| span.name.clone()).collect()
    }
}

impl RawService for Collector {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";

    async fn call(&self, call: RawCall) -> Result<RawAnswer, RawStatus> {
        assert_eq!(call.method, "Export");
        self.take(&call.message);
        Ok(RawAnswer::Message(Bytes::new()))
    }
}

fn text(span: &Span, key: &str) -> String {
    let value = span.attributes.iter().find(|attribute| attribute.key == key);
    match value.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// The one span of that name and kind.
fn one<'s>(spans: &'s [Span], name: &str, kind: i32) -> &'s Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name && span.kind == kind).collect();
    assert_eq!(found.len(), 1, "{name} {kind}: {found:#?}\n{spans:#?}");
    found[0]
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn id(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A supervisor with a tool that calls one sub-agent, another one that it calls beside, and a question at its end.
async fn asking_supervisor(door: &Door) -> Peer {
    let door = door.clone();
    Peer::start(move |asked: Asked, mut out| {
        let door = door.clone();
        Box::pin(async move {
            out.begin().await;
            out.say(&begun("S")).await;
            out.say(&status("S", "WORKING", "🔧 Calling tool: **a**")).await;
            let mut how = Called::by(&asked);
            how.headers.push(("traceparent", header(&asked, "traceparent")));
            join(door.call("a", &how), door.call("b", &how)).await;
            out.say(&status("S", "WORKING", "✅ Tool **a** completed")).await;
            out.say(&status("S", "INPUT_REQUIRED", "Which one?")).await;
        })
    })
    .await
}

/// The span tree of a supervisor's run with two sub-agents, a tool and an interrupt, over two replicas.
async fn the_tree_of_a_supervisors_run(protocol: &str, address: &str, collector: &Collector) {
    let door = Door::default();
    let mut supervisor = asking_supervisor(&door).await;
    let mut a = Peer::saying(vec![begun("a"), chunk("a", "deep", false), done("a")]).await;
    let b = Peer::saying(vec![begun("b"), status("b", "FAILED", "no")]).await;
    let agent = |name: &str, url: &str| {
        format!("[agents.{name}]\na2a = {{ url = \"{url}\", binding = \"jsonrpc\" }}\n")
    };
    let toml = format!(
        "[telemetry]\notlp = \"{address}\"\nprotocol = \"{protocol}\"\n{}{}{}",
        agent("s", &supervisor.url),
        agent("a", &a.url),
        agent("b", &b.url)
    );
    let scene = Scene::start(Place::Elsewhere, &door, &toml).await;
    let mut request = scene.post("/agents/s", &input("r", Some("1.0")));
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    request.headers_mut().insert("traceparent", parent.parse().unwrap());
    request.headers_mut().insert("baggage", "team=blue".parse().unwrap());
    assert_eq!(scene.send(request).await.status(), 200);
    let asked = supervisor.next("SendStreamingMessage").await;
    assert!(header(&asked, "baggage").starts_with("team=blue,aqueduct-run="), "{}", asked.head);
    let of_a = a.next("SendStreamingMessage").await;
    drop(scene);
    let is_whole = |spans: &[Span]| {
        spans.iter().any(|span| span.name == "interrupt")
            && spans.iter().filter(|span| span.kind == CLIENT).count() >= 3
            && spans.iter().any(|span| span.kind == SERVER)
    };
    let spans = collector.until(is_whole).await;
    assert!(spans.iter().all(|span| span.trace_id == id(TRACE)), "one trace over both replicas: {spans:#?}");

    let run = one(&spans, "invoke_agent s", SERVER);
    assert_eq!(run.parent_span_id, id("b7ad6b7169203331"));
    assert_eq!(text(run, "gen_ai.operation.name"), "invoke_agent");
    assert_eq!(text(run, "gen_ai.agent.name"), "s");
    assert_eq!(text(run, "gen_ai.conversation.id"), "t");
    assert_eq!(text(run, "aqueduct.run.id"), "r");
    assert_eq!((text(run, "a2a.task.id"), text(run, "a2a.context.id")), ("S".into(), "S-context".into()));
    assert_eq!(text(run, "aqueduct.outcome"), "interrupted");
    assert_eq!(text(run, "gen_ai.input.messages"), "", "content is recorded only where it is asked for");

    let call = one(&spans, "invoke_agent s", CLIENT);
    assert_eq!(call.parent_span_id, run.span_id);
    assert_eq!(text(call, "http.response.status_code"), "200");
    let told = header(&asked, "traceparent");
    assert_eq!(told, format!("00-{TRACE}-{}-01", hex(&call.span_id)), "the agent's parent is the call");

    let search = one(&spans, "execute_tool a", INTERNAL);
    assert_eq!((&search.parent_span_id, text(search, "gen_ai.tool.name")), (&run.span_id, "a".to_owned()));
    let lane = one(&spans, "invoke_agent a", INTERNAL);
    assert_eq!(lane.parent_span_id, search.span_id, "the sub-agent that the tool stands for is below it");
    assert_eq!(text(lane, "aqueduct.outcome"), "success");
    let other = one(&spans, "invoke_agent b", INTERNAL);
    assert_eq!(other.parent_span_id, run.span_id);
    assert_eq!(
        (text(other, "aqueduct.outcome"), other.status.as_ref().unwrap().code),
        ("failed".to_owned(), 2)
    );
    let interrupt = one(&spans, "interrupt", INTERNAL);
    assert_eq!(interrupt.parent_span_id, run.span_id);
    // The call of a sub-agent at the other replica is below the call that led to it.
    let passed = one(&spans, "invoke_agent a", CLIENT);
    assert_eq!(passed.parent_span_id, call.span_id);
    assert_eq!(header(&of_a, "traceparent"), format!("00-{TRACE}-{}-01", hex(&passed.span_id)));
    for span in &spans {
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[tokio::test]
async fn a_collector_sees_the_tree_of_a_supervisors_run_over_http() {
    let collector = Collector::default();
    let address = collector.over_http().await;
    the_tree_of_a_supervisors_run("http", &address, &collector).await;
}

#[tokio::test]
async fn a_collector_sees_the_tree_of_a_supervisors_run_over_grpc() {
    let collector = Collector::default();
    let address = collector.over_grpc().await;
    the_tree_of_a_supervisors_run("grpc", &address, &collector).await;
}

async fn traced(more: &str, collector: &Collector, agents: &str) -> Served {
    let address = collector.over_http().await;
    let toml = format!("[telemetry]\notlp = \"{address}\"\nprotocol = \"http\"\n{more}\n{agents}");
    super::super::support::serve(&toml, &[]).await
}

/// Content where it is asked for, failures with their code, and what is not sampled is neither sent nor claimed.
#[tokio::test]
async fn content_failures_and_sampling() {
    let collector = Collector::default();
    let script = crate::scratch::folder().join("traced.toml");
    let steps = "[[step]]\ntool = \"search\"\narguments = '{\"q\":1}'\nresult = \"found\"\n[[step]]\ntext = \"hi there\"\n";
    std::fs::write(&script, steps).unwrap();
    let agents = format!(
        "[agents.a.script]\nfile = \"{}\"\n[agents.gone]\nretries = 0\nagui = {{ url = \"http://127.0.0.1:1\" }}\n",
        script.display()
    );
    let served = traced("content = true", &collector, &agents).await;
    served.run("a", "r1").await;
    served.run("gone", "r2").await;
    drop(served);
    let spans = collector.until(|spans| spans.iter().filter(|span| span.kind == SERVER).count() == 2).await;
    let run = one(&spans, "invoke_agent a", SERVER);
    assert!(text(run, "gen_ai.input.messages").contains("hello"), "{run:?}");
    assert!(text(run, "gen_ai.output.messages").contains("hi there"), "{run:?}");
    let tool = one(&spans, "execute_tool search", INTERNAL);
    assert!(text(tool, "gen_ai.tool.call.arguments").contains("\"q\""), "{tool:?}");
    assert!(text(tool, "gen_ai.tool.call.result").contains("found"), "{tool:?}");
    let failed = one(&spans, "invoke_agent gone", SERVER);
    assert_eq!(text(failed, "error.type"), "upstream_unreachable");
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    assert_eq!(text(one(&spans, "invoke_agent gone", CLIENT), "error.type"), "upstream_unreachable");

    let (silent, mut upstream) = (Collector::default(), Peer::saying(vec![begun("S"), done("S")]).await);
    let agents = format!("[agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n", upstream.url);
    let served = traced("sample = 0", &silent, &agents).await;
    served.run("a", "r3").await;
    let asked = upstream.next("SendStreamingMessage").await;
    assert!(header(&asked, "traceparent").ends_with("-00"), "{}", asked.head);
    served.idle().await;
    drop(served);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(silent.names(), Vec::<String>::new());
}

/// A run that another replica takes over goes on in a span of its own, in the same trace, with a link to the first.
#[tokio::test]
async fn a_takeover_is_a_span_with_a_link() {
    let collector = Collector::default();
    let address = collector.over_http().await;
    let story = [
        task_status("WORKING", "", ""),
        artifact("a", false, false, &json!([{ "text": "Hello" }])),
        artifact("a", true, true, &json!([{ "text": ", world." }])),
        task_status("COMPLETED", "s", ""),
    ];
    let server = TaskServer::start(story.to_vec()).await;
    let log = Arc::new(MemoryLog::default());
    let gateway = || {
        let toml = format!(
            "[telemetry]\notlp = \"{address}\"\nprotocol = \"http\"\n[runs]\nlease = \"50ms\"\n\
             [agents.a]\na2a = {{ url = \"{}\", binding = \"jsonrpc\" }}\n",
            server.url
        );
        let mut config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        Gateway::with_log(config, Arc::clone(&log) as _).unwrap()
    };
    // The first replica lives in a runtime of its own, which is stopped in the middle of the run.
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let owner = first.spawn({
        let make = {
            let _guard = first.enter();
            gateway()
        };
        async move {
            use aqueduct_core::service::{Caller, RunService as _};
            use futures_util::StreamExt as _;
            let headers = vec![("traceparent".to_owned(), format!("00-{TRACE}-b7ad6b7169203331-01"))];
            let caller = Caller { headers, ..Caller::default() };
            let input = aqueduct_core::RunInput::prompt("t", "r", "hello");
            let started = make.runs().start(&caller, "a", input).await.unwrap();
            tokio::spawn(started.events.for_each(|_| std::future::ready(())));
            make
        }
    });
    let owner = owner.await.unwrap();
    server.release(2);
    while aqueduct_runlog::RunLog::state(&*log, &"r".into()).await.unwrap().checkpoint.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(owner);
    first.shutdown_background();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = serve_gateway(gateway()).await;
    second.gateway.runs().sweep_once().await.unwrap();
    server.taken_up().await;
    server.release(4);
    second.idle().await;
    drop(second);
    let spans = collector.until(|spans| spans.iter().any(|span| !span.links.is_empty())).await;
    let taken = spans.iter().find(|span| !span.links.is_empty()).unwrap();
    assert_eq!((taken.kind, &*taken.name), (SERVER, "invoke_agent a"));
    assert_eq!((&taken.trace_id, &taken.parent_span_id), (&id(TRACE), &id("b7ad6b7169203331")));
    assert_eq!(taken.links[0].trace_id, id(TRACE));
    assert_ne!(taken.links[0].span_id, taken.span_id);
    assert_eq!(text(taken, "aqueduct.surface"), "takeover");
}

//! Who gets in: every route of the table, foreign hosts and origins, wrong and missing tokens, other people's runs.

use aqueduct_gateway::serve::routes::{Access, ROUTES, Route};
use bytes::Bytes;
use http::{Request, Response};

use super::support::{Served, Upstream, http, input, serve};
use crate::program::root;

const TOML: &str = "inspector.enabled = true\n\
     [agents.a]\nscript.file = \"scripts/demo-thinking.toml\"\ntokens = [\"env:ANN\", \"env:BOB\"]\n";

/// Two people may use one agent.
async fn guarded() -> Served {
    let toml = TOML.replace("scripts/", &format!("{}/scripts/", root().display()));
    serve(&toml, &[("ANN", "ann-token"), ("BOB", "bob-token")]).await
}

async fn ask(served: &Served, route: &Route, headers: &[(&str, &str)]) -> Response<Bytes> {
    ask_about(served, route, "anns-run", headers).await
}

async fn ask_about(served: &Served, route: &Route, run: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let thread = if run == "anns-run" { "t" } else { run };
    // A method that has something to answer to an empty message.
    let method = match route.path {
        "/lf.a2a.v1.A2AService/{method}" => "ListTasks",
        "/a2a.v1.A2AService/{method}" => "GetAgentCard",
        _ => "ListAgents",
    };
    let path = route.path.replace("{name}", "a").replace("{run}", run).replace("{thread}", thread);
    let path = path.replace("{method}", method).replace("{file}", "main.js");
    let path = path.replace("{*call}", "tasks?A2A-Version=1.0");
    ask_path(served, route, &path, headers).await
}

async fn ask_path(served: &Served, route: &Route, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let (media_type, body) = match (route.access, route.method) {
        // One empty message.
        (Access::Grpc, _) => ("application/grpc", Bytes::from_static(&[0; 5])),
        (_, "POST") => {
            let mut body = input("another-run", Some("1.0"));
            // What the inspector is asked about.
            body["trace"] = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n".into();
            ("application/json", Bytes::from(body.to_string()))
        }
        _ => ("application/json", Bytes::new()),
    };
    let mut request = Request::builder().method(route.method).uri(served.url(path));
    request = request.header("content-type", media_type);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    served.send(request.body(body).unwrap()).await
}

async fn with_run_of_ann(served: &Served) {
    let mut request = served.post("/agents/a", &input("anns-run", Some("1.0")));
    request.headers_mut().insert("authorization", "Bearer ann-token".parse().unwrap());
    assert_eq!(served.send(request).await.status(), 200);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_every_route() {
    let served = guarded().await;
    let good = ("authorization", "Bearer ann-token");
    // Probes are asked by the address of a pod, and tell nothing else.
    for route in ROUTES.iter().filter(|route| route.access != Access::Probe) {
        for bad in [
            ("host", "evil.example"),
            ("host", "127.0.0.1.evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let response = ask(&served, route, &[good, bad]).await;
            assert_eq!(response.status(), 403, "{route:?} {bad:?}");
        }
    }
    assert_eq!(served.gateway.runs().active_runs(), 0, "refused before any work");
}

#[tokio::test]
async fn wrong_and_missing_tokens_are_refused_on_every_route_of_a_protected_agent() {
    let served = guarded().await;
    with_run_of_ann(&served).await;
    for route in ROUTES {
        for token in [None, Some("Bearer wrong"), Some("Bearer "), Some("Basic ann-token"), Some("ann-token")]
        {
            let headers: Vec<(&str, &str)> =
                token.map(|token| ("authorization", token)).into_iter().collect();
            let response = ask(&served, route, &headers).await;
            // A connection is asked for its token with each request on it: see `sockets.rs`. This is no upgrade.
            let expected = match route.access {
                // A status of gRPC travels in a header beside 200; 16 is "unauthenticated".
                Access::Probe | Access::Public | Access::Grpc => 200,
                Access::Socket => 426,
                Access::Agent | Access::Run | Access::Thread | Access::List => 401,
            };
            assert_eq!(response.status(), expected, "{route:?} {token:?}");
            if route.access == Access::Grpc {
                assert_eq!(response.headers()["grpc-status"], "16", "{token:?}");
            }
            let text = String::from_utf8_lossy(response.body()).into_owned();
            assert!(!text.contains("ann-token") && !text.contains("bob-token"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_right_token_gets_in_on_every_route() {
    let served = guarded().await;
    with_run_of_ann(&served).await;
    for route in ROUTES {
        let response = ask(&served, route, &[("authorization", "Bearer ann-token")]).await;
        let expected = match (route.access, route.method, route.path.contains("{*call}")) {
            (Access::Socket, ..) => 426,
            // Let in, but tasks are neither posted nor deleted.
            (_, "POST" | "DELETE", true) => 404,
            _ => 200,
        };
        assert_eq!(response.status(), expected, "{route:?}");
        assert!(
            !response.headers().contains_key("grpc-status"),
            "an answer of gRPC has its status at its end"
        );
    }
}

/// What is another's does not exist: the answer is the same as for a run that never was.
#[tokio::test]
async fn other_peoples_runs_do_not_exist() {
    let served = guarded().await;
    with_run_of_ann(&served).await;
    for route in ROUTES.iter().filter(|route| matches!(route.access, Access::Run | Access::Thread)) {
        let bob = [("authorization", "Bearer bob-token")];
        let of_ann = ask(&served, route, &bob).await;
        let never = ask_about(&served, route, "never-was", &bob).await;
        assert_eq!((of_ann.status(), of_ann.body()), (never.status(), never.body()), "{route:?}");
        assert_eq!(of_ann.status(), 404);
    }
}

#[tokio::test]
async fn a_token_of_the_gateway_is_good_for_every_agent() {
    let toml = format!(
        "[server]\ntokens = [\"env:ALL\"]\n[agents.a.script]\nfile = \"{}/scripts/demo-thinking.toml\"\n",
        root().display()
    );
    let served = serve(&toml, &[("ALL", "all-token")]).await;
    let list = ROUTES.iter().find(|route| route.access == Access::List).unwrap();
    assert_eq!(ask(&served, list, &[]).await.status(), 401);
    assert_eq!(ask(&served, list, &[("authorization", "Bearer all-token")]).await.status(), 200);
}

/// Calls that pass to an agent elsewhere come through the same door.
#[tokio::test]
async fn calls_that_pass_through_are_asked_for_a_token_too() {
    let upstream = Upstream::saying(http("200 OK", "application/json", "{\"name\":\"p\"}")).await;
    let agent = format!("a2a = {{ url = \"{}\", binding = \"jsonrpc\" }}", upstream.url);
    let served =
        serve(&format!("[agents.p]\n{agent}\ntokens = [\"env:ANN\"]\n"), &[("ANN", "ann-token")]).await;
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/a2a/")) {
        let path = route.path.replace("{name}", "p").replace("{*call}", "tasks/T");
        for (headers, expected) in [
            (vec![], 401),
            (vec![("authorization", "Bearer wrong")], 401),
            (vec![("authorization", "Bearer ann-token"), ("host", "evil.example")], 403),
            (vec![("authorization", "Bearer ann-token"), ("origin", "https://evil.example")], 403),
        ] {
            let response = ask_path(&served, route, &path, &headers).await;
            assert_eq!(response.status(), expected, "{route:?} {headers:?}");
        }
        let good = ask_path(&served, route, &path, &[("authorization", "Bearer ann-token")]).await;
        // A binding that the agent lacks is served by the gateway: without a version no task can be read, and none can
        // be posted to.
        let expected = match route.method {
            "GET" if route.path.ends_with("{*call}") => 400,
            _ if route.path.ends_with("{*call}") => 404,
            _ => 200,
        };
        assert_eq!(good.status(), expected, "{route:?}: {good:?}");
    }
}

//! The documentation matches the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aqueduct_gateway::config::reference;
use aqueduct_gateway::serve::routes::ROUTES;
use aqueduct_gateway::source::script;
use bytes::Bytes;
use http::Request;

use crate::program::root;
use crate::serve::support::serve;

/// The tables between the marks of a page are those of the code. `UPDATE_EXPECT=1` writes them.
pub(crate) fn page_has(page: &str, mark: &str, tables: &str) {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(&begin).expect("the mark before the tables");
    let (written, tail) = rest.split_once(&end).expect("the mark after the tables");
    if written == tables {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{head}{begin}{tables}{end}{tail}")).unwrap();
        return;
    }
    panic!("{page} is not what the code says: run the test with UPDATE_EXPECT=1");
}

/// Every key is documented with its kind and default, and every documented key exists.
#[test]
fn configuration_md_lists_every_key() {
    page_has("docs/configuration.md", "keys", &reference());
}

/// Every number, size and duration of the configuration is a limit, and the page of limits has all of them.
#[test]
fn limits_md_lists_every_limit() {
    let all = reference();
    let is_limit = |row: &&str| {
        let kind = row.split(" | ").nth(1).unwrap_or_default();
        ["a whole number", "a size in bytes", "a duration"].iter().any(|limit| kind.starts_with(limit))
    };
    let rows: Vec<&str> = all.lines().filter(|line| line.starts_with("| `")).filter(is_limit).collect();
    assert!(rows.len() > 40, "{}", rows.len());
    let table = format!("\n| key | what | default | meaning |\n|---|---|---|---|\n{}\n\n", rows.join("\n"));
    page_has("docs/reference/limits.md", "limits", &table);
}

/// The page of extensions names the URIs that the code declares.
#[test]
fn extensions_md_names_every_extension() {
    let page = fs::read_to_string(root().join("docs/reference/extensions.md")).unwrap();
    for uri in [aqueduct_adapter_a2a::mark::EXTENSION, aqueduct_adapter_a2a::frontend::EXTENSION] {
        assert!(page.contains(&format!("## `{uri}`")), "{uri}");
    }
}

/// The codes of failed runs that the crates declare, by the beginnings of their names.
fn failure_codes(folder: &Path, codes: &mut BTreeSet<String>) {
    let beginnings =
        ["upstream_", "agent_", "run_", "gateway_", "log_", "lane_", "state_", "limit_", "caller_"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            failure_codes(&path, codes);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let declared = text.lines().filter(|line| line.contains("const ") && line.contains("str = \""));
            let values = declared.filter_map(|line| line.split('"').nth(1));
            let is_code = |value: &&str| {
                beginnings.iter().any(|beginning| value.starts_with(beginning))
                    && !value.ends_with('_')
                    && value.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            codes.extend(values.filter(is_code).map(str::to_owned));
        }
    }
}

/// Every code of a failed run is explained.
#[test]
fn errors_md_explains_every_code() {
    let page = fs::read_to_string(root().join("docs/reference/errors.md")).unwrap();
    let mut codes = BTreeSet::new();
    for folder in ["core", "adapter-agui", "adapter-a2a", "adapter-magentic", "runs", "aqueduct", "gateway"] {
        failure_codes(&root().join(folder).join("src"), &mut codes);
    }
    assert!(codes.len() > 10, "{codes:?}");
    let missing: Vec<_> = codes.iter().filter(|code| !page.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/errors.md does not explain {missing:?}");
}

/// What a reader looks for, and the page that has the answer.
const QUESTIONS: [(&str, &str); 35] = [
    ("install it", "guides/install.md"),
    ("see it work in five minutes", "start.md"),
    ("show an A2A agent in CopilotKit", "guides/a2a-to-copilotkit.md"),
    ("show a supervisor's sub-agents", "supervisors.md"),
    ("show a MAF workflow", "guides/maf-workflow.md"),
    ("serve an own Rust agent", "guides/own-agent.md"),
    ("run several replicas", "scale-out.md"),
    ("run it on Kubernetes", "guides/kubernetes.md"),
    ("secure it", "security.md"),
    ("observe it", "operations.md"),
    ("use it from a frontend", "frontends.md"),
    ("migrate from another bridge", "guides/migrate.md"),
    ("look up a key", "configuration.md"),
    ("look up a command", "cli.md"),
    ("call it over HTTP", "transport-http.md"),
    ("call it over WebSocket", "websocket.md"),
    ("call it over gRPC", "grpc.md"),
    ("understand an error", "reference/errors.md"),
    ("look up a metric", "reference/metrics.md"),
    ("look up a limit", "reference/limits.md"),
    ("look up an extension URI", "reference/extensions.md"),
    ("compare it with others", "compare.md"),
    ("resume after a lost connection", "resume.md"),
    ("know whether a framework works", "frameworks.md"),
    ("look into a run", "inspector.md"),
    ("script an agent", "script.md"),
    ("call it over A2A", "a2a.md"),
    ("call it over A2A and gRPC", "a2a-grpc.md"),
    ("call it over AG-UI", "agui.md"),
    ("write events of a workflow", "magentic.md"),
    ("understand the model", "concepts/model.md"),
    ("understand deferred ends and lanes", "concepts/streams.md"),
    ("understand the log and takeover", "concepts/runs.md"),
    ("see how it is tested", "testing.md"),
    ("learn why it is as it is", "decisions/README.md"),
];

/// The pages that a page of `docs` links to, as paths below `docs`.
fn links_of(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let folder = Path::new(page).parent().unwrap();
    let resolve = |target: &str| {
        let mut path = std::path::PathBuf::new();
        for part in folder.join(target.split('#').next().unwrap()).components() {
            match part {
                std::path::Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
        }
        path.to_str().unwrap().to_owned()
    };
    let local = targets.filter(|target| !target.contains("://") && target.contains(".md"));
    local.map(resolve).filter(|path| root().join("docs").join(path).is_file()).collect()
}

/// Every question is answered within two clicks from the front page, without the table of contents beside it.
#[test]
fn answers_are_two_clicks_from_the_front_page() {
    let first = links_of("index.md");
    let reached: BTreeSet<String> =
        first.iter().flat_map(|page| links_of(page)).chain(first.clone()).collect();
    for (question, page) in QUESTIONS {
        assert!(
            reached.contains(page),
            "how do I {question}? docs/{page} is not two clicks from docs/index.md"
        );
    }
}

#[test]
fn script_md_lists_every_key() {
    page_has("docs/script.md", "keys", &script::reference());
}

/// The example of the page is a good script, and so are the scripts that are shipped.
#[test]
fn every_script_is_good() {
    let text = fs::read_to_string(root().join("docs/script.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    script::Script::parse(example).unwrap();
    for file in fs::read_dir(root().join("scripts")).unwrap() {
        script::Script::load(&file.unwrap().path()).unwrap();
    }
}

/// Keys that are mentioned in the prose or in the example exist.
#[test]
fn the_example_of_configuration_md_is_a_good_configuration() {
    let text = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let environment = [("GATEWAY_TOKEN", "a-token-0123456789"), ("WEATHER_TOKEN", "y")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = aqueduct_gateway::config::load(&root().join("aqueduct.toml"), example, environment);
    assert!(config.is_ok(), "{:#?}", config.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Requests and responses in `docs/resume.md` are those of the gateway.
#[tokio::test]
async fn the_examples_of_resume_md_are_true() {
    let text = fs::read_to_string(root().join("docs/resume.md")).unwrap();
    let script = crate::scratch::folder().join("resume-md.toml");
    fs::write(&script, "[[step]]\ntext = \"Hello to you.\"\n").unwrap();
    let served = serve(&format!("[agents.story]\nscript.file = \"{}\"\n", script.display()), &[]).await;
    let post = text.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let body: serde_json::Value = serde_json::from_str(post).unwrap();
    let answer = served.send(served.post("/agents/story", &body)).await;
    let answer = String::from_utf8(answer.body().to_vec()).unwrap();
    let shown = text.split(post).nth(1).unwrap().split("```").next().unwrap().trim_start_matches('\'').trim();
    assert!(answer.starts_with(shown), "{shown}\n---\n{answer}");

    let last = text.split("-H 'Last-Event-ID: ").nth(1).unwrap().split('\'').next().unwrap();
    let request = Request::get(served.url("/runs/r1/events")).header("last-event-id", last);
    let rest = served.send(request.body(Bytes::new()).unwrap()).await;
    assert_eq!(
        answer.split_once(&format!("id: {last}\n")).unwrap().1.split_once("\n\n").unwrap().1.as_bytes(),
        rest.body()
    );
}

/// Every route for people's programs is in the `OpenAPI` file, and every operation of the file is a route. gRPC has reflection,
/// and the routes of the inspector are its own.
#[test]
fn openapi_json_lists_every_route() {
    let text = fs::read_to_string(root().join("docs/reference/openapi.json")).unwrap();
    let api: serde_json::Value = serde_json::from_str(&text).unwrap();
    let described: BTreeSet<(String, String)> = api["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, operations)| {
            let operations = operations.as_object().unwrap().keys();
            operations.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let is_described = |path: &str| {
        let is_alias = path.ends_with('/') || path.ends_with("/agent.json");
        !is_alias && !path.starts_with("/inspector") && !path.contains("/{method}")
    };
    let served: BTreeSet<(String, String)> = ROUTES
        .iter()
        .filter(|route| is_described(route.path))
        .map(|route| (route.method.to_owned(), route.path.replace("{*call}", "{call}")))
        .collect();
    assert_eq!(described, served);
}

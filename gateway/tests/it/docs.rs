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
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("resume-md.toml");
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

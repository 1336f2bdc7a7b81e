//! The documentation says what the code does.

use std::fs;
use std::path::Path;

use aqueduct_gateway::config::reference;
use bytes::Bytes;
use http::Request;

use crate::program::root;
use crate::serve::support::serve;

/// Every key is documented with its kind and default, and every documented key exists: the tables of
/// `docs/configuration.md` are those of the code. `UPDATE_EXPECT=1` writes them.
#[test]
fn configuration_md_lists_every_key() {
    let path = root().join("docs/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("<!-- keys -->\n").expect("the mark before the tables");
    let (tables, tail) = rest.split_once("<!-- /keys -->").expect("the mark after the tables");
    if tables == reference() {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let updated = format!("{head}<!-- keys -->\n{}<!-- /keys -->{tail}", reference());
        fs::write(&path, updated).unwrap();
        return;
    }
    panic!("docs/configuration.md is not what the code says: run the test with UPDATE_EXPECT=1");
}

/// Keys that are mentioned in the prose or in the example exist.
#[test]
fn the_example_of_configuration_md_is_a_good_configuration() {
    let text = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let environment = [("GATEWAY_TOKEN", "x"), ("WEATHER_TOKEN", "y")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = aqueduct_gateway::config::load(&root().join("aqueduct.toml"), example, environment);
    assert!(config.is_ok(), "{:#?}", config.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// What `docs/resume.md` says is sent, is sent; and what it says is asked, is answered.
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

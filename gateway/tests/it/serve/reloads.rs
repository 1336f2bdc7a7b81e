//! Reloads: all of a configuration or nothing, and files that were renewed under the same name.

use std::path::{Path, PathBuf};

use aqueduct_gateway::config::{Config, load};
use aqueduct_gateway::service::Gateway;
use aqueduct_transport_http::tls::{Authorities, ClientTls};
use aqueduct_transport_http::{Client, ClientConfig};
use futures_util::StreamExt as _;
use http::Request;
use rcgen::KeyPair;

use super::support::{input, serve_gateway};

const SECRETS: [(&str, &str); 2] = [("OLD", "old-token-0123456789"), ("NEW", "new-token-0123456789")];

fn config(toml: &str) -> Config {
    let environment = SECRETS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = load(Path::new("aqueduct.toml"), toml, environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = crate::scratch::folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A key that does not fit its certificate is found after everything else was read: a token that the refused
/// configuration lacks stays valid, and its streams go on.
#[tokio::test]
async fn a_refused_certificate_revokes_no_token() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (chain, key) = (file("c.pem", &made.cert.pem()), file("k.pem", &made.signing_key.serialize_pem()));
    let script = file("slow.toml", "[[step]]\ntext = \"so far\"\n[[step]]\nsleep = \"1h\"\n");
    let toml = format!(
        "[server.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n[principals.ann]\ntoken = \"env:OLD\"\n\
         [agents.a.script]\nfile = \"{}\"\n",
        chain.display(),
        key.display(),
        script.display()
    );
    let served = serve_gateway(Gateway::new(config(&toml)).unwrap()).await;
    let authorities = Authorities::from_pem(made.cert.pem().as_bytes()).unwrap();
    let tls = ClientTls { authorities: Some(authorities), ..ClientTls::default() };
    let client = Client::new(ClientConfig { tls, ..ClientConfig::default() }).unwrap();
    let post = |path: &str, body: String| {
        Request::post(format!("https://localhost:{}{path}", served.address.port()))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .header("authorization", format!("Bearer {}", SECRETS[0].1))
            .body(body.into())
            .unwrap()
    };
    let run = post("/agents/a", input("r", Some("1.0")).to_string());
    let mut stream = client.open_stream(run).await.unwrap();
    stream.next().await.unwrap().unwrap();

    // The check of the configuration has passed when the key is replaced.
    let next = config(&toml.replace("env:OLD", "env:NEW"));
    std::fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let refused = served.gateway.reload(next).unwrap_err();
    assert!(format!("{refused:#}").contains("server.tls"), "{refused:#}");

    let cancelled = client.request(post("/runs/r/cancel", String::new())).await.unwrap();
    assert_eq!(cancelled.status(), 200, "the old token is still valid");
    let mut last = String::new();
    while let Some(event) = stream.next().await {
        last = event.expect("the stream is not cut").data.to_string();
    }
    assert!(last.contains("RUN_FINISHED") || last.contains("RUN_ERROR"), "{last}");
}

/// An agent whose key for cards was renewed is built again; one whose files are the same keeps its state.
#[tokio::test]
async fn a_renewed_card_key_is_read_again() {
    let pem = || KeyPair::generate().unwrap().public_key_pem();
    let key = file("card.pem", &pem());
    let toml = format!(
        "[agents.a]\na2a.url = \"http://127.0.0.1:1\"\ncard_keys = [\"{}\"]\n[agents.b.agui]\nurl = \"http://127.0.0.1:1\"\n",
        key.display()
    );
    let gateway = Gateway::new(config(&toml)).unwrap();
    assert_eq!(gateway.reload(config(&toml)).unwrap().changed, Vec::<String>::new());
    std::fs::write(&key, pem()).unwrap();
    assert_eq!(gateway.reload(config(&toml)).unwrap().changed, ["a"]);
}

//! Callers that log in: an issuer of OIDC with rotating keys, over every surface; and client certificates.

use std::sync::{Arc, Mutex};

use aqueduct_adapter_a2a::call::Call;
use aqueduct_core::RunId;
use aqueduct_transport_grpc::client::Token;
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::{Value, json};

use super::crossings;
use super::support::{Say, Served, Upstream, http as whole, input, serve};
use crate::program::root;

/// A key of the issuer.
pub(super) struct Key {
    id: &'static str,
    algorithm: Algorithm,
    pair: KeyPair,
}

impl Key {
    pub(super) fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let kind = if algorithm == Algorithm::EdDSA { &PKCS_ED25519 } else { &PKCS_ECDSA_P256_SHA256 };
        Self { id, algorithm, pair: KeyPair::generate_for(kind).unwrap() }
    }

    pub(super) fn shown(&self) -> Value {
        let raw = self.pair.public_key_raw();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        if self.algorithm == Algorithm::EdDSA {
            return json!({ "kty": "OKP", "crv": "Ed25519", "x": text(raw), "kid": self.id, "use": "sig" });
        }
        let (x, y) = raw[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y), "kid": self.id, "alg": "ES256" })
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.to_owned());
        let der = self.pair.serialize_der();
        let key = match self.algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            _ => EncodingKey::from_ec_der(&der),
        };
        encode(&header, claims, &key).unwrap()
    }
}

/// An issuer: a discovery document and the keys that it shows now.
struct Issuer {
    upstream: Upstream,
    keys: Arc<Mutex<Vec<Value>>>,
}

impl Issuer {
    async fn new(keys: &[&Key]) -> Self {
        let shown = Arc::new(Mutex::new(keys.iter().map(|key| key.shown()).collect::<Vec<_>>()));
        let keys = Arc::clone(&shown);
        let upstream = Upstream::start(move |asked| {
            let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
            let body = if asked.head.starts_with("get /.well-known/openid-configuration") {
                json!({ "issuer": format!("http://{host}"), "jwks_uri": format!("http://{host}/keys") })
            } else {
                json!({ "keys": *keys.lock().unwrap() })
            };
            Say::Close(whole("200 OK", "application/json", &body.to_string()))
        })
        .await;
        Self { upstream, keys: shown }
    }

    fn show(&self, keys: &[&Key]) {
        *self.keys.lock().unwrap() = keys.iter().map(|key| key.shown()).collect();
    }

    fn claims(&self, subject: &str, more: &Value) -> Value {
        let mut claims = json!({
            "iss": self.upstream.url, "aud": ["aqueduct"], "sub": subject, "exp": now() + 600, "org": { "id": "acme" },
            "agents": "a b",
        });
        for (name, value) in more.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        claims
    }
}

pub(super) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

async fn gateway(issuer: &Issuer) -> Served {
    let script = format!("script.file = \"{}/scripts/demo-thinking.toml\"\n", root().display());
    let toml = format!(
        "[issuers.corp]\nissuer = \"{}\"\naudiences = [\"aqueduct\"]\ntenant_claim = \"org.id\"\nagents_claim = \"agents\"\n\
         leeway = \"1s\"\nroles_claim = \"roles\"\nadmin_role = \"root\"\n[agents.a]\n{script}[agents.c]\n{script}",
        issuer.upstream.url
    );
    serve(&toml, &[]).await
}

async fn run(served: &Served, token: &str, run: &str) -> Response<Bytes> {
    let mut request = served.post("/agents/a", &input(run, Some("1.0")));
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    served.send(request).await
}

async fn get(served: &Served, token: &str, path: &str) -> Response<Bytes> {
    let request = Request::get(served.url(path)).header("authorization", format!("Bearer {token}"));
    served.send(request.body(Bytes::new()).unwrap()).await
}

fn text(response: &Response<Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

#[tokio::test]
async fn callers_log_in_over_every_surface() {
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA] {
        let key = Key::new("k1", algorithm);
        let issuer = Issuer::new(&[&key]).await;
        let served = gateway(&issuer).await;
        let (ann, bob) =
            (key.sign(&issuer.claims("ann", &json!({}))), key.sign(&issuer.claims("bob", &json!({}))));
        assert_eq!(run(&served, &ann, "r").await.status(), 200);
        assert_eq!(get(&served, &ann, "/runs/r/events").await.status(), 200);
        assert_eq!(get(&served, &bob, "/runs/r/events").await.status(), 404);
        // Agents of the claim alone.
        let agents = text(&get(&served, &ann, "/agents").await);
        assert!(agents.contains("\"a\"") && !agents.contains("\"c\""), "{agents}");
        let grpc = async |token: &str| {
            let config = GrpcConfig { token: Some(Token::new(token).unwrap()), ..GrpcConfig::default() };
            let client = GrpcClient::connect(&served.url(""), config).await.unwrap();
            client.watch(&RunId::from("r"), 0).await.is_ok()
        };
        assert!(grpc(&ann).await && !grpc(&bob).await);
        let ws = async |token: &str| {
            let mut options = ConnectOptions::new(format!("ws://{}/ws", served.address));
            options.token = Some(token.to_owned());
            WsClient::connect(&options).await.unwrap().watch("r", 0).await.is_ok()
        };
        assert!(ws(&ann).await && !ws(&bob).await);
        let card = get(&served, &ann, "/a2a/a/.well-known/agent-card.json").await;
        assert_eq!(card.status(), 200);
        let card = get(&served, "nonsense", "/a2a/a/.well-known/agent-card.json").await;
        assert_eq!(card.status(), 401);
        log_in_over_a2a(&served, &ann, &bob).await;
    }
}

/// Ann's task is accessible to her in every binding and version, and to no other principal.
async fn log_in_over_a2a(served: &Served, ann: &str, bob: &str) {
    let endpoints = crossings::endpoints(served);
    let sent = crossings::a2a(served, &endpoints[0], &crossings::send("", ""), Some(ann)).await;
    let task = sent.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let get = Call::GetTask { id: task.clone(), history_length: None };
    for endpoint in &endpoints {
        let at = format!("{:?} {:?}", endpoint.binding, endpoint.version);
        let own = crossings::a2a(served, endpoint, &get, Some(ann)).await;
        assert!(own.contains(&task) && !own.contains("there is no task"), "{at}: {own}");
        let other = crossings::a2a(served, endpoint, &get, Some(bob)).await;
        assert!(other.contains("there is no task") || other.contains("-32001"), "{at}: {other}");
        let wrong = crossings::a2a(served, endpoint, &get, Some("nonsense")).await;
        assert!(wrong.starts_with("401") || wrong.starts_with("16 "), "{at}: {wrong}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_said() {
    let (key, other) = (Key::new("k1", Algorithm::ES256), Key::new("k1", Algorithm::ES256));
    let issuer = Issuer::new(&[&key]).await;
    let served = gateway(&issuer).await;
    let of = |more: Value| key.sign(&issuer.claims("ann", &more));
    let unsigned = {
        let token = of(json!({}));
        let (head, _) = token.rsplit_once('.').unwrap();
        format!("{head}.")
    };
    for (token, says) in [
        (of(json!({ "exp": 1_300_819_380 })), "the token expired at 2011-03-22T18:43:00Z"),
        (of(json!({ "exp": null })), "has no claim `exp`"),
        (of(json!({ "sub": null })), "has no claim `sub`"),
        (of(json!({ "org": null })), "has no claim `org.id`"),
        (of(json!({ "aud": null })), "`aud`"),
        (of(json!({ "aud": "another" })), "`aud`"),
        (of(json!({ "nbf": now() + 600 })), "not valid yet"),
        (of(json!({ "iss": "http://elsewhere" })), "unknown token"),
        (other.sign(&issuer.claims("ann", &json!({}))), "unknown token"),
        (unsigned, "unknown token"),
    ] {
        let refused = run(&served, &token, "r").await;
        assert_eq!(refused.status(), 401, "{says}");
        assert!(text(&refused).contains(says), "{says}: {}", text(&refused));
    }
}

/// A new key is followed at once; a key that is withdrawn revokes what it signed.
#[tokio::test]
async fn keys_rotate() {
    let (old, new) = (Key::new("k1", Algorithm::ES256), Key::new("k2", Algorithm::EdDSA));
    let issuer = Issuer::new(&[&old]).await;
    let served = gateway(&issuer).await;
    let token = |key: &Key| key.sign(&issuer.claims("ann", &json!({})));
    assert_eq!(run(&served, &token(&old), "1").await.status(), 200);
    issuer.show(&[&old, &new]);
    assert_eq!(run(&served, &token(&new), "2").await.status(), 200, "fetched for the unknown key");
    assert_eq!(run(&served, &token(&old), "3").await.status(), 200, "both while they overlap");
    let made_up = Key::new("k3", Algorithm::ES256);
    issuer.show(&[&new]);
    assert_eq!(run(&served, &token(&made_up), "4").await.status(), 401, "a made-up key has the keys fetched");
    assert_eq!(run(&served, &token(&old), "5").await.status(), 401, "withdrawn");
    assert_eq!(get(&served, &token(&new), "/runs/1/events").await.status(), 200, "the same principal");
}

/// A stream ends when its token expires, and goes on with a new one.
#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let path = crate::scratch::folder().join("oidc-slow.toml");
    std::fs::write(&path, "[[step]]\ntext = \"so far\"\n[[step]]\nsleep = \"1h\"\n").unwrap();
    let key = Key::new("k1", Algorithm::ES256);
    let issuer = Issuer::new(&[&key]).await;
    let toml = format!(
        "[issuers.corp]\nissuer = \"{}\"\naudiences = [\"aqueduct\"]\nleeway = \"1s\"\n[agents.a]\nscript.file = \"{}\"\n",
        issuer.upstream.url,
        path.display()
    );
    let served = serve(&toml, &[]).await;
    let short = key.sign(&issuer.claims("ann", &json!({ "exp": now() + 1 })));
    let mut request = served.post("/agents/a", &input("r", Some("1.0")));
    request.headers_mut().insert("authorization", format!("Bearer {short}").parse().unwrap());
    let mut stream = served.client.open_stream(request).await.unwrap();
    let mut seen = 0;
    let end = loop {
        match stream.next().await {
            Some(Ok(_)) => seen += 1,
            end => break end,
        }
    };
    assert!(seen > 0 && end.is_some_and(|end| end.is_err()), "a stream that is cut is no whole stream");
    assert_eq!(get(&served, &short, "/runs/r/events").await.status(), 401);
    let long = key.sign(&issuer.claims("ann", &json!({})));
    let request = Request::get(served.url("/runs/r/events")).header("last-event-id", "r.1.1");
    let request = request.header("authorization", format!("Bearer {long}")).body(Bytes::new()).unwrap();
    let mut resumed = served.client.open_stream(request).await.unwrap();
    assert!(resumed.next().await.unwrap().is_ok(), "resumed with a new token");
}

/// Many tokens with a new key at once share two fetches, and leave room for the next rotation.
#[tokio::test]
async fn a_burst_of_tokens_with_a_new_key_does_not_use_up_the_fetches() {
    let keys = ["k1", "k2", "k3"].map(|id| Key::new(id, Algorithm::ES256));
    let mut issuer = Issuer::new(&[&keys[0]]).await;
    let served = gateway(&issuer).await;
    let token = |issuer: &Issuer, key: &Key| key.sign(&issuer.claims("ann", &json!({})));
    assert_eq!(get(&served, &token(&issuer, &keys[0]), "/agents").await.status(), 200);
    issuer.show(&[&keys[1]]);
    let new = token(&issuer, &keys[1]);
    let burst = (0..12).map(|_| get(&served, &new, "/agents"));
    for response in futures_util::future::join_all(burst).await {
        assert_eq!(response.status(), 200);
    }
    let fetches = std::iter::from_fn(|| issuer.upstream.asked.try_recv().ok());
    let fetches = fetches.filter(|asked| asked.head.starts_with("get /keys")).count();
    assert!((2..=3).contains(&fetches), "one at first, and at most two for the burst: {fetches}");
    issuer.show(&[&keys[2]]);
    assert_eq!(get(&served, &token(&issuer, &keys[2]), "/agents").await.status(), 200, "the next rotation");
}

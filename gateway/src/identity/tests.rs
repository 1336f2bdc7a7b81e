//! Callers with configured tokens, certificates and tokens of an issuer, and the keys of the issuer, on paused time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aqueduct_core::{Principal, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::{Value, json};
use tokio::time::advance;

use super::jwks::KeyStore;
use super::*;
use crate::config::{self, PrincipalConfig, Secret};

const ISSUER: &str = "https://issuer.example";
const ANN: &str = "the-token-of-ann";
const BOB: &str = "the-token-of-bob";
const MILLISECOND: Duration = Duration::from_millis(1);

/// A key of the issuer.
struct Key {
    id: &'static str,
    pair: KeyPair,
}

impl Key {
    fn new(id: &'static str) -> Self {
        Self { id, pair: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap() }
    }

    /// Returns the key as the issuer publishes it.
    fn shown(&self) -> Value {
        let (x, y) = self.pair.public_key_raw()[1..].split_at(32);
        let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.id })
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &EncodingKey::from_ec_der(&self.pair.serialize_der())).unwrap()
    }

    /// Returns a token of a subject that is valid for ten minutes.
    fn token(&self, subject: &str) -> String {
        self.sign(&claims(subject, &json!({})))
    }
}

/// Returns the claims of a valid token with some of them replaced, or removed if the value is null.
fn claims(subject: &str, others: &Value) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": "aqueduct", "sub": subject, "exp": seconds() + 600 });
    for (name, value) in others.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// Returns the time of the system, by which the expiry of tokens is checked.
fn seconds() -> i64 {
    now().0 / 1000
}

/// Returns a duration that is a millisecond shorter.
fn just_before(duration: Duration) -> Duration {
    duration.saturating_sub(MILLISECOND)
}

/// The file with the keys that the issuer publishes.
struct KeysFile(tempfile::TempDir);

impl KeysFile {
    fn new(keys: &[&Key]) -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        file.show(keys);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("keys.json")
    }

    fn show(&self, keys: &[&Key]) {
        std::fs::write(self.path(), set(keys)).unwrap();
    }

    /// Returns the configuration of an issuer with these keys.
    fn issuer(&self) -> String {
        format!(
            "[issuers.corp]\nissuer = \"{ISSUER}\"\naudiences = [\"aqueduct\"]\nalgorithms = [\"ES256\"]\nleeway = \"1s\"\n\
             refresh = \"15m\"\nroles_claim = \"roles\"\nadmin_role = \"root\"\nkeys_file = {:?}\n",
            self.path()
        )
    }

    fn identities(&self) -> Identities {
        identities(&self.issuer())
    }
}

fn set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.shown()).collect::<Vec<_>>() }).to_string()
}

/// Returns a configuration with these tables and two agents.
fn config(tables: &str) -> Config {
    let text = format!(
        "{tables}[agents.a]\nagui.url = \"https://a.example\"\n[agents.b]\nagui.url = \"https://b.example\"\n"
    );
    let environment = [("ANN", ANN), ("BOB", BOB)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    config::load(Path::new("aqueduct.toml"), &text, environment).unwrap()
}

fn identities(tables: &str) -> Identities {
    built(&config(tables))
}

fn built(config: &Config) -> Identities {
    Identities::new(config, std::iter::empty()).unwrap()
}

fn with_token(token: &str) -> Caller {
    Caller { token: Some(token.to_owned()), ..Caller::default() }
}

/// Returns the name of the principal that a token proves, or the message of the refusal.
fn checked(identities: &Identities, token: &str) -> String {
    named(identities.identify(&with_token(token)))
}

async fn fetched(identities: &Identities, token: &str) -> String {
    named(identities.authenticate(&with_token(token)).await)
}

fn named(identity: Result<Arc<Identity>, ServiceError>) -> String {
    identity.map_or_else(|refusal| refusal.message, |identity| identity.principal.to_string())
}

/// Returns a configuration in which agent `b` has a token of its own.
fn with_token_of_b() -> Config {
    let mut config = config("");
    config.agents.get_mut("b").unwrap().tokens = vec![Secret::new(ANN)];
    config
}

#[test]
fn a_proof_protects_all_agents_unless_it_is_the_token_of_one() {
    let keys = KeysFile::new(&[&Key::new("k")]);
    let server = "[server]\ntokens = [\"env:ANN\"]\n";
    let two = "[server]\ntokens = [\"env:ANN\", \"env:BOB\"]\n";
    let principal = "[principals.ann]\ntoken = \"env:ANN\"\n";
    let mut by_certificate = config("");
    let ann = PrincipalConfig { certificates: vec!["CN=ann".to_owned()], ..PrincipalConfig::default() };
    by_certificate.principals.insert("ann".to_owned(), ann);
    // Is open, protects `a`, protects `b`, is shared.
    for (name, config, expected) in [
        ("no proof", config(""), [true, false, false, false]),
        ("a token", config(server), [false, true, true, false]),
        ("two tokens", config(two), [false, true, true, true]),
        ("a principal", config(principal), [false, true, true, false]),
        ("a certificate", by_certificate, [false, true, true, false]),
        ("an issuer", config(&keys.issuer()), [false, true, true, true]),
        ("a token of an agent", with_token_of_b(), [false, false, true, true]),
    ] {
        let identities = built(&config);
        let found = [
            identities.is_open(),
            identities.protects("a"),
            identities.protects("b"),
            identities.is_shared(),
        ];
        assert_eq!(found, expected, "{name}");
        let anonymous = identities.identify(&Caller::default());
        assert_eq!(anonymous.is_ok(), !expected[1], "{name}");
        let anonymous = anonymous.unwrap_or_else(|_| Arc::clone(&identities.anonymous));
        let may_run = |agent| identities.may_run(&config, &anonymous, agent);
        assert_eq!([may_run("a"), may_run("b")], [!expected[1], !expected[2]], "{name}");
        let challenge = identities.challenge(&anonymous);
        assert_eq!(challenge.is_some(), !expected[0], "{name}: a proof gives access to more");
        let ann = Identity::new(Principal::new("", "ann").unwrap());
        assert_eq!(identities.challenge(&ann), None, "{name}");
        assert_eq!(identities.identify(&with_token("unknown")).is_ok(), expected[0], "{name}");
    }
}

#[test]
fn a_fan_out_requires_access_to_all_of_its_members() {
    let fan_out = "[server]\ntokens = [\"env:ANN\"]\n[agents.both]\nfan_out.agents = [\"a\", \"b\"]\n";
    let config = config(fan_out);
    let identities = built(&config);
    let may_run = |names: &[&str], agent: &str| {
        let mut identity = Identity::default();
        identity.agents = AgentGrant::Only(names.iter().map(|&name| name.to_owned()).collect());
        identities.may_run(&config, &identity, agent)
    };
    assert!(may_run(&["both", "a", "b"], "both"));
    assert!(!may_run(&["both", "a"], "both") && !may_run(&["a", "b"], "both"));
    assert!(may_run(&["a"], "a") && !may_run(&["b"], "a"));
}

#[test]
fn tokens_of_agents_and_principals_give_the_access_of_every_list_that_contains_them() {
    let mut config = config(
        "[server]\ntokens = [\"env:BOB\"]\n[principals.ann]\ntoken = \"env:ANN\"\nrole = \"admin\"\nagents = [\"a\"]\n",
    );
    for (agent, tokens) in [("a", vec!["one-agent", BOB]), ("b", vec!["two-agents", ANN])] {
        config.agents.get_mut(agent).unwrap().tokens = tokens.into_iter().map(Secret::new).collect();
    }
    config.agents.get_mut("a").unwrap().tokens.push(Secret::new("two-agents"));
    let identities = built(&config);
    let found = |token| {
        let identity = identities.identify(&with_token(token)).unwrap();
        [identity.may_run("a"), identity.may_run("b"), identity.may_run("c"), identity.is_admin]
    };
    assert_eq!(found("one-agent"), [true, false, false, false]);
    assert_eq!(found("two-agents"), [true, true, false, false]);
    assert_eq!(found(BOB), [true, true, true, false]);
    assert_eq!(found(ANN), [true, true, false, true]);
}

#[test]
fn a_proof_that_a_reload_removes_or_changes_is_revoked() {
    let of = |tables: &str| identities(&format!("[principals.bob]\ntoken = \"env:BOB\"\n{tables}"));
    let ann = "[principals.ann]\ntoken = \"env:ANN\"\n";
    for (tables, is_kept) in
        [(ann.to_owned(), true), (format!("{ann}agents = [\"a\"]\n"), false), (String::new(), false)]
    {
        let before = of(ann);
        let [ann, bob] = [ANN, BOB].map(|token| before.identify(&with_token(token)).unwrap());
        let mut after = of(&tables);
        after.replace(&before);
        assert_eq!(ann.revoked.is_cancelled(), !is_kept, "{tables}");
        assert!(!bob.revoked.is_cancelled());
        let verified = Caller { proof: Proof::Verified(ann), ..Caller::default() };
        assert_eq!(after.identify(&verified).is_ok(), is_kept, "{tables}");
    }
}

/// Returns a certificate (DER) with that common name, which expires at the begin of that year.
fn certificate(name: &str, year: i32) -> Bytes {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    Bytes::from(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec())
}

#[test]
fn a_certificate_proves_its_principal_until_it_expires() {
    let mut config = config("");
    let ann = PrincipalConfig { certificates: vec!["CN=ann".to_owned()], ..PrincipalConfig::default() };
    config.principals.insert("ann".to_owned(), ann);
    let identities = built(&config);
    let found = |name, year| {
        let caller = Caller { certificate: Some(certificate(name, year)), ..Caller::default() };
        named(identities.identify(&caller))
    };
    assert_eq!(found("ann", 4000), "ann");
    assert!(found("ann", 2001).contains("expired"));
    assert_eq!(found("eve", 4000), missing().message);
    let both = Caller { certificate: Some(certificate("ann", 4000)), ..with_token("unknown") };
    assert_eq!(named(identities.identify(&both)), "unknown token", "a token precedes a certificate");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_an_issuer_proves_its_subject() {
    let key = Key::new("k");
    let keys_file = KeysFile::new(&[&key]);
    let identities = keys_file.identities();
    let token = key.token("ann");
    assert!(checked(&identities, &token).contains("no key with that id"), "no key was fetched");
    assert_eq!(fetched(&identities, &token).await, "corp|ann");
    let find = |token: &str| identities.identify(&with_token(token)).unwrap();
    assert!(Arc::ptr_eq(&find(&token), &find(&token)), "the signature is verified once");
    let expiry = jwt::claims_of(&token).and_then(|claims| claims["exp"].as_i64()).unwrap();
    assert_eq!(find(&token).expires_at, Some(Timestamp((expiry + 1) * 1000)), "a second of leeway");
    for (roles, is_admin) in [(json!("root"), true), (json!(["user"]), false), (Value::Null, false)] {
        let token = key.sign(&claims("ann", &json!({ "roles": roles })));
        assert_eq!(find(&token).is_admin, is_admin, "{roles}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_token_is_refused_with_what_is_wrong_with_it() {
    let key = Key::new("k");
    let keys_file = KeysFile::new(&[&key]);
    let identities = keys_file.identities();
    assert_eq!(fetched(&identities, &key.token("ann")).await, "corp|ann");
    let past = seconds() - 100;
    for (others, message) in [
        (json!({ "exp": past }), "the token expired at 20"),
        (json!({ "nbf": past + 600 }), "not valid yet"),
        (json!({ "aud": "another" }), "not for this audience"),
        (json!({ "aud": null }), "no claim `aud`"),
        (json!({ "exp": null }), "no claim `exp`"),
        (json!({ "sub": null }), "no claim `sub`"),
        (json!({ "iss": "https://another.example" }), "unknown token"),
        (json!({ "nbf": "soon" }), "`nbf` of the token is not a number"),
    ] {
        let refused = checked(&identities, &key.sign(&claims("ann", &others)));
        assert!(refused.contains(message), "{others}: {refused}");
    }
    let same_id = Key::new("k").token("ann");
    assert_eq!(checked(&identities, &same_id), "unknown token", "another key under the same id");
    let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let header = Header { kid: Some("k".to_owned()), ..Header::new(Algorithm::EdDSA) };
    let ed = EncodingKey::from_ed_der(&ed.serialize_der());
    let other_algorithm = encode(&header, &claims("ann", &json!({})), &ed).unwrap();
    assert!(checked(&identities, &other_algorithm).contains("algorithm"));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_verified_by_the_issuer_that_it_names() {
    let keys = [Key::new("k"), Key::new("k")];
    let files = keys.each_ref().map(|key| KeysFile::new(&[key]));
    let other = "https://other.example";
    let other_issuer = files[1].issuer().replace("issuers.corp", "issuers.other").replace(ISSUER, other);
    let identities = identities(&format!("{}{other_issuer}", files[0].issuer()));
    assert_eq!(fetched(&identities, &keys[0].token("ann")).await, "corp|ann");
    let of_other = claims("ann", &json!({ "iss": other }));
    assert_eq!(fetched(&identities, &keys[1].sign(&of_other)).await, "other|ann");
    assert_eq!(fetched(&identities, &keys[0].sign(&of_other)).await, "unknown token");
}

#[tokio::test(start_paused = true)]
async fn every_key_of_the_same_id_is_tried() {
    let keys = [Key::new("k"), Key::new("k")];
    let keys_file = KeysFile::new(&[&keys[0], &keys[1]]);
    let identities = keys_file.identities();
    for key in &keys {
        assert_eq!(fetched(&identities, &key.token("ann")).await, "corp|ann");
    }
}

#[tokio::test(start_paused = true)]
async fn an_issuer_whose_configuration_is_unchanged_keeps_its_keys_in_a_reload() {
    let key = Key::new("k");
    let keys = KeysFile::new(&[&key]);
    let same = keys.issuer();
    let other_name = same.replace("issuers.corp", "issuers.other");
    let other_role = same.replace("\"root\"", "\"ops\"");
    for (tables, is_kept) in [(&same, true), (&other_name, false), (&other_role, false)] {
        let before = keys.identities();
        let token = key.token("ann");
        let ann = before.authenticate(&with_token(&token)).await.unwrap();
        let mut after = identities(tables);
        after.replace(&before);
        assert_eq!(ann.revoked.is_cancelled(), !is_kept, "{tables}");
        assert_eq!(after.identify(&with_token(&token)).is_ok(), is_kept, "{tables}");
        assert_eq!(before.issuers.of(&token).unwrap().verify(&token).is_ok(), is_kept, "{tables}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_reads_the_keys_file_again_also_within_the_pause_after_a_failure() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let keys = KeysFile::new(&[&old]);
    let before = keys.identities();
    let token = old.token("ann");
    let ann = before.authenticate(&with_token(&token)).await.unwrap();
    let reload = |before: &Identities| {
        let mut after = keys.identities();
        after.replace(before);
        after
    };
    let unchanged = reload(&before);
    advance(Duration::from_mins(1)).await;
    assert!(!ann.revoked.is_cancelled(), "the issuer still publishes the key");
    std::fs::write(keys.path(), "no keys").unwrap();
    assert!(checked(&unchanged, &new.token("bob")).contains("no key with that id"));
    fetched(&unchanged, &new.token("bob")).await;
    keys.show(&[&new]);
    let renewed = reload(&unchanged);
    advance(MILLISECOND).await;
    assert!(ann.revoked.is_cancelled(), "the key of the identity is withdrawn");
    assert_eq!(checked(&renewed, &new.token("bob")), "corp|bob");
}

#[test]
fn keys_are_fetched_again_only_if_a_file_has_other_content() {
    let keys = KeysFile::new(&[&Key::new("old")]);
    let first = store(&keys);
    assert!(!first.renew(&store(&keys)));
    keys.show(&[&Key::new("new")]);
    assert!(first.renew(&store(&keys)));
    assert!(!first.renew(&store(&keys)), "the content is known");
}

#[tokio::test(start_paused = true)]
async fn made_up_key_ids_do_not_delay_the_fetch_of_a_reload() {
    let keys = KeysFile::new(&[&Key::new("old")]);
    let store = store(&keys);
    for _ in 0..10 {
        store.refresh().await;
        advance(MILLISECOND).await;
    }
    keys.show(&[&Key::new("new")]);
    store.refresh().await;
    assert_eq!(count(&store, Some("new")), 0, "the limit per minute is reached");
    store.refresh_at_once().await;
    assert_eq!(count(&store, Some("new")), 1);
}

#[tokio::test(start_paused = true)]
async fn an_identity_is_revoked_with_the_key_that_proved_it() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let keys = KeysFile::new(&[&old]);
    let identities = keys.identities();
    let token = old.token("ann");
    let ann = identities.authenticate(&with_token(&token)).await.unwrap();
    keys.show(&[&old, &new]);
    advance(MILLISECOND).await;
    assert_eq!(fetched(&identities, &new.token("bob")).await, "corp|bob");
    assert!(!ann.revoked.is_cancelled(), "the issuer still publishes the key");
    identities.issuers.all()[0].publish(jwks::parse(set(&[&new]).as_bytes()).unwrap());
    assert!(ann.revoked.is_cancelled());
    assert!(checked(&identities, &token).contains("no key with that id"));
    identities.issuers.all()[0].publish(jwks::parse(set(&[&old]).as_bytes()).unwrap());
    let again = identities.identify(&with_token(&token)).unwrap();
    assert!(!again.revoked.is_cancelled(), "a key that is published again is another key");
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_fetched_again_beside_the_request() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let keys = KeysFile::new(&[&old]);
    let identities = keys.identities();
    assert_eq!(fetched(&identities, &old.token("ann")).await, "corp|ann");
    keys.show(&[&old, &new]);
    let is_new_known = || checked(&identities, &new.token("bob")) == "corp|bob";
    advance(just_before(Duration::from_mins(15))).await;
    assert_eq!(fetched(&identities, &old.token("ann")).await, "corp|ann");
    tokio::task::yield_now().await;
    assert!(!is_new_known(), "the keys are not old enough");
    advance(MILLISECOND).await;
    assert_eq!(fetched(&identities, &old.token("ann")).await, "corp|ann");
    tokio::task::yield_now().await;
    assert!(is_new_known());
}

/// Returns the keys of the issuer, and a function that counts those of an id.
fn store(keys: &KeysFile) -> KeyStore {
    KeyStore::new(&config(&keys.issuer()).issuers["corp"]).unwrap()
}

fn count(store: &KeyStore, id: Option<&str>) -> usize {
    store.find(id, Algorithm::ES256).len()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_found_by_its_id_and_algorithm() {
    let keys = KeysFile::new(&[&Key::new("one"), &Key::new("two")]);
    let store = store(&keys);
    store.refresh().await;
    assert_eq!([count(&store, None), count(&store, Some("one")), count(&store, Some("other"))], [2, 1, 0]);
    assert!(store.find(None, Algorithm::RS256).is_empty());
    assert!(store.find(Some("one"), Algorithm::RS256).is_empty());
    let all = store.find(None, Algorithm::ES256);
    store.revoke_all();
    assert!(all.iter().all(|key| key.revoked.is_cancelled()));
    assert_eq!(count(&store, None), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_a_fetch_does_not_fetch_again() {
    let (one, two) = (Key::new("one"), Key::new("two"));
    let keys = KeysFile::new(&[&one]);
    let store = store(&keys);
    assert!(store.is_stale(), "no key was fetched yet");
    store.refresh().await;
    assert!(!store.is_stale());
    keys.show(&[&one, &two]);
    store.refresh().await;
    assert_eq!(count(&store, None), 1, "called when the last fetch began");
    advance(MILLISECOND).await;
    store.refresh().await;
    assert_eq!(count(&store, None), 2, "called after it");
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_old_keys_stay_and_the_pause_doubles() {
    let (one, two) = (Key::new("one"), Key::new("two"));
    let keys = KeysFile::new(&[&one]);
    let store = store(&keys);
    store.refresh().await;
    advance(Duration::from_mins(1)).await;
    std::fs::remove_file(keys.path()).unwrap();
    for pause in [1, 2, 4] {
        store.refresh().await;
        advance(just_before(Duration::from_secs(pause))).await;
        assert!(!store.is_stale(), "within the pause of {pause} s");
        advance(MILLISECOND).await;
        assert!(store.is_stale());
        assert_eq!(count(&store, None), 1);
    }
    store.refresh().await;
    keys.show(&[&one, &two]);
    advance(just_before(Duration::from_secs(8))).await;
    store.refresh().await;
    assert_eq!(count(&store, None), 1, "within the pause");
    advance(MILLISECOND).await;
    store.refresh().await;
    assert_eq!(count(&store, None), 2);
}

#[test]
fn a_key_set_is_checked_with_the_configuration() {
    assert!(check_keys(set(&[&Key::new("k")]).as_bytes()).is_ok());
    assert!(check_keys(b"{}").is_err());
}

//! The keys of an issuer: from a file, from an address, or from the address that its discovery document names.
//!
//! ```text
//! empty ── first token ──► fetched ── `refresh` has passed, or an unknown `kid` ──► fetched again
//!                             ▲  │ failure: the old keys stay                           │
//!                             └──┴─────────── not before the pause is over ◄────────────┘
//! ```
//!
//! Only one fetch runs at a time: callers that need keys wait for it, and share the next one. After a failure the pause doubles, up to
//! [`LONGEST_PAUSE`]; without a failure there are at most [`PER_MINUTE`] fetches per minute, so that made-up key ids
//! cost an issuer little. A reload that finds other content in a file of the issuer fetches at once, whatever the pause and the limit.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Client, ClientConfig, ClientLimits, ClientTimeouts};
use bytes::Bytes;
use http::Request;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config::Issuer as IssuerConfig;
use crate::tls;

/// Fetches within [`MINUTE`], for unknown key ids: the keys of an issuer that rotates are fetched at once, and made-up
/// ids cause few requests to it.
const PER_MINUTE: u32 = 5;
/// The interval in which fetches are counted.
const MINUTE: Duration = Duration::from_mins(1);
/// The pause after a first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The timeout of one fetch.
const FETCH: Duration = Duration::from_secs(5);
/// The largest key set or discovery document, in bytes.
const DOCUMENT: usize = 1 << 20;

/// A key of an issuer. Identities that it proved share its revocation token.
pub(super) struct VerifyingKey {
    /// The id (`kid`) by which tokens name the key.
    id: Option<String>,
    /// The algorithms that the key may verify; never empty.
    algorithms: Vec<Algorithm>,
    /// The key as published: a key whose published form changes is another key.
    shown: Value,
    pub(super) key: DecodingKey,
    /// Cancelled when the issuer withdraws the key.
    pub(super) revoked: CancelToken,
}

aqueduct_core::debug_fields!(VerifyingKey { id });

/// The source of the keys: `keys_file`, `keys_url`, or the discovery document of the issuer.
#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    Url(String),
    /// The URL of the issuer's discovery document.
    Discovery(String),
}

/// The client that fetches documents, and the fingerprint of the issuer's files before they were read.
#[derive(Debug, Clone)]
struct Access {
    client: Client,
    files: u64,
}

/// The keys of one issuer, and when to fetch them again.
pub(super) struct KeyStore {
    source: Source,
    /// Replaced by a reload that finds other content in the files.
    access: RwLock<Access>,
    refresh: Duration,
    /// Read by every verification; written by a fetch that succeeded.
    keys: RwLock<Vec<Arc<VerifyingKey>>>,
    /// Held during a fetch, so that callers which need keys wait for the same fetch.
    fetched: Mutex<Fetched>,
}

aqueduct_core::debug_fields!(KeyStore { source });

/// The history of fetches, by which the next one is limited.
#[derive(Debug, Default)]
struct Fetched {
    /// The earliest time of the next fetch.
    next: Option<Instant>,
    /// The start of the last fetch that succeeded.
    begun: Option<Instant>,
    /// The time at which the keys become stale.
    stale: Option<Instant>,
    /// Failures since the last success; the pause doubles with each.
    failures: u32,
    /// The start of the current counting interval, and the number of fetches in it.
    counted: Option<(Instant, u32)>,
}

impl Fetched {
    /// Counts a fetch. Returns `false` if the limit per minute is reached or the pause after a failure is not over.
    fn begin(&mut self, now: Instant) -> bool {
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        let (since, count) = self.counted.filter(|(since, _)| now < *since + MINUTE).unwrap_or((now, 0));
        self.counted = Some((since, count + 1));
        count < PER_MINUTE
    }
}

impl KeyStore {
    /// Returns a store without keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the TLS files for the connection to the issuer cannot be read.
    pub(super) fn new(config: &IssuerConfig) -> anyhow::Result<Self> {
        let source = match (&config.keys_file, &config.keys_url) {
            (Some(file), _) => Source::File(file.clone()),
            (None, Some(url)) => Source::Url(url.clone()),
            (None, None) => {
                let base = config.issuer.trim_end_matches('/');
                Source::Discovery(format!("{base}/.well-known/openid-configuration"))
            }
        };
        let files = tls::fingerprint(tls::files_of_issuer(config));
        let client = Client::new(ClientConfig {
            limits: ClientLimits { body_bytes: DOCUMENT, ..ClientLimits::default() },
            timeouts: ClientTimeouts {
                connect: FETCH,
                response: FETCH,
                body: FETCH,
                ..ClientTimeouts::default()
            },
            tls: tls::of_client(config.tls.as_ref()).context("tls")?,
            ..ClientConfig::default()
        })?;
        let access = RwLock::new(Access { client, files });
        let (keys, fetched) = (RwLock::default(), Mutex::default());
        Ok(Self { source, access, refresh: config.refresh, keys, fetched })
    }

    fn access(&self) -> Access {
        self.access.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the client of `renewed`, a store of the same configuration, if the files have other content than before. Returns
    /// `true` if so: the keys must be fetched again.
    pub(super) fn renew(&self, renewed: &Self) -> bool {
        let renewed = renewed.access();
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut access.files, renewed.files) != renewed.files && {
            access.client = renewed.client;
            true
        }
    }

    /// Fetches the keys although a pause is not over or the limit per minute is reached: the failure may have been caused by a
    /// file that was renewed, and tokens with made-up key ids must not delay a reload.
    pub(super) async fn refresh_at_once(&self) {
        {
            let mut fetched = self.fetched.lock().await;
            (fetched.next, fetched.counted) = (None, None);
        }
        self.refresh().await;
    }

    /// Returns the keys that may have signed a token with that key id and algorithm; all keys of the algorithm if the
    /// token names no id.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Arc<VerifyingKey>> {
        let fits = |key: &&Arc<VerifyingKey>| {
            key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id)
        };
        self.keys.read().unwrap_or_else(PoisonError::into_inner).iter().filter(fits).cloned().collect()
    }

    /// Revokes all keys.
    pub(super) fn revoke_all(&self) {
        let keys = std::mem::take(&mut *self.keys.write().unwrap_or_else(PoisonError::into_inner));
        for key in keys {
            key.revoked.cancel();
        }
    }

    /// Returns `true` if the keys are older than `refresh` of the configuration, if they were never fetched, or if the
    /// pause after a failed fetch is over. Returns `false` while a fetch is under way, so that only one is started.
    pub(super) fn is_stale(&self) -> bool {
        self.fetched.try_lock().is_ok_and(|fetched| fetched.stale.is_none_or(|stale| stale <= Instant::now()))
    }

    /// Fetches the keys, unless the pause or the limit per minute forbids it. A failure is logged, and the old keys
    /// stay.
    ///
    /// Does nothing if a fetch that began during the call has succeeded: its keys are as new as those of another fetch
    /// would be. So a burst of callers costs at most two fetches: the one under way, which may be too old for the
    /// callers that wait, and the next one.
    pub(super) async fn refresh(&self) {
        let called = Instant::now();
        let mut fetched = self.fetched.lock().await;
        let now = Instant::now();
        if fetched.begun.is_some_and(|begun| called <= begun) || !fetched.begin(now) {
            return;
        }
        match self.fetch().await {
            Ok(set) => {
                self.replace(set);
                (fetched.begun, fetched.next, fetched.failures) = (Some(now), None, 0);
                fetched.stale = Some(Instant::now() + self.refresh);
            }
            Err(error) => {
                let pause =
                    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(fetched.failures)).min(LONGEST_PAUSE);
                fetched.failures = fetched.failures.saturating_add(1);
                fetched.next = Some(Instant::now() + pause);
                fetched.stale = fetched.next;
                tracing::warn!(source = ?self.source, ?pause, "the keys of an issuer cannot be fetched: {error:#}");
            }
        }
    }

    /// Keeps keys that the new set still contains, and revokes the others. A kept key keeps its revocation token, so
    /// that the streams of its identities continue.
    pub(super) fn replace(&self, set: Vec<VerifyingKey>) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *keys);
        for key in set {
            let same = before.iter().find(|old| old.shown == key.shown && !old.revoked.is_cancelled());
            keys.push(same.cloned().unwrap_or_else(|| Arc::new(key)));
        }
        for old in before.iter().filter(|old| !keys.iter().any(|key| Arc::ptr_eq(key, old))) {
            old.revoked.cancel();
        }
    }

    /// Reads the key set from its source.
    ///
    /// # Errors
    ///
    /// Returns an error if a document cannot be read or parsed, if it contains no usable key, or if a discovery
    /// document that was read over TLS names keys without TLS.
    async fn fetch(&self) -> anyhow::Result<Vec<VerifyingKey>> {
        let text = match &self.source {
            Source::File(path) => {
                Bytes::from(std::fs::read(path).with_context(|| path.display().to_string())?)
            }
            Source::Url(url) => self.get(url).await?,
            Source::Discovery(url) => {
                let document: Value = serde_json::from_slice(&self.get(url).await?).context("discovery")?;
                self.get(keys_url(url, &document)?).await?
            }
        };
        parse(&text)
    }

    /// Reads a document of at most [`DOCUMENT`] bytes. Redirects are not followed.
    async fn get(&self, url: &str) -> anyhow::Result<Bytes> {
        let request = Request::get(url).header("accept", "application/json").body(Bytes::new())?;
        let response = self.access().client.request(request).await?;
        anyhow::ensure!(response.status().is_success(), "{url} answers {}", response.status());
        Ok(response.into_body())
    }
}

/// Returns the address of the keys that the discovery document at `url` names.
///
/// # Errors
///
/// Returns an error if the document names none, or one without TLS although the document was read over TLS.
fn keys_url<'d>(url: &str, document: &'d Value) -> anyhow::Result<&'d str> {
    let keys = document
        .get("jwks_uri")
        .and_then(Value::as_str)
        .context("no `jwks_uri` in the discovery document")?;
    let is_downgrade = url.starts_with("https://") && !keys.starts_with("https://");
    anyhow::ensure!(!is_downgrade, "the discovery document names keys without TLS: {keys}");
    Ok(keys)
}

/// Parses a key set. Encryption keys, malformed keys and keys of unsupported types are omitted.
///
/// # Errors
///
/// Returns an error if no usable key remains.
pub(super) fn parse(text: &[u8]) -> anyhow::Result<Vec<VerifyingKey>> {
    let document: Value = serde_json::from_slice(text).context("not JSON")?;
    let keys = document.get("keys").and_then(Value::as_array).context("no list `keys`")?;
    let keys: Vec<VerifyingKey> = keys.iter().filter_map(key_of).collect();
    anyhow::ensure!(!keys.is_empty(), "no key that verifies signatures of RS256, ES256 or EdDSA");
    Ok(keys)
}

/// Parses one key. Each key is parsed alone, because one of an unknown type would make the parser refuse the whole set.
fn key_of(shown: &Value) -> Option<VerifyingKey> {
    let set: JwkSet = serde_json::from_value(serde_json::json!({ "keys": [shown] })).ok()?;
    let jwk: Jwk = set.keys.into_iter().next()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
        return None;
    }
    let algorithms = algorithms(&jwk)?;
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some(VerifyingKey {
        id: jwk.common.key_id,
        algorithms,
        shown: shown.clone(),
        key,
        revoked: CancelToken::new(),
    })
}

/// Returns the algorithms of a key: the one that it names, else those of its type.
fn algorithms(jwk: &Jwk) -> Option<Vec<Algorithm>> {
    use jsonwebtoken::jwk::AlgorithmParameters::{EllipticCurve, OctetKey, OctetKeyPair, RSA};
    use jsonwebtoken::jwk::EllipticCurve as Curve;
    let of_kind = match &jwk.algorithm {
        RSA(_) => vec![Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256],
        EllipticCurve(point) => match point.curve {
            Curve::P256 => vec![Algorithm::ES256],
            Curve::P384 => vec![Algorithm::ES384],
            _ => return None,
        },
        OctetKeyPair(_) => vec![Algorithm::EdDSA],
        // A shared secret cannot be an issuer's key: every verifier could sign with it.
        OctetKey(_) => return None,
    };
    let named = jwk.common.key_algorithm.map(|named: KeyAlgorithm| named.to_string());
    match named.and_then(|named| Algorithm::from_str(&named).ok()) {
        Some(named) => of_kind.contains(&named).then(|| vec![named]),
        None => Some(of_kind),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn ec(more: &Value) -> Value {
        let mut key = json!({
            "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            key[name] = value.clone();
        }
        key
    }

    fn algorithms_of(key: &Value) -> Option<Vec<Algorithm>> {
        let keys = parse(json!({ "keys": [key] }).to_string().as_bytes()).ok()?;
        keys.into_iter().next().map(|key| key.algorithms)
    }

    #[test]
    fn a_key_verifies_the_algorithms_of_its_type_or_the_one_it_names() {
        assert_eq!(algorithms_of(&ec(&json!({}))), Some(vec![Algorithm::ES256]));
        assert_eq!(
            algorithms_of(&ec(&json!({ "alg": "ES256", "use": "sig" }))),
            Some(vec![Algorithm::ES256])
        );
        assert_eq!(algorithms_of(&ec(&json!({ "alg": "RS256" }))), None, "an algorithm of another type");
        assert_eq!(algorithms_of(&ec(&json!({ "use": "enc" }))), None, "no key for signatures");
        let rsa = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" });
        let all = vec![Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256];
        assert_eq!(algorithms_of(&rsa), Some(all));
        assert_eq!(algorithms_of(&json!({ "kty": "oct", "k": "AAAA" })), None, "every verifier could sign");
    }

    #[test]
    fn a_set_without_a_usable_key_is_an_error_and_one_bad_key_is_not() {
        assert!(parse(b"[]").is_err() && parse(br#"{"keys":[]}"#).is_err());
        let set = json!({ "keys": [{ "kty": "EC" }, ec(&json!({ "kid": "a" }))] });
        let keys = parse(set.to_string().as_bytes()).unwrap();
        assert_eq!(keys.iter().map(|key| key.id.as_deref()).collect::<Vec<_>>(), [Some("a")]);
    }

    #[test]
    fn a_key_of_another_curve_verifies_the_algorithm_of_that_curve() {
        let p384 = json!({
            "kty": "EC", "crv": "P-384", "x": URL_SAFE_NO_PAD.encode([1; 48]), "y": URL_SAFE_NO_PAD.encode([2; 48]),
        });
        assert_eq!(algorithms_of(&p384), Some(vec![Algorithm::ES384]));
        let p521 = json!({ "kty": "EC", "crv": "P-521", "x": "AQAB", "y": "AQAB" });
        assert_eq!(algorithms_of(&p521), None);
    }

    #[test]
    fn a_discovery_document_over_tls_names_keys_over_tls() {
        let names = |url: &str, keys: &str| keys_url(url, &json!({ "jwks_uri": keys })).is_ok();
        assert!(names("https://a.example", "https://b.example/keys"));
        assert!(names("http://a.example", "http://b.example/keys"));
        assert!(names("http://a.example", "https://b.example/keys"));
        assert!(!names("https://a.example", "http://b.example/keys"));
        assert!(keys_url("https://a.example", &json!({})).is_err());
    }

    #[test]
    fn keys_are_fetched_five_times_a_minute_and_not_before_a_pause_is_over() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        for _ in 0..PER_MINUTE {
            assert!(fetched.begin(now));
        }
        assert!(!fetched.begin(now + MINUTE - Duration::from_millis(1)));
        assert!(fetched.begin(now + MINUTE), "the next minute");
        fetched.next = Some(now + 2 * MINUTE);
        assert!(!fetched.begin(now + 2 * MINUTE - Duration::from_millis(1)));
        assert!(fetched.begin(now + 2 * MINUTE));
    }
}
